"""Fill: large parts of a scene in one constant color, which hold no data though no tag of the file names it.

Found once for each scene, in cells of its own pixel grid, so that no answer depends on the window that is read. Black
counts from one constant cell on; any other color, white included, only from four by four cells on, since saturated roofs
are smaller. Of the cells around them, pixels of the same color count as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import Resampling
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.warp import reproject
from rasterio.windows import Window

from pu_geo.files import atomic_write
from pu_geo.geo.raster import samples
from pu_geo.records import Scene

CELL_PX = 16
WIDE_CELLS = 4  # side of the least area of a color other than black, cells
SLIVER_PX = 4
JPEG_NOISE = 3  # of 8-bit samples: compressed black is 0 to 3, compressed white 252 to 255
MOST_COLORS = 6  # black and white among them; a scene has one or two
READ_BYTES, MOST_ROWS = 64 * 1024**2, 2048
BLACK, WHITE = 1, 2


@dataclass(frozen=True)
class Fill:
    """Where a scene may be filled, and with which colors.

    Attributes:
        cells: uint8 [rows, columns]: 0, or 1 + the number of the color that fills the cell or one beside it.
        lows, highs: [K, 3], in the scene's own samples: a pixel has color k if all its samples lie from low to high.
    """

    cells: NDArray[np.uint8]
    lows: NDArray[Any]
    highs: NDArray[Any]

    def touches(self, col: int, row: int, width: int, height: int) -> bool:
        """Return whether a window may hold fill."""
        return bool(self._part(col, row, width, height).any())

    def covers(self, values: NDArray[Any], col: int, row: int) -> NDArray[np.bool_]:
        """Return which pixels of a window hold fill, bool [H, W].

        Args:
            values: the scene's samples, [3, H, W].
            col, row: pixel of the scene that the window starts at.
        """
        height, width = values.shape[1:]
        part = self._part(col, row, width, height)
        found = np.zeros((height, width), dtype=bool)
        numbers = np.unique(part[part > 0]).tolist()
        if not numbers:
            return found
        rows, columns = (np.arange(at, at + n) // CELL_PX - at // CELL_PX for at, n in ((row, height), (col, width)))
        of_pixel = part[np.ix_(rows, columns)]
        for number in numbers:
            has_color = of_pixel == number
            for band, low, high in zip(values, self.lows[number - 1], self.highs[number - 1], strict=True):
                has_color &= (band >= low) & (band <= high)
            found |= has_color
        return found

    def _part(self, col: int, row: int, width: int, height: int) -> NDArray[np.uint8]:
        rows, columns = (slice(at // CELL_PX, (at + n - 1) // CELL_PX + 1) for at, n in ((row, height), (col, width)))
        return self.cells[rows, columns]


def fill_of(source: rasterio.DatasetReader, scene: Scene, folder: Path | None) -> Fill | None:
    """Return the fill of a scene, None if it has none; found by reading all of it, unless `folder` knows it already.

    Args:
        folder: where to keep what was found, a small file for each scene; None keeps nothing.
    """
    path = None if folder is None or not scene.sha256 else folder / f"{scene.sha256}-{'-'.join(map(str, scene.rgb))}.npz"
    if path is not None and path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            found = Fill(stored["cells"], stored["lows"], stored["highs"])
    else:
        found = find_fill(source, scene.rgb)
        if path is not None:
            with atomic_write(path) as temporary, temporary.open("wb") as stream:  # another process may write the same
                np.savez_compressed(stream, cells=found.cells, lows=found.lows, highs=found.highs)
    return found if found.cells.any() else None


def find_fill(source: rasterio.DatasetReader, rgb: Sequence[int]) -> Fill:
    """Find the fill of a scene in one ordered pass over it; what its nodata value names already is left out."""
    dtype = np.dtype(source.dtypes[0])
    cells = np.zeros((-(-source.height // CELL_PX), -(-source.width // CELL_PX)), dtype=np.uint8)
    noise = JPEG_NOISE if dtype == np.uint8 else 0
    others: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
    for window in _ordered(source, dtype.itemsize):
        low, high = _of_cells(source.read(list(rgb), window=window))
        row, col = window.row_off // CELL_PX, window.col_off // CELL_PX
        part = cells[row : row + low.shape[1], col : col + low.shape[2]]
        part[(low >= 0).all(axis=0) & (high <= noise).all(axis=0)] = BLACK
        if dtype == np.uint8:
            part[(low >= 255 - noise).all(axis=0)] = WHITE
        is_other = (low == high).all(axis=0) & (part == 0)
        if is_other.any():
            others.append((np.argwhere(is_other) + np.array([row, col]), low[:, is_other].T))
    _mark_slivers(cells, source, rgb, noise)
    lows, highs = np.zeros((2, 3), dtype=dtype), np.full((2, 3), noise, dtype=dtype)
    lows[1], highs[1] = (255 - noise, 255) if dtype == np.uint8 else (1, 0)  # of other types, white is a color like any
    colors = _name_others(cells, others)
    lows, highs = np.concatenate([lows, colors]), np.concatenate([highs, colors])
    for number in np.unique(cells[cells > 0]).tolist():
        low, high, has_color = lows[number - 1].astype(dtype), highs[number - 1], cells == number
        if (low == high).all() and not samples.holds_data(low[:, None, None], source.nodata).item():
            cells[has_color] = 0
        elif number != BLACK:
            cells[has_color & ~_wide(has_color)] = 0
    return Fill(_grown(cells), lows, highs)


def _mark_slivers(cells: NDArray[np.uint8], source: rasterio.DatasetReader, rgb: Sequence[int], noise: int) -> None:
    """Mark cells at the scene's border as black whose outermost pixels are, however narrow the rest of them is."""
    width, height = source.width, source.height
    for edge, col, row, columns, rows in (
        (cells[:1], 0, 0, width, SLIVER_PX),
        (cells[-1:], 0, height - SLIVER_PX, width, SLIVER_PX),
        (cells[:, :1], 0, 0, SLIVER_PX, height),
        (cells[:, -1:], width - SLIVER_PX, 0, SLIVER_PX, height),
    ):
        low, high = _of_cells(source.read(list(rgb), window=Window(col, row, columns, rows)))
        edge[(low >= 0).all(axis=0) & (high <= noise).all(axis=0)] = BLACK


