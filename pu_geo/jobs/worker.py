"""The background worker: runs one job's task and records how it ended. Started by `pu_geo.jobs`, never by a person."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobCancelled, JobError, JobPaused, PuGeoError, interrupts_held, name_too_long
from pu_geo.files import APPENDED, FULL, opened, remove_path, write_file
from pu_geo.free_memory import free_memory
from pu_geo.jobs import control, device_queue, tasks
from pu_geo.jobs.status import signed_spec
from pu_geo.store import backups, events, leftovers
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout
from pu_geo.store.store import open_project

WAITING = "waiting"
USAGE = "Usage: python -m pu_geo.jobs.worker FOLDER, where FOLDER is that of a job. PU-Geo starts workers itself."
_NO_MEMORY = (
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "failed to map segment",
    "bad_alloc",
    "bad allocation",
)
"""How libraries in other languages name too little memory, in lowercase."""
_GRAPHICS_CARDS = ("cuda", "hip ", "mps backend")
_USED_UP_BYTES = 1 << 18
_LITTLE_BYTES = 1 << 26
_END_SECONDS = 20.0  # for what removes its files on the way out
_TERMINATED = 143  # exit code of a process that SIGTERM ended


def run(
    folder: Path, layout: Layout | None = None, *, echo: Callable[[str], None] | None = None, is_guest: bool = False,
    is_followed: bool = False,
) -> Mapping[str, Any]:  # fmt: skip
    """Do the job in this process. The caller holds its lock.

    Args:
        layout: the job's project; the one that its folder is in if None.
        is_guest: the process is not the job's own, and is not noted as one to end if the job hangs.
        is_followed: start the jobs that shall follow, see `Job.then`.

    Returns:
        What the task returned.

    Raises:
        PuGeoError, JobCancelled: what the task raised, after it was recorded; a fault of ours comes as JobError.
    """
    spec = signed_spec(folder)
    began = time.monotonic()
    layout = layout or Layout(folder.parent.parent)
    is_own = folder.parent == layout.jobs  # else the project may not be changed
    is_done = False
    try:
        events.append(folder, "started", {} if is_guest else control.identity(folder))
        job = Job(open_project(layout.folder), folder, echo)
        if is_own and (left := leftovers.sweep(job.layout, own=folder)):
            events.append(folder, "swept", {"files": len(left)})
        write_file(folder / leftovers.ROOM, bytes(1 << 14))
        result = _do(job, spec["task"], spec["args"])
        is_done = True
    except (JobCancelled, KeyboardInterrupt) as stopped:
        remove_path(folder / leftovers.ROOM)
        kind = "paused" if isinstance(stopped, JobPaused) else "cancelled"
        events.append(folder, kind, {"seconds": round(time.monotonic() - began, 3)})
        raise
    except PuGeoError as error:
        is_vague = error.kind != "disk" or isinstance(
            error.__cause__, sqlite3.Error
        )  # "disk" has words of its own for a file
        words = _full_disk(folder, error) if is_vague and _is_full(folder, error) else error
        _record(folder, words)
        if words is error:
            raise
        raise words from error
    except Exception as error:
        words = _in_words(folder, error)
        _record(folder, words)
        raise words from error
    finally:
        remove_path(folder / leftovers.ROOM)
        if is_own and not is_done:
            leftovers.sweep(layout, own=folder)
    events.append(folder, "done", {"result": dict(result), "seconds": round(time.monotonic() - began, 3)})
    if is_own and tasks.of(spec["task"]).is_exclusive:
        with suppress(PuGeoError):  # the daily one names what is wrong
            backups.make(layout, "job")  # the journal has labels alone
    for name, given in job.then if is_followed else ():
        with suppress(PuGeoError):  # whoever opens its screen starts it
            jobs.start(layout, name, given)
    return result


def _do(job: Job, task: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do a task, once it has the device; what it needs is imported then, so that who waits holds little memory."""
    about = tasks.of(task)
    if about is tasks.UNKNOWN:
        raise JobError(
            f"This version of PU-Geo has no task {task!r}; another one wrote this job.", "Dismiss the job.", kind="task"
        )
    with device_queue.acquire_device(job.folder, partial(_report_waiting, job)) if about.needs_device else nullcontext():
        if about.needs_device:
            events.append(job.folder, "turn")
        module, _, function = about.work.partition(":")
        if about.needs_torch and "torch" not in sys.modules:
            events.append(job.folder, "stage", {"message": "starting"})
        with interrupts_held():  # an interrupted import of torch cannot be made up for in this process
            act = _loaded(module, function)
        result: Mapping[str, Any] = act(job, **args)
    return result


def _loaded(module: str, function: str) -> Callable[..., Mapping[str, Any]]:
    """Import a task; raise JobError where there is not enough memory for its libraries."""
    try:
        found: Callable[..., Mapping[str, Any]] = getattr(importlib.import_module(module), function)
    except (ImportError, OSError, MemoryError) as error:
        if not _lacks_memory(error):
            raise
        raise JobError(
            f"There is not enough memory to load torch and the other libraries that this job needs: {_free_memory()}.",
            "Close other programs, or start it on a machine with more memory; about 2 GB must be free.",
            kind="memory",
        ) from error
    return found


