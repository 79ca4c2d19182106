"""Lloyd's iterations from several seedings at once: two means that read few rows a pass, and many means."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating]
Ints = NDArray[np.integer]
Mask = NDArray[np.bool_]
_Decide = Callable[[slice], Ints]  # labels [M, n] of the rows of a block in M seedings
_Gain = tuple[Doubles, Doubles, Ints]  # of the clusters of M seedings: sums [M, K, D], counts [M, K]; labels changed [M]
_BLOCK_ROWS = 25_600  # the share of a thread
_CHUNK_ROWS = 512  # as float64 these fit in a core's cache
_N_THREADS = 4  # the work waits for memory more than for cores
_N_AXES, _N_PROBED, _MAX_UNSURE = 32, 1024, 0.2  # reading a fifth of the rows takes about as long as adding an axis


@dataclass(frozen=True)
class Points:
    """Rows as they came, with factors that bring them to the wanted length: the scaled rows are never stored.

    Attributes:
        rows: float [N, D].
        factors: float64 [N]; point i is `rows[i] * factors[i]`. All 1 where lengths are kept.
        squares: squared length of each point, float64 [N].
        total: sum of all points to the precision of `dtype`, float64 [D].
    """

    rows: Floats
    factors: Doubles
    squares: Doubles
    total: Doubles

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of passes over all rows: that of the rows, and at least float32."""
        return np.promote_types(self.rows.dtype, np.float32)

    def take(self, at: Ints) -> Doubles:
        """Points `at` [n] as float64 [n, D]."""
        return self.rows[at] * self.factors[at, None]

    def weighted_sums(self, at: Ints, weights: Any) -> Doubles:
        """Sums of the points `at` [n], rising, with each of the weights [M, n] (an array or CSC), float64 [M, D]."""
        sums = np.zeros((weights.shape[0], self.rows.shape[1]))
        for part in slices(0, len(at), _CHUNK_ROWS):
            here = at[part]
            has_gaps = here[-1] - here[0] >= len(here)  # only then is there anything to gather
            rows = self.rows[here if has_gaps else slice(here[0], here[-1] + 1)]
            sums += (weights[:, part] * self.factors[here]) @ rows.astype(np.float64)
        return sums


@dataclass(frozen=True)
class Lloyd:
    """Where Lloyd's iterations ended for each of S seedings: labels [N, S], centroids [S, K, D], the rest [S]."""

    labels: Ints
    centroids: Doubles
    potentials: Doubles
    iterations: NDArray[np.int64]


def lloyd(points: Points, pinned: Mask, start: Doubles, *, spherical: bool, max_iterations: int = 100) -> Lloyd:
    """Alternate between nearest centroid and mean until no label changes.

    Source: PUCL, Algorithm 1(B), the loop. Ours: the sums follow the rows that change cluster, and two means read only
    the rows that a `Sketch` cannot decide. The sums, and the labels of two means, are those of float64.

    Args:
        points: N points, of unit length if `spherical`.
        pinned: bool [N]; these rows stay in the last cluster.
        start: first centroids of each seeding, float64 [S, K, D].
        spherical, max_iterations: as in `pupl`; at least one iteration.

    Returns:
        The ends. Ties go to the cluster with the higher number; an empty cluster keeps its old centroid.
    """
    n_seedings, k, _ = start.shape
    sketch = Sketch(points, n_seedings) if k == 2 else None
    labels = np.full((n_seedings, len(pinned)), k, dtype=np.min_scalar_type(k))
    centroids, sums, counts = start.astype(np.float64), np.zeros(start.shape), np.zeros((n_seedings, k))
    potentials, iterations, at = np.zeros(n_seedings), np.zeros(n_seedings, dtype=np.int64), np.arange(n_seedings)
    for step in range(max_iterations):
        decide = sketch.decider(centroids[at]) if sketch else _nearest_of_many(points, centroids[at])
        gains = each_part(partial(_relabel, points, pinned, labels, at, k, decide), len(pinned), _BLOCK_ROWS)
        gained, joined, n_moved = (np.sum(part, axis=0) for part in zip(*gains, strict=True))
        sums[at], counts[at], iterations[at] = sums[at] + gained, counts[at] + joined, step + 1
        ended = at[(n_moved == 0) | (step == max_iterations - 1)]
        if len(ended):
            potentials[ended] = _potentials(points, pinned, centroids[ended], sums[ended], counts[ended])
        at = at[n_moved > 0]
        if not len(at):
            break
        means = sums[at] / np.maximum(counts[at], 1)[..., None]
        means = unit(means, centroids[at]) if spherical else means
        centroids[at] = np.where(counts[at][..., None] > 0, means, centroids[at])
    return Lloyd(labels.T, centroids, potentials, iterations)


