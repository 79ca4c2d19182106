"""What a propagated ranking learns from: the sides, how they look, its two regressions, and the share of damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.analysis.ranker import side_weights
from pu_geo.errors import TrainingError
from pu_geo.methods.cards.propagation import MOST_UNLABELED
from pu_geo.methods.linear import cross_fitted, fit_logistic, require_finite
from pu_geo.methods.propagation import neighbor_graph as graph
from pu_geo.methods.propagation.network import PropagationNetwork, roots_of, seen
from pu_geo.training.data import NOT_DAMAGED, PUData
from pu_geo.training.network import IMAGES_AT_ONCE
from pu_geo.training.run import Run

MOST_FOR_SHARE = 3000
"""Clicks, and unlabeled chips, that the share and held-out clicks are judged by."""
MIN_FOR_SHARE = 4
"""Fewer clicks cannot be held out in turn."""
SHARE_L2 = 1.0
"""Penalty of the fits that the share is estimated from; hardly matters, as their margins are calibrated."""


@dataclass(frozen=True)
class TrainingSplit:
    """Row numbers of the chips that are learned from, int64 each.

    Attributes:
        positive: clicked.
        unlabeled: nobody said anything of them; of very many, some.
        not_damaged: a person called them so.
        accepted: positives of accepted clusters, which nobody clicked.
    """

    positive: NDArray[np.int64]
    unlabeled: NDArray[np.int64]
    not_damaged: NDArray[np.int64]
    accepted: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """All, in this order."""
        return np.concatenate([self.positive, self.unlabeled, self.not_damaged, self.accepted])

    @property
    def ends(self) -> Tensor:
        """Where in `rows` each of them ends, int64 [4]."""
        sizes = [len(each) for each in (self.positive, self.unlabeled, self.not_damaged, self.accepted)]
        return torch.tensor(sizes).cumsum(0)


def sides_of(data: PUData, rows: NDArray[np.int64], run: Run) -> TrainingSplit:
    """Part the chips that may be trained on; of very many unlabeled ones some are drawn.

    Raises:
        TrainingError: if nothing was clicked, or nothing is unlabeled.
    """
    is_positive, is_known = data.is_positive[rows], data.classes[rows] == NOT_DAMAGED
    is_accepted = np.zeros_like(is_positive) if data.is_accepted is None else data.is_accepted[rows]
    unlabeled = rows[~is_positive & ~is_known]
    if not (is_positive & ~is_accepted).any():
        raise TrainingError(
            "The propagated ranking needs a clicked positive; all positives here are of accepted clusters.",
            "Mark damaged buildings on the Annotate page.",
            kind="positives",
        )
    if not len(unlabeled):
        raise TrainingError(
            f"The propagated ranking needs unlabeled buildings; all {len(rows)} here are marked.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )
    if len(unlabeled) > MOST_UNLABELED:
        drawn = torch.randperm(len(unlabeled), generator=run.generator(1))[:MOST_UNLABELED]
        unlabeled = np.sort(unlabeled[drawn.numpy()])
    return TrainingSplit(rows[is_positive & ~is_accepted], unlabeled, rows[is_known], rows[is_accepted])


@dataclass(frozen=True)
class Looks:
    """What is known of the chips that are learned from, in the order of `TrainingSplit.rows`.

    Attributes:
        standard, white: float32 [M, E].
        views: whitened views of the positives, float32 [V', P, E].
    """

    standard: Tensor
    white: Tensor
    views: Tensor
    sides: TrainingSplit

    @property
    def n_positive(self) -> int:
        return len(self.sides.positive)

    def fitted(self, rows: Tensor, l2: float, run: Run) -> tuple[Tensor, Tensor, float]:
        """Fit both regressions to some rows, int64 in rising order: slopes, plain and whitened, and the loss of the latter.

        Of the clicked ones the whitened regression sees every view, of all others their mean.
        """
        device = self.white.device
        kinds = torch.bucketize(rows, self.sides.ends, right=True)
        n_p, n_u, n_known, n_accepted = (int((kinds == kind).sum()) for kind in range(4))
        slopes, loss = [], 0.0
        mine, others = rows[:n_p].to(device), rows[n_p:].to(device)
        every_view = self.views[:, mine].flatten(0, 1)
        n_views = len(self.views)
        for n, positive, values in ((1, self.standard[mine], self.standard), (n_views, every_view, self.white)):
            weight = _weights(n_p, n, n_u, n_known, n_accepted).to(device)
            both = torch.cat([positive, values[others]])
            place = torch.arange(len(both), device=device)
            is_positive = (place < len(positive)) | (place >= len(both) - n_accepted)
            slope, _, loss = fit_logistic(both, is_positive, l2, run, weight)
            slopes.append(slope)
        return slopes[0], slopes[1], loss


def _weights(n_positive: int, n_views: int, n_unlabeled: int, n_known: int, n_accepted: int) -> Tensor:
    """Weigh views of the positives, unlabeled, not damaged and accepted chips, in this order, float32 of sum 1."""
    weights = side_weights(n_positive, n_unlabeled, n_known, n_accepted)
    clicked, accepted, rest = np.split(weights, [n_positive, n_positive + n_accepted])
    return torch.from_numpy(np.concatenate([np.repeat(clicked, n_views) / n_views, rest, accepted]))


def linear_features(network: PropagationNetwork, data: PUData, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Look at chips: features as cut and mean square roots, float32 [M, E] each.

    Raises:
        TrainingError: if a value is no finite number.
    """
    parts = [seen(network, _views(data, rows[part])) for part in graph.blocks(len(rows), _at_once(data))]
    plain, roots = (torch.cat(each) for each in zip(*parts, strict=True))
    require_finite(plain.isfinite().all(1) & roots.isfinite().all(1))
    return plain, roots


def _views(data: PUData, rows: NDArray[np.int64], most: int | None = None) -> NDArray[Any]:
    """Give views of some chips, at most so many, [V, B, ...]; of chips themselves there is one."""
    array = data.inputs.array
    return np.asarray(array[:most, rows] if len(data.inputs.shape) == 1 else array[rows][None])


def _at_once(data: PUData) -> int:
    return graph.BLOCK if len(data.inputs.shape) == 1 else IMAGES_AT_ONCE


@torch.no_grad()
def positive_views(network: PropagationNetwork, data: PUData, rows: NDArray[np.int64]) -> Tensor:
    """Whiten views of the clicked chips one by one, float32 [V', P, E]; of very many chips fewer views."""
    device, most, parts = network.turn.device, max(1, MOST_UNLABELED // max(len(rows), 1)), []
    for part in graph.blocks(len(rows), _at_once(data)):
        views = _views(data, rows[part], most)
        parts.append(
            torch.stack(
                [
                    network.whitened(roots_of(network.trunk.linear_features(torch.from_numpy(view).to(device))))
                    for view in views
                ]
            )
        )
    return torch.cat(parts, dim=1)


def estimated_share(looks: Looks, run: Run) -> float | None:
    """Estimate the damaged share of the unlabeled from both looks; None where there are too few clicks.

    Buildings of accepted clusters count as unlabeled: nobody clicked them, and clicks are an even draw of all damage.
    """
    n = looks.n_positive
    if n < MIN_FOR_SHARE or len(looks.sides.unlabeled) < MIN_FOR_SHARE:
        return None
    drawing, ends = run.generator(9), looks.sides.ends
    unclicked = torch.cat([torch.arange(int(ends[0]), int(ends[1])), torch.arange(int(ends[2]), int(ends[3]))])
    some = unclicked[torch.randperm(len(unclicked), generator=drawing)[:MOST_FOR_SHARE]]
    clicked = torch.arange(n) if n <= MOST_FOR_SHARE else torch.randperm(n, generator=drawing)[:MOST_FOR_SHARE]
    chosen = torch.cat([clicked, some]).to(looks.white.device)
    is_positive = torch.arange(len(chosen)) < len(clicked)
    found = []
    for values in (looks.standard, looks.white):
        margins = cross_fitted(values[chosen], is_positive, drawing, run, SHARE_L2)
        found.append(elkan_noto_of_margins(margins[: len(clicked)], margins[len(clicked) :]))
    return min(found)
