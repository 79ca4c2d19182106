"""Embeddings brought to two dimensions for the Explore page.

UMAP is umap-learn's, on neighbors that faiss found, which takes a third of the time; its progress bar reports and can be
stopped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.neighbors import nearest_of_each
from pu_geo.errors import ShapeError

Embeddings = NDArray[np.floating]
Singles = NDArray[np.float32]

_PCA_DIMENSIONS = 64  # those of a look
_ROWS_FOR_AXES = 20_000
_SMALLEST_UMAP = 5
N_NEIGHBORS, MIN_DIST = 15, 0.1  # of UMAP


def umap_2d(
    embeddings: Embeddings, *, seed: int = 0, report: Callable[[Mapping[str, object]], None] | None = None
) -> Singles:
    """Lay out embeddings so that similar chips are side by side.

    Source: UMAP (McInnes et al. 2018) by umap-learn, on the 15 neighbours that faiss finds in the first 64 principal
    components, with a least distance of 0.1.

    Args:
        embeddings: float [N, D].
        seed: of the layout; the same seed gives the same picture on the same machine.
        report: called with {"stage", "share"} before the stages "axes" and "neighbors", before each pass of "layout", and
            after it. What it raises ends the work.

    Returns:
        Positions, float32 [N, 2]. Fewer than 5 embeddings are shown along their two widest axes: there is nothing to lay
        out. The sign of each axis is fixed, so that the same embeddings always give the same picture.

    Raises:
        ShapeError(ValueError): if `embeddings` is not [N, D] or holds a value that is not finite.
    """
    note = report or (lambda _: None)
    rows = _checked(embeddings)
    if len(rows) < _SMALLEST_UMAP:
        return _principal_axes(rows, 2)
    note({"stage": "axes", "share": 0.0})
    reduced = _principal_axes(rows, min(_PCA_DIMENSIONS, rows.shape[1]))
    note({"stage": "neighbors", "share": 0.05})
    k = min(N_NEIGHBORS, len(rows) - 1)
    neighbors, distances = nearest_of_each(reduced, k)
    start = _principal_axes(reduced, 2)
    start /= max(float(start.std()), 1e-12)  # a little noise separates equal rows, and rows on one line
    start += 1e-3 * np.random.default_rng(seed).standard_normal(start.shape, dtype=np.float32)
    note({"stage": "layout", "share": 0.2})

    def write(bar: str) -> None:
        """Read what umap-learn writes into its progress bar, such as "12/200"; some of it has no numbers."""
        done, _, total = bar.strip().partition("/")
        if total:
            note({"stage": "layout", "share": 0.2 + 0.8 * int(done) / int(total)})

    bar = {"disable": False, "bar_format": "{n_fmt}/{total_fmt}", "mininterval": 0, "miniters": 1}
    file = SimpleNamespace(write=write, flush=lambda: None)
    with warnings.catch_warnings():  # of the compiler's, about versions of its parts; and that `transform` needs an index
        warnings.simplefilter("ignore")
        from umap import UMAP

        found = UMAP(
            n_neighbors=k, min_dist=MIN_DIST, init=start, random_state=seed, n_jobs=1,
            precomputed_knn=(neighbors.astype(np.int32), distances), tqdm_kwds={**bar, "file": file},
        ).fit(reduced)  # fmt: skip
    note({"stage": "layout", "share": 1.0})
    return np.asarray(found.embedding_, np.float32)


def _principal_axes(rows: Singles, n_axes: int) -> Singles:
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


def _checked(embeddings: Embeddings) -> Singles:
    """Refuse what has no place in the plane; return float32 [N, D]."""
    if embeddings.ndim != 2:
        raise ShapeError(f"embeddings must be [N, D]; got {embeddings.shape}.")
    rows = np.ascontiguousarray(embeddings, dtype=np.float32)
    if not np.isfinite(rows).all():
        n_bad = int((~np.isfinite(rows)).any(axis=1).sum())
        raise ShapeError(f"embeddings must be finite; {n_bad} of {len(rows)} rows are not. Compute them again.")
    return rows
