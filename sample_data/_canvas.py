"""The drawing board: 4 pixels per metre, twice finer than the finished scenes, and how each date looks."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

SCALE = 4.0  # canvas pixels per metre
MARGIN_M = 4.0  # the canvas is larger than the scene, so blur and shift find pixels beyond the border
_FRACTION = 4  # OpenCV's fixed-point bits

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Look:
    """What differs between the two dates although nothing was damaged."""

    sun_azimuth_deg: float
    sun_elevation_deg: float
    lean: tuple[float, float]  # metres a roof moves right and down for each metre of height (view angle)
    ground: dict[str, Color]
    tree: Color
    tree_spread: float
    gain: Color
    offset: Color
    shift_px: tuple[float, float]
    noise: float
    is_post: bool

    @property
    def sun(self) -> np.ndarray:
        """Unit vector toward the sun: x right, y down, z up."""
        azimuth, elevation = np.radians([self.sun_azimuth_deg, self.sun_elevation_deg])
        flat = np.cos(elevation)
        return np.array([flat * np.sin(azimuth), -flat * np.cos(azimuth), np.sin(elevation)])

    def shadow(self, height_m: float) -> np.ndarray:
        """Return the ground shift (x, y) in metres of the shadow of something `height_m` high."""
        sun = self.sun
        return -sun[:2] / sun[2] * height_m


PRE = Look(
    148, 54, (0.10, -0.04),
    {
        "lawn": (88, 91, 64), "rough": (100, 96, 70), "crop": (92, 90, 60), "soil": (134, 116, 90),
        "asphalt": (104, 103, 98), "old_asphalt": (120, 117, 110), "drive": (150, 144, 130),
        "concrete": (158, 153, 141), "parking": (108, 106, 101), "gravel": (142, 134, 118), "clay": (132, 118, 104),
        "turf": (80, 92, 60), "water": (62, 70, 58), "pool": (84, 160, 172), "wood": (62, 66, 44),
        "fence": (88, 80, 68), "paint": (150, 148, 140), "walk": (128, 124, 110),
    },
    (60, 71, 49), 0.14, (0.90, 0.92, 0.90), (2, 4, 2), (0.0, 0.0), 2.1, False,
)  # fmt: skip
POST = Look(
    196, 63, (-0.06, 0.07),
    {
        "lawn": (98, 104, 70), "rough": (114, 107, 79), "crop": (120, 107, 80), "soil": (140, 120, 94),
        "asphalt": (112, 110, 106), "old_asphalt": (124, 121, 115), "drive": (154, 148, 136),
        "concrete": (162, 157, 146), "parking": (114, 112, 108), "gravel": (146, 138, 123), "clay": (138, 126, 112),
        "turf": (86, 103, 63), "water": (92, 84, 64), "pool": (88, 150, 158), "wood": (76, 78, 52),
        "fence": (96, 88, 76), "paint": (155, 152, 145), "walk": (134, 129, 116),
    },
    (69, 81, 52), 0.17, (1.0, 0.985, 0.965), (6, 5, 5), (0.62, -0.48), 2.6, True,
)  # fmt: skip
CLASSES = tuple(PRE.ground)


class Canvas:
    """A drawing board over the scene; `pixels` is uint8 [rows, columns, 3]."""

    def __init__(self, size_m: tuple[float, float]) -> None:
        self.shape = tuple(round((m + 2 * MARGIN_M) * SCALE) for m in (size_m[1], size_m[0]))
        self.pixels = np.zeros((*self.shape, 3), np.uint8)
        self.road = np.zeros(self.shape, bool)  # streets, which crews clear first

    @staticmethod
    def to_px(points: np.ndarray) -> np.ndarray:
        """Metres to canvas pixels, float [..., 2]."""
        return (np.asarray(points, float) + MARGIN_M) * SCALE - 0.5

    @staticmethod
    def fixed(points: np.ndarray) -> np.ndarray:
        """Metres to OpenCV's fixed-point pixels, int32 [n, 1, 2]."""
        px = Canvas.to_px(points) * (1 << _FRACTION)
        return np.round(px).astype(np.int32).reshape(-1, 1, 2)

    def fill(self, polygon: np.ndarray, color: Color) -> None:
        """Fill a polygon given in metres."""
        cv2.fillPoly(self.pixels, [self.fixed(polygon)], color, cv2.LINE_AA, _FRACTION)

    def line(self, points: np.ndarray, width_m: float, color: Color) -> None:
        """Draw a line given in metres."""
        width = max(1, round(width_m * SCALE))
        cv2.polylines(self.pixels, [self.fixed(points)], False, color, width, cv2.LINE_AA, _FRACTION)

    def window(self, points: np.ndarray, margin_m: float = 0.0) -> tuple[slice, slice] | None:
        """Return the (rows, columns) around `points` [n, 2] in metres, or None if outside."""
        px = self.to_px(points)
        low = np.floor(px.min(0) - margin_m * SCALE).astype(int)
        high = np.ceil(px.max(0) + margin_m * SCALE).astype(int) + 1
        low, high = np.maximum(low, 0), np.minimum(high, self.shape[::-1])
        if (low >= high).any():
            return None
        return slice(int(low[1]), int(high[1])), slice(int(low[0]), int(high[0]))

    @staticmethod
    def metres(window: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y in metres of a window's pixels, float [rows, columns] each."""
        y, x = np.mgrid[window[0], window[1]]
        return (x + 0.5) / SCALE - MARGIN_M, (y + 0.5) / SCALE - MARGIN_M


def fill_mask(mask: np.ndarray, polygon: np.ndarray, value: int) -> None:
    """Fill a polygon in metres into a uint8 board."""
    cv2.fillPoly(mask, [Canvas.fixed(polygon)], value, cv2.LINE_8, _FRACTION)


def line_mask(mask: np.ndarray, points: np.ndarray, width_m: float, value: int) -> None:
    """Draw a line in metres into a uint8 board."""
    width = max(1, round(width_m * SCALE))
    cv2.polylines(mask, [Canvas.fixed(points)], False, value, width, cv2.LINE_8, _FRACTION)


def smooth_noise(shape: tuple[int, ...], length_px: float, rng: np.random.Generator) -> np.ndarray:
    """Return noise with mean 0, spread 1 and blobs about `length_px` wide, float32 [rows, columns]."""
    step = max(1.0, length_px / 2)
    small = rng.standard_normal((int(shape[0] / step) + 4, int(shape[1] / step) + 4)).astype(np.float32)
    small = cv2.GaussianBlur(small, (0, 0), length_px / step / 2.2)
    small /= small.std() + 1e-6
    rows, columns = np.ceil(np.array(small.shape) * step).astype(int)
    big = cv2.resize(small, (int(columns), int(rows)), interpolation=cv2.INTER_CUBIC)
    return big[: shape[0], : shape[1]]
