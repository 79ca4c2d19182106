"""What is known of clusters: how much of each is positive, which chips stand for it, and how many there may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis.clustering import k_means

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

N_CENTRAL = 24  # chips that fill a contact sheet
MAX_ROWS = 2000  # rows that are compared; of more, some are drawn, as every pair is compared


def cluster_shares(memberships: Floats, is_positive: NDArray[np.bool_], smoothing: float) -> NDArray[np.float64]:
    """Compute how much of each cluster is positive; clusters hold hidden damage too, so only the order of shares counts.

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
    return (positives + smoothing * is_positive.mean()) / (sizes + smoothing)


def central_chips(embeddings: Floats, clusters: Ints, n_clusters: int, *, most: int = N_CENTRAL) -> list[Ints]:
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


@dataclass(frozen=True)
class SuggestedNumber:
    """An estimate with what it rests on.

    Attributes:
        number: the candidate of the largest silhouette, the smallest one of several.
        silhouettes: candidate -> mean silhouette in [-1, 1]. Close values mean that no candidate is clearly better.
    """

    number: int
    silhouettes: Mapping[int, float]


def suggested_number(
    embeddings: Floats, candidates: Sequence[int], generator: torch.Generator, check: Callable[[], None] = lambda: None
) -> SuggestedNumber:
    """Try several numbers of clusters and return the one that separates the embeddings most clearly.

    Source: Rousseeuw 1987, Silhouettes; k-means with the seeding of Arthur and Vassilvitskii 2007 (k-means++), best of 4.

    Args:
        embeddings: float [M, D], compared by Euclidean distance.
        candidates: numbers to try, one or more, each in 2..min(M, `MAX_ROWS`)-1.
        generator: CPU generator of the seedings, and of the draw where there are more than `MAX_ROWS` rows.
        check: called before each number is tried; what it raises ends the work.

    Returns:
        The estimate. It is crude: kinds that overlap, or one far more common than the others, are easily missed.

    """
    n = min(len(embeddings), MAX_ROWS)
    chosen = torch.randperm(len(embeddings), generator=generator)[:n].numpy()
    points = np.asarray(embeddings[chosen], np.float64)
    found = {}
    for k in sorted(candidates):
        check()
        found[k] = silhouette(points, k_means(points, k, seed=seed_of(generator)).labels_)
    return SuggestedNumber(max(found, key=lambda k: found[k]), found)


def seed_of(generator: torch.Generator) -> int:
    """Draw a seed for what takes no generator of torch."""
    return int(torch.randint(2**31, (1,), generator=generator))


def silhouette(points: Floats, clusters: Ints) -> float:
    """Mean silhouette of clusters [M] of points [M, D], -1..1; 0 where there is but one cluster, or as many as points."""
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(points, clusters)) if 1 < len(np.unique(clusters)) < len(clusters) else 0.0
