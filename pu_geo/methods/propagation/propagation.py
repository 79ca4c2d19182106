"""Propagated ranking: the default. A whitened linear ranking where damage is rare, scores that travel where it is common.

Two readings of the same frozen features. Both start from logistic regressions of clicks against the unlabeled; which one
counts is told by the damaged share, estimated from the clicks alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pu_geo.analysis.ranker import L2, l2_for_share
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.linear import N_FOLDS, statistics
from pu_geo.methods.pretraining import empty_trunk, new_trunk, training_span
from pu_geo.methods.propagation import neighbor_graph as graph
from pu_geo.methods.propagation.network import PropagatedModel, PropagationNetwork, whitening
from pu_geo.methods.propagation.regressions import (
    MOST_FOR_SHARE,
    Looks,
    TrainingSplit,
    estimated_share,
    linear_features,
    positive_views,
    sides_of,
)
from pu_geo.training.data import PUData
from pu_geo.training.loop import Training
from pu_geo.training.network import require_positives
from pu_geo.training.run import Run

SHARE_PULL, CLICKS_PULL, MOST_DIFFERENCE = 2.0, 4.0, 1.0
"""How much the log share, and how much held-out clicks, move the weight of the propagated scores; see `fit`."""


@dataclass
class Learner:
    """What is trained."""

    network: PropagationNetwork


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
        run: told once, when it is done: loss of the whitened regression, share, and propagated, the weight of reading 2.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or if inputs are not finite.
        JobCancelled: if the user cancelled.
    """
    rows = data.trained_rows
    require_positives(data, rows, "The propagated ranking")
    sides = sides_of(data, rows, run)
    trunk = new_trunk(data, rows, settings, run)
    network = PropagationNetwork(trunk, settings).to(run.device).eval()
    model = PropagatedModel(network, trunk)
    for epoch in Training(
        run, Learner(network), 1, stage="fitting", span=training_span(settings), model=lambda: model
    ).epochs():
        with epoch:
            loss, share = _learn(network, data, sides, run)
            epoch.add({"loss": loss, "share": share, "propagated": float(network.spread)})
            run.n_chips_seen += len(sides.rows)
    return model


def from_state(state: Mapping[str, Tensor], settings: PropagationSettings, device: torch.device) -> PropagatedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    network = PropagationNetwork(empty_trunk(state, settings), settings)
    network.load_state_dict(dict(state))
    network.require_sound()
    return PropagatedModel(network.to(device).eval(), network.trunk)


def _learn(network: PropagationNetwork, data: PUData, sides: TrainingSplit, run: Run) -> tuple[float, float]:
    """Fill the network; return the loss of the whitened regression, and the damaged share, 0 where it is unknown."""
    settings = network.settings
    plain, roots = linear_features(network, data, sides.rows)
    network.plain_mean, network.plain_scale = statistics(plain)
    network.mean, network.scale = statistics(roots)
    network.turn = whitening((roots - network.mean) / network.scale, settings.whitening)
    looks = Looks(
        (plain - network.plain_mean) / network.plain_scale, network.whitened(roots),
        positive_views(network, data, sides.positive), sides,
    )  # fmt: skip
    share = settings.damaged_share or estimated_share(looks, run)
    l2 = L2 if share is None else l2_for_share(share)
    every = torch.arange(len(plain))
    network.plain_slope, network.slope, loss = looks.fitted(every, l2, run)
    chosen, links = _set_anchors(network, looks, run)
    if share is not None:
        difference = _difference_held_out(network, looks, chosen, links, l2, run)
        pull = SHARE_PULL * math.log(max(share, 1e-6) / settings.even_share) + CLICKS_PULL * difference
        network.spread = torch.full_like(network.spread, 1 / (1 + math.exp(-pull)))
        network.cut = _cut(network, plain, roots, sides, share)
    return loss, share or 0.0


