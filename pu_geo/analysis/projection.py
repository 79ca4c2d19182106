"""Embeddings brought to two dimensions for the Explore page: PCA at once, UMAP in a job.

UMAP runs on a known neighbor graph: edge weights in numpy, the layout in one compiled loop that can be stopped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from pu_geo.errors import ShapeError

_PCA_DIMENSIONS = 50
_ROWS_FOR_AXES = 20_000
_EXACT_NEIGHBORS_UP_TO = 5_000
_N_LISTS, _N_PROBED, _N_PASSES = 128, 12, 6  # of 100 neighbors 95 and more are found so
_ALONE_UP_TO = 40_000  # rows; below, threads cost more than they save, above all where others work too
_SMALLEST_UMAP = 5
_ROWS_A_BLOCK, _SAME = 512, 1e-3


def pca_2d(embeddings: NDArray[np.floating]) -> NDArray[np.float32]:
    """Show embeddings along their two widest axes, in a second for 100,000 of them.

    Args:
        embeddings: float [N, D], N >= 0.

    Returns:
        Positions, float32 [N, 2], centred on 0; a missing axis is 0. The sign of each axis is fixed, so that the same
        embeddings always give the same picture.

    Raises:
        ShapeError(ValueError): if `embeddings` is not [N, D] or holds a value that is not finite.
    """
    return _principal_axes(_checked(embeddings), 2)


def umap_2d(
    embeddings: NDArray[np.floating],
    *,
    seed: int,
    n_neighbors: int = 15,
    report: Callable[[Mapping[str, object]], None] | None = None,
) -> NDArray[np.float32]:
    """Lay out embeddings so that chips which look alike lie side by side.

    Source: UMAP (McInnes et al. 2018) on the neighbours found in the first 50 principal components.

    Args:
        embeddings: float [N, D].
        seed: of the layout; the same seed gives the same picture on the same machine.
        n_neighbors: neighbours each chip is tied to, itself included; at least 2. Cut to N - 1.
        report: called with {"stage", "share"} before the stages "axes" and "neighbors", all along "layout", and after
            it. What it raises ends the work.

    Returns:
        Positions, float32 [N, 2]. Fewer than 5 embeddings are shown by `pca_2d`: there is nothing to lay out.

    Raises:
        ShapeError(ValueError): if `embeddings` is not [N, D] or holds a value that is not finite.
        ValueError: if n_neighbors is below 2.
    """
    if n_neighbors < 2:
        raise ValueError(f"n_neighbors must be at least 2, as a chip counts as its own; got {n_neighbors}.")
    tell = report or (lambda _: None)
    rows = _checked(embeddings)
    if len(rows) < _SMALLEST_UMAP:
        return _principal_axes(rows, 2)
    tell({"stage": "axes", "share": 0.0})
    reduced = _principal_axes(rows, min(_PCA_DIMENSIONS, rows.shape[1]))
    tell({"stage": "neighbors", "share": 0.05})
    k = min(n_neighbors, len(rows) - 1)
    neighbors, distances = nearest(reduced, k)
    tell({"stage": "layout", "share": 0.2})
    positions = layout(
        _first_positions(reduced, seed), neighbors, distances, seed=seed,
        report=lambda done: tell({"stage": "layout", "share": 0.2 + 0.8 * done}),
    )  # fmt: skip
    tell({"stage": "layout", "share": 1.0})
    return positions


def place(
    new: NDArray[np.floating], known: NDArray[np.floating], positions: NDArray[np.floating], *, n_neighbors: int = 10
) -> NDArray[np.float32]:
    """Place further embeddings in a picture that stays as it is: each at the weighted mean of its neighbors' positions.

    Source: ours, after the first positions of UMAP's `transform`, without the passes that follow there. A neighbor weighs
    exp(-(d - nearest d) / mean of that), with d the distance; one that equals the new embedding counts alone.

    Args:
        new: float [M, D].
        known: embeddings in the picture, float [N, D], N >= 1.
        positions: of these, float [N, 2].
        n_neighbors: at least 1; cut to N.

    Returns:
        Positions, float32 [M, 2].

    Raises:
        ShapeError(ValueError): if the arrays do not fit together, or hold a value that is not finite.
    """
    rows, others = _checked(new), _checked(known)
    if rows.shape[1] != others.shape[1] or positions.shape != (len(others), 2) or not len(others):
        raise ShapeError(f"new [M, D], known [N, D], positions [N, 2]; got {new.shape}, {known.shape}, {positions.shape}.")
    out = np.zeros((len(rows), 2), np.float32)
    lengths, k = (others**2).sum(axis=1), min(n_neighbors, len(others))
    for first in range(0, len(rows), _ROWS_A_BLOCK):
        part = rows[first : first + _ROWS_A_BLOCK]
        squared = np.maximum(lengths - 2 * part @ others.T + (part**2).sum(axis=1)[:, None], 0)
        at = np.argpartition(squared, k - 1, axis=1)[:, :k]
        apart = np.sqrt(np.take_along_axis(squared, at, axis=1))
        gaps = apart - apart.min(axis=1, keepdims=True)
        weight = np.exp(-gaps / np.maximum(gaps.mean(axis=1, keepdims=True), 1e-12))
        weight = np.where(apart.min(axis=1, keepdims=True) < _SAME, apart < _SAME, weight)
        weight /= weight.sum(axis=1, keepdims=True)
        out[first : first + _ROWS_A_BLOCK] = (weight[..., None] * positions[at]).sum(axis=1)
    return out


def _first_positions(rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Start at the two widest axes; a little noise keeps equal rows, or rows on one line, apart."""
    start = _principal_axes(rows, 2)
    start /= max(float(start.std()), 1e-12)
    return start + 1e-3 * np.random.default_rng(seed).standard_normal(start.shape, dtype=np.float32)


