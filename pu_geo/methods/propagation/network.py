"""What a propagated ranking is once it has learned: its network, and how any chip is scored by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.propagation import neighbor_graph as graph
from pu_geo.training.network import IMAGES_AT_ONCE, FeatureExtractor, TrainedModel

FLOOR = 0.01
"""Added to every direction's variance before whitening, in mean variances."""

_NO_SPREAD = 1e-9
"""Largest variance below which all chips are taken for the same."""
_OF_ANCHORS = ("anchors", "reach", "degree", "values")


class PropagationNetwork(nn.Module):
    """All that a chip's score is worked out from.

    Attributes:
        plain_mean, plain_scale: of each column of the chips as they were cut, float32 [E].
        mean, scale: of the square roots of the features, averaged over views, float32 [E].
        turn: whitening, float32 [E, E], widest directions last.
        plain_slope, slope: of the two regressions, float32 [E].
        zeros, scale_of: origin and unit of the plain, the whitened and the propagated scores, float32 [3].
        anchors: unit embeddings, float32 [M, d]; with reach, degree and values, float32 [M], see `neighbor_graph`.
        spread: weight of the propagated scores, in [0, 1], float32 [1].
        cut: where a score of 0.5 lies, float32 [1].
    """

    plain_mean: Tensor
    plain_scale: Tensor
    mean: Tensor
    scale: Tensor
    turn: Tensor
    plain_slope: Tensor
    slope: Tensor
    zeros: Tensor
    scale_of: Tensor
    anchors: Tensor
    reach: Tensor
    degree: Tensor
    values: Tensor
    spread: Tensor
    cut: Tensor

    def __init__(self, trunk: FeatureExtractor, settings: PropagationSettings) -> None:
        super().__init__()
        self.trunk, self.settings = trunk, settings
        width, dim = trunk.out_dim, min(settings.embedding_dim, trunk.out_dim)
        for name in ("plain_mean", "mean", "plain_slope", "slope"):
            self.register_buffer(name, torch.zeros(width))
        for name in ("plain_scale", "scale"):
            self.register_buffer(name, torch.ones(width))
        self.register_buffer("turn", torch.eye(width))
        self.register_buffer("zeros", torch.zeros(3))
        self.register_buffer("scale_of", torch.ones(3))
        self.register_buffer("anchors", torch.zeros(0, dim))
        for name in ("reach", "degree", "values"):
            self.register_buffer(name, torch.ones(0))
        self.register_buffer("spread", torch.zeros(1))
        self.register_buffer("cut", torch.zeros(1))

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *others: Any) -> None:
        """Make room for as many anchors as there are: how many, only training tells."""
        for name in _OF_ANCHORS:
            found, own = state_dict.get(f"{prefix}{name}"), getattr(self, name)
            if found is not None and found.ndim == own.ndim and found.shape[1:] == own.shape[1:]:
                setattr(self, name, own.new_empty(found.shape))
        super()._load_from_state_dict(state_dict, prefix, *others)

    def require_sound(self) -> None:
        """Refuse numbers that no training leaves.

        Raises:
            ValueError: says which.
        """
        numbers = {name: getattr(self, name) for name in ("turn", "slope", "plain_slope", "zeros", "cut", *_OF_ANCHORS)}
        for name, values in numbers.items():
            if not values.isfinite().all():
                raise ValueError(f"{name} is not finite")
        sizes = {len(getattr(self, name)) for name in _OF_ANCHORS}
        if len(sizes) > 1 or not 1 <= max(sizes) <= self.settings.n_anchors:
            raise ValueError(f"{sorted(sizes)} anchors, where the settings allow {self.settings.n_anchors}")
        if not (self.degree > 0).all() or not (self.scale_of > 0).all() or not 0 <= float(self.spread) <= 1:
            raise ValueError("degree, scale_of or spread is out of its range")

    def whitened(self, roots: Tensor) -> Tensor:
        """Whiten square roots of features, averaged over views: float32 [B, E] to [B, E]."""
        return ((roots - self.mean) / self.scale) @ self.turn

    def embedded(self, white: Tensor) -> Tensor:
        """Embed whitened rows by their widest directions, float32 [B, d] of unit length."""
        return F.normalize(white[:, white.shape[1] - self.anchors.shape[1] :], dim=1)

    def plain_scores(self, plain: Tensor) -> Tensor:
        """Rank chips by the clicks as the instant ranker does: features as they were cut, float32 [B, E], to [B]."""
        margin = ((plain - self.plain_mean) / self.plain_scale) @ self.plain_slope
        return (margin - self.zeros[0]) / self.scale_of[0]

    def judged(self, plain: Tensor, roots: Tensor) -> Tensor:
        """Judge chips: features as cut and mean square roots, float32 [B, E] each, to scores in no unit, float32 [B]."""
        white = self.whitened(roots)
        narrow = (white @ self.slope - self.zeros[1]) / self.scale_of[1]
        share = float(self.spread)
        if share == 0:
            return narrow
        tied = graph.ties(self.embedded(white), self.anchors, self.reach, self.settings.n_neighbors)
        brought = graph.taken_from(tied, self.degree, self.values)
        wide = self.settings.propagation * brought + self.plain_scores(plain)
        return share * (wide - self.zeros[2]) / self.scale_of[2] + (1 - share) * narrow


