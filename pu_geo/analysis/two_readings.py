"""The default ranking: two readings of the same clicks, and how much each of them counts.

The app's live ranking and the method `propagation` both come from here. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.analysis.neighbor_graph import Check, NeighborGraph, distinct, label_propagation, nothing
from pu_geo.analysis.place import places_of
from pu_geo.analysis.ranker import L2, l2_for_share, side_weights
from pu_geo.analysis.ranking_evidence import RankingEvidence, evidence_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

POWER = 0.35  # of the whitening, see `whitening`
DIM = 64  # widest directions in which chips are near or far
N_NEIGHBORS = 10  # that each chip is tied to
MOST_MEASURED = 20_000  # chips that a space is measured from, about
FLOOR = 0.01  # added to every direction's variance before whitening, in mean variances
N_FOLDS = 5  # parts that clicks are held out in
MIN_CLICKS = 4  # fewer clicks cannot be held out in turn
MOST_SHARE_PULL = 2.0  # most that the share moves the log odds of the propagated reading
CLICKS_PULL = 6.0  # how much held-out clicks move them
LEAST_CUT, MOST_CUT = 0.005, 0.5  # bounds of the share of the unlabeled that scores above 0.5
NEIGHBORHOOD_M = 300.0  # what the queue found so near to each other counts as little more than one click
MOST_COMPARED = 400  # damaged buildings that each one the queue found is compared with, about
PLACE_FLOOR = 0.05  # added to places before their logarithm: being second or third of thousands is all the same
_NO_SPREAD = 1e-9  # largest variance below which all chips are taken for the same


@dataclass(frozen=True)
class Space:
    """How features are brought to a scale that distances mean something in; made of all chips, without a label.

    Attributes:
        plain_mean, plain_scale: of each column of the chips as they were cut, float32 [E].
        mean, scale: of the square roots of the features, averaged over views, float32 [E].
        turn: whitening, float32 [E, E], widest directions last.
    """

    plain_mean: Floats
    plain_scale: Floats
    mean: Floats
    scale: Floats
    turn: Floats

    @classmethod
    def of(cls, plain: Floats, roots: Floats, power: float) -> Space:
        """Measure features; of very many chips every so many one.

        Args:
            plain: of the chips as they were cut, float32 [M, E].
            roots: square roots of the features (see `roots_of`), averaged over views, float32 [M, E].
            power: of the whitening, 0 (none) to 0.5 (every direction varies alike).
        """
        step = max(1, len(plain) // MOST_MEASURED)
        plain, roots = plain[::step], roots[::step]
        mean, scale = _statistics(roots)
        turn = whitening(np.asarray((roots - mean) / scale, np.float32), power)
        return cls(*_statistics(plain), mean, scale, turn)

    def standard(self, plain: Floats) -> Floats:
        """Standardise features of chips as they were cut, float32 [B, E]."""
        return np.asarray((plain - self.plain_mean) / self.plain_scale, np.float32)

    def white(self, roots: Floats) -> Floats:
        """Whiten square roots of features, float32 [..., E]."""
        return np.asarray(((roots - self.mean) / self.scale) @ self.turn, np.float32)


def roots_of(values: Floats) -> Floats:
    """Draw the square root, keeping the sign: large responses count less, as between histograms."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)), np.float32)


def plain_and_roots(views: NDArray[np.floating], rows: Ints | slice) -> tuple[Floats, Floats]:
    """Read features of rows: as they were cut, and the mean square roots of all views, float32 [B, E] each.

    Args:
        views: float [V, N, E], may be mapped from a file: no more than one view of the rows is read at once.
    """
    plain = np.asarray(views[0, rows], np.float32)
    roots = np.zeros_like(plain)
    for view in views:
        roots += roots_of(np.asarray(view[rows], np.float32))
    return plain, roots / np.float32(len(views))


def whitening(standard: Floats, power: float) -> Floats:
    """Return the matrix that divides each direction by its variance to a power, float32 [E, E], widest directions last.

    Scaled so that rows stay as long as they were. Directions in which no chip differs count for nothing.
    """
    columns = standard.astype(np.float64)
    variance, axes = np.linalg.eigh(columns.T @ columns / max(len(columns), 1))
    variance = variance.clip(0)
    if variance.max() < _NO_SPREAD:
        return np.zeros(axes.shape, np.float32)
    raised = variance + FLOOR * variance.mean()
    factor = (raised / raised.max()) ** -power * (variance > 1e-6 * variance.max())
    length = ((columns @ (axes * factor)) ** 2).sum(1).mean()
    return np.ascontiguousarray((axes * factor * np.sqrt(len(variance) / max(length, 1e-12))).astype(np.float32))


