"""Footprints as exports carry them: WGS 84 degrees, seven decimals, valid, in one turn around the earth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import shapely
import shapely.affinity
from numpy.typing import NDArray

from pu_geo.geo.vector import crs as systems

DECIMALS = 7
GRID_DEG = 10.0**-DECIMALS
_POLYGON = 3


def to_crs84(wkb: Sequence[bytes], crs: str) -> NDArray[np.object_]:
    """Return footprints as RFC 7946 wants them, shapely [N]: degrees rounded to 7 decimals, valid, split at 180 degrees.

    What becomes empty by rounding (under a centimeter wide) comes back as None.
    """
    shapes = np.asarray(shapely.from_wkb(np.array(list(wkb), dtype=object)))
    if shapely.has_z(shapes).any():
        shapes = shapely.force_2d(shapes)
    places = systems.to_lonlat(shapely.get_coordinates(shapes), crs)
    placed = _split_at_antimeridian(shapely.set_coordinates(shapes, places))
    rounded = _round(placed)
    rows = np.flatnonzero(~shapely.is_valid(rounded) | shapely.is_empty(rounded))
    if len(rows):
        rounded[rows] = [_settle(shape) for shape in placed[rows]]
    return rounded


def _round(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    return np.asarray(shapely.set_coordinates(shapes.copy(), np.round(shapely.get_coordinates(shapes), DECIMALS)))


def _settle(shape: shapely.Geometry) -> shapely.Geometry | None:
    """Snap a polygon to the 7-decimal grid so that it is valid there; None where nothing of it is left."""
    shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    for _ in range(4):
        shape = _polygons(shapely.set_precision(shape, GRID_DEG))
        if shapely.is_empty(shape):
            return None
        shape = _round(np.array([shape]))[0]
        if shapely.is_valid(shape):
            return shape
        shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    return None


def _polygons(shapes: object) -> shapely.Geometry:
    """Return the polygons of shapes as one shape, a multipolygon unless there is just one."""
    parts = shapely.get_parts(shapely.get_parts(shapes))
    parts = parts[(shapely.get_type_id(parts) == _POLYGON) & ~shapely.is_empty(parts)]
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)


def _split_at_antimeridian(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    """Move longitudes into -180..180 and cut polygons that cross 180 degrees in two."""
    x0, _, x1, _ = shapely.bounds(shapes).T
    out = shapes.copy()
    for i in np.flatnonzero((x1 - x0 > 180) | (x0 < -180) | (x1 > 180)):
        first = float(shapely.get_coordinates(shapes[i])[0, 0]) % 360.0
        joined = shapely.make_valid(
            shapely.transform(shapes[i], lambda x, y, at=first: (systems.near_longitude(x, at), y), interleaved=False)
        )
        turns = [
            shapely.intersection(joined, shapely.box(360.0 * k - 180.0, -90.0, 360.0 * k + 180.0, 90.0)) for k in (-1, 0, 1)
        ]
        moved = [shapely.affinity.translate(turn, -360.0 * k) for turn, k in zip(turns, (-1, 0, 1), strict=True)]
        out[i] = _polygons(moved)
    return out


def geojson_of(shapes: NDArray[np.object_]) -> list[dict[str, Any] | None]:
    """Return GeoJSON geometries [N] after RFC 7946: outer rings counter-clockwise, holes clockwise; None stays None.

    Read back from GEOS' text, which does not always have the shortest decimals; a multipolygon of one part becomes a
    polygon.
    """
    is_one = shapely.get_num_geometries(shapes) == 1
    alone = np.where(is_one, shapely.get_geometry(shapes, 0), shapes)
    return [text and orjson.loads(text) for text in shapely.to_geojson(shapely.orient_polygons(alone))]


def extent(bounds: Sequence[NDArray[np.float64]]) -> list[float] | None:
    """Return [west, south, east, north] of parts of shapes, or None if there are none.

    West > east where they cross the antimeridian (RFC 7946, 5.2).

    Args:
        bounds: float64 [n, 4] each, degrees, as `part_bounds` returns them.
    """
    x0, y0, x1, y1 = np.concatenate([np.zeros((0, 4)), *bounds]).T
    if len(x0) == 0:
        return None
    west, east = x0.min(), x1.max()
    if east - west > 180:
        west, east = (x0 % 360.0).min(), np.where(x1 > 0, x1, x1 + 360.0).max() - 360.0
    return [round(float(v), DECIMALS) for v in (west, y0.min(), east, y1.max())]


def part_bounds(shapes: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return the bounds of each part of shapes in degrees, float64 [n, 4]; None has none."""
    return np.asarray(shapely.bounds(shapely.get_parts(shapes)))
