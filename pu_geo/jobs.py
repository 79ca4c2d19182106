"""Background jobs: a folder each, under `jobs/` of the project, and a worker process that outlives tab and server.

A job's state is never stored. It is worked out from two things on disk: the events that its worker appended, and an
operating-system lock on `alive.lock`. The starter takes that lock and hands it to the worker, open; so there is no
moment at which a starting worker could be taken for a dead one, and the kernel frees it however the worker ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pu_geo.errors import JobError
from pu_geo.project import events
from pu_geo.project.layout import Layout, checked_id, write_json
from pu_geo.project.store import now

State = Literal["running", "done", "failed", "cancelled", "interrupted"]
ONE_AT_A_TIME = ("prepare", "add_scenes", "add_xbd", "add_footprints", "add_aoi", "add_grid", "align", "chip")
LOCK_FD_VARIABLE = "PU_GEO_LOCK_FD"
JOB_VARIABLE = "PU_GEO_JOB"
_ENDS: dict[str, State] = {"done": "done", "failed": "failed", "cancelled": "cancelled"}


@dataclass(frozen=True)
class JobView:
    """What is known about a job right now.

    Attributes:
        state: "interrupted" means that its worker is gone without having said why.
        progress: share done, 0..1, or None before the first report.
        message: what it is doing, in words.
        curve: the reports of a training, oldest first: {"epoch", "loss", ...}.
        result: what the task returned, once done.
        problem, hint: why it failed.
        started_at, ended_at: RFC 3339; `ended_at` is None while it runs and for an interrupted one.
    """

    job_id: str
    task: str
    args: Mapping[str, Any]
    state: State
    progress: float | None
    message: str
    started_at: str
    ended_at: str | None
    curve: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    hint: str = ""


@contextmanager
def _told() -> Iterator[None]:
    """Say in words why a job cannot be started: a full disk, or a folder that may not be written to."""
    try:
        yield
    except OSError as error:
        raise JobError(
            f"The job cannot be started: {error.strerror}.",
            "See that the project's disk has room and that its folder may be written to; then try again.",
            kind="disk",
        ) from error


@_told()
def create(layout: Layout, task: str, args: Mapping[str, Any]) -> Path:
    """Write a new job's folder and return it; nothing runs yet.

    Raises:
        JobError: if the task changes what the project is made of and another such job is running, or the disk is full.
    """
    busy = [job.job_id for job in all_jobs(layout) if job.state == "running" and job.task in ONE_AT_A_TIME]
    if task in ONE_AT_A_TIME and busy:
        raise JobError(
            f"Job {busy[0]} is changing this project's imagery already.", "Wait for it, or cancel it first.", kind="running"
        )
    stamp = now()[:19].replace("-", "").replace(":", "").replace("T", "-")
    folder = layout.jobs / f"{stamp}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    write_json(folder / "spec.json", {"task": task, "args": dict(args), "project": str(layout.folder)})
    return folder


def start(layout: Layout, task: str, args: Mapping[str, Any]) -> str:
    """Start a task in the background and return the job's id."""
    folder = create(layout, task, args)
    launch(folder)
    return folder.name


@_told()
def launch(folder: Path) -> None:
    """Start the worker of a job that is not running.

    Raises:
        JobError: if its worker is alive, or the disk is full.
    """
    lock = take_lock(folder)
    try:
        (folder / "cancel").unlink(missing_ok=True)
        events.append(folder, "launched")
        environment = {**os.environ, LOCK_FD_VARIABLE: str(lock), JOB_VARIABLE: str(folder)}
        with (folder / "log.txt").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "pu_geo.worker", str(folder)],  # -P: no module from wherever we are
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(lock,),
                start_new_session=True,
            )
    finally:
        os.close(lock)
    threading.Thread(target=worker.wait, daemon=True).start()  # so that no zombie stays behind


def take_lock(folder: Path) -> int:
    """Take a job's lock and return its file descriptor; it is freed when the last holder closes it or dies.

    Raises:
        JobError: if somebody holds it.
    """
    descriptor = os.open(folder / "alive.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise JobError(
            f"Job {folder.name} is running already.", "Wait for it, or cancel it first.", kind="running"
        ) from error
    return descriptor


