"""Which features find damage that they were not shown? Candidates are judged by the analyst's own clicks, held out in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

N_FOLDS, N_REPEATS = 5, 3
LEAST_CLICKS = 8  # fewer own clicks compare nothing
LEAST_TO_PICK = 60  # fewer pick nothing; see `judge`
LEVEL = 0.95  # of all intervals; see `judge`
FLOOR = 0.2
"""Added to a place before its logarithm. Among damaged buildings a click's place is chance, and without a floor that chance
is most of the mean: the same rule picked worse with 0 and 0.05 (docs/tables.md)."""
N_DRAWS = 4000  # of the bootstrap

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Score = Callable[[Bools], NDArray[np.floating]]
"""Fits a candidate without the buildings of a mask, bool [N], and returns scores of all, float [N]."""


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What a comparison says.

    Attributes:
        kind: "better" where another candidate than the incumbent was picked, "same" where no difference was found, "few" where
            there are not enough clicks to pick by.
        name: the candidate that was picked; the incumbent unless `kind` is "better".
        differences: mean log place of each other candidate minus the incumbent's; below 0 it is better.
    """

    kind: Literal["better", "same", "few"]
    name: str
    differences: Mapping[str, Interval]


def folds(n: int, n_folds: int, draw: np.random.Generator) -> Ints:
    """Draw the part, 0..n_folds - 1, that each of n is held out with, int64 [n]; sizes differ by 1 at most."""
    return draw.permutation(n) % n_folds


