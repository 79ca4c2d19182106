"""What an opened scene must be before any pixel of it is used: size, bands, type, place, and blocks that decode."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.windows import Window

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.guard import GDAL_ERRORS, unreadable
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Affine6, BandTriple

MAX_PIXELS = 4_000_000_000
MAX_PICTURE_PIXELS = 64_000_000  # PNG and JPEG are read line by line: all of it must fit in the cache
MAX_RAW_BYTES = 256 * 1024**3
MAX_RATIO, RATIO_FROM_BYTES = 1000, 16 * 1024**2  # deflate reaches 1032 on a constant picture
MAX_BLOCK_BYTES = 512 * 1024**2
MIN_SIDE_PX = 16
MAX_BANDS = 16
DTYPES = ("uint8", "int8", "uint16", "int16", "float32", "float64")
MIN_GSD_M, MAX_GSD_M = 0.01, 100.0
MAX_COORDINATE = 1e12
PROBED_BLOCKS = 64


def check_size(source: rasterio.DatasetReader, path: Path) -> None:
    """Refuse scenes too small to show a building, and files that would unpack to far more than they weigh."""
    width, height, item = source.width, source.height, max(np.dtype(_numpy_name(d)).itemsize for d in source.dtypes[:1])
    if source.count > MAX_BANDS and width * height <= MAX_PIXELS:
        raise ImageryError(
            f"{path.name} has {source.count} bands; up to {MAX_BANDS} can be read.",
            "Export red, green and blue alone.",
            kind="bands",
        )
    _check_picture_size(source, path)
    raw = width * height * source.count * item
    rows, cols = source.block_shapes[0]
    if width * height > MAX_PIXELS or raw > MAX_RAW_BYTES:
        raise ImageryError(
            f"{path.name} has {width:,} x {height:,} pixels; up to {MAX_PIXELS:,} pixels can be read.",
            "Cut the scene to the area you want to map.",
            kind="size",
        )
    if raw > RATIO_FROM_BYTES and raw > MAX_RATIO * path.stat().st_size:
        raise ImageryError(
            f"{path.name} would unpack to {raw / 1e6:,.0f} MB from {path.stat().st_size / 1e3:,.0f} kB, "
            f"over {MAX_RATIO} times its size. It holds next to no picture.",
            "Export the scene again, cut to where it has data.",
            kind="size",
        )
    if rows * cols * item * source.count > MAX_BLOCK_BYTES:
        raise ImageryError(
            f"{path.name} is stored in blocks of {cols:,} x {rows:,} pixels, too large to read.",
            "Rewrite it in tiles: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.tif out.tif",
            kind="size",
        )
    if min(width, height) < MIN_SIDE_PX:
        raise ImageryError(
            f"{path.name} has {width} x {height} pixels; a scene needs at least {MIN_SIDE_PX} x {MIN_SIDE_PX}.",
            "Choose the full scene.",
            kind="small",
        )


def _check_picture_size(source: rasterio.DatasetReader, path: Path) -> None:
    """Refuse PNG and JPEG pictures that cannot be held in memory."""
    if source.driver != "GTiff" and source.width * source.height > MAX_PICTURE_PIXELS:
        raise ImageryError(
            f"{path.name} has {source.width:,} x {source.height:,} pixels; "
            f"a {source.driver} picture may have {MAX_PICTURE_PIXELS:,}.",
            "Convert it: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.png out.tif",
            kind="size",
        )


def _numpy_name(dtype: str) -> str:
    """Turn rasterio's name of a sample type into one that numpy knows; GDAL's complex integers are held as complex64."""
    return "complex64" if dtype.startswith("complex_int") else dtype


def choose_bands(source: rasterio.DatasetReader, path: Path, wanted: BandTriple | None) -> BandTriple:
    """Return the bands, from 1, that are shown as red, green and blue, or refuse the scene.

    Unless a person chose them: those that the file calls red, green and blue, in its color interpretation or in their
    descriptions; else bands 1 to 3, or the only band thrice.
    """
    if ColorInterp.palette in source.colorinterp:
        raise ImageryError(
            f"{path.name} stores a colour palette. Scenes need bands of red, green and blue.",
            "Expand it: gdal_translate -expand rgb in.tif out.tif",
            kind="bands",
        )
    strange = sorted({d for d in source.dtypes if d not in DTYPES})
    if strange:
        raise ImageryError(
            f"{path.name} has samples of type {', '.join(strange)}; readable are {', '.join(DTYPES)}.",
            "Export the scene as 8- or 16-bit red, green, blue.",
            kind="dtype",
        )
    usable = [band for band, kind in enumerate(source.colorinterp, 1) if kind != ColorInterp.alpha]
    if wanted is not None:
        if len(wanted) != 3 or any(band not in usable for band in wanted):
            raise ImageryError(
                f"Bands {', '.join(map(str, wanted))} of {path.name} cannot be shown as red, green, blue; "
                f"it has bands {', '.join(map(str, usable))}.",
                "Name three of these, such as 3, 2, 1.",
                kind="bands",
            )
        return wanted
    named = _named_bands(source)
    if named is None and (not usable or len(usable) == 2 or (len(usable) > 2 and usable[:3] != [1, 2, 3])):
        raise ImageryError(
            f"{path.name} has {source.count} band(s) and no red, green, blue. Scenes need these three, or one band of gray.",
            "Export the scene with red, green and blue as bands 1 to 3.",
            kind="bands",
        )
    return named or ((1, 2, 3) if len(usable) > 2 else (usable[0],) * 3)


def _named_bands(source: rasterio.DatasetReader) -> BandTriple | None:
    """Return the first bands that the file itself calls red, green and blue, None unless it has all three."""
    colors = [kind.name for kind in source.colorinterp]
    words = [(text or "").strip().lower() for text in source.descriptions]
    for names in (colors, words):
        if all(color in names for color in ("red", "green", "blue")):
            return (names.index("red") + 1, names.index("green") + 1, names.index("blue") + 1)
    return None


def check_crs(source: rasterio.DatasetReader, path: Path, given: str | None) -> str:
    """Return the scene's CRS as "EPSG:n" or WKT, the given one where the file names none, or refuse it."""
    if not source.crs and given is not None:
        return given
    if not source.crs:
        points = " It has ground control points only." if source.gcps[0] else ""
        points = " It has RPC coefficients only." if source.rpcs and not points else points
        raise ImageryError(
            f"{path.name} has no coordinate system.{points} Chips need one to be placed on the map.",
            "Warp it to the map with gdalwarp -t_srs EPSG:n."
            if points
            else "Set it with gdal_edit -a_srs EPSG:n, then add the scene again.",
            kind="crs",
        )
    try:
        crs = systems.load_crs(source.crs.to_wkt(version="WKT2_2019"))
        crs = crs.sub_crs_list[0] if crs.is_compound else crs
        name = systems.name_of(crs)
    except (*GDAL_ERRORS, ValueError):
        crs, name = None, ""
    if crs is None or not (crs.is_geographic or crs.is_projected) or not systems.is_on_earth(name):
        raise ImageryError(
            f"{path.name} has a coordinate system that cannot be placed on the Earth ({source.crs.to_wkt()[:60]}...).",
            "Set the right one with gdal_edit -a_srs EPSG:n, then add the scene again.",
            kind="crs",
        )
    return name


