"""Maps of projects without a place on the Earth: which formats may carry them, and the words that go with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ImageryError
from pu_geo.geo.vector import crs as systems

LOCAL_FORMATS = ("gpkg", "csv")
COORDINATES = (
    "Local coordinates in meters from the upper left corner of the post picture, x to the right, y up. "
    "Not WGS 84: this map has no place on the Earth."
)


def check_coordinates(crs: str, formats: Sequence[str], *, local: bool) -> None:
    """Refuse an export that would be taken for a map of some place on the Earth.

    Args:
        crs: of the project.
        local: whether a person said that the map shall leave the house in local coordinates.

    Raises:
        ImageryError: kind "local" in a project without a place, unless `local` and a format that can say so; and where `local`
            is asked of a project that has a place.
    """
    if not systems.is_local(crs):
        if local:
            raise ImageryError(
                "This project has a place on the Earth; its maps are written in longitude and latitude.",
                "Leave local coordinates away.",
                kind="local",
            )
        return
    check_format(crs, *formats)
    if not local:
        raise ImageryError(
            "This project has no place on the Earth, so its map cannot be laid over others.",
            "Say that you want it nevertheless, in local meters: tick Local coordinates, or add --local-coordinates.",
            kind="local",
        )


def check_format(crs: str, *formats: str) -> None:
    """Refuse formats that readers take for longitude and latitude, whatever is written beside."""
    wrong = [name for name in formats if name not in LOCAL_FORMATS]
    if systems.is_local(crs) and wrong:
        raise ImageryError(
            f"A map without a place on the Earth cannot be written as {', '.join(wrong)}: its readers expect longitude and "
            "latitude, and would put it somewhere else.",
            f"Choose {' or '.join(LOCAL_FORMATS)}.",
            kind="local",
        )


def local_xy(wkb: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of footprint centroids in local meters, float64 [N] each, rounded to centimeters."""
    centroids = shapely.centroid(shapely.from_wkb(np.array(list(wkb), dtype=object)))
    return np.round(shapely.get_x(centroids), 2), np.round(shapely.get_y(centroids), 2)


def local_shapes(wkb: Sequence[bytes]) -> NDArray[np.object_]:
    """Return footprints in local meters as they are, shapely [N], two-dimensional."""
    return np.asarray(shapely.force_2d(shapely.from_wkb(np.array(list(wkb), dtype=object))))
