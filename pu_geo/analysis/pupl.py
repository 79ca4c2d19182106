"""PUPL: pseudo labels from clusters of embeddings, with the labelled positives as the anchor of one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ShapeError, TrainingError

Floats = NDArray[np.floating]
_BLOCK_ROWS = 16_384


@dataclass(frozen=True)
class PuplResult:
    """Clusters of embeddings, row i of `labels` belonging to row i of the embeddings.

    Attributes:
        labels: cluster of each row, int64 [N]. With two clusters these are pseudo labels: 1 = damaged.
        centroids: float64 [K, D]; unit length where the clustering was spherical.
        potential: sum of squared distances of all rows to the centroid nearest to them (a pinned row's may be the other).
        iterations: passes over the embeddings that the chosen seeding took.
        oriented: whether the positives lean to centroid 1 more than the unlabeled do, and cluster 0 has rows. False:
            the clusters do not follow the positives, do not trust the labels. True for `over_cluster`.
        sizes: rows in each cluster, int64 [K].
        positive_counts: positives in each cluster, int64 [K].
        positive_share: share of positives among the rows of each cluster, float64 [K], 0..1; 0 for an empty cluster.
        ranking: clusters by falling share of positives, equal shares by falling count of positives, int64 [K].
    """

    labels: NDArray[np.int64]
    centroids: NDArray[np.float64]
    potential: float
    iterations: int
    oriented: bool
    sizes: NDArray[np.int64]
    positive_counts: NDArray[np.int64]
    positive_share: NDArray[np.float64]
    ranking: NDArray[np.int64]


@dataclass(frozen=True)
class Lloyd:
    """Where Lloyd's iterations ended for each of S seedings: labels [N, S], centroids [S, K, D], the rest [S]."""

    labels: NDArray[np.int64]
    centroids: NDArray[np.float64]
    potentials: NDArray[np.float64]
    iterations: NDArray[np.int64]


def pupl(
    embeddings: Floats,
    is_positive: NDArray[np.bool_],
    *,
    seed: int,
    seeding: Literal["d2", "mean_u"] = "d2",
    n_seedings: int = 8,
    spherical: bool = True,
    is_pinned: bool = True,
    max_iterations: int = 100,
) -> PuplResult:
    """Split chips into damaged and not damaged by two means, one of which starts at the mean of the positives.

    Source: PUCL, Algorithm 1(B), and Eq. 7 for the potential. `seeding="mean_u"` with `is_pinned=False` and
    `spherical=False` is the printed listing `puPL`.

    Args:
        embeddings: float [N, D].
        is_positive: bool [N]; everything else is unlabeled.
        seed: of the draws; the same seed gives the same result.
        seeding: start of the other centroid: "d2" draws an unlabeled row with probability proportional to its squared
            distance from the first centroid, "mean_u" takes the mean of the unlabeled.
        n_seedings: draws tried with "d2"; the lowest potential wins.
        spherical: bring rows and centroids to unit length, so that nearness is the cosine.
        is_pinned: keep the positives in cluster 1 whatever their distance.
        max_iterations: passes after which an unsettled clustering is taken as it is.

    Returns:
        Two clusters; 1 = damaged. Rows equally near to both go to 1.

    Raises:
        ShapeError(ValueError): if the arrays do not fit together.
        TrainingError: without a positive or an unlabeled row, or if an embedding is not finite.

    Departs from the source: it draws once. That can end inverted, and Eq. 7 cannot tell, as a clustering and its
    inversion have nearly the same potential. Here several draws compete, inverted ends lose to oriented ones, and if
    all are inverted the best is iterated again from exchanged centroids. Spherical because a mean of many unit rows
    lies near the origin and thereby near to everything, so that one drawn row as its rival gets almost no rows.
    """
    rows, positive = _checked(embeddings, is_positive, spherical=spherical)
    pinned = positive if is_pinned else np.zeros_like(positive)
    start = _starts(rows, positive, np.random.default_rng(seed), seeding, n_seedings, spherical)
    ends = lloyd(rows, pinned, start, spherical=spherical, max_iterations=max_iterations)
    direction = rows.mean(axis=0, dtype=np.float64, where=positive[:, None])
    direction -= rows.mean(axis=0, dtype=np.float64, where=~positive[:, None])
    oriented = _are_oriented(direction, ends)
    if not oriented.any():
        exchanged = ends.centroids[[np.argmin(ends.potentials)]][:, ::-1]
        turned = lloyd(rows, pinned, exchanged, spherical=spherical, max_iterations=max_iterations)
        if _are_oriented(direction, turned).any():
            ends, oriented = turned, np.ones(1, dtype=bool)
    return _best(ends, positive, oriented)


def over_cluster(
    embeddings: Floats,
    is_positive: NDArray[np.bool_],
    *,
    k: int,
    seed: int,
    n_seedings: int = 3,
    spherical: bool = True,
    max_iterations: int = 100,
) -> PuplResult:
    """Split chips into many clusters and rank these by their share of positives, for an analyst to accept or reject.

    Source: ours. When one chip in a hundred is damaged, two means follow roof types; small clusters can follow damage.
    The positives are not pinned, as they may belong to several kinds of damage.

    Args:
        embeddings, is_positive, seed, n_seedings, spherical, max_iterations: as in `pupl`.
        k: clusters, 2..N; choose many more than two. Some may stay empty if rows coincide.

    Returns:
        K clusters; `ranking` names the most promising first.

    Raises:
        ShapeError(ValueError), TrainingError: as in `pupl`. ValueError: if k does not lie in 2..N.
    """
    rows, positive = _checked(embeddings, is_positive, spherical=spherical)
    if not 2 <= k <= len(rows):
        raise ValueError(f"k must lie in 2..{len(rows)}, the number of rows; got {k}.")
    rng = np.random.default_rng(seed)
    start = np.stack([_plus_plus(rows, k, rng) for _ in range(n_seedings)])
    ends = lloyd(rows, np.zeros_like(positive), start, spherical=spherical, max_iterations=max_iterations)
    return _best(ends, positive, np.ones(n_seedings, dtype=bool))


def lloyd(
    rows: Floats, pinned: NDArray[np.bool_], start: NDArray[np.float64], *, spherical: bool, max_iterations: int = 100
) -> Lloyd:
    """Alternate between nearest centroid and mean until no label changes.

    Source: PUCL, Algorithm 1(B), the loop. All seedings go together, so that a pass reads the rows once, block by block.

    Args:
        rows: float [N, D]; unit length if `spherical`.
        pinned: bool [N]; these rows stay in the last cluster.
        start: first centroids of each seeding, float64 [S, K, D].
        spherical, max_iterations: as in `pupl`; at least one iteration.

    Returns:
        The ends. Ties go to the cluster with the higher number; an empty cluster keeps its old centroid.
    """
    centroids = start.astype(np.float64)
    labels = np.full((len(rows), len(start)), -1, dtype=np.int64)
    iterations, is_moving = np.zeros(len(start), dtype=np.int64), np.ones(len(start), dtype=bool)
    for _ in range(max_iterations):
        iterations += is_moving
        sums, counts, potentials, is_moving = _one_pass(rows, pinned, centroids, labels)
        if not is_moving.any():
            break
        means = sums / np.maximum(counts, 1)[..., None]
        is_new = (is_moving[:, None] & (counts > 0))[..., None]
        centroids = np.where(is_new, _unit(means, centroids) if spherical else means, centroids)
    return Lloyd(labels, centroids, potentials, iterations)


def _one_pass(
    rows: Floats, pinned: NDArray[np.bool_], centroids: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Relabel all rows in place; return sums [S, K, D], counts [S, K], potentials [S] and which seedings changed [S]."""
    n_seedings, k, d = centroids.shape
    flat = centroids.reshape(-1, d).astype(rows.dtype)
    square = (centroids**2).sum(axis=-1)
    sums, counts = np.zeros((n_seedings * k, d)), np.zeros((n_seedings, k), dtype=np.int64)
    potentials, changed = np.zeros(n_seedings), np.zeros(n_seedings, dtype=bool)
    for part in _blocks(len(rows)):
        block = rows[part]
        distance = square - 2 * (block @ flat.T).reshape(-1, n_seedings, k)
        nearest = k - 1 - distance[..., ::-1].argmin(axis=-1)
        nearest[pinned[part]] = k - 1
        potentials += distance.min(axis=-1).sum(axis=0) + np.einsum("nd,nd->", block, block, dtype=np.float64)
        changed |= (nearest != labels[part]).any(axis=0)
        labels[part] = nearest
        member = nearest[..., None] == np.arange(k)
        counts += member.sum(axis=0)
        sums += member.reshape(len(block), -1).T.astype(rows.dtype) @ block
    return sums.reshape(n_seedings, k, d), counts, potentials, changed


def _starts(
    rows: Floats, positive: NDArray[np.bool_], rng: np.random.Generator, seeding: str, n_seedings: int, spherical: bool
) -> NDArray[np.float64]:
    """First centroids [S, 2, D]: the other one, then the mean of the positives."""
    first = rows[positive].mean(axis=0, dtype=np.float64)
    mean = rows.mean(axis=0, dtype=np.float64, where=~positive[:, None])
    if spherical:
        first, mean = _unit(first, rows[np.argmax(positive)]), _unit(mean, rows[np.argmin(positive)])
    if seeding == "mean_u":
        other = mean[None]
    elif seeding == "d2":
        unlabeled = np.flatnonzero(~positive)
        chance = seeding_chances(_squared_distances(rows, first)[unlabeled])
        other = rows[rng.choice(unlabeled, size=n_seedings, p=chance)].astype(np.float64)
    else:
        raise ValueError(f'seeding must be "d2" or "mean_u"; got {seeding!r}.')
    return np.stack([other, np.broadcast_to(first, other.shape)], axis=1)


def _plus_plus(rows: Floats, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw k rows as first centroids [K, D], each far from those before it (k-means++)."""
    chosen = [int(rng.integers(len(rows)))]
    nearest = _squared_distances(rows, rows[chosen[0]])
    while len(chosen) < k:
        chosen.append(int(rng.choice(len(rows), p=seeding_chances(nearest))))
        nearest = np.minimum(nearest, _squared_distances(rows, rows[chosen[-1]]))
    return rows[chosen].astype(np.float64)


def seeding_chances(squared_distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn squared distances [N] into chances of being drawn (D(x') of Algorithm 1(B)); equal if all distances are 0."""
    total, n = squared_distances.sum(), len(squared_distances)
    return squared_distances / total if total > 0 else np.full(n, 1 / n)


def _squared_distances(rows: Floats, centroid: Floats) -> NDArray[np.float64]:
    """Squared distance of every row to one centroid, float64 [N], 0 or more."""
    parts = [((rows[part] - centroid.astype(rows.dtype)) ** 2).sum(axis=1) for part in _blocks(len(rows))]
    return np.concatenate(parts).astype(np.float64)


def _are_oriented(direction: NDArray[np.float64], ends: Lloyd) -> NDArray[np.bool_]:
    """Whether each of S seedings ended as `PuplResult.oriented` asks, bool [S].

    The mean of (d0 - d1) over some rows, with d their squared distances to the centroids, is 2 mean . (c1 - c0) plus a
    constant. So the positives' mean exceeds that of the unlabeled where direction . (c1 - c0) is above 0.
    """
    gap = ends.centroids[:, 1] - ends.centroids[:, 0]
    return (gap @ direction > 0) & (ends.labels == 0).any(axis=0)


def _best(ends: Lloyd, positive: NDArray[np.bool_], oriented: NDArray[np.bool_]) -> PuplResult:
    """Take the lowest potential, from the oriented ends where there are any; the first one where they are equal."""
    best = int(np.argmin(np.where(oriented | ~oriented.any(), ends.potentials, np.inf)))
    labels, k = ends.labels[:, best], ends.centroids.shape[1]
    sizes, counts = np.bincount(labels, minlength=k), np.bincount(labels[positive], minlength=k)
    share = counts / np.maximum(sizes, 1)
    return PuplResult(
        labels=labels.copy(),
        centroids=ends.centroids[best],
        potential=float(ends.potentials[best]),
        iterations=int(ends.iterations[best]),
        oriented=bool(oriented[best]),
        sizes=sizes,
        positive_counts=counts,
        positive_share=share,
        ranking=np.lexsort((-counts, -share)),
    )


def _checked(embeddings: Floats, is_positive: NDArray[np.bool_], *, spherical: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """Refuse what cannot be clustered; return rows of at least float32, of unit length if `spherical`."""
    if embeddings.ndim != 2 or is_positive.shape != embeddings.shape[:1]:
        raise ShapeError(f"embeddings must be [N, D] with a mask [N]; got {embeddings.shape} and {is_positive.shape}.")
    positive = is_positive.astype(bool)
    n_positive = int(positive.sum())
    if n_positive in (0, len(positive)):
        raise TrainingError(
            f"PUPL needs at least one positive and one unlabeled chip; this set has {n_positive} positives "
            f"among {len(positive)} chips.",
            "Mark damaged buildings on the Annotate page, and leave the others unmarked.",
            kind="labels",
        )
    rows = embeddings if embeddings.dtype == np.float64 else embeddings.astype(np.float32)
    if not np.isfinite(rows).all():
        raise TrainingError(
            f"{int((~np.isfinite(rows)).any(axis=1).sum())} of {len(rows)} embeddings hold a value that is not a number.",
            "Compute the embeddings again, or train again with another seed.",
            kind="diverged",
        )
    return (_unit(rows, rows) if spherical else rows), positive


def _unit(vectors: Floats, otherwise: Floats) -> Any:
    """Bring vectors [..., D] to unit length; where the length is 0, take `otherwise`."""
    length = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.where(length > 0, vectors / np.where(length > 0, length, 1), otherwise)


def _blocks(n_rows: int) -> Iterator[slice]:
    """Cut 0..n_rows into slices of a few MB of embeddings."""
    return (slice(start, start + _BLOCK_ROWS) for start in range(0, n_rows, _BLOCK_ROWS))