def embedded(white: Floats, dim: int) -> Floats:
    """Embed whitened rows by their widest directions, float32 [B, d] of unit length."""
    widest = white[:, white.shape[1] - dim :]
    found: Floats = widest / np.maximum(np.linalg.norm(widest, axis=1, keepdims=True), 1e-12)
    return found


@dataclass(frozen=True)
class Chips:
    """Chips in their space, and the graph that scores travel on; no label went into it.

    Attributes:
        standard, white: float32 [N, E], see `Space`.
        ties: of each chip to the anchors, sparse float32 [N, M], see `NeighborGraph.ties`.
        links: of the anchors to each other, sparse float64 [M, M]; None where nothing travels any more.
        at: which chips the anchors are, int64 [M].
    """

    standard: Floats
    white: Floats
    ties: scipy.sparse.csr_array
    links: scipy.sparse.csr_array | None = None
    at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def take(self, rows: Ints) -> Chips:
        """Return some chips, by row, int64 [B]; the graph stays."""
        return Chips(self.standard[rows], self.white[rows], self.ties[rows], self.links, self.at)


def chips_of(
    space: Space, plain: Floats, roots: Floats, *, dim: int, n_neighbors: int, n_anchors: int, seed: int = 0,
    check: Check = nothing,
) -> tuple[Chips, NeighborGraph]:  # fmt: skip
    """Bring chips into a space and tie them to each other.

    Args:
        plain, roots: as in `Space.of`.
        dim: widest directions in which neighbors are looked for.
        n_neighbors, n_anchors: k, and how many chips scores travel among at most; all others take theirs from the nearest.
        seed: of the draw of anchors.
    """
    white = space.white(roots)
    rows = embedded(white, dim)
    usable = drawn_anchors(np.ones(len(rows), np.bool_), n_anchors, seed)
    at = usable[distinct(rows[usable])]
    graph = NeighborGraph.of(np.ascontiguousarray(rows[at]), n_neighbors, check)
    return Chips(space.standard(plain), white, graph.ties(rows, check), graph.links(check), at), graph


def drawn_anchors(is_used: NDArray[np.bool_], n_anchors: int, seed: int) -> Ints:
    """Draw chips that scores may travel among, int64 in rising order: `n_anchors` at most, of those used, bool [N], where
    any is.
    """
    usable = np.flatnonzero(is_used) if is_used.any() else np.arange(len(is_used))
    if len(usable) > n_anchors:
        usable = np.sort(np.random.default_rng([seed, 2]).choice(usable, n_anchors, replace=False))
    return usable


@dataclass(frozen=True)
class Marks:
    """Row numbers of the chips that are learned from, int64 each, no row twice.

    Attributes:
        clicked: damaged; the analyst found them.
        queued: damaged; the queue put them before the analyst. Learned from like the others, but held out only where fewer
            than 4 others can be: they are the clearest damage, so they say little about what is still to be found.
        unlabeled: nobody labeled them.
        not_damaged: a person called them so.
        accepted: of accepted clusters, which nobody clicked.
        votes: what each of clicked and queued counts, in clicks, float32 [P], see `votes_of`; None where all count alike.
    """

    clicked: Ints
    queued: Ints
    unlabeled: Ints
    not_damaged: Ints
    accepted: Ints
    votes: Floats | None = field(default=None, kw_only=True)

    @property
    def positive(self) -> Ints:
        return np.concatenate([self.clicked, self.queued])


