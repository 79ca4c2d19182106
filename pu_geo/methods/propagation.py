"""Propagated ranking: the default. A whitened linear ranking where damage is rare, scores that travel where it is common.

Two readings of the same frozen features. Both start from logistic regressions of clicks against the unlabeled; which one
counts is told by the damaged share, estimated from the clicks alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.analysis.balance import L2, l2_for_share, side_weights
from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.engine.data import NOT_DAMAGED, PUData
from pu_geo.engine.network import require_positives
from pu_geo.engine.run import Run
from pu_geo.engine.training import Training
from pu_geo.errors import TrainingError
from pu_geo.methods import neighbor_graph as graph
from pu_geo.methods.cards.propagation import MOST_UNLABELED, PropagationSettings
from pu_geo.methods.linear import N_FOLDS, cross_fitted, fit_logistic, statistics
from pu_geo.methods.pretraining import empty_trunk, new_trunk, training_span
from pu_geo.methods.propagation_network import PropagatedModel, PropagationNetwork, roots_of, seen, whitening

MOST_FOR_SHARE = 3000
"""Unlabeled chips that the share, and held-out clicks, are judged by."""
MIN_FOR_SHARE, SHARE_L2 = 4, 1.0
SHARE_PULL, CLICKS_PULL, MOST_DIFFERENCE = 2.0, 4.0, 1.0
"""How much the log share, and how much held-out clicks, move the weight of the propagated scores; see `fit`."""


@dataclass
class Learner:
    """What is trained."""

    network: PropagationNetwork


@dataclass(frozen=True)
class Sides:
    """Row numbers of the chips that are learned from, int64 each; not damaged are those that a person called so."""

    positive: NDArray[np.int64]
    unlabeled: NDArray[np.int64]
    not_damaged: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Positives first, then unlabeled, then not damaged."""
        return np.concatenate([self.positive, self.unlabeled, self.not_damaged])


def fit(data: PUData, settings: PropagationSettings, run: Run) -> PropagatedModel:
    """Rank by the clicks, whitened where damage is rare, propagated among chips that look alike where it is common.

    Source: ours. 1. Whitened: square roots of the features, averaged over views, every direction divided by the
    0.7th power of its standard deviation (`whitening` 0.35 of the variance); a logistic regression of every view of the
    positives against the unlabeled. 2. Propagated: the instant ranker's scores travel on a graph of nearest neighbors in the
    whitened space (Zhou et al. 2003). 3. Their scores are mixed. The damaged share is estimated (Elkan and Noto 2008) from
    the features as they are and whitened; both estimates come out too high where classes overlap, so the smaller one counts.
    Clicks are held out in turn: how many of the unlabeled come before a held-out click in each reading, its logarithm on
    average, tells which one finds damage that it was not told of. Weight of reading 2: logistic of 2 log(share / even_share)
    + 4 (difference of these averages, in -1..1).

    Args:
        data, settings: see the classes; chips that a person called not damaged are learned from, too.
        run: told once, when it is done: loss of the whitened regression, share, and spread, the weight of reading 2.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or if inputs are not finite.
        JobCancelled: if the user cancelled.
    """
    rows = data.trained_rows
    require_positives(data, rows, "The propagated ranking")
    sides = _sides(data, rows, run)
    trunk = new_trunk(data, rows, settings, run)
    n_anchors = min(settings.n_anchors, len(sides.rows))
    network = PropagationNetwork(trunk, settings, n_anchors).to(run.device).eval()
    model = PropagatedModel(network, trunk)
    for epoch in Training(
        run, Learner(network), 1, stage="fitting", span=training_span(settings), model=lambda: model
    ).epochs():
        with epoch:
            loss, share = _learn(network, data, sides, run)
            epoch.add({"loss": loss, "share": share, "spread": float(network.spread)})
            run.n_chips_seen += len(sides.rows)
    return model


def restored(state: Mapping[str, Tensor], settings: PropagationSettings, device: torch.device) -> PropagatedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    n_anchors = len(state["anchors"])
    if n_anchors > settings.n_anchors:
        raise ValueError(f"{n_anchors} anchors, where the settings allow {settings.n_anchors}")
    network = PropagationNetwork(empty_trunk(state, settings), settings, n_anchors)
    network.load_state_dict(dict(state))
    return PropagatedModel(network.to(device).eval(), network.trunk)


def _sides(data: PUData, rows: NDArray[np.int64], run: Run) -> Sides:
    """Part the chips that may be trained on; of very many unlabeled ones some are drawn."""
    is_positive, is_known = data.is_positive[rows], data.classes[rows] == NOT_DAMAGED
    unlabeled = rows[~is_positive & ~is_known]
    if len(unlabeled) > MOST_UNLABELED:
        drawn = torch.randperm(len(unlabeled), generator=run.generator(1))[:MOST_UNLABELED]
        unlabeled = np.sort(unlabeled[drawn.numpy()])
    return Sides(rows[is_positive], unlabeled, rows[is_known])


