"""Odd ones: positives that a model which was not taught them takes for undamaged, chips unlike all others, and chips
twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.logistic import fit_logistic
from pu_geo.analysis.ranker import MAX_UNLABELED, PreparedFeatures
from pu_geo.errors import ShapeError, TrainingError

N_FOLDS = 10
LEAST_POSITIVES = 6  # with fewer, what is left of them cannot judge the one held out
LOWEST_BOUND, HIGHEST_BOUND = 0.5, 0.8
"""Places from which no click is doubted; measured, see "Wrong clicks" in docs/methods.md."""
_STEADY = 1.4826  # times the median absolute deviation: the standard deviation, for bell curves


def places_held_out(
    features: PreparedFeatures, is_positive: NDArray[np.bool_], *, l2: float, is_excluded: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each positive's place among the unlabeled by a linear ranker that learned from the other positives.

    Source: ours; held-out scores that speak against a label as in Northcutt et al. (2021), Confident Learning, by ranks,
    as scores of positive-unlabeled models are not calibrated.

    Args:
        features: what `ranker.prepare` made of features [N, D].
        is_positive: bool [N].
        l2: penalty, see `ranker.l2_for_share`.
        is_excluded: bool [N]; left out.

    Returns:
        Rows of the positives, int64 [P], and the share of unlabeled chips with a lower margin, float64 [P] in 0..1; a wrong
        click has a low one.

    Raises:
        TrainingError: if there are fewer than 6 positives, or nothing is unlabeled. ShapeError: if a mask is not [N].
    """
    values = features.values
    used = np.ones(len(values), np.bool_) if is_excluded is None else ~is_excluded
    if is_positive.shape != (len(values),) or used.shape != is_positive.shape:
        raise ShapeError(f"masks must be [{len(values)}]; got {is_positive.shape} and {used.shape}.")
    positive, unlabeled = np.flatnonzero(is_positive & used), np.flatnonzero(~is_positive & used)
    if len(positive) < LEAST_POSITIVES or not len(unlabeled):
        raise TrainingError(
            f"Label errors are searched for among at least {LEAST_POSITIVES} damaged buildings; this project has "
            f"{len(positive)}.",
            "Mark more damaged buildings on the Annotate page.",
            kind="positives",
        )
    draw = np.random.default_rng(0)
    if len(unlabeled) > MAX_UNLABELED:
        unlabeled = np.sort(draw.choice(unlabeled, MAX_UNLABELED, replace=False))
    fold = draw.permutation(len(positive)) % min(N_FOLDS, len(positive))
    place = np.empty(len(positive))
    for part in range(int(fold.max()) + 1):
        learned = positive[fold != part]
        rows = np.concatenate([learned, unlabeled])
        slope, _, _ = fit_logistic(values[rows], np.arange(len(rows)) < len(learned), l2)
        others = np.sort(values[unlabeled] @ slope)
        place[fold == part] = np.searchsorted(others, values[positive[fold == part]] @ slope) / len(others)
    return positive, place


def doubtful_below(share: float) -> float:
    """Return the place among the unlabeled, 0.5..0.8, below which a click may be wrong.

    Source: ours. A perfect ranker puts right clicks among the damaged ones, the highest `share`, and wrong ones below.

    Args:
        share: estimated share of damaged chips among the unlabeled, 0..1.
    """
    return min(max(1 - share, LOWEST_BOUND), HIGHEST_BOUND)


def loneliness(distances: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute how far each chip is from its neighbors, in robust standard deviations of what is usual, float64 [N].

    Args:
        distances: to the nearest other chips, float [N, k], k >= 1.

    Returns:
        (mean distance - median of these) / (1.48 median absolute deviation); all 0 where half of them or more are equal.
    """
    mean = distances.astype(np.float64).mean(axis=1)
    excess = mean - np.median(mean)
    usual = _STEADY * float(np.median(np.abs(excess)))
    return excess / usual if usual > 1e-12 else np.zeros(len(mean))
