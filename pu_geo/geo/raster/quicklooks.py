"""Quicklooks for the browser: map tiles in pixels of the project grid, and footprints in the same pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled
from pu_geo.geo.raster.mosaic import Mosaic, Report
from pu_geo.geo.sheets import write_jpeg
from pu_geo.records import Grid

NO_DATA_GREY = 40
SIMPLIFY_PX, ROUND_DECIMALS = 0.3, 1


@dataclass
class _Level:
    """One zoom level: collects rows until a row of map tiles is full, writes it, hands half of it to the next coarser.

    Attributes:
        rows: pictures [h, W, 3] collected so far, W a whole number of tiles.
        holds: bool [h, W] for each of them: where there is data.
    """

    folder: Path
    tile_px: int
    quality: int
    coarser: _Level | None
    tile_row: int = 0
    rows: list[NDArray[np.uint8]] = field(default_factory=list)
    holds: list[NDArray[np.bool_]] = field(default_factory=list)
    n_tiles: int = 0

    def add(self, picture: NDArray[np.uint8], holds: NDArray[np.bool_]) -> None:
        """Add rows [h, w, 3] with data where `holds`, h up to a tile row's rest, and write the tile row once full."""
        wide = -picture.shape[1] % self.tile_px
        if wide:
            picture = np.pad(picture, ((0, 0), (0, wide), (0, 0)), constant_values=NO_DATA_GREY)
            holds = np.pad(holds, ((0, 0), (0, wide)))
        self.rows.append(picture)
        self.holds.append(holds)
        if sum(len(part) for part in self.rows) >= self.tile_px:
            self._write_row()

    def finish(self) -> None:
        """Fill up the last row of tiles and write it, then those of the coarser levels."""
        missing = self.tile_px - sum(len(part) for part in self.rows)
        if self.rows:
            width = self.rows[0].shape[1]
            self.rows.append(np.full((missing, width, 3), NO_DATA_GREY, dtype=np.uint8))
            self.holds.append(np.zeros((missing, width), dtype=bool))
            self._write_row()
        if self.coarser:
            self.coarser.finish()

    def _write_row(self) -> None:
        picture, holds = np.concatenate(self.rows), np.concatenate(self.holds)
        self.rows, self.holds = [], []
        for x in range(picture.shape[1] // self.tile_px):
            across = np.s_[:, x * self.tile_px : (x + 1) * self.tile_px]
            if holds[across].any():
                path = self.folder / str(x) / f"{self.tile_row}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_jpeg(path, picture[across], self.quality)
                self.n_tiles += 1
        self.tile_row += 1
        if self.coarser:
            height, width = holds.shape
            half = np.asarray(cv2.resize(picture, (width // 2, height // 2), interpolation=cv2.INTER_AREA), dtype=np.uint8)
            self.coarser.add(half, np.asarray(holds.reshape(height // 2, 2, width // 2, 2).any(axis=(1, 3))))


def build_pyramid(
    mosaic: Mosaic,
    folder: Path,
    *,
    tile_px: int = 256,
    quality: int = 85,
    report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> dict[str, object]:
    """Write the mosaic as JPEG map tiles `folder/{z}/{x}/{y}.jpg` and describe them in `folder/pyramid.json`.

    Tiles count from the grid's upper left corner. Zoom 0 holds the whole grid in one tile, the last zoom is full
    resolution. Each pixel of the scenes is decoded once; a coarser level is the 2 x 2 average of the finer one. Pixels
    without data are dark grey, tiles without any data are not written.

    Args:
        tile_px: side of the tiles; an even number.
        report: called with {"stage": "quicklooks", "done", "total"} in rows of map tiles at full resolution.

    Returns:
        {"tile_px", "max_zoom", "width", "height", "resolutions", "n_tiles"}; resolutions are grid pixels per tile pixel,
        one for each zoom.

    Raises:
        JobCancelled: if `is_cancelled()`; `pyramid.json` is then missing.
    """
    width, height = mosaic.grid.width, mosaic.grid.height
    max_zoom = max(0, math.ceil(math.log2(max(width, height) / tile_px)))
    level: _Level | None = None
    levels = [level := _Level(folder / str(zoom), tile_px, quality, level) for zoom in range(max_zoom + 1)]
    tile_rows = -(-height // tile_px)
    per_read = max(1, mosaic.preferred_block_rows // tile_px)
    for first in range(0, tile_rows, per_read):
        if is_cancelled is not None and is_cancelled():
            raise JobCancelled
        row, rows = first * tile_px, min(per_read * tile_px, height - first * tile_px)
        picture, valid = mosaic.read(0, row, width, rows)
        if not valid.all():
            picture[:, ~valid] = NO_DATA_GREY
        for start in range(0, rows, tile_px):
            part = np.s_[start : start + tile_px]
            levels[-1].add(np.ascontiguousarray(picture[:, part].transpose(1, 2, 0)), valid[part])
        if report is not None:
            report({"stage": "quicklooks", "done": min(first + per_read, tile_rows), "total": tile_rows})
    levels[-1].finish()
    info: dict[str, object] = {
        "tile_px": tile_px,
        "max_zoom": max_zoom,
        "width": width,
        "height": height,
        "resolutions": [2 ** (max_zoom - zoom) for zoom in range(max_zoom + 1)],
        "n_tiles": sum(level.n_tiles for level in levels),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyramid.json").write_bytes(orjson.dumps(info))
    return info


def footprint_geometry(wkb: Sequence[bytes], building_ids: Sequence[str], grid: Grid) -> bytes:
    """Return footprints as compact JSON for the map: {"ids": [...], "rings": [[[x0, y0, x1, y1, ...], ...], ...]}.

    Coordinates are grid pixels from the upper left corner, rounded to 0.1, simplified by 0.3; each building has a list of
    rings, holes after their outer ring, to be filled by the even-odd rule.

    Args:
        wkb: polygons or multipolygons in the project CRS, [N].
    """
    polygons = shapely.from_wkb(np.array(list(wkb), dtype=object))
    in_px = shapely.simplify(shapely.transform(polygons, grid.to_px), SIMPLIFY_PX)
    parts, of_building = shapely.get_parts(in_px, return_index=True)
    rings, of_part = shapely.get_rings(parts, return_index=True)
    xy = np.round(shapely.get_coordinates(rings), ROUND_DECIMALS)
    n_points = shapely.get_num_coordinates(rings)
    ends = np.cumsum(n_points)
    out: list[list[list[float]]] = [[] for _ in building_ids]
    for start, end, part in zip(ends - n_points, ends, of_part, strict=True):
        out[of_building[part]].append(xy[start:end].ravel().tolist())
    return orjson.dumps({"ids": list(building_ids), "rings": out})
