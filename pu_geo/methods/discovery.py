"""What can be said of clusters: how much of each is positive, and which chips stand for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_CENTRAL = 24
"""Chips that fill a contact sheet."""


def cluster_shares(
    memberships: NDArray[np.floating], is_positive: NDArray[np.bool_], smoothing: float
) -> NDArray[np.float64]:
    """Say how much of each cluster is positive; clusters hold hidden damage too, so only the order of shares counts.

    Source: ours.

    Args:
        memberships: share of each chip in each cluster, float [M, C] in [0, 1].
        is_positive: bool [M].
        smoothing: above 0; as many chips, positive as often as all chips are, are added to each cluster. An empty one
            gets the average.

    Returns:
        float64 [C]; within (0, 1) where there are positives and others.
    """
    sizes = memberships.sum(axis=0, dtype=np.float64)
    positives = memberships[is_positive].sum(axis=0, dtype=np.float64)
    shares: NDArray[np.float64] = (positives + smoothing * is_positive.mean()) / (sizes + smoothing)
    return shares


def central_chips(
    embeddings: NDArray[np.floating], clusters: NDArray[np.int64], n_clusters: int, *, most: int = N_CENTRAL
) -> list[NDArray[np.int64]]:
    """Choose the chips to show for each cluster: those nearest to its mean direction.

    Args:
        embeddings: unit rows, float [M, E].
        clusters: of each row, int64 [M]; below 0 = to be shown for none.
        n_clusters: C.
        most: chips a cluster at most.

    Returns:
        C arrays of row numbers in 0..M-1, int64, nearest first; empty for an empty cluster.
    """
    found = []
    for cluster in range(n_clusters):
        members = np.flatnonzero(clusters == cluster)
        closeness = embeddings[members] @ embeddings[members].sum(axis=0)
        found.append(members[np.argsort(-closeness, kind="stable")[:most]])
    return found