def _learn(network: PropagationNetwork, data: PUData, sides: Sides, run: Run) -> tuple[float, float]:
    """Fill the network; return the loss of the whitened regression, and the damaged share, 0 where it is unknown."""
    settings = network.settings
    plain, roots = _looked_at(network, data, sides.rows)
    network.plain_mean, network.plain_scale = statistics(plain)
    network.mean, network.scale = statistics(roots)
    network.turn = whitening((roots - network.mean) / network.scale, settings.whitening)
    looks = _Looks(
        (plain - network.plain_mean) / network.plain_scale, network.whitened(roots),
        _positive_views(network, data, sides.positive), sides,
    )  # fmt: skip
    share = settings.damaged_share or _estimated_share(looks, run)
    l2 = L2 if share is None else l2_for_share(share)
    every = torch.arange(len(plain))
    network.plain_slope, network.slope, loss = looks.fitted(every, l2, run)
    chosen = _set_anchors(network, looks, run)
    if share is not None:
        difference = _difference_held_out(network, looks, chosen, l2, run)
        pull = SHARE_PULL * math.log(max(share, 1e-6) / settings.even_share) + CLICKS_PULL * difference
        network.spread = torch.full_like(network.spread, 1 / (1 + math.exp(-pull)))
        network.cut = _cut(network, plain, roots, sides, share)
    return loss, share or 0.0


@dataclass(frozen=True)
class _Looks:
    """What is known of the chips that are learned from, in the order of `Sides.rows`.

    Attributes:
        standard, white: float32 [M, E].
        views: whitened views of the positives, float32 [V', P, E].
    """

    standard: Tensor
    white: Tensor
    views: Tensor
    sides: Sides

    @property
    def n_positive(self) -> int:
        return len(self.sides.positive)

    def fitted(self, rows: Tensor, l2: float, run: Run) -> tuple[Tensor, Tensor, float]:
        """Fit both regressions to some rows, int64 in rising order: slopes, plain and whitened, and the loss of the latter."""
        device, sides = self.white.device, self.sides
        kinds = torch.bucketize(rows, torch.tensor([self.n_positive, self.n_positive + len(sides.unlabeled)]), right=True)
        n_p, n_u, n_known = (int((kinds == kind).sum()) for kind in range(3))
        slopes, loss = [], 0.0
        mine = rows[:n_p].to(device)
        every_view = self.views[:, mine].flatten(0, 1)
        for positive, values in ((self.standard[mine], self.standard), (every_view, self.white)):
            weight = torch.from_numpy(side_weights(len(positive), n_u, n_known)).to(device)
            both = torch.cat([positive, values[rows[n_p:].to(device)]])
            is_positive = torch.arange(len(both), device=device) < len(positive)
            slope, _, loss = fit_logistic(both, is_positive, l2, run, weight)
            slopes.append(slope)
        return slopes[0], slopes[1], loss


