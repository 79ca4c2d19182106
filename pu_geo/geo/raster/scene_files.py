"""Scene files as they are: look at one, decide whether it can be a scene, and describe it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import rasterio
from rasterio.windows import Window

from pu_geo.errors import ImageryError
from pu_geo.geo.raster import checks, local_space, places, samples
from pu_geo.geo.raster.fingerprints import ends_sha256, sha256_of
from pu_geo.geo.raster.guard import GDAL_ERRORS, gdal_env, quiet_open, unreadable
from pu_geo.geo.raster.places import Place
from pu_geo.geo.readers.file_kinds import regular_file, scene_driver
from pu_geo.records import BandTriple, Role, Scene

LOOK_PX = 1024  # longer side of the decimated read from which stretch and emptiness are judged


def describe(
    path: Path | str, role: Role, scene_id: str, date: str | None = None,
    *, bands: BandTriple | None = None, crs: str | None = None, pixel_m: float | None = None,
) -> Scene:  # fmt: skip
    """Check a file from end to end and describe it as a scene; the file is neither copied nor changed.

    In this very process: files of other people go through `in_child.describe`.

    Args:
        path: a GeoTIFF, or a PNG, JPEG or TIFF picture with a world file or xBD labels.
        date: ISO 8601 date of acquisition; what the file or its labels tell if None.
        bands: three bands, from 1, to be shown as red, green and blue; see `checks.choose_bands` if None.
        crs: "EPSG:n" or WKT, for a file that does not name its own.
        pixel_m: side of a pixel on the ground, meters, for a picture that is to be used without a place; see `local_space`.

    Raises:
        ImageryError: if the file cannot be a scene; `kind` is one of missing, link, driver, corrupt, size, small, bands,
            dtype, crs, geotransform, bounds, empty, local.
    """
    real = regular_file(path, ImageryError)
    found = real.stat()  # before it is read: what is written meanwhile counts as a change
    with gdal_env(), quiet_open(real, scene_driver(real)) as source:
        checks.check_size(source, real)
        rgb = checks.choose_bands(source, real, bands)
        if pixel_m is None:
            place = _place_of(source, real, crs)
            gsd_m = checks.check_transform(place.transform, source.width, source.height, real, place.crs or "")
        else:
            place, gsd_m = local_space.local_place(source, real, pixel_m), pixel_m
        checks.probe_blocks(source, real, rgb)
        return Scene(
            scene_id=scene_id,
            role=role,
            path=str(real),
            crs=place.crs or "",
            transform=place.transform,
            width=source.width,
            height=source.height,
            bands=source.count,
            dtype=source.dtypes[0],
            gsd_m=gsd_m,
            date=date or _tagged_date(source) or place.date,
            sha256=sha256_of(real),
            stretch=_look(source, real, rgb),
            rgb=rgb,
            place=place.found,
            size_bytes=found.st_size,
            mtime_ns=found.st_mtime_ns,
            ends_sha256=ends_sha256(real),
        )


def _place_of(source: rasterio.DatasetReader, path: Path, crs: str | None) -> Place:
    """Return the file's own place, or else the one that a world file or xBD labels give it; `crs` is known in it."""
    given = None if crs is None else places.given_crs(crs, f"What was given for {path.name}")
    beside = places.find_place(path, given) if source.transform.is_identity and not source.gcps[0] else None
    if beside is None:
        if source.driver != "GTiff":
            raise ImageryError(
                f"{path.name} is a {source.driver} picture, which has no place on the map.",
                "Put its world file beside it (.pgw or .jgw, with .prj), or convert it to GeoTIFF; or state the size of its pixels "
                "(in `Bands and coordinate system`, or with --pixel-size) to work without a place.",
                kind="geotransform",
            )
        a, b, c, d, e, f, *_ = source.transform
        return Place(checks.check_crs(source, path, given), (a, b, c, d, e, f), "")
    if beside.crs is None and not source.crs:
        raise ImageryError(
            f"{path.name} has a world file but no coordinate system.",
            "Put a .prj file with it beside the world file.",
            kind="crs",
        )
    return replace(beside, crs=beside.crs or checks.check_crs(source, path, None))


def _tagged_date(source: rasterio.DatasetReader) -> str | None:
    """Return the date in the TIFF's DateTime tag ("YYYY:MM:DD hh:mm:ss"), ISO 8601, if it holds a real one."""
    text = str(source.tags().get("TIFFTAG_DATETIME", ""))[:10].replace(":", "-")
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _look(source: rasterio.DatasetReader, path: Path, rgb: BandTriple) -> tuple[tuple[float, float], ...] | None:
    """Return the stretch that makes the scene 8-bit, None for uint8; refuse a scene without any data."""
    if source.dtypes[0] == "uint8" and not samples.may_have_holes(source):
        return None
    shrink = max(1.0, max(source.width, source.height) / LOOK_PX)
    size = (max(1, round(source.height / shrink)), max(1, round(source.width / shrink)))
    try:
        values, valid = samples.read_samples(source, rgb, out_hw=size)
        if not valid.any():
            values, valid = _first_block_with_data(source, path, rgb)
    except GDAL_ERRORS as cause:
        raise unreadable(path.name, cause) from cause
    return None if source.dtypes[0] == "uint8" else samples.find_stretch(values, valid)


def _first_block_with_data(source: rasterio.DatasetReader, path: Path, rgb: BandTriple) -> tuple[np.ndarray, np.ndarray]:
    """Search the whole scene for data, in strips; the decimated read may have stepped over all of it."""
    rows = max(64, source.block_shapes[0][0])
    for row in range(0, source.height, rows):
        window = Window(0, row, source.width, min(rows, source.height - row))
        values, valid = samples.read_samples(source, rgb, window)
        if valid.any():
            return values, valid
    raise ImageryError(
        f"{path.name} holds no data: every pixel is nodata, transparent or not a number.",
        "Choose another scene, or correct its nodata value with gdal_edit -a_nodata.",
        kind="empty",
    )
