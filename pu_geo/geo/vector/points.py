"""Where labels of a file lie: GeoJSON points, the buildings of an exported damage map, and which footprint is meant by
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.errors import LabelError
from pu_geo.geo.vector import crs as systems
from pu_geo.records import FootprintTable, Grid

NEAR_M = 5.0  # a point this near to an outline agrees with an id that a file brought itself
EXACT_M = 1.0  # a point this near to where our exports put a building's point agrees with any id
How = Literal["id", "position", "elsewhere", "not known"]
Placed = tuple[str | None, How]


def read_points(path: Path, crs: str) -> tuple[NDArray[np.float64], list[Mapping[str, object]]]:
    """Read the point features of a GeoJSON file.

    Args:
        path: GeoJSON FeatureCollection in longitude/latitude (EPSG:4326).

    Returns:
        coordinates in the project CRS, float64 [N, 2], and the properties of each point.

    Raises:
        LabelError: if it is no GeoJSON of points, or a coordinate is no longitude/latitude.
    """
    try:
        document = orjson.loads(path.read_bytes())
        features = document["features"]
        features = [feature for feature in features if feature["geometry"] is not None]
        lonlat = np.array([feature["geometry"]["coordinates"][:2] for feature in features], dtype=np.float64)
        kinds = {feature["geometry"]["type"] for feature in features}
    except (ValueError, KeyError, TypeError) as error:
        raise LabelError(
            f"{path.name} is not a GeoJSON FeatureCollection of points.",
            "Save it as GeoJSON points in EPSG:4326, or as a CSV with the columns building_id,label.",
            kind="parse",
        ) from error
    if kinds - {"Point"}:
        raise LabelError(
            f"{path.name} holds {', '.join(sorted(kinds))}; labels are imported from points.", "Export the points alone."
        )
    lonlat = lonlat.reshape(-1, 2)
    if not (np.isfinite(lonlat).all() and (abs(lonlat) <= [180, 90]).all()):
        raise LabelError(
            f"{path.name} has coordinates that are no longitude and latitude.", "Save it in EPSG:4326.", kind="bounds"
        )
    if systems.is_local(crs):
        raise LabelError(
            f"{path.name} holds points in longitude and latitude, and this project has no place on the Earth.",
            "Import a CSV with the columns building_id and label.",
            kind="local",
        )
    return systems.convert(lonlat, systems.LONLAT, crs), [feature.get("properties") or {} for feature in features]


def read_exported_map(path: Path) -> tuple[list[Mapping[str, object]], NDArray[np.float64]] | None:
    """Read the buildings of an exported damage map.

    Returns:
        The properties of each; and a point inside each, float64 [N, 2], longitude and latitude, NaN where it has no outline.
        None if the file is no damage map.
    """
    try:
        document = orjson.loads(path.read_bytes())
        if not isinstance(document.get("pu_geo"), dict):
            return None
        features = [feature for feature in document["features"] if feature["properties"].get("building_id")]
        texts = [orjson.dumps(feature.get("geometry")).decode() for feature in features]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    shapes = shapely.from_geojson(np.array(texts, dtype=object), on_invalid="ignore")
    inside = shapely.point_on_surface(np.asarray(shapes, dtype=object))
    lonlat = np.stack([shapely.get_x(inside), shapely.get_y(inside)], axis=-1).reshape(-1, 2)
    return [feature["properties"] for feature in features], lonlat


def into_project(lonlat: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    """Return points given in longitude and latitude in the project CRS, float64 [N, 2]; NaN stays."""
    xy = np.full(lonlat.shape, np.nan)
    known = np.isfinite(lonlat).all(axis=1)
    xy[known] = systems.to_project(lonlat[known], systems.LONLAT, grid)
    return xy


def find_footprints(
    table: FootprintTable, is_made_up: NDArray[np.bool_], grid: Grid, ids: Sequence[str], xy: NDArray[np.float64]
) -> list[Placed]:
    """Find the footprint of a project that each row of a label file means, by id and by position.

    Args:
        is_made_up: bool [N], the id was given by a PU-Geo project and is worth nothing by itself.
        ids: what the file calls the buildings, "" where it has no name.
        xy: where they lie, project CRS, float64 [M, 2]; NaN where the file has none.

    Returns:
        The building and how it was found: by its id, with which the position agrees or which is the file's own where no
        position is known; by position, because the id is missing here or names another building; None, "elsewhere" where
        neither agrees, and None, "not known" for an id that was made up and comes without a position.
    """
    unit_m = np.array([grid.x_unit_m, grid.y_unit_m])
    outlines = shapely.from_wkb(np.array(list(table.wkb), dtype=object))
    shapes = np.asarray(shapely.transform(outlines, lambda xy: xy * unit_m))
    points = shapely.points(xy * unit_m)
    points[~np.isfinite(xy).all(axis=1)] = None
    row_of = {building: i for i, building in enumerate(table.building_ids)}
    named = np.array([row_of.get(building, len(shapes)) for building in ids], dtype=np.int64)
    own, own_is_made_up = np.append(shapes, [None])[named], np.append(is_made_up, False)[named]
    away_m = shapely.distance(own, points)
    from_ours_m = [shapely.distance(point_of(own), points) for point_of in (shapely.centroid, shapely.point_on_surface)]
    # Row houses are a few metres wide, so a made-up id needs more than to be near.
    agrees = (away_m == 0) | (np.fmin(*from_ours_m) <= EXACT_M) | (~own_is_made_up & (away_m <= NEAR_M))
    tree = shapely.STRtree(shapes)
    row, hit = tree.query(points, predicate="intersects")
    by_area = np.argsort(shapely.area(shapes[hit]), kind="stable")[::-1]  # the smallest comes last, and stays
    around = dict(zip(row[by_area].tolist(), hit[by_area].tolist(), strict=True))
    row, hit = tree.query_nearest(points, max_distance=NEAR_M, all_matches=False)
    near = dict(zip(row.tolist(), hit.tolist(), strict=True))
    found: list[Placed] = []
    for i, building in enumerate(ids):
        there = around.get(i, near.get(i) if building else None)
        if points[i] is None:
            found.append((None, "not known") if own_is_made_up[i] else (building, "id") if building else (None, "elsewhere"))
        elif agrees[i]:
            found.append((building, "id"))
        else:
            found.append((None, "elsewhere") if there is None else (table.building_ids[there], "position"))
    return found
