"""Chips: the windows around footprints, and cutting all of them in one ordered pass over the scenes.

A random read per footprint decodes each block dozens of times. Here the grid is read once, top to bottom, in strips as
tall as the scenes' own blocks; a chip is cut as soon as its last row has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import cv2
import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled, ShapeError
from pu_geo.geo.mosaic import Mosaic
from pu_geo.records import Grid

Report = Callable[[Mapping[str, object]], None]
MIN_FOOTPRINT_PX = 4.0
BUFFER_BYTES = 192 * 1024**2  # pixels held back per mosaic for chips that are not yet complete
PIECE_PIXELS = 16 * 1024**2
AREA_FROM = 1.5  # windows larger than this many times the chip are area averaged
N_THREADS = 4  # OpenCV lets go of the interpreter lock


def chip_windows(wkb: Sequence[bytes], grid: Grid, buffer: float = 0.5) -> NDArray[np.float64]:
    """Return the window around each footprint, float64 [N, 4]: column, row, width, height in grid pixels.

    Source: NcPU, Appendix D: the bounding rectangle of the footprint buffered by 0.5 times its size, taken parallel to
    the grid. Windows are rectangles as the footprints are; cutting stretches them to squares.

    Args:
        wkb: footprints in the project CRS.
        buffer: buffer distance as a share of the footprint's longer side.

    Departs from the source: footprints shorter than 4 pixels count as 4 pixels long, so that a chip shows something.
    """
    bounds = shapely.bounds(shapely.from_wkb(np.array(list(wkb), dtype=object))).reshape(-1, 4)
    corners = np.stack([grid.to_px(bounds[:, [0, 3]]), grid.to_px(bounds[:, [2, 1]])])
    low, high = corners.min(axis=0), corners.max(axis=0)
    size = np.maximum((high - low).max(axis=1), MIN_FOOTPRINT_PX)[:, None]
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, MIN_FOOTPRINT_PX / 2) + buffer * size
    return np.concatenate([middle - half, 2 * half], axis=1)


def whole_pixels(windows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round windows to whole pixels, int64 [N, 4]: first column, first row, one past the last column, past the last row."""
    start = np.rint(windows[:, :2]).astype(np.int64)
    stop = np.rint(windows[:, :2] + windows[:, 2:]).astype(np.int64)
    return np.concatenate([start, np.maximum(stop, start + 1)], axis=1)


@dataclass
class _Strip:
    """Rows of a mosaic that chips still need.

    Attributes:
        col, width: first grid column held, and how many.
        row: grid row of the first row held.
        picture: uint8 [rows, width, 3].
        valid: bool [rows, width].
        is_full: every held pixel is valid.
    """

    mosaic: Mosaic
    col: int
    width: int
    row: int = 0
    picture: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0, 3), dtype=np.uint8))
    valid: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    is_full: bool = False

    def advance(self, keep_from: int, start: int, stop: int) -> None:
        """Forget rows above `keep_from`, then read rows `start` to `stop`."""
        bands, valid = self.mosaic.read(self.col, start, self.width, stop - start)
        picture = np.asarray(cv2.merge(list(bands)), dtype=np.uint8)
        if keep_from < start and self.row + len(self.valid) == start:
            held = max(keep_from - self.row, 0)
            picture, valid = np.concatenate([self.picture[held:], picture]), np.concatenate([self.valid[held:], valid])
            start = self.row + held
        self.picture, self.valid, self.row, self.is_full = picture, valid, start, bool(valid.all())

    def cut(self, box: Sequence[int], out: NDArray[np.uint8]) -> float:
        """Cut a box out of the held rows into `out`, uint8 [3, size, size]; return the box's share without data, 0..1."""
        inside = _inside(box, self.mosaic.grid)
        if inside is None:
            out[:] = 0
            return 1.0
        held = np.s_[inside[1] - self.row : inside[3] - self.row, inside[0] - self.col : inside[2] - self.col]
        _resize(_mirror(self.picture[held], box, inside, 1), out)
        valid = self.valid[held]
        return 1.0 - (valid.size if self.is_full else np.count_nonzero(valid)) / ((box[2] - box[0]) * (box[3] - box[1]))