def is_alive(folder: Path) -> bool:
    """Tell whether a worker holds the lock. Asks for a shared lock, so that two who ask do not see each other."""
    try:
        descriptor = os.open(folder / "alive.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def view(folder: Path) -> JobView:
    """Work out how a job stands."""
    alive = is_alive(folder)  # before the log is read: a worker logs its end first and frees the lock then
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    log = events.read(folder)
    first = max((i for i, event in enumerate(log) if event["event"] == "launched"), default=0)
    current: list[dict[str, Any]] = log[first:]
    end = next((event for event in current if event["event"] in _ENDS), None)
    reports = [event for event in current if event["event"] == "progress"]
    last: Mapping[str, Any] = reports[-1] if reports else {}
    state: State = _ENDS[end["event"]] if end else "running" if alive else "interrupted"
    return JobView(
        job_id=folder.name,
        task=spec["task"],
        args=spec["args"],
        state=state,
        progress=1.0 if state == "done" else last.get("share"),
        message=str(last.get("message", "starting" if alive else "")),
        started_at=str(current[0]["at"]) if current else "",
        ended_at=str(end["at"]) if end else None,
        curve=_curve(log),
        result=end.get("result", {}) if end else {},
        problem=str(end.get("problem", "")) if end else "",
        hint=str(end.get("hint", "")) if end else "",
    )


def _curve(log: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return every epoch's report, over all launches: one that goes on after a checkpoint does not report what is done."""
    epochs = {(event.get("stage"), event.get("epoch")): event for event in log if event["event"] == "epoch"}
    return tuple(epochs.values())


def folder_of(layout: Layout, job_id: str) -> Path:
    """Return a job's folder.

    Raises:
        JobError: if there is no such job.
    """
    folder = layout.jobs / checked_id(job_id)
    if not (folder / "spec.json").is_file():
        raise JobError(f"This project has no job {job_id!r}.", "`pu-geo jobs` lists them.")
    return folder


def all_jobs(layout: Layout) -> list[JobView]:
    """Return every job of a project, newest first."""
    if not layout.jobs.is_dir():
        return []
    folders = sorted((path.parent for path in layout.jobs.glob("*/spec.json")), reverse=True)
    return [view(folder) for folder in folders]


def cancel(layout: Layout, job_id: str) -> None:
    """Ask a job to stop; its worker looks once a batch.

    Raises:
        JobError: if it is not running.
    """
    folder = folder_of(layout, job_id)
    if view(folder).state != "running":  # its worker may still be alive, on its way out
        raise JobError(f"Job {job_id} is not running.", "There is nothing to cancel.")
    (folder / "cancel").touch()


def resume(layout: Layout, job_id: str) -> None:
    """Start an interrupted, failed or cancelled job again: a training after its last checkpoint, others from their beginning.

    Raises:
        JobError: if it is running, or done.
    """
    folder = folder_of(layout, job_id)
    if view(folder).state == "done":
        raise JobError(f"Job {job_id} is done.", "Start a new one if you want another result.")
    if is_alive(folder):
        raise JobError(f"Job {job_id} is running already.", "Wait for it, or cancel it first.", kind="running")
    end_leftovers(folder)
    launch(folder)


def end_leftovers(folder: Path) -> int:
    """Kill processes that a dead worker left behind, found by the mark in their environment; return how many.

    A process id may belong to somebody else by now, so ids are never trusted. Works where /proc exists (Linux).
    """
    mark = f"{JOB_VARIABLE}={folder}".encode()
    killed = 0
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                os.kill(int(entry.parent.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    return killed


def wait(layout: Layout, job_id: str, *, seconds: float, on_change: Callable[[JobView], None] | None = None) -> JobView:
    """Wait until a job has ended, at most `seconds`; return its last view."""
    folder = folder_of(layout, job_id)
    until = time.monotonic() + seconds
    while (seen := view(folder)).state == "running" and time.monotonic() < until:
        if on_change:
            on_change(seen)
        time.sleep(0.1)
    return seen
