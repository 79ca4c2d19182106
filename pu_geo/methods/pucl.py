"""PUCL and PUPL: contrastive embeddings, pseudo labels by clustering, a linear classifier; `fit` is Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.analysis.pupl import PuplResult, cluster_labels, pupl, two_means_miss
from pu_geo.losses.contrastive import pucl_loss, scl_pu_loss, sscl_loss
from pu_geo.methods.cards.pucl import PuclSettings
from pu_geo.methods.linear import fit_logistic
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.callbacks import chosen, evaluating, rows_to_judge
from pu_geo.training.contrastive import contrast, contrastive_learner
from pu_geo.training.data import Bools, Ints, PUData, epochs_within, n_batches
from pu_geo.training.heads import linear, projection_head
from pu_geo.training.loop import Training
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives, require_views
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

_LOSSES: dict[str, Callable[..., Tensor]] = {
    "pucl": pucl_loss,
    "scl_pu": scl_pu_loss,
    "sscl": lambda z1, z2, _, temperature: sscl_loss(z1, z2, temperature=temperature),
}


class PuclNetwork(nn.Module):
    """Encoder (g of the paper) and linear classifier; the projection head is not part of it."""

    def __init__(self, extractor: FeatureExtractor, settings: PuclSettings, generator: torch.Generator) -> None:
        super().__init__()
        dim = settings.embedding_dim
        self.trunk = extractor
        self.out = linear(extractor.out_dim, dim, generator) if dim else nn.Identity()
        self.classifier = linear(dim or extractor.out_dim, 1, generator)

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.out(self.trunk(inputs)))

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of damaged by the linear classifier on the unit embedding, float [B]."""
        return cast(Tensor, self.classifier(functional.normalize(self.represent(inputs), dim=1)))[:, 0]


@one_thread_on_features
def fit(data: PUData, settings: PuclSettings, run: Run) -> TrainedModel:
    """Learn embeddings from all chips, pseudo-label them, and train a linear classifier on the pseudo labels.

    Source: PUCL, Algorithm 1 (A), (B), (C).

    Args:
        data, settings: see the classes; at least 2 views where features are cached.
        run: each epoch reports loss.

    Returns:
        The model; findings: "pupl", the `PuplResult` of the trained rows, whose `oriented` is False where two clusters do
        not follow the positives; "pseudo_labels", float32 [M], what the classifier was taught.

    Raises:
        TrainingError: with fewer than 2 views, without positives or unlabeled chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: PUPL and the classifier work on unit-length embeddings, averaged over the views where
    features are cached. The classifier is L2-regularised: pseudo labels from two means are linearly separable, and
    without it cross-entropy has no minimum. Where two means do not follow the positives and many small clusters do,
    these give the pseudo labels (`pseudo_labels`; preset paper keeps two means). Preset quick trains a small network on
    frozen features, with AdamW.
    """
    rows = data.trained_rows
    require_views(data, "PUCL")
    require_positives(data, rows, "PUCL")
    network = PuclNetwork(new_extractor(data, rows, settings, run), settings, run.generator(0)).to(run.device)

    # A. Contrastive learning; the projection head is thrown away afterwards.
    n_steps = n_batches(len(rows), settings.batch_size)
    n_epochs = epochs_within(settings.epochs, settings.max_steps, n_steps)
    encoder = nn.Sequential(network.trunk, network.out)
    head = _projection_head(network.classifier.in_features, settings, run)
    learner = contrastive_learner(encoder, head, settings.optimizer, settings.lr, settings.weight_decay, n_epochs * n_steps)
    model = partial(_as_it_is, network, data, rows, settings, run)
    training = Training(run, learner, n_epochs, span=training_span(settings), model=model)
    loss_of = partial(_LOSSES[settings.loss], temperature=settings.temperature)
    contrast(training, learner, data, rows, loss_of, batch_size=settings.batch_size, stream=8)
    model_now = TrainedModel(network.eval(), network.trunk, check=run.stop_if_cancelled)
    embeddings = model_now.embed(data.inputs.array)[rows]
    return _classified(network, embeddings, data.is_positive[rows], settings, run)


def _classified(
    network: PuclNetwork, embeddings: NDArray[np.float32], positive: Bools, settings: PuclSettings, run: Run
) -> TrainedModel:
    """Do Algorithm 1(B) and (C), on embeddings of some chips, float32 [M, E]; the network's classifier is changed."""
    # B. Pseudo labels.
    clusters = pupl(embeddings, positive, seed=run.seed, n_seedings=settings.n_seedings, check=run.stop_if_cancelled)

    # C. The linear classifier.
    labels = _pseudo_labels(clusters, embeddings, positive, settings.pseudo_labels, run)
    inputs, targets = (torch.from_numpy(array).to(run.device) for array in (embeddings, labels))
    every = torch.full_like(targets, 1 / len(targets))
    slope, offset, _ = fit_logistic(inputs, targets, settings.classifier_l2, run, every)
    with torch.no_grad():
        network.classifier.weight.copy_(slope[None])
        network.classifier.bias.copy_(offset)
    return TrainedModel(network, network.trunk, {"pupl": clusters, "pseudo_labels": labels})


def _as_it_is(network: PuclNetwork, data: PUData, rows: Ints, settings: PuclSettings, run: Run) -> TrainedModel:
    """Return the model that a training under way would end with, its classifier taught by some of the chips alone."""
    shown = PuclNetwork(network.trunk, settings, torch.Generator())
    shown.out = network.out
    shown.to(run.device)
    some = rows_to_judge(data, rows)
    with evaluating(shown):
        embeddings = TrainedModel(shown, shown.trunk, check=run.stop_if_cancelled).embed(chosen(data.inputs, some))
    return _classified(shown, embeddings, data.is_positive[some], settings, replace(run, warnings=[]))


def _pseudo_labels(
    clusters: PuplResult, embeddings: NDArray[np.float32], positive: Bools, kind: str, run: Run
) -> NDArray[np.float32]:
    """Return what the classifier is taught, float32 [M]: two means' labels, or the chances that small clusters give."""
    hard = clusters.labels.astype(np.float32)
    if kind == "two_means":
        return hard
    many = cluster_labels(embeddings, positive, seed=run.seed, check=run.stop_if_cancelled)
    if kind == "auto":
        if not two_means_miss(embeddings, positive, many, seed=run.seed, check=run.stop_if_cancelled):
            return hard
        run.warnings.append(
            f"Two clusters do not follow your positives; {many.n_clusters} small ones do, and gave the pseudo labels."
        )
    return many.labels


def from_state(state: Mapping[str, Tensor], settings: PuclSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    return TrainedModel.loaded(PuclNetwork(empty_extractor(state, settings), settings, torch.Generator()), state, device)


def _projection_head(n_in: int, settings: PuclSettings, run: Run) -> nn.Module:
    """Two layers, with batch normalisation as in the paper (A.7), or plain ones where batches are small."""
    generator, hidden, n_out = run.generator(3), settings.projection_hidden, settings.projection_dim
    if settings.projection_norm:
        return projection_head(n_in, hidden, n_out, generator).to(run.device)
    first, last = linear(n_in, hidden, generator), linear(hidden, n_out, generator)
    return nn.Sequential(nn.ReLU(), first, nn.ReLU(), last).to(run.device)
