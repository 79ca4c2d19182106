"""Whether a file can be a scene, and its description: size, bands, type, place, and blocks that decode.

The place of a picture that carries none comes from a world file or from xBD labels.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.windows import Window

from pu_geo.errors import ImageryError
from pu_geo.files import sha256_of
from pu_geo.geo import local_space
from pu_geo.geo.raster import samples
from pu_geo.geo.raster.bands import choose_bands, layer_bands, unnamed_bands
from pu_geo.geo.raster.guard import GDAL_ERRORS, gdal_env, quiet_open, unreadable
from pu_geo.geo.raster.placement import MAX_PIXELS, MAX_SIDE_PX, MOST_PIXELS, oblong_words
from pu_geo.geo.raster.sharpness import sharpness
from pu_geo.geo.readers import xbd
from pu_geo.geo.readers.file_kinds import head_of, regular_file, scene_driver
from pu_geo.geo.scene_state import ends_sha256
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.sites import corners_of
from pu_geo.records import Affine6, BandTriple, LayerKind, Role, Scene, misses_by_band

LOOK_PX = 1024  # longer side of the decimated read from which stretch and emptiness are judged
MAX_SIDE_BYTES = 10_000
_SUFFIXES = {".png": (".pgw", ".pngw"), ".jpg": (".jgw", ".jpgw"), ".jpeg": (".jgw", ".jpegw"), ".tif": (".tfw", ".tifw")}
MAX_PICTURE_PIXELS = 64_000_000  # PNG and JPEG are read line by line: all of it must fit in the cache
MAX_RAW_BYTES = 256 * 1024**3
MAX_RATIO, RATIO_FROM_BYTES = 1000, 16 * 1024**2  # deflate reaches 1032 on a constant picture
MAX_BLOCK_BYTES = 512 * 1024**2
MIN_SIDE_PX = 16
MAX_BANDS = 16
MIN_GSD_M, MAX_GSD_M = 0.01, 100.0
MAX_COORDINATE = 1e12
PROBED_BLOCKS = 64
_ACQUIRED = ("acquisitiondatetime", "acquisitiondate", "acquired", "nitfidatim")  # names of tags, without _
MANY_ALPHAS, MOST_OPAQUE = 16, 0.05
"""A band called transparency with more values, of which the highest is in no more of the shown pixels, measures
something.
"""
DATE, ALPHA, OBLONG = "date", "transparency", "pixels not square"  # what a note is about
_PROCESSED = (
    "the date {date} is the TIFF's DateTime, which may be that of processing. If so, correct it in the table of scenes."
)
_MEASURES = (
    "the band called transparency has many values, as near infrared has, and is not used: nothing is hidden by it. If it "
    "is transparency, "
    "write the file with 0 and 255 alone."
)


def describe(
    path: Path | str, role: Role, scene_id: str, date: str | None = None,
    *, bands: BandTriple | None = None, crs: str | None = None, pixel_m: float | None = None,
) -> Scene:  # fmt: skip
    """Check a file from end to end and describe it as a scene; the file is neither copied nor changed.

    In this very process: files of other people go through `in_child.describe_each`.

    Args:
        path: a GeoTIFF, or a PNG, JPEG or TIFF picture with a world file or xBD labels.
        date: ISO 8601 date of acquisition; that of the file or its labels if None.
        bands: three bands, from 1, to be shown as red, green and blue; see `choose_bands` if None.
        crs: "EPSG:n" or WKT, for a file that does not name its own.
        pixel_m: side of a pixel on the ground, meters, for a picture that is to be used without a place; see `local_space`.

    Raises:
        ImageryError: if the file cannot be a scene; `kind` is one of missing, link, driver, corrupt, size, small, bands,
            dtype, crs, geotransform, bounds, empty, local.
    """
    real = regular_file(path, ImageryError)
    found = real.stat()  # before it is read: what is written meanwhile counts as a change
    with gdal_env(), quiet_open(real, scene_driver(real)) as source:
        check_size(source, real)
        rgb = choose_bands(source, real, bands)
        scene = _described(source, real, found, rgb, crs, pixel_m)
        measures = _alpha_measures(source, real)
        notes = [note for note in scene.notes if date is None or note[0] != DATE]
        notes += unnamed_bands(source, rgb) if bands is None else ()
        notes += [(ALPHA, _MEASURES)] if measures else []
        scene = replace(
            scene, role=role, scene_id=scene_id, date=date or scene.date, has_alpha=not measures, notes=tuple(notes)
        )
        scene = replace(scene, stretch=_probe(source, real, scene))
        return replace(scene, sharpness=sharpness(source, scene))


def describe_layer(
    path: Path | str, kind: LayerKind, *, nodata: float | None = None, crs: str | None = None, pixel_m: float | None = None
) -> Scene:
    """Check a file from end to end and describe it as one of a layer, as `describe` does; its scaling is not known yet.

    In this very process: files of other people go through `in_child.describe_layers`.

    Args:
        nodata: a sample value that stands for no data, beside the one that the file names. An amplitude of 0 always does.

    Raises:
        ImageryError: as `describe`; kind "bands" or "dtype" where a layer cannot hold them, "nodata" where no sample can
            have that value.
    """
    real = regular_file(path, ImageryError)
    found = real.stat()
    with gdal_env(), quiet_open(real, scene_driver(real)) as source:
        bands = layer_bands(source, real)
        check_size(source, real, len(bands))
        if nodata is not None and not samples.can_be(nodata, np.dtype(source.dtypes[0])):
            raise ImageryError(
                f"No sample of {real.name} can be {nodata:g}: they are {source.dtypes[0]}.",
                "Name the value that its pixels without data have.",
                kind="nodata",
            )
        given = source.nodata if nodata is None else nodata
        given = given if given is not None and math.isfinite(given) else None  # what is no number never holds data
        scene = _described(source, real, found, bands, crs, pixel_m)
        scene = replace(
            scene, role="layer", kind=kind, notes=tuple(note for note in scene.notes if note[0] != DATE),
            nodata=0.0 if given is None and kind == "sar-amplitude" else given,
        )  # fmt: skip
        _look(source, real, bands, nodata=scene.nodata, every=misses_by_band(scene))
        return scene


def _described(
    source: rasterio.DatasetReader, real: Path, found: os.stat_result, bands: tuple[int, ...], crs: str | None,
    pixel_m: float | None,
) -> Scene:  # fmt: skip
    """Return what pre, post and layers have in common of an open file, once its place and its blocks were checked."""
    if pixel_m is None:
        place = _place_of(source, real, crs)
        gsd_m = check_transform(place.transform, source.width, source.height, real, place.crs or "")
    else:
        is_placed = bool(source.crs or source.gcps[0] or not source.transform.is_identity or _world_file(real))
        is_placed &= not _is_placeholder(tuple(source.transform)[:6], source.width, source.height, str(source.crs))
        transform = local_space.local_transform(real.name, pixel_m, (MIN_GSD_M, MAX_GSD_M), is_placed=is_placed)
        place, gsd_m = Place(systems.LOCAL, transform, local_space.PLACE), pixel_m
    probe_blocks(source, real, bands)
    date, is_guess = _tagged_date(source)
    scene = Scene(
        scene_id="",
        role="post",
        path=str(real),
        crs=place.crs or "",
        transform=place.transform,
        width=source.width,
        height=source.height,
        bands=source.count,
        dtype=source.dtypes[0],
        gsd_m=gsd_m,
        date=date or place.date,
        sha256=sha256_of(real),
        rgb=bands,
        place=place.found,
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        ends_sha256=ends_sha256(real),
    )
    notes = {DATE: _PROCESSED.format(date=date) if date and is_guess else "", OBLONG: oblong_words(scene)}
    return replace(scene, notes=tuple((about, words) for about, words in notes.items() if words))


def _place_of(source: rasterio.DatasetReader, path: Path, crs: str | None) -> Place:
    """Return the file's own place, or else the one that a world file or xBD labels give it; `crs` is known in it."""
    given = None if crs is None else given_crs(crs, f"What was given for {path.name}")
    beside = find_place(path, given) if source.transform.is_identity and not source.gcps[0] else None
    if beside is None:
        if source.driver != "GTiff":
            raise ImageryError(
                f"{path.name} is a {source.driver} picture, which has no place on the map.",
                "Put its world file beside it (.pgw or .jgw, with .prj), or convert it to GeoTIFF; or state the size of "
                "its pixels (in `Bands and coordinate system`, or with --pixel-size) to work without a place.",
                kind="geotransform",
            )
        a, b, c, d, e, f, *_ = source.transform
        return Place(check_crs(source, path, given), (a, b, c, d, e, f), "")
    if beside.crs is None and not source.crs:
        raise ImageryError(
            f"{path.name} has a world file but no coordinate system.",
            "Put a .prj file with it beside the world file.",
            kind="crs",
        )
    return replace(beside, crs=beside.crs or check_crs(source, path, None))


