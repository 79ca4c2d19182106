"""How far the pre scenes lie from the post scenes, for the scene pair as a whole and for each building.

Pixels are first averaged to about a metre: that is fine enough for shifts to a third of a metre, and a quarter of the
work. A sample of large windows gives the shift of the scene pair; one ordered pass over both scenes then searches for the
rest of the shift around every building; the neighbors settle the doubtful ones. A match at the border of a search
may lie beyond it: it is searched for again further out, and never trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.alignment import edges, shift_field
from pu_geo.geo.alignment.edges import EdgeView, HeldEdges
from pu_geo.geo.raster.mosaic import Mosaic, Report, columns_of, report_strip, row_order
from pu_geo.records import Grid

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

WORK_M = 0.9  # pixels are averaged to the power of two nearest to this
SCENE_REACHES_M = (20.0, 60.0)  # largest shift of the scene pair; the surer of the two searches holds
REACH_M, FAR_REACH_M = 6.0, 20.0  # of a building from that; the second where the first has no sure match inside it
WINDOW_PX, MAX_WINDOW_PX = 96, 384  # worked pixels; a window grows with the building up to the second
SAMPLE_PX, N_SAMPLES = 256, 16
MIN_IN_COMMON = 7.0
FAR_BY_CHANCE = 3.6  # as `edges.BY_CHANCE`, for the ten times as many shifts of the far search
TOLERANCE_M = 1.5  # leaning roofs differ by this much from the ground beside them
N_THREADS = 4  # OpenCV lets go of the interpreter lock


@dataclass(frozen=True)
class Shifts:
    """Where the pre scenes lie against the post scenes.

    Sign: (dx_px, dy_px) are the grid columns to the right and the grid rows down by which the content of the pre scenes
    must move to lie on that of the post scenes. In metres the first counts to the east and the second to the **north**.

    Attributes:
        dx_px, dy_px: float64 [N], per building; the shift of the scene pair where the quality is 0.
        quality: float64 [N], 0 (not known) to 1; from 0.5 on 19 of 20 are right to within a metre.
        has_data: bool [N], both dates show the building's middle; without, its quality is 0.
        is_mended: bool [N], taken from the neighbors, or chosen by them among several.
        scene_px: (dx, dy) of the scene pair, median of the good buildings.
    """

    dx_px: Floats
    dy_px: Floats
    quality: Floats
    has_data: Bools
    is_mended: Bools
    scene_px: tuple[float, float]


def metres_per_px(grid: Grid) -> Floats:
    """Return metres to the east per column and to the north per row (negative), float64 [2]."""
    a, _, _, _, e, _ = grid.transform
    return np.array([a * grid.x_unit_m, e * grid.y_unit_m])


def estimate_shifts(
    pre: Mosaic,
    post: Mosaic,
    windows: Floats,
    *,
    report: Report | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Shifts:
    """Measure the shift between pre and post around every building, reading each block of the scenes about once.

    Args:
        pre, post: open mosaics on the same grid.
        windows: boxes of the buildings, float64 [N, 4]: column, row, width, height in grid pixels.
        report: called with {"stage": "alignment", "done", "total"} after each strip.

    Returns:
        Quality 0 where either scene has no data or no edges, where the scene pair differs everywhere, and where the best
        match lies at the border of the far search and no neighbors correct it.

    Raises:
        JobCancelled: if `is_cancelled()`.
        ImageryError: if a part of a scene cannot be decoded.
    """
    n = len(windows)
    nothing = Shifts(np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n, dtype=bool), np.zeros(n, dtype=bool), (0.0, 0.0))
    if n == 0:
        return nothing
    grid = post.grid
    shrink = 2 ** max(0, round(math.log2(WORK_M / grid.gsd_m)))
    scale = _Scale(shrink, grid.gsd_m * shrink)
    middle = (windows[:, :2] + windows[:, 2:] / 2) / shrink
    views = [EdgeView(mosaic, shrink) for mosaic in (pre, post)]
    coarse = _scene_shift(views, middle, scale)
    if coarse is None:
        return nothing
    reach, far = scale.px(REACH_M, 3), scale.px(FAR_REACH_M, 4)
    size = _window_sizes(windows[:, 2:].max(axis=1) / shrink, reach)
    found, worth = np.zeros((n, edges.N_PEAKS, 2)), np.zeros(n)
    matcher = _Matcher(middle, size, coarse, reach, far, found, worth)
    with ThreadPoolExecutor(N_THREADS) as pool:
        waiting: list[Future[None]] = []
        done = 0
        for ready, (before, after) in _passes(views, middle, matcher.held_size, coarse):
            for part in waiting:  # matched while the strip after them was read
                part.result()
            done += len(ready)
            report_strip(report, is_cancelled, "alignment", done, n)
            waiting = [pool.submit(matcher.match, before, after, rows) for rows in np.array_split(ready, N_THREADS)]
        for part in waiting:
            part.result()
    return _settle(found + coarse, worth, middle, coarse, grid, scale)


@dataclass(frozen=True)
class _Scale:
    """What a worked pixel is: `shrink` grid pixels along each axis, `metres` on the ground."""

    shrink: int
    metres: float

    def px(self, metres: float, least: int) -> int:
        return max(least, math.ceil(metres / self.metres))


def _window_sizes(building: Floats, reach: int) -> Ints:
    """Return the window's side for buildings of these sizes, worked pixels: 3 times the building, and fit for an FFT."""
    wanted = np.clip(np.ceil(3 * building) + 2 * reach, WINDOW_PX, max(MAX_WINDOW_PX, 4 * reach)).astype(np.int64)
    known, place = np.unique(wanted, return_inverse=True)
    return np.array([2 * cv2.getOptimalDFTSize((int(size) + 1) // 2) for size in known], dtype=np.int64)[place]


def _scene_shift(views: list[EdgeView], middle: Floats, scale: _Scale) -> Ints | None:
    """Find the shift of the scene pair, worked pixels, int64 [2], from the sum of correlations of a sample of windows.

    Ours. A sum finds what windows have in common even where none is sure by itself: those that fit by chance alone add
    up to sqrt(n) standard deviations. Sets the noise of both views.

    Returns:
        None if the windows have nothing in common up to the largest reach.
    """
    cells = np.unique(np.floor(middle[:, ::-1] / SAMPLE_PX).astype(np.int64), axis=0)[:, ::-1] * SAMPLE_PX
    corners = cells[np.unique(np.linspace(0, len(cells) - 1, N_SAMPLES).astype(np.int64))]
    samples = [[view.read(int(x), int(y), SAMPLE_PX, SAMPLE_PX) for x, y in corners] for view in views]
    for view, pictures in zip(views, samples, strict=True):
        view.noise = edges.noise_of([gray for gray, _ in pictures], [valid for _, valid in pictures])
    fields = [
        [edges.edge_field(gray, valid, view.noise) for gray, valid in pictures]
        for view, pictures in zip(views, samples, strict=True)
    ]
    best, shift = MIN_IN_COMMON, None
    for reach_m in SCENE_REACHES_M:
        reach = min(scale.px(reach_m, 4), SAMPLE_PX // 4)
        surfaces = [edges.correlation(before, after, reach) for before, after in zip(*fields, strict=True)]
        n = max(1, sum(bool(surface.any()) for surface in surfaces))
        total = np.sum(np.stack(surfaces), axis=0, keepdims=True) / math.sqrt(n)
        shifts, heights = edges.peaks(total)
        if heights[0, 0] >= best and not edges.at_border(shifts, reach)[0, 0]:
            best, shift = heights[0, 0], np.asarray(np.rint(shifts[0, 0]), dtype=np.int64)
    return shift


def _passes(views: list[EdgeView], middle: Floats, size: Ints, coarse: Ints) -> Iterator[tuple[Ints, list[HeldEdges]]]:
    """Go down the grid strip by strip; yield the buildings whose windows are complete, and the edges held of each view.

    The windows are those of the post scene together with those of the pre scene, which lie off by the coarse shift.
    """
    grid, shrink = views[0].mosaic.grid, views[0].shrink
    start = np.rint(middle).astype(np.int64) - size[:, None] // 2
    low, high = np.minimum(start, start - coarse), np.maximum(start, start - coarse) + size[:, None]
    boxes = np.concatenate([low, high], axis=1) * shrink
    left, right = columns_of(boxes, grid)
    for view in views:
        view.col = left // shrink
        view.width = max(1, min(-(-right // shrink), grid.width // shrink) - view.col)
    rows = max(view.mosaic.preferred_block_rows for view in views)
    for keep_from, first, stop, ready in row_order(boxes, grid, -(-rows // shrink) * shrink):
        if stop - first >= shrink:
            for view in views:
                view.advance(keep_from // shrink, first // shrink, stop // shrink)
        yield ready, [view.held() for view in views]


@dataclass(frozen=True)
class _Matcher:
    """Matches buildings whose windows are within the held edges, and writes what it finds into their rows.

    Attributes:
        reach, far: largest shift of the first search and of the far one, worked pixels.
        found: float64 [N, 4, 2], peaks off the coarse shift; NaN for other than the best where one lies at the border.
        worth: float64 [N], how far the best of them can be trusted, 0..1; -1 where there is no data.
    """

    middle: Floats
    size: Ints
    coarse: Ints
    reach: int
    far: int
    found: Floats
    worth: Floats

    @property
    def held_size(self) -> Ints:
        """Side of the window that the far search needs, worked pixels, int64 [N]."""
        return self.size + 2 * max(self.far - self.reach, 0)

    def match(self, pre: HeldEdges, post: HeldEdges, rows: Ints) -> None:
        surfaces = np.empty((len(rows), 2 * self.reach + 1, 2 * self.reach + 1), dtype=np.float32)
        is_covered = np.zeros(len(rows), dtype=bool)
        off_x, off_y = self.coarse.tolist()
        places = np.rint(self.middle[rows]).astype(np.int64).tolist()
        windows = []
        for k, ((x, y), size) in enumerate(zip(places, self.held_size[rows].tolist(), strict=True)):
            is_covered[k] = pre.covers(x - off_x, y - off_y) and post.covers(x, y)
            left, top = x - size // 2, y - size // 2
            before, after = pre.cut(left - off_x, top - off_y, size), post.cut(left, top, size)
            windows.append((before, after))
            edge = (size - int(self.size[rows[k]])) // 2
            inner = np.s_[edge : size - edge, edge : size - edge]
            surfaces[k] = edges.correlation(before[inner], after[inner], self.reach)
        shifts, heights = edges.peaks(surfaces)
        worth = self._judge(shifts, edges.trust(heights), self.reach)
        for k in np.flatnonzero(is_covered & (worth < shift_field.GOOD) & (self.far > self.reach)).tolist():
            shift, height = edges.peaks(edges.correlation(*windows[k], self.far)[None])
            sure = self._judge(shift, edges.trust(height, FAR_BY_CHANCE), self.far)
            if sure[0] >= shift_field.GOOD and np.abs(shift[0, 0]).max() >= self.reach - 1:
                shifts[k], worth[k] = shift[0], sure[0]
        self.found[rows], self.worth[rows] = shifts, np.where(is_covered, worth, -1.0)

    @staticmethod
    def _judge(shifts: Floats, trust: Floats, reach: int) -> Floats:
        """Return the trust in the best peak, 0 where it lies at the border; other peaks at the border become NaN."""
        is_cut_off = edges.at_border(shifts, reach)
        shifts[:, 1:][is_cut_off[:, 1:]] = np.nan
        return np.where(is_cut_off[:, 0], 0.0, trust)


def _settle(peaks: Floats, worth: Floats, middle: Floats, coarse: Ints, grid: Grid, scale: _Scale) -> Shifts:
    """Settle by neighbors what is doubtful, and convert from worked to grid pixels.

    Args:
        peaks: float64 [N, K, 2] in worked pixels.
        worth: float64 [N], trust in the best of them, 0..1; -1 where there is no data.
    """
    unit = np.abs(metres_per_px(grid)) * scale.shrink
    measured = np.maximum(worth, 0.0)
    tolerance_m = max(TOLERANCE_M, 1.5 * scale.metres)
    has_data = worth >= 0
    shift_m, quality, is_mended = shift_field.mend(middle * unit, peaks * unit, measured, tolerance_m, has_data)
    quality, is_mended = np.where(has_data, quality, 0.0), is_mended & has_data
    is_good = quality >= shift_field.GOOD
    scene = np.median(shift_m[is_good] / unit, axis=0) if is_good.any() else coarse.astype(np.float64)
    px = np.where(quality[:, None] > 0, shift_m / unit, scene) * scale.shrink
    scene_px = (float(scene[0]) * scale.shrink, float(scene[1]) * scale.shrink)
    return Shifts(px[:, 0], px[:, 1], quality, has_data, is_mended, scene_px)
