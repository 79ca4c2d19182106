"""What is known of clusters: how much of each is positive, which chips stand for it, and how many there may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pu_geo.errors import ShapeError

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

N_CENTRAL = 24  # chips that fill a contact sheet
MAX_ROWS = 2000  # rows that are compared; of more, some are drawn, as every pair is compared
_N_SEEDINGS, _N_ITERATIONS = 4, 30


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


def suggested_number(embeddings: Floats, candidates: Sequence[int], generator: torch.Generator) -> SuggestedNumber:
    """Try several numbers of clusters and return the one that separates the embeddings most clearly.

    Source: Rousseeuw 1987, Silhouettes; k-means with the seeding of Arthur and Vassilvitskii 2007 (k-means++), best of 4.

    Args:
        embeddings: float [M, D], compared by Euclidean distance.
        candidates: numbers to try, each in 2..M-1.
        generator: CPU generator of the seedings, and of the draw where there are more than `MAX_ROWS` rows.

    Returns:
        The estimate. It is crude: kinds that overlap, or one far more common than the others, are easily missed.

    Raises:
        ShapeError: if embeddings are not [M, D].
        ValueError: if there is no candidate, or one is out of range.
    """
    if embeddings.ndim != 2:
        raise ShapeError(f"embeddings must be [M, D]; got {embeddings.shape}.")
    n = min(len(embeddings), MAX_ROWS)
    if not candidates or not all(2 <= k < n for k in candidates):
        raise ValueError(f"candidates must be one or more numbers in 2..{n - 1}; got {list(candidates)}.")
    chosen = torch.randperm(len(embeddings), generator=generator)[:n].numpy()
    points = torch.from_numpy(np.asarray(embeddings[chosen], np.float64))
    between = torch.cdist(points, points)
    found = {k: silhouette(between, k_means(points, k, generator)) for k in sorted(candidates)}
    return SuggestedNumber(max(found, key=lambda k: found[k]), found)


def k_means(points: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Part points, float [M, D], into k clusters; int64 [M]. A cluster may stay empty where points coincide."""
    best, lowest = torch.zeros(len(points), dtype=torch.int64), torch.inf
    for _ in range(_N_SEEDINGS):
        chosen = torch.randint(len(points), (1,), generator=generator)
        while len(chosen) < k:  # k-means++: far ones more often
            gap = torch.cdist(points, points[chosen]).min(dim=1).values.square()
            drawn = torch.multinomial(gap + 1e-12, 1, generator=generator)  # coinciding points leave no other choice
            chosen = torch.cat([chosen, drawn])
        centers, before = points[chosen], torch.tensor(())
        for _ in range(_N_ITERATIONS):
            nearest = torch.cdist(points, centers).argmin(dim=1)
            if torch.equal(nearest, before):
                break
            before, members = nearest, functional.one_hot(nearest, k).to(points)
            means = (members.T @ points) / members.sum(dim=0).clamp_min(1)[:, None]
            centers = torch.where(members.any(dim=0)[:, None], means, centers)
        distances = torch.cdist(points, centers).min(dim=1)
        cost = float(distances.values.square().sum())
        if cost < lowest:
            best, lowest = distances.indices, cost
    return best


def silhouette(between: Tensor, clusters: Tensor) -> float:
    """Mean silhouette of a clustering.

    Args:
        between: distances, float [M, M].
        clusters: int64 [M]. A chip alone in its cluster counts 0, and so do all where there is but one cluster.

    Returns:
        A number in [-1, 1].
    """
    labels, inverse = clusters.unique(return_inverse=True)
    if len(labels) < 2:
        return 0.0
    members = functional.one_hot(inverse).to(between)
    sizes, totals = members.sum(dim=0), between @ members
    own = members.bool()
    inside = totals[own] / (sizes[inverse] - 1).clamp_min(1)
    outside = (totals / sizes).masked_fill(own, torch.inf).min(dim=1).values
    each = (outside - inside) / torch.maximum(inside, outside).clamp_min(1e-12)
    return float(each.masked_fill(sizes[inverse] == 1, 0).mean())
