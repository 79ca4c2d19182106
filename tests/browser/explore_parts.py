"""A made-up run whose embeddings are islands in the plane, for tests and benchmarks of the Explore page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pu_geo.project import runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts

DIM = 64
SHARES = (0.62, 0.26, 0.12)
"""Of the buildings, in each island; the last one holds the damaged ones."""


def islands_of(n: int) -> np.ndarray:
    """Which island each of n buildings lies on, int64 [n]; they take turns, so that all are everywhere on the map."""
    return np.searchsorted(np.cumsum(SHARES), (np.arange(n) * 0.6180339887) % 1.0)


def add_island_run(layout: Layout, ids: Sequence[str], run_id: str = "islands-1", spread: float = 0.06) -> np.ndarray:
    """Store a run; buildings of an island lie together, the damaged ones have high scores. Returns `islands_of`."""
    rng, n = np.random.default_rng(1), len(ids)
    islands = islands_of(n)
    middles = np.eye(len(SHARES), DIM)
    embeddings = middles[islands] + rng.normal(scale=spread, size=(n, DIM))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    is_last = islands == len(SHARES) - 1
    scores = np.clip(0.15 + 0.6 * is_last + rng.normal(scale=0.08, size=n), 0, 1).astype(np.float32)
    facts = RunFacts(
        run_id, "ranker", "instant", 0, {}, "main", 0, 10, n - 10, store.now(), 0.1, "cpu", "linear", 0.5, 0.12
    )  # fmt: skip
    arrays = {"embeddings": embeddings.astype(np.float32), "clusters": is_last.astype(np.int64)}
    with store.connect(layout) as db:
        runs.finish(db, layout, facts, ids=ids, scores=scores, arrays=arrays)
    return islands
