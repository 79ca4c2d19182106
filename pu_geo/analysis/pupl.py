"""PUPL: pseudo labels from clusters of embeddings, with the labelled positives as the anchor of one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pu_geo.analysis.clustering import k_means
from pu_geo.errors import ShapeError, TrainingError

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
Mask = NDArray[np.bool_]
_CHUNK_ROWS = 1024  # a chunk stays in the cache


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
    centroids: Doubles
    potential: float
    iterations: int
    oriented: bool
    sizes: NDArray[np.int64]
    positive_counts: NDArray[np.int64]
    positive_share: Doubles
    ranking: NDArray[np.int64]


@dataclass(frozen=True)
class Points:
    """Rows as they came, with factors that bring them to the wanted length: the scaled rows are never stored.

    Attributes:
        rows: float32 or float64 [N, D].
        factors: float64 [N]; point i is `rows[i] * factors[i]`. All 1 where lengths are kept.
        squares: squared length of each point, float64 [N].
    """

    rows: Floats
    factors: Doubles
    squares: Doubles

    def take(self, at: Ints) -> Doubles:
        """Points `at` [n] as float64 [n, D]."""
        return self.rows[at] * self.factors[at, None]

    def weighted_sums(self, at: Ints, weights: NDArray[Any]) -> Doubles:
        """Compute the sums of the points `at` [n] with each of the weights [M, n], float64 [M, D]."""
        sums = np.zeros((len(weights), self.rows.shape[1]))
        for part in _slices(len(at)):
            sums += (weights[:, part] * self.factors[at[part]]) @ self.rows[at[part]].astype(np.float64)
        return sums


@dataclass(frozen=True)
class TwoMeans:
    """Where the iterations ended for each of S seedings: labels [N, S], centroids [S, 2, D], the rest [S]."""

    labels: Ints
    centroids: Doubles
    potentials: Doubles
    iterations: NDArray[np.int64]


def two_means(
    points: Points, pinned: Mask, start: Doubles, *, spherical: bool, max_iterations: int = 100,
    check: Callable[[], None] = lambda: None,
) -> TwoMeans:  # fmt: skip
    """Alternate between nearest centroid and mean until no label changes.

    Source: PUCL, Algorithm 1(B), the loop. Ours: the sums follow the rows that change cluster. Sums and labels are those
    of float64.

    Args:
        points: N points, of unit length if `spherical`.
        pinned: bool [N]; these rows stay in cluster 1.
        start: first centroids of each seeding, float64 [S, 2, D].
        spherical, max_iterations, check: as in `pupl`; at least one iteration.

    Returns:
        The ends. Ties go to cluster 1; an empty cluster keeps its old centroid.
    """
    n_seedings, n = len(start), len(pinned)
    total = points.weighted_sums(np.arange(n), np.ones((1, n)))[0]
    labels, centroids, sums = np.zeros((n_seedings, n), np.int8), start.astype(np.float64), np.zeros(start.shape)
    potentials, iterations, at = np.zeros(n_seedings), np.zeros(n_seedings, np.int64), np.arange(n_seedings)
    anchors = np.flatnonzero(pinned)
    for step in range(max_iterations):
        check()
        sides = _sides(points, centroids[at])
        strays = ~sides[:, anchors]  # pinned rows that are nearer to the other centroid
        sides[:, anchors] = True
        change = sides - labels[at]
        labels[at], moved = sides, np.flatnonzero(change.any(axis=0))
        sums[at, 1] += points.weighted_sums(moved, change[:, moved])
        sums[at, 0] = total - sums[at, 1]
        counts = np.stack([(~sides).sum(axis=1), sides.sum(axis=1)], axis=1)
        iterations[at] = step + 1
        is_settled = ~change.any(axis=1) & (step > 0)
        done = is_settled | (step == max_iterations - 1)
        if done.any():
            near = sums[at[done], 1] - points.weighted_sums(anchors, strays[done])  # of the rows nearer to centroid 1
            n_near = (sides.sum(axis=1) - strays.sum(axis=1))[done]
            products = ((total - near) * centroids[at[done], 0] + near * centroids[at[done], 1]).sum(axis=1)
            square = (centroids[at[done]] ** 2).sum(axis=-1)
            lengths = points.squares.sum() + (n - n_near) * square[:, 0] + n_near * square[:, 1]
            potentials[at[done]] = lengths - 2 * products
        at, counts = at[~is_settled], counts[~is_settled]
        if not len(at):
            break
        means = sums[at] / np.maximum(counts, 1)[..., None]
        means = unit(means, centroids[at]) if spherical else means
        centroids[at] = np.where(counts[..., None] > 0, means, centroids[at])
    return TwoMeans(labels.T, centroids, potentials, iterations)


def _sides(points: Points, centroids: Doubles) -> Mask:
    """Return whether each point is nearer to centroid 1, or as near to both, for M pairs [M, 2, D]; bool [M, N].

    The sign of a product with the difference of the centroids decides, in the rows' precision; where rounding could change
    it, in float64.
    """
    normals, rows = centroids[:, 1] - centroids[:, 0], points.rows
    offsets = -(normals * centroids.mean(axis=1)).sum(axis=1, keepdims=True)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    reach = np.linalg.norm(centroids, axis=-1).sum(axis=1, keepdims=True)
    vectors, sides = normals.astype(rows.dtype), np.empty((len(centroids), len(rows)), np.bool_)
    rounding, least = (float(np.finfo(dtype).eps) * (rows.shape[1] + 8) * lengths for dtype in (rows.dtype, np.float64))
    for part in _slices(len(rows)):
        margins = vectors @ rows[part].T * points.factors[part] + offsets
        limits = np.sqrt(points.squares[part]) + reach
        unsure = np.flatnonzero((np.abs(margins) <= rounding * limits).any(axis=0))
        margins[:, unsure] = normals @ points.take(part.start + unsure).T + offsets
        sides[:, part] = margins >= -least * limits
    return sides


@threadpool_limits.wrap(limits=1, user_api="blas")  # the chunks are small
def pupl(
    embeddings: Floats,
    is_positive: Mask,
    *,
    seed: int,
    seeding: Literal["d2", "mean_u"] = "d2",
    n_seedings: int = 8,
    spherical: bool = True,
    is_pinned: bool = True,
    max_iterations: int = 100,
    check: Callable[[], None] = lambda: None,
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
        check: called before each pass; what it raises ends the work.

    Returns:
        Two clusters; 1 = damaged. Rows equally near to both go to 1.

    Raises:
        ShapeError(ValueError): if the arrays do not fit together.
        TrainingError: without a positive or an unlabeled row, or if an embedding is not finite.

    Departs from the source: it draws once. That can end inverted, and Eq. 7 cannot show it, as a clustering and its
    inversion have nearly the same potential. Here several draws compete, inverted ends lose to oriented ones, and if
    all are inverted the best is iterated again from exchanged centroids. Spherical because a mean of many unit rows
    lies near the origin and thereby near to everything, so that one drawn row as its rival gets almost no rows.
    """
    points, positive = _checked(embeddings, is_positive, spherical=spherical)
    pinned = positive if is_pinned else np.zeros_like(positive)
    at = np.flatnonzero(positive)
    others = np.flatnonzero(~positive)
    means = tuple(points.weighted_sums(each, np.ones((1, len(each))))[0] / len(each) for each in (at, others))
    start = _starts(points, positive, means, np.random.default_rng(seed), seeding, n_seedings, spherical)
    ends = two_means(points, pinned, start, spherical=spherical, max_iterations=max_iterations, check=check)
    direction = means[0] - means[1]
    oriented = _are_oriented(direction, ends)
    if not oriented.any():
        exchanged = ends.centroids[[np.argmin(ends.potentials)]][:, ::-1]
        turned = two_means(points, pinned, exchanged, spherical=spherical, max_iterations=max_iterations, check=check)
        if _are_oriented(direction, turned).any():
            ends, oriented = turned, np.ones(1, dtype=bool)
    return _best(ends, positive, oriented)


