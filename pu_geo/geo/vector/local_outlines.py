"""Outlines for projects without a place on the Earth: in pixels of the post picture, x to the right and y down, as xBD's "xy"."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Grid

CONVENTION = "in pixels of the post picture: x to the right, y down, 0, 0 its upper left corner"


def from_pixels(shapes: NDArray[np.object_], crs: str, name: str, grid: Grid) -> NDArray[np.object_]:
    """Turn outlines in pixels of the post picture into local meters; None stays None.

    Args:
        shapes: shapely [N], x to the right and y down.
        crs: what the file says they are in; anything but `systems.LOCAL` is refused.
        name: of the file, for messages.

    Raises:
        FootprintError: kind "local" if they are in a system on the Earth, or look like degrees; "outside" if all of them lie
            beside the picture.
    """
    if not systems.is_local(crs):
        raise FootprintError(
            f"{name} is in {crs[:40]}, and this project has no place on the Earth.",
            f"Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="local",
        )
    x0, y0, x1, y1 = shapely.bounds(shapes[~shapely.is_missing(shapes)]).T
    if len(x0) and np.median(np.maximum(x1 - x0, y1 - y0)) < 1:
        raise FootprintError(
            f"Most outlines in {name} are smaller than a pixel; they look like degrees of longitude and latitude.",
            f"This project has no place on the Earth. Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="local",
        )
    if len(x0) and not ((x1 > 0) & (x0 < grid.width) & (y1 > 0) & (y0 < grid.height)).any():
        raise FootprintError(
            f"None of the outlines in {name} lies on the post picture of {grid.width} x {grid.height} pixels. They are at "
            f"x {x0.min():.6g} to {x1.max():.6g}, y {y0.min():.6g} to {y1.max():.6g}.",
            f"This project has no place on the Earth. Give outlines {CONVENTION}; or lay a grid of cells.",
            kind="outside",
        )
    a, _, c, _, e, f = grid.transform
    return np.asarray(shapely.transform(shapes, lambda xy: np.stack([c + a * xy[:, 0], f + e * xy[:, 1]], axis=-1)))
