"""The start of jobs: a folder each under `jobs/` of the project, its lock, and its worker process."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pu_geo.errors import JobError
from pu_geo.files import APPENDED, make_folder, opened, remove_path, touch
from pu_geo.jobs import tasks
from pu_geo.jobs.actions import Action
from pu_geo.jobs.control import JOB_VARIABLE, PATIENCE_S, clear_requests, kill_orphans, report_io_errors, wait_for_end
from pu_geo.jobs.status import DISMISSED, LOCK, JobView, all_jobs, folder_of, signed_spec, view, write_spec
from pu_geo.store import events, locks
from pu_geo.store.layout import Layout

LOCK_FD_VARIABLE = "PU_GEO_LOCK_FD"


def spec_of(layout: Layout, task: str | Action, args: Mapping[str, Any] | None = None) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a task and its arguments. Raises PuGeoError for what an action asks and the project lacks."""
    return (task.task.name, task.args(layout)) if isinstance(task, Action) else (task, args or {})


@report_io_errors()
def create_held(layout: Layout, task: str | Action, args: Mapping[str, Any] | None = None) -> tuple[Path, int]:
    """Write a new job's folder and take its lock; of two that start at once, one finds the other active.

    Args:
        task: an action, or the name of a task.
        args: of a task that is named.

    Returns:
        Its folder, and the file descriptor of its lock.

    Raises:
        JobError: if the task changes what the project is made of and another such job is active, or the disk is full.
    """
    name, args = spec_of(layout, task, args)
    with locks.one_at_a_time(layout.jobs / locks.STARTING):
        _require_free(layout, name)
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"  # with microseconds: names sort by start
        folder = layout.jobs / f"{stamp}-{secrets.token_hex(3)}"
        make_folder(folder)
        lock = take_lock(folder)
        # The worker finds the project by the job's folder, also after both were moved; its name is for people.
        write_spec(folder, name, args, layout.folder.name)
    return folder, lock  # visible since its spec is there


@contextmanager
def none_starting(layout: Layout) -> Iterator[None]:
    """Let no job of a project start meanwhile: whoever starts one waits."""
    with locks.one_at_a_time(layout.jobs / locks.STARTING):
        yield


def exclusive_jobs(layout: Layout) -> list[JobView]:
    """Return the jobs that change what the project is made of, newest first."""
    return [job for job in all_jobs(layout) if tasks.of(job.task).is_exclusive]


def _require_free(layout: Layout, task: str) -> None:
    if not tasks.of(task).is_exclusive:
        return
    if busy := next((job.job_id for job in exclusive_jobs(layout) if job.is_active), ""):
        raise JobError(
            f"Job {busy} is changing this project's imagery already.", "Wait for it, or cancel it first.", kind="running"
        )


def start(layout: Layout, task: str | Action, args: Mapping[str, Any] | None = None) -> str:
    """Start an action, or a task by its name, in the background, and return the job's id.

    Raises:
        JobError: see `create_held`.
    """
    folder, lock = create_held(layout, task, args)
    launch(folder, lock)
    return folder.name


@report_io_errors()
def launch(folder: Path, lock: int | None = None) -> None:
    """Start the worker of a job that is not active.

    Args:
        lock: file descriptor of the job's lock, where it was taken already; closed here, the worker has its own.

    Raises:
        JobError: if its worker is alive, or the disk is full.
    """
    lock = take_lock(folder) if lock is None else lock
    try:
        events.append(folder, "launched")
        environment = {**os.environ, LOCK_FD_VARIABLE: str(lock), JOB_VARIABLE: str(folder)}
        with os.fdopen(opened(folder / "log.txt", APPENDED), "ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "pu_geo.jobs.worker", str(folder)],  # -P: no module from wherever we are
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


@report_io_errors()
def take_lock(folder: Path) -> int:
    """Lock a job and return the lock's file descriptor; it is freed when the last holder closes it or dies.

    Raises:
        JobError: if somebody holds it.
    """
    descriptor = locks.take(folder / LOCK)
    if descriptor is None:
        raise JobError(f"Job {folder.name} is running already.", "Wait for it, or cancel it first.", kind="running")
    return descriptor


def resume(layout: Layout, job_id: str) -> None:
    """Start a job that has ended otherwise than well again: what can pause after its last checkpoint, others from their
    beginning.

    Raises:
        JobError: if it is active, or done, or changes what the project is made of while another such job is active.
    """
    folder = _that_can_start(layout, job_id)
    _require_undone(folder)
    signed_spec(folder)
    with report_io_errors(), locks.one_at_a_time(layout.jobs / locks.STARTING):
        _require_free(layout, view(folder).task)
        lock = take_lock(folder)  # of two who resume at once, one goes on from here
    try:
        _require_undone(folder)
        kill_orphans(folder)
        clear_requests(folder)
    except BaseException:
        os.close(lock)
        raise
    launch(folder, lock)


def _that_can_start(layout: Layout, job_id: str) -> Path:
    """Return the folder of a job that may be started again, once its worker is gone."""
    folder = folder_of(layout, job_id)
    if not view(folder).is_active:
        wait_for_end(folder, PATIENCE_S)
    return folder


def _require_undone(folder: Path) -> None:
    if view(folder).state == "done":
        raise JobError(f"Job {folder.name} is done.", "Start a new one if you want another result.")


def retry(layout: Layout, job_id: str) -> str:
    """Start a new job that does the same from the beginning, and dismiss the old one; return the new one's id.

    Raises:
        JobError: if it is active; see also `create_held`.
    """
    folder = _that_can_start(layout, job_id)
    signed_spec(folder)
    lock = take_lock(folder)  # nobody resumes it meanwhile
    try:
        kill_orphans(folder)
        job = view(folder)
        touch(folder / DISMISSED)  # before the start: its lock is held here, so it would count as active there
        try:
            return start(layout, job.task, job.args)
        except JobError:
            remove_path(folder / DISMISSED)
            raise
    finally:
        os.close(lock)


def wait(layout: Layout, job_id: str, *, seconds: float) -> JobView:
    """Wait until a job has ended, at most `seconds`; return its last view."""
    folder = folder_of(layout, job_id)
    until = time.monotonic() + seconds
    while (job := view(folder)).is_active and time.monotonic() < until:
        time.sleep(0.1)
    return job
