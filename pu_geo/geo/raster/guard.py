"""How a scene's file is opened: by the one driver that its content asks for, under settings that reach nothing else.

With it: room for many open files.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from pu_geo.errors import ImageryError
from pu_geo.free_memory import free_memory
from pu_geo.records import Scene

CACHE_BYTES = 32 * 1024 * 1024  # an ordered pass needs a row of blocks, and only where it warps
GDAL_ERRORS = (RasterioError, CPLE_BaseError)
FREELY_BYTES, MOST_OF_FREE = 256 * 1024**2, 0.8  # reads of fewer bytes are not checked against the memory that is free
RETILE = "gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.tif out.tif"
_NO_MEMORY = ("out of memory", "cannot allocate", "memory allocation")
SPARE_FILES = 128  # for the project, the log, libraries that load late


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


@contextmanager
def without_alpha(source: rasterio.DatasetReader, scene: Scene) -> Iterator[tuple[rasterio.DatasetReader, Scene]]:
    """Return an open file and its scene; where a band that is called transparency is none, the bands that are shown
    alone.
    """
    if scene.has_alpha:
        yield source, scene
        return
    path = Path(source.name)
    if "?" in str(path) or "&" in str(path):  # which end a path where GDAL is to take some bands of it
        raise ImageryError(f"The path {path} has a ? or &.", "Rename the file or its folder.", kind="link")
    bands = ",".join(map(str, scene.rgb))
    try:
        shown = rasterio.open(f"vrt://{path}?bands={bands}&if={source.driver}", driver="VRT")
    except GDAL_ERRORS as cause:
        raise unreadable(path.name, cause) from cause
    with shown:
        yield shown, replace(scene, rgb=tuple(range(1, len(scene.rgb) + 1)))


def unreadable(name: str, cause: Exception) -> ImageryError:
    """Return the error for a scene that GDAL cannot open or decode, or not in the memory that is free."""
    words = str(cause).splitlines()[0][:160] if str(cause) else type(cause).__name__
    if any(sign in words.lower() for sign in _NO_MEMORY):
        return ImageryError(
            f"{name} needs more memory to be read than this machine has free ({words}).",
            f"Close other programs, or rewrite it in tiles: {RETILE}",
            kind="memory",
        )
    return ImageryError(
        f"{name} is damaged and cannot be decoded ({words}).", "Download or export the file again.", kind="corrupt"
    )


def check_memory(what: str, n_bytes: int) -> None:
    """Refuse a read that this machine's free memory cannot hold, before anything is read.

    Args:
        what: the scenes or the window to be read, as a sentence starts with it.
        n_bytes: that the read takes at its peak.

    Raises:
        ImageryError: kind "memory".
    """
    if n_bytes < FREELY_BYTES:
        return
    free = free_memory()
    if n_bytes > MOST_OF_FREE * free:
        raise ImageryError(
            f"{what} needs about {n_bytes / 1e9:.1f} GB of memory at a time; {free / 1e9:.1f} GB are free here.",
            f"Close other programs, cut the scenes to the area that you map, or rewrite them in tiles: {RETILE}",
            kind="memory",
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
