"""k-means by scikit-learn, and how alike several sortings of the same buildings are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

Ints = NDArray[np.int64]


def k_means(
    rows: NDArray[np.floating], k: int, *, seed: int, n_seedings: int = 4, max_iterations: int = 100,
    weights: NDArray[np.floating] | None = None,
) -> KMeans:  # fmt: skip
    """Part rows [N, D] into k clusters by scikit-learn's k-means, the best of several k-means++ seedings.

    On one thread: of several, the order in which they add up would change the last bits from time to time.

    Args:
        rows: float [N, D], finite, compared by Euclidean distance.
        k: 1..N. Clusters stay empty where rows coincide.
        seed: the same one gives the same clusters.
        weights: of the rows, float [N].
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    means = KMeans(k, n_init=n_seedings, max_iter=max_iterations, random_state=seed)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of rows that coincide
        return means.fit(rows, sample_weight=weights)


def matching(reference: Ints, other: Ints, n_groups: int) -> Ints:
    """Match the groups of one sorting with those of another, so that as many buildings as possible agree.

    Source: Kuhn 1955, the Hungarian method.

    Args:
        reference, other: groups 0..n_groups-1 of the same M buildings, int64 [M].
        n_groups: K.

    Returns:
        int64 [K], a permutation: `matching(...)[other]` speaks of the groups of `reference`.
    """
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(_table(other, reference, n_groups), maximize=True)[1], np.int64)


def adjusted_rand(sortings: Sequence[Ints]) -> float | None:
    """Return how often two sortings agree on a pair of buildings, beyond chance, mean over pairs; None where there is but
    one.

    Source: Hubert and Arabie 1985, Comparing partitions.
    """
    from sklearn.metrics import adjusted_rand_score

    pairs = [adjusted_rand_score(one, other) for i, one in enumerate(sortings) for other in sortings[:i]]
    return float(np.mean(pairs)) if pairs else None


def stability(groups: Ints, sortings: Sequence[Ints], n_groups: int) -> NDArray[np.float64]:
    """Return how well each group is found again in other sortings of the same buildings, float64 [K] in 0..1; 0 for an empty
    one.

    Source: Hennig (2007), cluster-wise stability: the largest Jaccard index with a group of the other one, on average.

    Args:
        groups: 0..n_groups-1 of each building, int64 [M]; sortings: one or more with as many groups.
        n_groups: K.
    """
    found = np.zeros(n_groups)
    for other in sortings:
        table = _table(groups, other, n_groups)
        union = table.sum(axis=1, keepdims=True) + table.sum(axis=0) - table
        found += (table / np.maximum(union, 1)).max(axis=1)
    return found / max(len(sortings), 1)


def _table(one: Ints, other: Ints, n_groups: int) -> Ints:
    """Count how often group i of one sorting meets group j of the other, int64 [K, K]."""
    return np.bincount(one * n_groups + other, minlength=n_groups**2).reshape(n_groups, n_groups)
