"""UMAP on a known neighbor graph: edge weights in numpy, the layout in one compiled loop that can be stopped and watched."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

CURVE = 1.56
"""The a of 1 / (1 + a d^2), which follows UMAP's own curve for its min_dist of 0.1 to within 0.04."""
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