def check_transform(affine: Affine6, width: int, height: int, path: Path, crs: str) -> float:
    """Return a scene's pixel size in metres, or refuse its place."""
    a, b, c, d, e, f = affine
    hint = "Export the scene again from the program that made it, with its georeference."
    is_sane = all(abs(number) < MAX_COORDINATE for number in (a, b, c, d, e, f))  # False for NaN and infinity too
    if not is_sane or abs(a * e - b * d) < 1e-30:
        raise ImageryError(f"{path.name} has an impossible georeference {(a, b, c, d, e, f)}.", hint, kind="geotransform")
    if (a, b, c, d, abs(e), f) == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        raise ImageryError(f"{path.name} has no georeference: its pixels are counted from 0, 0.", hint, kind="geotransform")
    _check_bounds(corners_of(affine, width, height), path, crs)
    gsd_m = gsd_metres(affine, width, height, crs)
    if not MIN_GSD_M <= gsd_m <= MAX_GSD_M:
        raise ImageryError(
            f"{path.name} has pixels of {gsd_m:.3g} m; from {MIN_GSD_M} to {MAX_GSD_M:.0f} m can be used. "
            "Either its georeference or its coordinate system is wrong.",
            hint,
            kind="geotransform",
        )
    return gsd_m


def corners_of(affine: Affine6, width: int, height: int) -> NDArray[np.float64]:
    """Return the four outer corners in CRS units, float [4, 2], in order around the scene."""
    a, b, c, d, e, f = affine
    col, row = np.array([0.0, width, width, 0.0]), np.array([0.0, 0.0, height, height])
    return np.stack([a * col + b * row + c, d * col + e * row + f], axis=-1)