def _relabel(points: Points, pinned: Mask, labels: Ints, at: Ints, k: int, decide: _Decide, block: slice) -> _Gain:
    """Relabel the rows of a block, in place, in the M seedings `at`."""
    old, new = labels[at, block], decide(block).astype(labels.dtype)
    new[:, pinned[block]] = k - 1
    labels[at, block] = new
    differs = new != old
    moved = np.flatnonzero(differs.any(axis=0))
    if len(moved) > differs.shape[1] / 2:  # reading all in one piece takes less time
        moved = np.arange(differs.shape[1])
    weights = _weights(old[:, moved], new[:, moved], k)
    sums = points.weighted_sums(block.start + moved, weights).reshape(len(at), k, -1)
    return sums, weights.sum(axis=1).reshape(len(at), k), differs.sum(axis=1)


def _weights(old: Ints, new: Ints, k: int) -> Any:
    """How n rows join (1) and leave (-1) the K clusters of M seedings, [M K, n]; an old label K is none."""
    if k == 2:
        clusters = np.arange(2)[:, None]
        return ((new[:, None] == clusters) * 1.0 - (old[:, None] == clusters)).reshape(2 * len(new), new.shape[1])
    from scipy.sparse import csc_array

    seeding, row = np.nonzero(new != old)
    clusters, signs = np.concatenate([new[seeding, row], old[seeding, row]]), np.repeat([1.0, -1.0], len(row))
    has_one = clusters < k
    where = (np.tile(seeding, 2) * k + clusters)[has_one], np.tile(row, 2)[has_one]
    return csc_array((signs[has_one], where), shape=(len(old) * k, old.shape[1]))


def _potentials(points: Points, pinned: Mask, centroids: Doubles, sums: Doubles, counts: Doubles) -> Doubles:
    """Squared distances to the nearest of the centroids [M, K, D], summed over all points; from the clusters' sums."""
    square = (centroids**2).sum(axis=-1)
    totals = points.squares.sum() + (counts * square - 2 * (sums * centroids).sum(axis=-1)).sum(axis=-1)
    at = np.flatnonzero(pinned)
    for part in slices(0, len(at), _CHUNK_ROWS):
        distance = square - 2 * np.tensordot(points.take(at[part]), centroids, axes=(1, 2))
        totals -= (distance[..., -1] - distance.min(axis=-1)).sum(axis=0)
    return totals


def _nearest_of_many(points: Points, centroids: Doubles) -> _Decide:
    """Return what finds the nearest of the K centroids in each of M seedings."""
    n_seedings, k, d = centroids.shape
    turned = centroids[:, ::-1].reshape(-1, d)  # `argmin` takes the first of equals, ties go to the last
    vectors, square = (-2 * turned.T).astype(points.dtype), (turned**2).sum(axis=1).astype(points.dtype)

    def decide(block: slice) -> Ints:
        parts = []
        for part in slices(block.start, block.stop, _CHUNK_ROWS):
            distance = points.rows[part].astype(points.dtype, copy=False) @ vectors
            distance *= points.factors[part, None].astype(points.dtype)
            distance += square
            parts.append(k - 1 - distance.reshape(-1, n_seedings, k).argmin(axis=-1))
        return np.concatenate(parts).T

    return decide


