"""How much of each building, and of its window, lies beyond the borders of the scenes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.raster.placement import border_in
from pu_geo.records import Grid, Scene


def outside_shares(windows: NDArray[np.float64], scenes: Sequence[Scene], grid: Grid) -> NDArray[np.float32]:
    """Return the share of each window that lies beyond all scenes, float32 [N], 0..1; what they show there does not matter.

    Args:
        windows: float64 [N, 4]: column, row, width, height in grid pixels.
        scenes: of one date.
    """
    low, high = windows[:, :2], windows[:, :2] + windows[:, 2:]
    return shares_outside(shapely.box(low[:, 0], low[:, 1], high[:, 0], high[:, 1]), scenes, grid)


def shares_outside(shapes: NDArray[np.object_], scenes: Sequence[Scene], grid: Grid) -> NDArray[np.float32]:
    """Return the share of each shape, in grid pixels, that lies beyond all scenes of a date, float32 [N], 0..1."""
    borders = [shapely.make_valid(shapely.Polygon(grid.to_px(border_in(scene, grid.crs)))) for scene in scenes]
    covered = shapely.union_all(borders)
    shapely.prepare(covered)
    share = np.zeros(len(shapes), dtype=np.float32)
    crosses = np.flatnonzero(~shapely.contains_properly(covered, shapes))  # few do, and only they need to be cut
    crossing = shapely.make_valid(shapes[crosses])
    inside = shapely.area(shapely.intersection(crossing, covered)) / np.maximum(shapely.area(crossing), 1e-9)
    share[crosses] = np.clip(1 - inside, 0, 1)
    return share
