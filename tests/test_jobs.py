"""Jobs: how they end, what a killed one looks like, and that no two workers share a job."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from pu_geo import jobs, worker
from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.project import events
from pu_geo.project.layout import Layout
from pu_geo.tasks.job import Job

TASK_FILE = """
import os, subprocess, sys, time
from pu_geo.errors import JobCancelled, PuGeoError

def sleep(job, *, seconds, child=False):
    if child:
        left_behind = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (job.folder / "child").write_text(str(left_behind.pid))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job.report(0.5, "sleeping")
        if job.is_cancelled():
            raise JobCancelled
        time.sleep(0.02)
    return {"slept": seconds}
"""


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a task "sleep" to the worker, in this process and in those it starts."""
    (tmp_path / "sleep_task.py").write_text(TASK_FILE)
    launcher = tmp_path / "python"
    launcher.write_text(
        f"#!{sys.executable}\nimport sys, runpy\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "import pu_geo.worker as w\nw.TASKS['sleep'] = 'sleep_task:sleep'\nsys.exit(w.main(sys.argv[4:]))\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(launcher))


def until(condition: object, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def runs(pid: int) -> bool:
    """Tell whether a process exists and is more than an entry that nobody collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def started_pid(folder: Path) -> int:
    assert until(lambda: any(event["event"] == "started" for event in events.read(folder)))
    return int(next(event["pid"] for event in events.read(folder) if event["event"] == "started"))  # type: ignore[call-overload]


@pytest.mark.slow
def test_job_runs_to_its_end_and_tells_its_result(project: Layout, sleeper: None) -> None:
    job_id = jobs.start(project, "sleep", {"seconds": 0.3})
    assert jobs.view(project.jobs / job_id).state == "running"  # from the first moment on, never "interrupted"
    seen = jobs.wait(project, job_id, seconds=30)
    assert (seen.state, seen.progress, dict(seen.result)) == ("done", 1.0, {"slept": 0.3})
    with pytest.raises(JobError, match="is done"):
        jobs.resume(project, job_id)


@pytest.mark.slow
def test_killed_worker_shows_as_interrupted_and_can_be_started_again(project: Layout, sleeper: None) -> None:
    job_id = jobs.start(project, "sleep", {"seconds": 600, "child": True})
    folder = project.jobs / job_id
    pid = started_pid(folder)
    assert until(lambda: jobs.view(folder).progress == 0.5)
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: jobs.view(folder).state == "interrupted")
    child = int((folder / "child").read_text())
    assert runs(child)  # a killed worker does not take its children with it
    spec = (folder / "spec.json").read_text().replace("600", "0.1").replace("true", "false")
    (folder / "spec.json").write_text(spec)
    jobs.resume(project, job_id)
    assert jobs.wait(project, job_id, seconds=30).state == "done"
    assert until(lambda: not runs(child))


@pytest.mark.slow
def test_cancelled_job_says_so_and_a_running_one_cannot_be_started_twice(project: Layout, sleeper: None) -> None:
    job_id = jobs.start(project, "sleep", {"seconds": 600})
    started_pid(project.jobs / job_id)
    with pytest.raises(JobError, match="running already"):
        jobs.resume(project, job_id)
    with pytest.raises(JobError, match="running already"):
        jobs.launch(project.jobs / job_id)
    jobs.cancel(project, job_id)
    assert jobs.wait(project, job_id, seconds=20).state == "cancelled"
    with pytest.raises(JobError, match="not running"):
        jobs.cancel(project, job_id)


@pytest.mark.slow
def test_second_job_that_changes_the_imagery_is_refused(
    project: Layout, sleeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ONE_AT_A_TIME", ("sleep",))
    job_id = jobs.start(project, "sleep", {"seconds": 600})
    with pytest.raises(JobError, match="is changing this project's imagery"):
        jobs.start(project, "sleep", {"seconds": 1})
    jobs.cancel(project, job_id)
    assert jobs.wait(project, job_id, seconds=20).state == "cancelled"


def run_here(project: Layout, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> jobs.JobView:
    """Run a task in this process that reports an epoch and then raises `error`."""

    def task(job: Job) -> dict[str, object]:
        job.epoch({"epoch": 1, "loss": 0.5})
        raise error

    monkeypatch.setattr(sys.modules[__name__], "task_under_test", task, raising=False)
    monkeypatch.setitem(sys.modules, "task_under_test_module", sys.modules[__name__])
    monkeypatch.setitem(worker.TASKS, "sleep", "task_under_test_module:task_under_test")
    folder = jobs.create(project, "sleep", {})
    raised = type(error) if isinstance(error, PuGeoError | JobCancelled) else JobError
    with pytest.raises(raised):
        worker.run(folder)
    return jobs.view(folder)


def test_users_mistake_keeps_problem_and_hint(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run_here(project, monkeypatch, PuGeoError("Too few.", "Click more."))
    assert (seen.state, seen.problem, seen.hint) == ("failed", "Too few.", "Click more.")
    assert seen.curve[0]["loss"] == 0.5


def test_fault_of_ours_keeps_its_traceback_in_the_log_only(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run_here(project, monkeypatch, ZeroDivisionError("division by zero"))
    assert "ZeroDivisionError" in seen.problem
    assert "Traceback" not in seen.problem
    assert "Traceback" in (project.jobs / seen.job_id / "log.txt").read_text()


def test_cancel_inside_a_task_is_no_failure(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_here(project, monkeypatch, JobCancelled()).state == "cancelled"


def test_half_a_line_at_the_end_of_the_log_is_left_out(tmp_path: Path) -> None:
    events.append(tmp_path, "progress", {"share": 0.5})
    with (tmp_path / "events.jsonl").open("a") as log:
        log.write('{"event": "pro')
    assert [event["event"] for event in events.read(tmp_path)] == ["progress"]


def test_an_event_after_half_a_line_is_whole(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"event": "pro')
    events.append(tmp_path, "failed", {"problem": "The disk is full."})
    events.append(tmp_path, "launched")
    assert [event["event"] for event in events.read(tmp_path)] == ["failed", "launched"]
    assert (tmp_path / "events.jsonl").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_no_fault_of_ours(project: Layout, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    seen = run_here(project, monkeypatch, error)
    assert seen.state == "failed"
    assert re.match(rf"The disk that holds {project.folder} is full \(\d+\.\d MB are free\)", seen.problem)
    assert "start this job again" in seen.hint
    assert not (project.jobs / seen.job_id / "room").exists()


def test_a_job_in_a_folder_that_cannot_be_written_is_refused_in_words(project: Layout) -> None:
    project.jobs.write_text("in the way")
    with pytest.raises(JobError, match="cannot be started: "):
        jobs.start(project, "sleep", {})


def test_curve_goes_on_over_launches(project: Layout) -> None:
    folder = jobs.create(project, "sleep", {"seconds": 0})
    events.append(folder, "launched")
    for epoch, loss in ((1, 0.9), (2, 0.8), (3, 0.7)):
        events.append(folder, "epoch", {"stage": "training", "epoch": epoch, "loss": loss})
    events.append(folder, "launched")
    for epoch, loss in ((3, 0.6), (4, 0.5)):  # the last checkpoint was that of epoch 2
        events.append(folder, "epoch", {"stage": "training", "epoch": epoch, "loss": loss})
    assert [(point["epoch"], point["loss"]) for point in jobs.view(folder).curve] == [(1, 0.9), (2, 0.8), (3, 0.6), (4, 0.5)]