def over_cluster(
    embeddings: Floats, is_positive: Mask, *, k: int, seed: int, n_seedings: int = 3, max_iterations: int = 100
) -> PuplResult:
    """Split chips into many clusters and rank these by their share of positives, for an analyst to accept or reject.

    Source: ours; k-means of the rows' directions. When one chip in a hundred is damaged, two means follow roof types; small
    clusters can follow damage. The positives are not pinned, as they may belong to several kinds of damage.

    Args:
        embeddings, is_positive, seed, n_seedings, max_iterations: as in `pupl`.
        k: clusters, 2..N; choose many more than two. Some may stay empty if rows coincide.

    Returns:
        K clusters; `ranking` names the most promising first.

    Raises:
        ShapeError(ValueError), TrainingError: as in `pupl`.
    """
    points, positive = _checked(embeddings, is_positive, spherical=True)
    rows = points.rows * points.factors[:, None].astype(points.rows.dtype)
    found = k_means(rows, k, seed=seed, n_seedings=n_seedings, max_iterations=max_iterations)
    centers = found.cluster_centers_.astype(np.float64)
    centroids = unit(centers, centers)
    moved = ((centroids - centers) ** 2).sum(axis=1)  # the inertia is that of the means
    potential = float(found.inertia_ + np.bincount(found.labels_, minlength=k) @ moved)
    return _result(found.labels_, centroids, potential, int(found.n_iter_), True, positive)


