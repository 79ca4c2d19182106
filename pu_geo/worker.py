"""The background worker: runs one job's task and records how it ended. Started by `pu_geo.jobs`, never by a person."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobCancelled, JobError, PuGeoError
from pu_geo.project import events
from pu_geo.project.store import open_project
from pu_geo.tasks.job import Job

TASKS = {
    "prepare": "pu_geo.tasks.prepare:prepare",
    "next_round": "pu_geo.tasks.rounds:next_round",
    "add_scenes": "pu_geo.tasks.scenes:add_scenes",
    "add_xbd": "pu_geo.tasks.xbd:add_xbd",
    "add_footprints": "pu_geo.tasks.footprints:add_footprints",
    "add_aoi": "pu_geo.tasks.aoi:add_aoi",
    "add_areas": "pu_geo.tasks.areas:add_areas",
    "sum_up": "pu_geo.tasks.areas:sum_up",
    "add_grid": "pu_geo.tasks.grid:add_grid",
    "align": "pu_geo.tasks.align:align",
    "chip": "pu_geo.tasks.chip:chip",
    "rank": "pu_geo.tasks.train:rank",
    "train": "pu_geo.tasks.train:train",
    "embed": "pu_geo.tasks.embed:embed",
    "export": "pu_geo.tasks.export:export",
    "publish": "pu_geo.tasks.publish:publish",
}


def run(folder: Path, *, echo: Callable[[str], None] | None = None) -> Mapping[str, Any]:
    """Do the job in this process. The caller holds its lock.

    Returns:
        What the task returned.

    Raises:
        PuGeoError, JobCancelled: what the task raised, after it was recorded; a fault of ours comes as JobError.
    """
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    events.append(folder, "started", {"pid": os.getpid()})
    began = time.monotonic()
    try:
        job = Job(open_project(spec["project"]), folder, echo)
        module, _, function = TASKS[spec["task"]].partition(":")
        result: Mapping[str, Any] = getattr(importlib.import_module(module), function)(job, **spec["args"])
    except (JobCancelled, KeyboardInterrupt):
        events.append(folder, "cancelled", {"seconds": time.monotonic() - began})
        raise
    except PuGeoError as error:
        events.append(folder, "failed", {"problem": error.problem, "hint": error.hint})
        raise
    except Exception as error:
        raise _recorded_fault(folder, error) from error
    events.append(folder, "done", {"result": dict(result), "seconds": round(time.monotonic() - began, 3)})
    return result


def _recorded_fault(folder: Path, error: Exception) -> JobError:
    """Write a fault of ours, with its traceback, into the job's log; return it as people are told of it."""
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)
    problem = f"The job stopped on a fault in PU-Geo: {type(error).__name__}: {error}."
    hint = f"Your labels are safe. Please report it with the log of this job (`pu-geo jobs PROJECT log {folder.name}`)."
    events.append(folder, "failed", {"problem": problem, "hint": hint})
    return JobError(problem, hint, kind="fault")


def main(arguments: list[str]) -> int:
    """Run the job whose folder is named; the exit code is for people who read process lists."""
    folder = Path(arguments[0])
    inherited = os.environ.pop(jobs.LOCK_FD_VARIABLE, None)
    lock = int(inherited) if inherited else jobs.take_lock(folder)
    os.set_inheritable(lock, False)
    try:
        run(folder)
    except (PuGeoError, JobCancelled):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
