"""Standing water after the tornado: where it lies, which buildings stand in it, and how it is drawn."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import Canvas, Look, fill_mask, smooth_noise
from sample_data._town import Building, Town

# Two low places of the track: middle as shares of the scene, half axes in metres, turn in radians
PONDS = ((0.654, 0.409, 86.0, 46.0, -1.0), (0.316, 0.63, 46.0, 34.0, -1.13))
LEAST_TOWN_M = 600  # as for the creek; a smaller scene has no water
SHORE = 0.28  # how far noise moves the shore, as a share of the half axes
RING_M = 1.5  # a building is flooded where most of the ring at this distance around its walls is water
MUD = np.array([116, 100, 76], np.float32)


class Flood:
    """Water of the post date; `level` is above 0 where it stands."""

    def __init__(self, size_m: tuple[float, float], rng: np.random.Generator) -> None:
        self.size_m = size_m
        self.noise = smooth_noise((int(size_m[1]) + 2, int(size_m[0]) + 2), 26, rng)
        self.ponds = PONDS if min(size_m) > LEAST_TOWN_M else ()

    def level(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return how far inside the water places in metres are, float32 of the same shape: 1 in a pond's middle, 0 at its
        shore.
        """
        x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
        rows = np.clip(y, 0, self.noise.shape[0] - 1).astype(int)
        columns = np.clip(x, 0, self.noise.shape[1] - 1).astype(int)
        best = np.full(x.shape, -1.0, np.float32)
        for share_x, share_y, long, wide, turn in self.ponds:
            dx, dy = x - share_x * self.size_m[0], y - share_y * self.size_m[1]
            a, b = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
            inside = 1 - np.sqrt((a / long) ** 2 + (b / wide) ** 2) + SHORE * self.noise[rows, columns]
            np.maximum(best, inside, out=best)
        return best

    def mark(self, town: Town) -> None:
        """Set `is_flooded` of every building that stands in the water."""
        for b in town.buildings:
            b.is_flooded = bool((self.level(*_ring(b).T) > 0).mean() > 0.6)

    def windows(self, canvas: Canvas) -> list[tuple[slice, slice]]:
        """Return the windows of a canvas around the ponds."""
        found = []
        for share_x, share_y, long, *_ in self.ponds:
            middle = np.array([[share_x * self.size_m[0], share_y * self.size_m[1]]])
            window = canvas.window(middle, 2 * long)
            if window is not None:
                found.append(window)
        return found


def _ring(b: Building) -> np.ndarray:
    """Return points around a building's walls, float [n, 2] in metres."""
    hull = cv2.convexHull(np.concatenate(b.corners()).astype(np.float32)).reshape(-1, 2)
    middle = hull.mean(0)
    away = hull - middle
    corners = middle + away * (1 + RING_M / np.hypot(*away.T)[:, None])
    steps = np.linspace(0, 1, 6, endpoint=False)[:, None, None]
    return (corners + (np.roll(corners, -1, axis=0) - corners) * steps).reshape(-1, 2)


def pour(canvas: Canvas, town: Town, flood: Flood, look: Look, rng: np.random.Generator) -> None:
    """Cover the ground with muddy water; houses stand out of it, what lies under it shows through where it is shallow."""
    dry = np.zeros(canvas.shape, np.uint8)
    for b in town.buildings:
        lean = np.array(look.lean) * (0 if b.damage == "destroyed" else b.eave_m)
        for corners in b.corners():
            hull = cv2.convexHull(np.concatenate([corners, corners + lean]).astype(np.float32)).reshape(-1, 2)
            fill_mask(dry, hull, 170 if b.damage == "destroyed" else 255)  # heaps of rubble stand out of it, too
    for window in flood.windows(canvas):
        x, y = canvas.metres(window)
        level = flood.level(x, y)
        deep = np.clip(level / 0.06, 0, 1) * (0.74 + 0.18 * np.clip(level / 0.5, 0, 1))
        alpha = deep * (1 - cv2.GaussianBlur(dry[window].astype(np.float32) / 255, (0, 0), 0.8))
        ripple = 3 * smooth_noise(level.shape, 5, rng) + 5 * smooth_noise(level.shape, 60, rng)
        water = MUD + ripple[..., None] * np.array([1.0, 0.95, 0.85], np.float32)
        old = canvas.pixels[window]
        canvas.pixels[window] = np.clip(old + (water - old) * alpha[..., None], 0, 255).astype(np.uint8)
