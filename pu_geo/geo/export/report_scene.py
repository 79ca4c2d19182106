"""The background of a report's map: a tile pyramid of the scene, put together again, in light greys."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.geo.raster.quicklooks import NO_DATA_GREY
from pu_geo.records import Grid

_DARKEST, _LIGHTEST = 90, 240  # colors and black lines must stand out from it
_NODATA_NEAR, _NODATA_SIDE_PX = 3, 9  # a real picture has no area of this size in exactly this grey

Picture = NDArray[np.uint8]


def grey_scene(folder: Path, grid: Grid, width: int, height: int) -> Picture | None:
    """Return the scene in grey, white where it has no data, as a picture to draw colors on; None without a pyramid.

    Args:
        folder: of a tile pyramid, see `geo.quicklooks`.
        grid: that the pyramid was made for.
        width, height: of the result, pixels; the whole grid is fitted into it.

    Returns:
        uint8 [height, width, 3].

    Raises:
        ValueError: if the pyramid belongs to a grid of another size.
    """
    facts = folder / "pyramid.json"
    if not facts.is_file():
        return None
    pyramid = orjson.loads(facts.read_bytes())
    if (pyramid["width"], pyramid["height"]) != (grid.width, grid.height):
        raise ValueError(
            f"the pyramid is of {pyramid['width']} x {pyramid['height']} pixels, the grid of {grid.width} x {grid.height}."
        )
    scale = np.array([width / grid.width, height / grid.height])
    zoom = next((z for z, px in enumerate(pyramid["resolutions"]) if px * scale.max() <= 1), pyramid["max_zoom"])
    px = pyramid["resolutions"][zoom]
    grey, is_empty = _level(folder / str(zoom), pyramid["tile_px"], math.ceil(grid.width / px), math.ceil(grid.height / px))
    wide, high = np.round(np.array(grey.shape[::-1]) * px * scale).astype(int).tolist()
    if not is_empty.all():
        low, top = np.percentile(grey[~is_empty], [1, 99])
        share = np.clip((grey.astype(np.float32) - low) / max(top - low, 1.0), 0.0, 1.0)
        grey = (_DARKEST + (_LIGHTEST - _DARKEST) * share).astype(np.uint8)
    grey[is_empty] = 255
    fitted = cv2.resize(grey, (wide, high), interpolation=cv2.INTER_AREA if wide < grey.shape[1] else cv2.INTER_LINEAR)
    return np.repeat(fitted[:height, :width, None], 3, axis=2)


def _level(folder: Path, tile_px: int, width: int, height: int) -> tuple[Picture, NDArray[np.bool_]]:
    """Put the tiles of one zoom together: grey uint8 [height, width], and where there is no data."""
    across, down = -(-width // tile_px), -(-height // tile_px)
    grey = np.full((down * tile_px, across * tile_px), NO_DATA_GREY, np.uint8)
    is_empty = np.ones(grey.shape, np.bool_)
    for x in range(across):
        for y in range(down):
            path = folder / str(x) / f"{y}.jpg"
            data = np.frombuffer(path.read_bytes(), np.uint8) if path.is_file() else np.empty(0, np.uint8)
            tile = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
            if tile is not None and tile.shape[:2] == (tile_px, tile_px):
                part = np.s_[y * tile_px : (y + 1) * tile_px, x * tile_px : (x + 1) * tile_px]
                grey[part] = cv2.cvtColor(tile, cv2.COLOR_BGR2GRAY)
                is_empty[part] = (np.abs(tile.astype(np.int16) - NO_DATA_GREY) <= _NODATA_NEAR).all(axis=2)
    kernel = np.ones((_NODATA_SIDE_PX, _NODATA_SIDE_PX), np.uint8)
    opened = cv2.morphologyEx(is_empty.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0
    return grey[:height, :width], opened[:height, :width]
