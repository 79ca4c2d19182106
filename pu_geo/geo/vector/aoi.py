"""The area of interest: read from a polygon file or from typed text, and footprints limited to those that touch it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.raster.placement import corners_of
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.areas import read_polygons
from pu_geo.geo.vector.footprints import ground_area
from pu_geo.records import FootprintTable, Grid

OUTSIDE = "outside the AOI"
FARTHEST = 1e8  # no projected system has coordinates beyond
NEAR_DEGREES, NEAR_M = 3.0, 300_000.0
MAX_TEXT = 100_000  # characters; larger outlines come as a file
_SYSTEM = re.compile(r"\s*(?:SRID=|EPSG:)(\d{1,7})\s*;(.*)", re.IGNORECASE | re.DOTALL)
_BOX = re.compile(r"[\s\[(]*" + r"[\s,;]+".join([r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"] * 4) + r"[\s\])]*")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")
_POLYGON = re.compile(r"\s*(?:MULTI)?POLYGON\s*\(", re.IGNORECASE)  # no collections: they may be nested without end
_EXAMPLE = "Write west, south, east, north in degrees, such as -94.53, 37.04, -94.47, 37.09, or a WKT POLYGON."


def read_aoi(path: Path | str, grid: Grid, *, crs: str | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Read the area of interest from a polygon file; several polygons become one area.

    Args:
        crs: "EPSG:n" or WKT, for a file that does not name its own.

    Returns:
        The area as WKB in the project CRS, and one sentence for each kind of repair or drop.

    Raises:
        FootprintError: as `areas.read_polygons`.
    """
    table = read_polygons(path, grid, crs=crs)
    notes = tuple(note for note in table.notes if "new ids" not in note)
    return _joined(shapely.from_wkb(np.array(table.wkb, dtype=object))), notes


def typed_aoi(text: str, grid: Grid) -> bytes:
    """Read the area of interest from what a person typed.

    Args:
        text: "west, south, east, north" or a WKT polygon or multipolygon, in degrees of WGS 84; or in another system where
            it begins with "EPSG:n;" or "SRID=n;".

    Returns:
        WKB in the project CRS.

    Raises:
        FootprintError: kind "parse", "size", "crs", "bounds", "empty" or "outside"; "local" in a project without a place.
    """
    if len(text) > MAX_TEXT:
        raise FootprintError(f"The area is {len(text):,} characters long.", "Save it as a file and name that.", kind="size")
    if not grid.has_place:
        raise FootprintError(
            "This project has no place on the Earth, so no area can be typed in degrees or in a system.",
            "Name a GeoJSON file with the area in pixels of the post picture.",
            kind="local",
        )
    text = _INVISIBLE.sub("", text)  # pages put such signs into text that is copied from them
    found = _SYSTEM.fullmatch(text)
    system, rest = (f"EPSG:{found[1]}", found[2]) if found else (systems.LONLAT, text)
    try:
        is_degrees = systems.load_crs(system).is_geographic
    except ValueError as cause:
        raise FootprintError(f"{system} is not a known coordinate system.", "Check its number.", kind="crs") from cause
    shape = _shape_of(rest, is_degrees)
    x0, y0, x1, y1 = shape.bounds
    if is_degrees and -90 <= x0 <= x1 <= 90 and -180 <= y0 <= y1 <= 180 and not -90 <= y0 <= y1 <= 90:
        raise FootprintError(
            f"The area reaches from y {y0:g} to y {y1:g}, which is no latitude.",
            f"Longitude comes first: west, south, east, north. Did you mean {y0:g}, {x0:g}, {y1:g}, {x1:g}?",
            kind="bounds",
        )
    reach = f"The area reaches from x {x0:g}, y {y0:g} to x {x1:g}, y {y1:g}, which"
    if is_degrees and (x0 < -360 or x1 > 540 or y0 < -90 or y1 > 90):
        name_it = f"If these are meters, name their system first, such as {grid.crs[:12]};{rest.strip()[:40]}"
        raise FootprintError(f"{reach} are not degrees of longitude and latitude.", name_it, kind="bounds")
    if max(abs(x0), abs(y0), abs(x1), abs(y1)) > FARTHEST:
        raise FootprintError(f"{reach} lies off the Earth.", _EXAMPLE, kind="bounds")
    near = _near_scenes(shape, system, is_degrees, grid)
    w, s, e, n = near.bounds if not near.is_empty else shape.bounds
    placed = shapely.transform(
        shapely.segmentize(near, max(e - w, n - s) / 20), lambda xy: systems.to_project(xy, system, grid)
    )
    return _joined(np.array([_on_grid(placed, shape, grid)], dtype=object))


