"""The network of a federation: how it starts at the leader, and which of its tensors are shared."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from pu_geo.federation.agreement import Agreement
from pu_geo.methods.fedaws import Embedder, Learner, Theta, theta_of
from pu_geo.training.heads import linear
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

_LOCAL = ("trunk.standardize.", "trunk.input_shape")
"""Beginnings of names in theta that stay where they are: each project standardises features by its own chips."""


def new_embedder(agreement: Agreement) -> Embedder:
    """Build the embedder of an agreement, on the CPU; all partners draw the same weights."""
    settings, run = agreement.settings, Run(torch.device("cpu"), agreement.seed)
    extractor = FeatureExtractor((agreement.features.n_features,), settings.backbone, settings.width, run.generator(5))
    return Embedder(extractor, linear(extractor.out_dim, settings.embedding_dim, run.generator(1)))


def start(agreement: Agreement) -> Learner:
    """Do line 2 of FedAwS, Algorithm 1: draw the theta that is shared, and unit rows of W, for the leader."""
    drawn = torch.randn(
        len(agreement.classes),
        agreement.settings.embedding_dim,
        generator=Run(torch.device("cpu"), agreement.seed).generator(11),
    )
    return Learner(shared_of(theta_of(new_embedder(agreement))), functional.normalize(drawn, dim=1))


def shared_of(theta: Mapping[str, Tensor]) -> Theta:
    """Return what of an embedder's weights and buffers is sent: all but the shape and the statistics of the features.

    These statistics are means and spreads over a project's chips. They stay local, as BatchNorm's do in federated averaging
    of clients whose data differ; the embedder has no other statistics, since it is trained on cached features.
    """
    return {name: tensor for name, tensor in theta.items() if not name.startswith(_LOCAL)}


def local_of(theta: Mapping[str, Tensor]) -> Theta:
    """Return what `shared_of` leaves out."""
    return {name: tensor for name, tensor in theta.items() if name.startswith(_LOCAL)}