def _ordered(source: rasterio.DatasetReader, itemsize: int) -> Iterator[Window]:
    """Yield windows of whole cells and, where they fit into the memory meant for it, of whole blocks."""
    rows, columns = (math.lcm(min(side, MOST_ROWS), CELL_PX) for side in source.block_shapes[0])
    columns = min(columns, -(-source.width // CELL_PX) * CELL_PX)
    rows = max(CELL_PX, min(rows, READ_BYTES // (3 * itemsize * columns) // CELL_PX * CELL_PX))
    columns *= max(1, READ_BYTES // (3 * itemsize * rows * columns))
    for row in range(0, source.height, rows):
        for col in range(0, source.width, columns):
            yield Window(col, row, min(columns, source.width - col), min(rows, source.height - row))


def _of_cells(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the greatest sample of each cell, [3, rows, columns] each; cells at the border may be cut."""
    short = -values.shape[1] % CELL_PX
    whole = np.pad(values, ((0, 0), (0, short), (0, 0)), mode="edge") if short else values
    rows, starts = whole.reshape(3, -1, CELL_PX, whole.shape[2]), np.arange(0, whole.shape[2], CELL_PX)
    # rows first, in one go: that is several times faster
    low, high = (extreme.reduceat(extreme.reduce(rows, axis=2), starts, axis=2) for extreme in (np.minimum, np.maximum))
    return low, high


def _name_others(cells: NDArray[np.uint8], others: list[tuple[NDArray[np.int64], NDArray[Any]]]) -> NDArray[Any]:
    """Mark the cells of the commonest other colors, as 3, 4, ... in `cells`, and return these colors, [K, 3]."""
    if not others:
        return np.zeros((0, 3))
    places, found = (np.concatenate(parts) for parts in zip(*others, strict=True))
    colors, of_cell, n_cells = np.unique(found, axis=0, return_inverse=True, return_counts=True)
    common = np.argsort(-n_cells)[: MOST_COLORS - 2]
    for number, color in enumerate(common, start=3):
        rows, columns = places[of_cell.ravel() == color].T
        cells[rows, columns] = number
    return colors[common]


def _wide(is_marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the connected parts of an area that hold squares of cells; none if it is all of the scene: that is its
    color.
    """
    if is_marked.all():
        return np.zeros_like(is_marked)
    square = np.ones((WIDE_CELLS, WIDE_CELLS), np.uint8)
    opened = cv2.morphologyEx(
        is_marked.astype(np.uint8), cv2.MORPH_OPEN, square, borderType=cv2.BORDER_CONSTANT, borderValue=0
    )
    _, part = cv2.connectedComponents(is_marked.astype(np.uint8))
    return np.isin(part, part[opened > 0])


def _grown(cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Add the cells beside those that are filled."""
    return np.where(cells > 0, cells, np.asarray(cv2.dilate(cells, np.ones((3, 3), np.uint8)), dtype=np.uint8))


def warped(fill: Fill, scene: Scene, view: WarpedVRT) -> Fill:
    """Return the fill of a scene in the pixels of a warped view of it."""
    cells = np.zeros((-(-view.height // CELL_PX), -(-view.width // CELL_PX)), dtype=np.uint8)
    reproject(
        fill.cells,
        cells,
        src_transform=_cell_wide(scene.transform),
        src_crs=scene.crs,
        dst_transform=_cell_wide(tuple(view.transform)[:6]),
        dst_crs=view.crs,
        resampling=Resampling.max,
    )
    return Fill(_grown(cells), fill.lows, fill.highs)


def _cell_wide(transform: Sequence[float]) -> Affine:
    """Return the transform of cells, from that of pixels: (a, b, c, d, e, f)."""
    a, b, c, d, e, f = transform
    return Affine(a * CELL_PX, b * CELL_PX, c, d * CELL_PX, e * CELL_PX, f)
