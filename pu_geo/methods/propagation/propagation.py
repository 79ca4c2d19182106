"""Propagated ranking: the default. A whitened linear ranking where damage is rare, scores that travel where it is common.

Two readings of the same frozen features. Both start from logistic regressions of clicks against the unlabeled; the damaged
share, estimated from the clicks alone, decides which one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.analysis.ranker import L2, l2_for_share, side_weights
from pu_geo.errors import TrainingError
from pu_geo.methods.cards.propagation import MOST_UNLABELED, PropagationSettings
from pu_geo.methods.linear import N_FOLDS, Learner, cross_fitted, fit_logistic, require_finite, statistics
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.methods.propagation import neighbor_graph as graph
from pu_geo.training.data import NOT_DAMAGED, Ints, PUData
from pu_geo.training.loop import Training
from pu_geo.training.network import IMAGES_AT_ONCE, FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

FLOOR = 0.01  # added to every direction's variance before whitening, in mean variances

_NO_SPREAD = 1e-9  # largest variance below which all chips are taken for the same
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

    def __init__(self, extractor: FeatureExtractor, settings: PropagationSettings) -> None:
        super().__init__()
        self.trunk, self.settings = extractor, settings
        width, dim = extractor.out_dim, min(settings.embedding_dim, extractor.out_dim)
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
        """Make room for as many anchors as there are: how many, only training decides."""
        for name in _OF_ANCHORS:
            found, own = state_dict.get(f"{prefix}{name}"), getattr(self, name)
            if found is not None and found.ndim == own.ndim and found.shape[1:] == own.shape[1:]:
                setattr(self, name, own.new_empty(found.shape))
        super()._load_from_state_dict(state_dict, prefix, *others)

    def require_sound(self) -> None:
        """Refuse numbers that no training leaves.

        Raises:
            ValueError: names which.
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

    def raw_scores(self, plain: Tensor, roots: Tensor) -> Tensor:
        """Score chips: features as cut and mean square roots, float32 [B, E] each, to scores in no unit, float32 [B]."""
        white = self.whitened(roots)
        narrow = (white @ self.slope - self.zeros[1]) / self.scale_of[1]
        share = float(self.spread)
        if share == 0:
            return narrow
        tied = graph.ties(self.embedded(white), self.anchors, self.reach, self.settings.n_neighbors)
        brought = graph.sum_over_ties(tied, self.degree, self.values)
        margin = ((plain - self.plain_mean) / self.plain_scale) @ self.plain_slope
        wide = self.settings.propagation * brought + (margin - self.zeros[0]) / self.scale_of[0]
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