def _starts(
    points: Points,
    positive: Mask,
    means: tuple[Doubles, Doubles],
    rng: np.random.Generator,
    seeding: str,
    n_seedings: int,
    spherical: bool,
) -> Doubles:
    """First centroids [S, 2, D]: the other one, then the mean of the positives."""
    first, mean = means
    if spherical:
        first, mean = unit(np.stack(means), points.take(np.array([np.argmax(positive), np.argmin(positive)])))
    if seeding == "mean_u":
        other = mean[None]
    else:
        unlabeled = np.flatnonzero(~positive)
        chance = seeding_chances(squared_distances(points, first)[unlabeled])
        other = points.take(rng.choice(unlabeled, size=n_seedings, p=chance))
    return np.stack([other, np.broadcast_to(first, other.shape)], axis=1)


def seeding_chances(squared_distances: Doubles) -> Doubles:
    """Convert squared distances [N] into chances of being drawn (D(x') of Algorithm 1(B)); equal if all distances are 0."""
    total, n = squared_distances.sum(), len(squared_distances)
    return squared_distances / total if total > 0 else np.full(n, 1 / n)


def _are_oriented(direction: Doubles, ends: TwoMeans) -> Mask:
    """Whether each of S seedings ended as `PuplResult.oriented` asks, bool [S].

    The mean of (d0 - d1) over some rows, with d their squared distances to the centroids, is 2 mean . (c1 - c0) plus a
    constant. So the positives' mean exceeds that of the unlabeled where direction . (c1 - c0) is above 0.
    """
    gap = ends.centroids[:, 1] - ends.centroids[:, 0]
    return (gap @ direction > 0) & (ends.labels == 0).any(axis=0)


def _best(ends: TwoMeans, positive: Mask, oriented: Mask) -> PuplResult:
    """Return the result of lowest potential, from the oriented ends where there are any; the first one where they are
    equal.
    """
    best = int(np.argmin(np.where(oriented | ~oriented.any(), ends.potentials, np.inf)))
    chosen = ends.labels[:, best], ends.centroids[best], float(ends.potentials[best]), int(ends.iterations[best])
    return _result(*chosen, bool(oriented[best]), positive)


def _result(
    labels: Ints, centroids: Doubles, potential: float, iterations: int, oriented: bool, positive: Mask
) -> PuplResult:
    sizes, counts = (np.bincount(each, minlength=len(centroids)) for each in (labels, labels[positive]))
    share = counts / np.maximum(sizes, 1)
    ranking = np.lexsort((-counts, -share))
    return PuplResult(labels.astype(np.int64), centroids, potential, iterations, oriented, sizes, counts, share, ranking)