def _looked_at(network: PropagationNetwork, data: PUData, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Look at chips: features as cut and mean square roots, float32 [M, E] each.

    Raises:
        TrainingError: if a value is no finite number.
    """
    parts = [seen(network, _views(data, rows[part])) for part in graph.blocks(len(rows))]
    plain, roots = (torch.cat(each) for each in zip(*parts, strict=True))
    n_bad = len(plain) - int((plain.isfinite().all(1) & roots.isfinite().all(1)).sum())
    if n_bad:
        raise TrainingError(
            f"What is known of {n_bad} of {len(plain)} chips is not finite; a ranking needs finite numbers.",
            "Compute the features anew, or leave these chips out.",
            kind="diverged",
        )
    return plain, roots


def _views(data: PUData, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Give all views of some chips, [V, B, ...]; of chips themselves there is one."""
    array = data.inputs.array
    return np.asarray(array[:, rows] if len(data.inputs.shape) == 1 else array[rows][None])


@torch.no_grad()
def _positive_views(network: PropagationNetwork, data: PUData, rows: NDArray[np.int64]) -> Tensor:
    """Whiten views of the positives one by one, float32 [V', P, E]; of very many positives fewer views."""
    views = _views(data, rows)
    views = views[: max(1, min(len(views), MOST_UNLABELED // len(rows)))]
    device = network.turn.device
    return torch.stack([network.whitened(roots_of(network.look(torch.from_numpy(view).to(device)))) for view in views])


def _estimated_share(looks: _Looks, run: Run) -> float | None:
    """Estimate the damaged share of the unlabeled from both looks; None where there are too few positives."""
    n = looks.n_positive
    if n < MIN_FOR_SHARE or len(looks.sides.unlabeled) < MIN_FOR_SHARE:
        return None
    drawing = run.generator(9)
    some = n + torch.randperm(len(looks.sides.unlabeled), generator=drawing)[:MOST_FOR_SHARE]
    chosen = torch.cat([torch.arange(n), some]).to(looks.white.device)
    is_positive = torch.arange(len(chosen)) < n
    found = []
    for values in (looks.standard, looks.white):
        margins = cross_fitted(values[chosen], is_positive, drawing, run, SHARE_L2)
        found.append(elkan_noto_of_margins(margins[:n], margins[n:]))
    return min(found)


def _set_anchors(network: PropagationNetwork, looks: _Looks, run: Run) -> Tensor:
    """Choose anchors, the positives and some others; let plain scores travel among them; set the units of all scores.

    Returns:
        Which of the rows they are, int64 [M].
    """
    n, k = looks.n_positive, network.settings.n_neighbors
    drawn = n + torch.randperm(len(looks.white) - n, generator=run.generator(2))
    chosen = torch.cat([torch.arange(n), drawn])[: len(network.anchors)].to(looks.white.device)
    network.anchors = network.embedded(looks.white[chosen])
    network.reach = graph.reach(network.anchors, k)
    network.degree = graph.degrees(network.anchors, network.reach, k)
    network.zeros, network.scale_of = torch.zeros_like(network.zeros), torch.ones_like(network.scale_of)
    for place, margin in enumerate((looks.standard @ network.plain_slope, looks.white @ network.slope)):
        network.zeros[place], network.scale_of[place] = _origin(margin)
    own = (looks.standard[chosen] @ network.plain_slope - network.zeros[0]) / network.scale_of[0]
    network.values = _travelled(network, own)[0]
    network.zeros[2], network.scale_of[2] = _origin(network.values)
    return chosen


def _travelled(network: PropagationNetwork, *owns: Tensor) -> list[Tensor]:
    """Let scores travel among the anchors, float32 [M] each."""
    alpha, k = network.settings.propagation, network.settings.n_neighbors
    return graph.propagated(owns, network.anchors, network.reach, network.degree, k, alpha)


def _difference_held_out(network: PropagationNetwork, looks: _Looks, chosen: Tensor, l2: float, run: Run) -> float:
    """Say how much better held-out clicks stand in the propagated than in the whitened scores, in -1..1.

    In each of 5 parts of the clicks and of some of the unlabeled, both readings are fitted to the other parts; a click's place
    is the share of the part's unlabeled that come before it. Compared are the means of the logarithms of places.
    """
    n, drawing = looks.n_positive, run.generator(8)
    is_unlabeled = (chosen.cpu() >= n) & (chosen.cpu() < n + len(looks.sides.unlabeled))
    at_u = torch.randperm(int(is_unlabeled.sum()), generator=drawing)[:MOST_FOR_SHARE]
    places_u = is_unlabeled.nonzero()[:, 0][at_u]
    n_here = min(n, len(chosen))
    n_folds = min(N_FOLDS, n_here, len(places_u))
    fold_p = torch.randperm(n_here, generator=drawing) % n_folds
    fold_u = torch.randperm(len(places_u), generator=drawing) % n_folds
    fits = []
    for part in range(n_folds):
        seen_rows = torch.cat([torch.arange(n_here)[fold_p != part], chosen.cpu()[places_u[fold_u != part]]])
        fits.append(looks.fitted(seen_rows.sort().values, l2, run)[:2])
    standard, white = looks.standard[chosen], looks.white[chosen]
    spread = _travelled(network, *((own := standard @ plain).sub(own.mean()) / _origin(own)[1] for plain, _ in fits))
    total = 0.0
    for part, (wide, (_, slope)) in enumerate(zip(spread, fits, strict=True)):
        for sign, scores in ((-1.0, wide.cpu()), (1.0, (white @ slope).cpu())):
            others, clicks = scores[places_u[fold_u == part]], scores[:n_here][fold_p == part]
            before = (others[None] > clicks[:, None]).sum(1)
            total += sign * float(((before + 1) / (len(others) + 1)).log().sum())
    return max(-MOST_DIFFERENCE, min(MOST_DIFFERENCE, total / n_here))


def _cut(network: PropagationNetwork, plain: Tensor, roots: Tensor, sides: Sides, share: float) -> Tensor:
    """Find the score that as many of the unlabeled exceed as the share says, float32 [1]."""
    rows = range(len(sides.positive), len(sides.positive) + len(sides.unlabeled))
    some = torch.tensor(rows)[:: max(1, len(rows) // MOST_FOR_SHARE)].to(plain.device)
    scores = torch.cat([network.judged(plain[part], roots[part]) for part in some.split(graph.BLOCK)])
    return scores.quantile(1 - min(max(share, 0.0), 1.0))[None]


def _origin(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of scores [M]; 1 where all are alike."""
    unit = scores.std(correction=0)
    return scores.mean(), torch.where(unit > 1e-9, unit, torch.ones_like(unit))
