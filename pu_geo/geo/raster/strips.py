"""Going down the grid strip by strip: which rows to read when, and rings of rows that hold what windows still need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.raster.mosaic import Mosaic, Shown
from pu_geo.records import Grid


@dataclass
class Ring:
    """The last rows read of a mosaic: a new strip takes the place of the oldest, so that no pixel is moved.

    Attributes:
        col: first grid column held.
        offset: grid rows less this, modulo the ring's length, give the row of the ring.
        picture: uint8 [rows, width, 3].
        shown: which scene each pixel shows, as `Mosaic.read_into` returns it, [rows, width]; a single number as long as
            every pixel read shows the same; None before the first is read.
    """

    mosaic: Mosaic
    col: int
    picture: NDArray[np.uint8]
    shown: Shown | None = field(default=None)

    def read(self, start: int, stop: int, offset: int) -> None:
        """Read grid rows `start` to `stop`, a strip that does not go around the ring's end."""
        first = (start - offset) % len(self.picture)
        part = np.s_[first : first + stop - start]
        shown = self.mosaic.read_into(self.picture[part], self.col, start)
        if self.shown is None and isinstance(shown, int):
            self.shown = shown
        elif isinstance(shown, int) and isinstance(self.shown, int) and shown == self.shown:
            return
        else:
            if not isinstance(self.shown, np.ndarray):
                self.shown = np.full(self.picture.shape[:2], self.shown or 0, dtype=self.mosaic.shown_type)
            self.shown[part] = shown

    def cut(self, box: Sequence[int], offset: int) -> tuple[NDArray[np.uint8], Shown]:
        """Return a box of held rows, uint8 [H, W, 3], and which scene each pixel shows, as `Mosaic.read_into` returns it."""
        x0, y0, x1, y1 = box
        columns, length = slice(x0 - self.col, x1 - self.col), len(self.picture)
        top = (y0 - offset) % length
        bottom = top + y1 - y0
        shown: Shown = 0 if self.shown is None else self.shown  # asked once: meanwhile, the next strip is read

        def part(held: NDArray[Any]) -> NDArray[Any]:
            if bottom <= length:
                return held[top:bottom, columns]
            return np.concatenate([held[top:, columns], held[: bottom - length, columns]])

        return part(self.picture), shown if isinstance(shown, int) else part(shown)


def passes(
    mosaics: Sequence[Mosaic], boxes: NDArray[np.int64], rows: int, pool: Executor
) -> Iterator[tuple[list[Ring], int, NDArray[np.int64]]]:
    """Go down the grid; while the caller cuts the windows that are complete, `pool` reads the next strip.

    Args:
        boxes: int64 [N, 4], N > 0: what windows need of all the mosaics together.
        rows: height of a strip.
        pool: where strips are read; to be shut down before the mosaics are closed.

    Yields:
        (a ring per mosaic, the offset for `Ring.cut`, the boxes complete now). Done with a yield's rings before the next.
    """
    grid = mosaics[0].grid
    left, right = columns_of(boxes, grid)
    steps = list(row_order(boxes, grid, rows))
    offsets = [start - rows * k for k, (_, start, _, _) in enumerate(steps)]  # strips that are not read take no room
    oldest = [(keep_from - offset) // rows for (keep_from, *_), offset in zip(steps, offsets, strict=True)]
    length = rows * max(min(k + 2, len(steps)) - first for k, first in enumerate(oldest))
    rings = [Ring(mosaic, left, np.empty((length, right - left, 3), dtype=np.uint8)) for mosaic in mosaics]

    def begin(k: int) -> list[Future[None]]:
        _, start, stop, _ = steps[k]
        return [pool.submit(ring.read, start, stop, offsets[k]) for ring in rings]

    reads = begin(0)
    for k, (_, _, _, ready) in enumerate(steps):
        for read in reads:
            read.result()
        reads = begin(k + 1) if k + 1 < len(steps) else []
        yield rings, offsets[k], ready


def panels(boxes: NDArray[np.int64], grid: Grid, rows: int, columns: int, held_px: int) -> Iterator[NDArray[np.int64]]:
    """Divide boxes into panels of columns narrow enough for a ring of at most `held_px` pixels.

    Blocks as wide as the scene cannot be divided: each panel would decode them anew.

    Args:
        boxes: int64 [N, 4] as from `whole_pixels`.
        rows, columns: height of a strip, and the width of a block.

    Yields:
        The boxes of a panel, int64 [n], n > 0.
    """
    if len(boxes) == 0:
        return
    left, right = columns_of(boxes, grid)
    width, height = (boxes[:, 2:] - boxes[:, :2]).max(axis=0).tolist()
    widest = held_px // (rows * (2 - (-height // rows))) - width
    if right - left <= widest + width or columns > widest:
        yield np.arange(len(boxes))
        return
    n = -(-(right - left) // (widest // columns * columns))
    step = -(-(right - left) // (n * columns)) * columns
    panel = (np.clip(boxes[:, 0], 0, grid.width - 1) - left // columns * columns) // step
    for k in np.unique(panel):
        yield np.flatnonzero(panel == k)


def columns_of(boxes: NDArray[np.int64], grid: Grid) -> tuple[int, int]:
    """Return the first grid column that boxes, int64 [N, 4], reach, and one past the last."""
    left = int(np.clip(boxes[:, 0].min(), 0, grid.width - 1))
    return left, int(np.clip(boxes[:, 2].max(), left + 1, grid.width))


def row_order(boxes: NDArray[np.int64], grid: Grid, rows: int) -> Iterator[tuple[int, int, int, NDArray[np.int64]]]:
    """Say which rows to read, strip by strip, so that each is read once and those without boxes never.

    Args:
        boxes: int64 [N, 4] as from `whole_pixels`.
        rows: height of a strip.

    Yields:
        (first row still needed, first row to read, one past the last, boxes complete once it is read).
    """
    top = np.clip(boxes[:, 1], 0, grid.height - 1)
    last = (np.clip(boxes[:, 3], 1, grid.height) - 1) // rows
    for k in range(int((top // rows).min()), int(last.max()) + 1):
        start, stop = k * rows, min((k + 1) * rows, grid.height)
        needed = (top < stop) & (last >= k)
        if needed.any():
            yield int(top[needed].min()), start, stop, np.flatnonzero(last == k)
