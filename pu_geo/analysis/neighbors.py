"""Neighbors in the space of embeddings: the chips most like some chosen ones, and the nearest of every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pu_geo.errors import ShapeError

"""Ways to measure the distance of two embeddings."""
_BLOCK = 64  # chosen chips that are multiplied at once
_EXACT_UP_TO = 5_000  # rows; beyond, faiss searches the nearest of many lists
_N_LISTS, _N_PROBED, _N_PASSES = 128, 12, 6  # of 100 neighbors 95 and more are found so
_ALONE_UP_TO = 40_000  # rows; below, threads cost more than they save, above all where others work too


def unit_rows(embeddings: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scale embeddings [N, D] to unit length, float32 [N, D]; a zero row stays zero.

    Raises:
        ShapeError(ValueError): if they are not [N, D].
    """
    if embeddings.ndim != 2:
        raise ShapeError(f"embeddings must be [N, D]; got {embeddings.shape}.")
    rows = np.ascontiguousarray(embeddings, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))


def nearest(
    unit: NDArray[np.float32], chosen: NDArray[np.int64], n: int, *, is_hidden: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rows most like any of the chosen ones, most alike first.

    Source: ours; every chip is compared, so none is missed. A chip is as like a selection as it is like the member that it
    resembles most.

    Args:
        unit: unit rows, float32 [N, D].
        chosen: rows, int64 [S], at least one; these are not returned.
        n: how many, at least 1; fewer come back where fewer are there.
        is_hidden: bool [N]; not returned either.

    Returns:
        Rows, int64 [n], and their cosine to the nearest chosen one, float32 [n] in -1..1. Of equal ones the first come
        first.

    Raises:
        ShapeError(ValueError): if nothing is chosen, or the mask is not [N]. ValueError: if n is below 1.
    """
    if not len(chosen) or (is_hidden is not None and is_hidden.shape != (len(unit),)):
        raise ShapeError(f"chosen must name at least one row, is_hidden be [{len(unit)}]; got {chosen.shape}.")
    if n < 1:
        raise ValueError(f"n must be at least 1; got {n}.")
    is_out = np.zeros(len(unit), np.bool_) if is_hidden is None else is_hidden.copy()
    is_out[chosen] = True
    n = min(n, int((~is_out).sum()))
    alike = np.where(is_out, np.float32(-np.inf), similarity(unit, unit[chosen]))
    rows = highest(alike, n)
    return rows, alike[rows]


def nearest_of_each(rows: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the k nearest rows of each of float32 [N, D], itself first: row numbers int64 and distances float32, [N, k]."""
    import faiss

    is_exact = len(rows) <= _EXACT_UP_TO
    index: Any = faiss.index_factory(rows.shape[1], "Flat" if is_exact else f"IVF{_N_LISTS},Flat")
    with threadpool_limits(limits=1 if len(rows) <= _ALONE_UP_TO else None):
        if not is_exact:
            index.nprobe = max(_N_PROBED, -(-4 * k * _N_LISTS // len(rows)))  # four times k rows on average
            index.cp.niter = _N_PASSES
            index.train(rows)
        index.add(rows)
        distances, neighbors = index.search(rows, k)
    distances = np.sqrt(np.maximum(distances, 0))
    me = np.arange(len(rows))[:, None]
    # itself first: faiss may list equal rows before it, or leave it out
    order = np.argsort(neighbors != me, axis=1, kind="stable")
    neighbors = np.take_along_axis(neighbors, order, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    neighbors[:, :1], distances[:, :1] = me, 0
    return neighbors, distances


def highest(scores: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """Return the rows of the n highest scores [N], int64, highest first; of equal ones the first. All where there are
    fewer.
    """
    least = np.partition(scores, -n)[-n] if 0 < n < len(scores) else -np.inf
    rows = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")][:n]


def similarity(unit: NDArray[np.float32], chosen: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine of unit rows [N, D] to the one of chosen rows [S, D] that each is most like, float32 [N]."""
    if len(chosen) == 1:
        return unit @ chosen[0]
    best = np.full(len(unit), -np.inf, np.float32)
    for start in range(0, len(chosen), _BLOCK):
        np.maximum(best, (chosen[start : start + _BLOCK] @ unit.T).max(axis=0), out=best)
    return best