def gsd_metres(affine: Affine6, width: int, height: int, crs: str) -> float:
    """Measure the pixel size on the ground at the scene's center: square root of a pixel's area, metres."""
    a, b, _, d, e, _ = affine
    x, y = corners_of(affine, width, height).mean(axis=0)
    step = max(math.hypot(a, d), math.hypot(b, e)) * min(width, height, 1000)
    x_unit_m, y_unit_m = systems.unit_metres(crs, x, y, step)
    return math.sqrt(abs(a * e - b * d) * x_unit_m * y_unit_m)


def _check_bounds(corners: NDArray[np.float64], path: Path, crs: str) -> None:
    """Refuse a scene whose corners are not on the Earth in the CRS it claims."""
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    extent = f"x {x0:.6g} to {x1:.6g}, y {y0:.6g} to {y1:.6g}"
    border = systems.outline(corners, 5)
    if systems.load_crs(crs).is_geographic:
        if x0 < -360 or x1 > 360 or y0 < -90 or y1 > 90:
            swapped = abs(x0) <= 90 and abs(y1) <= 360
            raise ImageryError(
                f"{path.name} lies at {extent} in {crs[:20]}, outside longitude and latitude.",
                "Latitude and longitude look swapped: export it again with longitude as x."
                if swapped
                else "These are metres, not degrees: set the coordinate system they belong to, such as its UTM zone.",
                kind="bounds",
            )
        return
    lonlat = systems.to_lonlat(border, crs)
    back = systems.convert(lonlat, systems.LONLAT, crs) if np.isfinite(lonlat).all() else np.full_like(border, np.inf)
    size = max(x1 - x0, y1 - y0)
    if not np.isfinite(back).all() or np.abs(back - border).max() > max(0.01 * size, 1.0):
        raise ImageryError(
            f"{path.name} lies at {extent}, where {crs[:20]} is not defined.",
            "Set the coordinate system that these numbers belong to with gdal_edit -a_srs EPSG:n.",
            kind="bounds",
        )


def probe_blocks(source: rasterio.DatasetReader, path: Path, rgb: BandTriple) -> None:
    """Decode up to 64 blocks spread over the scene, first and last included, and refuse it where one fails."""
    rows, cols = source.block_shapes[0]
    down, across = -(-source.height // rows), -(-source.width // cols)
    for block in np.unique(np.linspace(0, down * across - 1, PROBED_BLOCKS).round().astype(np.int64)):
        row, col = int(block) // across * rows, int(block) % across * cols
        window = Window(col, row, min(cols, source.width - col), min(rows, source.height - row))
        try:
            source.read(list(rgb), window=window)
            if MaskFlags.per_dataset in source.mask_flag_enums[0]:
                source.read_masks(1, window=window)
        except GDAL_ERRORS as cause:
            raise unreadable(path.name, cause) from cause
