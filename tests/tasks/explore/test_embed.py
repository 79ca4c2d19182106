"""UMAP of a run: kept, the same for a seed, stopped when asked, and new buildings placed among their like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from clustered_parts import chipped
from model_parts import job_of, trained
from small_parts import add_chips, table_of

from pu_geo.analysis import projection
from pu_geo.errors import JobCancelled
from pu_geo.features import rcf
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout, write_array
from pu_geo.services.explore import exploring
from pu_geo.tasks.explore.embed import embed
from pu_geo.tasks.train import train as train_task

pytestmark = pytest.mark.slow


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return chipped(tmp_path)


def with_newer_chips(layout: Layout, *, n_new: int = 2, is_other_size: bool = False) -> None:
    """Cut chips anew, with other filters, as after further footprints: the last ones look like the first."""
    old = np.load(layout.chips("set"))
    chips = np.concatenate([old, old[:n_new]])
    if is_other_size:
        chips = chips[:, :, :12, :12]
    ids = [*(f"b{i}" for i in range(len(old))), *(f"new{i}" for i in range(n_new))]
    outlines = [shapely.box(600_000 + 20 * i, 0, 600_008 + 20 * i, 8) for i in range(n_new)]
    with store.connect(layout) as db:
        contents.add_footprints(db, table_of(outlines, ids[-n_new:]))
    features = np.zeros((3, len(chips), 16), np.float16)
    add_chips(layout, ids, "newer", bands="pre+post", size_px=chips.shape[-1], chips=chips, features=features)


def test_a_picture_is_kept_and_the_same_for_its_seed(layout: Layout) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"])
    done = embed(job_of(layout, "one"), run_id=run_id)
    assert done == {"run_id": run_id, "n": 20, "n_new": 0, "note": ""}
    path = layout.run(run_id) / "umap.npy"
    first, stamp = np.load(path), path.stat().st_mtime_ns
    embed(job_of(layout, "two"), run_id=run_id)
    assert path.stat().st_mtime_ns == stamp
    embed(job_of(layout, "three"), run_id=run_id, seed=5)
    assert not np.array_equal(np.load(path), first)
    embed(job_of(layout, "four"), run_id=run_id, seed=0)
    np.testing.assert_array_equal(np.load(path), first)


def test_stops_when_asked_and_leaves_nothing(layout: Layout) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"])
    job = job_of(layout, "one")
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        embed(job, run_id=run_id)
    assert not (layout.run(run_id) / "umap.npy").exists()


@pytest.mark.parametrize("method", ["ranker", "pucl", "propagation"])
def test_new_buildings_lie_with_those_that_look_alike(layout: Layout, method: str) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"]) if method == "ranker" else trained(layout, method)
    embed(job_of(layout, "one"), run_id=run_id)
    with_newer_chips(layout)
    assert exploring.n_unplaced(layout, run_id) == 2
    done = embed(job_of(layout, "two"), run_id=run_id)
    assert (done["n_new"], done["note"]) == (2, "")
    found = exploring.placed(layout, run_id)
    assert list(found.building_ids) == ["new0", "new1"]
    known = np.asarray(runs.array(layout, run_id, "umap"))
    np.testing.assert_allclose(found.xy, known[:2], atol=0.05)  # the same pictures as b0 and b1
    assert exploring.n_unplaced(layout, run_id) == 0


def test_says_why_new_buildings_cannot_be_placed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = str(train_task.rank(job_of(layout, "rank"))["run_id"])
    with_newer_chips(layout, is_other_size=True)
    done = embed(job_of(layout, "one"), run_id=run_id)
    assert done["n_new"] == 0
    assert "2 new buildings are not shown" in str(done["note"])
    assert exploring.n_unplaced(layout, run_id) == 0  # asking again would not help
    assert exploring.placed(layout, run_id).note == done["note"]
    other = rcf.RcfBank.fit(
        np.load(layout.chips("set"))[::-1].copy(), torch.Generator().manual_seed(9), rcf.RcfSettings(n_filters=8)
    )
    np.savez(layout.filters("set"), allow_pickle=False, **other.state())
    with_same = np.load(layout.chips("newer"))
    write_array(layout.chips("newer"), np.concatenate([np.load(layout.chips("set")), np.load(layout.chips("set"))[:2]]))
    assert len(with_same) == 22
    told = str(embed(job_of(layout, "two"), run_id=run_id)["note"])
    assert "other embeddings than it stored" in told


def test_place_is_the_weighted_mean_of_neighbors() -> None:
    known = np.eye(3, dtype=np.float32)
    positions = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 8.0]], np.float32)
    equal = projection.place(known[:1] + known[1:2], known, positions, n_neighbors=2)
    np.testing.assert_allclose(equal, [[2.0, 0.0]], atol=1e-5)  # as far from both
    np.testing.assert_allclose(projection.place(known[2:], known, positions), [[0.0, 8.0]], atol=1e-5)
    assert projection.place(np.zeros((0, 3)), known, positions).shape == (0, 2)
