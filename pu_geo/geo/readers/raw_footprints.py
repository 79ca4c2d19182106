"""What every reader of footprint files returns: features as they are in the file, in its own CRS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError

OUTSIDE_SCENES = "outside the scenes"  # why a footprint was left out, as accounts of files name it


@dataclass(frozen=True)
class RawFootprints:
    """Features of one file in its own CRS.

    Attributes:
        geometries: shapely geometries [N]; None where a feature has none.
        is_unreadable: bool [N]; the feature has a geometry that is not valid GeoJSON, WKT or WKB.
        attributes: as in the file, one dict each.
        feature_ids: the file's own feature ids, None where absent.
        crs: "EPSG:n", "OGC:CRS84" or WKT.
    """

    geometries: NDArray[np.object_]
    is_unreadable: NDArray[np.bool_]
    attributes: Sequence[Mapping[str, object]]
    feature_ids: Sequence[object]
    crs: str


def from_values(
    parse: Callable[..., NDArray[np.object_]],
    values: Sequence[str | bytes | None],
    attributes: Sequence[Mapping[str, object]],
    crs: str,
    feature_ids: Sequence[object] | None = None,
) -> RawFootprints:
    """Parse the geometries of features, None where one has none.

    Args:
        parse: `shapely.from_wkb`, `from_wkt` or `from_geojson`.
    """
    given = np.array(values, dtype=object)
    with np.errstate(all="ignore"):  # a signaling NaN, 1e999; coordinates that are not finite are dropped and counted later
        geometries = np.asarray(parse(given, on_invalid="ignore"))
    is_given = np.array([value is not None for value in values], dtype=np.bool_)
    return RawFootprints(
        geometries, is_given & shapely.is_missing(geometries), attributes, feature_ids or [None] * len(given), crs
    )


def joined(parts: Sequence[RawFootprints]) -> RawFootprints:
    """Join the features of several files of one coordinate system, at least one."""
    return RawFootprints(
        np.concatenate([part.geometries for part in parts]),
        np.concatenate([part.is_unreadable for part in parts]),
        [row for part in parts for row in part.attributes],
        [number for part in parts for number in part.feature_ids],
        parts[0].crs,
    )


def broken(name: str, why: str, hint: str = "Export the file again.", kind: str = "parse") -> FootprintError:
    """Return the error for a footprint file that cannot be read."""
    return FootprintError(f"{name} cannot be read as footprints: {why}.", hint, kind=kind)
