"""Which processes work for a job, and how they are ended. Works where /proc exists (Linux); elsewhere nothing is found."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

JOB_VARIABLE = "PU_GEO_JOB"
_PROC = Path("/proc")


def identity() -> dict[str, object]:
    """Say which process this one is: its id, when it began in ticks since the machine did, and which start of the machine."""
    return {"pid": os.getpid(), "begun": _begun(os.getpid()), "boot": _boot()}


def end_all(folder: Path, worker: Mapping[str, object]) -> int:
    """Kill what works for a job; return how many processes that were. This process is spared.

    Args:
        folder: of the job; whoever was started for it has it in the environment.
        worker: what the worker said of itself by `identity`. An id may belong to somebody else by now, so it counts only
            together with the time at which the process began.
    """
    found = _marked(folder) | _told(worker)
    for pid in found - {os.getpid()}:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found - {os.getpid()})


def _marked(folder: Path) -> set[int]:
    """Find processes by the mark in the environment that they were started with."""
    mark, found = f"{JOB_VARIABLE}={folder}".encode(), set()
    for entry in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                found.add(int(entry.parent.name))
    return found


def _told(worker: Mapping[str, object]) -> set[int]:
    """Find a worker that runs in somebody's terminal, and all that it started."""
    pid, begun = worker.get("pid"), worker.get("begun")
    if not isinstance(pid, int) or begun is None or begun != _begun(pid) or worker.get("boot") != _boot():
        return set()
    return {pid, *_started_by(pid)}


def _started_by(pid: int) -> Sequence[int]:
    parents = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(entry.parent.name)] = int(_fields(int(entry.parent.name))[1])
    found = [pid]
    for parent in found:  # grows meanwhile
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


def _begun(pid: int) -> int | None:
    try:
        return int(_fields(pid)[19])
    except OSError:
        return None


def _fields(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; its name, which may hold anything, comes before."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _boot() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