def _tagged_date(source: rasterio.DatasetReader) -> tuple[str | None, bool]:
    """Return the date of acquisition in a file's tags, ISO 8601, if it holds a real one; and whether it may be that of
    processing.

    That is TIFF's DateTime, which counts only where no tag speaks of acquisition.
    """
    tags = {**source.tags(), **source.tags(ns="IMAGERY")}
    given = {key.lower().replace("_", ""): str(value) for key, value in tags.items()}
    for name in (*_ACQUIRED, "tifftagdatetime"):
        found = re.match(r"((?:19|20)\d\d)[-:/]?(\d\d)[-:/]?(\d\d)(?!\d(?!\d{5}$))", given.get(name, "").strip())
        with contextlib.suppress(ValueError):
            if found:
                return dt.date(*map(int, found.groups())).isoformat(), name not in _ACQUIRED
    return None, False


def _look_hw(source: rasterio.DatasetReader) -> tuple[int, int]:
    """Return height and width of the decimated read from which a scene is judged."""
    shrink = max(1.0, max(source.width, source.height) / LOOK_PX)
    return max(1, round(source.height / shrink)), max(1, round(source.width / shrink))


def _alpha_measures(source: rasterio.DatasetReader, path: Path) -> bool:
    """Return whether a band called transparency measures something else, such as near infrared."""
    if ColorInterp.alpha not in source.colorinterp:
        return False
    try:
        alpha = source.read(source.colorinterp.index(ColorInterp.alpha) + 1, out_shape=_look_hw(source))
    except GDAL_ERRORS as cause:
        raise unreadable(path.name, cause) from cause
    values, counts = np.unique(alpha[alpha > 0], return_counts=True)  # no number is neither
    return bool(len(values) > MANY_ALPHAS and counts[-1] < MOST_OPAQUE * counts.sum())


