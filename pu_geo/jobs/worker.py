"""The background worker: runs one job's task and records how it ended. Started by `pu_geo.jobs`, never by a person."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobCancelled, JobError, JobPaused, PuGeoError, interrupts_held
from pu_geo.jobs import control, device_queue
from pu_geo.project import events
from pu_geo.project.store import open_project
from pu_geo.tasks.job import Job

TASKS = {
    "prepare": "pu_geo.tasks.imagery.chip:prepare",
    "next_round": "pu_geo.tasks.project.rounds:next_round",
    "add_scenes": "pu_geo.tasks.imagery.scenes:add_scenes",
    "add_xbd": "pu_geo.tasks.imagery.scenes:add_xbd",
    "relink": "pu_geo.tasks.imagery.relink:relink",
    "add_footprints": "pu_geo.tasks.imagery.footprints:add_footprints",
    "add_aoi": "pu_geo.tasks.imagery.footprints:add_aoi",
    "add_areas": "pu_geo.tasks.damage_map.areas:add_areas",
    "sum_up": "pu_geo.tasks.damage_map.areas:sum_up",
    "add_grid": "pu_geo.tasks.imagery.footprints:add_grid",
    "align": "pu_geo.tasks.imagery.align:align",
    "chip": "pu_geo.tasks.imagery.chip:chip",
    "features": "pu_geo.tasks.imagery.features:features",
    "rank": "pu_geo.tasks.train.train:rank",
    "train": "pu_geo.tasks.train.train:train",
    "import_run": "pu_geo.tasks.train.import_run:import_run",
    "ensemble": "pu_geo.tasks.train.ensemble:ensemble",
    "apply_model": "pu_geo.tasks.train.apply_model:apply_model",
    "compare_features": "pu_geo.tasks.train.compare_features:compare_features",
    "embed": "pu_geo.tasks.explore.embed:embed",
    "cluster": "pu_geo.tasks.explore.cluster:cluster",
    "outliers": "pu_geo.tasks.explore.outliers:find_outliers",
    "discover": "pu_geo.tasks.explore.discover:discover",
    "export": "pu_geo.tasks.damage_map.export:export",
    "export_selection": "pu_geo.tasks.damage_map.export:export_selection",
    "publish": "pu_geo.tasks.damage_map.publish:publish",
    "remove_scene": "pu_geo.tasks.project.remove:remove_scene",
    "replace_scene": "pu_geo.tasks.project.remove:replace_scene",
    "remove_footprints": "pu_geo.tasks.project.remove:remove_footprints",
    "replace_footprints": "pu_geo.tasks.project.remove:replace_footprints",
}
TORCH = (
    "prepare", "next_round", "chip", "features", "rank", "train", "import_run", "ensemble", "apply_model", "compare_features",
    "embed", "discover",
)  # fmt: skip
"""Tasks whose import loads torch, which takes some seconds: a stage of its own for whoever waits."""
FORMER_ARGUMENTS = ("audit",)  # what jobs of earlier versions carried and tasks now find out themselves
WAITING = "waiting"
USAGE = "Usage: python -m pu_geo.jobs.worker FOLDER, where FOLDER is that of a job. PU-Geo starts workers itself."
_ROOM = "room"  # a file of some bytes: what is freed for the last words of a job whose disk is full


def run(folder: Path, *, echo: Callable[[str], None] | None = None, is_guest: bool = False) -> Mapping[str, Any]:
    """Do the job in this process. The caller holds its lock.

    Args:
        is_guest: the process is not the job's own, and is not noted as one to end if the job hangs.

    Returns:
        What the task returned.

    Raises:
        PuGeoError, JobCancelled: what the task raised, after it was recorded; a fault of ours comes as JobError.
    """
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    began = time.monotonic()
    try:
        events.append(folder, "started", {} if is_guest else control.identity(folder))
        (folder / _ROOM).write_bytes(bytes(1 << 14))
        result = _do(Job(open_project(folder.parent.parent), folder, echo), spec["task"], spec["args"])
    except (JobCancelled, KeyboardInterrupt) as stopped:
        (folder / _ROOM).unlink(missing_ok=True)
        kind = "paused" if isinstance(stopped, JobPaused) else "cancelled"
        events.append(folder, kind, {"seconds": round(time.monotonic() - began, 3)})
        raise
    except PuGeoError as error:
        _record(folder, error)
        raise
    except Exception as error:
        words = _in_words(folder, error)
        _record(folder, words)
        raise words from error
    finally:
        (folder / _ROOM).unlink(missing_ok=True)
    events.append(folder, "done", {"result": dict(result), "seconds": round(time.monotonic() - began, 3)})
    return result


def _do(job: Job, task: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do a task, once it has the device; what it needs is imported then, so that who waits holds little memory."""
    if task not in TASKS:
        raise JobError(
            f"This version of PU-Geo has no task {task!r}; another one wrote this job.", "Dismiss the job.", kind="task"
        )
    with (
        device_queue.acquire_device(job.folder, partial(_report_waiting, job))
        if task in device_queue.TASKS
        else nullcontext()
    ):
        if task in device_queue.TASKS:
            events.append(job.folder, "turn")
        module, _, function = TASKS[task].partition(":")
        given = {name: value for name, value in args.items() if name not in FORMER_ARGUMENTS}
        if task in TORCH and "torch" not in sys.modules:
            events.append(job.folder, "stage", {"message": "loading torch"})
        with interrupts_held():  # an interrupted import of torch cannot be made up for in this process
            act = getattr(importlib.import_module(module), function)
        result: Mapping[str, Any] = act(job, **given)
    return result


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
    (folder / _ROOM).unlink(missing_ok=True)
    events.append(folder, "failed", {"problem": error.problem, "hint": error.hint})


def _in_words(folder: Path, error: Exception) -> JobError:
    """Return a full disk, which libraries in other languages name in words alone, or a fault of ours in words; log the latter."""
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full or os.strerror(errno.ENOSPC) in str(error):
        left = shutil.disk_usage(folder).free / 1e6
        return JobError(
            f"The disk that holds {folder.parent.parent} is full ({left:.1f} MB are free), so the job had to stop.",
            "Make room there, then start this job again: a training goes on after its last checkpoint. Your labels and "
            "finished runs are safe.",
            kind="disk_full",
        )
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)
    return JobError(
        f"The job stopped on a fault in PU-Geo: {type(error).__name__}: {error}.",
        f"Your labels are safe. Please report it with the log of this job (`pu-geo jobs PROJECT log {folder.name}`).",
        kind="fault",
    )


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
        run(folder)
    except PuGeoError as error:
        print(error.problem, error.hint, sep="\n", file=sys.stderr)
        return 1
    except (JobCancelled, KeyboardInterrupt):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
