"""How far one picture lies from another of the same place, measured by the direction of edges.

Between two dates brightness, season and haze differ, and damage replaces what is there. The direction of an edge outlives
the first three; what was replaced adds noise to every shift alike, so that the edges that remained decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from pu_geo.geo.raster.mosaic import Mosaic

N_PEAKS = 4
GAP_PX = 3  # between two peaks that count as two
MIN_NOISE = 8.0  # gradient that quantization to 8 bit alone can make: one gray level a pixel, as Sobel scales it
MIN_OVERLAP = 0.25  # how little edges one date may show against the other
BY_CHANCE = 3.0  # standard deviations that the best of many shifts reaches where pictures have nothing in common
_STEPS = 127


def gradients(gray: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return Sobel gradients along columns and rows, float32 [H, W] each."""
    along_x = cv2.Sobel(gray, cv2.CV_32F, 1, 0, ksize=3)
    along_y = cv2.Sobel(gray, cv2.CV_32F, 0, 1, ksize=3)
    return np.asarray(along_x, dtype=np.float32), np.asarray(along_y, dtype=np.float32)


def noise_of(grays: Sequence[NDArray[np.uint8]], valid: Sequence[NDArray[np.bool_]]) -> float:
    """Return the gradient that a typical pixel of these pictures has: edges below it count little."""
    found = [cv2.magnitude(*gradients(gray))[is_valid] for gray, is_valid in zip(grays, valid, strict=True)]
    every = np.concatenate([np.zeros(0, dtype=np.float32), *found])
    return max(MIN_NOISE, float(np.median(every))) if len(every) else MIN_NOISE


def edge_field(gray: NDArray[np.uint8], valid: NDArray[np.bool_], noise: float) -> NDArray[np.int8]:
    """Return the direction of the gradient at every pixel, of length near 1 at clear edges and near 0 in flat parts.

    Source: orientation correlation (Fitch, Kadyrov, Christmas, Kittler, "Orientation correlation", BMVC 2002), Section 2.

    Args:
        gray: uint8 [H, W].
        valid: bool [H, W]; pixels without data, and those beside them, become 0.
        noise: gradient at which the length is one half.

    Returns:
        int8 [H, W, 2], (column, row) components in steps of 1/127.

    Departs from the source: its vectors have length 1 wherever the gradient is not 0, so that the noise of a flat roof
    weighs as much as a road.
    """
    along_x, along_y = gradients(gray)
    weight = _STEPS / (cv2.magnitude(along_x, along_y) + noise)
    if not valid.all():
        weight *= cv2.erode(valid.astype(np.uint8), np.ones((3, 3), dtype=np.uint8))
    field = cv2.merge([cv2.multiply(along_x, weight), cv2.multiply(along_y, weight)])
    return np.asarray(np.rint(field, out=field), dtype=np.int8)


