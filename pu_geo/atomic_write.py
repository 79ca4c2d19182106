"""Files that take their name only once they are complete: a temporary name, fsync, rename."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pu_geo.errors import PuGeoError

_NO_ROOM = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO}
_KEPT_OF_NAME = 40  # characters; a name may have 255 bytes, and one character up to four


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what was written there is forced to disk and renamed to `path` at the end.

    If anything fails, the file that was there before stays as it was, and nothing else is left behind. A process that is
    killed leaves the old file too, and a hidden `.part` file. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:_KEPT_OF_NAME]}.{secrets.token_hex(8)}.part")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


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
