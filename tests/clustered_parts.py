"""A project with a finished run whose embeddings lie in four groups, for the services of the Explore page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from model_parts import with_chips
from numpy.typing import NDArray
from small_parts import small_grid, small_project, small_scene, square_table

from pu_geo.project import contents, labels, runs, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout, write_array, write_json
from pu_geo.records import RunFacts

RUN, N, N_GROUPS, DIM = "ranker-1", 80, 4, 12


def groups() -> NDArray[np.int64]:
    """Group of each of the 80 buildings, which come in turn."""
    return np.arange(N) % N_GROUPS


def embeddings(seed: int = 0) -> NDArray[np.float32]:
    rows = np.eye(DIM)[groups()] * 4 + np.random.default_rng(seed).normal(size=(N, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def explored_project(folder: Path, *, n_positive: int = 8) -> Layout:
    """80 buildings, all clicked ones in group 0; clusters of the run: group 0, and the rest."""
    layout = store.create(folder / "event.pugeo", "Event")
    ids = [f"b{i}" for i in range(N)]
    rows, rng = embeddings(), np.random.default_rng(1)
    write_json(layout.chip_facts("set"), {"building_ids": ids, "nodata_share": [0.0] * N, "bands": "post", "size_px": 16,
                                          "sheets": {}})  # fmt: skip
    write_array(layout.chips("set"), rng.integers(0, 255, (N, 3, 16, 16)).astype(np.uint8))
    write_array(layout.features("set"), np.stack([rows, rows]).astype(np.float16))
    clicked = [ids[row] for row in np.flatnonzero(groups() == 0)[:n_positive]]
    facts = RunFacts(
        run_id=RUN, method="ranker", preset="instant", seed=0, created_at="2026-01-01T00:00:00.000Z", chip_set="set",
        at_event=n_positive, n_positive=n_positive, n_unlabeled=N - n_positive, score_type="linear", threshold=0.5,
        seconds=1.0, settings={}, device="cpu", warnings=(), estimated_share=0.15,
    )  # fmt: skip
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], small_grid())
        contents.add_footprints(db, square_table(N))
        contents.add_chip_set(db, "set", "post", 16, N)
        ops = [LabelOp(f"op-{building}", building, "positive") for building in clicked]
        labels.append(db, ops, analyst="ann", screen="map")
        arrays = {"embeddings": rows, "clusters": (groups() == 0).astype(np.int8)}
        scores = np.linspace(1, 0, N).astype(np.float32)
        runs.finish(db, layout, facts, ids=ids, scores=scores, arrays=arrays)
    return layout


def chipped(folder: Path) -> Layout:
    """20 buildings with chips, filters, features, six positives and six undamaged, on which methods can be trained."""
    return with_chips(small_project(folder / "event.pugeo"))
