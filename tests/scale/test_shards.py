"""Shards: what is kept of them, what counts as finished, and which workers may do them."""

import importlib
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scale_parts import of_kind
from small_parts import need_extra

from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.scale import cluster as clusters
from pu_geo.scale import shards
from pu_geo.store.layout import SHARDS
from pu_geo.ui.components import texts

NOWHERE = "tcp://127.0.0.1:1"  # nothing listens there


def squares(spec: Mapping[str, Any], start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    if is_cancelled():
        raise JobCancelled
    if spec.get("refuses"):
        raise PuGeoError("No squares.", "Use circles.", kind="squares")
    return {"square": np.arange(start, stop) ** spec["power"]}


@pytest.fixture
def distributed() -> Any:
    need_extra("scale")
    return importlib.import_module("distributed")


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "event.pugeo" / "jobs" / "job"
    folder.mkdir(parents=True)
    return folder


def here(shard: shards.Shard, **other: str) -> shards.Shard:
    """Return a shard as it is handed out by a job of these versions, or of others."""
    return replace(shard, spec={**shard.spec, "versions": {**shards.versions(), **other}})


def done(job_folder: Path, plan: list[shards.Shard]) -> list[dict[str, Any]]:
    """Do shards as a worker does them, in this process."""
    folder = shards.folder_of(job_folder)
    return [shards.do(squares, folder, here(each)) for each in plan]


def gathered(job_folder: Path, plan: list[shards.Shard]) -> list[int]:
    """Run a plan and return what it gave, in the order of rows."""
    found: dict[int, list[int]] = {}

    def take(shard: shards.Shard, arrays: shards.Arrays) -> None:
        found[shard.start] = arrays["square"].tolist()

    on = clusters.JobCluster(job_folder, None)  # no shard is left to be done
    shards.run(squares, plan, take, cluster=on, report=lambda _: None, is_cancelled=(job_folder / "cancel").exists)
    return [value for start in sorted(found) for value in found[start]]


def test_finished_shards_are_read_wherever_the_project_is_now_and_nobody_does_them_again(
    job_folder: Path, tmp_path: Path
) -> None:
    plan = shards.planned(10, 4, {"power": 2})
    assert [(each.start, each.stop) for each in plan] == [(0, 4), (4, 8), (8, 10)]
    assert len(done(job_folder, plan)) == 3
    assert gathered(job_folder, plan) == [n**2 for n in range(10)]
    for other in (shards.planned(10, 4, {"power": 3}), shards.planned(11, 4, {"power": 2})):
        assert shards.finished(job_folder / SHARDS, here(other[-1])) is None
    (job_folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        gathered(job_folder, plan)
    (job_folder / "cancel").unlink()
    moved = tmp_path / "moved.pugeo"
    shutil.move(job_folder.parents[1], moved)
    job_folder = moved / "jobs" / "job"
    assert gathered(job_folder, plan) == [n**2 for n in range(10)]
    assert of_kind(job_folder, "kept")[-1]["message"] == "3 of 3 shards were finished before"
    shards.remove(job_folder)
    assert not (job_folder / SHARDS).exists()


@pytest.mark.parametrize("harm", ["cut", "other", "gone", "no record"])
def test_a_shard_whose_file_is_not_what_was_written_is_not_finished(job_folder: Path, harm: str) -> None:
    (shard,), folder = shards.planned(4, 4, {"power": 2}), job_folder / SHARDS
    done(job_folder, [shard])
    path = folder / f"{here(shard).name}.npz"
    assert shards.finished(folder, here(shard)) is not None
    assert shards.finished(folder, here(shard, GDAL="99.0")) is None, "parts of two versions are not put together"
    content = path.read_bytes()
    if harm == "no record":
        path.with_suffix(".json").unlink()
    elif harm == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if harm == "cut" else content[:-9] + bytes(9))
    assert shards.finished(folder, here(shard)) is None


def test_a_worker_returns_a_refusal_and_a_cancel_in_place_of_raising(job_folder: Path) -> None:
    """What is raised on a worker is tried again; these are no accidents."""
    refusing = done(job_folder, shards.planned(4, 4, {"power": 2, "refuses": True}))
    assert refusing == [{"refused": ["No squares.", "Use circles.", "squares"]}]
    (job_folder / "cancel").touch()
    (shard,) = shards.planned(4, 4, {"power": 2})
    assert done(job_folder, [shard]) == [{"cancelled": True}]
    assert not list((job_folder / SHARDS).glob("0*"))
    other = shards.do(squares, job_folder / SHARDS, here(shard, GDAL="99.0"))
    assert "has other versions: GDAL" in other["refused"][0]
    shutil.rmtree(job_folder)
    refused = shards.do(squares, job_folder / SHARDS, here(shard))
    assert "does not find the folder" in refused["refused"][0]
    assert not job_folder.exists(), "else a project that was removed would have a folder again, and its name would be taken"


def test_a_cluster_is_named_in_two_ways() -> None:
    names = ("local:1", "local:256", "tcp://head-node:8786", "tls://[::1]:8786")
    assert [clusters.n_local(name) for name in names] == [1, 256, 0, 0]
    for text in ("local", "local:0", "local:1000", "local:2,memory=4GB", "http://a:1", "tcp://a"):
        with pytest.raises(JobError, match="names no cluster") as refused:
            clusters.require(text)
        assert refused.value.hint == "Write local:4 or tcp://HOST:8786."


def connect(name: str, folder: Path) -> None:
    with clusters.of_job(name, folder):
        pass


def test_a_cluster_that_cannot_be_used_is_a_refusal_and_the_log_says_what_was_tried(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    asked: list[object] = []

    def failing(**options: object) -> None:
        asked.append(options["memory_limit"])
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(clusters, "CONNECT_S", 0.2)
    monkeypatch.setattr(distributed, "LocalCluster", failing)
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 16 * 10**9)
    for name in ("local:1", "local:8", NOWHERE, "tls://127.0.0.1:1"):
        with pytest.raises(JobError, match="does not answer, or has no workers") as refused:
            connect(name, job_folder)
        assert "dask scheduler" in refused.value.hint
    assert asked == [8 * 10**9, clusters.LEAST_MEMORY], "an equal share is left to the job itself"
    stages = [event["message"] for event in of_kind(job_folder, "stage")]
    assert stages[:3] == ["starting 1 worker", "starting 8 workers", f"connecting to {NOWHERE}"]
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(JobError, match="not installed") as refused:
        connect("local:1", job_folder)
    assert refused.value.hint == 'pip install "pu-geo[scale]"'


def test_workers_that_need_more_memory_than_there_is_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 9 * 10**9)
    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: pytest.fail("it was started"))
    for asked in (clusters.require, lambda text: connect(text, tmp_path)):
        with pytest.raises(JobError, match="need 10 GB; this computer has 9 GB") as refused:
            asked("local:5")
        assert "local:4" in refused.value.hint


