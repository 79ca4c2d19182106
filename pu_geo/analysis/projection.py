"""Embeddings brought to two dimensions for the Explore page: PCA at once, UMAP in a job."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ShapeError

_PCA_DIMENSIONS = 50
_ROWS_FOR_AXES = 20_000
_EXACT_NEIGHBORS_UP_TO = 20_000
_SMALLEST_UMAP = 5


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
        report: called with {"stage", "share"} before each of the stages "axes", "neighbors", "layout" and after the last.

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
    neighbors, distances = _nearest(reduced, k)
    tell({"stage": "layout", "share": 0.2})
    positions = _layout(reduced, neighbors, distances, k, seed)
    tell({"stage": "layout", "share": 1.0})
    return positions


def _layout(
    rows: NDArray[np.float32], neighbors: NDArray[np.int64], distances: NDArray[np.float32], k: int, seed: int
) -> NDArray[np.float32]:
    """Run UMAP on known neighbours, float32 [N, 2]."""
    umap = _load_umap()
    with warnings.catch_warnings():
        # All three are wanted: one thread for a fixed seed, no projection of new rows, islands of chips apart or lost.
        for message in (
            "n_jobs value .* overridden to 1 by setting random_state",
            r"precomputed_knn\[2\] \(knn_search_index\) is not an NNDescent object",
            ".*of your vertices were disconnected from the manifold",
        ):
            warnings.filterwarnings("ignore", message=message)
        model = umap.UMAP(
            n_neighbors=k,
            random_state=seed,
            precomputed_knn=(neighbors, distances),
            init=_first_positions(rows, seed),
            force_approximation_algorithm=True,
        )
        positions = np.asarray(model.fit_transform(rows), dtype=np.float32)
    return np.nan_to_num(positions)


def _first_positions(rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Start at the two widest axes; a little noise keeps equal rows, or rows on one line, apart."""
    start = _principal_axes(rows, 2)
    start /= max(float(start.std()), 1e-12)
    return start + 1e-3 * np.random.default_rng(seed).standard_normal(start.shape, dtype=np.float32)


def _load_umap() -> Any:
    """Import UMAP, which takes seconds, only where it is needed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Tensorflow not installed", category=ImportWarning)
        import umap

    return umap


def _nearest(rows: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the k nearest rows of each row, itself first: row numbers [N, k] and distances [N, k]."""
    import faiss

    is_exact = len(rows) <= _EXACT_NEIGHBORS_UP_TO
    index: Any = faiss.index_factory(rows.shape[1], "Flat" if is_exact else "IVF256,Flat")
    if not is_exact:
        index.nprobe = 16
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
