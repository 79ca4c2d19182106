"""Where scenes lie: the project grid that joins post scenes, and what of it, of buildings and of windows they cover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ImageryError
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.sites import GAP_PX, NEAR_M, area_of, area_px, border_in, corners_of, sites_under
from pu_geo.records import Affine6, Grid, Scene

MAX_PIXELS = 4_000_000_000
MAX_SIDE_PX = 500_000  # a row of map tiles as wide takes about 2.5 GB of memory, of 16 bits
MOST_PIXELS = f"up to {MAX_PIXELS:,} pixels, and {MAX_SIDE_PX:,} on a side,"
MOST_OBLONG = 1.5
MAX_GSD_RATIO = 20.0  # a warp reads the square of it for each pixel
ALIGNED_PX = 0.05  # a scene that is off the grid by less is read without resampling
_ROOM = 0.9  # of the limits: a rectangle in degrees is not quite that of the grid
_DEGREE_M = 111_320.0


def project_grid(post_scenes: Sequence[Scene], former: Grid | None = None, crs: str = "") -> Grid:
    """Join post scenes on a pixel grid for each site: the CRS and pixel size of its first scene, north-up, whole pixels.

    Scenes near enough for one grid are one site. A rotated first scene gives square pixels of its own size around its
    bounds; a south-up one is turned over.

    Args:
        former: the grid before, whose sites keep their names, and their scenes where a person chose these.
        crs: the project CRS; that of the first scene if "".

    Raises:
        ImageryError: kind "size" if a site is absurdly large; "bounds" if a scene has no place in the CRS of its site or of
            the project.
    """
    if not post_scenes:
        raise ImageryError("There is no post scene. A project needs at least one.", "Add a post scene.", kind="empty")
    parts = [_grid_of(scenes, name, is_named) for name, scenes, is_named in _sites(post_scenes, former)]
    first = parts[0]
    if len(parts) == 1 and crs in ("", first.crs):
        return first
    crs, row, sites = crs or first.crs, 0, list[Grid]()
    for part in parts:
        sites.append(replace(part, row=row))
        row += (math.ceil(part.height / GAP_PX) + 1) * GAP_PX
    for scene in post_scenes:
        border_in(scene, crs)
    whole = replace(
        first, crs=crs, crs_wkt=str(systems.load_crs(crs).to_wkt()), width=max(part.width for part in parts),
        height=sites[-1].row + sites[-1].height, sites=tuple(sites),
    )  # fmt: skip
    x, y = systems.middle_of(whole)[0].tolist()
    step = 1e-3 if systems.load_crs(crs).is_geographic else 100.0
    x_unit_m, y_unit_m = systems.unit_metres(crs, x, y, step)
    return replace(whole, x_unit_m=x_unit_m, y_unit_m=y_unit_m)


def at_places_of(before: Grid, scenes: Sequence[Scene]) -> Grid:
    """Return the grid of an event before as the former one of other scenes of it: each is of the site that it shows most
    of.
    """
    of = {scene.scene_id: sites[0].name for scene in scenes if (sites := sites_under(scene, before))}
    own = (replace(site, scenes=tuple(one for one in of if of[one] == site.name)) for site in before.parts)
    return replace(before, sites=tuple(own))


def _grid_of(scenes: Sequence[Scene], name: str, is_named: bool) -> Grid:
    first = scenes[0]
    a, e, x0, y1 = _north_up(first)
    boxes = np.array([shapely.MultiPoint(border_in(scene, first.crs)).bounds for scene in scenes])
    left = math.floor((boxes[:, 0].min() - x0) / a + ALIGNED_PX)
    right = math.ceil((boxes[:, 2].max() - x0) / a - ALIGNED_PX)
    top = math.floor((y1 - boxes[:, 3].max()) / -e + ALIGNED_PX)
    bottom = math.ceil((y1 - boxes[:, 1].min()) / -e - ALIGNED_PX)
    width, height = right - left, bottom - top
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise ImageryError(
            f"The post scenes of {name} span {width:,} x {height:,} pixels; {MOST_PIXELS} fit in a site.",
            "Cut them to the area that you map, or divide the site: `pu-geo sites PROJECT SCENES --name NEW`.",
            kind="size",
        )
    transform: Affine6 = (a, 0.0, x0 + left * a, 0.0, e, y1 + top * e)
    x, y = transform[2] + a * width / 2, transform[5] + e * height / 2
    x_unit_m, y_unit_m = systems.unit_metres(first.crs, x, y, max(a, -e) * min(width, height, 1000))
    wkt = str(systems.load_crs(first.crs).to_wkt())
    gsd_m = math.sqrt(a * x_unit_m * -e * y_unit_m)
    found = Grid(first.crs, wkt, transform, width, height, gsd_m, x_unit_m, y_unit_m, name, is_named)
    px = np.concatenate([found.to_px(boxes[:, [0, 3]]), found.to_px(boxes[:, [2, 1]])], axis=1)
    return replace(found, scenes=tuple(scene.scene_id for scene in scenes), boxes=tuple(map(tuple, px.tolist())))


def _sites(scenes: Sequence[Scene], former: Grid | None) -> list[tuple[str, list[Scene], bool]]:
    """Return name, post scenes and whether a person chose these, of each site, in the order of their first scenes.

    Source: single linkage (Florek et al. 1951), here as far as a grid may be large, and never of two sites of a person's.
    """
    before = {scene: site for site in (former.parts if former else ()) for scene in site.scenes}
    is_named = [scene.scene_id in before and before[scene.scene_id].is_named for scene in scenes]
    site_of = list(range(len(scenes)))  # the first scene of the same site
    for i, scene in enumerate(scenes):
        if is_named[i]:
            site_of[i] = next(k for k, other in enumerate(scenes) if other.scene_id in before[scene.scene_id].scenes)
    boxes = _lonlat_boxes(scenes)
    for _, i, k in _near_pairs(boxes):
        one, other = sorted((site_of[i], site_of[k]))
        if one == other or (is_named[one] and is_named[other]):
            continue
        if _fits(boxes[[n for n, of in enumerate(site_of) if of in (one, other)]], scenes[one].gsd_m):
            site_of = [one if of == other else of for of in site_of]
            is_named[one] |= is_named[other]
    found, taken = [], {site.name for site in before.values() if site.is_named}
    for first in sorted(set(site_of)):
        own = [scene for scene, of in zip(scenes, site_of, strict=True) if of == first]
        names = sorted((before[one.scene_id] for one in own if one.scene_id in before), key=lambda site: not site.is_named)
        name = next((site.name for site in names if site.is_named or site.name not in taken), "")
        known = {*taken, *(site.name for site in before.values())}
        name = name or next(free for n in count(1) if (free := f"Site {n}") not in known)
        taken.add(name)
        found.append((name, own, is_named[first]))
    return found


def _lonlat_boxes(scenes: Sequence[Scene]) -> NDArray[np.float64]:
    """Return the box of each scene in degrees, west, south, east and north, float64 [N, 4], and no jump at 180 degrees."""
    if systems.is_local(scenes[0].crs):
        return np.zeros((len(scenes), 4))
    found: list[list[float]] = []
    for scene in scenes:
        lonlat = systems.to_lonlat(border_in(scene, scene.crs), scene.crs)
        lonlat[:, 0] = systems.near_longitude(lonlat[:, 0], found[0][0] if found else lonlat[0, 0])
        found.append([*lonlat.min(axis=0), *lonlat.max(axis=0)])
    return np.array(found)


def _near_pairs(boxes: NDArray[np.float64]) -> list[tuple[float, int, int]]:
    """Return the distance in metres and the numbers of boxes that are near each other, the nearest first."""
    gaps = np.maximum(boxes[:, None, :2] - boxes[None, :, 2:], 0)
    gaps = np.maximum(gaps, gaps.transpose(1, 0, 2)) * _DEGREE_M
    gaps[..., 0] *= np.cos(np.radians(boxes[:, 1]))
    off = np.hypot(gaps[..., 0], gaps[..., 1])
    pairs = zip(*(side.tolist() for side in np.nonzero(np.triu(off <= NEAR_M, 1))), strict=True)
    return sorted((float(off[i, k]), i, k) for i, k in pairs)


def _fits(boxes: NDArray[np.float64], gsd_m: float) -> bool:
    """Return whether one grid can hold boxes, [N, 4] in degrees."""
    sides = (boxes[:, 2:].max(axis=0) - boxes[:, :2].min(axis=0)) * _DEGREE_M / gsd_m
    sides[0] *= math.cos(math.radians(boxes[0, 1]))
    return bool(sides.prod() < _ROOM * MAX_PIXELS and sides.max() < _ROOM * MAX_SIDE_PX)


def check_ratio(scene: Scene, grid: Grid) -> None:
    """Refuse a scene whose pixels are over 20 times smaller than the project's: all would be read for each pixel of the
    grid.

    Raises:
        ImageryError: kind "resolution".
    """
    ratio = grid.gsd_m / scene.gsd_m
    if ratio <= MAX_GSD_RATIO:
        return
    raise ImageryError(
        f"{Path(scene.path).name} has pixels of {scene.gsd_m:.3g} m, {ratio:,.0f} times smaller than the {grid.gsd_m:.3g} "
        f"m of the first post scene; up to {MAX_GSD_RATIO:.0f} times can be used.",
        "Resample it to about the pixels of the post scene first: gdalwarp -r average -tr X Y in.tif out.tif.",
        kind="resolution",
    )


def coarse_words(scene: Scene, grid: Grid, above: float = MAX_GSD_RATIO, so: str = "it may show no building") -> str:
    """Return a note on a file whose pixels are over `above` times larger than the project's, in whole sentences; else ""."""
    ratio = scene.gsd_m / grid.gsd_m
    if ratio <= above:
        return ""
    return (
        f"{Path(scene.path).name} has pixels of {scene.gsd_m:.3g} m, {ratio:,.0f} times larger than the {grid.gsd_m:.3g} m "
        f"of the first post scene: {so}."
    )