def _checked(embeddings: Floats, is_positive: Mask, *, spherical: bool) -> tuple[Points, Mask]:
    """Refuse what cannot be clustered; return the points, of unit length if `spherical`."""
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
    points = measure(embeddings, spherical=spherical)
    n_bad = int((~np.isfinite(points.squares)).sum())
    if n_bad:
        raise TrainingError(
            f"{n_bad} of {len(positive)} embeddings hold a value that is not a number, or too large.",
            "Compute the embeddings again, or train again with another seed.",
            kind="diverged",
        )
    return points, positive


def measure(rows: Floats, *, spherical: bool) -> Points:
    """Measure rows [N, D]; with `spherical` they count as unit length, and a zero row stays zero."""
    rows = rows.astype(np.promote_types(rows.dtype, np.float32), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for squares that are not finite
        squares = np.vecdot(rows, rows).astype(np.float64)
        factors = 1 / np.sqrt(np.where(squares > 0, squares, 1)) if spherical else np.ones(len(rows))
        return Points(rows, factors, squares * factors**2)


def squared_distances(points: Points, centroid: Doubles) -> Doubles:
    """Squared distance of every point to one centroid, float64 [N], 0 or more."""
    near, distances = centroid.astype(points.rows.dtype), np.empty(len(points.rows))
    for part in _slices(len(distances)):
        gap = points.rows[part] * points.factors[part, None].astype(points.rows.dtype) - near
        distances[part] = np.vecdot(gap, gap)
    return distances


def unit(vectors: Floats, otherwise: Floats) -> Any:
    """Bring vectors [..., D] to unit length; where the length is 0, take `otherwise`."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(length > 0, vectors / np.where(length > 0, length, 1), otherwise)


def _slices(n: int) -> Iterator[slice]:
    return (slice(first, min(first + _CHUNK_ROWS, n)) for first in range(0, n, _CHUNK_ROWS))


ROWS_A_CLUSTER = 30
MOST_CLUSTERS, FEWEST_CLUSTERS = 60, 2
N_CLUSTERINGS = 4
_PASSES = 30
_LEAST = 1e-9


def small_clusters(
    embeddings: Floats, is_positive: Mask, *, seed: int, check: Callable[[], None] = lambda: None,
) -> NDArray[np.int64]:  # fmt: skip
    """Cluster rows into many small clusters, several times, as their edges are a matter of chance: int64 [4, N].

    Args:
        embeddings, is_positive: as in `over_cluster`; clicks have no part in the clusters.
        seed: of the first clustering.
        check: called before each; what it raises ends the work.

    Raises:
        ShapeError(ValueError), TrainingError: as in `over_cluster`.
    """
    k, found = usual_k(len(is_positive)), []
    for number in range(N_CLUSTERINGS):
        check()
        one = over_cluster(embeddings, is_positive, k=k, seed=seed + number, n_seedings=1, max_iterations=_PASSES)
        found.append(one.labels)
    return np.stack(found)


def cluster_chances(clusters: Ints, is_positive: Mask) -> NDArray[np.float32]:
    """Return the chance of damage of each row by the small clusters it belongs to, averaged over clusterings.

    Source: ours, after Elkan and Noto (KDD 2008): where clicks are an even draw of the damage, the share of clicked rows in
    a cluster is its chance of damage times c, and c is the share that a clicked row meets around itself on average. No click
    counts for its own cluster when c is worked out.

    Args:
        clusters: cluster of each row in each clustering, int [K, N].
        is_positive: bool [N], at least one.

    Returns:
        Soft pseudo labels, float32 [N] in 0..1; 1 for positives.
    """
    base, total = float(is_positive.mean()), np.zeros(len(is_positive))
    for labels in clusters:
        sizes = np.bincount(labels)
        counts = np.bincount(labels[is_positive], minlength=len(sizes))
        without_itself = np.clip((counts - 1 + base) / np.maximum(sizes, 1), _LEAST, None)
        c = float(np.average(without_itself, weights=counts))
        total += np.clip((counts + base) / (sizes + 1) / c, 0, 1)[labels]
    return np.where(is_positive, 1.0, total / len(clusters)).astype(np.float32)


def usual_k(n: int) -> int:
    """Return how many small clusters n rows are split into: one for 30 rows, 2 to 60."""
    return min(n, int(np.clip(n // ROWS_A_CLUSTER, FEWEST_CLUSTERS, MOST_CLUSTERS)))