def _probe(source: rasterio.DatasetReader, path: Path, scene: Scene) -> tuple[tuple[float, float], ...] | None:
    """Return the stretch that makes the scene 8-bit, None for uint8; refuse a scene without any data."""
    if source.dtypes[0] == "uint8" and not samples.may_have_holes(source):
        return None
    values, valid = _look(source, path, scene.rgb, has_alpha=scene.has_alpha)
    return None if source.dtypes[0] == "uint8" else samples.find_stretch(values, valid)


def _look(
    source: rasterio.DatasetReader, path: Path, bands: Sequence[int], *, nodata: float | None = None, every: bool = False,
    has_alpha: bool = True,
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:  # fmt: skip
    """Read some samples and which of them hold data, see `samples.read_samples`; refuse a scene without any."""
    try:
        values, valid = samples.read_samples(
            source, bands, out_hw=_look_hw(source), nodata=nodata, every=every, has_alpha=has_alpha
        )
        return (values, valid) if valid.any() else _first_block_with_data(source, path, bands, nodata, every, has_alpha)
    except GDAL_ERRORS as cause:
        raise unreadable(path.name, cause) from cause


def _first_block_with_data(
    source: rasterio.DatasetReader, path: Path, bands: Sequence[int], nodata: float | None, every: bool, has_alpha: bool
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Search the whole scene for data, in strips; the decimated read may have stepped over all of it."""
    rows = max(64, source.block_shapes[0][0])
    for row in range(0, source.height, rows):
        window = Window(0, row, source.width, min(rows, source.height - row))
        values, valid = samples.read_samples(source, bands, window, nodata=nodata, every=every, has_alpha=has_alpha)
        if valid.any():
            return values, valid
    raise ImageryError(
        f"{path.name} holds no data: every pixel is nodata, transparent or not a number.",
        "Choose another scene, or correct its nodata value with gdal_edit -a_nodata.",
        kind="empty",
    )


# The place of a picture that carries none


@dataclass(frozen=True)
class Place:
    """Where a picture lies, and how that is known.

    Attributes:
        crs: "EPSG:n" or WKT; None where nothing names it.
        found: in words, such as "world file a.pgw".
        date: ISO 8601 date of acquisition, where what gives the place has one.
    """

    crs: str | None
    transform: Affine6
    found: str
    date: str | None = None


def find_place(path: Path, crs: str | None) -> Place | None:
    """Find a world file of the same name, then for xBD labels; None where there is neither.

    Args:
        crs: "EPSG:n" or WKT that the world file is in; the .prj file beside it if None.

    Raises:
        ImageryError: kind "geotransform" or "crs" if what is there cannot be used.
    """
    world = _world_file(path)
    if world is not None:
        return Place(crs or _prj(path), _read_world_file(world), f"world file {world.name}")
    labels = xbd.labels_of(path)
    if labels is None:
        return None
    fitted = xbd.place_of(regular_file(labels, ImageryError), path.name)
    found = f"xBD labels ({fitted.n_polygons} buildings, off by {fitted.residual_px:.2g} pixels)"
    return Place(fitted.crs, fitted.transform, found, fitted.date)


def _world_file(path: Path) -> Path | None:
    """Return the world file beside a picture: its suffix shortened or lengthened with a w, or .wld."""
    for suffix in (*_SUFFIXES.get(path.suffix.lower(), ()), ".wld"):
        for beside in (path.with_suffix(suffix), path.with_suffix(suffix.upper())):
            if beside.is_file():
                return regular_file(beside, ImageryError, MAX_SIDE_BYTES)
    return None


def _read_world_file(world: Path) -> Affine6:
    """Read the six lines a, d, b, e and the center x, y of the upper left pixel.

    Raises:
        ImageryError: kind "geotransform" if it holds anything but six finite numbers.
    """
    lines = head_of(world, ImageryError, MAX_SIDE_BYTES).decode("ascii", errors="replace").split()
    try:
        a, d, b, e, x, y = (float(line.replace(",", ".")) for line in lines)
        if not all(math.isfinite(number) for number in (a, b, d, e, x, y)):
            raise ValueError("not finite")
    except ValueError as cause:
        raise ImageryError(
            f"{world.name} is not a world file: it does not hold six numbers.",
            "Export the picture again with its world file, or as GeoTIFF.",
            kind="geotransform",
        ) from cause
    return (a, b, x - (a + b) / 2, d, e, y - (d + e) / 2)


def _prj(path: Path) -> str | None:
    """Return the coordinate system in the .prj file beside a picture, None if there is none."""
    beside = path.with_suffix(".prj")
    if not beside.is_file():
        return None
    text = head_of(regular_file(beside, ImageryError, MAX_SIDE_BYTES), ImageryError, MAX_SIDE_BYTES)
    return given_crs(text.decode("utf-8-sig", errors="replace").strip(), beside.name)


def given_crs(text: str, named_by: str) -> str:
    """Return a coordinate system that a person or a side file named, "EPSG:n" or WKT.

    Raises:
        ImageryError: kind "crs" if it is not known.
    """
    try:
        return systems.known_crs(text)
    except ValueError as cause:
        raise ImageryError(
            f"{named_by} names the coordinate system {text[:60]!r}, which is not known.",
            "Give it as EPSG:n, such as EPSG:32633.",
            kind="crs",
        ) from cause


# Checks


def check_size(source: rasterio.DatasetReader, path: Path, n_bands: int | None = None) -> None:
    """Refuse scenes too small to show a building, and files that would unpack to far more than they weigh.

    Args:
        n_bands: that are read; all of the file if None.
    """
    width, height, dtype = source.width, source.height, source.dtypes[0]
    item = np.dtype("complex64" if dtype.startswith("complex_int") else dtype).itemsize  # numpy has no complex integers
    if (source.count if n_bands is None else n_bands) > MAX_BANDS and width * height <= MAX_PIXELS:
        raise ImageryError(
            f"{path.name} has {source.count} bands; up to {MAX_BANDS} can be read.",
            "Export red, green and blue alone.",
            kind="bands",
        )
    if source.driver != "GTiff" and width * height > MAX_PICTURE_PIXELS:  # PNG and JPEG are held in memory
        raise ImageryError(
            f"{path.name} has {width:,} x {height:,} pixels; a {source.driver} picture may have {MAX_PICTURE_PIXELS:,}.",
            "Convert it: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.png out.tif",
            kind="size",
        )
    raw = width * height * source.count * item
    rows, cols = source.block_shapes[0]
    if width * height > MAX_PIXELS or raw > MAX_RAW_BYTES or max(width, height) > MAX_SIDE_PX:
        raise ImageryError(
            f"{path.name} has {width:,} x {height:,} pixels; {MOST_PIXELS} can be read.",
            "Cut the scene to the area you want to map: gdal_translate -co TILED=YES -projwin ULX ULY LRX LRY in.tif "
            "out.tif",
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
        return systems.known_crs(source.crs.to_wkt(version="WKT2_2019"))
    except (*GDAL_ERRORS, ValueError) as cause:
        raise ImageryError(
            f"{path.name} has a coordinate system that cannot be placed on the Earth ({source.crs.to_wkt()[:60]}...).",
            "Set the right one with gdal_edit -a_srs EPSG:n, then add the scene again.",
            kind="crs",
        ) from cause


def check_transform(affine: Affine6, width: int, height: int, path: Path, crs: str) -> float:
    """Return a scene's pixel size in metres, or refuse its place."""
    a, b, c, d, e, f = affine
    hint = "Export the scene again from the program that made it, with its georeference."
    is_sane = all(abs(number) < MAX_COORDINATE for number in (a, b, c, d, e, f))  # False for NaN and infinity too
    if not is_sane or abs(a * e - b * d) < 1e-30:
        raise ImageryError(f"{path.name} has an impossible georeference {(a, b, c, d, e, f)}.", hint, kind="geotransform")
    if (a, b, c, d, abs(e), f) == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        raise ImageryError(f"{path.name} has no georeference: its pixels are counted from 0, 0.", hint, kind="geotransform")
    if _is_placeholder(affine, width, height, crs):
        raise ImageryError(
            f"{path.name} has a placeholder for a georeference: it lies around 0, 0 of {crs}, in the sea, as pictures of "
            "drones do that were joined without positions.",
            f"State the size of its pixels to work without a place (--pixel-size {abs(a):g}, or in `Bands and coordinate "
            "system`), or give it its true place.",
            kind="geotransform",
        )
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


def _is_placeholder(affine: Affine6, width: int, height: int, crs: str) -> bool:
    """Return whether a picture claims to lie around 0, 0 of a UTM zone, where none lies: zones begin 160 km further east."""
    code = crs.removeprefix("EPSG:")
    if not code.isdigit() or not (32601 <= int(code) <= 32660 or 32701 <= int(code) <= 32760):
        return False
    corners = corners_of(affine, width, height)
    low, high = corners.min(axis=0), corners.max(axis=0)
    return bool((low <= high - low).all() and (high >= low - high).all())


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


def probe_blocks(source: rasterio.DatasetReader, path: Path, rgb: Sequence[int]) -> None:
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
