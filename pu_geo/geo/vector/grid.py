"""A regular grid of squares in place of building footprints, where no buildings are mapped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import compress

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo.readers.raw_footprints import OUTSIDE_SCENES
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.footprints import ground_area
from pu_geo.geo.vector.sites import area_of
from pu_geo.records import FootprintTable, Grid, Scene

MIN_CELL_PX = 8  # a smaller square shows nothing that could be judged
MAX_CELLS = 500_000
_EDGE_PX = 0.01  # a cell may stick out of the scenes by less: rounding of coordinates


def grid_table(grid: Grid, post_scenes: Sequence[Scene], size_m: float) -> FootprintTable:
    """Cover the post scenes with squares, from north to south, then west to east; only whole squares inside them count.

    Of several sites, one after the other, each in its own system; ids of one that is not the project's name its site.

    Edges are whole multiples of the size in metres of the project grid, as in `areas.grid_cells`. In a system of metres such
    as UTM a cell so keeps its id and its outline when scenes are added later. Id 30mN8000E1000 begins 8000 cells north and
    1000 cells east of 0, 0.

    Args:
        size_m: side of a square, metres on the ground; at least 8 pixels.

    Returns:
        Squares in the project CRS, source "grid"; those that reach out of the scenes are counted as dropped.

    Raises:
        FootprintError: kind "size" if squares of this size cannot be judged, are too many, or none lies inside.
    """
    if not post_scenes:
        raise ImageryError("There is no post scene to lay a grid over.", "Add a post scene.", kind="empty")
    _check_size(grid, size_m)
    of_places = _squares_of_sites if grid.sites else _squares_in
    ids, boxes, inside = of_places(grid, post_scenes, size_m)
    if not inside.any():
        problem = f"No square of {size_m:g} m lies whole inside the post scenes."
        raise FootprintError(problem, "Choose a smaller size.", kind="size")
    kept, n_out = boxes[inside], int((~inside).sum())
    return FootprintTable(
        building_ids=list(compress(ids, inside)),
        wkb=list(shapely.to_wkb(kept, byte_order=1)),
        area_m2=ground_area(kept, grid),
        attributes=[{"cell_m": size_m} for _ in kept],
        source="grid",
        n_in=len(boxes),
        n_repaired=0,
        n_dropped=n_out,
        notes=(f"{n_out} squares at the border reach out of the post scenes and were left out.",) if n_out else (),
        dropped={OUTSIDE_SCENES: n_out} if n_out else {},
    )


def _squares_of_sites(
    grid: Grid, post_scenes: Sequence[Scene], size_m: float
) -> tuple[list[str], NDArray[np.object_], NDArray[np.bool_]]:  # fmt: skip
    """Do what `_squares_in` does with each site; outlines in the project CRS."""
    ids, boxes, inside = list[str](), [], []
    for site in grid.sites:
        scenes = [scene for scene in post_scenes if scene.scene_id in site.scenes]
        own, squares_there, is_inside = _squares_in(site, scenes, size_m)
        ids += own if site.crs == grid.crs else [f"{one} {site.name}" for one in own]
        boxes.append(shapely.transform(squares_there, partial(systems.to_project, source=site.crs, grid=grid)))
        inside.append(is_inside)
    return ids, np.concatenate(boxes), np.concatenate(inside)


def _squares_in(
    site: Grid, scenes: Sequence[Scene], size_m: float
) -> tuple[list[str], NDArray[np.object_], NDArray[np.bool_]]:  # fmt: skip
    """Return ids and outlines of the squares of one site in its own system, and which lie whole inside its scenes."""
    side = size_m / np.array([site.x_unit_m, site.y_unit_m])
    a, _, c, _, e, f = site.transform
    x0, y0 = np.floor(np.array([c, f + e * site.height]) / side).astype(np.int64)
    x1, y1 = np.ceil(np.array([c + a * site.width, f]) / side).astype(np.int64)
    rows, cols = np.arange(y1 - 1, y0 - 1, -1), np.arange(x0, x1)
    north, east = (index.ravel() for index in np.meshgrid(rows, cols, indexing="ij"))
    ids, boxes = squares(north, east, size_m, site)
    covered = area_of(scenes, site.crs, _EDGE_PX * a)  # so that no slit is left between scenes that adjoin
    shapely.prepare(covered)
    return ids, boxes, np.asarray(shapely.contains(covered, boxes))


def squares(
    north: NDArray[np.int64], east: NDArray[np.int64], size_m: float, grid: Grid
) -> tuple[list[str], NDArray[np.object_]]:
    """Return ids and outlines, project CRS, of squares that begin so many of their sides north and east of 0, 0."""
    x, y = size_m / grid.x_unit_m, size_m / grid.y_unit_m
    ids = [f"{size_m:g}mN{n}E{e}" for n, e in zip(north.tolist(), east.tolist(), strict=True)]
    return ids, np.asarray(shapely.box(east * x, north * y, (east + 1) * x, (north + 1) * y))


def _check_size(grid: Grid, size_m: float) -> None:
    """Refuse sizes at which a square shows nothing, or there would be too many of them."""
    gsd_m = max(site.gsd_m for site in grid.parts)
    smallest = MIN_CELL_PX * gsd_m
    area_m2 = sum(site.width * site.height * site.gsd_m**2 for site in grid.parts)
    if not (math.isfinite(size_m) and size_m >= smallest):
        raise FootprintError(
            f"Squares of {size_m:g} m are too small to judge in pixels of {gsd_m:.3g} m; "
            f"they need {MIN_CELL_PX} pixels, {smallest:.3g} m.",
            "Choose about the size of a house with its yard, such as 30 m.",
            kind="size",
        )
    if area_m2 / size_m**2 > MAX_CELLS:
        raise FootprintError(
            f"Squares of {size_m:g} m over these scenes would be about {area_m2 / size_m**2:,.0f}; "
            f"up to {MAX_CELLS:,} can be mapped.",
            f"Choose at least {math.ceil(math.sqrt(area_m2 / MAX_CELLS))} m.",
            kind="size",
        )