def correlation(pre: NDArray[np.int8], post: NDArray[np.int8], reach: int) -> NDArray[np.float32]:
    """Return how well the pre edges fit the post edges at every whole shift up to `reach`.

    Source: Fitch et al. (2002), eq. 3: the real part of the correlation of two fields of directions, taken by FFT. Ours:
    its unit is the standard deviation over shifts up to a quarter of the window, most of which fit by chance alone.

    Args:
        pre, post: edge fields, int8 [F, F, 2], of one place as far as is known; F > 2 * reach > 0.
        reach: largest shift along each axis, pixels.

    Returns:
        float32 [2 * reach + 1, 2 * reach + 1], standard deviations: at [reach + dy, reach + dx] the fit once pre has
        moved dx columns to the right and dy rows down. 0 everywhere if either date shows too little of the place.

    Departs from the source: the outer `reach` pixels of post are left out, so that no shift reaches beyond the window or
    around its border.
    """
    size = len(post)
    inner = np.s_[reach : size - reach, reach : size - reach]
    template = np.zeros(post.shape, dtype=np.float32)
    template[inner] = post[inner]
    window = pre.astype(np.float32)
    lengths = cv2.norm(template), cv2.norm(window[inner])
    if min(lengths) <= MIN_OVERLAP * max(lengths):
        return np.zeros((2 * reach + 1, 2 * reach + 1), dtype=np.float32)
    spectrum = cv2.mulSpectrums(cv2.dft(template), cv2.dft(window), 0, conjB=True)
    fit = cv2.dft(spectrum, flags=cv2.DFT_INVERSE | cv2.DFT_SCALE)[..., 0]
    lags = np.arange(-reach, reach + 1)
    far = np.arange(-(size // 4), size // 4 + 1)
    return np.asarray(fit[lags[:, None], lags] / fit[far[:, None], far].std(), dtype=np.float32)


def peaks(surfaces: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find the highest places of correlation surfaces, to fractions of a pixel by a parabola through three values.

    Args:
        surfaces: float32 [N, 2 * reach + 1, 2 * reach + 1] from `correlation`.

    Returns:
        shifts, float64 [N, 4, 2], (dx, dy) pixels, best first; and their heights, float64 [N, 4], 0 where there is none.
    """
    n, side, _ = surfaces.shape
    left = np.pad(surfaces, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rest, each = surfaces.copy(), np.arange(n)
    shifts, heights = np.zeros((n, N_PEAKS, 2)), np.zeros((n, N_PEAKS))
    axis = np.arange(side)
    for k in range(N_PEAKS):
        row, col = np.divmod(rest.reshape(n, side * side).argmax(axis=1), side)
        height = np.maximum(rest[each, row, col], 0.0)
        across = _vertex(*(left[each, row + 1, col + step] for step in (0, 1, 2)))
        down = _vertex(*(left[each, row + step, col + 1] for step in (0, 1, 2)))
        found = np.stack([col + across, row + down], axis=-1) - side // 2
        shifts[:, k], heights[:, k] = np.where(height[:, None] > 0, found, 0.0), height
        near = (abs(axis - row[:, None]) <= GAP_PX)[:, :, None] & (abs(axis - col[:, None]) <= GAP_PX)[:, None, :]
        rest[near] = 0.0
    return shifts, heights


def _vertex(before: NDArray[np.float32], here: NDArray[np.float32], after: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return where the parabola through three equidistant values has its top, -0.5..0.5 from the middle one."""
    bend = np.minimum(before - 2 * here + after, -1e-9)
    return np.clip(0.5 * (before - after) / bend, -0.5, 0.5)


def at_border(shifts: NDArray[np.float64], reach: int) -> NDArray[np.bool_]:
    """Return which peaks lie at the border of their surface, bool [N, K]: the true one may lie beyond it.

    Args:
        shifts: float64 [N, K, 2] from `peaks`.
        reach: largest shift along each axis that was searched, pixels.
    """
    return np.asarray((np.rint(np.abs(shifts)) >= reach).any(axis=-1))


def trust(heights: NDArray[np.float64], by_chance: float = BY_CHANCE) -> NDArray[np.float64]:
    """Return how far the best of each row of peaks can be trusted, float64 [N], 0 to 1. Ours.

    It must stand out from the second peak and from chance. On the two Joplin scenes all of 311 buildings with 0.5 and more
    lay within 2 m of the shift of their scene, 95 of 100 within 0.9 m; of those below, 55 of 72. Where pre and post were of
    different places, 1 of 185 buildings got 0.5.

    Args:
        heights: float64 [N, 4] from `peaks`, standard deviations.
        by_chance: standard deviations that the best of as many shifts reaches where there is nothing in common.
    """
    ratio = np.divide(heights[:, 1], heights[:, 0], out=np.ones(len(heights)), where=heights[:, 0] > 0)
    return np.clip((0.95 - ratio) / 0.5, 0.0, 1.0) * np.clip((heights[:, 0] - by_chance) / 2.0, 0.0, 1.0)


# Edges held while a mosaic is read


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
        """Return whether a pixel has data."""
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
    noise: float = MIN_NOISE
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
        edges = edge_field(np.concatenate([above, gray]), known, self.noise)
        held = min(max(keep_from - self.row, 0), len(self.valid) - 1) if follows else 0
        if follows:  # the last row held did not know the one below it
            edges = np.concatenate([self.edges[held:-1], edges[len(above) - 1 :]])
            valid = np.concatenate([self.valid[held:], valid])
        self.row = self.row + held if follows else start
        self.edges, self.valid, self._last_gray = edges, valid, gray[-2:]

    def held(self) -> HeldEdges:
        return HeldEdges(self.col, self.row, self.edges, self.valid)
