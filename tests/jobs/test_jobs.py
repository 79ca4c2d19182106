"""Jobs: how they end, what a killed one looks like, and that no two workers share a job."""

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from small_parts import logged_job, small_project, unheld_job

from pu_geo import jobs
from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.jobs import control, device_queue, tasks, worker
from pu_geo.jobs.status import write_spec
from pu_geo.store import events
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

PYTHON = sys.executable
TASK_FILE = """
import os, signal, subprocess, sys, time
from pu_geo.errors import JobCancelled, JobPaused

def sleep(job, *, seconds, child=False, deaf=False, stopped=False):
    if child:
        left_behind = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (job.folder / "child").write_text(str(left_behind.pid))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job.report(0.5, "sleeping")
        if stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        if job.is_cancelled() and not deaf:
            raise JobCancelled
        if job.is_paused():
            raise JobPaused
        time.sleep(0.02)
    return {"slept": seconds}
"""


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Adds tasks to the worker, in this process and in those it starts: "sleep", and "turn", which sleeps in turn."""
    (tmp_path / "sleep_task.py").write_text(TASK_FILE)
    launcher = tmp_path / "python"
    launcher.write_text(
        f"#!{sys.executable}\nimport sys, runpy\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "from pu_geo.jobs import tasks, worker\nsleep = 'sleep_task:sleep', 'Sleep'\n"
        "tasks.TASKS.update(sleep=tasks.Task(*sleep), turn=tasks.Task(*sleep, needs_device=True))\n"
        "sys.exit(worker.main(sys.argv[4:]))\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(launcher))
    yield
    for spec in tmp_path.glob("*/jobs/*/spec.json"):  # of a test that failed
        jobs.kill_orphans(spec.parent)


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


def sleeping(layout: Layout, task: str = "sleep", **more: object) -> Path:
    """Start a job that works for ten minutes; return its folder once it has reported."""
    folder = layout.jobs / jobs.start(layout, task, {"seconds": 600, **more})
    assert until(lambda: jobs.view(folder).progress == 0.5)
    return folder


def be_short(folder: Path) -> None:
    """Let a job that is started again work for a moment, without a child."""
    spec = json.loads((folder / "spec.json").read_text().replace("600", "0.1").replace("true", "false"))
    write_spec(folder, spec["task"], spec["args"], spec["project"])


def cancel(folder: Path) -> None:
    """Cancel a job, which ends as cancelled."""
    jobs.cancel(Layout(folder.parents[1]), folder.name, wait=True)
    assert jobs.view(folder).state == "cancelled"


def unheld(layout: Layout, *ends: str, task: str = "train") -> Path:
    """Return the folder of a job that was launched and no process works for any more."""
    return logged_job(layout, task, *((end, {"problem": "It has not ended."}) for end in ends))


@pytest.mark.slow
@pytest.mark.parametrize("again", [jobs.resume, jobs.retry])
def test_a_killed_worker_is_interrupted_and_started_again_leaves_no_orphan(
    project: Layout, sleeper: None, again: Any
) -> None:
    folder = sleeping(project, child=True)
    os.kill(started_pid(folder), signal.SIGKILL)
    assert until(lambda: jobs.view(folder).state == "interrupted")
    child = int((folder / "child").read_text())
    assert runs(child)  # a killed worker does not take its children with it
    be_short(folder)
    job_id = again(project, folder.name) or folder.name
    assert jobs.wait(project, job_id, seconds=30).state == "done"
    assert [job.job_id for job in jobs.all_jobs(project)] == [job_id]
    assert until(lambda: not runs(child))


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [pytest.param(False, marks=pytest.mark.ci), True])
def test_a_deaf_job_is_ended(project: Layout, sleeper: None, monkeypatch: pytest.MonkeyPatch, stopped: bool) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 1.0)
    folder = sleeping(project, deaf=True, child=True, stopped=stopped)
    pids = [started_pid(folder), int((folder / "child").read_text())]
    if stopped:  # by whoever looks, where the one who cancelled it is gone
        (folder / "cancel").touch()
        jobs.end_overdue(folder)
        assert jobs.view(folder).state == "running", "it still has time to answer"
        os.utime(folder / "cancel", (1, 1))
        jobs.end_overdue(folder)
    else:
        jobs.cancel(project, folder.name)
        assert jobs.view(folder).is_asked_to == "cancel"
    assert until(lambda: jobs.view(folder).state == "cancelled")
    assert until(lambda: not any(runs(pid) for pid in pids))
    assert not any(event["event"] == "cancelled" for event in events.read(folder))  # it could not say so itself


def test_a_process_is_ended_only_with_its_start_and_for_the_folder_it_works_in(project: Layout) -> None:
    """An id may be another process's by now, and a copied project has the log of the original's jobs."""
    folder = unheld(project)
    process = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(600)"])
    begun = psutil.Process(process.pid).create_time()
    facts: dict[str, object] = {"pid": process.pid, "begun": begun, "folder": str(folder)}
    for wrong in ({"begun": begun - 60}, {"begun": None}, {"folder": "/elsewhere"}, facts):
        events.append(folder, "started", {**facts, **wrong})
        assert jobs.kill_orphans(folder) == (wrong is facts)
    assert process.wait(20) == -signal.SIGKILL


@pytest.mark.slow
def test_a_job_is_paused_goes_on_and_has_a_result(project: Layout, sleeper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = jobs.start(project, "sleep", {"seconds": 600})
    assert jobs.view(project.jobs / job_id).state == "running"  # from the first moment on, never "interrupted"
    with pytest.raises(JobError, match="cannot pause"):
        jobs.pause(project, job_id)
    monkeypatch.setitem(tasks.TASKS, "sleep", tasks.Task("", "Sleep", can_pause=True))
    jobs.pause(project, job_id)
    assert jobs.wait(project, job_id, seconds=20).state == "paused"
    with pytest.raises(JobError, match="not running"):
        jobs.pause(project, job_id)
    be_short(project.jobs / job_id)
    jobs.resume(project, job_id)
    seen = jobs.wait(project, job_id, seconds=30)
    assert (seen.state, seen.progress, dict(seen.result)) == ("done", 1.0, {"slept": 0.1})
    with pytest.raises(JobError, match="is done"):
        jobs.resume(project, job_id)


@pytest.mark.slow
def test_jobs_of_two_projects_wait_in_turn(project: Layout, sleeper: None, tmp_path: Path) -> None:
    other = small_project(tmp_path / "other.pugeo")
    first = sleeping(project, "turn")
    folders = []
    for layout in (other, project, other):
        folders.append(layout.jobs / jobs.start(layout, "turn", {"seconds": 600}))
        assert until(lambda: jobs.view(folders[-1]).state == "waiting")
    assert jobs.view(folders[0]).message == f"waiting for turn (job {first.name} of event.pugeo)"
    assert [ticket.folder for ticket in device_queue.line()] == [first, *folders]
    cancel(folders[1])  # gives up while it waits
    os.kill(started_pid(first), signal.SIGKILL)  # a turn ends with whoever has it
    assert until(lambda: jobs.view(folders[0]).state == "running")
    assert until(lambda: jobs.view(folders[2]).message == f"waiting for turn (job {folders[0].name} of other.pugeo)")
    assert jobs.view(folders[2]).state == "waiting"
    cancel(folders[0])
    assert until(lambda: jobs.view(folders[2]).state == "running")
    cancel(folders[2])
    assert device_queue.line() == []


def test_the_device_is_for_one_and_who_gives_up_leaves_the_line(project: Layout) -> None:
    first, second = unheld(project), unheld(project)
    waits: list[list[Path]] = []

    def give_up(before: Sequence[device_queue.QueueEntry]) -> None:
        waits.append([ticket.folder for ticket in before])
        raise JobCancelled

    torn = device_queue.device_folder() / "000000001-0123abcd.ticket"
    torn.parent.mkdir(parents=True, exist_ok=True)
    torn.write_text("")  # the power went while it was written
    with device_queue.acquire_device(first, give_up):
        with pytest.raises(JobCancelled), device_queue.acquire_device(second, give_up):
            pytest.fail("two have the device")
        assert (waits, [ticket.folder for ticket in device_queue.line()]) == ([[first]], [first])
    with device_queue.acquire_device(second, give_up):
        assert [ticket.folder for ticket in device_queue.line()] == [second]
    assert device_queue.line() == []


@pytest.mark.slow
def test_a_job_ends_and_begins_again_never_twice(project: Layout, sleeper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE_S", 0.5)
    folder = sleeping(project)
    for act, words in ((jobs.dismiss, "Cancel it first"), (jobs.resume, "running already"), (jobs.retry, "running already")):
        with pytest.raises(JobError, match=words):
            act(project, folder.name)
    with pytest.raises(JobError, match="running already"):
        jobs.launch(folder)
    cancel(folder)
    with pytest.raises(JobError, match="not running"):
        jobs.cancel(project, folder.name)
    jobs.dismiss(project, folder.name)
    assert jobs.all_jobs(project) == []
    assert [job.job_id for job in jobs.all_jobs(project, with_dismissed=True)] == [folder.name]
    jobs.resume(project, folder.name)
    assert [job.job_id for job in jobs.all_jobs(project)] == [folder.name]
    time.sleep(1.0)
    assert jobs.view(folder).state == "running", "it was cancelled before, not now"
    cancel(folder)
    fresh = jobs.retry(project, folder.name)
    assert [(job.job_id, job.task, job.args) for job in jobs.all_jobs(project)] == [(fresh, "sleep", {"seconds": 600})]
    cancel(project.jobs / fresh)


def test_the_log_of_an_ended_job_is_read_once(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [unheld(project, end) for end in ("done", "failed", "paused")]
    asked: list[str] = []
    read = events.read
    monkeypatch.setattr(events, "read", lambda folder: (asked.append(folder.name), read(folder))[1])
    first = jobs.all_jobs(project)
    assert jobs.all_jobs(project) == first
    assert len(asked) == 3
    events.append(folders[2], "launched")  # as `resume` does
    assert jobs.view(folders[2]).state == "interrupted", "nobody holds its lock"
    events.append(folders[2], "done", {"result": {"run_id": "r"}})
    assert (jobs.view(folders[2]).state, jobs.view(folders[2]).result) == ("done", {"run_id": "r"})


def test_jobs_of_one_second_are_listed_newest_first(project: Layout) -> None:
    made = []
    for _ in range(8):
        folder, lock = jobs.create_held(project, "sleep", {})
        os.close(lock)
        made.append(folder.name)
    assert [job.job_id for job in jobs.all_jobs(project)] == made[::-1]


def test_a_task_that_is_not_there_is_refused(project: Layout) -> None:
    with pytest.raises(JobError, match="This version of PU-Geo has no task 'probe'"):
        worker.run(unheld_job(project, "probe", {"into": "speed.json"}))


def test_resume_lets_no_two_change_the_imagery_nor_do_one_twice(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = unheld(project, task="prepare"), unheld(project)
    align, lock = jobs.create_held(project, "align", {})
    assert jobs.view(align).state == "running"
    for again in (lambda: jobs.resume(project, first.name), lambda: jobs.create_held(project, "prepare", {})):
        with pytest.raises(JobError, match="is changing this project's imagery"):
            again()
    os.close(lock)

    def late(of: Path) -> int:
        events.append(of, "done", {"result": {}})  # it ended meanwhile
        return jobs.take_lock(of)

    monkeypatch.setattr(sys.modules["pu_geo.jobs.start"], "take_lock", late)
    with pytest.raises(JobError, match="is done"):
        jobs.resume(project, second.name)
    assert not jobs.is_alive(second)


def test_who_looks_whether_a_job_lives_does_not_keep_it_from_starting(project: Layout) -> None:
    folder = unheld_job(project, "train", {})
    (folder / "alive.lock").touch()
    looking = os.open(folder / "alive.lock", os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looking]).start()
    os.close(jobs.take_lock(folder))


def ago(seconds: float, event: str = "progress", **values: object) -> dict[str, object]:
    """Return an event of so many seconds ago."""
    return {"at": (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(), "event": event, **values}


LAUNCHED = [("launched", 500, {}), ("progress", 100, {"share": 0.02})]
TENTH, FIFTH = ("epoch", 60, {"progress": 0.1}), ("epoch", 10, {"progress": 0.2})
TURN = [("launched", 500, {}), ("turn", 100, {}), ("progress", 90, {"share": 0.5}), ("progress", 10, {"share": 0.7})]


@pytest.mark.parametrize(
    ("log", "seconds", "left"),
    [
        (TURN, 100, 110),  # went on at one half: 0.2 in 80 s, so 0.3 in 120 s, of which 10 s are over
        ([*LAUNCHED, TENTH], 500, 300),  # the first of ten epochs took 40 s, so nine take 360 s, of which 60 s are over
        ([*LAUNCHED, TENTH, FIFTH], 500, 350),  # 0.2 in 90 s, so 0.8 in 360 s, of which 10 s are over
    ],
)
def test_time_left_is_by_the_pace_since_the_turn_and_epochs(project: Layout, log: Any, seconds: float, left: float) -> None:
    folder = unheld_job(project, "train", {})
    rows = [ago(900, "launched"), *(ago(at, event, epoch=n, **values) for n, (event, at, values) in enumerate(log))]
    (folder / events.FILE_NAME).write_text("".join(json.dumps(row) + "\n" for row in rows))
    lock = jobs.take_lock(folder)
    seen = jobs.view(folder)
    os.close(lock)
    assert len(seen.curve) == sum(event == "epoch" for event, _, _ in log)  # over all launches
    assert (seen.seconds, seen.seconds_left) == (pytest.approx(seconds, abs=5), pytest.approx(left, abs=5))


def test_story_and_prints_are_told_to_who_asks(project: Layout) -> None:
    folder = unheld_job(project, "train", {})
    assert jobs.worker_log(folder) == ""
    events.append(folder, "epoch", {"stage": "training", "epoch": 3, "loss": 0.51234, "alarms": []})
    (folder / "log.txt").write_bytes(b"x" * (1 << 17) + b"the end")
    assert jobs.event_lines(folder)[-1].endswith("epoch: stage training, epoch 3, loss 0.5123")
    assert jobs.worker_log(folder).endswith("the end")
    assert len(jobs.worker_log(folder)) == 1 << 16


def run_here(project: Layout, monkeypatch: pytest.MonkeyPatch, error: Exception) -> jobs.JobView:
    """Run a task in this process that reports an epoch and then raises `error`."""

    def task(job: Job) -> dict[str, object]:
        job.epoch({"epoch": 1, "loss": 0.5})
        raise error

    monkeypatch.setitem(sys.modules, "module_under_test", SimpleNamespace(task=task))
    monkeypatch.setitem(tasks.TASKS, "sleep", tasks.Task("module_under_test:task", "Sleep"))
    folder = unheld_job(project, "sleep", {})
    with pytest.raises(type(error) if isinstance(error, PuGeoError) else JobError):
        worker.run(folder)
    return jobs.view(folder)


NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
FULL = r"The disk that holds .*event.pugeo is full \(0\.3 MB are free\)"
MEMORY = r"The job needs more memory than there is \(.*allocate 10.*; \d+\.\d GB are free\)"


@pytest.mark.parametrize(
    ("error", "problem", "hint"),
    [
        (PuGeoError("Too few.", "Click more."), "Too few", "Click more"),
        (NO_SPACE, FULL, "start this job again"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), FULL, "start this job again"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20 MiB."), r"graphics card has too little .* 20 MiB", "card"),
        (MemoryError("Unable to allocate 10.1 GiB for an array with shape (90000000, 40, 3)"), MEMORY, "start it again"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: tried to allocate 108 bytes."), MEMORY, "start it again"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError", "report it"),
    ],
)
def test_what_stops_a_job_is_kept_in_words(
    project: Layout, monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str, hint: str
) -> None:
    monkeypatch.setattr(worker.shutil, "disk_usage", lambda path: SimpleNamespace(free=300_000))
    seen = run_here(project, monkeypatch, error)
    assert (seen.state, seen.curve[0]["loss"]) == ("failed", 0.5)
    assert re.search(problem, seen.problem)
    assert hint in seen.hint
    assert "Traceback" not in seen.problem
    if hint == "report it":
        assert "Traceback" in (project.jobs / seen.job_id / "log.txt").read_text()
    assert not (project.jobs / seen.job_id / "room").exists()


def test_half_a_line_at_the_end_of_the_log_is_left_out_and_an_event_after_it_is_whole(tmp_path: Path) -> None:
    events.append(tmp_path, "progress", {"share": 0.5})
    with (tmp_path / "events.jsonl").open("a") as log:
        log.write('{"event": "pro')
    assert [event["event"] for event in events.read(tmp_path)] == ["progress"]
    events.append(tmp_path, "failed", {"problem": "The disk is full."})
    events.append(tmp_path, "launched")
    assert [event["event"] for event in events.read(tmp_path)] == ["progress", "failed", "launched"]
    assert (tmp_path / "events.jsonl").read_bytes().count(b"\n") == 4


def test_a_full_disk_that_is_another_one_is_named(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path("/dev/shm")
    if not other.exists() or other.stat().st_dev == project.folder.stat().st_dev:
        pytest.skip("there is no other disk here")
    seen = run_here(project, monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/dev/shm/none/heat.tif"))
    assert seen.problem.startswith("The disk that holds /dev/shm is full, so")


def test_a_disk_with_room_is_not_called_full(project: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not worker._is_full(tmp_path / "gone", OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    assert worker._full_disk(tmp_path / "gone" / "jobs" / "1", NO_SPACE).kind == "disk_full"
    monkeypatch.setattr(worker.shutil, "disk_usage", lambda path: SimpleNamespace(free=67_320_000_000))
    seen = run_here(project, monkeypatch, NO_SPACE)
    assert "is full (" not in seen.problem
    assert f"The one that holds {project.folder} has 67,320 MB free" in seen.problem


def test_too_little_memory_to_load_torch_is_named(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> None:
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")

    monkeypatch.setattr(worker.importlib, "import_module", import_module)
    folder = unheld_job(project, "rank", {})
    with pytest.raises(JobError, match=r"not enough memory to load torch .*: \d+\.\d GB are free") as caught:
        worker.run(folder)
    assert caught.value.kind == "memory"


def test_a_job_in_a_folder_that_cannot_be_written_is_refused_in_words(project: Layout) -> None:
    project.jobs.write_text("in the way")
    with pytest.raises(PuGeoError, match="a folder belongs there"):
        jobs.start(project, "sleep", {})
