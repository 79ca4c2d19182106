"""The area of interest: read from a polygon file or from typed text, and footprints limited to those that touch it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.readers.raw_footprints import RawFootprints
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.areas import read_polygons, speaking_of_areas
from pu_geo.geo.vector.footprints import footprint_table, ground_area
from pu_geo.records import FootprintTable, Grid

OUTSIDE = "outside the AOI"
FARTHEST = 1e8  # no system has coordinates beyond
TYPED = "The typed text"
MAX_TEXT = 100_000  # characters; larger outlines come as a file
_SYSTEM = re.compile(r"\s*(?:SRID=|EPSG:)(\d{1,7})\s*;(.*)", re.IGNORECASE | re.DOTALL)
_BOX = re.compile(r"[\s\[(]*" + r"[\s,;]+".join([r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"] * 4) + r"[\s\])]*")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")
_POLYGON = re.compile(r"\s*(?:MULTI)?POLYGON\s*\(", re.IGNORECASE)  # no collections: they may be nested without end
_EXAMPLE = (
    "Write west, south, east, north in degrees, such as -94.53, 37.04, -94.47, 37.09, or a WKT POLYGON: longitude first."
)


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
    raw = RawFootprints(np.array([shape], dtype=object), np.zeros(1, dtype=bool), [{}], [None], system)
    try:
        table = speaking_of_areas(lambda: footprint_table(raw, TYPED, grid, are_buildings=False), TYPED)
    except FootprintError as error:
        hint = f"{_EXAMPLE} Coordinates of another system begin with its name, such as {grid.crs[:12]};"
        raise FootprintError(error.problem, f"{hint}{rest.strip()[:40]}", kind=error.kind) from error
    return _joined(shapely.from_wkb(np.array(table.wkb, dtype=object)))


def _shape_of(text: str, is_degrees: bool) -> shapely.Geometry:
    """Parse a box or WKT, in its own coordinates; a box in degrees may run over the antimeridian."""
    box = _BOX.fullmatch(text)
    shape = None
    if box:
        west, south, east, north = (float(value) for value in box.groups())
        shape = shapely.box(west, south, east + 360 if is_degrees and west > east else east, north)
    elif _POLYGON.match(text):
        with np.errstate(invalid="ignore"), contextlib.suppress(shapely.errors.ShapelyError, ValueError):
            shape = shapely.from_wkt(text)
    if shape is None or shape.is_empty or not (np.abs(shapely.get_coordinates(shape)) < FARTHEST).all():
        raise FootprintError(f"{text.strip()[:60]!r} is no area on the Earth.", _EXAMPLE, kind="parse")
    x0, y0, x1, y1 = shape.bounds
    return shapely.segmentize(shape, max(x1 - x0, y1 - y0, 1e-9) / 20)  # its sides may bend in the project CRS


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


def limited(table: FootprintTable, aoi: bytes, of: str = "") -> FootprintTable:
    """Leave out footprints that do not touch the area of interest, and count them.

    Args:
        of: where they come from, for the error.

    Raises:
        FootprintError: kind "outside" if none touches it.
    """
    is_inside = touching(np.array(list(table.wkb), dtype=object), aoi)
    n_out = int((~is_inside).sum())
    if n_out == 0:
        return table
    if n_out == len(is_inside):
        raise FootprintError(
            f"None of the {n_out:,} footprints{of and f' of {of}'} touches the area of interest (AOI).",
            "Choose footprints of that area, or take the AOI away first.",
            kind="outside",
        )
    note = f"{n_out} footprint(s) lie outside the area of interest (AOI) and were left out."
    return table.without(~is_inside, OUTSIDE, note)
