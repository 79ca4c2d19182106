"""Read labels from GeoJSON: points into the project CRS, or the buildings of a damage map that was exported here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.errors import LabelError
from pu_geo.geo import crs as systems


def read_points(path: Path, crs: str) -> tuple[NDArray[np.float64], list[Mapping[str, object]]]:
    """Read the point features of a GeoJSON file.

    Args:
        path: GeoJSON FeatureCollection in longitude/latitude (EPSG:4326).
        crs: the project CRS.

    Returns:
        coordinates in the project CRS, float64 [N, 2], and the properties of each point.

    Raises:
        LabelError: if it is no GeoJSON of points, or a coordinate is no longitude/latitude.
    """
    try:
        document = orjson.loads(path.read_bytes())
        features = document["features"]
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


def read_exported_map(path: Path) -> list[Mapping[str, object]] | None:
    """Return the properties of each building of an exported damage map; None if the file is none."""
    try:
        document = orjson.loads(path.read_bytes())
        if not isinstance(document.get("pu_geo"), dict):
            return None
        return [feature["properties"] for feature in document["features"] if feature["properties"].get("building_id")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
