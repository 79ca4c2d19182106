"""Where scenes lie: the project grid that joins post scenes, and what of it, of buildings and of windows they cover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ImageryError
from pu_geo.geo.vector import crs as systems
from pu_geo.records import Affine6, Grid, Scene

MAX_PIXELS = 4_000_000_000
MAX_SIDE_PX = 500_000  # a row of map tiles as wide takes about 2.5 GB of memory, of 16 bits
MOST_PIXELS = f"up to {MAX_PIXELS:,} pixels, and {MAX_SIDE_PX:,} on a side,"
MOST_OBLONG = 1.5
MAX_GSD_RATIO = 20.0  # a warp reads the square of it for each pixel
ALIGNED_PX = 0.05  # a scene that is off the grid by less is read without resampling


def project_grid(post_scenes: Sequence[Scene]) -> Grid:
    """Join post scenes on the pixel grid of the first: its CRS, its pixel size, north-up, whole pixels.

    A rotated first scene gives square pixels of its own size around its bounds; a south-up one is turned over.

    Raises:
        ImageryError: kind "size" if the scenes are so far from each other that the union is absurd; "bounds" if one cannot
            be placed in the first one's CRS.
    """
    if not post_scenes:
        raise ImageryError("There is no post scene. A project needs at least one.", "Add a post scene.", kind="empty")
    first = post_scenes[0]
    a, e, x0, y1 = _north_up(first)
    boxes = np.array([shapely.MultiPoint(border_in(scene, first.crs)).bounds for scene in post_scenes])
    left = math.floor((boxes[:, 0].min() - x0) / a + ALIGNED_PX)
    right = math.ceil((boxes[:, 2].max() - x0) / a - ALIGNED_PX)
    top = math.floor((y1 - boxes[:, 3].max()) / -e + ALIGNED_PX)
    bottom = math.ceil((y1 - boxes[:, 1].min()) / -e - ALIGNED_PX)
    width, height = right - left, bottom - top
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise ImageryError(
            f"Together the post scenes span {width:,} x {height:,} pixels; {MOST_PIXELS} fit in a project. Perhaps they lie "
            "far apart.",
            "Leave out the scene that does not belong here, cut them to the area that you map, or make a project for each "
            "place.",
            kind="size",
        )
    transform: Affine6 = (a, 0.0, x0 + left * a, 0.0, e, y1 + top * e)
    x, y = transform[2] + a * width / 2, transform[5] + e * height / 2
    x_unit_m, y_unit_m = systems.unit_metres(first.crs, x, y, max(a, -e) * min(width, height, 1000))
    wkt = str(systems.load_crs(first.crs).to_wkt())
    gsd_m = math.sqrt(a * x_unit_m * -e * y_unit_m)
    return Grid(first.crs, wkt, transform, width, height, gsd_m, x_unit_m, y_unit_m)


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


def covers_grid(scene: Scene, grid: Grid) -> bool:
    """Return whether a scene's rectangle touches the project's grid."""
    area = shapely.transform(area_of([scene], grid.crs), grid.to_px)
    return bool(shapely.intersection(area, shapely.box(0, 0, grid.width, grid.height)).area > 0)


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


def check_overlap(pre_scenes: Sequence[Scene], post_scenes: Sequence[Scene], grid: Grid, name: str = "Pre") -> float:
    """Return the share of the post scenes' area, 0..1, that the pre scenes, or those of a layer, cover.

    Scenes may be kilometres from each other; the empty parts of the grid between them count for nothing.

    Args:
        name: of what is not the post scenes, as a sentence starts with it.

    Raises:
        ImageryError: kind "overlap" if they cover nothing of it.
    """
    covered, area = (area_of(scenes, grid.crs) for scenes in (pre_scenes, post_scenes))
    share = float(shapely.intersection(covered, area).area / area.area)
    if share <= 0.0:
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
    covered = shapely.transform(area_of(scenes, grid.crs), grid.to_px)
    shapely.prepare(covered)
    share = np.zeros(len(shapes), dtype=np.float32)
    crosses = np.flatnonzero(~shapely.contains_properly(covered, shapes))  # few do, and only they need to be cut
    crossing = shapely.make_valid(shapes[crosses])
    inside = shapely.area(shapely.intersection(crossing, covered)) / np.maximum(shapely.area(crossing), 1e-9)
    share[crosses] = np.clip(1 - inside, 0, 1)
    return share