def _near_scenes(shape: shapely.Geometry, system: str, is_degrees: bool, grid: Grid) -> shapely.Geometry:
    """Return the part of a typed area within about 300 km of the scenes: projected systems fold what lies far away back
    in.
    """
    corners = corners_of(grid.transform, grid.width, grid.height)
    visible = systems.convert(systems.outline(corners), grid.crs, system)
    if not np.isfinite(visible).all():
        return shapely.Polygon()
    if is_degrees:
        visible[:, 0] = systems.near_longitude(visible[:, 0], float(visible[0, 0]))
    margin = NEAR_DEGREES if is_degrees else NEAR_M
    (w, s), (east, n) = visible.min(axis=0) - margin, visible.max(axis=0) + margin
    offsets = (-720, -360, 0, 360, 720) if is_degrees else (0,)
    parts = [shapely.intersection(shape, shapely.box(w + offset, s, east + offset, n)) for offset in offsets]
    moved = [shapely.transform(part, lambda xy, t=offset: xy - [t, 0]) for part, offset in zip(parts, offsets, strict=True)]
    polygons = [one for part in moved for one in shapely.get_parts(part) if one.geom_type == "Polygon"]
    return shapely.union_all(polygons)


def _shape_of(text: str, is_degrees: bool) -> shapely.Geometry:
    """Parse a box or WKT, in its own coordinates; a box in degrees may run over the antimeridian."""
    box = _BOX.fullmatch(text)
    if box:
        west, south, east, north = (float(value) for value in box.groups())
        if is_degrees and west > east:
            east += 360
        shape = shapely.box(west, south, east, north)
        if not (west < east and south < north):
            raise FootprintError(f"The box {text.strip()[:80]} has no inside.", _EXAMPLE, kind="empty")
        return shape
    try:
        with np.errstate(invalid="ignore"):  # coordinates that are no numbers are refused below
            shape = shapely.force_2d(shapely.from_wkt(text)) if _POLYGON.match(text) else None
    except (shapely.errors.ShapelyError, ValueError):
        shape = None
    if shape is None or shape.is_empty or not np.isfinite(shapely.get_coordinates(shape)).all():
        raise FootprintError(f"{text.strip()[:60]!r} is no area.", _EXAMPLE, kind="parse")
    valid = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    if not valid.area > 0:
        raise FootprintError(f"The area {text.strip()[:60]!r} has no inside.", _EXAMPLE, kind="empty")
    return valid


def _on_grid(placed: shapely.Geometry, typed: shapely.Geometry, grid: Grid) -> shapely.Geometry:
    """Return an area that reaches into the post scenes; refuse any other."""
    a, _, c, _, e, f = grid.transform
    scenes = shapely.box(c, f + e * grid.height, c + a * grid.width, f)
    is_finite = bool(np.isfinite(shapely.get_coordinates(placed)).all())
    mended = shapely.make_valid(placed, method="structure", keep_collapsed=False) if is_finite else placed
    if is_finite and shapely.intersection(mended, scenes).area > 0:
        return mended
    lon, lat = systems.to_lonlat(systems.middle_of(grid), grid.crs)[0]
    x0, y0, x1, y1 = typed.bounds
    raise FootprintError(
        f"The area does not reach into the post scenes. It is at x {x0:.6g} to {x1:.6g}, y {y0:.6g} to {y1:.6g}; "
        f"the scenes are around longitude {lon:.4f}, latitude {lat:.4f}.",
        "Longitude comes first: west, south, east, north. Check the numbers.",
        kind="outside",
    )


def _joined(shapes: NDArray[np.object_]) -> bytes:
    return bytes(shapely.to_wkb(shapely.union_all(shapes), byte_order=1, output_dimension=2))


def area_km2(aoi: bytes, grid: Grid) -> float:
    """Return the size of an area in the project CRS on the ground, square kilometers."""
    return float(ground_area(np.array([shapely.from_wkb(aoi)], dtype=object), grid)[0] / 1e6)


def touching(wkb: NDArray[np.object_], aoi: bytes) -> NDArray[np.bool_]:
    """Mark the outlines, WKB [N], that touch the area; bool [N]. Both in the project CRS."""
    area = shapely.from_wkb(aoi)
    shapely.prepare(area)
    return np.asarray(shapely.intersects(area, shapely.from_wkb(wkb)), dtype=np.bool_)


def limited(table: FootprintTable, aoi: bytes) -> FootprintTable:
    """Leave out footprints that do not touch the area of interest, and count them.

    Raises:
        FootprintError: kind "outside" if none touches it.
    """
    is_inside = touching(np.array(list(table.wkb), dtype=object), aoi)
    n_out = int((~is_inside).sum())
    if n_out == 0:
        return table
    if n_out == len(is_inside):
        raise FootprintError(
            f"None of these {n_out:,} footprints touches the area of interest (AOI).",
            "Choose footprints of that area, or take the AOI away first.",
            kind="outside",
        )
    note = f"{n_out} footprint(s) lie outside the area of interest (AOI) and were left out."
    return table.without(~is_inside, OUTSIDE, note)