def _inside(box: Sequence[int], grid: Grid) -> tuple[int, int, int, int] | None:
    """Return the part of a box that lies on the grid, or None."""
    x0, y0, x1, y1 = max(box[0], 0), max(box[1], 0), min(box[2], grid.width), min(box[3], grid.height)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _mirror(picture: NDArray[np.uint8], box: Sequence[int], inside: Sequence[int], shrink: int) -> NDArray[np.uint8]:
    """Enlarge a picture [H, W, 3] of `inside` to its `box` by mirroring it; its pixels are `shrink` grid pixels wide."""
    left, top = ((inside[k] - box[k]) // shrink for k in (0, 1))
    right, bottom = ((box[k] - inside[k]) // shrink for k in (2, 3))
    if left or top or right or bottom:
        return np.pad(picture, ((top, bottom), (left, right), (0, 0)), mode="symmetric")
    return picture


def cut_chips(
    pre: Mosaic | None,
    post: Mosaic,
    windows: NDArray[np.float64],
    size_px: int,
    out: NDArray[np.uint8],
    *,
    pre_shift_px: NDArray[np.float64] | None = None,
    report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.float32]:
    """Cut one square chip per window out of the scene pair, reading each block of the scenes once.

    Beyond the grid's border the picture is mirrored, so that chips there do not stand out by a black edge; pixels without
    data inside the grid are 0. Windows over 1.5 times the chip's size are area averaged, others bilinear
    (area averaging by factors near 1 takes about twice as long).

    Args:
        pre: open mosaic of the pre scenes, or None for post only.
        post: open mosaic of the post scenes, on the same grid.
        windows: float64 [N, 4] from `chip_windows`.
        size_px: side of the chips.
        out: uint8 [N, 6 or 3, size_px, size_px], written to; pre bands first. May be a memory map.
        pre_shift_px: float64 [N, 2], (columns, rows) by which the pre content of each chip is moved, as in
            `alignment.Shifts`; rounded to whole pixels, since windows are. None moves nothing.
        report: called with {"stage": "chips", "done", "total"} after each strip.
        is_cancelled: asked after each strip.

    Returns:
        Share of each chip's window that no post scene covers, float32 [N], 0..1; mirrored parts count as not covered.

    Raises:
        JobCancelled: if `is_cancelled()` says so; `out` is then incomplete.
        ImageryError: if a part of a scene cannot be decoded.
    """
    mosaics = [post] if pre is None else [pre, post]
    if out.shape != (len(windows), 3 * len(mosaics), size_px, size_px):
        raise ShapeError(f"out must be {(len(windows), 3 * len(mosaics), size_px, size_px)}; got {out.shape}.")
    boxes = _boxes(windows, len(mosaics), pre_shift_px)
    reach = np.concatenate([boxes[..., :2].min(axis=1), boxes[..., 2:].max(axis=1)], axis=1)
    nodata_share = np.ones(len(boxes), dtype=np.float32)
    rows = max(mosaic.preferred_block_rows for mosaic in mosaics)
    tall = max(4 * rows, BUFFER_BYTES // (4 * post.grid.width) - rows)
    is_huge = (reach[:, 3] - reach[:, 1] > tall) | ((reach[:, 2:] - reach[:, :2]).prod(axis=1) > PIECE_PIXELS)
    out[is_huge] = 0
    with ThreadPoolExecutor(N_THREADS) as pool:
        for done, ready, strips in _passes(mosaics, reach, np.flatnonzero(~is_huge), rows):
            cut = partial(_cut_some, strips, boxes, out, nodata_share)
            list(pool.map(cut, np.array_split(ready, N_THREADS)))
            _tell(report, is_cancelled, done, len(boxes))
    for done, i in enumerate(np.flatnonzero(is_huge), len(boxes) - int(is_huge.sum()) + 1):
        for k, mosaic in enumerate(mosaics):
            nodata_share[i] = _cut_huge(mosaic, boxes[i, k].tolist(), out[i, 3 * k : 3 * k + 3])
        _tell(report, is_cancelled, done, len(boxes))
    return nodata_share


def _boxes(windows: NDArray[np.float64], n_mosaics: int, pre_shift_px: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Return the box of each chip in each mosaic, int64 [N, 1 or 2, 4]: content moved to the right is cut further left."""
    boxes = np.repeat(whole_pixels(windows)[:, None], n_mosaics, axis=1)
    if pre_shift_px is not None and n_mosaics > 1:
        boxes[:, 0] -= np.tile(np.rint(pre_shift_px).astype(np.int64), 2)
    return boxes


def _cut_some(
    strips: Sequence[_Strip],
    boxes: NDArray[np.int64],
    out: NDArray[np.uint8],
    nodata_share: NDArray[np.float32],
    rows: NDArray[np.int64],
) -> None:
    """Cut the chips in `rows`, which the strips hold completely; the last strip, post, gives the share without data."""
    for i, own in zip(rows.tolist(), boxes[rows].tolist(), strict=True):
        for k, strip in enumerate(strips):
            nodata_share[i] = strip.cut(own[k], out[i, 3 * k : 3 * k + 3])


def _tell(report: Report | None, is_cancelled: Callable[[], bool] | None, done: int, total: int) -> None:
    if is_cancelled is not None and is_cancelled():
        raise JobCancelled
    if report is not None:
        report({"stage": "chips", "done": done, "total": total})


def _passes(
    mosaics: Sequence[Mosaic], boxes: NDArray[np.int64], chosen: NDArray[np.int64], rows: int
) -> Iterator[tuple[int, NDArray[np.int64], list[_Strip]]]:
    """Go down the grid strip by strip; yield (chips done after this strip, chips complete now, the strips)."""
    if len(chosen) == 0:
        return
    left, right = columns_of(boxes[chosen], mosaics[0].grid)
    strips = [_Strip(mosaic, left, right - left) for mosaic in mosaics]
    done = 0
    for keep_from, start, stop, ready in row_order(boxes[chosen], mosaics[0].grid, rows):
        for strip in strips:
            strip.advance(keep_from, start, stop)
        done += len(ready)
        yield done, chosen[ready], strips


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


def _resize(picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Bring a picture [H, W, 3] to the size of `out`, uint8 [3, size, size]."""
    size = out.shape[-1]
    shrink = max(picture.shape[0], picture.shape[1]) / size
    how = cv2.INTER_AREA if shrink > AREA_FROM else cv2.INTER_LINEAR
    out[:] = cv2.resize(picture, (size, size), interpolation=how).transpose(2, 0, 1)


def _cut_huge(mosaic: Mosaic, box: Sequence[int], out: NDArray[np.uint8]) -> float:
    """Cut one chip from a window too large to hold in memory: in pieces, each averaged down before the next is read.

    Returns:
        Share of the window without data.
    """
    inside = _inside(box, mosaic.grid)
    if inside is None:
        return 1.0
    x0, y0, x1, y1 = inside
    shrink = max(1, min(x1 - x0, y1 - y0) // (2 * out.shape[-1]))
    width, height = -(-(x1 - x0) // shrink), -(-(y1 - y0) // shrink)
    small = np.zeros((height, width, 3), dtype=np.uint8)
    step = max(1, int(PIECE_PIXELS**0.5) // shrink)
    n_valid = 0
    for row in range(0, height, step):
        for col in range(0, width, step):
            left, top = x0 + col * shrink, y0 + row * shrink
            w, h = min(step, width - col), min(step, height - row)
            piece, valid = mosaic.read(left, top, min(w * shrink, x1 - left), min(h * shrink, y1 - top))
            n_valid += int(np.count_nonzero(valid))
            small[row : row + h, col : col + w] = cv2.resize(cv2.merge(list(piece)), (w, h), interpolation=cv2.INTER_AREA)
    _resize(_mirror(small, box, inside, shrink), out)
    return 1.0 - n_valid / ((box[2] - box[0]) * (box[3] - box[1]))
