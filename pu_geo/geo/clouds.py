"""Where thick clouds cover a scene, told from its quicklook alone.

Ours, and a heuristic: colors are all there is. A thick cloud is bright, colorless and shows nothing of the ground, over
more ground than roofs cover; and its brightness fades over tens of meters, where a roof ends at its edge. All five must
hold, for a false cloud hides a building from the analyst. Thin clouds, through which buildings show, are not looked for.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.quicklooks import NO_DATA_GREY

WORK_M = 2.0  # the level of the pyramid nearest to this is looked at
CELL_PX = 4  # of its pixels, along each side of a cell that is called cloud or not
COARSEST_M = 5.0  # larger pixels show neither texture nor edges of roofs
LEAST_BRIGHT, MOST_COLOR, MOST_TEXTURE = 165.0, 28.0, 5.0  # 0..255; means over a cell
CORE_M = 48.0  # a cloud holds a disc of this diameter
NEAR_CELLS, FAR_CELLS = (1.5, 2.5), (5.5, 7.5)  # rings around a bright patch, by distance from it
LEAST_FADE, MOST_ABRUPT = 25.0, 0.8


@dataclass(frozen=True)
class CloudCells:
    """Which cells of a scene lie under thick cloud.

    Attributes:
        is_cloud: bool [rows, columns].
        cell_px: side of a cell, grid pixels.
    """

    is_cloud: NDArray[np.bool_]
    cell_px: int

    def shares(self, windows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the share of each window under cloud, float32 [N], 0..1; what lies outside the scene is not.

        Args:
            windows: float64 [N, 4]: column, row, width, height in grid pixels.
        """
        sums = np.pad(np.cumsum(np.cumsum(self.is_cloud, axis=0, dtype=np.float64), axis=1), ((1, 0), (1, 0)))
        low, high = windows[:, :2] / self.cell_px, (windows[:, :2] + windows[:, 2:]) / self.cell_px
        area = _sum_to(sums, high[:, 0], high[:, 1]) + _sum_to(sums, low[:, 0], low[:, 1])
        area -= _sum_to(sums, low[:, 0], high[:, 1]) + _sum_to(sums, high[:, 0], low[:, 1])
        return np.asarray(np.clip(area / np.maximum((high - low).prod(axis=1), 1e-9), 0, 1), dtype=np.float32)


def _sum_to(sums: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolate summed cells, float64 [rows + 1, columns + 1], at points between the corners of cells."""
    x, y = np.clip(x, 0, sums.shape[1] - 1), np.clip(y, 0, sums.shape[0] - 1)
    left, top = np.minimum(x.astype(int), sums.shape[1] - 2), np.minimum(y.astype(int), sums.shape[0] - 2)
    along, down = x - left, y - top
    upper = sums[top, left] * (1 - along) + sums[top, left + 1] * along
    lower = sums[top + 1, left] * (1 - along) + sums[top + 1, left + 1] * along
    return np.asarray(upper * (1 - down) + lower * down)


def cloud_cells(folder: Path, gsd_m: float) -> CloudCells | None:
    """Look for thick clouds in a pyramid of `quicklooks.build_pyramid`, tile by tile.

    Args:
        folder: of the pyramid; holds `pyramid.json`.
        gsd_m: metres on the ground per grid pixel.

    Returns:
        None where clouds cannot be told: there is no pyramid, or its pixels are larger than 5 m.
    """
    if not (folder / "pyramid.json").is_file() or gsd_m > COARSEST_M:
        return None
    info = json.loads((folder / "pyramid.json").read_text(encoding="utf-8"))
    step = min(max(0, round(math.log2(WORK_M / gsd_m))), info["max_zoom"])
    facts = _read_cells(folder / str(info["max_zoom"] - step), info, 2**step)
    return CloudCells(find_clouds(*facts, CELL_PX * 2**step * gsd_m), CELL_PX * 2**step)


def _read_cells(folder: Path, info: dict[str, int], shrink: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return brightness, float32 [rows, columns], NaN without data, and whether a cell looks like thick cloud by itself."""
    columns, rows = (-(-info[side] // (shrink * CELL_PX)) for side in ("width", "height"))
    brightness = np.full((rows, columns), np.nan, dtype=np.float32)
    is_white = np.zeros((rows, columns), dtype=bool)
    per_tile = info["tile_px"] // CELL_PX
    for row in range(0, rows, per_tile):
        for column in range(0, columns, per_tile):
            picture = cv2.imread(str(folder / str(column // per_tile) / f"{row // per_tile}.jpg"), cv2.IMREAD_COLOR)
            if picture is None:  # a tile without any data is not written
                continue
            part = np.s_[row : row + per_tile, column : column + per_tile]
            height, width = brightness[part].shape
            bright, white = look_at_cells(np.asarray(picture, dtype=np.uint8))
            brightness[part], is_white[part] = bright[:height, :width], white[:height, :width]
    return brightness, is_white


def look_at_cells(picture: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
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
    """Tell whether the ground around a bright patch darkens slowly; a patch with nothing around it is all there is.

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