def nearest(rows: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the k nearest rows of each row of float32 [N, D], itself first: row numbers int64 and distances float32, [N, k]."""
    import faiss

    is_exact = len(rows) <= _EXACT_NEIGHBORS_UP_TO
    index: Any = faiss.index_factory(rows.shape[1], "Flat" if is_exact else f"IVF{_N_LISTS},Flat")
    with threadpool_limits(limits=1 if len(rows) <= _ALONE_UP_TO else None):
        if not is_exact:
            index.nprobe, index.cp.niter = _N_PROBED, _N_PASSES
            index.train(rows)
        index.add(rows)
        squared, neighbors = index.search(rows, k)
    return _itself_first(neighbors, np.sqrt(np.maximum(squared, 0)))


def _itself_first(
    neighbors: NDArray[np.int64], distances: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Put each row at the head of its own list; among equal rows faiss may list it later, or not at all."""
    me = np.arange(len(neighbors))[:, None]
    rank = np.argsort(neighbors != me, axis=1, kind="stable")
    neighbors = np.take_along_axis(neighbors, rank, axis=1)
    distances = np.take_along_axis(distances, rank, axis=1)
    neighbors[:, :1], distances[:, :1] = me, 0
    return neighbors, distances


def _principal_axes(rows: NDArray[np.float32], n_axes: int) -> NDArray[np.float32]:
    """Coordinates along the widest axes, float32 [N, n_axes]; the axes come from at most 20,000 evenly spaced rows."""
    out = np.zeros((len(rows), n_axes), dtype=np.float32)
    if len(rows) == 0 or rows.shape[1] == 0:
        return out
    step = -(-len(rows) // _ROWS_FOR_AXES)
    some = rows[::step].astype(np.float64)
    some -= some.mean(axis=0)
    _, axes = np.linalg.eigh(some.T @ some)
    axes = axes[:, ::-1][:, :n_axes]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    out[:, : axes.shape[1]] = (rows - mean) @ axes.astype(np.float32)
    return out


def _checked(embeddings: NDArray[np.floating]) -> NDArray[np.float32]:
    """Refuse what has no place in the plane; return float32 [N, D]."""
    if embeddings.ndim != 2:
        raise ShapeError(f"embeddings must be [N, D]; got {embeddings.shape}.")
    rows = np.ascontiguousarray(embeddings, dtype=np.float32)
    if not np.isfinite(rows).all():
        n_bad = int((~np.isfinite(rows)).any(axis=1).sum())
        raise ShapeError(f"embeddings must be finite; {n_bad} of {len(rows)} rows are not. Compute them again.")
    return rows


CURVE = 1.56  # the a of 1 / (1 + a d^2), which follows UMAP's own curve for its min_dist of 0.1 to within 0.04
N_REPELLED = 5
N_EPOCHS, N_EPOCHS_FEW, FEW = 150, 300, 10_000
"""Passes with more points than `FEW`, and with fewer. UMAP does 200 and 500; on flood chips 100 kept neighborhoods as well as 500."""
_BLOCK = 10  # epochs between two reports
_BISECTIONS = 40
_SPAN = 10.0
_FACTOR, _STEP = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's congruential generator


def layout(
    start: NDArray[np.float32],
    neighbors: NDArray[np.int64],
    distances: NDArray[np.float32],
    *,
    seed: int,
    report: Callable[[float], None] | None = None,
) -> NDArray[np.float32]:
    """Lay out points so that neighbors lie side by side.

    Source: UMAP (McInnes et al. 2018): fuzzy union of the neighborhoods, then attraction along edges as often as their
    weight says, with five random points pushed away each time.

    Args:
        start: first positions, float32 [N, 2], N >= 2.
        neighbors: nearest rows of each row, itself first, int64 [N, k]; -1 for none.
        distances: to these, float32 [N, k].
        seed: of the points pushed away; the same seed gives the same positions.
        report: called with the share done, 0..1, every few epochs; what it raises ends the work.

    Returns:
        Positions, float32 [N, 2].

    Departs from the source: the curve is 1 / (1 + a d^2) with b = 1 in place of 0.9, which saves a power a pair, and all
    is done by one thread, so that a seed means one picture.
    """
    weights = edge_weights(neighbors, distances)
    n_epochs = N_EPOCHS if len(start) > FEW else N_EPOCHS_FEW
    edges = weights.tocoo()
    is_used = edges.data >= edges.data.max(initial=0) / n_epochs
    heads, tails, strength = (part[is_used] for part in (edges.row, edges.col, edges.data))
    every = (strength.max(initial=1e-12) / np.maximum(strength, 1e-12)).astype(np.float32)
    due, xy = every.copy(), _spread(start)
    state = np.array([np.random.default_rng(seed).integers(1, 2**63)], np.uint64)
    run = _compiled()
    for first in range(0, n_epochs, _BLOCK):
        if report:
            report(first / n_epochs)
        last = min(first + _BLOCK, n_epochs)
        run(xy, heads.astype(np.int32), tails.astype(np.int32), every, due, state, first, last, n_epochs)
    return xy


def edge_weights(neighbors: NDArray[np.int64], distances: NDArray[np.float32]) -> sparse.csr_matrix:
    """Return the chance that two rows are tied, a symmetric sparse matrix float32 [N, N] with values in 0..1.

    Source: UMAP, Algorithms 2 and 3: each row's distances count from its nearest neighbor on, on a scale by which its
    weights sum to log2 k.

    Args:
        neighbors, distances: as in `layout`.
    """
    n, k = neighbors.shape
    others, gaps = neighbors[:, 1:], distances[:, 1:].astype(np.float64)
    has = others >= 0
    apart = np.where(has & (gaps > 0), gaps, np.inf).min(axis=1, initial=np.inf)
    gaps = np.maximum(np.where(has, gaps, 0) - np.where(np.isfinite(apart), apart, 0)[:, None], 0)
    scale = _scales(gaps, has, np.log2(k))
    values = np.where(has, np.exp(-gaps / scale[:, None]), 0)
    rows = np.repeat(np.arange(n), k - 1)
    one_way = sparse.csr_matrix((values.ravel(), (rows, np.maximum(others, 0).ravel())), shape=(n, n))
    one_way.setdiag(0)
    both = one_way.multiply(one_way.T)
    found = (one_way + one_way.T - both).tocsr().astype(np.float32)
    found.eliminate_zeros()
    return found


def _scales(gaps: NDArray[np.float64], has: NDArray[np.bool_], wanted: float) -> NDArray[np.float64]:
    """Scale of each row, float64 [N], by which the weights of its gaps [N, k - 1] sum to `wanted`, found by halving."""
    mean = max(float(gaps.mean()), 1e-12)
    low, high = np.full(len(gaps), -12.0), np.full(len(gaps), 12.0)  # exponents of 2, around the mean gap
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        total = np.where(has, np.exp(-gaps / (mean * 2 ** middle[:, None])), 0).sum(axis=1)
        low, high = np.where(total < wanted, middle, low), np.where(total < wanted, high, middle)
    scale: NDArray[np.float64] = mean * 2**low
    return scale


def _spread(start: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring first positions to a span of 10, as UMAP does."""
    low, span = start.min(axis=0), np.maximum(np.ptp(start, axis=0).max(), 1e-12)
    return np.ascontiguousarray(_SPAN * (start - low) / span, dtype=np.float32)


@cache
def _compiled() -> Any:
    """Compile the loop, which takes seconds, only where it is needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own, about versions of its parts
        import numba

        return numba.njit(fastmath=True)(_epochs)


def _epochs(  # compiled for the arrays that it gets
    xy, heads, tails, every, due, state, first, last, n_epochs
):
    """Do the epochs first..last, in place; `state` holds that of the random numbers."""
    n, word = len(xy), state[0]
    two, curve, most = np.float32(2), np.float32(CURVE), np.float32(4)
    one, least = np.float32(1), np.float32(1e-3)
    for epoch in range(first, last):
        rate = np.float32(1 - epoch / n_epochs)
        for edge in range(len(heads)):
            if due[edge] > epoch:
                continue
            due[edge] += every[edge]
            i, j = heads[edge], tails[edge]
            x, y = xy[i, 0], xy[i, 1]
            dx, dy = x - xy[j, 0], y - xy[j, 1]
            pull = -two * curve / (one + curve * (dx * dx + dy * dy))
            gx, gy = max(-most, min(most, pull * dx)) * rate, max(-most, min(most, pull * dy)) * rate
            x, y = x + gx, y + gy
            xy[j, 0] -= gx
            xy[j, 1] -= gy
            for _ in range(N_REPELLED):
                word = word * _FACTOR + _STEP
                other = np.int64((word >> np.uint64(32)) * np.uint64(n) >> np.uint64(32))
                if other == i:
                    continue
                dx, dy = x - xy[other, 0], y - xy[other, 1]
                squared = dx * dx + dy * dy
                if squared > 0:
                    push = two / ((least + squared) * (one + curve * squared))
                    x += max(-most, min(most, push * dx)) * rate
                    y += max(-most, min(most, push * dy)) * rate
            xy[i, 0], xy[i, 1] = x, y
    state[0] = word