def whitening(standard: Tensor, power: float) -> Tensor:
    """Return the matrix that divides each direction by its variance to a power, float32 [E, E], widest directions last.

    Scaled so that rows stay as long as they were. Directions in which no chip differs count for nothing.
    """
    columns = standard.cpu().double()
    variance, axes = torch.linalg.eigh(columns.T @ columns / len(columns))
    variance = variance.clamp_min(0)
    if variance.max() < _NO_SPREAD:
        return torch.zeros_like(axes, dtype=torch.float32).to(standard.device)
    raised = variance + FLOOR * variance.mean()
    factor = (raised / raised.max()) ** -power * (variance > 1e-6 * variance.max())
    length = ((columns @ (axes * factor)) ** 2).sum(1).mean()
    turn = axes * factor * (len(variance) / length.clamp_min(1e-12)).sqrt()
    return turn.float().contiguous().to(standard.device)  # as a model file holds it: other strides, other last bits


def roots_of(values: Tensor) -> Tensor:
    """Draw the square root, keeping the sign: large responses count less, as between histograms."""
    return values.sign() * values.abs().sqrt()


class PropagatedModel(TrainedModel):
    """A model that looks at the mean over views, and at the chip as it was cut."""

    wants_views = True

    def score(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Compute scores: inputs as in `TrainedModel.embed`, float32 [M] in [0, 1].

        As many of the unlabeled score above 0.5 as are estimated to be damaged, where there is an estimate.
        """
        network = self._network()
        return self._of_blocks(inputs, lambda plain, roots: torch.sigmoid((network.judged(plain, roots) - network.cut) / 2))

    def embed(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Compute embeddings: inputs as in `TrainedModel.embed`, float32 [M, d] of unit length."""
        network = self._network()
        return self._of_blocks(inputs, lambda _, roots: network.embedded(network.whitened(roots)))

    def _network(self) -> PropagationNetwork:
        assert isinstance(self.network, PropagationNetwork)
        return self.network

    @torch.inference_mode()
    def _of_blocks(self, inputs: NDArray[Any], answer: Callable[[Tensor, Tensor], Tensor]) -> NDArray[np.float32]:
        views, network = self._views_of(inputs), self._network()
        step = graph.BLOCK if views.ndim == 3 else IMAGES_AT_ONCE
        parts = [answer(*seen(network, views[:, part])).float().cpu() for part in graph.blocks(max(views.shape[1], 1), step)]
        return torch.cat(parts).numpy()


@torch.no_grad()
def seen(network: PropagationNetwork, views: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Look at views of some chips [V, B, ...]: the first one's features, and mean square roots, float32 [B, E] each."""
    device = network.turn.device
    looks = [network.trunk.linear_features(torch.from_numpy(np.array(view)).to(device)) for view in views]
    total = torch.zeros_like(looks[0])
    for look in looks:
        total += roots_of(look)
    return looks[0], total / len(looks)
