"""Features on a cluster: those of one process by sha256, whoever is killed meanwhile."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scale_parts as parts
import torch
from scale_parts import REQUEST, N, many_chips, of_kind, sha256_of_features, wait_for
from small_parts import job_of

from pu_geo import jobs
from pu_geo.errors import JobError
from pu_geo.features import bank, self_supervised
from pu_geo.scale import features as on_cluster
from pu_geo.scenes.features_job import features
from pu_geo.store.layout import SHARDS, Layout

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


@pytest.mark.ci
@pytest.mark.slow
def test_features_are_those_of_one_process(layout: Layout, expected: str, cluster: str) -> None:
    found = features(job_of(layout), request=REQUEST, cluster=cluster)
    assert sha256_of_features(layout, str(found["name"])) == expected
    log = of_kind(layout.jobs / "job", "shard")
    assert sorted(event["rows"] for event in log) == [[start, min(start + 64, N)] for start in range(0, N, 64)]  # type: ignore[type-var]
    assert not (layout.jobs / "job" / SHARDS).exists()


@on_a_cluster
def test_workers_that_are_killed_while_people_click_lose_running_shards_alone(
    layout: Layout, expected: str, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, pids = layout.jobs / "job", {nanny.pid for nanny in started.workers.values()}
    with parts.clicking(layout, [f"b{i}" for i in range(N)]) as clicked:

        def end_all_workers() -> None:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: len(clicked) > 3)

        parts.on_first_shard(monkeypatch, end_all_workers)
        found = features(job_of(layout), request=REQUEST, cluster=str(started.scheduler_address))
    assert sha256_of_features(layout, str(found["name"])) == expected
    assert {event["pid"] for event in of_kind(folder, "shard")} - pids  # workers that came after
    assert parts.stored_clicks(layout) == clicked


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
    for is_killed in (True, False):
        with of_its_own(tmp_path) as (scheduler, address), monkeypatch.context() as patch:
            if is_killed:
                parts.on_first_shard(patch, scheduler.kill)
                with pytest.raises(JobError, match="scheduler is gone"):
                    features(job_of(layout), request=REQUEST, cluster=address)
            else:
                found = features(job_of(layout), request=REQUEST, cluster=address)
    assert sha256_of_features(layout, str(found["name"])) == expected
    rows = [tuple(event["rows"]) for event in of_kind(layout.jobs / "job", "shard")]  # type: ignore[arg-type]
    assert len(rows) == len(set(rows))
    assert of_kind(layout.jobs / "job", "kept")


@contextmanager
def of_its_own(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a scheduler as its administrator does, and a worker; yield the scheduler and its address."""
    start = partial(subprocess.Popen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    dask, address = [sys.executable, "-W", "ignore", "-m", "dask"], f"tcp://127.0.0.1:{port}"
    started = [
        start([*dask, "scheduler", "--no-dashboard", "--host", "127.0.0.1", "--port", port]),
        start([*dask, "worker", address, "--no-dashboard", "--nthreads", "1", "--local-directory", str(folder)]),
    ]
    try:
        yield started[0], address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
