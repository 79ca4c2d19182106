"""Chips: the windows around footprints, and cutting all of them in one ordered pass over the scenes.

A random read per footprint decodes each block dozens of times. Here the grid is read once, top to bottom, in strips as
tall as the scenes' own blocks; a chip is cut as soon as its last row has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ShapeError
from pu_geo.geo.raster.mosaic import Mosaic, Report, Ring, Shown, passes, report_strip
from pu_geo.geo.vector.sites import in_px
from pu_geo.records import Grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_FOOTPRINT_PX = 4.0
MAX_HELD_PX = 2048  # windows with a longer side are read by themselves
PIECE_PIXELS = 8 * 1024**2
OPENCV_BANDS = 4  # that `cv2.resize` averages at a time
AREA_FROM = 2.0  # windows larger than this many times the chip are area averaged
N_THREADS = 4  # OpenCV lets go of the interpreter lock


def chip_windows(wkb: Sequence[bytes], grid: Grid, buffer: float = 0.5) -> Floats:
    """Return the window around each footprint, float64 [N, 4]: column, row, width, height in grid pixels.

    Source: NcPU, Appendix D: the bounding rectangle of the footprint buffered by 0.5 times its size, taken parallel to
    the grid. Windows are rectangles as the footprints are; cutting stretches them to squares.

    Args:
        wkb: footprints in the project CRS.
        buffer: buffer distance as a share of the footprint's longer side.

    Departs from the source: footprints shorter than 4 pixels count as 4 pixels long, so that a chip shows something.
    """
    bounds = shapely.bounds(in_px(shapely.from_wkb(np.array(list(wkb), dtype=object)), grid)).reshape(-1, 4)
    low, high = bounds[:, :2], bounds[:, 2:]
    size = np.maximum((high - low).max(axis=1), MIN_FOOTPRINT_PX)[:, None]
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, MIN_FOOTPRINT_PX / 2) + buffer * size
    return np.concatenate([middle - half, 2 * half], axis=1)


@dataclass(frozen=True)
class Outlines:
    """What the scenes show of each outline; filled in as chips are cut.

    Attributes:
        shapes: polygons or multipolygons in grid pixels, [N].
        missing: float32 [N, K], 0..1, share of the outline without data, of K mosaics as chips have.
        scene: int64 [N, K], number in the mosaic of the scene that shows most of it; -1 where none shows any.
    """

    shapes: NDArray[np.object_]
    missing: NDArray[np.float32]
    scene: Ints

    @classmethod
    def of(cls, wkb: Sequence[bytes], grid: Grid, n_mosaics: int) -> Outlines:
        """Return outlines of footprints in the project CRS, of which nothing is known yet."""
        shapes = in_px(shapely.from_wkb(np.array(list(wkb), dtype=object)), grid)
        n = len(shapes), n_mosaics
        return cls(shapes, np.ones(n, dtype=np.float32), np.full(n, -1, dtype=np.int64))

    def record(self, row: int, mosaic: int, shown: Shown, corner: Ints, side: int = 1) -> None:
        """Store what is shown of one outline.

        Args:
            shown: of each pixel of the window, as `Mosaic.read_into` returns it.
            corner: column and row of the grid where the outline's window starts, int64 [2].
            side: of these pixels, in grid pixels.
        """
        first = int(shown.flat[0])
        if (shown == first).all():
            self.missing[row, mosaic], self.scene[row, mosaic] = first == 0, first - 1
            return
        numbers = shown[outline_mask(self.shapes[row], corner, side, shown.shape)]
        visible = numbers[numbers > 0]
        self.missing[row, mosaic] = 1 - len(visible) / len(numbers) if len(numbers) else 1.0
        self.scene[row, mosaic] = np.bincount(visible).argmax() - 1 if len(visible) else -1


def outline_mask(
    shape: shapely.Geometry, corner: NDArray[Any], side: float | Floats, size: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return which pixels of a window an outline covers, bool [H, W]; holes are not covered, and one pixel always is.

    Args:
        corner: where the window starts, in the outline's units.
        side: width and height of a pixel in them.
    """
    mask = np.zeros(size, dtype=np.uint8)
    rings = [
        np.rint((shapely.get_coordinates(ring) - corner) / side * 16 - 8).astype(np.int32)
        for ring in shapely.get_rings(shapely.get_parts(shape))
    ]
    cv2.fillPoly(mask, rings, 1, shift=4)  # all rings at once: a hole is what two of them hold
    return mask > 0


