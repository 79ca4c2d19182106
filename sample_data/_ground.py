"""Paint the ground: which cover lies where, its color and its grain, and the shadows on it."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import CLASSES, SCALE, Canvas, Look, fill_mask, line_mask, smooth_noise
from sample_data._town import Town

# Grain of each cover: fine (leaf, chipping), middle (tufts, stains), wide (dry and moist parts)
GRAIN = {
    "lawn": (5, 5, 9), "rough": (7, 9, 12), "crop": (6, 6, 8), "soil": (6, 9, 10), "asphalt": (3, 3, 4),
    "old_asphalt": (4, 5, 5), "drive": (4, 5, 8), "concrete": (4, 5, 6), "parking": (4, 6, 9),
    "gravel": (8, 10, 16), "clay": (4, 4, 6), "turf": (4, 4, 6), "water": (2, 3, 4), "pool": (6, 6, 4),
    "wood": (9, 12, 9), "fence": (6, 3, 3), "paint": (4, 4, 4), "walk": (4, 6, 8),
}  # fmt: skip
GREEN = ("lawn", "rough", "turf", "crop")
STRIP = 512


def cover_map(town: Town, canvas: Canvas) -> tuple[np.ndarray, np.ndarray]:
    """Return the cover number of each pixel, uint8, and the tint of each lawn, float32; both [rows, columns]."""
    number = {name: i for i, name in enumerate(CLASSES)}
    cover = np.full(canvas.shape, number["lawn"], np.uint8)
    tint = np.full(canvas.shape, 128, np.uint8)
    for polygon, value in town.lawns:
        fill_mask(tint, polygon, int(np.clip(128 + 40 * value, 0, 255)))
    for name, polygon in town.patches:
        fill_mask(cover, polygon, number[name])
    for points, width, name in town.lines:
        line_mask(cover, points, width, number[name])
    _roads(town, cover, number, main=False)
    if town.creek is not None:
        line_mask(cover, town.creek, 46, number["rough"])
        line_mask(cover, town.creek, 11.5, number["soil"])
        line_mask(cover, town.creek, 8.5, number["water"])
    _roads(town, cover, number, main=True)
    return cover, (tint.astype(np.float32) - 128) / 40


def _roads(town: Town, cover: np.ndarray, number: dict[str, int], main: bool) -> None:
    roads = [r for r in town.roads if r[3] == main]
    for points, width, name, _ in roads:
        line_mask(cover, points, width + (5 if main else 0.9), number["lawn" if main else "walk"])
        if main:  # pavements
            line_mask(cover, points, width + 4.2, number["walk"])
            line_mask(cover, points, width + 1.8, number["lawn"])
        line_mask(cover, points, width, number[name])
    for points, width, name, _ in roads:
        line_mask(cover, points, width - 0.6, number[name])
        if main:
            line_mask(cover, points, 0.2, number["paint"])


def paint_ground(town: Town, canvas: Canvas, look: Look, rng: np.random.Generator) -> None:
    """Color every pixel by cover, with grain on four scales and the marks of use."""
    cover, tint = cover_map(town, canvas)
    half = (canvas.shape[0] // 2 + 2, canvas.shape[1] // 2 + 2)
    middle, wide, huge = (smooth_noise(half, px, rng) for px in (3.5, 24, 130))
    base = np.array([look.ground[n] for n in CLASSES], np.float32)
    grain = np.array([GRAIN[n] for n in CLASSES], np.float32)
    green = np.array([n in GREEN for n in CLASSES], np.float32)
    crop = np.array([n == "crop" for n in CLASSES], np.float32)
    canvas.road = np.isin(cover, [CLASSES.index(n) for n in ("asphalt", "old_asphalt")])
    for top in range(0, canvas.shape[0], STRIP):
        rows = slice(top, min(top + STRIP, canvas.shape[0]))
        kind = cover[rows]
        mid, wid, hug = (_fine_rows(n, rows, canvas.shape[1]) for n in (middle, wide, huge))
        fine = rng.standard_normal(kind.shape, dtype=np.float32)
        fine = cv2.GaussianBlur(fine, (0, 0), 0.9) * 2.6
        amount = grain[kind]
        light = fine * amount[..., 0] + mid * amount[..., 1] * 0.8
        y, x = np.mgrid[rows, 0 : canvas.shape[1]].astype(np.float32)
        light += crop[kind] * 5 * np.sin((x * 0.8 + y * 0.6) * (2 * np.pi / (2.6 * SCALE)))
        dry = (wid * 0.55 + hug * 0.5 + tint[rows] * 0.75) * amount[..., 2]
        is_green = green[kind]
        color = base[kind] + light[..., None]
        color += (dry * (0.35 + 0.55 * is_green))[..., None] * np.array([1.0, 0.35, 0.3], np.float32)
        color += ((1 - is_green) * dry * 0.4)[..., None]
        bare = np.clip(mid * 0.5 + wid * 0.8 + tint[rows] * 0.5 - 1.15, 0, 1) * is_green
        color += (np.array([128, 112, 86], np.float32) - color) * (0.7 * bare)[..., None]
        canvas.pixels[rows] = np.clip(color, 0, 255).astype(np.uint8)
    _road_wear(town, canvas, look, rng)


def _fine_rows(noise: np.ndarray, rows: slice, width: int) -> np.ndarray:
    first = rows.start // 2
    part = noise[first : first + (rows.stop - rows.start) // 2 + 2]
    big = cv2.resize(part, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
    return big[: rows.stop - rows.start, :width]


def _road_wear(town: Town, canvas: Canvas, look: Look, rng: np.random.Generator) -> None:
    """Sealed cracks, patches and lighter wheel paths."""
    for points, width, name, is_main in town.roads:
        base = np.array(look.ground[name])
        for side in (-1, 1) if is_main else (0,):
            step = np.gradient(points, axis=0)
            normal = np.stack([-step[:, 1], step[:, 0]], -1) / (np.hypot(*step.T)[:, None] + 1e-9)
            path = points + normal * side * width * 0.24
            canvas.line(path, width * 0.16, tuple((base + 5).tolist()))
        for _ in range(int(len(points) * 0.25)):
            i = int(rng.integers(0, len(points) - 1))
            at = points[i] + rng.normal(0, width * 0.2, 2)
            far = at + (points[i + 1] - points[i]) * rng.uniform(0.2, 1.2) + rng.normal(0, 0.8, 2)
            tone = base + rng.choice([-16, -11, 7])
            canvas.line(np.array([at, far]), float(rng.choice([0.25, 0.25, 1.6])), tuple(tone.tolist()))


def darken(canvas: Canvas, mask: np.ndarray, strength: float = 0.6) -> None:
    """Multiply the canvas by a shadow, uint8 [rows, columns]; shade is bluer than sunlit ground."""
    soft = cv2.GaussianBlur(mask, (0, 0), 1.6)
    for top in range(0, canvas.shape[0], STRIP):
        rows = slice(top, top + STRIP)
        amount = soft[rows].astype(np.float32)[..., None] * (strength / 255)
        lit = 1 - amount * np.array([1.0, 0.97, 0.88], np.float32)
        canvas.pixels[rows] = (canvas.pixels[rows] * lit).astype(np.uint8)
