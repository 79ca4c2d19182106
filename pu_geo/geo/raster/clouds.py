"""Where clouds hide the ground: large thick ones in a scene's quicklook, small and half transparent ones in chips.

Ours, and a heuristic: colors are all there is. A thick cloud is bright, colorless and shows nothing of the ground, over
more ground than roofs cover; and its brightness fades over tens of meters, where a roof ends at its edge. All five must
hold, for a false cloud hides a building from the analyst.

What hides a single building is found in its chip. Every view of ground has dark pixels, such as shadows, trees and
asphalt; under a cloud none is left. Where only a part of the chip is bright, it must reach beyond the outline, as no roof
does, or be far brighter than the same place on the other date, and it must be smooth and end softly. Thin clouds, through
which buildings show, are not searched for.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.ground import NO_DATA_GREY, TILE_PX, read_level
from pu_geo.records import Grid

WORK_M = 2.0  # the level of the pyramid nearest to this is read
CELL_PX = 4  # of its pixels, along each side of a cell that is called cloud or not
COARSEST_M = 5.0  # larger pixels show neither texture nor edges of roofs
LEAST_BRIGHT, MOST_COLOR, MOST_TEXTURE = 165.0, 28.0, 5.0  # 0..255; means over a cell
CORE_M = 48.0  # a cloud holds a disc of this diameter
NEAR_CELLS, FAR_CELLS = (1.5, 2.5), (5.5, 7.5)  # rings around a bright patch, by distance from it
LEAST_FADE, MOST_ABRUPT = 25.0, 0.8
DARK_SHARE = 5.0  # percent of a window's pixels that are at most as bright as its darkness
LEAST_DARK, MOST_DARK, DARK_RISE = 135.0, 165.0, 75.0  # 0..255; unaltered scenes: at most 128; haze lifts all of a scene
VEIL_M = 4.0  # smaller bright spots are none
FINE_M = 1.5  # of coarser scenes, chips show too little of roofs' edges
MOST_VEIL_COLOR = 45.0
RING_M = (1.0, 4.0)  # from the outline on
LEAST_COVER, FULL_COVER = 0.4, 0.8  # of the outline
LEAST_SPILL, LEAST_RISE = 0.3, 35.0  # share of the ring; how much brighter than the other date
CLEAR_RISE = 100.0  # so much brighter, whatever the ring shows
MOST_EDGE, MOST_ROUGH = 32.0, 10.0  # brightness per pixel of the scene: at the rim of most of a cloud, and within on average
MOST_DETAIL = 23.0  # within most of it, where there is no other date


@dataclass(frozen=True)
class Usual:
    """What is usual in a scene: from which brightness on pixels may be veiled, and how much brighter it is than the other
    date.
    """

    least_veil: float = LEAST_DARK
    rise: float = 0.0


@dataclass(frozen=True)
class CloudCells:
    """Which cells of a scene lie under thick cloud.

    Attributes:
        is_cloud: bool [rows, columns].
        cell_px: side of a cell, grid pixels.
        row: grid pixel where the cells begin.
    """

    is_cloud: NDArray[np.bool_]
    cell_px: int
    row: int = 0

    def at(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which points of a lattice lie under cloud, bool [H, W]; columns x [W] and rows y [H] in grid pixels."""
        columns, rows = (np.floor(along / self.cell_px).astype(np.int64) for along in (x, y - self.row))
        n_rows, n_columns = self.is_cloud.shape
        is_on = ((rows >= 0) & (rows < n_rows))[:, None] & (columns >= 0) & (columns < n_columns)
        return np.asarray(is_on & self.is_cloud[np.ix_(rows.clip(0, n_rows - 1), columns.clip(0, n_columns - 1))])

    def touched(self, boxes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which boxes of grid pixels hold a part of a cloud, bool [N].

        Args:
            boxes: [N, 4]: first column and row, and one past the last column and row.
        """
        n_rows, n_columns = self.is_cloud.shape
        sums = cv2.integral(self.is_cloud.astype(np.uint8))
        left, top = np.floor((boxes[:, :2] - [0, self.row]) / self.cell_px).astype(np.int64).T
        right, bottom = np.ceil((boxes[:, 2:] - [0, self.row]) / self.cell_px).astype(np.int64).T
        (left, right), (top, bottom) = np.clip([left, right], 0, n_columns), np.clip([top, bottom], 0, n_rows)
        return np.asarray(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left] > 0)


def darkness(chips: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how bright the darkest pixels of each chip are that hold data, float32 [N], 0..255; 0 without data.

    Args:
        chips: uint8 [N, 3, S, S], 0 without data.
    """
    least = chips.min(axis=1).reshape(len(chips), -1)
    values = [np.percentile(one[one > 0], DARK_SHARE) if one.any() else 0.0 for one in least]
    return np.array(values, dtype=np.float32)


def least_veil(dark: NDArray[np.float32]) -> float:
    """Return from which brightness on a scene's pixels may be veiled, from the darkness of some of its chips."""
    usual = float(np.percentile(dark[dark > 0], 10)) if (dark > 0).any() else 0.0
    return min(max(LEAST_DARK, usual + DARK_RISE), MOST_DARK)


def usual_rise(chips: NDArray[np.uint8], others: NDArray[np.uint8]) -> float:
    """Return how much brighter a scene is than the other date, at least 0, from some of its chips; clouds over most of them
    change little.

    Args:
        chips, others: uint8 [N, 3, S, S] of the two dates, 0 without data.
    """
    middle = [np.median(part.min(axis=1).reshape(len(part), -1), axis=1).astype(np.float32) for part in (chips, others)]
    rises = (middle[0] - middle[1])[(middle[0] > 0) & (middle[1] > 0)]
    return max(0.0, float(np.percentile(rises, 25))) if len(rises) else 0.0


def may_be_veiled(chips: NDArray[np.uint8], least: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which chips, uint8 [N, 3, S, S], may be veiled, see `veil`, bool [N]; `least` is float64 [N]."""
    return np.asarray((chips.min(axis=1) >= least[:, None, None]).mean(axis=(1, 2)) > 0.05)


def veil(
    chip: NDArray[np.uint8], other: NDArray[np.uint8] | None, outline: NDArray[np.bool_], side_m: float, gsd_m: float,
    scene: Usual,
) -> NDArray[np.bool_]:  # fmt: skip
    """Find the cloud that hides a building in its chip, bool [S, S]; nothing where there is none.

    Args:
        chip: uint8 [3, S, S].
        other: the same place on the other date, uint8 [3, S, S], or None.
        outline: bool [S, S], the building.
        side_m: of a pixel of the chip, metres.
        gsd_m: of a pixel of the scene it comes from, metres.
    """
    least = scene.least_veil
    nothing = np.zeros_like(outline)
    darkest = chip.min(axis=0)
    if not outline.any() or (darkest >= least)[outline].mean() <= LEAST_COVER:
        return nothing
    if darkness(chip[None])[0] >= least:
        return darkest > 0
    if gsd_m > FINE_M:
        return nothing
    size = int(np.clip(round(VEIL_M / side_m), 3, chip.shape[-1] // 2)) | 1
    opened = cv2.morphologyEx(darkest, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
    color = cv2.blur((chip.max(axis=0) - darkest).astype(np.float32), (5, 5))
    bright = (opened >= least) & (color < MOST_VEIL_COLOR)
    _, number = cv2.connectedComponents(bright.astype(np.uint8))
    bright &= np.isin(number, number[bright & outline])
    cover = float(bright[outline].mean())
    is_cloud = cover > LEAST_COVER and _is_veil(chip, other, outline, bright, cover, side_m, gsd_m, scene.rise)
    return bright if is_cloud else nothing


def _is_veil(
    chip: NDArray[np.uint8], other: NDArray[np.uint8] | None, outline: NDArray[np.bool_], bright: NDArray[np.bool_],
    cover: float, side_m: float, gsd_m: float, usual: float,
) -> bool:  # fmt: skip
    """Return whether the bright part of a chip is cloud rather than roof or ground; see `veil` for what is given."""
    per_pixel = max(1.0, gsd_m / side_m)
    gray = cv2.GaussianBlur(chip.mean(axis=0, dtype=np.float32), (0, 0), 0.6 * per_pixel)
    steep = np.hypot(*(cv2.Sobel(gray, cv2.CV_32F, *order, scale=per_pixel / 8) for order in ((1, 0), (0, 1))))
    depth, away = _distance_m(bright, side_m), _distance_m(~bright, side_m)
    rim = ((depth > 0) & (depth <= 1)) | ((away > 0) & (away <= 1))
    rim[[0, -1]] = rim[:, [0, -1]] = False  # where the chip ends, the cloud need not
    if np.count_nonzero(rim) > 10 and np.percentile(steep[rim], 75) >= MOST_EDGE:
        return False
    inner = steep[depth > 1]
    if len(inner) < 8 or inner.mean() >= MOST_ROUGH:
        return False
    from_outline = _distance_m(~outline, side_m)
    ring = (from_outline > RING_M[0]) & (from_outline <= RING_M[1])
    is_wide = cover > FULL_COVER and bool(ring.any()) and float(bright[ring].mean()) > LEAST_SPILL
    held = bright & outline
    known = held if other is None else held & (other.max(axis=0) > 0)
    if other is None or known.sum() <= 0.5 * held.sum():
        return is_wide and float(np.percentile(inner, 90)) < MOST_DETAIL
    rise = float(np.median(chip.min(axis=0)[known].astype(np.float32) - other.min(axis=0)[known])) - usual
    return rise > CLEAR_RISE or (is_wide and rise > LEAST_RISE)


def _distance_m(is_inside: NDArray[np.bool_], side_m: float) -> NDArray[np.float32]:
    """Return how far each pixel inside lies from the outside, metres; 0 outside."""
    return np.asarray(
        cv2.distanceTransform(is_inside.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5) * side_m, dtype=np.float32
    )


def cloud_cells(folder: Path, site: Grid) -> CloudCells | None:
    """Find thick clouds of a site in a pyramid of `quicklooks.build_pyramid`, tile by tile.

    Args:
        folder: of the pyramid; holds `pyramid.json`.
        site: its grid.

    Returns:
        None where clouds cannot be found: there is no pyramid, or its pixels are larger than 5 m.
    """
    if not (folder / "pyramid.json").is_file() or site.gsd_m > COARSEST_M:
        return None
    info = json.loads((folder / "pyramid.json").read_text(encoding="utf-8"))
    step = min(max(0, round(math.log2(WORK_M / site.gsd_m))), info["max_zoom"])
    facts = _read_cells(folder / str(info["max_zoom"] - step), site, 2**step)
    return CloudCells(find_clouds(*facts, CELL_PX * 2**step * site.gsd_m), CELL_PX * 2**step, site.row)


def _read_cells(folder: Path, site: Grid, shrink: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return brightness, float32 [rows, columns], NaN without data, and whether a cell resembles thick cloud by itself."""
    columns, rows = (-(-side // (shrink * CELL_PX)) for side in (site.width, site.height))
    strips = [
        measure_cells(read_level(folder, 0, site.row // shrink + row * CELL_PX, columns * CELL_PX, TILE_PX)[0])
        for row in range(0, rows, TILE_PX // CELL_PX)
    ]
    brightness, is_white = (np.concatenate(parts)[:rows] for parts in zip(*strips, strict=True))
    return brightness, is_white


def measure_cells(picture: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the brightness of each cell of a picture, and whether it is bright, colorless and even.

    Args:
        picture: uint8 [H, W, 3]; H and W are whole numbers of cells.

    Returns:
        float32 [H / 4, W / 4], 0..255, NaN without data; bool of the same shape.
    """
    colors = picture.astype(np.float32)
    gray = colors.mean(axis=2)
    across, down = (np.diff(gray, axis=axis, append=gray.take([-1], axis)) for axis in (1, 0))
    bright, texture = _per_cell(gray), np.sqrt(_per_cell(across**2 + down**2))
    darkest = _per_cell(colors.min(axis=2))
    color = _per_cell(colors.max(axis=2)) - darkest
    is_empty = (np.abs(bright - NO_DATA_GREY) < 2) & (texture < 1)
    is_white = (darkest > LEAST_BRIGHT) & (color < MOST_COLOR) & (texture < MOST_TEXTURE)
    return np.where(is_empty, np.float32(np.nan), bright), is_white


def _per_cell(values: NDArray[np.float32]) -> NDArray[np.float32]:
    height, width = values.shape
    return np.asarray(values.reshape(height // CELL_PX, CELL_PX, width // CELL_PX, CELL_PX).mean(axis=(1, 3)))


def find_clouds(brightness: NDArray[np.float32], is_white: NDArray[np.bool_], cell_m: float) -> NDArray[np.bool_]:
    """Choose the clouds among white cells: large patches that fade.

    Args:
        brightness: float32 [rows, columns], 0..255, NaN without data.
        is_white: bool [rows, columns], bright, colorless and even.
        cell_m: side of a cell, metres.

    Returns:
        bool [rows, columns].
    """
    radius = max(1, math.ceil(CORE_M / cell_m / 2))
    if 2 * radius + 1 > max(is_white.shape):
        return np.zeros_like(is_white)
    disc = np.asarray(np.hypot(*np.ogrid[-radius : radius + 1, -radius : radius + 1]) <= radius + 0.5, dtype=np.uint8)
    core = cv2.morphologyEx(is_white.astype(np.uint8), cv2.MORPH_OPEN, disc)
    patches = (cv2.dilate(core, disc) > 0) & is_white
    n, number, stats, _ = cv2.connectedComponentsWithStats(patches.astype(np.uint8), connectivity=8)
    is_cloud = np.zeros_like(is_white)
    margin = math.ceil(FAR_CELLS[1]) + 1
    for k in range(1, n):
        left, top, width, height = stats[k, :4].tolist()
        around = np.s_[max(0, top - margin) : top + height + margin, max(0, left - margin) : left + width + margin]
        patch = number[around] == k
        if _fades(brightness[around], patch, patches[around]):
            is_cloud[around] |= patch
    return is_cloud


def _fades(brightness: NDArray[np.float32], patch: NDArray[np.bool_], patches: NDArray[np.bool_]) -> bool:
    """Return whether the ground around a bright patch darkens slowly; a patch with nothing around it is all there is.

    Args:
        patches: bool, all bright patches: they are not ground.
    """
    away = cv2.distanceTransform((~patch).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    is_ground = ~np.isnan(brightness) & ~patches
    rings = [is_ground & (away > low) & (away <= high) for low, high in (NEAR_CELLS, FAR_CELLS)]
    if not rings[0].any() or not rings[1].any():
        return bool(not (is_ground & ~patch).any())
    rim = patch & (cv2.erode(patch.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=1) == 0)
    at_rim = float(brightness[rim].mean())
    near, far = (at_rim - float(brightness[ring].mean()) for ring in rings)
    return far > LEAST_FADE and near < MOST_ABRUPT * far
