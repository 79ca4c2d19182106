"""Does a ranking find damage that it was not shown? It is judged by the analyst's own clicks, held out in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_FOLDS, N_REPEATS = 5, 3
LEVEL = 0.95  # of all intervals
FLOOR = 0.2
"""Added to a place before its logarithm. Among damaged buildings a click's place is chance, and without a floor that chance
is most of the mean: comparisons of features picked worse with 0 and 0.05."""
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

    A part of the unlabeled is held out with each part of the clicks, and a click's place is among these: a fit pushes down
    the unlabeled that it learns from, the more the more features it has, and features would be compared by their number.

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


def bootstrap(values: NDArray[np.float64], level: float = LEVEL) -> Interval:
    """Return the mean of values [P], one a click, with its percentile bootstrap interval over clicks.

    Clicks are what is drawn, so the repeats of a click must have been averaged before. Fits share most of their clicks,
    which the bootstrap does not know of: the interval is a rule of thumb, and its level was chosen by simulation, see
    docs/methods.md.
    """
    drawn = np.random.default_rng(0).integers(len(values), size=(N_DRAWS, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))
