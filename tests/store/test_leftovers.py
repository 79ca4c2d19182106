"""What a killed process left is removed once nobody works on it, and nothing else."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from small_parts import add_chips, add_run, small_project, unheld_job

from pu_geo import jobs
from pu_geo.errors import PuGeoError
from pu_geo.files import atomic_write, is_abandoned
from pu_geo.jobs import worker
from pu_geo.store import events, leftovers, versions
from pu_geo.store.layout import SHARDS, Layout

OLD = time.time() - 3600
HIDDEN = ".set.npy.0123456789abcdef.part"


def half_written(layout: Layout) -> Path:
    """Return a hidden file of an hour ago, of which no process is the writer any more."""
    left = layout.chips("set").with_name(HIDDEN)
    left.parent.mkdir(exist_ok=True)
    left.touch()
    os.utime(left, (OLD, OLD))
    return left


def files_of(layout: Layout) -> dict[str, bytes]:
    """Read all files but the logs and locks of jobs."""
    paths = sorted(path for path in layout.folder.rglob("*") if path.is_file() and layout.jobs not in path.parents)
    return {str(path.relative_to(layout.folder)): path.read_bytes() for path in paths if path.suffix not in (".gpkg-shm",)}


def test_a_job_that_starts_removes_what_a_killed_one_left(project: Layout) -> None:
    left = half_written(project)
    left.write_bytes(bytes(1_000_000))
    os.utime(left, (OLD, OLD))
    assert leftovers.find(project) == [left]
    folder = unheld_job(project, "add_grid", {"size_m": 0.001})
    with pytest.raises(PuGeoError):  # whatever becomes of it
        worker.run(folder)
    assert not left.exists()
    assert [event["files"] for event in events.read(folder) if event["event"] == "swept"] == [1]


def test_a_part_counts_once_its_writer_is_gone(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.bin") as temporary:
        os.utime(temporary, (OLD, OLD))
        assert not is_abandoned(temporary)
        kept = shutil.copy2(temporary, temporary.with_name(".a.bin.0123456789abcdef.part"))
    assert is_abandoned(Path(kept))
    assert not is_abandoned(tmp_path / "a.bin")
    (tmp_path / "mine.part").touch()
    assert not is_abandoned(tmp_path / "mine.part")


def test_everything_that_a_kill_leaves_is_found_and_all_else_stays(tmp_path: Path) -> None:
    layout = small_project(tmp_path / "event.pugeo")
    add_chips(layout, [f"b{i}" for i in range(20)], chips=np.ones((20, 3, 16, 16), np.uint8))
    add_run(layout)
    with versions.new_version(layout) as (_, made):
        versions.put_facts(made, {"run_id": "ranker-1"})
    for name in ("trash/runs", "backups", "quicklooks/post/3"):
        (layout.folder / name).mkdir(parents=True)
        (layout.folder / name / ".kept.0123456789abcdef.part").touch()
    job = unheld_job(layout, "train", {})
    (job / "checkpoints").mkdir()
    (job / "checkpoints" / "training-newest.pt").write_bytes(b"state")
    before = files_of(layout)
    half_written(layout)
    shutil.copytree(layout.quicklooks, layout.folder / "quicklooks.new")
    (layout.exports / ".new-abcdefgh").mkdir()
    np.save(layout.chips("unfinished"), np.zeros(3))
    (job / "checkpoints" / "training-unfinished.pt").write_bytes(b"half")
    (job / "features.npy").write_bytes(b"half")
    copy = tmp_path / ".copy-abcdefgh"
    (copy / "project").mkdir(parents=True)
    os.utime(copy / "project", (OLD, OLD))
    os.utime(copy, (OLD, OLD))
    assert len(leftovers.find(layout)) == 6, "a copy may still be under way"
    for each in (copy, copy / "project"):
        os.utime(each, (OLD - 86_400, OLD - 86_400))
    assert len(leftovers.sweep(layout)) == 7
    assert leftovers.find(layout) == []
    assert files_of(layout) == before
    assert (job / "checkpoints" / "training-newest.pt").read_bytes() == b"state"
    assert not copy.exists()


def test_finished_shards_stay_until_their_job_is_dismissed(project: Layout) -> None:
    job = unheld_job(project, "features", {})
    (job / SHARDS).mkdir()
    (job / SHARDS / "000000000-0.npz").write_bytes(b"shard")
    assert leftovers.sweep(project) == []
    (project.folder / "quicklooks.old").mkdir()  # map tiles that a kill put aside come back
    (project.folder / "quicklooks.old" / "pyramid.json").write_text("{}")
    jobs.dismiss(project, job.name)
    assert leftovers.sweep(project) == [job / SHARDS]
    assert not (job / SHARDS).exists()
    assert (project.quicklooks / "pyramid.json").read_text() == "{}"


def test_nothing_but_hidden_files_is_removed_while_another_job_is_alive(project: Layout) -> None:
    (project.folder / "quicklooks.new").mkdir()
    other, lock = jobs.create_held(project, "align", {})
    (other / "features.npy").write_bytes(b"in use")
    left = half_written(project)
    try:
        assert leftovers.sweep(project) == [left]
    finally:
        os.close(lock)
    assert {*leftovers.sweep(project)} == {other / "features.npy", project.folder / "quicklooks.new"}


def test_a_project_that_cannot_be_read_loses_nothing(project: Layout) -> None:
    half = project.chips("set")
    half.parent.mkdir()
    np.save(half, np.zeros(3))
    project.gpkg.write_bytes(b"not a database" * 1000)
    assert leftovers.sweep(project) == []
    assert half.exists()
