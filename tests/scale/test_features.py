"""Features on a cluster: those of one process by sha256, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scale_parts import (
    REQUEST,
    N,
    clicking,
    many_chips,
    of_kind,
    on_first_shard,
    pids_of,
    sha256_of_features,
    stored_clicks,
    wait_for,
)
from small_parts import job_of

from pu_geo import jobs
from pu_geo.errors import JobCancelled, JobError
from pu_geo.features import bank, self_supervised
from pu_geo.project.layout import SHARDS, Layout, write_array
from pu_geo.scale import features as on_cluster
from pu_geo.tasks.imagery.features import features

SHARD = bank.ROWS_TOGETHER
on_a_cluster = pytest.mark.long(part="million")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cluster, "ROWS", SHARD)


@pytest.fixture
def expected(tmp_path: Path) -> str:
    """The sha256 of the features that one process makes."""
    alone = many_chips(tmp_path / "alone.pugeo")
    return sha256_of_features(alone, str(features(job_of(alone), request=REQUEST)["name"]))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return many_chips(tmp_path / "event.pugeo")


@pytest.mark.parametrize(
    "request_",
    [REQUEST, pytest.param({**REQUEST, "layers": (), "maker": "self-supervised", "dates": "post"}, marks=pytest.mark.ci)],
)
def test_parts_of_a_set_get_the_features_that_they_have_in_the_whole(
    request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cluster: what a shard computes, by each way of drawing random numbers in blocks."""
    monkeypatch.setattr(self_supervised, "EPOCHS", (1, 1))
    chips = np.random.default_rng(0).integers(0, 255, (SHARD + 20, 3, 16, 16), np.uint8)
    request = bank.FeatureRequest(**request_)
    device, views = torch.device("cpu"), (bank.View("post", "post", 0, 3),)
    maker = bank.fit_maker(request, chips, generator=torch.Generator().manual_seed(0), device=device, views=views)
    whole = maker.transform(chips, 3, seed=0, device=device)
    part = bank.from_state(maker.state(), maker.facts()).transform(chips[SHARD:], 3, seed=0, device=device, first=SHARD)
    assert part.tobytes() == whole[:, SHARD:].tobytes()
    assert maker.transform(chips[SHARD:], 3, seed=0, device=device).tobytes() != part.tobytes()
    with pytest.raises(ValueError, match="multiple"):
        maker.transform(chips[7:], 3, seed=0, device=device, first=7)


