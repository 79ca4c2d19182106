"""What people ask of a job, as files in its folder: to stop, to pause, to be shown no more. One that hangs is ended.

Its processes are known by the environment variable that its worker got, and by the identity that the worker wrote down.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pu_geo.errors import JobError, OutOfReach
from pu_geo.files import remove_path, touch
from pu_geo.jobs import tasks
from pu_geo.jobs.status import CANCEL, DISMISSED, PAUSE, folder_of, is_alive, view
from pu_geo.store import events
from pu_geo.store.layout import Layout

PATIENCE_S = 4.0
"""A job that was asked to stop is ended by force after this; no single call on 20,000 buildings takes as long."""
JOB_VARIABLE = "PU_GEO_JOB"
_SAME_START_S = 5.0  # the clock that start times are worked out by may be set meanwhile


@contextmanager
def report_io_errors() -> Iterator[None]:
    """Raise `JobError` for a full disk, or a folder that may not be written to."""
    try:
        yield
    except OutOfReach:
        raise
    except OSError as error:
        raise JobError(
            f"The job cannot be started: {error.strerror}.",
            "See that the project's disk has room and that its folder may be written to; then try again.",
            kind="disk",
        ) from error


def cancel(layout: Layout, job_id: str, *, wait: bool = False) -> None:
    """Ask a job to stop. Its worker checks once a batch; one that does not answer is ended by force.

    Args:
        wait: return once it has stopped; by default a thread waits for its end.

    Raises:
        JobError: if it is not active.
    """
    folder = _active(layout, job_id, "cancel")
    touch(folder / CANCEL)
    if wait:
        _end_if_hung(folder)
    else:
        threading.Thread(target=_end_if_hung, args=(folder,), daemon=True).start()


def pause(layout: Layout, job_id: str) -> None:
    """Ask a job that trains to stop after this epoch and keep its state; one that waits for the device stops at once.

    Raises:
        JobError: if it is not active, or cannot pause.
    """
    folder = _active(layout, job_id, "pause")
    if not tasks.of(task := view(folder).task).can_pause:
        raise JobError(
            f"Job {job_id} ({task}) cannot pause; trainings and searches for further kinds can.", "Let it end, or cancel it."
        )
    touch(folder / PAUSE)


def _active(layout: Layout, job_id: str, verb: str) -> Path:
    folder = folder_of(layout, job_id)
    if not view(folder).is_active:  # its worker may still be alive, on its way out
        raise JobError(f"Job {job_id} is not running.", f"There is nothing to {verb}.")
    return folder


def _end_if_hung(folder: Path) -> None:
    """Wait some time for the end of a cancelled job; then kill it and all that it started."""
    if not wait_for_end(folder, PATIENCE_S):
        end_overdue(folder)
        wait_for_end(folder, PATIENCE_S)


def wait_for_end(folder: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_alive(folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def end_overdue(folder: Path) -> None:
    """Kill a job that was cancelled some time ago and does not end; the server that was asked to cancel it may be gone."""
    with suppress(FileNotFoundError):  # not after it was started anew
        if time.time() - (folder / CANCEL).stat().st_mtime >= PATIENCE_S and is_alive(folder):
            kill_orphans(folder)


def clear_requests(folder: Path) -> None:
    """Remove what people asked of a job before it is started again."""
    with report_io_errors():
        for asked in (CANCEL, PAUSE, DISMISSED):
            remove_path(folder / asked)


def dismiss(layout: Layout, job_id: str) -> None:
    """Hide an ended job. Nothing of it is removed: it is listed on request, and can still be resumed.

    Raises:
        JobError: if it is active.
    """
    folder = folder_of(layout, job_id)
    if view(folder).is_active:
        raise JobError(f"Job {job_id} is running.", "Cancel it first.", kind="running")
    with report_io_errors():
        touch(folder / DISMISSED)


def kill_orphans(folder: Path) -> int:
    """Kill processes that work for a job, or were left behind by its dead worker; return how many."""
    started = [event for event in events.read(folder) if event["event"] == "started"]
    return end_all(folder, started[-1] if started else {})


def identity(folder: Path) -> dict[str, object]:
    """Return which process works for a job: its id, when it began in seconds since 1970, and the job's folder."""
    import psutil

    return {"pid": os.getpid(), "begun": psutil.Process().create_time(), "folder": str(folder)}


def end_all(folder: Path, worker: Mapping[str, object]) -> int:
    """Kill what works for a job; return how many processes that were. This process is spared.

    Args:
        folder: of the job; whoever was started for it has it in the environment.
        worker: the `identity` of one that may run in a terminal, and all that it started. An id may belong to another
            process by now, so it counts only together with its start, and only for this folder: a copy of a project has
            the events of jobs that work in the original.
    """
    import psutil

    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(JOB_VARIABLE) == str(folder):
                found.add(process)
    pid, begun = worker.get("pid"), worker.get("begun")
    if isinstance(pid, int) and isinstance(begun, float) and worker.get("folder") == str(folder):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if abs(process.create_time() - begun) < _SAME_START_S:
                found |= {process, *process.children(recursive=True)}
    found.discard(psutil.Process())
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    return len(found)
