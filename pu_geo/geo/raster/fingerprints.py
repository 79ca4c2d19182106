"""Whether a scene's file is the one that was added: by size, time and its ends where that settles it, by all of it otherwise."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pu_geo.records import Scene

END_BYTES = 65_536
AFFORDABLE_BYTES = 500_000_000  # of a scene that an older PU-Geo added, and that nothing but its sha256 is known of
State = Literal["same", "changed", "missing"]


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, lowercase hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ends_sha256(path: Path) -> str:
    """Return the sha256 of the first and the last 64 kB of a file; of all of it where these meet."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(END_BYTES))
        file.seek(max(END_BYTES, file.seek(0, os.SEEK_END) - END_BYTES))
        digest.update(file.read(END_BYTES))
    return digest.hexdigest()


def state_of(scene: Scene) -> State:
    """Compare a scene's file with what was written down when it was added.

    Another size or other ends are a change. With the same time besides, the file is taken to be the same; with another time
    its sha256 decides, once a process. Of a scene that an older PU-Geo added, the sha256 decides up to 500 MB; a larger one is
    taken to be the same.
    """
    path = Path(scene.path)
    try:
        found = path.stat()
        if scene.size_bytes is None:
            is_known = bool(scene.sha256) and found.st_size <= AFFORDABLE_BYTES
            return _state(not is_known or _sha256_at(path, found.st_size, found.st_mtime_ns) == scene.sha256)
        if found.st_size != scene.size_bytes or ends_sha256(path) != scene.ends_sha256:
            return "changed"
        is_same = found.st_mtime_ns == scene.mtime_ns
        return _state(is_same or _sha256_at(path, found.st_size, found.st_mtime_ns) == scene.sha256)
    except OSError:
        return "missing"


def _state(is_same: bool) -> State:
    return "same" if is_same else "changed"


@lru_cache(maxsize=1024)
def _sha256_at(path: Path, size: int, mtime_ns: int) -> str:
    """Return the sha256 of a file as it was at one moment, so that it is read once a process."""
    return sha256_of(path)