def _report_waiting(job: Job, before: Sequence[device_queue.QueueEntry]) -> None:
    """Note for whom a job waits where that has changed.

    Raises:
        JobCancelled, JobPaused: if it was asked to stop meanwhile.
    """
    if job.is_cancelled():
        raise JobCancelled
    if job.is_paused():
        raise JobPaused
    facts = {"place": len(before), "for": str(before[0].folder)}
    if facts != job.waits:
        job.waits = facts
        others = f", and {len(before) - 1} more" if len(before) > 1 else ""
        words = f"{WAITING} for {before[0].words}{others}"
        events.append(job.folder, "waiting", {"message": words, **facts})
        if job.echo:
            job.echo(words)


def _record(folder: Path, error: PuGeoError) -> None:
    remove_path(folder / leftovers.ROOM)
    events.append(folder, "failed", {"problem": error.problem, "hint": error.hint})


def _in_words(folder: Path, error: Exception) -> JobError:
    """Return a full disk, too little memory, or a fault of ours in words; log the latter two."""
    if _is_full(folder, error):
        return _full_disk(folder, error)
    if words := name_too_long(error):
        return JobError(words.problem, words.hint, kind=words.kind)
    with os.fdopen(opened(folder / "log.txt", APPENDED), "a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)
    if _lacks_memory(error):
        if any(card in str(error).lower() for card in _GRAPHICS_CARDS):
            return JobError(
                f"The graphics card has too little free memory for this job ({str(error)[:200]}), so it had to stop.",
                "Close other programs that use the graphics card, then start the job again; or let CUDA_VISIBLE_DEVICES=-1 "
                "stand before the command that starts PU-Geo, which then computes without it. Your labels and finished "
                "runs are safe.",
                kind="memory",
            )
        return JobError(
            f"The job needs more memory than there is ({str(error)[:200] or type(error).__name__}; {_free_memory()}), so "
            "it had to stop.",
            "Close other programs and start it again, or work on a machine with more memory. Your labels and finished runs "
            "are safe.",
            kind="memory",
        )
    return JobError(
        f"The job stopped on a fault in PU-Geo: {type(error).__name__}: {error}.",
        f"Please report it with the log of this job (`pu-geo jobs PROJECT log {folder.name}`).",
        kind="fault",
    )


def _is_full(folder: Path, error: BaseException | None) -> bool:
    """Return whether a full disk caused an error; libraries in other languages, and SQLite, name it in words alone."""
    left = _free_bytes(folder)
    is_used_up = left is not None and left < _USED_UP_BYTES
    while error is not None:
        if is_used_up and isinstance(error, sqlite3.OperationalError):
            return True  # SQLite names an input or output error where its smallest files do not fit
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if any(words in str(error) for words in (os.strerror(errno.ENOSPC), "database or disk is full")):
            return True
        error = error.__cause__
    return False


def _full_disk(folder: Path, error: BaseException) -> JobError:
    """Return the error for a full disk: that of the file which did not fit, else the project's if little of it is free."""
    project = folder.parent.parent
    place = _disk_of(error, project)
    left = _free_bytes(place or project)
    hint = "Make room there, then start this job again: a training goes on after its last checkpoint."
    is_little = left is not None and left < _LITTLE_BYTES
    if place is not None or is_little:
        free = f" ({left / 1e6:.1f} MB are free)" if left is not None and is_little else ""  # a half file was removed since
        return JobError(
            f"The disk that holds {place or project} is full{free}, so the job had to stop.", hint, kind="disk_full"
        )
    known = "" if left is None else f" The one that holds {project} has {left / 1e6:,.0f} MB free."
    return JobError(
        f"A disk that this job writes to is full, or your share of it is used up, so the job had to stop.{known}",
        hint,
        kind="disk_full",
    )


def _disk_of(error: BaseException | None, project: Path) -> Path | None:
    """Return a folder on the disk of the file that did not fit, the project itself if it is on the same; None if none is
    named.
    """
    while error is not None:
        if isinstance(error, sqlite3.Error):
            return project
        if isinstance(error, OSError) and error.errno in FULL and isinstance(error.filename, str):
            near = next((each for each in Path(error.filename).absolute().parents if each.is_dir()), None)
            with suppress(OSError):
                return project if near is None or near.stat().st_dev == project.stat().st_dev else near
            return near
        error = error.__cause__
    return None


def _free_bytes(folder: Path) -> int | None:
    """Return how much of a folder's disk is free; None where the folder was moved away meanwhile."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY)


def _free_memory() -> str:
    return f"{free_memory() / 1e9:.1f} GB are free"


def main(arguments: list[str]) -> int:
    """Run the job whose folder is named; the exit code is for people who read process lists."""
    folder = Path(arguments[0]).resolve() if len(arguments) == 1 else None
    if folder is None or not (folder / "spec.json").is_file():
        print(USAGE, file=sys.stderr)
        return 2
    try:
        inherited = os.environ.pop(jobs.LOCK_FD_VARIABLE, None)
        lock = int(inherited) if inherited else jobs.take_lock(folder)
        os.set_inheritable(lock, False)
        signal.signal(signal.SIGTERM, partial(_terminate, folder))
        run(folder, is_followed=True)
    except PuGeoError as error:
        print(error.problem, error.hint, sep="\n", file=sys.stderr)
        return 1
    except (JobCancelled, KeyboardInterrupt):
        return 1
    return 0


def _terminate(folder: Path, number: int, frame: FrameType | None) -> None:
    """End this worker as the machine goes down: nobody cancelled the job, so it has no end and counts as interrupted.

    Raises:
        SystemExit: so that temporary files are removed on the way out.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    last = threading.Timer(_END_SECONDS, os._exit, [_TERMINATED])  # a library may swallow the SystemExit
    last.daemon = True
    last.start()
    with suppress(OSError):
        events.append(folder, "terminated")
    raise SystemExit(_TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