def whole_pixels(windows: Floats) -> Ints:
    """Round windows to whole pixels, int64 [N, 4]: first column, first row, one past the last column, past the last row."""
    start = np.rint(windows[:, :2]).astype(np.int64)
    stop = np.rint(windows[:, :2] + windows[:, 2:]).astype(np.int64)
    return np.concatenate([start, np.maximum(stop, start + 1)], axis=1)


def _widened(
    picture: NDArray[np.uint8], shown: Shown, box: Sequence[int], inside: Sequence[int], shrink: int = 1
) -> tuple[NDArray[np.uint8], Shown]:
    """Enlarge a picture [H, W, B] of `inside` to its `box` by mirroring it, and what is shown: nothing beyond `inside`.

    Args:
        shrink: side of the picture's pixels, in grid pixels.
    """
    beyond = [((inside[k] - box[k]) // shrink, (box[k + 2] - inside[k + 2]) // shrink) for k in (1, 0)]
    return np.pad(picture, (*beyond, (0, 0)), mode="symmetric"), np.pad(shown, beyond)


def cut_chips(
    pre: Mosaic | None,
    post: Mosaic,
    windows: Floats,
    size_px: int,
    out: NDArray[np.uint8],
    *,
    layers: Sequence[Mosaic] = (),
    pre_shift_px: Floats | None = None,
    outlines: Outlines | None = None,
    report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.float32]:
    """Cut one square chip per window out of the scene pair and its layers, reading each block of the scenes once.

    Beyond the grid's border the picture is mirrored, so that chips there do not stand out by a black edge; pixels without
    data inside the grid are 0 on pre and post, and the mean of the chip's other pixels on layers: a measure that is not
    known is no low one. Windows over 2 times the chip's size are area averaged, others bilinear
    (area averaging by factors near 1 takes about twice as long).

    Args:
        pre: open mosaic of the pre scenes, or None for post only.
        post: open mosaic of the post scenes, on the same grid.
        windows: float64 [N, 4] from `chip_windows`.
        out: uint8 [N, 6 or 3 and the layers' bands, size_px, size_px], written to; pre bands first. May be a memory map.
        layers: open mosaics of further layers, on the same grid. None of them is moved.
        pre_shift_px: float64 [N, 2], (columns, rows) by which the pre content of each chip is moved, as in
            `alignment.Shifts`; rounded to whole pixels, since windows are. None moves nothing.
        outlines: of the same buildings, filled in where given; pre is judged where its chip is cut.
        report: called with {"stage": "chips", "done", "total"} after each strip.

    Returns:
        Share of each chip's window that no scene covers, float32 [N, 2 or 1 and the layers], 0..1, pre first, that of the
        moved window; mirrored parts count as not covered.

    Raises:
        JobCancelled: if `is_cancelled()`; `out` is then incomplete.
        ImageryError: if a part of a scene cannot be decoded.
    """
    mosaics = [*([] if pre is None else [pre]), post, *layers]
    ends = np.cumsum([mosaic.n_bands for mosaic in mosaics]).tolist()
    if out.shape != (len(windows), ends[-1], size_px, size_px):
        raise ShapeError(f"out must be {(len(windows), ends[-1], size_px, size_px)}; got {out.shape}.")
    bands = [slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False)]
    is_layer = [k >= len(mosaics) - len(layers) for k in range(len(mosaics))]
    boxes = _boxes(windows, len(mosaics), None if pre is None else pre_shift_px)
    reach = np.concatenate([boxes[..., :2].min(axis=1), boxes[..., 2:].max(axis=1)], axis=1)
    sides = reach[:, 2:] - reach[:, :2]
    is_huge = (sides.max(axis=1) > MAX_HELD_PX) | (sides.prod(axis=1) > PIECE_PIXELS)
    out[is_huge] = 0
    chips = _Chips(boxes, out, bands, is_layer, np.ones((len(boxes), len(mosaics)), dtype=np.float32), outlines)
    done = 0
    for n in _cut_in_passes(mosaics, chips, reach, np.flatnonzero(~is_huge)):
        done += n
        report_strip(report, is_cancelled, "chips", done, len(boxes))
    for i in np.flatnonzero(is_huge).tolist():
        for k, mosaic in enumerate(mosaics):
            chips.nodata_share[i, k], shown, side = _cut_huge(
                mosaic, boxes[i, k].tolist(), out[i, bands[k]], with_mean=is_layer[k]
            )
            if outlines is not None:
                outlines.record(i, k, shown, boxes[i, -1, :2], side)
        done += 1
        report_strip(report, is_cancelled, "chips", done, len(boxes))
    return chips.nodata_share


@dataclass(frozen=True)
class _Chips:
    """What is cut and where to: boxes int64 [N, K, 4], out uint8 [N, B, size, size], nodata_share float32 [N, K].

    Mosaic k is cut to `bands[k]`; in layers, pixels without data become the mean of the others.
    """

    boxes: Ints
    out: NDArray[np.uint8]
    bands: Sequence[slice]
    is_layer: Sequence[bool]
    nodata_share: NDArray[np.float32]
    outlines: Outlines | None

    def cut(self, rings: Sequence[Ring], offset: int, rows: Ints) -> None:
        """Cut the chips in `rows`, which the rings hold completely."""
        grid = rings[0].mosaic.grid
        for k, ring in enumerate(rings):
            boxes = self.boxes[rows, k]
            limits = grid.limits(self.boxes[rows, -1])
            low, high = np.maximum(boxes[:, :2], limits[:, :2]), np.minimum(boxes[:, 2:], limits[:, 2:])
            insides = np.concatenate([low, high], axis=1).tolist()
            n_valid = np.zeros(len(rows))
            for j, (i, box, inside) in enumerate(zip(rows.tolist(), boxes.tolist(), insides, strict=True)):
                out = self.out[i, self.bands[k]]
                if inside[0] >= inside[2] or inside[1] >= inside[3]:
                    out[:] = 0
                    continue
                picture, shown = ring.cut(inside, offset)
                n_valid[j] = np.count_nonzero(shown)
                if self.is_layer[k]:
                    picture = _with_mean(picture, shown)
                if inside != box:
                    picture, shown = _widened(picture, shown, box, inside)
                if self.outlines is not None:
                    self.outlines.record(i, k, shown, self.boxes[i, -1, :2])
                _resize(picture, out)
            self.nodata_share[rows, k] = 1.0 - n_valid / (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)


def _cut_in_passes(mosaics: Sequence[Mosaic], chips: _Chips, reach: Ints, chosen: Ints) -> Iterator[int]:
    """Cut the chosen chips, strip by strip, while the next strip is read; yield how many after each."""
    with ThreadPoolExecutor(N_THREADS + len(mosaics)) as pool:
        for rings, offset, ready in passes(mosaics, reach[chosen], pool):
            own = chosen[ready]
            near = own[np.argsort(reach[own, 0])]  # neighbors find each other's pixels in the cache
            list(pool.map(partial(chips.cut, rings, offset), np.array_split(near, N_THREADS)))
            yield len(ready)


def _boxes(windows: Floats, n_mosaics: int, pre_shift_px: Floats | None) -> Ints:
    """Return the box of each chip in each mosaic, int64 [N, 1 or 2, 4]: content moved to the right is cut further left."""
    boxes = np.repeat(whole_pixels(windows)[:, None], n_mosaics, axis=1)
    if pre_shift_px is not None and n_mosaics > 1:
        boxes[:, 0] -= np.tile(np.rint(pre_shift_px).astype(np.int64), 2)
    return boxes


def _with_mean(picture: NDArray[np.uint8], shown: Shown) -> NDArray[np.uint8]:
    """Return a picture [H, W, B] whose pixels without data have the mean of the others, band by band; 0 where all have
    none.
    """
    is_valid = shown > 0
    if is_valid.all() or not is_valid.any():
        return picture
    filled = picture.copy()  # windows share the pixels of a ring
    filled[~is_valid] = np.rint(picture[is_valid].mean(axis=0)).astype(np.uint8)
    return filled


def _resize(picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Resize a picture [H, W, B] to the size of `out`, uint8 [B, size, size], whose bands OpenCV writes to in place."""
    height, width, _ = picture.shape
    size = out.shape[-1]
    if not height == width == size:
        how = cv2.INTER_AREA if max(height, width) > AREA_FROM * size else cv2.INTER_LINEAR
        picture = _resized(picture, size, size, how)
    cv2.split(picture, tuple(out))


def _resized(picture: NDArray[np.uint8], width: int, height: int, how: int) -> NDArray[np.uint8]:
    """Return a picture [H, W, B] resized, uint8 [height, width, B]; OpenCV averages four bands at a time at most."""
    n = picture.shape[2]
    if 1 < n <= OPENCV_BANDS:
        return np.asarray(cv2.resize(picture, (width, height), interpolation=how), dtype=np.uint8)
    parts = [np.ascontiguousarray(picture[..., start : start + OPENCV_BANDS]) for start in range(0, n, OPENCV_BANDS)]
    sizes = [cv2.resize(part, (width, height), interpolation=how).reshape(height, width, -1) for part in parts]
    return np.concatenate(sizes, axis=2)


def _cut_huge(mosaic: Mosaic, box: Sequence[int], out: NDArray[np.uint8], *, with_mean: bool) -> tuple[float, Shown, int]:
    """Cut one chip from a window too large to hold in memory: in pieces, each averaged down before the next is read.

    Returns:
        Share of the window without data; which scene is shown, by every so many of the window's pixels; how many.
    """
    grid = mosaic.grid
    left, top, right, bottom = grid.limits(np.array([box]))[0].tolist()
    inside = x0, y0, x1, y1 = max(box[0], left), max(box[1], top), min(box[2], right), min(box[3], bottom)
    if x0 >= x1 or y0 >= y1:
        return 1.0, np.zeros((1, 1), dtype=mosaic.shown_type), 1
    is_whole = (x1 - x0) * (y1 - y0) <= PIECE_PIXELS
    shrink = 1 if is_whole else max(1, min(x1 - x0, y1 - y0) // (2 * out.shape[-1]))
    width, height = -(-(x1 - x0) // shrink), -(-(y1 - y0) // shrink)
    small = np.zeros((height, width, mosaic.n_bands), dtype=np.uint8)
    shown = np.zeros((height, width), dtype=mosaic.shown_type)
    step, n_valid = max(1, PIECE_PIXELS // ((x1 - x0) * shrink)), 0
    for row in range(0, height, step):
        part = slice(row, row + step)
        piece = np.empty((min(y1 - y0, (row + step) * shrink) - row * shrink, x1 - x0, mosaic.n_bands), dtype=np.uint8)
        numbers = mosaic.read_into(piece, x0, y0 + row * shrink)
        n_valid += int(np.count_nonzero(numbers))
        piece = _with_mean(piece, numbers) if with_mean else piece
        small[part] = _resized(piece, width, len(small[part]), cv2.INTER_AREA)
        shown[part] = numbers[::shrink, ::shrink]
    small = _with_mean(small, shown) if with_mean else small
    small, shown = _widened(small, shown, box, inside, shrink)
    _resize(small, out)
    return 1.0 - n_valid / ((box[2] - box[0]) * (box[3] - box[1])), shown, shrink