def votes_of(xy_m: NDArray[np.float64], n_clicked: int) -> Floats:
    """Return what damaged buildings count, in clicks, float32 [P] in (0, 1]: 1 for each click, and for those the queue found
    1 a neighborhood, as it finds the clearest damage, often street by street.

    Source: ours: 1 / sum over all damaged of exp(-d^2 / 2 (300 m)^2), which is about 1 / (how many are near).

    Args:
        xy_m: places in metres, the analyst's own clicks first, float64 [P, 2]; who has none (NaN) has no neighbors.
        n_clicked: how many are own clicks.
    """
    votes, step = np.ones(len(xy_m), np.float32), max(1, len(xy_m) // MOST_COMPARED)
    others, queued = xy_m[::step], xy_m[n_clicked:]
    far = (queued[:, :1] - others[:, 0]) ** 2 + (queued[:, 1:] - others[:, 1]) ** 2
    near = step * np.nan_to_num(np.exp(-far / (2 * NEIGHBORHOOD_M**2))).sum(1)
    votes[n_clicked:] = 1 / np.maximum(near, 1)
    return votes


@dataclass(frozen=True)
class HeldOut:
    """What held-out clicks are judged by: both readings by fits that saw neither the click nor some of the unlabeled.

    Attributes:
        clicked, unlabeled: row numbers of what was held out, int64 [P], [U].
        fold_clicked, fold_unlabeled: the part that each was held out in, int64 [P], [U].
        plain_slopes, slopes: float32 [F, E].
        zeros, scale_of: of the plain and the whitened scores, float32 [F, 2].
        values: scores of the anchors after they have traveled, float32 [M, F].
    """

    clicked: Ints
    unlabeled: Ints
    fold_clicked: Ints
    fold_unlabeled: Ints
    plain_slopes: Floats
    slopes: Floats
    zeros: Floats
    scale_of: Floats
    values: Floats

    def readings(self, chips: Chips, propagation: float) -> tuple[Floats, Floats]:
        """Score chips by the fits of each part, propagated and whitened, float32 [F, B] each, in no unit."""
        own = [
            (values @ slopes.T - zero) / scale
            for values, slopes, zero, scale in zip(
                (chips.standard, chips.white), (self.plain_slopes, self.slopes), self.zeros.T, self.scale_of.T, strict=True
            )
        ]
        return (propagation * (chips.ties @ self.values) + own[0] + own[1]).T, own[1].T

    def places(self, clicked: Floats, unlabeled: Floats) -> NDArray[np.float64]:
        """Compute the place of each held-out click, (unlabeled before it + 1)/(n + 1), float64 [P] in (0, 1].

        Args:
            clicked, unlabeled: scores of what was held out by the fits of each part, float32 [F, P], [F, U].
        """
        found = np.empty(len(self.clicked))
        for part in range(len(clicked)):
            is_out = self.fold_clicked == part
            found[is_out] = places_of(clicked[part, is_out], unlabeled[part, self.fold_unlabeled == part])
        return found

    def unseen(self, clicked: Floats, unlabeled: Floats) -> tuple[Floats, Floats]:
        """Take of scores [F, P], [F, U] those by fits that did not see the chip, float32 [P], [U]."""
        both = (clicked, self.fold_clicked), (unlabeled, self.fold_unlabeled)
        found = [scores[fold, np.arange(len(fold))] for scores, fold in both]
        return found[0], found[1]


@dataclass(frozen=True)
class Reading:
    """What is learned from the clicks.

    Attributes:
        plain_slope, slope: of the two regressions, float32 [E].
        zeros, scale_of: origin and unit of the plain, the whitened and the propagated scores, float32 [3].
        values: scores of the anchors after they have traveled, float32 [M].
        weight: of the propagated reading, in [0, 1].
        share: guessed damaged share of the unlabeled (Elkan and Noto 2008), 0..1; None where clicks are too few. Coarse:
            used within bounds, never shown to people.
        difference: how much better held-out clicks stand in the propagated than in the whitened reading, in [-1, 1]; 0 where
            nothing was held out.
        loss: of the whitened regression.
        held_out: None where clicks are too few.
    """

    plain_slope: Floats
    slope: Floats
    zeros: Floats
    scale_of: Floats
    values: Floats
    weight: float
    share: float | None
    difference: float
    loss: float
    held_out: HeldOut | None

    def scores(self, chips: Chips, propagation: float) -> Floats:
        """Score chips, float32 [B] in no unit."""
        narrow: Floats = (chips.white @ self.slope - self.zeros[1]) / self.scale_of[1]
        if self.weight == 0:
            return narrow
        plain = (chips.standard @ self.plain_slope - self.zeros[0]) / self.scale_of[0]
        wide = propagation * (chips.ties @ self.values) + plain + narrow
        found: Floats = self.weight * (wide - self.zeros[2]) / self.scale_of[2] + (1 - self.weight) * narrow
        return found.astype(np.float32)

    def unseen_scores(self, chips: Chips, propagation: float) -> Floats:
        """Score chips by the fits of each part, both readings in their weights, float32 [F, B]; [0, B] without."""
        if self.held_out is None:
            return np.zeros((0, len(chips.white)), np.float32)
        wide, narrow = (
            (each - each.mean(1, keepdims=True)) / each.std(1, keepdims=True).clip(1e-9)
            for each in self.held_out.readings(chips, propagation)
        )
        return np.asarray(self.weight * wide + (1 - self.weight) * narrow, np.float32)

    def evidence(self, chips: Chips, propagation: float) -> RankingEvidence | None:
        """Judge the ranking of chips by the clicks that were held out; None without any."""
        if (found := self.held_out) is None:
            return None
        n, both = len(found.clicked), np.concatenate([found.clicked, found.unlabeled])
        scores = self.unseen_scores(chips.take(both), propagation)
        return evidence_of([found.unseen(scores[:, :n], scores[:, n:])])


def middle_of(raw: Floats, share: float | None) -> float:
    """Return which raw score becomes 0.5: above it are as many of the unlabeled as are guessed to be damaged, within bounds.

    Args:
        raw: of unlabeled chips, float [M].
        share: guessed, 0..1; None counts as the least.
    """
    return float(np.quantile(raw, 1 - min(max(share or 0.0, LEAST_CUT), MOST_CUT)))


def scores_of(raw: Floats, middle: float) -> NDArray[np.float32]:
    """Bring raw scores [M] to 0..1, float32 [M]: a logistic curve, wide enough that clear outliers do not tie at 1."""
    found: NDArray[np.float32] = scipy.special.expit((np.asarray(raw, np.float32) - np.float32(middle)) / 2)
    return found


def weight_of(share: float, difference: float, even_share: float) -> float:
    """Weigh the propagated reading: logistic of the bounded log share and of what held-out clicks say, in (0, 1).

    Args:
        share: guessed damaged share of the unlabeled, 0..1.
        difference: see `Reading`, in [-1, 1].
        even_share: share at which both readings count the same if held-out clicks stand in both alike.
    """
    pull = np.clip(np.log(max(share, 1e-6) / even_share), -MOST_SHARE_PULL, MOST_SHARE_PULL)
    return float(1 / (1 + np.exp(-(pull + CLICKS_PULL * difference))))


def read_clicks(
    chips: Chips, marks: Marks, views_of: Callable[[Ints], Floats], *, propagation: float, most_held_out: int, seed: int,
    even_share: float, share: float | None = None, tolerance: float = 1e-5, check: Check = nothing,
) -> Reading:  # fmt: skip
    """Learn both readings from the clicks, and how much each counts.

    Source: ours; logistic regressions, label propagation (Zhou et al. 2003) and Elkan and Noto's share (2008).

    1. Whitened: a logistic regression of every view of the positives against the unlabeled, in the whitened space.
    2. Propagated: the sum of that and of the same regression on the features as they are, both in their units, travels on
    the
       graph of nearest neighbors.
    3. Clicks are held out in 5 parts, each with a part of the unlabeled, and both readings are fitted to the rest. A click's
       place is (unlabeled before it + 1)/(n + 1). Where the places in the propagated reading are better, it counts more.

    Args:
        views_of: whitens every view of some chips, given by row: float32 [V', B, E].
        propagation: alpha of the graph, [0, 1).
        most_held_out: unlabeled chips that held-out clicks are compared with, at most.
        seed: of the draw of parts.
        even_share: see `weight_of`.
        share: damaged share of the unlabeled, if it is known better than from clicks; None: guessed from the held-out
            clicks.
        tolerance: of the regressions, see `logistic.fit_logistic`.
        check: called often; what it raises ends the work.
    """
    fit = _Fit(chips, views_of(marks.positive), marks, tolerance, check)
    held_out, difference = _hold_out(fit, propagation, most_held_out, seed), 0.0
    if held_out is not None:
        rows = [chips.take(each) for each in (held_out.clicked, held_out.unlabeled)]
        (wide, narrow), (wide_u, narrow_u) = (held_out.readings(each, propagation) for each in rows)
        places = [np.log(held_out.places(*both) + PLACE_FLOOR) for both in ((narrow, narrow_u), (wide, wide_u))]
        difference = float(np.clip((places[0] - places[1]).mean(), -1, 1))
        if share is None:
            share = elkan_noto_of_margins(*held_out.unseen(narrow, narrow_u))
    l2 = L2 if share is None else l2_for_share(share)
    plain_slope, slope, loss = fit(np.arange(len(marks.positive)), marks.unlabeled, l2)
    zeros, scale_of = np.zeros(3, np.float32), np.ones(3, np.float32)
    anchors = chips.take(chips.at)
    for place, margin in enumerate((anchors.standard @ plain_slope, anchors.white @ slope)):
        zeros[place], scale_of[place] = _origin(margin)
    start_values = np.zeros(len(chips.at), np.float32)
    only_own = Reading(plain_slope, slope, zeros, scale_of, start_values, 1.0, share, difference, loss, held_out)
    values = label_propagation(only_own.scores(anchors, propagation)[:, None], chips.links, propagation, check)[:, 0]
    zeros[2], scale_of[2] = _origin(values)
    weight = 0.0 if share is None else weight_of(share, difference, even_share)
    return replace(only_own, values=values.astype(np.float32), weight=weight)


@dataclass(frozen=True)
class _Fit:
    """Both regressions for some of the positives and of the unlabeled; all others that are marked are always there."""

    chips: Chips
    views: Floats
    marks: Marks
    tolerance: float
    check: Check

    def __call__(
        self, which: Ints, unlabeled: Ints, l2: float, *, with_accepted: bool = True
    ) -> tuple[Floats, Floats, float]:
        """Return the slopes, plain and whitened, and the loss of the latter; `which`: places in `marks.positive`."""
        marks, n_views = self.marks, len(self.views)
        accepted = marks.accepted if with_accepted else marks.accepted[:0]
        others = np.concatenate([unlabeled, marks.not_damaged, accepted])
        weights = side_weights(len(which), len(unlabeled), len(marks.not_damaged), len(accepted))
        clicked, more, rest = np.split(weights, [len(which), len(which) + len(accepted)])
        if marks.votes is not None and len(which):
            clicked = marks.votes[which] * (clicked.sum() / marks.votes[which].sum())
        slopes, loss = [], 0.0
        every_view = self.views[:, which].reshape(-1, self.views.shape[2])
        for n, positive, values in (
            (1, self.chips.standard[marks.positive[which]], self.chips.standard),
            (n_views, every_view, self.chips.white),
        ):
            both = np.concatenate([positive, values[others]])
            weight = np.concatenate([np.tile(clicked / n, n), rest, more]).astype(np.float32)
            is_positive = np.arange(len(both)) < len(positive)
            is_positive[len(both) - len(accepted) :] = True
            slope, _, loss = fit_logistic(both, is_positive, l2, weight, tolerance=self.tolerance, check=self.check)
            slopes.append(slope)
        return slopes[0], slopes[1], loss


def _hold_out(fit: _Fit, propagation: float, most: int, seed: int) -> HeldOut | None:
    """Fit both readings without a part of the clicks and of the unlabeled, part by part; None where there is too little.

    Only the analyst's own clicks are held out, unless these alone are too few.
    """
    chips, marks = fit.chips, fit.marks
    n_own, n_all = len(marks.clicked), len(marks.positive)
    n = n_own if n_own >= MIN_CLICKS else n_all
    n_folds = min(N_FOLDS, n, len(marks.unlabeled))
    if n < MIN_CLICKS or n_folds < 2:
        return None
    rng = np.random.default_rng([seed, 8])
    unlabeled = np.sort(rng.permutation(marks.unlabeled)[:most])
    fold, fold_u = rng.permutation(n) % n_folds, rng.permutation(len(unlabeled)) % n_folds
    found = []
    for part in range(n_folds):
        kept = np.concatenate([np.flatnonzero(fold != part), np.arange(n, n_all)])
        found.append(fit(kept, unlabeled[fold_u != part], L2, with_accepted=False)[:2])
    slopes = [np.stack(each) for each in zip(*found, strict=True)]
    anchors = chips.take(chips.at)
    margins = [values @ each.T for values, each in zip((anchors.standard, anchors.white), slopes, strict=True)]
    units = [[_origin(column) for column in margin.T] for margin in margins]
    zeros, scale_of = np.moveaxis(np.array(units, np.float32), 2, 0)
    own = sum((margin - zero) / scale for margin, zero, scale in zip(margins, zeros, scale_of, strict=True))
    values = label_propagation(own, chips.links, propagation, fit.check).astype(np.float32)
    return HeldOut(marks.positive[:n], unlabeled, fold, fold_u, slopes[0], slopes[1], zeros.T, scale_of.T, values)


def _statistics(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of float32 [M, E]; 1 where a column never varies."""
    mean, spread = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
    return mean.astype(np.float32), np.where(spread > 1e-6, spread, 1).astype(np.float32)


def _origin(scores: NDArray[np.floating]) -> tuple[float, float]:
    """Mean and standard deviation of scores [M]; 1 where all are alike."""
    unit = float(scores.std(dtype=np.float64))
    return float(scores.mean(dtype=np.float64)), unit if unit > 1e-9 else 1.0
