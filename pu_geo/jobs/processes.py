"""Which processes work for a job, and how they are ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

JOB_VARIABLE = "PU_GEO_JOB"
_SAME_START_S = 5.0  # the clock that start times are worked out by may be set meanwhile


def identity(folder: Path) -> dict[str, object]:
    """Return which process works for a job: its id, when it began in seconds since 1970, and the job's folder."""
    return {"pid": os.getpid(), "begun": psutil.Process().create_time(), "folder": str(folder)}


def end_all(folder: Path, worker: Mapping[str, object]) -> int:
    """Kill what works for a job; return how many processes that were. This process is spared.

    Args:
        folder: of the job; whoever was started for it has it in the environment.
        worker: the `identity` of one that may run in a terminal, and all that it started. An id may belong to another
            process by now, so it counts only together with its start, and only for this folder: a copy of a project has
            the events of jobs that work in the original.
    """
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
