"""A mosaic as edges: read strip by strip, averaged to worked pixels, and held as long as windows need it."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.alignment import edge_matching
from pu_geo.geo.raster.mosaic import Mosaic


@dataclass(frozen=True)
class HeldEdges:
    """What an `EdgeView` holds at one moment; a later `advance` does not touch it."""

    col: int
    row: int
    edges: NDArray[np.int8]
    valid: NDArray[np.bool_]

    def cut(self, x: int, y: int, size: int) -> NDArray[np.int8]:
        """Cut a square of edges, int8 [size, size, 2]; 0 beyond what is held."""
        x, y = x - self.col, y - self.row
        height, width = self.valid.shape
        if x >= 0 and y >= 0 and x + size <= width and y + size <= height:
            return self.edges[y : y + size, x : x + size]
        out = np.zeros((size, size, 2), dtype=np.int8)
        part = self.edges[max(y, 0) : max(y + size, 0), max(x, 0) : max(x + size, 0)]
        out[max(-y, 0) : max(-y, 0) + part.shape[0], max(-x, 0) : max(-x, 0) + part.shape[1]] = part
        return out

    def covers(self, x: int, y: int) -> bool:
        """Say whether a pixel has data."""
        height, width = self.valid.shape
        x, y = x - self.col, y - self.row
        return 0 <= x < width and 0 <= y < height and bool(self.valid[y, x])


@dataclass
class EdgeView:
    """Rows of one mosaic, averaged to worked pixels and turned into edges, that windows still need.

    Attributes:
        col, width: first worked column held, and how many.
        row: first worked row held.
        edges: int8 [rows, width, 2].
        valid: bool [rows, width].
    """

    mosaic: Mosaic
    shrink: int
    noise: float = edge_matching.MIN_NOISE
    col: int = 0
    width: int = 0
    row: int = 0
    edges: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 0, 2), dtype=np.int8))
    valid: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    _last_gray: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))

    def read(self, col: int, row: int, width: int, height: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read a window given in worked pixels: gray values of red and green, which haze dims less than blue; and validity."""
        picture, valid = self.mosaic.read(*(self.shrink * value for value in (col, row, width, height)))
        gray = cv2.addWeighted(picture[0], 0.5, picture[1], 0.5, 0.0)
        if self.shrink == 1:
            return np.asarray(gray, dtype=np.uint8), valid
        small = np.asarray(cv2.resize(gray, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        if valid.all():
            return small, np.ones((height, width), dtype=bool)
        return small, np.asarray(valid.reshape(height, self.shrink, width, self.shrink).all(axis=(1, 3)))

    def advance(self, keep_from: int, start: int, stop: int) -> None:
        """Forget rows above `keep_from`, then read rows `start` to `stop`; edges across the seam are found, too."""
        gray, valid = self.read(self.col, start, self.width, stop - start)
        follows = len(self.valid) > 0 and self.row + len(self.valid) == start
        above = self._last_gray if follows else gray[:0]
        known = np.concatenate([self.valid[len(self.valid) - len(above) :], valid]) if follows else valid
        edges = edge_matching.edge_field(np.concatenate([above, gray]), known, self.noise)
        held = min(max(keep_from - self.row, 0), len(self.valid) - 1) if follows else 0
        if follows:  # the last row held did not know the one below it
            edges = np.concatenate([self.edges[held:-1], edges[len(above) - 1 :]])
            valid = np.concatenate([self.valid[held:], valid])
        self.row = self.row + held if follows else start
        self.edges, self.valid, self._last_gray = edges, valid, gray[-2:]

    def held(self) -> HeldEdges:
        return HeldEdges(self.col, self.row, self.edges, self.valid)
