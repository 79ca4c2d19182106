"""Who has a project open: every process that opens its database holds a shared lock on one file until it ends.

SQLite's own locks say nothing between two transactions. Whoever wants to put another database into the place of this one
takes the lock alone (`alone`), and finds out whether an app, a command or a job still has the project.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout

FILE = ".in_use.lock"
_PATIENCE_S = 2.0
_held: dict[Path, tuple[int, tuple[int, int]]] = {}  # folder -> file descriptor, and which file it is
_lock = threading.Lock()


def hold(layout: Layout) -> None:
    """Hold the project until this process ends; where no lock can be written, such as on a read-only disk, do nothing.

    Raises:
        ProjectError: of kind "busy" if its database is being replaced right now.
    """
    path = layout.folder / FILE
    known = _held.get(layout.folder)
    if known is not None and known[1] == _identity(path):
        return
    with _lock:
        known = _held.get(layout.folder)
        if known is not None and known[1] == _identity(path):
            return
        _release(layout.folder)  # of a project that was moved away from here
        try:
            descriptor = _open(path)
        except OSError:
            return
        if not _taken(descriptor, fcntl.LOCK_SH):
            os.close(descriptor)
            raise ProjectError(
                f"{layout.folder.name} is being restored by another process.", "Try again in a moment.", kind="busy"
            )
        facts = os.fstat(descriptor)
        _held[layout.folder] = descriptor, (facts.st_dev, facts.st_ino)


def held_here() -> list[Layout]:
    """Return the projects that this process has open."""
    return [Layout(folder) for folder in list(_held)]


def let_go(layout: Layout) -> None:
    """Hold a project no longer, as this process has done with it."""
    with _lock:
        _release(layout.folder)


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Have the project for this process alone, so that its database may be replaced; this process must not have it open.

    Raises:
        ProjectError: of kind "busy" if another process has it open.
        OSError: if the lock cannot be written.
    """
    let_go(layout)
    descriptor = _open(layout.folder / FILE)
    try:
        if not _taken(descriptor, fcntl.LOCK_EX):
            raise ProjectError(
                f"{layout.folder.name} is open in another process: the app, a command or a job.",
                "Stop the app and what else works in this project, then try again.",
                kind="busy",
            )
        yield
    finally:
        os.close(descriptor)


def is_open_elsewhere(layout: Layout) -> bool:
    """Return whether another process than this one has the project open."""
    try:
        with _lock:
            is_mine = layout.folder in _held
            _release(layout.folder)
            descriptor = _open(layout.folder / FILE)
            try:
                found = not _taken(descriptor, fcntl.LOCK_EX, patience_s=0)
            finally:
                os.close(descriptor)
    except OSError:
        return False
    if is_mine:
        hold(layout)
    return found


def _open(path: Path) -> int:
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY)  # who may not write may still hold it
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)


def _taken(descriptor: int, how: int, patience_s: float = _PATIENCE_S) -> bool:
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        else:
            return True


def _release(folder: Path) -> None:
    descriptor, _ = _held.pop(folder, (None, None))
    if descriptor is not None:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