def oblong_words(scene: Scene) -> str:
    """Return a note where a scene's pixels are far from square on the ground, in clauses; "" where they are not.

    Pixels that are square in degrees are usual, and are no sign of a wrong georeference however far from the equator.
    """
    a, b, _, d, e, _ = scene.transform
    x, y = corners_of(scene.transform, scene.width, scene.height).mean(axis=0)
    size = max(math.hypot(a, d), math.hypot(b, e)) * min(scene.width, scene.height, 1000)
    x_unit_m, y_unit_m = systems.unit_metres(scene.crs, x, y, size)
    across, down = math.hypot(a * x_unit_m, d * y_unit_m), math.hypot(b * x_unit_m, e * y_unit_m)
    if _is_nearly_square(across, down) or (
        systems.load_crs(scene.crs).is_geographic and _is_nearly_square(math.hypot(a, d), math.hypot(b, e))
    ):
        return ""
    return (
        f"the pixels are {across:.2g} x {down:.2g} m on the ground, which is not square: along one way it shows less than "
        f"its pixel size of {scene.gsd_m:.2g} m promises. Check its georeference."
    )


def _is_nearly_square(across: float, down: float) -> bool:
    return max(across, down) <= MOST_OBLONG * min(across, down)


def _north_up(scene: Scene) -> tuple[float, float, float, float]:
    """Return (a, e, x0, y1): pixel width, negative pixel height, and the upper left corner of a north-up grid."""
    a, b, c, d, e, f = scene.transform
    x0, _, _, y1 = shapely.MultiPoint(corners_of(scene.transform, scene.width, scene.height)).bounds
    if b == 0 and d == 0:
        return abs(a), -abs(e), (c if a > 0 else x0), (f if e < 0 else y1)
    size = math.sqrt(abs(a * e - b * d))
    return size, -size, x0, y1


