"""How a scene's file is opened: by the one driver that its content asks for, under settings that reach nothing else.

With it: room for many open files, and whether a file is the one that was added.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Literal

import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from pu_geo.errors import ImageryError
from pu_geo.records import Scene

CACHE_BYTES = 32 * 1024 * 1024  # an ordered pass needs a row of blocks, and only where it warps
GDAL_ERRORS = (RasterioError, CPLE_BaseError)
SPARE_FILES = 128  # for the project, the log, libraries that load late
END_BYTES = 65_536
AFFORDABLE_BYTES = 500_000_000  # of a scene that an older PU-Geo added, and that nothing but its sha256 is known of
State = Literal["same", "changed", "missing"]


def gdal_env() -> rasterio.Env:
    """Return the settings under which GDAL may open a scene: no side files, no network drivers, a bounded cache."""
    return rasterio.Env(
        GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR",
        GDAL_PAM_ENABLED="NO",
        GDAL_CACHEMAX=CACHE_BYTES,
        GDAL_NUM_THREADS="ALL_CPUS",
        GDAL_ERROR_ON_LIBJPEG_WARNING="TRUE",  # a JPEG cut off would be filled up with gray
        CPL_CURL_ENABLE_VSIMEM="NO",
        PROJ_NETWORK="OFF",
    )


@contextmanager
def quiet_open(path: Path, driver: str) -> Iterator[rasterio.DatasetReader]:
    """Open a scene with the one driver that `scene_driver` named, and close it afterwards.

    A missing transform is no warning here: `scene_files.check_transform` refuses it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        try:
            source = rasterio.open(path, driver=driver)
        except (*GDAL_ERRORS, ValueError, OverflowError) as cause:
            raise unreadable(path.name, cause) from cause
    with source:
        try:
            yield source
        except GDAL_ERRORS as cause:  # GDAL reports some faults only when a header field is first asked for
            raise unreadable(path.name, cause) from cause


def unreadable(name: str, cause: Exception) -> ImageryError:
    """Return the error for a scene that GDAL cannot open or decode."""
    words = str(cause).splitlines()[0][:160] if str(cause) else type(cause).__name__
    return ImageryError(
        f"{name} is damaged and cannot be decoded ({words}).", "Download or export the file again.", kind="corrupt"
    )


# Room for many open files


def allow_files(n: int) -> None:
    """Allow this process to open `n` more files; many systems stop at 1,024 or 256 unless asked, and at far more then.

    Raises:
        ImageryError: kind "files" if the system does not allow as many.
    """
    if sys.platform == "win32":
        return
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(list(Path("/dev/fd").iterdir())) + n + SPARE_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard == resource.RLIM_INFINITY or needed <= hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
            return
    raise ImageryError(
        f"{n:,} scenes need as many open files, and this computer allows {hard:,} in one program.",
        "Join scenes into fewer files with gdalwarp, or have the limit raised (ulimit -n).",
        kind="files",
    )


# Whether a file is the one that was added


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
            is_same = not scene.sha256 or found.st_size > AFFORDABLE_BYTES
        elif found.st_size != scene.size_bytes or ends_sha256(path) != scene.ends_sha256:
            return "changed"
        else:
            is_same = found.st_mtime_ns == scene.mtime_ns
        is_same = is_same or _sha256_at(path, found.st_size, found.st_mtime_ns) == scene.sha256
        return "same" if is_same else "changed"
    except OSError:
        return "missing"


@lru_cache(maxsize=1024)
def _sha256_at(path: Path, size: int, mtime_ns: int) -> str:
    """Return the sha256 of a file as it was at one moment, so that it is read once a process."""
    return sha256_of(path)
