"""Shards: what is kept of them, what counts as finished, and which workers may do them."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scale_parts import of_kind
from small_parts import need_extra

from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.project.layout import SHARDS
from pu_geo.scale import cluster as clusters
from pu_geo.scale import shards
from pu_geo.ui.components import texts

VERSIONS = clusters.about(Path())["versions"]
NOWHERE = "tcp://127.0.0.1:1"  # nothing listens there


def squares(spec: Mapping[str, Any], start: int, stop: int, is_cancelled: Callable[[], bool]) -> shards.Arrays:
    if is_cancelled():
        raise JobCancelled
    if spec.get("refuses"):
        raise PuGeoError("No squares.", "Use circles.", kind="squares")
    if spec.get("removes"):
        shutil.rmtree(spec["removes"])
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


def done(job_folder: Path, plan: list[shards.Shard], work: shards.Work = squares) -> list[dict[str, Any]]:
    """Do shards as a worker does them, in this process."""
    folder = shards.folder_of(job_folder)
    clusters.write_json(folder / clusters.TOKEN, {"token": "t"})
    needs = {**clusters.about(folder), "token": "t"}
    return [
        shards.do(work, folder, needs, {"name": each.name, "start": each.start, "stop": each.stop, "spec": each.spec})
        for each in plan
    ]


def gathered(job_folder: Path, plan: list[shards.Shard], cluster: str = NOWHERE) -> list[int]:
    """Run a plan and return what it gave, in the order of rows."""
    found: dict[int, list[int]] = {}

    def take(shard: shards.Shard, arrays: shards.Arrays) -> None:
        found[shard.start] = arrays["square"].tolist()

    with clusters.of_job(cluster, job_folder) as on:
        assert on is not None
        shards.run(
            squares, plan, take, step="squaring", cluster=on, report=lambda _: None, is_cancelled=(job_folder / "cancel").exists
        )  # fmt: skip
    return [value for start in sorted(found) for value in found[start]]


def test_finished_shards_are_read_wherever_the_project_is_now_and_nobody_does_them_again(
    job_folder: Path, tmp_path: Path
) -> None:
    plan = shards.planned(10, 4, {"power": 2})
    assert [(each.start, each.stop) for each in plan] == [(0, 4), (4, 8), (8, 10)]
    assert len(done(job_folder, plan)) == 3
    assert gathered(job_folder, plan) == [n**2 for n in range(10)]
    assert not of_kind(job_folder, "note")
    for other in (shards.planned(10, 4, {"power": 3}), shards.planned(11, 4, {"power": 2})):
        assert shards.finished(job_folder / SHARDS, other[-1], VERSIONS) is None
    (job_folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        gathered(job_folder, plan)
    (job_folder / "cancel").unlink()
    moved = tmp_path / "moved.pugeo"
    shutil.move(job_folder.parents[1], moved)
    job_folder = moved / "jobs" / "job"
    assert gathered(job_folder, plan) == [n**2 for n in range(10)]
    assert of_kind(job_folder, "plan")[-1] == {**of_kind(job_folder, "plan")[-1], "step": "squaring", "shards": 3, "kept": 3}
    shards.remove(job_folder)
    assert not (job_folder / SHARDS).exists()


@pytest.mark.parametrize("harm", ["cut", "other", "gone", "no record"])
def test_a_shard_whose_file_is_not_what_was_written_is_not_finished(job_folder: Path, harm: str) -> None:
    plan, folder = shards.planned(4, 4, {"power": 2}), job_folder / SHARDS
    (record,) = done(job_folder, plan)
    path = folder / f"{plan[0].name}.npz"
    assert shards.finished(folder, plan[0], VERSIONS) is not None
    newer = {**record["versions"], "GDAL": "99.0"}
    assert shards.finished(folder, plan[0], newer) is None, "parts of two versions are not put together"
    content = path.read_bytes()
    if harm == "no record":
        path.with_suffix(".json").unlink()
    elif harm == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if harm == "cut" else content[:-9] + bytes(9))
    assert shards.finished(folder, plan[0], VERSIONS) is None


def test_the_log_says_where_a_finished_shard_was_made_by_another_processor(job_folder: Path) -> None:
    plan = shards.planned(8, 4, {"power": 2})
    done(job_folder, plan)
    for path in (job_folder / SHARDS).glob("0*.json"):
        clusters.write_json(path, {**json.loads(path.read_text()), "host": "node-7", "numbers": "cpu (another), float32"})
    assert gathered(job_folder, plan) == [n**2 for n in range(8)]
    (note,) = of_kind(job_folder, "note")
    assert "node-7 computes with cpu (another)" in str(note["message"])


def test_a_worker_returns_a_refusal_and_a_cancel_in_place_of_raising(job_folder: Path) -> None:
    """What is raised on a worker is tried again; these are no accidents."""
    refusing = done(job_folder, shards.planned(4, 4, {"power": 2, "refuses": True}))
    assert refusing == [{"refused": ["No squares.", "Use circles.", "squares"]}]
    (job_folder / "cancel").touch()
    assert done(job_folder, shards.planned(4, 4, {"power": 2})) == [{"cancelled": True}]
    assert not list((job_folder / SHARDS).glob("0*"))
    (job_folder / "cancel").unlink()
    (refused,) = done(job_folder, shards.planned(4, 4, {"power": 2, "removes": str(job_folder)}))
    assert "does not find the folder" in refused["refused"][0]
    assert not job_folder.exists(), "else a project that was removed would have a folder again, and its name would be taken"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("local:1", clusters.Address("local", 1)),
        ("local:256", clusters.Address("local", 256)),
        ("local:2,memory=4GB", clusters.Address("local", 2, memory_bytes=4 * 10**9)),
        ("local:2,memory=2000MB", clusters.Address("local", 2, memory_bytes=2 * 10**9)),
        ("tls://head-node:8786", clusters.Address("remote", 0, "tls://head-node:8786")),
        ("scheduler-file=/nfs/s.json", clusters.Address("file", 0, "/nfs/s.json")),
    ],
)
def test_a_cluster_is_named_in_three_ways(text: str, found: clusters.Address) -> None:
    assert clusters.parse(text) == found


NO_CLUSTERS = ["local", "local:0", "local:257", "http://a:1", "tcp://a", "scheduler-file="]
BAD_LIMITS = [f"local:2,{part}" for part in ("", "memory=", "memory=4", "memory=1999MB", "memory=-4GB", "disk=4GB")]


@pytest.mark.parametrize("text", [*NO_CLUSTERS, *BAD_LIMITS])
def test_another_name_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="2GB at least" if "," in text else "names no cluster|asks for") as refused:
        clusters.checked(text)
    assert refused.value.hint.startswith("Write ")
    assert "local:" in refused.value.hint


def test_the_file_of_a_scheduler_is_kept_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert clusters.checked("scheduler-file=s.json") == f"scheduler-file={tmp_path / 's.json'}"
    assert clusters.checked("") == ""


def connect(name: str, folder: Path) -> None:
    with ExitStack() as stack:
        clusters.JobCluster(name, folder, stack).client(folder, {}, lambda: False)


def test_a_job_names_what_it_does_before_it_starts_workers_or_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    asked: list[tuple[str, object, object]] = []

    def noted(**options: object) -> None:
        stage = str(of_kind(tmp_path, "stage")[-1]["message"])
        asked.append((stage, options.get("n_workers"), options.get("memory_limit")))
        raise JobCancelled  # this is all that is asked of it

    monkeypatch.setattr(distributed, "LocalCluster", noted)
    monkeypatch.setattr(distributed, "Client", noted)
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 16 * 10**9)
    for name in ("local:1", "local:2,memory=2500MB", NOWHERE):
        with pytest.raises(JobCancelled):
            connect(name, tmp_path)
    assert asked == [
        ("starting 1 worker", 1, 8 * 10**9),  # an equal share is left to the job itself
        ("starting 2 workers", 2, 25 * 10**8),
        (clusters.CONNECTING, None, None),
    ]
    assert clusters.memory_of(clusters.parse("local:200")) == clusters.LEAST_MEMORY


def test_a_job_waits_for_workers_as_long_as_nobody_cancels_it(tmp_path: Path) -> None:
    """Its card says for what: those of a batch system come once it has room for them."""
    client = SimpleNamespace(status="running", answers=[{"w": 1}, {}, {}])
    client.nthreads = lambda: client.answers.pop()
    with ExitStack() as stack:
        job = clusters.JobCluster(NOWHERE, tmp_path, stack)
        clusters._wait_for_a_worker(client, job, lambda: False)
        assert [event["message"] for event in of_kind(tmp_path, "stage")] == [clusters.NO_WORKERS, clusters.WORKERS_CAME]
        client.nthreads = dict
        with pytest.raises(JobCancelled):
            clusters._wait_for_a_worker(client, job, lambda: True)
        client.nthreads = lambda: setattr(client, "status", "closed")
        with pytest.raises(JobError, match="scheduler is gone"):
            clusters._wait_for_a_worker(client, job, lambda: False)


@pytest.mark.parametrize("error", [TimeoutError(), RuntimeError("Nanny failed to start.")])
def test_workers_that_do_not_start_are_an_error_in_words(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    def started(**_: object) -> None:
        raise error

    monkeypatch.setattr(distributed, "LocalCluster", started)
    with pytest.raises(JobError, match="The workers of local:2 did not start"):
        connect("local:2", tmp_path)


def test_workers_that_need_more_memory_than_there_is_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any
) -> None:
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 9 * 10**9)
    monkeypatch.setattr(distributed, "LocalCluster", lambda **_: pytest.fail("it was started"))
    for name, gb, most in (("local:5", 10, "local:4"), ("local:3,memory=4GB", 12, "local:2")):
        for asked in (clusters.checked, lambda text: connect(text, tmp_path)):
            with pytest.raises(JobError, match=f"need {gb} GB; this computer has 9 GB") as refused:
                asked(name)
            assert most in refused.value.hint


@pytest.mark.parametrize("has_bokeh", [True, False])
def test_dasks_page_is_named_only_where_the_scheduler_has_bokeh(has_bokeh: bool, job_folder: Path) -> None:
    """Without it the page is one sentence: that Dask needs bokeh."""

    def run_on_scheduler(function: Callable[[str], str], name: str) -> str:
        assert (function.__name__, name) == ("version", "bokeh")
        if not has_bokeh:
            raise PackageNotFoundError(name)
        return "3.8.0"

    client = SimpleNamespace(dashboard_link="http://127.0.0.1:8787/status", run_on_scheduler=run_on_scheduler)
    clusters._note(client, job_folder / SHARDS, [])
    (noted,) = of_kind(job_folder, "cluster")
    assert noted["dashboard"] == (client.dashboard_link if has_bokeh else "")


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
    with ExitStack() as stack:
        cluster = clusters.JobCluster(NOWHERE, job_folder, stack)
        found = list(shards._completed(client, cluster, squares, job_folder, {}, plan, lambda: False))
    assert found == [(plan[0], record)]


def test_a_worker_that_cannot_do_the_work_is_named(job_folder: Path) -> None:
    folder = shards.folder_of(job_folder)
    (folder / clusters.TOKEN).write_text(json.dumps({"token": "t"}))
    here: dict[str, Any] = clusters.about(folder)
    assert clusters.misfit(here, folder, "t", here) is None
    assert clusters.about(job_folder.parent)["token"] == ""  # where there is no such file
    older = {**here, "versions": {**here["versions"], "pu_geo": "0.0.1"}}
    for worker, token, words in (
        (older, "t", f"other versions: pu-geo 0.0.1 there, {here['versions']['pu_geo']} here"),
        (here, "another", "does not find the folder"),
        ({**here, "may_write": False}, "t", "may not write"),
    ):
        problem, hint = clusters.misfit(worker, folder, token, here) or ("", "")
        assert words in problem
        assert hint


@pytest.mark.parametrize(
    ("cluster", "words", "hint"),
    [
        (NOWHERE, "does not answer", "Then start the job again."),
        ("tls://127.0.0.1:1", "does not answer", "certificates"),
        ("scheduler-file=/nowhere/s.json", r"s\.json is not there", "dask scheduler"),
    ],
)
def test_a_scheduler_that_does_not_answer_or_has_no_file_is_a_refusal(
    cluster: str, words: str, hint: str, job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_extra("scale")
    monkeypatch.setattr(clusters, "CONNECT_S", 0.2)
    with pytest.raises(JobError, match=words) as caught:
        gathered(job_folder, shards.planned(4, 4, {"power": 2}), cluster)
    assert hint in caught.value.hint


@pytest.mark.parametrize("content", ["[]", "no JSON", '{"address": 4}', "[" * 100_000])
def test_a_file_that_no_scheduler_wrote_is_a_refusal(job_folder: Path, content: str) -> None:
    need_extra("scale")
    file = job_folder / "s.json"
    file.write_text(content)
    with pytest.raises(JobError, match=r"s\.json names no address"):
        gathered(job_folder, shards.planned(4, 4, {"power": 2}), f"scheduler-file={file}")


def test_a_failed_job_names_what_the_card_and_the_command_line_offer(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledWorker(Exception):
        pass

    monkeypatch.setattr(shards, "_VISIBLE_S", 0.0)
    for fail in (
        lambda: shards._record(SimpleNamespace(status="cancelled")),
        lambda: shards._record(SimpleNamespace(status="error", exception=KilledWorker)),
        lambda: shards._fresh(job_folder, shards.Shard(0, 4, {}), {"sha256": "0" * 64, "host": "node-1"}),
    ):
        with pytest.raises(JobError) as caught:
            fail()
        for found in (texts.START_AGAIN, "pu-geo jobs P.pugeo resume ID"):
            assert found in caught.value.hint


def test_a_missing_extra_is_named(job_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(JobError, match="not installed") as refused:
        gathered(job_folder, shards.planned(4, 4, {"power": 2}))
    assert refused.value.hint == 'pip install "pu-geo[scale]"'