def test_a_shard_whose_worker_dies_as_it_hands_its_record_over_is_waited_for(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    """Dask calls it lost, and has it done again; it is lost for good only with the scheduler, which cancels it."""
    plan = shards.planned(3, 3, {"power": 2})
    (record,) = done(job_folder, plan)

    states = ["finished", "pending"]
    future = SimpleNamespace(key="k", status="lost", result=lambda: record, release=lambda: None)
    client = SimpleNamespace(loop=None, map=lambda *_, **__: [future])

    class Ready(list[Any]):
        def has_ready(self) -> bool:
            return bool(self)

        def __next__(self) -> Any:
            return self.pop()

        def add(self, future: Any) -> None:
            future.status = states.pop()
            self.append(future)

    monkeypatch.setattr(distributed, "as_completed", lambda futures, loop: Ready(futures))
    found = list(shards._completed(client, squares, job_folder, plan, lambda: False))
    assert found == [(plan[0], record)]


def test_a_failed_job_names_what_the_card_and_the_command_line_offer(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledWorker(Exception):
        pass

    monkeypatch.setattr(shards, "_VISIBLE_S", 0.0)
    ended = [{"status": "error", "exception": error} for error in (KilledWorker, ImportError)]
    for fail in (
        *(partial(shards._record, SimpleNamespace(**each)) for each in ({"status": "cancelled"}, *ended)),
        lambda: shards._fresh(job_folder, shards.Shard(0, 4, {}), {"sha256": "0" * 64, "host": "node-1"}),
    ):
        with pytest.raises(JobError) as caught:
            fail()
        for found in (texts.START_AGAIN, "pu-geo jobs P.pugeo resume ID"):
            assert found in caught.value.hint
