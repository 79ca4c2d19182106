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
    truth = _check(scores, is_damaged)
    n_damaged = int(truth.sum())
    n_other = len(truth) - n_damaged
    if n_damaged == 0 or n_other == 0:
        return float("nan")
    _, group, size = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(size) - (size - 1) / 2
    above = mean_rank[group][truth].sum() - n_damaged * (n_damaged + 1) / 2
    return float(above / (n_damaged * n_other))


def average_precision(scores: NDArray[np.floating], is_damaged: NDArray[np.bool_]) -> float:
    """Mean precision over the recall steps; buildings of equal score enter together, so that row order is no matter.

    Args:
        scores: float [N], finite.
        is_damaged: bool [N].

    Returns:
        In [0, 1]; nan where nothing is damaged.
    """
    truth = _check(scores, is_damaged)
    if not truth.any():
        return float("nan")
    _, group = np.unique(-np.asarray(scores, np.float64), return_inverse=True)
    found = np.bincount(group, weights=truth)
    precision = np.cumsum(found) / np.cumsum(np.bincount(group))
    return float((precision * found).sum() / truth.sum())


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
    last = np.partition(scores, len(scores) - k)[len(scores) - k]
    is_above, is_tied = scores > last, scores == last
    places_left = k - int(is_above.sum())
    return float((truth[is_above].sum() + places_left * truth[is_tied].mean()) / k)


def overall_accuracy(is_called: NDArray[np.bool_], is_damaged: NDArray[np.bool_]) -> float:
    """Share of buildings called rightly, in [0, 1]; nan where there is none."""
    truth = _check(is_called, is_damaged)
    return float((is_called == truth).mean()) if len(truth) else float("nan")


def f1(is_called: NDArray[np.bool_], is_damaged: NDArray[np.bool_]) -> float:
    """Harmonic mean of precision and recall of the damaged class, in [0, 1]; 0 where nothing is called rightly.

    Args:
        is_called: bool [N], called damaged.
        is_damaged: bool [N].

    Returns:
        nan where nothing is damaged and nothing is called so.
    """
    truth = _check(is_called, is_damaged)
    total = int(is_called.sum()) + int(truth.sum())
    return float(2 * int((is_called & truth).sum()) / total) if total else float("nan")


def _check(values: NDArray[np.generic], is_damaged: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if values.ndim != 1 or values.shape != is_damaged.shape or is_damaged.dtype != np.bool_:
        raise ShapeError(
            f"values and is_damaged must be [N], the latter bool; got {values.shape} and "
            f"{is_damaged.dtype} {is_damaged.shape}."
        )
    if not np.isfinite(np.asarray(values, np.float64)).all():
        raise ValueError("scores must be finite; leave out buildings without a score.")
    return is_damaged
