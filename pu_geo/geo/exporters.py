"""Damage maps as files for other people's programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.geo import crs as systems
from pu_geo.records import DamageMap

DECIMALS = 7
GRID_DEG = 10.0**-DECIMALS
FEATURES_PER_WRITE = 2000
_POLYGON = 3


def lonlat(wkb: Sequence[bytes], crs: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return longitudes and latitudes of footprint centroids, float64 [N] each, degrees WGS 84, rounded to 6 decimals.

    Args:
        wkb: footprints in `crs`, "EPSG:n" or WKT.
    """
    centroids = shapely.centroid(shapely.from_wkb(np.array(list(wkb), dtype=object)))
    place = systems.to_lonlat(np.stack([shapely.get_x(centroids), shapely.get_y(centroids)], axis=-1).reshape(-1, 2), crs)
    lon = np.round(systems.near_longitude(place[:, 0], 0.0), 6)
    return lon, np.round(place[:, 1], 6)


def to_crs84(wkb: Sequence[bytes], crs: str) -> NDArray[np.object_]:
    """Return footprints as RFC 7946 wants them, shapely [N]: degrees rounded to 7 decimals, valid, split at 180 degrees.

    What becomes empty by rounding (under a centimeter wide) comes back as None.
    """
    polygons = shapely.force_2d(shapely.from_wkb(np.array(list(wkb), dtype=object)))
    placed = np.asarray(shapely.transform(polygons, lambda xy: systems.to_lonlat(xy, crs)))
    placed = _split_at_antimeridian(placed)
    rounded = _round(placed)
    rows = np.flatnonzero(~shapely.is_valid(rounded) | shapely.is_empty(rounded))
    if len(rows):
        rounded[rows] = [_settle(shape) for shape in placed[rows]]
    return rounded