class PropagationModel(TrainedModel):
    """A model of the mean over views, and of the chip as it was cut."""

    wants_views = True

    def score(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Compute scores: inputs as in `TrainedModel.embed`, float32 [M] in [0, 1].

        As many of the unlabeled score above 0.5 as are estimated to be damaged, where there is an estimate.
        """
        network = self._network()
        return self._of_blocks(
            inputs, lambda plain, roots: torch.sigmoid((network.raw_scores(plain, roots) - network.cut) / 2)
        )

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
        parts = [
            answer(*plain_and_roots(network, views[:, part])).float().cpu()
            for part in graph.blocks(max(views.shape[1], 1), step, self.check)
        ]
        return torch.cat(parts).numpy()


@torch.no_grad()
def plain_and_roots(network: PropagationNetwork, views: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Compute, of views of some chips [V, B, ...], the first one's features and the mean square roots, float32 [B, E] each."""
    device = network.turn.device
    features = [network.trunk.linear_features(torch.from_numpy(np.array(view)).to(device)) for view in views]
    total = torch.zeros_like(features[0])
    for each in features:
        total += roots_of(each)
    return features[0], total / len(features)


MOST_FOR_SHARE = 3000  # clicks, and unlabeled chips, that the share and held-out clicks are judged by
MIN_FOR_SHARE = 4  # fewer clicks cannot be held out in turn
SHARE_L2 = 1.0  # penalty of the fits that the share is estimated from; hardly matters, as their margins are calibrated


@dataclass(frozen=True)
class TrainingSplit:
    """Row numbers of the chips that are learned from, int64 each.

    Attributes:
        positive: clicked.
        unlabeled: nobody labeled them; of very many, some.
        not_damaged: a person called them so.
        accepted: positives of accepted clusters, which nobody clicked.
    """

    positive: Ints
    unlabeled: Ints
    not_damaged: Ints
    accepted: Ints

    @property
    def rows(self) -> Ints:
        """All, in this order."""
        return np.concatenate([self.positive, self.unlabeled, self.not_damaged, self.accepted])

    @property
    def ends(self) -> Tensor:
        """Where in `rows` each of them ends, int64 [4]."""
        sizes = [len(each) for each in (self.positive, self.unlabeled, self.not_damaged, self.accepted)]
        return torch.tensor(sizes).cumsum(0)


def training_split(data: PUData, rows: Ints, run: Run) -> TrainingSplit:
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
class SplitFeatures:
    """What is known of the chips that are learned from, in the order of `TrainingSplit.rows`.

    Attributes:
        standard, white: float32 [M, E].
        views: whitened views of the positives, float32 [V', P, E].
    """

    standard: Tensor
    white: Tensor
    views: Tensor
    split: TrainingSplit

    @property
    def n_positive(self) -> int:
        return len(self.split.positive)

    def fitted(self, rows: Tensor, l2: float, run: Run) -> tuple[Tensor, Tensor, float]:
        """Fit both regressions to some rows, int64 in rising order: slopes, plain and whitened, and the loss of the latter.

        Of the clicked ones the whitened regression sees every view, of all others their mean.
        """
        device = self.white.device
        kinds = torch.bucketize(rows, self.split.ends, right=True)
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


def linear_features(network: PropagationNetwork, data: PUData, rows: Ints, run: Run) -> tuple[Tensor, Tensor]:
    """Compute features of chips as they were cut, and mean square roots over views, float32 [M, E] each.

    Raises:
        TrainingError: if a value is no finite number.
    """
    blocks = graph.blocks(len(rows), _at_once(data), run.stop_if_cancelled)
    parts = [plain_and_roots(network, _views(data, rows[part])) for part in blocks]
    plain, roots = (torch.cat(each) for each in zip(*parts, strict=True))
    require_finite(plain.isfinite().all(1) & roots.isfinite().all(1))
    return plain, roots


def _views(data: PUData, rows: Ints, most: int | None = None) -> NDArray[Any]:
    """Return views of some chips, at most so many, [V, B, ...]; of chips themselves there is one."""
    array = data.inputs.array
    return np.asarray(array[:most, rows] if len(data.inputs.shape) == 1 else array[rows][None])


def _at_once(data: PUData) -> int:
    return graph.BLOCK if len(data.inputs.shape) == 1 else IMAGES_AT_ONCE


@torch.no_grad()
def positive_views(network: PropagationNetwork, data: PUData, rows: Ints, run: Run) -> Tensor:
    """Whiten views of the clicked chips one by one, float32 [V', P, E]; of very many chips fewer views."""
    device, most, parts = network.turn.device, max(1, MOST_UNLABELED // max(len(rows), 1)), []
    for part in graph.blocks(len(rows), _at_once(data), run.stop_if_cancelled):
        views = (torch.from_numpy(view).to(device) for view in _views(data, rows[part], most))
        parts.append(torch.stack([network.whitened(roots_of(network.trunk.linear_features(view))) for view in views]))
    return torch.cat(parts, dim=1)


def estimated_share(features: SplitFeatures, run: Run) -> float | None:
    """Estimate the damaged share of the unlabeled from plain and from whitened features; None where there are too few clicks.

    Buildings of accepted clusters count as unlabeled: nobody clicked them, and clicks are an even draw of all damage.
    """
    n = features.n_positive
    if n < MIN_FOR_SHARE or len(features.split.unlabeled) < MIN_FOR_SHARE:
        return None
    drawing, ends = run.generator(9), features.split.ends
    unclicked = torch.cat([torch.arange(int(ends[0]), int(ends[1])), torch.arange(int(ends[2]), int(ends[3]))])
    some = unclicked[torch.randperm(len(unclicked), generator=drawing)[:MOST_FOR_SHARE]]
    clicked = torch.arange(n) if n <= MOST_FOR_SHARE else torch.randperm(n, generator=drawing)[:MOST_FOR_SHARE]
    chosen = torch.cat([clicked, some]).to(features.white.device)
    is_positive = torch.arange(len(chosen)) < len(clicked)
    found = []
    for values in (features.standard, features.white):
        margins = cross_fitted(values[chosen], is_positive, drawing, run, SHARE_L2)
        found.append(elkan_noto_of_margins(margins[: len(clicked)], margins[len(clicked) :]))
    return min(found)


SHARE_PULL, CLICKS_PULL, MOST_DIFFERENCE = 2.0, 4.0, 1.0
"""How much the log share, and how much held-out clicks, move the weight of the propagated scores; see `fit`."""


@one_thread_on_features
def fit(data: PUData, settings: PropagationSettings, run: Run) -> PropagationModel:
    """Rank by the clicks, whitened where damage is rare, propagated among similar chips where it is common.

    Source: ours. 1. Whitened: square roots of the features, averaged over views, every direction divided by the
    0.7th power of its standard deviation (`whitening` 0.35 of the variance); a logistic regression of every view of the
    positives against the unlabeled. 2. Propagated: the instant ranker's scores travel on a graph of nearest neighbors in the
    whitened space (Zhou et al. 2003). 3. Their scores are mixed. The damaged share is estimated (Elkan and Noto 2008) from
    the features as they are and whitened; both estimates come out too high where classes overlap, so the smaller one counts.
    Clicks are held out in turn: how many of the unlabeled come before a held-out click in each reading, its logarithm on
    average, shows which one finds damage that it did not learn from. Weight of reading 2: logistic of 2 log(share / even_share)
    + 4 (difference of these averages, in -1..1).

    Args:
        data, settings: see the classes; chips that a person called not damaged are learned from, too.
        run: gets one report, when it is done: loss of the whitened regression, share, and propagated, the weight of reading 2.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip, or if inputs are not finite.
        JobCancelled: if the user cancelled.
    """
    rows = data.trained_rows
    require_positives(data, rows, "The propagated ranking")
    split = training_split(data, rows, run)
    extractor = new_extractor(data, rows, settings, run)
    network = PropagationNetwork(extractor, settings).to(run.device).eval()
    model = PropagationModel(network, extractor)
    for epoch in Training(
        run, Learner(network), 1, stage="fitting", span=training_span(settings), model=lambda: model
    ).epochs():
        with epoch:
            loss, share = _learn(network, data, split, run)
            epoch.add({"loss": loss, "share": share, "propagated": float(network.spread)})
            run.n_chips_trained += len(split.rows)
    return model


def from_state(state: Mapping[str, Tensor], settings: PropagationSettings, device: torch.device) -> PropagationModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    model = PropagationModel.loaded(PropagationNetwork(empty_extractor(state, settings), settings), state, device)
    model._network().require_sound()
    return model


def _learn(network: PropagationNetwork, data: PUData, split: TrainingSplit, run: Run) -> tuple[float, float]:
    """Fill the network; return the loss of the whitened regression, and the damaged share, 0 where it is unknown."""
    settings = network.settings
    plain, roots = linear_features(network, data, split.rows, run)
    network.plain_mean, network.plain_scale = statistics(plain)
    network.mean, network.scale = statistics(roots)
    network.turn = whitening((roots - network.mean) / network.scale, settings.whitening)
    features = SplitFeatures(
        (plain - network.plain_mean) / network.plain_scale, network.whitened(roots),
        positive_views(network, data, split.positive, run), split,
    )  # fmt: skip
    share = settings.damaged_share or estimated_share(features, run)
    l2 = L2 if share is None else l2_for_share(share)
    every = torch.arange(len(plain))
    network.plain_slope, network.slope, loss = features.fitted(every, l2, run)
    chosen, links = _set_anchors(network, features, run)
    if share is not None:
        difference = _difference_held_out(network, features, chosen, links, l2, run)
        pull = SHARE_PULL * math.log(max(share, 1e-6) / settings.even_share) + CLICKS_PULL * difference
        network.spread = torch.full_like(network.spread, 1 / (1 + math.exp(-pull)))
        network.cut = _cut(network, plain, roots, split, share, run)
    return loss, share or 0.0


def _set_anchors(network: PropagationNetwork, features: SplitFeatures, run: Run) -> tuple[Tensor, csr_array]:
    """Choose anchors, the clicked and others; let plain scores travel among them; set the units of all scores.

    Returns:
        Which of the rows they are, int64 [M], clicked ones first; and the graph of them, see `neighbor_graph.links`.
    """
    n, k, most = features.n_positive, network.settings.n_neighbors, network.settings.n_anchors
    drawn = n + torch.randperm(len(features.white) - n, generator=run.generator(2))
    clicked = torch.arange(n) if n <= most // 2 else torch.randperm(n, generator=run.generator(3))[: most // 2].sort().values
    chosen = torch.cat([clicked, drawn])[:most].to(features.white.device)
    chosen = chosen[graph.distinct(network.embedded(features.white[chosen])).to(chosen.device)]
    network.anchors = network.embedded(features.white[chosen])
    network.reach = graph.reach(network.anchors, k, run.stop_if_cancelled)
    network.degree = graph.degrees(network.anchors, network.reach, k, run.stop_if_cancelled)
    network.zeros, network.scale_of = torch.zeros_like(network.zeros), torch.ones_like(network.scale_of)
    for place, margin in enumerate((features.standard @ network.plain_slope, features.white @ network.slope)):
        network.zeros[place], network.scale_of[place] = _origin(margin)
    own = (features.standard[chosen] @ network.plain_slope - network.zeros[0]) / network.scale_of[0]
    links = graph.links(network.anchors, network.reach, network.degree, k, run.stop_if_cancelled)
    network.values = graph.label_propagation(own, links, network.settings.propagation, run.stop_if_cancelled)
    network.zeros[2], network.scale_of[2] = _origin(network.values)
    return chosen, links


def _difference_held_out(
    network: PropagationNetwork, features: SplitFeatures, chosen: Tensor, links: csr_array, l2: float, run: Run
) -> float:
    """Compute how much better held-out clicks stand in the propagated than in the whitened scores, in -1..1.

    In each of 5 parts of the clicks and of some of the unlabeled, both readings are fitted to the other parts, and to all that
    were called not damaged; a click's place is the share of the part's unlabeled that come before it. Compared are the means of
    the logarithms of places. 0 where there is too little to hold out.
    """
    rows, drawing = chosen.cpu(), run.generator(8)
    ends = features.split.ends
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
        fits.append(features.fitted(taught.sort().values, l2, run)[:2])
    standard, white = features.standard[chosen], features.white[chosen]
    total = 0.0
    for part, (plain, slope) in enumerate(fits):
        own = standard @ plain
        scaled = (own - own.mean()) / _origin(own)[1]
        wide = graph.label_propagation(scaled, links, network.settings.propagation, run.stop_if_cancelled)
        for sign, scores in ((-1.0, wide.cpu()), (1.0, (white @ slope).cpu())):
            others, clicks = scores[places_u[fold_u == part]], scores[:n][fold_p == part]
            before = (others[None] > clicks[:, None]).sum(1)
            total += sign * float(((before + 1) / (len(others) + 1)).log().sum())
    return max(-MOST_DIFFERENCE, min(MOST_DIFFERENCE, total / n))


def _cut(network: PropagationNetwork, plain: Tensor, roots: Tensor, split: TrainingSplit, share: float, run: Run) -> Tensor:
    """Find the score that as many of the unlabeled exceed as the share says, float32 [1]."""
    rows = torch.arange(int(split.ends[0]), int(split.ends[1]))
    some = rows[:: max(1, len(rows) // MOST_FOR_SHARE)].to(plain.device)
    parts = (some[part] for part in graph.blocks(len(some), graph.BLOCK, run.stop_if_cancelled))
    scores = torch.cat([network.raw_scores(plain[part], roots[part]) for part in parts])
    return scores.quantile(1 - min(max(share, 0.0), 1.0))[None]


def _origin(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of scores [M]; 1 where all are alike."""
    unit = scores.std(correction=0)
    return scores.mean(), torch.where(unit > 1e-9, unit, torch.ones_like(unit))
