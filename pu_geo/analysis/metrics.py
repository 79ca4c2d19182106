"""Figures of how well scores order or split buildings whose truth is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ShapeError


def auc(scores: NDArray[np.floating], is_damaged: NDArray[np.bool_]) -> float:
    """Chance that a damaged building scores higher than an undamaged one; a tie counts one half.

    Args:
        scores: float [N], finite.
        is_damaged: bool [N].

    Returns:
        In [0, 1]; nan where one of the classes is missing.
    """
    from sklearn.metrics import roc_auc_score

    truth = _check(scores, is_damaged)
    return float("nan") if truth.all() or not truth.any() else float(roc_auc_score(truth, scores))


def average_precision(scores: NDArray[np.floating], is_damaged: NDArray[np.bool_]) -> float:
    """Mean precision over the recall steps; buildings of equal score enter together, so that row order is no matter.

    Args:
        scores: float [N], finite.
        is_damaged: bool [N].

    Returns:
        In [0, 1]; nan where nothing is damaged.
    """
    from sklearn.metrics import average_precision_score

    truth = _check(scores, is_damaged)
    return float(average_precision_score(truth, scores)) if truth.any() else float("nan")


def precision_at_k(scores: NDArray[np.floating], is_damaged: NDArray[np.bool_], k: int) -> float:
    """Share of damaged buildings among the k with the highest scores.

    Buildings that tie at the k-th place share the places that are left, so the result is the mean over all ways to
    break the tie.

    Args:
        scores: float [N], finite.
        is_damaged: bool [N].
        k: from 1 on; where fewer buildings exist, all count.

    Returns:
        In [0, 1].

    Raises:
        ValueError: if k < 1 or there is no building.
    """
    truth = _check(scores, is_damaged)
    if k < 1 or not len(truth):
        raise ValueError(f"k must be at least 1 and buildings must exist; got k = {k} and {len(truth)} buildings.")
    k = min(k, len(truth))
    return float(in_top(scores, k) @ truth / k)


def in_top(scores: NDArray[np.floating], k: int) -> NDArray[np.float64]:
    """Return the chance of each building to be among the k highest, float64 [N], which sums to k; ties share what is
    left.
    """
    last = np.partition(scores, len(scores) - k)[len(scores) - k]
    is_above, is_tied = scores > last, scores == last
    return np.where(is_tied, (k - is_above.sum()) / is_tied.sum(), is_above)


def _check(values: NDArray[np.generic], is_damaged: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if values.ndim != 1 or values.shape != is_damaged.shape or is_damaged.dtype != np.bool_:
        raise ShapeError(
            f"values and is_damaged must be [N], the latter bool; got {values.shape} and "
            f"{is_damaged.dtype} {is_damaged.shape}."
        )
    if not np.isfinite(np.asarray(values, np.float64)).all():
        raise ValueError("scores must be finite; leave out buildings without a score.")
    return is_damaged
