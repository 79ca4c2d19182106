"""Quicklooks for the browser: map tiles in pixels of the project grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.files import make_folder, write_file
from pu_geo.geo.ground import NO_DATA_GREY, TILE_PX
from pu_geo.geo.raster.mosaic import Mosaic, Report, report_strip

QUALITY = 85
MOST_READ_BYTES = 900_000_000  # a row of map tiles is read as a whole, however wide


Strip = tuple[NDArray[np.uint8], NDArray[np.bool_]]
"""A picture [h, W, 3 or 1] and where it holds data, bool [h, W]."""


@dataclass
class _Tiles:
    """Map tiles of all zooms, a row at a time; no more than two rows of each zoom are held.

    Attributes:
        strips: full resolution, top to bottom, each as tall as a map tile or, at the end, less.
    """

    folder: Path
    strips: Iterator[Strip]
    height: int
    n_tiles: int = 0

    def write_row(self, zoom: int, row: int, finer: int) -> Strip:
        """Write a row of map tiles after those of the `finer` zooms beneath it; return it, a whole number of tiles wide."""
        if finer:
            below = [part for part in (2 * row, 2 * row + 1) if part * TILE_PX << (finer - 1) < self.height]
            halves = [_half(*self.write_row(zoom + 1, part, finer - 1)) for part in below]
            picture, holds = (np.concatenate(parts) for parts in zip(*halves, strict=True))
        else:
            picture, holds = next(self.strips)
        missing = (0, TILE_PX - holds.shape[0]), (0, -holds.shape[1] % TILE_PX)
        picture = np.pad(picture, (*missing, (0, 0)), constant_values=NO_DATA_GREY)
        holds = np.pad(holds, missing)
        for x in range(holds.shape[1] // TILE_PX):
            across = np.s_[:, x * TILE_PX : (x + 1) * TILE_PX]
            if holds[across].any():
                path = self.folder / str(zoom) / str(x) / f"{row}.jpg"
                make_folder(path.parent)
                _write_jpeg(path, picture[across], QUALITY)
                self.n_tiles += 1
        return picture, holds


def _write_jpeg(path: Path, picture: NDArray[np.uint8], quality: int) -> None:
    """Write an RGB picture, uint8 [H, W, 3], or a gray one, uint8 [H, W, 1], as JPEG."""
    done, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"{path.name} could not be encoded as JPEG.")
    write_file(path, data.tobytes())


def _half(picture: NDArray[np.uint8], holds: NDArray[np.bool_]) -> Strip:
    height, width = holds.shape
    half = np.asarray(cv2.resize(picture, (width // 2, height // 2), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    half = half.reshape(*half.shape[:2], -1)  # of one band OpenCV drops the axis
    return half, np.asarray(holds.reshape(height // 2, 2, width // 2, 2).any(axis=(1, 3)))


def _strips(mosaic: Mosaic, report: Report | None, is_cancelled: Callable[[], bool] | None) -> Iterator[Strip]:
    """Read a mosaic in rows of map tiles, several at once where its blocks are taller; what holds no data is dark grey."""
    width, height = mosaic.grid.width, mosaic.grid.height
    most_rows = MOST_READ_BYTES // (width * mosaic.bytes_a_pixel)
    step = max(1, min(mosaic.preferred_block_rows, most_rows) // TILE_PX) * TILE_PX
    for row in range(0, height, step):
        rows = min(step, height - row)
        picture, valid = mosaic.read(0, row, width, rows)
        if not valid.all():
            picture[:, ~valid] = NO_DATA_GREY
        report_strip(report, is_cancelled, "quicklooks", -(-(row + rows) // TILE_PX), -(-height // TILE_PX))
        for start in range(0, rows, TILE_PX):
            part = np.s_[start : start + TILE_PX]
            yield np.ascontiguousarray(picture[:, part].transpose(1, 2, 0)), valid[part]


def build_pyramid(
    mosaic: Mosaic, folder: Path, *, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None
) -> dict[str, object]:
    """Write a mosaic of three bands, or of one in gray, as JPEG map tiles `folder/{z}/{x}/{y}.jpg` and describe them in
    `folder/pyramid.json`.

    Tiles count from the grid's upper left corner. Zoom 0 holds the whole grid in one tile, the last zoom is full
    resolution. Each pixel of the scenes is decoded once; a coarser level is the 2 x 2 average of the finer one. Pixels
    without data are dark grey, tiles without any data are not written.

    Args:
        report: called with {"stage": "quicklooks", "done", "total"} in rows of map tiles at full resolution.

    Returns:
        {"tile_px", "max_zoom", "width", "height", "resolutions", "n_tiles"}; resolutions are grid pixels per tile pixel,
        one for each zoom.

    Raises:
        JobCancelled: if `is_cancelled()`; `pyramid.json` is then missing.
    """
    width, height = mosaic.grid.width, mosaic.grid.height
    max_zoom = max(0, math.ceil(math.log2(max(width, height) / TILE_PX)))
    tiles = _Tiles(folder, _strips(mosaic, report, is_cancelled), height)
    tiles.write_row(0, 0, max_zoom)
    info: dict[str, object] = {
        "tile_px": TILE_PX,
        "max_zoom": max_zoom,
        "width": width,
        "height": height,
        "resolutions": [2 ** (max_zoom - zoom) for zoom in range(max_zoom + 1)],
        "n_tiles": tiles.n_tiles,
    }
    make_folder(folder)
    write_file(folder / "pyramid.json", orjson.dumps(info))
    return info