def test_a_job_that_goes_on_after_chips_were_cut_again_learns_from_the_new_ones(
    tmp_path: Path, in_this_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, alone = (many_chips(tmp_path / f"{name}.pugeo", 70) for name in ("event", "alone"))

    def end(*_: object, **__: object) -> None:
        raise JobCancelled

    with monkeypatch.context() as patch:
        patch.setattr("pu_geo.tasks.imagery.features.transform", end)
        with pytest.raises(JobCancelled):
            features(job_of(layout), request=REQUEST, cluster="local:1")
    assert list((layout.jobs / "job" / SHARDS).glob("*.kept.json"))
    chips = np.random.default_rng(1).integers(0, 99, (70, 3, 16, 16), np.uint8)
    for each in (layout, alone):
        write_array(each.chips("set"), chips)
    name = str(features(job_of(layout), request=REQUEST, cluster="local:1")["name"])
    assert name == features(job_of(alone), request=REQUEST)["name"]
    assert sha256_of_features(layout, name) == sha256_of_features(alone, name)
    assert in_this_process


def test_a_maker_is_kept_for_the_same_chips_facts_rows_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = many_chips(tmp_path / "event.pugeo", 4)
    folder, rows = job_of(layout).folder, np.arange(4)
    maker = bank.fit_default(np.random.default_rng(0).integers(0, 255, (4, 3, 16, 16), np.uint8))
    on_cluster.keep_maker(maker, folder, "x", on_cluster.made_of(layout, "set", rows))

    def is_kept(rows: Any = rows) -> bool:
        return on_cluster.kept_maker(folder, "x", on_cluster.made_of(layout, "set", rows)) is not None

    assert is_kept()
    assert not is_kept(rows[1:])
    with monkeypatch.context() as patch:
        patch.setattr(on_cluster, "__version__", "99.0")
        assert not is_kept()
    for path in (layout.chips("set"), layout.chip_facts("set")):
        before = path.read_bytes()
        path.write_bytes(before[:-1] + b" ")
        assert not is_kept()
        path.write_bytes(before)
    assert is_kept()


@pytest.mark.ci
@pytest.mark.slow
def test_features_are_those_of_one_process(layout: Layout, expected: str, cluster: str) -> None:
    found = features(job_of(layout), request=REQUEST, cluster=cluster)
    assert sha256_of_features(layout, str(found["name"])) == expected
    log = of_kind(layout.jobs / "job", "shard")
    assert sorted(event["rows"] for event in log) == [[start, min(start + 64, N)] for start in range(0, N, 64)]  # type: ignore[type-var]
    noted = of_kind(layout.jobs / "job", "cluster")[0]
    assert str(noted["dashboard"]).startswith("http://127.0.0.1:") is (find_spec("bokeh") is not None)
    assert [event["step"] for event in of_kind(layout.jobs / "job", "plan")] == ["computing features"]
    assert not (layout.jobs / "job" / SHARDS).exists()


@on_a_cluster
def test_workers_that_are_killed_while_people_click_lose_running_shards_alone(
    layout: Layout, expected: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = layout.jobs / "job"
    with clicking(layout, [f"b{i}" for i in range(N)]) as clicked:

        def end_all_workers() -> None:
            for pid in pids_of(folder):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: len(clicked) > 3)

        on_first_shard(monkeypatch, end_all_workers)
        found = features(job_of(layout), request=REQUEST, cluster=cluster)
    assert sha256_of_features(layout, str(found["name"])) == expected
    assert {event["pid"] for event in of_kind(folder, "shard")} - {*pids_of(folder)}  # workers that came after
    assert stored_clicks(layout) == clicked


@on_a_cluster
def test_a_job_whose_process_is_killed_is_resumed_with_the_rest(tmp_path: Path, cluster: str) -> None:
    """As a person sees it: the job's process is gone, and `resume` does what is left. Shards have their usual size."""
    n = 9 * 1024
    alone, layout = many_chips(tmp_path / "alone.pugeo", n), many_chips(tmp_path / "event.pugeo", n)
    name = str(features(job_of(alone), request=REQUEST)["name"])
    job_id = jobs.start(layout, "features", {"request": REQUEST, "cluster": cluster})
    folder = layout.jobs / job_id
    wait_for(lambda: bool(of_kind(folder, "shard")) or not jobs.is_alive(folder))
    assert not of_kind(folder, "failed")
    os.kill(int(str(of_kind(folder, "started")[0]["pid"])), signal.SIGKILL)
    wait_for(lambda: not jobs.is_alive(folder))
    before = len(of_kind(folder, "shard"))
    assert jobs.view(folder).state == "interrupted"
    assert 0 < before < 9
    jobs.resume(layout, job_id)
    assert jobs.wait(layout, job_id, seconds=240).state == "done", jobs.worker_log(folder)
    assert sha256_of_features(layout, name) == sha256_of_features(alone, name)
    assert len(of_kind(folder, "shard")) <= 9  # at most those that ran, and their records, as it was killed
    assert of_kind(folder, "kept")


@on_a_cluster
def test_a_scheduler_that_is_killed_ends_the_job_in_words_and_nothing_is_done_twice(
    layout: Layout, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "scheduler.json"
    with of_its_own(file) as scheduler, monkeypatch.context() as patch:
        on_first_shard(patch, scheduler.kill)
        with pytest.raises(JobError, match="scheduler is gone"):
            features(job_of(layout), request=REQUEST, cluster=f"scheduler-file={file}")
    file.unlink()
    with of_its_own(file):
        found = features(job_of(layout), request=REQUEST, cluster=f"scheduler-file={file}")
    assert sha256_of_features(layout, str(found["name"])) == expected
    rows = [tuple(event["rows"]) for event in of_kind(layout.jobs / "job", "shard")]  # type: ignore[arg-type]
    assert len(rows) == len(set(rows))
    assert of_kind(layout.jobs / "job", "kept")


@contextmanager
def of_its_own(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a scheduler as its administrator does, and a worker; yield the scheduler."""
    dask = [sys.executable, "-W", "ignore", "-m", "dask"]
    start = partial(subprocess.Popen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    of_file = ["--scheduler-file", str(file), "--no-dashboard"]
    worker = ["worker", *of_file, "--nthreads", "1", "--death-timeout", "60", "--local-directory", str(file.parent)]
    started = [start([*dask, "scheduler", *of_file, "--host", "127.0.0.1", "--port", "0"])]
    try:
        wait_for(file.is_file)
        started.append(start([*dask, *worker]))
        yield started[0]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
