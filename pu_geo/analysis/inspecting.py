"""What an analyst sees of a cluster: its spread, how much of it may be damaged, and which chips stand for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from pu_geo.analysis.clustering import k_means
from pu_geo.analysis.neighbors import unit_rows
from pu_geo.errors import ShapeError

Floats = NDArray[np.floating]
INTERVAL = 0.95
MOST_ROWS = 20_000  # rows of a cluster that its split is worked out from; the others follow


@dataclass(frozen=True)
class Chance:
    """Estimated share of damaged buildings in each cluster, float64 [K] in 0..1, and the ends of its 95 % interval."""

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def damaged_share(
    n_positive: NDArray[np.int64], sizes: NDArray[np.int64], *, n_damaged: float,
    n_not_damaged: NDArray[np.int64] | None = None,
) -> Chance:  # fmt: skip
    """Estimate how much of each cluster is damaged, from where the clicks lie.

    Source: ours, after Elkan and Noto (KDD 2008): where clicks are an even draw of the damaged buildings, a cluster with a
    tenth of the clicks holds a tenth of the damage. The interval takes a cluster's clicks as Poisson counts with Jeffreys'
    prior, so that a cluster without clicks gets an upper end that falls with its size. How uncertain `n_damaged` itself
    is, it does not know.

    Args:
        n_positive: clicked positives in each cluster, int64 [K], at least one in all.
        sizes: buildings in each cluster, int64 [K].
        n_damaged: estimated damaged buildings in all clusters, clicked ones among them.
        n_not_damaged: buildings in each cluster that are known to be undamaged, int64 [K]; none if None.

    Returns:
        Shares of all buildings of a cluster, clicked ones among them; 0 for an empty one.

    Raises:
        ShapeError(ValueError): if the arrays do not fit together. ValueError: without a positive.
    """
    if n_positive.shape != sizes.shape or n_positive.ndim != 1:
        raise ShapeError(f"n_positive and sizes must be [K]; got {n_positive.shape} and {sizes.shape}.")
    total = int(n_positive.sum())
    if total == 0:
        raise ValueError("an estimate needs at least one positive in the clusters.")
    per_click = max(n_damaged, total) / total / np.maximum(sizes, 1)
    least = n_positive / np.maximum(sizes, 1)
    low, high = (scipy.special.gammaincinv(n_positive + 0.5, (1 + side * INTERVAL) / 2) * per_click for side in (-1, 1))
    low = np.where(n_positive > 0, low, 0)
    most = np.maximum(least, 1 - (0 if n_not_damaged is None else n_not_damaged) / np.maximum(sizes, 1))
    clipped = [np.where(sizes > 0, np.clip(each, least, most), 0) for each in (n_positive * per_click, low, high)]
    return Chance(*clipped)


def directions(rows: Floats, part: NDArray[np.int64], n_parts: int) -> NDArray[np.float32]:
    """Return the mean direction of the rows [N, D] of each part, unit float32 [K, D]; rows of part -1 belong to none."""
    return unit_rows(np.stack([rows[part == each].sum(axis=0, dtype=np.float64) for each in range(n_parts)]))


def cosine_gaps(rows: Floats, toward: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 - cosine of each row [N, D] to each direction [K, D], float32 [N, K], 0..2."""
    rows = np.asarray(rows, np.float32)
    lengths = np.maximum(np.sqrt(np.vecdot(rows, rows)), np.float32(1e-12))
    return np.clip(1 - rows @ toward.T / lengths[:, None], 0, 2)


@dataclass(frozen=True)
class Examples:
    """Rows that stand for a cluster: nearest to its center, at its border, and with the highest scores; int64 [n] each."""

    center: NDArray[np.int64]
    border: NDArray[np.int64]
    highest: NDArray[np.int64]


def examples(
    gaps: NDArray[np.float32], part: NDArray[np.int64], which: int, scores: NDArray[np.float32], n: int
) -> Examples:
    """Choose rows of one cluster to show.

    Args:
        gaps: as `cosine_gaps` gives them, float32 [N, K].
        part: cluster of each row, int64 [N].
        which: the cluster, 0..K-1.
        scores: float32 [N].
        n: how many of each kind, or all where it has fewer.

    Returns:
        Border: nearly as near to another cluster, nearest first; with one cluster alone, the farthest.
    """
    rows = np.flatnonzero(part == which)
    own = gaps[rows, which]
    others = np.delete(gaps[rows], which, axis=1)
    margin = others.min(axis=1) - own if others.shape[1] else -own
    at = [np.argsort(key, kind="stable")[:n] for key in (own, margin, -scores[rows])]
    return Examples(*(rows[each] for each in at))


def split_in_two(rows: Floats) -> NDArray[np.int64]:
    """Split rows [N, D] by k-means of their directions; int64 [N], 0 and 1.

    Of more than 20,000 rows, an even draw settles the means, and each row joins the nearer one. All zeros where the rows
    coincide.
    """
    some = rows
    if len(rows) > MOST_ROWS:
        some = rows[np.sort(np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False))]
    found = k_means(unit_rows(some), 2, seed=0)
    return cosine_gaps(rows, unit_rows(found.cluster_centers_)).argmin(axis=1).astype(np.int64)