def check_overlap(pre_scenes: Sequence[Scene], post_scenes: Sequence[Scene], grid: Grid, name: str = "Pre") -> float:
    """Return the share of the post scenes' area, 0..1, that the pre scenes, or those of a layer, cover.

    Scenes may be kilometres from each other; the empty parts of the grid between them count for nothing.

    Args:
        name: of what is not the post scenes, as a sentence starts with it.

    Raises:
        ImageryError: kind "overlap" if they cover nothing of it.
    """
    covered, area = (area_px(scenes, grid) for scenes in (pre_scenes, post_scenes))
    share = float(shapely.intersection(covered, area).area / area.area)
    if share <= 0.0:
        covered, area = (area_of(scenes, grid.crs) for scenes in (pre_scenes, post_scenes))
        distance_m = covered.distance(area) * max(grid.x_unit_m, grid.y_unit_m) if pre_scenes else float("nan")
        raise ImageryError(
            f"{name} and post scenes do not overlap; they lie {distance_m / 1000:,.1f} km apart.",
            f"Choose {name.lower() if name == 'Pre' else 'files'} and post scenes of the same place, or check their "
            "coordinate systems.",
            kind="overlap",
        )
    return min(share, 1.0)


def moved_to(wkb: Sequence[bytes], source: str, target: str) -> list[bytes]:
    """Return outlines in another CRS, little-endian WKB; "EPSG:n" or WKT each."""
    if source == target:
        return list(wkb)
    shapes = shapely.from_wkb(np.array(list(wkb), dtype=object))
    placed = shapely.transform(shapes, lambda xy: systems.convert(xy, source, target))
    return [bytes(one) for one in shapely.to_wkb(placed, byte_order=1)]


# What lies beyond the scenes


def shares_outside(shapes: NDArray[np.object_], scenes: Sequence[Scene], grid: Grid) -> NDArray[np.float32]:
    """Return the share of each shape, in grid pixels, that lies beyond all scenes of a date, float32 [N], 0..1.

    What the scenes show there does not matter.
    """
    covered = area_px(scenes, grid)
    shapely.prepare(covered)
    share = np.zeros(len(shapes), dtype=np.float32)
    crosses = np.flatnonzero(~shapely.contains_properly(covered, shapes))  # few do, and only they need to be cut
    crossing = shapely.make_valid(shapes[crosses])
    inside = shapely.area(shapely.intersection(crossing, covered)) / np.maximum(shapely.area(crossing), 1e-9)
    share[crosses] = np.clip(1 - inside, 0, 1)
    return share
