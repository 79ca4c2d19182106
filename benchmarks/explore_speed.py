"""Speed of what Explore shows: "more like this" against a bare product, PUPL's two means against scikit-learn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import best_of, in_turns
from pu_geo.analysis import neighbors
from pu_geo.analysis.pupl import pupl

N_MANY, D, N_GROUPS = 100_000, 128, 12


def embeddings(n: int, d: int = D) -> NDArray[np.float32]:
    """Make unit rows of twelve groups that overlap."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(N_GROUPS, d)).astype(np.float32)
    return neighbors.unit_rows(rng.standard_normal((n, d), dtype=np.float32) + centers[rng.integers(0, N_GROUPS, n)])


def bench_neighbors(_: Path) -> dict[str, float]:
    """Find the 20 of 100,000 x 64 most like one, against the product of all rows with it."""
    unit = neighbors.unit_rows(embeddings(N_MANY, 64))
    chosen, some = np.array([7]), np.arange(20)
    ours = best_of(20, lambda: neighbors.nearest(unit, chosen, 20))
    found = neighbors.nearest(unit, chosen, 20)[0]
    assert set(found.tolist()) == set(np.argsort(-(unit @ unit[7]), kind="stable")[1:21].tolist())
    return {
        "ours_s": ours, "product_s": best_of(20, lambda: unit @ unit[7]),
        "of_20_chosen_s": best_of(5, lambda: neighbors.nearest(unit, some, 20)),
    }  # fmt: skip


def grouped() -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Make unit rows of four groups that overlap, and mark 200 rows of the largest group as positive."""
    rng, d = np.random.default_rng(7), 512
    directions = rng.normal(size=(4, d)).astype(np.float32)
    directions *= 4 / np.linalg.norm(directions, axis=1, keepdims=True)
    group = rng.choice(4, size=200_000, p=[0.4, 0.3, 0.2, 0.1])
    rows = rng.standard_normal((200_000, d), dtype=np.float32)
    for part in np.array_split(np.arange(200_000), 50):
        rows[part] += directions[group[part]]
        rows[part] /= np.linalg.norm(rows[part], axis=1, keepdims=True)
    return rows, np.isin(np.arange(200_000), rng.choice(np.flatnonzero(group == 0), 200, replace=False))


def bench_pupl(_: Path) -> dict[str, float]:
    """Split 200,000 x 512 float32 in two, against scikit-learn's Lloyd iterations from the same centroids."""
    from sklearn.cluster import KMeans

    rows, is_positive = grouped()
    start = np.stack([rows[mask].mean(axis=0, dtype=np.float64) for mask in (~is_positive, is_positive)])
    peer = KMeans(2, init=start.astype(np.float32), n_init=1, tol=0, algorithm="lloyd", max_iter=100)

    def ours() -> NDArray[np.integer]:
        return pupl(rows, is_positive, seed=0, seeding="mean_u", spherical=False, is_pinned=False).labels

    assert (ours() == peer.fit(rows).labels_).all()
    return dict(zip(("ours_s", "scikit_learn_s"), in_turns(5, ours, lambda: peer.fit(rows)), strict=True))


BENCHMARKS = {"PUPL / scikit-learn": bench_pupl, "more like this, 100,000 x 64 / one product": bench_neighbors}
