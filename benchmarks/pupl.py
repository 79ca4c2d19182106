"""Speed of PUPL's two means against scikit-learn's k-means from the same start, to the same labels."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.pupl import pupl

N, D = 200_000, 512
N_REPEATS = 5


def embeddings() -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Make unit rows of four groups that overlap, and mark 200 rows of the largest group as positive."""
    rng = np.random.default_rng(7)
    directions = rng.normal(size=(4, D)).astype(np.float32)
    directions *= 4 / np.linalg.norm(directions, axis=1, keepdims=True)
    group = rng.choice(4, size=N, p=[0.4, 0.3, 0.2, 0.1])
    rows = rng.standard_normal((N, D), dtype=np.float32)
    for part in np.array_split(np.arange(N), 50):
        rows[part] += directions[group[part]]
        rows[part] /= np.linalg.norm(rows[part], axis=1, keepdims=True)
    return rows, np.isin(np.arange(N), rng.choice(np.flatnonzero(group == 0), 200, replace=False))


def bench_pupl(_: Path) -> dict[str, float]:
    """Split 200,000 x 512 float32 in two, against scikit-learn's Lloyd iterations from the same centroids."""
    from sklearn.cluster import KMeans

    rows, is_positive = embeddings()
    start = np.stack([rows[mask].mean(axis=0, dtype=np.float64) for mask in (~is_positive, is_positive)])
    peer = KMeans(2, init=start.astype(np.float32), n_init=1, tol=0, algorithm="lloyd", max_iter=100)
    times = np.empty((N_REPEATS, 2))
    for repeat in range(N_REPEATS):  # in turn, so that a busy moment of the machine hits both
        began = time.perf_counter()
        ours = pupl(rows, is_positive, seed=0, seeding="mean_u", spherical=False, is_pinned=False)
        between = time.perf_counter()
        peer.fit(rows)
        times[repeat] = between - began, time.perf_counter() - between
    assert (ours.labels == peer.labels_).all()
    return dict(zip(("ours_s", "scikit_learn_s"), times.min(axis=0).tolist(), strict=True))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = bench_pupl(Path(name))
    print(json.dumps({"ratio": round(found["ours_s"] / found["scikit_learn_s"], 3)} | found))