def places(clicks: NDArray[np.floating], unlabeled: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the place of each held-out click among held-out unlabeled buildings: (how many come before it + 1) / (n + 1).

    Source: ours. Of those with an equal score half come before, so that scores that are all the same have places near 1/2.

    Args:
        clicks: scores of held-out clicks, float [K].
        unlabeled: scores of held-out unlabeled buildings, float [n].

    Returns:
        float64 [K] in (0, 1]; near 0 is the top of the list.

    Example:
        >>> places(np.array([0.9, 0.5, 0.1]), np.array([0.2, 0.5, 0.7])).tolist()
        [0.25, 0.625, 1.0]
    """
    ordered = np.sort(unlabeled)
    higher = len(ordered) - np.searchsorted(ordered, clicks, side="right")
    equal = len(ordered) - higher - np.searchsorted(ordered, clicks, side="left")
    return (higher + equal / 2 + 1) / (len(ordered) + 1)


def held_out_places(
    score: Score, own: Ints, unlabeled: Ints, n: int, *, n_folds: int = N_FOLDS, n_repeats: int = N_REPEATS, seed: int = 0
) -> NDArray[np.float64]:
    """Hold clicks out in repeated folds and return where each comes by a fit without it.

    A part of the unlabeled is held out with each part of the clicks, and a click's place is among these: a fit pushes down the
    unlabeled that it learns from, the more the more features it has, and features would be compared by their number.

    Args:
        score: see `Score`.
        own: rows of the clicks that judge, int64 [P]. Positives that are not among them are learned from in every fit.
        unlabeled: rows that a click's place is among, int64 [U]; at least as many as there are folds.
        n: number of all rows.
        n_folds: at most the number of clicks.
        seed: of the folds; the same one gives all candidates the same folds.

    Returns:
        float64 [n_repeats, P] in (0, 1]; see `places`.
    """
    n_folds, found = min(n_folds, len(own)), np.empty((n_repeats, len(own)))
    for repeat in range(n_repeats):
        draw = np.random.default_rng([seed, repeat])
        fold, other = folds(len(own), n_folds, draw), folds(len(unlabeled), n_folds, draw)
        for part in range(n_folds):
            is_out = np.zeros(n, np.bool_)
            is_out[own[fold == part]] = is_out[unlabeled[other == part]] = True
            scores = score(is_out)
            found[repeat, fold == part] = places(scores[own[fold == part]], scores[unlabeled[other == part]])
    return found


def log_places(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average log(place + `FLOOR`) over repeats: float64 [R, P] to [P], a value a click."""
    return np.log(found + FLOOR).mean(axis=0)


def typical(log_place: Interval) -> Interval:
    """Return a mean log place as a place: near 0 is the top of the list."""
    return Interval(*(max(float(np.exp(each)) - FLOOR, 0.0) for each in (log_place.mean, log_place.low, log_place.high)))


def bootstrap(values: NDArray[np.float64], level: float = LEVEL, seed: int = 0) -> Interval:
    """Return the mean of values [P], one a click, with its percentile bootstrap interval over clicks.

    Clicks are what is drawn, so the repeats of a click must have been averaged before. Fits share most of their clicks, which the
    bootstrap does not know of: the interval is a rule of thumb, and its level was chosen by simulation, see docs/methods.md.
    """
    drawn = np.random.default_rng(seed).integers(len(values), size=(N_DRAWS, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def average_precision(
    found: NDArray[np.floating], n_unlabeled: int, times: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """Return the average precision of held-out clicks among unlabeled buildings, in (0, 1], from their places.

    All unlabeled buildings count as not damaged, so it is a lower bound; for a difference of two feature sets that does no harm.
    Before a click at place p stand p n_unlabeled of them, and the clicks at places up to p, itself included.

    Source: ours; the area under the curve of precision and recall as a sum over positives.

    Args:
        found: places, float [P] in (0, 1].
        times: how many times each click counts, float [B, P]; each once if None.

    Returns:
        float64 [B]; [1] where `times` is None.

    Example:
        >>> average_precision(np.array([0.01, 0.5]), 100).tolist()  # (1/(1 + 1) + 2/(2 + 50)) / 2
        [0.2692307692307692]
    """
    order = np.argsort(found, kind="stable")
    place, count = found[order], (np.ones((1, len(found))) if times is None else np.asarray(times, np.float64)[:, order])
    last = np.searchsorted(place, place, side="right") - 1
    clicks = np.cumsum(count, axis=1)[:, last]
    precision = clicks / (clicks + place * n_unlabeled)
    return np.asarray((count * precision).sum(axis=1) / count.sum(axis=1))


def gain(
    better: NDArray[np.floating], worse: NDArray[np.floating], n_unlabeled: int, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Return by how much the average precision of one candidate exceeds another's, with its paired bootstrap interval.

    Clicks are what is drawn, the same ones for both; each repeat has its own precision, and these are averaged.

    Args:
        better, worse: places, float [R, P], of the same held-out clicks in the same repeats.
    """
    n = better.shape[1]
    times = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=N_DRAWS // 4).astype(np.float64)
    pairs = list(zip(better, worse, strict=True))

    def mean(of: NDArray[np.floating] | None) -> NDArray[np.float64]:
        each = [average_precision(one, n_unlabeled, of) - average_precision(other, n_unlabeled, of) for one, other in pairs]
        return np.asarray(np.mean(each, axis=0))

    low, high = np.quantile(mean(times), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(mean(None)[0]), float(low), float(high))


def judge(
    by_name: Mapping[str, NDArray[np.float64]], incumbent: str, *, level: float = LEVEL, least: int = LEAST_TO_PICK
) -> Verdict:
    """Pick a candidate: the incumbent, unless another is better with a paired interval that excludes 0.

    Where several are, the one with the best mean is picked. With fewer than `least` clicks the incumbent stays.

    Source: ours. Level and least number of clicks were chosen with `benchmarks.bakeoff`; the table is in docs/tables.md.

    Args:
        by_name: mean log place of each click, float64 [P], of each candidate; the same clicks in the same order.
        incumbent: a name among them.
    """
    base = by_name[incumbent]
    differences = {name: bootstrap(each - base, level) for name, each in by_name.items() if name != incumbent}
    if differences and len(base) < least:
        return Verdict("few", incumbent, differences)
    better = {name: each.mean for name, each in differences.items() if each.high < 0}
    if not better:
        return Verdict("same", incumbent, differences)
    return Verdict("better", min(better, key=lambda name: better[name]), differences)
