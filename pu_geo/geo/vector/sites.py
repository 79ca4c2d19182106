"""The sites of an event: which of them a place belongs to, and where it lies in the pixels of the project.

Each site has a grid of its own in a coordinate system of its own; outlines and places are stored in that of the project.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ImageryError
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Affine6, Grid, Scene

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEAR_M = 5_000.0  # scenes with less between them are one site: about the width of a town
GAP_PX = 1024  # rows between two sites, and what their first rows are multiples of
_BEYOND_PX = 512  # what lies further from its site has no pixel there, which another site could have
_DECIMALS = 6  # of pixels, where coordinates went from one system to another and back


def site_of(xy: Floats, grid: Grid) -> Ints:
    """Return the number of the site that places belong to, int64 [N]: one deepest inside whose post scenes they lie, or
    the nearest; -1 where all are 5 km off or more. 0 for each place in a project of one site.

    Args:
        xy: float64 [N, 2], project CRS.
    """
    found, nearest = np.full(len(xy), -1 if grid.sites else 0), np.full(len(xy), NEAR_M)
    for k, site in enumerate(grid.sites):
        px = _own_px(xy, grid, site)
        for box in np.array(site.boxes):
            off = np.maximum(box[:2] - px, px - box[2:]).max(axis=1) * site.gsd_m
            is_nearer = off < nearest  # never of what has no place there
            found[is_nearer], nearest[is_nearer] = k, off[is_nearer]
    return found


def to_px(xy: Floats, grid: Grid) -> Floats:
    """Turn places of the project CRS into (column, row) in the pixels of the project, float64 [N, 2]; NaN far from all
    sites.
    """
    if not grid.sites:
        return grid.to_px(xy)
    of, px = site_of(xy, grid), np.full(xy.shape, np.nan)
    for k, site in enumerate(grid.sites):
        px[of == k] = _own_px(xy[of == k], grid, site) + np.array([0, site.row])
    return px


def in_px(shapes: NDArray[np.object_], grid: Grid) -> NDArray[np.object_]:
    """Return shapes of the project CRS in the pixels of the project; all of a shape is in the pixels of one site.

    A shape far beyond its site lies to the right of all sites, where there is no imagery.
    """
    if not grid.sites:
        return np.asarray(shapely.transform(shapes, grid.to_px))
    found = np.array(shapes, dtype=object)
    bounds = shapely.bounds(found).reshape(-1, 4)
    of = np.maximum(site_of((bounds[:, :2] + bounds[:, 2:]) / 2, grid), 0)  # far from all, so far from the first one
    for k in np.unique(of).tolist():
        site, rows = grid.sites[k], np.flatnonzero(of == k)
        own = shapely.transform(found[rows], lambda xy, site=site: _own_px(xy, grid, site))
        x0, y0, x1, y1 = shapely.bounds(own).T
        is_near = (x1 > -_BEYOND_PX) & (y1 > -_BEYOND_PX) & (x0 < site.width + _BEYOND_PX) & (y0 < site.height + _BEYOND_PX)
        away = np.where(is_near, 0.0, grid.width + _BEYOND_PX + np.maximum(-x0, 0))
        xy, of_shape = shapely.get_coordinates(own, return_index=True)
        found[rows] = shapely.set_coordinates(own, xy + np.stack([away, np.full(len(away), site.row)], axis=1)[of_shape])
    return found


def _own_px(xy: Floats, grid: Grid, site: Grid) -> Floats:
    """Return places of the project CRS in pixels of a site, float64 [N, 2]."""
    px = site.to_px(systems.to_project(xy, grid.crs, site))
    return px if site.crs == grid.crs else np.round(px, _DECIMALS)


# Where scenes lie


def corners_of(affine: Affine6, width: int, height: int) -> NDArray[np.float64]:
    """Return the four outer corners in CRS units, float [4, 2], in order around the scene."""
    a, b, c, d, e, f = affine
    col, row = np.array([0.0, width, width, 0.0]), np.array([0.0, 0.0, height, height])
    return np.stack([a * col + b * row + c, d * col + e * row + f], axis=-1)


def border_in(scene: Scene, crs: str) -> NDArray[np.float64]:
    """Return the scene's border in another CRS, float [K, 2], with extra points where lines may bend.

    Raises:
        ImageryError: kind "bounds" if a part of it has no coordinates there.
    """
    corners = corners_of(scene.transform, scene.width, scene.height)
    if scene.crs == crs:
        return corners
    border = systems.convert(systems.outline(corners), scene.crs, crs)
    if not np.isfinite(border).all():
        raise ImageryError(
            f"Scene {scene.scene_id} ({scene.crs[:40]}) has no place in the project CRS ({crs[:40]}).",
            "Check that both scenes show the same region.",
            kind="bounds",
        )
    if systems.load_crs(crs).is_geographic:
        border[:, 0] = systems.near_longitude(border[:, 0], float(border[0, 0]))
    return border


def area_of(scenes: Sequence[Scene], crs: str, margin: float = 0.0) -> shapely.Geometry:
    """Return what scenes cover together, in a CRS, each of them grown by a margin in its unit; raises as `border_in`."""
    borders = [shapely.make_valid(shapely.Polygon(border_in(scene, crs))) for scene in scenes]
    return shapely.union_all(shapely.buffer(borders, margin) if margin else borders)


def area_px(scenes: Sequence[Scene], grid: Grid) -> shapely.Geometry:
    """Return what scenes cover together of each site, in the pixels of the project; raises as `border_in`."""
    if not grid.sites:
        return shapely.transform(area_of(scenes, grid.crs), grid.to_px)
    return shapely.union_all([_area_of_site(scenes, site, GAP_PX / 2) for site in grid.sites])


def sites_under(scene: Scene, grid: Grid) -> list[Grid]:
    """Return the grids of the sites that a scene's rectangle touches, that of which it covers most first."""
    found = [(_area_of_site([scene], site).area, site.alone) for site in grid.parts]
    return [site for area, site in sorted(found, key=lambda one: -one[0]) if area > 0]


def _area_of_site(scenes: Sequence[Scene], site: Grid, margin: float = 0.0) -> shapely.Geometry:
    """Return what scenes cover of a site, and of so many pixels around it, in the pixels of the project."""
    placed = shapely.transform(area_of(scenes, site.crs), lambda xy: site.to_px(xy) + np.array([0, site.row]))
    return shapely.intersection(placed, shapely.box(*np.array(site.span) + margin * np.array([-1, -1, 1, 1])))
