"""Locks on files, held by processes: the kernel frees them however a process ends.

filelock waits for them, except for those whose open file goes to a child or that are asked about. A worker inherits the lock
of its job (`take`, given on by `jobs.start.launch`), and `jobs.device_queue` locks a ticket before it has its name; screens
ask who is alive with a shared lock (`is_held`). filelock has neither, so these are calls of `fcntl.flock`. Both lock the
same way.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pu_geo.files import make_folder, opened, single, to_change

JOB_LOCK = "alive.lock"  # in a job's folder; held as long as somebody works for it
STARTING = "start.lock"  # in the folder of all jobs; held while one is started
_PATIENCE_S = 0.2  # who asks whether a lock is held holds it a moment; that is no holder


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock. Asks for a shared one, so that two who ask do not see each other."""
    try:
        descriptor = opened(path, os.O_RDONLY)  # who may not write may still ask
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def take(path: Path) -> int | None:
    """Acquire a lock and return its file descriptor, which frees it when it is closed; None if somebody holds it.

    Raises:
        OSError: if the file cannot be opened.
    """
    descriptor = opened(path, os.O_RDWR | os.O_CREAT)
    if acquired(descriptor, fcntl.LOCK_EX, _PATIENCE_S):
        return descriptor
    os.close(descriptor)
    return None


def acquired(descriptor: int, how: int, patience_s: float) -> bool:
    """Return whether an open file could be locked within some seconds; `how` is `LOCK_EX` or `LOCK_SH` of fcntl."""
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


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock for the length of the context, after waiting for it.

    Its folder is made, but none around it: a project that was moved away comes back to no folder of its name.

    Raises:
        OSError: if the file cannot be opened.
    """
    from filelock import FileLock  # loads asyncio; most commands need no lock

    make_folder(path.parent, parents=False)
    with FileLock(single(to_change(path)), poll_interval=0.01):
        yield