class _Planes(NamedTuple):
    """Planes midway between M pairs of centroids. A point's margin is point . normal + offset: 0 or more on side 1."""

    normals: Doubles  # [M, D]
    offsets: Doubles  # [M, 1]
    ties: Doubles  # rounding in float64 can be ties[:, 0] |point| + ties[:, 1], [M, 2]

    def errors(self, weights: Doubles, dtype: Any) -> Doubles:
        """As `ties`, for margins in `dtype` that are made of products with vectors of weights [M, Q]."""
        scale = np.hstack([np.abs(weights).sum(axis=1, keepdims=True), np.abs(self.offsets)])
        return _rounding(dtype, self.normals.shape[1] + weights.shape[1]) * scale + self.ties

    def sides(self, points: Points) -> Callable[[Ints], Mask]:
        """Return a function of points `at` [n]: whether their margin is 0 or more or a tie in float64, bool [M, n]."""
        normals, lengths = self.normals.astype(points.dtype), np.linalg.norm(self.normals, axis=1, keepdims=True)
        errors = self.errors(lengths, points.dtype)

        def are_on_side_1(at: Ints) -> Mask:
            rows, factors = points.rows[at].astype(points.dtype, copy=False), points.factors[at]
            limits = np.sqrt([points.squares[at], np.ones(len(at))])
            margins = normals @ rows.T * factors + self.offsets
            unsure = np.flatnonzero((np.abs(margins) <= errors @ limits).any(axis=0))
            margins[:, unsure] = self.normals @ rows[unsure].astype(np.float64).T * factors[unsure] + self.offsets
            return margins >= -self.ties @ limits

        return are_on_side_1


