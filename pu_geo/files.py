"""Files that take their name only once they are complete: a temporary name, fsync, rename.

Whoever writes one holds a lock on it. The kernel frees the lock however a process ends, so that a file without one belongs to
nobody, see `is_abandoned`.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pu_geo.errors import PuGeoError

FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_ROOM = FULL | {errno.EFBIG, errno.EIO}
_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.part")
_UNLOCKED_S = 5.0  # a library may put a file of its own, without a lock, under the name; that one is renamed at once
_UNKNOWN_S = 24 * 3600.0  # where the file system knows no locks
_ZEROS = bytes(1 << 20)
_KEPT_OF_NAME = 40  # characters; a name may have 255 bytes, and one character up to four


@contextmanager
def atomic_write(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what was written there is forced to disk and renamed to `path` at the end.

    If anything fails, the file that was there before stays as it was, and nothing else is left behind. A process that is
    killed leaves the old file too, and a hidden `.part` file, see `is_abandoned`. Missing folders are made.

    Args:
        path: of the file.
        mode: rights of the file, of which the user's umask takes away; 0o600 where nobody else may ever read it.

    Raises:
        OSError: where the disk is full, with `path` as its `filename` unless it names a file already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:_KEPT_OF_NAME]}.{secrets.token_hex(8)}.part")
    lock = _made_and_locked(temporary, mode)
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
        os.close(lock)


def _made_and_locked(path: Path, mode: int) -> int:
    """Make an empty file and lock it until the descriptor that is returned is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    if os.name != "nt":
        import fcntl  # not on Windows

        with suppress(OSError):  # some network disks know no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # `is_abandoned` may hold it for a moment
    return descriptor


def is_abandoned(path: Path) -> bool:
    """Return whether a file is a temporary one of `atomic_write` whose writer is gone.

    One without a lock counts after some seconds, one on a disk that knows no locks after a day.
    """
    if not _NAME.fullmatch(path.name) or os.name == "nt":
        return False
    import fcntl  # not on Windows

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        age_s = time.time() - os.fstat(descriptor).st_mtime
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return age_s > _UNKNOWN_S
    finally:
        os.close(descriptor)
    return age_s > _UNLOCKED_S


def reserve(path: Path) -> None:
    """Have the disk give a file all the room that its length claims, so that it may be mapped into memory.

    Writing into a mapped file that has holes ends the process (SIGBUS) where the disk is full.

    Raises:
        OSError: ENOSPC if there is not enough room.
    """
    n_bytes = path.stat().st_size
    if n_bytes == 0:
        return  # `posix_fallocate` refuses a length of zero
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            return
        for start in range(0, n_bytes, len(_ZEROS)):  # macOS; what is there is kept
            here = os.pread(file.fileno(), min(len(_ZEROS), n_bytes - start), start)
            os.pwrite(file.fileno(), here, start)


@contextmanager
def export_file(out: Path) -> Iterator[Path]:
    """Yield a temporary path as `atomic_write` does, for a file that a person asked for; a full disk is a refusal.

    Raises:
        PuGeoError: kind "disk" if the disk is full, a quota is used up, or it reports an error.
    """
    try:
        with atomic_write(out) as temporary:
            yield temporary
    except OSError as cause:
        if cause.errno not in _NO_ROOM:
            raise
        raise not_written(out.name, os.strerror(cause.errno)) from cause


def not_written(name: str, why: str) -> PuGeoError:
    """Return the error for an export that was not written to its end."""
    return PuGeoError(
        f"{name} could not be written to the end: {why}. An older {name} is unchanged.",
        "Free some space, or choose another disk, then export again.",
        kind="disk",
    )


def write_export(out: Path, pieces: Iterable[bytes]) -> None:
    """Write pieces as one file, whole or not at all; see `export_file`."""
    with export_file(out) as temporary, temporary.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def _sync_folder(folder: Path) -> None:
    """Make a new name last through a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