def _set_anchors(network: PropagationNetwork, looks: Looks, run: Run) -> tuple[Tensor, Tensor]:
    """Choose anchors, the clicked and others; let plain scores travel among them; set the units of all scores.

    Returns:
        Which of the rows they are, int64 [M], clicked ones first; and the graph of them, see `neighbor_graph.links`.
    """
    n, k, most = looks.n_positive, network.settings.n_neighbors, network.settings.n_anchors
    drawn = n + torch.randperm(len(looks.white) - n, generator=run.generator(2))
    clicked = torch.arange(n) if n <= most // 2 else torch.randperm(n, generator=run.generator(3))[: most // 2].sort().values
    chosen = torch.cat([clicked, drawn])[:most].to(looks.white.device)
    chosen = chosen[graph.distinct(network.embedded(looks.white[chosen])).to(chosen.device)]
    network.anchors = network.embedded(looks.white[chosen])
    network.reach = graph.reach(network.anchors, k)
    network.degree = graph.degrees(network.anchors, network.reach, k)
    network.zeros, network.scale_of = torch.zeros_like(network.zeros), torch.ones_like(network.scale_of)
    for place, margin in enumerate((looks.standard @ network.plain_slope, looks.white @ network.slope)):
        network.zeros[place], network.scale_of[place] = _origin(margin)
    own = (looks.standard[chosen] @ network.plain_slope - network.zeros[0]) / network.scale_of[0]
    links = graph.links(network.anchors, network.reach, network.degree, k)
    network.values = graph.propagated(own, links, network.settings.propagation, run.is_cancelled)
    network.zeros[2], network.scale_of[2] = _origin(network.values)
    return chosen, links


def _difference_held_out(
    network: PropagationNetwork, looks: Looks, chosen: Tensor, links: Tensor, l2: float, run: Run
) -> float:
    """Say how much better held-out clicks stand in the propagated than in the whitened scores, in -1..1.

    In each of 5 parts of the clicks and of some of the unlabeled, both readings are fitted to the other parts, and to all that
    were called not damaged; a click's place is the share of the part's unlabeled that come before it. Compared are the means of
    the logarithms of places. 0 where there is too little to hold out.
    """
    rows, drawing = chosen.cpu(), run.generator(8)
    ends = looks.sides.ends
    is_unlabeled = (rows >= ends[0]) & (rows < ends[1])
    at_u = torch.randperm(int(is_unlabeled.sum()), generator=drawing)[:MOST_FOR_SHARE]
    places_u, n = is_unlabeled.nonzero()[:, 0][at_u], int((rows < ends[0]).sum())
    n_folds = min(N_FOLDS, n, len(places_u))
    if n_folds < 2:
        return 0.0
    fold_p = torch.randperm(n, generator=drawing) % n_folds
    fold_u = torch.randperm(len(places_u), generator=drawing) % n_folds
    known, fits = torch.arange(int(ends[1]), int(ends[2])), []
    for part in range(n_folds):
        taught = torch.cat([rows[:n][fold_p != part], rows[places_u[fold_u != part]], known])
        fits.append(looks.fitted(taught.sort().values, l2, run)[:2])
    standard, white = looks.standard[chosen], looks.white[chosen]
    total = 0.0
    for part, (plain, slope) in enumerate(fits):
        own = standard @ plain
        scaled = (own - own.mean()) / _origin(own)[1]
        wide = graph.propagated(scaled, links, network.settings.propagation, run.is_cancelled)
        for sign, scores in ((-1.0, wide.cpu()), (1.0, (white @ slope).cpu())):
            others, clicks = scores[places_u[fold_u == part]], scores[:n][fold_p == part]
            before = (others[None] > clicks[:, None]).sum(1)
            total += sign * float(((before + 1) / (len(others) + 1)).log().sum())
    return max(-MOST_DIFFERENCE, min(MOST_DIFFERENCE, total / n))


def _cut(network: PropagationNetwork, plain: Tensor, roots: Tensor, sides: TrainingSplit, share: float) -> Tensor:
    """Find the score that as many of the unlabeled exceed as the share says, float32 [1]."""
    rows = torch.arange(int(sides.ends[0]), int(sides.ends[1]))
    some = rows[:: max(1, len(rows) // MOST_FOR_SHARE)].to(plain.device)
    scores = torch.cat([network.judged(plain[part], roots[part]) for part in some.split(graph.BLOCK)])
    return scores.quantile(1 - min(max(share, 0.0), 1.0))[None]


def _origin(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of scores [M]; 1 where all are alike."""
    unit = scores.std(correction=0)
    return scores.mean(), torch.where(unit > 1e-9, unit, torch.ones_like(unit))
