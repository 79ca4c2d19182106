"""A project with a finished run whose embeddings lie in four groups, for the services of the Explore page."""

from pathlib import Path

import numpy as np
from model_parts import with_chips
from numpy.typing import NDArray
from small_parts import add_chips, add_run, click, job_of, small_project

from pu_geo.explore.look_job import look
from pu_geo.store.layout import Layout, write_array

RUN, N, N_GROUPS, DIM = "ranker-1", 80, 4, 12


def groups() -> NDArray[np.int64]:
    """Group of each of the 80 buildings, which come in turn."""
    return np.arange(N) % N_GROUPS


def embeddings(seed: int = 0) -> NDArray[np.float32]:
    rows = np.eye(DIM)[groups()] * 4 + np.random.default_rng(seed).normal(size=(N, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def explored_project(folder: Path, *, n_positive: int = 8) -> Layout:
    """80 buildings, all clicked ones in group 0; clusters of the run: group 0, and the rest."""
    layout = small_project(folder / "event.pugeo", N)
    ids = [f"b{i}" for i in range(N)]
    rows, rng = embeddings(), np.random.default_rng(1)
    chips = rng.integers(0, 255, (N, 3, 16, 16)).astype(np.uint8)
    add_chips(layout, ids, chips=chips, features=np.stack([rows, rows]).astype(np.float16))
    clicked = [ids[row] for row in np.flatnonzero(groups() == 0)[:n_positive]]
    click(layout, *clicked)
    arrays = {"embeddings": rows, "clusters": (groups() == 0).astype(np.int8)}
    facts = {"n_positive": n_positive, "n_unlabeled": N - n_positive, "at_event": n_positive}
    scores, at = np.linspace(1, 0, N), "2026-01-01T00:00:00.000Z"
    add_run(layout, RUN, scores=scores, arrays=arrays, preset="instant", created_at=at, **facts)
    return layout


def looked(layout: Layout, rows: NDArray[np.float32] | None = None) -> Layout:
    """Give a project the look of its chips and their clusters, as the job leaves them; its rows are those of the run, if None."""
    rows = embeddings() if rows is None else rows
    write_array(layout.look("set", "rcf"), rows)
    write_array(layout.look_plane("set", "rcf"), rows[:, :2])
    look(job_of(layout, "look"), chip_set="set", feature_set="rcf")
    return layout


def chipped(folder: Path) -> Layout:
    """20 buildings with chips, filters, features, six positives and six undamaged, on which methods can be trained."""
    return with_chips(small_project(folder / "event.pugeo"))
