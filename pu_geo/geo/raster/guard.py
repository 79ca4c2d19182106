"""How GDAL opens a scene: with the one driver that its content asks for, and under settings that reach nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from pu_geo.errors import ImageryError
from pu_geo.geo.readers.file_kinds import regular_file, scene_driver

__all__ = ["CACHE_BYTES", "GDAL_ERRORS", "gdal_env", "quiet_open", "regular_file", "scene_driver", "unreadable"]

CACHE_BYTES = 32 * 1024 * 1024  # an ordered pass needs a row of blocks, and only where it warps
GDAL_ERRORS = (RasterioError, CPLE_BaseError)


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

    A missing transform is no warning here: `checks.check_transform` refuses it.
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
    said = str(cause).splitlines()[0][:160] if str(cause) else type(cause).__name__
    return ImageryError(
        f"{name} is damaged and cannot be decoded ({said}).", "Download or export the file again.", kind="corrupt"
    )
