"""How far two rankings of the same buildings agree, and where they do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.metrics import in_top
from pu_geo.errors import ShapeError


def rank_share(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute where each building is between the lowest and the highest: the share of the others that score lower, ties
    count half.

    Args:
        scores: float [N], finite.

    Returns:
        float64 [N] in [0, 1], mean 0.5; 1 for a highest score that nobody shares, 0.5 for one building alone.

    Raises:
        ShapeError: if scores are not [N].
        ValueError: if one is not finite.
    """
    from scipy.stats import rankdata

    values = _checked(scores)
    return (rankdata(values) - 1) / (len(values) - 1) if len(values) != 1 else np.full(1, 0.5)


def places(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the place of each building, int64 [N]: 1 for the highest score; equal scores share the best of their places."""
    from scipy.stats import rankdata

    return rankdata(-_checked(scores), "min").astype(np.int64)


def spearman(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Rank correlation of two scores: Pearson's of the mean ranks, so that ties count as they should.

    Args:
        one, other: float [N], finite.

    Returns:
        In [-1, 1]; nan where one of them gives all buildings the same score.
    """
    _check_pair(one, other)
    ours, theirs = rank_share(one) - 0.5, rank_share(other) - 0.5
    length = np.sqrt((ours @ ours) * (theirs @ theirs))
    return float(np.clip(ours @ theirs / length, -1, 1)) if length > 0 else float("nan")


def top_overlap(one: NDArray[np.floating], other: NDArray[np.floating], k: int) -> float:
    """Share of the k highest of one ranking that are among the k highest of the other.

    Buildings that tie at the k-th place share the places that are left, so the result is the mean over all ways to break
    the ties of each ranking, independently of each other. Two random rankings share k / N.

    Args:
        one, other: float [N], finite.
        k: 1..N.

    Returns:
        In [0, 1].

    Raises:
        ValueError: if k is outside 1..N.
    """
    _check_pair(one, other)
    if not 1 <= k <= len(one):
        raise ValueError(f"k must be between 1 and {len(one)}; got {k}.")
    return float(in_top(one, k) @ in_top(other, k) / k)


def disagreement(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return how much higher one ranking places each building than the other, as a difference of rank shares.

    Returns:
        float64 [N] in [-1, 1]; 0.5 where one has half of all buildings between its place and the other's.
    """
    _check_pair(one, other)
    return rank_share(one) - rank_share(other)


def largest_differences(difference: NDArray[np.floating], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find where two rankings disagree most.

    Args:
        difference: what `disagreement` returned, float [N].
        n: rows a direction, at most; 0 or more.

    Returns:
        Rows that one ranks higher, and rows that the other does, int64 [<= n] each, largest difference first; of equal
        ones the first row. Rows on which they agree are in neither.
    """
    higher, lower = (np.argsort(sign * difference, kind="stable")[:n] for sign in (-1, 1))
    return higher[difference[higher] > 0], lower[difference[lower] < 0]


def _checked(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    if scores.ndim != 1:
        raise ShapeError(f"scores must be [N]; got {scores.shape}.")
    values = np.asarray(scores, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite; leave out buildings without a score.")
    return values


def _check_pair(one: NDArray[np.floating], other: NDArray[np.floating]) -> None:
    if one.shape != other.shape:
        raise ShapeError(f"both rankings must be [N], of the same buildings; got {one.shape} and {other.shape}.")
