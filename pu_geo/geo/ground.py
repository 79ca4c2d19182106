"""Pictures of the ground around a building, for people: cut from the map's tiles, with the outline, north up, never
mirrored.

The browser draws the same from the same tiles, see `ui/frontend/src/ground.js`. What a model gets is another thing: chips.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import shapely
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
AROUND_M = 15.0
TILE_PX = 256
NO_DATA_GREY = 40
_NEAR = 1  # JPEG keeps a block of one gray to so much
_BLOCK = 8
_LEAST_EMPTY = 0.25  # of the tile's edge: ground as dark, and so even, is a shadow and smaller
_PENS = (((20, 20, 20), 5), ((255, 255, 255), 2))  # such pictures are shown at about half their size
_TICKS_M = (500, 200, 100, 50, 20, 10, 5, 2, 1)


def ground_of(shape: shapely.Geometry, gsd_m: float) -> tuple[float, float, float]:
    """Return the square of ground around an outline in grid pixels: column and row of its corner, and its side.

    At least 15 m on each side of the building, and half its length.
    """
    west, north, east, south = shape.bounds
    longest = max(east - west, south - north)
    side = max(longest + 2 * AROUND_M / gsd_m, 2 * longest)
    return (west + east - side) / 2, (north + south - side) / 2, side


def ground_pictures(
    pyramids: Sequence[Path], shape: shapely.Geometry, gsd_m: float, size_px: int, shifts: Sequence[tuple[float, float]] = ()
) -> Picture:
    """Draw the ground around an outline, uint8 [K * size_px, size_px, 3], one picture for each pyramid, the first on top.

    Args:
        pyramids: folders that `build_pyramid` wrote.
        shape: outline in grid pixels.
        shifts: by how many (columns, rows) the content of each pyramid is moved; none moves nothing.
    """
    column, row, side = ground_of(shape, gsd_m)
    moved = shifts or [(0.0, 0.0)] * len(pyramids)
    pictures = []
    for folder, (dx, dy) in zip(pyramids, moved, strict=True):
        picture = _cut(folder, column - dx, row - dy, side, size_px)
        _draw_outline(picture, shape, (column, row), side)
        _draw_tick(picture, side * gsd_m)
        pictures.append(picture)
    return np.concatenate(pictures)


def _cut(folder: Path, column: float, row: float, side: float, size_px: int) -> Picture:
    """Cut a square from a pyramid; what has no data is hatched."""
    info = json.loads((folder / "pyramid.json").read_text(encoding="utf-8"))
    back = min(int(info["max_zoom"]), max(0, int(np.floor(np.log2(max(1.0, side / size_px))))))
    scale = 2.0**back
    left, top, length = column / scale, row / scale, side / scale
    first_x, first_y = int(np.floor(left)), int(np.floor(top))
    n = int(np.ceil(length)) + 1
    whole, holds = read_level(folder / str(int(info["max_zoom"]) - back), first_x, first_y, n, n)
    to = np.array(
        [
            [size_px / length, 0, (first_x - left) * size_px / length],
            [0, size_px / length, (first_y - top) * size_px / length],
        ]
    )
    picture = np.asarray(
        cv2.warpAffine(whole, to, (size_px, size_px), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.uint8
    )
    is_known = cv2.warpAffine(holds.astype(np.uint8), to, (size_px, size_px), flags=cv2.INTER_NEAREST) > 0
    picture[~is_known] = _hatch(size_px)[~is_known]
    return picture


def read_level(folder: Path, column: int, row: int, width: int, height: int) -> tuple[Picture, NDArray[np.bool_]]:
    """Read a window of one zoom of a pyramid: the picture, uint8 [height, width, 3], and where it holds data, bool.

    Args:
        folder: of the zoom, with the tiles that `build_pyramid` wrote.
        column, row: where the window starts, pixels of that zoom; it may reach over the border.
    """
    picture, holds = np.full((height, width, 3), NO_DATA_GREY, np.uint8), np.zeros((height, width), np.bool_)
    for y in range(row // TILE_PX, (row + height - 1) // TILE_PX + 1):
        for x in range(column // TILE_PX, (column + width - 1) // TILE_PX + 1):
            path = folder / str(x) / f"{y}.jpg"
            tile = cv2.imread(str(path), cv2.IMREAD_COLOR) if path.is_file() else None
            if tile is None or tile.shape[:2] != (TILE_PX, TILE_PX):
                continue
            x0, y0 = x * TILE_PX - column, y * TILE_PX - row
            into = np.s_[max(0, y0) : y0 + TILE_PX, max(0, x0) : x0 + TILE_PX]
            out_of = np.s_[max(0, -y0) : height - y0, max(0, -x0) : width - x0]
            picture[into], holds[into] = tile[out_of][..., ::-1], has_data(tile)[out_of]
    return picture, holds


def has_data(tile: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which pixels of a tile hold data, bool, by blocks of 8 x 8.

    Without data are blocks of one gray that hang together, reach the tile's border, and are a quarter of its edge long.
    """
    is_grey = (np.abs(tile.astype(np.int16) - NO_DATA_GREY) <= _NEAR).all(axis=2)
    parts = is_grey.reshape(TILE_PX // _BLOCK, _BLOCK, TILE_PX // _BLOCK, _BLOCK)
    blocks = parts[:, 1:-1, :, 1:-1].all(axis=(1, 3))  # decoders let the color of neighbors run into a block's rim
    n, regions, stats, _ = cv2.connectedComponentsWithStats(np.asarray(blocks, np.uint8), connectivity=4)
    rims = np.concatenate([regions[0], regions[-1], regions[:, 0], regions[:, -1]])
    long = stats[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1) * _BLOCK >= _LEAST_EMPTY * TILE_PX
    is_empty = long & np.isin(np.arange(n), rims) & (np.arange(n) > 0)
    return np.asarray(~is_empty[regions].repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1))


def _hatch(size_px: int) -> Picture:
    rows, columns = np.indices((size_px, size_px))
    is_line = ((rows + columns) % 8 < 2)[..., None]
    return np.where(is_line, (107, 112, 120), (58, 62, 70)).astype(np.uint8)


def _draw_outline(picture: Picture, shape: shapely.Geometry, corner: tuple[float, float], side: float) -> None:
    size_px = picture.shape[0]
    rings = [
        np.rint((shapely.get_coordinates(ring) - corner) * size_px / side * 16).astype(np.int32)
        for ring in shapely.get_rings(shapely.get_parts(shape))
    ]
    for color, width in _PENS:
        cv2.polylines(picture, rings, isClosed=True, color=color, thickness=width, lineType=cv2.LINE_AA, shift=4)


def _draw_tick(picture: Picture, side_m: float) -> None:
    """Draw a scale tick at the lower left, with its length."""
    size_px = picture.shape[0]
    metres = next((each for each in _TICKS_M if each <= side_m / 3), _TICKS_M[-1])
    x, y, length = 8, size_px - 8, round(metres / side_m * size_px)
    line = np.array([[x, y - 6], [x, y], [x + length, y], [x + length, y - 6]], np.int32)
    for color, width in _PENS:
        cv2.polylines(picture, [line], isClosed=False, color=color, thickness=width)
        cv2.putText(picture, f"{metres} m", (x + 4, y - 9), cv2.FONT_HERSHEY_SIMPLEX, 0.6, color, width, cv2.LINE_AA)
