"""How alike two sortings of the same buildings into groups are: agreement beyond chance, matching, and stability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ShapeError

Ints = NDArray[np.integer]


def table(one: Ints, other: Ints, n_one: int = 0, n_other: int = 0) -> NDArray[np.int64]:
    """Count how often group i of one sorting meets group j of the other.

    Args:
        one, other: groups 0, 1, ... of the same M buildings, int [M].
        n_one, n_other: groups there are at least; more rows or columns than that where higher numbers occur.

    Returns:
        int64 [A, B]; sums to M.

    Raises:
        ShapeError: if they are not of the same buildings.
        ValueError: if a group is below 0.
    """
    if one.ndim != 1 or one.shape != other.shape:
        raise ShapeError(f"both sortings must be [M], of the same buildings; got {one.shape} and {other.shape}.")
    if len(one) and min(one.min(), other.min()) < 0:
        raise ValueError("groups are counted from 0; leave out buildings that have none.")
    n_one, n_other = (max(n, int(each.max()) + 1 if len(each) else 0) for n, each in ((n_one, one), (n_other, other)))
    flat = np.bincount(one.astype(np.int64) * n_other + other, minlength=n_one * n_other)
    return flat.reshape(n_one, n_other).astype(np.int64)


def adjusted_rand(one: Ints, other: Ints) -> float:
    """Compute how often two sortings agree on a pair of buildings, beyond chance.

    Source: Hubert and Arabie 1985, Comparing partitions.

    Args:
        one, other: as in `table`.

    Returns:
        1 for the same sorting under other names, about 0 by chance; 1 where both leave nothing to disagree on.
    """
    counts = table(one, other).astype(np.float64)
    numbers = (counts, counts.sum(1), counts.sum(0), counts.sum())
    both, rows, columns, all_pairs = (float(np.sum(each * (each - 1) / 2)) for each in numbers)
    expected = rows * columns / all_pairs if all_pairs else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def matching(reference: Ints, other: Ints, n_groups: int) -> NDArray[np.int64]:
    """Match the groups of one sorting with those of another, so that as many buildings as possible agree.

    Source: Kuhn 1955, the Hungarian method.

    Args:
        reference, other: as in `table`, groups in 0..n_groups-1.
        n_groups: K.

    Returns:
        int64 [K], a permutation: `matching(...)[other]` speaks of the groups of `reference`.
    """
    from scipy.optimize import linear_sum_assignment

    counts = table(reference, other, n_groups, n_groups)
    rows, columns = linear_sum_assignment(-counts)
    renamed = np.empty(len(counts), np.int64)
    renamed[columns] = rows
    return renamed


@dataclass(frozen=True)
class Stability:
    """How far several sortings of the same buildings, such as of several seeds, agree with one, and with each other.

    Attributes:
        membership: share of the sortings that put a building where the one does, float32 [M] in [0, 1].
        adjusted_rand: mean over the pairs of sortings; None where there is but one.
        jaccard: of each group, mean over the sortings of the overlap with the group most like it, in [0, 1], float64 [K];
            nan where the group is empty.
    """

    membership: NDArray[np.float32]
    adjusted_rand: float | None
    jaccard: NDArray[np.float64]


def stability(groups: Ints, sortings: Sequence[Ints], n_groups: int) -> Stability:
    """Compare one sorting with several of the same buildings.

    Source: the overlap of a group is Hennig 2007, Cluster-wise assessment of cluster stability; counting who agrees is ours.

    Args:
        groups: as in `table`, groups in 0..n_groups-1.
        sortings: one or more of the same buildings; they may have other numbers of groups.
        n_groups: K.

    Raises:
        ValueError: if there is no sorting to compare with.
    """
    if not sortings:
        raise ValueError("stability needs at least one sorting to compare with; got none.")
    agrees, overlaps = [], []
    for other in sortings:
        n = max(n_groups, int(other.max()) + 1)
        agrees.append(matching(groups, other, n)[other] == groups)
        counts = table(groups, other, n_groups).astype(np.float64)
        sizes = counts.sum(1)
        either = sizes[:, None] + counts.sum(0)[None] - counts
        overlaps.append(np.where(sizes > 0, (counts / np.maximum(either, 1)).max(1), np.nan))
    pairs = [adjusted_rand(one, other) for i, one in enumerate(sortings) for other in sortings[:i]]
    mean = float(np.mean(pairs)) if pairs else None
    return Stability(np.mean(agrees, axis=0).astype(np.float32), mean, np.mean(overlaps, axis=0))
