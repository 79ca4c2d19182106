"""Trainings wait for this machine's device: first in, first out, across projects, servers and terminals.

Whoever waits or works holds a ticket: a numbered file in a folder of the user's, locked by its process. The kernel frees
the lock however the process ends, so a ticket whose holder is gone counts for nothing, after a reboot as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pu_geo.errors import JobError
from pu_geo.store.layout import home
from pu_geo.store.locks import is_held, one_at_a_time

SECONDS_BETWEEN_READS = 0.2
_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
_TICKET = re.compile(r"(\d{9})-[0-9a-f]{8}\.ticket")


@dataclass(frozen=True)
class QueueEntry:
    """A place in the line: lower numbers came first. `folder` is that of the job that holds the ticket `path`."""

    number: int
    folder: Path
    path: Path

    @property
    def words(self) -> str:
        spec = json.loads((self.folder / "spec.json").read_text(encoding="utf-8"))
        what = " ".join(str(word) for word in (spec["task"], spec["args"].get("method")) if word)
        return f"{what} (job {self.folder.name} of {self.folder.parent.parent.name})"


def device_folder() -> Path:
    """Return the folder of this machine's tickets; machines that share a home, and GPUs chosen by hand, differ."""
    device = f"{socket.gethostname()}-{os.environ.get(_GPUS_VARIABLE, '')}"
    return home() / ".devices" / re.sub(r"[^A-Za-z0-9.-]", "_", device).strip("-")


def line() -> list[QueueEntry]:
    """Return the tickets whose holders are alive; the first one may work."""
    return [ticket for ticket in _all_tickets(device_folder()) if is_held(ticket.path)]


@contextmanager
def acquire_device(folder: Path, on_wait: Callable[[Sequence[QueueEntry]], None]) -> Iterator[None]:
    """Hold the device for the length of the context, once no ticket is before this job's.

    Args:
        folder: of the job.
        on_wait: called with those who are before it, again and again while it waits; may raise to give up.

    Raises:
        JobError: if the tickets' folder cannot be written to.
    """
    descriptor, ticket = _take(folder)
    try:
        while before := [other for other in line() if other.number < ticket.number]:
            on_wait(before)
            time.sleep(SECONDS_BETWEEN_READS)
        yield
    finally:
        ticket.path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(folder: Path) -> tuple[int, QueueEntry]:
    """Draw the next number: return the open, locked ticket, and what it holds."""
    place = device_folder()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(place / "numbers.lock"):
            return _write(folder, place)
    except OSError as error:
        raise JobError(
            f"The line of trainings that wait for this machine cannot be kept in {place}: {error.strerror}.",
            "Make room there, or name a folder that may be written to in the environment variable PU_GEO_HOME.",
            kind="disk",
        ) from error


def _write(folder: Path, place: Path) -> tuple[int, QueueEntry]:
    """Write a ticket behind all others; nobody else takes a number meanwhile. Tickets that nobody holds are removed."""
    for path in place.glob("*.ticket"):
        if not is_held(path):
            path.unlink(missing_ok=True)
    number = max((ticket.number for ticket in _all_tickets(place)), default=0) + 1
    path = place / f"{number:09d}-{secrets.token_hex(4)}.ticket"
    unlocked = path.with_suffix(".new")  # it counts once it is locked, and is locked before it is visible
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps({"folder": str(folder)}).encode())
        unlocked.rename(path)
    except OSError:
        unlocked.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor, QueueEntry(number, folder, path)


def _all_tickets(place: Path) -> list[QueueEntry]:
    """Return all tickets in order, held or not; one that vanishes meanwhile is left out."""
    found = []
    for path in place.glob("*.ticket"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            match = _TICKET.fullmatch(path.name)
            if match:
                found.append(QueueEntry(int(match[1]), Path(json.loads(path.read_text(encoding="utf-8"))["folder"]), path))
    return sorted(found, key=lambda ticket: ticket.number)