class Sketch:
    """Products of all points with a few orthonormal axes; they bound the product with any vector near those axes.

    Source: ours; that bounds spare most rows is from Hamerly, Making k-means even faster (2010). Two means ask for the
    sign of a product with the difference of the centroids. That vector soon hardly leaves the span of those before it,
    so that the products with these decide nearly every row: by Cauchy-Schwarz the rest adds at most
    |point outside the axes| |vector outside the axes|.

    Attributes:
        axes: float64 [Q, D].
        products: with each point, after a row of ones, [1 + Q, N]; room for more.
        left: squared length of each point outside the axes, but for rounding, float64 [N].
        limits: the most that length can be, the length of the point, and 1, [3, N].
        unsure: share of the points that were read since axes were added, summed over the passes.
    """

    def __init__(self, points: Points, n_seedings: int) -> None:
        n, d = points.rows.shape
        self.points, self.axes, self.left, self.unsure = points, np.empty((0, d)), points.squares.copy(), 0.0
        self.products = np.empty((1 + min(max(_N_AXES, n_seedings), d), n), dtype=points.dtype)
        self.limits = np.ones((3, n), dtype=points.dtype)
        self.products[0], self.limits[:2] = 1, np.sqrt(points.squares)

    def decider(self, centroids: Doubles) -> _Decide:
        """Return a function of rows: whether centroid 1 is the nearer one or as near, for M pairs of centroids [M, 2, D]."""
        normals, reach = centroids[:, 1] - centroids[:, 0], np.linalg.norm(centroids, axis=-1).sum(axis=1)
        offsets = -(normals * centroids.mean(axis=1)).sum(axis=1, keepdims=True)
        ties = _rounding(np.float64, normals.shape[1]) * np.linalg.norm(normals, axis=1) * [np.ones_like(reach), reach]
        planes = _Planes(normals, offsets, ties.T)
        self._cover(planes)
        weights, errors = self._bounds(planes)
        are_on_side_1 = planes.sides(self.points)

        def decide(block: slice) -> Ints:
            estimate = weights @ self.products[: weights.shape[1], block]
            found = estimate >= 0
            unsure = np.flatnonzero((np.abs(estimate) <= errors @ self.limits[:, block]).any(axis=0))
            for part in slices(0, len(unsure), _CHUNK_ROWS):
                found[:, unsure[part]] = are_on_side_1(block.start + unsure[part])
            return found.view(np.int8)

        return decide

    def _bounds(self, planes: _Planes) -> tuple[Floats, Floats]:
        """Weights [M, 1 + Q] of `products` that make estimates, and weights [M, 3] of `limits` that bound their error."""
        inside, dtype = planes.normals @ self.axes.T, self.points.dtype
        outside = np.linalg.norm(planes.normals - inside @ self.axes, axis=1, keepdims=True)
        errors = np.hstack([outside, planes.errors(inside, dtype)]).astype(dtype)
        return np.hstack([planes.offsets, inside]).astype(dtype), errors

    def _cover(self, planes: _Planes) -> None:
        """Add axes towards the normals once reading what they leave open takes longer; start anew where there is no room."""
        weights, errors = self._bounds(planes)
        probed = slice(None, None, -(-len(self.left) // _N_PROBED))
        left, rounding = errors[:, :1] * self.limits[0, probed], errors[:, 1:] @ self.limits[1:, probed]
        would_help = (np.abs(weights @ self.products[: weights.shape[1], probed]) <= left + rounding) & (left > rounding)
        self.unsure += would_help.any(axis=0).mean()
        if self.unsure > _MAX_UNSURE:
            needy, self.unsure = would_help.mean(axis=1) > would_help.mean() / 4, 0.0
            if weights.shape[1] + needy.sum() > len(self.products):
                self.axes, self.left, needy = self.axes[:0], self.points.squares.copy(), np.ones_like(needy)
            self._add(planes.normals[needy])

    def _add(self, vectors: Doubles) -> None:
        """Add orthonormal axes that span the vectors [M, D], together with those there are."""
        points, dtype, n_old = self.points, self.points.dtype, len(self.axes)
        for _ in range(2):  # the second time because the first leaves rounding errors, large ones where a rest is short
            _, sizes, vectors = np.linalg.svd(vectors - (vectors @ self.axes.T) @ self.axes, full_matrices=False)
            vectors = vectors[sizes > 1e-6 * sizes[0]]
        self.axes = np.vstack([self.axes, vectors])
        added, new, is_few = vectors.astype(dtype), slice(1 + n_old, 1 + len(self.axes)), len(vectors) <= 3
        slack = (3 + 2 * len(self.axes) ** 0.5) * _rounding(dtype, sum(self.axes.shape))

        def fill(block: slice) -> None:
            # a few vectors one by one take half the time; for more, chunks so small that BLAS does not copy them
            for part in slices(block.start, block.stop, 4 * _CHUNK_ROWS if is_few else _CHUNK_ROWS // 4):
                chunk = points.rows[part].astype(dtype, copy=False)
                self.products[new, part] = [np.vecdot(chunk, axis) for axis in added] if is_few else (chunk @ added.T).T
            self.products[new, block] *= points.factors[block].astype(dtype)
            self.left[block] -= (self.products[new, block] ** 2).sum(axis=0)
            self.limits[0, block] = np.sqrt(np.maximum(self.left[block], 0) + slack * points.squares[block])

        each_part(fill, len(points.rows), _BLOCK_ROWS)


def _rounding(dtype: Any, n: int) -> float:
    """Bound of the relative error of a product of n numbers, and as much again for what is done with it."""
    return float(np.finfo(dtype).eps) * (n + 8)


def unit(vectors: Floats, otherwise: Floats) -> Any:
    """Bring vectors [..., D] to unit length; where the length is 0, take `otherwise`."""
    length = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return np.where(length > 0, vectors / np.where(length > 0, length, 1), otherwise)


def each_part(work: Callable[[slice], Any], n_rows: int, size: int = _CHUNK_ROWS) -> list[Any]:
    """Do the work for parts of 0..n_rows of up to `size` on several threads; return what it gave, in the order of the rows."""
    parts = [list(slices(block.start, block.stop, size)) for block in slices(0, n_rows, _BLOCK_ROWS)]
    with ThreadPoolExecutor(min(_N_THREADS, os.cpu_count() or 1)) as pool:
        return [found for share in pool.map(lambda share: [work(part) for part in share], parts) for found in share]


def slices(start: int, stop: int, size: int) -> Iterator[slice]:
    """Cut start..stop into slices of up to `size`."""
    return (slice(i, min(i + size, stop)) for i in range(start, stop, size))
