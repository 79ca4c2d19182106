"""Small things that change without any damage: cars, junk, building sites."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import Canvas, Look, smooth_noise
from sample_data._tornado import LITTER, Tornado, scatter
from sample_data._town import Town

CAR_COLORS = (
    (214, 214, 212), (196, 198, 198), (60, 62, 66), (44, 46, 50), (120, 124, 128), (126, 64, 58), (74, 86, 112),
    (158, 150, 134), (228, 228, 226), (88, 90, 92), (92, 52, 50),
)  # fmt: skip


def _turned(x: float, y: float, angle: float, long: float, wide: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    box = np.array([[-long, -wide], [long, -wide], [long, wide], [-long, wide]]) / 2
    return box @ np.array([[c, s], [-s, c]]) + [x, y]


def park_cars(canvas: Canvas, town: Town, look: Look, rng: np.random.Generator) -> None:
    """Put cars on drives, car parks and along the streets; every date draws its own."""
    spots = [p for p in town.parking if rng.random() < (0.34 if look.is_post else 0.28)]
    for points, width, name, is_main in town.roads:
        if name == "gravel":
            continue
        length = np.hypot(*np.diff(points, axis=0).T).sum()
        for _ in range(rng.poisson(length / (55 if is_main else 70))):
            i = int(rng.integers(0, len(points) - 1))
            step = points[i + 1] - points[i]
            side = rng.choice([-1, 1]) * width * (0.22 if is_main else 0.33)
            normal = np.array([-step[1], step[0]]) / np.hypot(*step)
            spots.append((*(points[i] + normal * side), np.arctan2(step[1], step[0])))
    for x, y, angle in spots:
        if town.creek_distance(x, y) > 16:
            _car(canvas, x + rng.normal(0, 0.2), y + rng.normal(0, 0.3), angle + rng.normal(0, 0.04), look, rng)


def _car(canvas: Canvas, x: float, y: float, angle: float, look: Look, rng: np.random.Generator) -> None:
    long, wide = rng.uniform(4.1, 5.3), rng.uniform(1.75, 2.05)
    sx, sy = look.shadow(1.3)
    canvas.fill(_turned(x + sx * 0.7, y + sy * 0.7, angle, long, wide), (52, 52, 52))
    paint = np.array(CAR_COLORS[rng.integers(len(CAR_COLORS))]) * rng.uniform(0.9, 1.08)
    canvas.fill(_turned(x, y, angle, long, wide), tuple((paint * 0.86).tolist()))
    c, s = np.cos(angle), np.sin(angle)
    canvas.fill(_turned(x - 0.3 * c, y - 0.3 * s, angle, long * 0.55, wide * 0.82), (48, 52, 58))
    canvas.fill(_turned(x - 0.35 * c, y - 0.35 * s, angle, long * 0.34, wide * 0.78), tuple(paint.tolist()))


def drop_clutter(canvas: Canvas, town: Town, look: Look, rng: np.random.Generator) -> None:
    """Junk yards, stored goods and full back yards: they look like debris but are there on both dates."""
    for x, y, radius, density in town.clutter:
        n = int(np.pi * radius**2 * density)
        away = rng.normal(0, radius * 0.5, (n, 2))
        scatter(canvas, x + away[:, 0], y + away[:, 1], 2.4, rng)
        for _ in range(int(radius * density * 1.2) if radius > 6 else 0):
            where = rng.normal(0, radius * 0.5, 2)
            _car(canvas, x + where[0], y + where[1], rng.uniform(0, np.pi), look, rng)


def build_sites(canvas: Canvas, town: Town, look: Look, rng: np.random.Generator) -> None:
    """Lots built on between the two dates: bare earth, a slab or a frame, stacks of timber."""
    for x, y, angle in town.sites:
        if town.creek_distance(x, y) < 38:
            continue
        window = canvas.window(np.array([[x, y]]), 14)
        if window is None:
            continue
        gx, gy = canvas.metres(window)
        shape = gx.shape
        earth = 13 - np.hypot(gx - x, gy - y) + 2.2 * smooth_noise(shape, 22, rng)
        alpha = np.clip(earth / 2.5, 0, 1)[..., None] * 0.95
        tone = np.array(look.ground["soil"]) + 9 * smooth_noise(shape, 7, rng)[..., None] + [8, 4, 0]
        old = canvas.pixels[window]
        canvas.pixels[window] = np.clip(old + (tone - old) * alpha, 0, 255).astype(np.uint8)
        _frame(canvas, x, y, angle, look, rng)
        for _ in range(int(rng.integers(2, 5))):
            at = np.array([x, y]) + rng.uniform(-9, 9, 2)
            stack = _turned(*at, angle + rng.choice([0, 1.57]), rng.uniform(2, 4), rng.uniform(0.8, 1.6))
            canvas.fill(stack + np.array(look.shadow(0.8)), (70, 62, 52))
            canvas.fill(stack, tuple((np.array([186, 160, 122]) * rng.uniform(0.8, 1.15)).tolist()))
        away = rng.normal(0, 6, (25, 2))
        scatter(canvas, x + away[:, 0], y + away[:, 1], 1.4, rng)


def _frame(canvas: Canvas, x: float, y: float, angle: float, look: Look, rng: np.random.Generator) -> None:
    long, wide = rng.uniform(11, 14), rng.uniform(8, 10)
    slab = _turned(x, y, angle, long, wide)
    canvas.fill(slab, (172, 167, 156))
    if rng.random() < 0.6:
        return
    c, s = np.cos(angle), np.sin(angle)
    for at in np.arange(-long / 2, long / 2, 1.2):
        mid = np.array([x + at * c, y + at * s])
        beam = np.array([mid + np.array([s, -c]) * wide / 2, mid - np.array([s, -c]) * wide / 2])
        canvas.line(beam + look.shadow(1.5), 0.25, (96, 86, 74))
        canvas.line(beam, 0.25, (188, 164, 128))


def litter(canvas: Canvas, town: Town, tornado: Tornado, rng: np.random.Generator) -> None:
    """Branches and rubbish blown about everywhere, more near the track."""
    width, height = town.size_m
    n = int(width * height * 0.004)
    x, y = rng.uniform(0, width, n), rng.uniform(0, height, n)
    keep = rng.random(n) < 0.35 + tornado.strength(x, y)
    scatter(canvas, x[keep], y[keep], 0.9, rng, materials=LITTER)


def haze(pixels: np.ndarray, canvas_share: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Lay a thin patch of cloud over finished pixels, uint8 [rows, columns, 3]."""
    rows, columns = pixels.shape[:2]
    small = (rows // 4 + 1, columns // 4 + 1)
    y, x = np.mgrid[0 : small[0], 0 : small[1]]
    reach = 0.085 * max(small)
    far = np.hypot(x - canvas_share[0] * small[1], (y - canvas_share[1] * small[0]) * 1.5) / reach
    body = np.exp(-(far**2)) * (1 + 0.5 * smooth_noise(small, reach * 0.7, rng) + 0.25 * smooth_noise(small, 9, rng))
    alpha = cv2.resize(np.clip(body * 0.55, 0, 0.66).astype(np.float32), (columns, rows))[..., None]
    return np.clip(pixels + (np.float32(214) - pixels) * alpha, 0, 255).astype(np.uint8)