def _round(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    return np.asarray(shapely.transform(shapes, lambda xy: np.round(xy, DECIMALS)))


def _settle(shape: shapely.Geometry) -> shapely.Geometry | None:
    """Snap a polygon to the 7-decimal grid so that it is valid there; None where nothing of it is left."""
    shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    for _ in range(4):
        shape = shapely.set_precision(shape, GRID_DEG)
        parts = shapely.get_parts(shapely.get_parts(shape))
        parts = parts[(shapely.get_type_id(parts) == _POLYGON) & ~shapely.is_empty(parts)]
        if len(parts) == 0:
            return None
        shape = _round(np.array([parts[0] if len(parts) == 1 else shapely.multipolygons(parts)]))[0]
        if shapely.is_valid(shape):
            return shape
        shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    return None


def _split_at_antimeridian(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    """Bring longitudes into -180..180 and cut polygons that cross 180 degrees in two."""
    x0, _, x1, _ = shapely.bounds(shapes).T
    if not ((x1 - x0 > 180) | (x0 < -180) | (x1 > 180)).any():
        return shapes
    out = shapes.copy()
    for i in np.flatnonzero((x1 - x0 > 180) | (x0 < -180) | (x1 > 180)):
        first = float(shapely.get_coordinates(shapes[i])[0, 0]) % 360.0
        joined = shapely.transform(
            shapes[i], lambda xy, at=first: np.stack([systems.near_longitude(xy[:, 0], at), xy[:, 1]], axis=-1)
        )
        joined = shapely.make_valid(joined)
        parts = [_cut_out_turn(joined, west) for west in (-540.0, -180.0, 180.0)]
        polygons = [p for part in parts for p in shapely.get_parts(part) if shapely.get_type_id(p) == _POLYGON]
        polygons = [p for p in polygons if not shapely.is_empty(p)]
        out[i] = polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)
    return out


def _cut_out_turn(shape: shapely.Geometry, west: float) -> shapely.Geometry:
    """Return what lies between `west` and 360 degrees further, moved into -180..180."""
    inside = shapely.intersection(shape, shapely.box(west, -90.0, west + 360.0, 90.0))
    return shapely.transform(inside, lambda xy: xy - np.array([west + 180.0, 0.0]))


def _geometry_json(shapes: NDArray[np.object_]) -> list[dict[str, object] | None]:
    """Return GeoJSON geometries [N], outer rings counter-clockwise, holes clockwise; None stays None."""
    parts, of_shape = shapely.get_parts(shapes, return_index=True)
    rings, of_part = shapely.get_rings(parts, return_index=True)
    is_outer = np.r_[True, of_part[1:] != of_part[:-1]] if len(rings) else np.zeros(0, dtype=bool)
    rings = np.where(shapely.is_ccw(rings) == is_outer, rings, shapely.reverse(rings))
    xy = shapely.get_coordinates(rings)
    n_points = shapely.get_num_coordinates(rings)
    ends = np.cumsum(n_points)
    polygons: list[list[NDArray[np.float64]]] = [[] for _ in parts]
    for start, end, part in zip(ends - n_points, ends, of_part, strict=True):
        polygons[part].append(xy[start:end])
    per_shape: list[list[list[NDArray[np.float64]]]] = [[] for _ in shapes]
    for polygon, shape in zip(polygons, of_shape, strict=True):
        per_shape[shape].append(polygon)
    out: list[dict[str, object] | None] = []
    for found in per_shape:
        if len(found) > 1:
            out.append({"type": "MultiPolygon", "coordinates": found})
        else:
            out.append({"type": "Polygon", "coordinates": found[0]} if found else None)
    return out


def _bbox(shapes: NDArray[np.object_]) -> list[float] | None:
    """Return [west, south, east, north]; west > east where the map crosses the antimeridian (RFC 7946, 5.2)."""
    parts = shapely.get_parts(shapes)
    if len(parts) == 0:
        return None
    x0, y0, x1, y1 = shapely.bounds(parts).T
    west, east = x0.min(), x1.max()
    if east - west > 180:
        west, east = (x0 % 360.0).min(), np.where(x1 > 0, x1, x1 + 360.0).max() - 360.0
    return [round(float(v), DECIMALS) for v in (west, y0.min(), east, y1.max())]


def _plain(column: Sequence[object]) -> list[object]:
    """Return a column as plain Python values; numbers that are not finite are written as null later."""
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _features(damage_map: DamageMap, geometries: Sequence[dict[str, object] | None]) -> Iterator[dict[str, object]]:
    names = [name for name in damage_map.columns if name != "building_id"]
    columns = [_plain(damage_map.columns[name]) for name in names]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(geometries))
    for building_id, geometry, values in zip(damage_map.building_ids, geometries, rows, strict=True):
        properties = {"building_id": building_id, **dict(zip(names, values, strict=True))}
        yield {"type": "Feature", "id": building_id, "geometry": geometry, "properties": properties}


def export_geojson(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoJSON after RFC 7946; the file appears under its name only once it is complete.

    Longitude and latitude of WGS 84 (CRS84) without a `crs` member, outer rings counter-clockwise, at most 7 decimals,
    polygons split at the antimeridian and valid after rounding, null for numbers that are not finite, the metadata as
    foreign member `pu_geo`. A footprint that rounding leaves nothing of has a null geometry.

    Args:
        damage_map: its geometry in `grid_crs`.
        out: file to write; replaced if it exists.
    """
    shapes = to_crs84(damage_map.wkb, damage_map.grid_crs)
    head: dict[str, object] = {"type": "FeatureCollection", "pu_geo": dict(damage_map.metadata)}
    if bbox := _bbox(shapes):
        head["bbox"] = bbox
    features = list(_features(damage_map, _geometry_json(shapes)))
    pieces = (features[i : i + FEATURES_PER_WRITE] for i in range(0, len(features), FEATURES_PER_WRITE))
    options = orjson.OPT_SERIALIZE_NUMPY

    def lines() -> Iterator[bytes]:
        yield orjson.dumps(head, option=options)[:-1] + b',"features":['
        for i, piece in enumerate(pieces):
            yield (b",\n" if i else b"\n") + b",\n".join(orjson.dumps(feature, option=options) for feature in piece)
        yield b"\n]}\n"

    write_whole(out, lines())


def write_whole(out: Path, pieces: Iterator[bytes]) -> None:
    """Write pieces beside `out`, force them to disk, then give the file its name; nothing is left behind on failure."""
    beside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)


EXPORTERS: dict[str, Callable[[DamageMap, Path], None]] = {"geojson": export_geojson}
