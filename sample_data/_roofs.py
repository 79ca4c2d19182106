"""Buildings from above: walls, lit roofs with shingles and fittings, and what a tornado leaves of them."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import SCALE, Canvas, Look, fill_mask, smooth_noise
from sample_data._flood import MUD
from sample_data._town import Building

PITCH = {"gable": 0.48, "hip": 0.42, "metal": 0.16, "flat": 0.0}
OVERHANG_M = 0.35
TARP = np.array([98, 108, 164], np.float32)
DECK = np.array([164, 136, 104], np.float32)


class Roof:
    """One roof on its window of the canvas; all arrays are [rows, columns]."""

    def __init__(self, b: Building, canvas: Canvas, look: Look) -> None:
        shift = np.array(look.lean) * b.eave_m
        points = np.concatenate(b.corners()) + shift
        self.window = canvas.window(points, 2.0)
        if self.window is None:
            return
        x, y = canvas.metres(self.window)
        dx, dy = x - b.x - shift[0], y - b.y - shift[1]
        c, s = np.cos(b.angle), np.sin(b.angle)
        self.a, self.b = dx * c + dy * s, -dx * s + dy * c
        self.height = np.full(self.a.shape, -1.0)
        self.course = np.zeros(self.a.shape)  # distance up the slope, for shingle courses
        for ca, cb, ha, hb in b.wings:
            da, db = ha + OVERHANG_M - np.abs(self.a - ca), hb + OVERHANG_M - np.abs(self.b - cb)
            rise = np.minimum(da, db) if b.roof == "hip" else (db if ha >= hb else da)
            height = np.where((da > 0) & (db > 0), rise * PITCH[b.roof] + 0.01, -1.0)
            self.course = np.where(height > self.height, rise, self.course)
            self.height = np.maximum(self.height, height)
        self.inside = self.height >= 0


def shadow_of(mask: np.ndarray, b: Building, look: Look) -> None:
    """Add a building's shadow to a uint8 mask: walls and ridge swept along the sun."""
    share = {"destroyed": 0.16, "major-damage": 0.8}.get(b.damage if look.is_post else "", 1.0)
    wall = look.shadow(b.eave_m * share)
    for corners, wing in zip(b.corners(), b.wings, strict=True):
        ends = corners + wall
        middle = corners.mean(0)
        rise = min(wing[2], wing[3]) * PITCH[b.roof] * share
        inward = 0.25 if b.roof == "hip" else 0.5
        top = corners * (1 - inward) + middle * inward + look.shadow(b.eave_m * share + rise)
        hull = cv2.convexHull(np.concatenate([corners, ends, top]).astype(np.float32))
        fill_mask(mask, hull.reshape(-1, 2), 255)


def draw_building(canvas: Canvas, b: Building, look: Look, seed: int, index: int) -> None:
    """Draw one building as it stands on this date."""
    rng = np.random.default_rng([seed, 40, index])
    damage = b.damage if look.is_post else "no-damage"
    if damage == "destroyed":
        _slab(canvas, b, look, np.random.default_rng([seed, 41, index]))
        return
    wall = np.array([150, 143, 132]) * rng.uniform(0.75, 1.15)
    shift = np.array(look.lean) * b.eave_m
    for corners in b.corners():
        hull = cv2.convexHull(np.concatenate([corners, corners + shift]).astype(np.float32)).reshape(-1, 2)
        canvas.fill(hull, tuple(wall.tolist()))
    roof = Roof(b, canvas, look)
    if roof.window is None or not roof.inside.any():
        return
    color = _lit(roof, b, look, rng)
    if look.is_post:
        color = _changes(color, roof, b, damage, np.random.default_rng([seed, 41, index]))
    alpha = cv2.GaussianBlur(roof.inside.astype(np.float32), (0, 0), 0.6)[..., None]
    old = canvas.pixels[roof.window]
    canvas.pixels[roof.window] = np.clip(old + (color - old) * alpha, 0, 255).astype(np.uint8)


def _lit(roof: Roof, b: Building, look: Look, rng: np.random.Generator) -> np.ndarray:
    """Return the whole roof's color, float [rows, columns, 3]."""
    shape = roof.a.shape
    filled = np.maximum(roof.height, 0)
    limit = PITCH[b.roof] + 0.02
    gy, gx = (np.clip(g * SCALE, -limit, limit) for g in np.gradient(filled))
    sun = look.sun
    lit = (-gx * sun[0] - gy * sun[1] + sun[2]) / np.sqrt(gx**2 + gy**2 + 1) / sun[2]
    light = 0.25 + 0.75 * np.clip(lit, 0.2, 1.5)
    grain = rng.standard_normal(shape) * 0.035 + smooth_noise(shape, 5, rng) * 0.028
    grain += smooth_noise(shape, 22, rng) * (0.07 if b.roof == "flat" else 0.035)
    if b.roof in ("gable", "hip"):
        grain += 0.022 * np.sin(roof.course * 2 * np.pi / 0.55)
    elif b.roof == "metal":
        grain += 0.045 * np.sin(roof.a * 2 * np.pi / 1.3)
    ridge = cv2.Laplacian(filled.astype(np.float32), cv2.CV_32F, ksize=3)
    light = light + 0.10 * (ridge < -PITCH[b.roof] * 0.22) * (PITCH[b.roof] > 0.2)
    color = np.array(b.color, np.float32) * (light * (1 + grain))[..., None]
    _fittings(color, roof, b, look, rng)
    return color


def _fittings(color: np.ndarray, roof: Roof, b: Building, look: Look, rng: np.random.Generator) -> None:
    """Vents and chimneys on homes; parapet, machines, pipes and patches on flat roofs."""
    ca, cb, ha, hb = b.wings[0]
    if b.roof == "flat":
        edge = cv2.distanceTransform(roof.inside.astype(np.uint8), cv2.DIST_L2, 3) / SCALE
        color[edge < 0.55] = np.array([176, 172, 164])
        stains = smooth_noise(roof.a.shape, 12, rng) > 1.7
        color[stains & roof.inside] *= rng.uniform(0.84, 0.96)
        for _ in range(int(ha * hb / 42) + 1):  # repaired strips
            _rect(color, roof, rng.uniform(-ha, ha), rng.uniform(-hb, hb), rng.uniform(0.5, 5), 0.6, None, 0.86)
    count = int(ha * hb / 26) + 1 if b.roof == "flat" else int(rng.integers(1, 4))
    for _ in range(count):
        at, bt = ca + rng.uniform(-0.8, 0.8) * ha, cb + rng.uniform(-0.8, 0.8) * hb
        half = rng.uniform(0.4, 1.5) if b.roof == "flat" else rng.uniform(0.15, 0.38)
        deep = half * rng.uniform(0.6, 1.3)
        away = look.shadow(half * 1.6)
        c, s = np.cos(b.angle), np.sin(b.angle)
        sa, sb = away[0] * c + away[1] * s, -away[0] * s + away[1] * c
        _rect(color, roof, at + sa * 0.6, bt + sb * 0.6, half, deep, None, 0.55)
        tone = rng.choice([190, 172, 150, 110]) * np.array([1, 0.99, 0.96])
        _rect(color, roof, at, bt, half, deep, tone, 1.0)


def _rect(
    color: np.ndarray, roof: Roof, a: float, b: float, half_a: float, half_b: float, tone: np.ndarray | None, gain: float
) -> None:
    hit = (np.abs(roof.a - a) < half_a) & (np.abs(roof.b - b) < half_b) & roof.inside
    if tone is None:
        color[hit] *= gain
    else:
        color[hit] = tone


def _changes(color: np.ndarray, roof: Roof, b: Building, damage: str, rng: np.random.Generator) -> np.ndarray:
    if damage == "major-damage":
        return _torn(color, roof, b, rng)
    if damage == "minor-damage":
        return _scarred(color, roof, b, rng)
    if b.is_reroofed:  # not damage: roofers have stripped one half
        half = (roof.b > 0) if rng.random() < 0.5 else (roof.a > b.wings[0][2] * rng.uniform(-0.5, 0.5))
        felt = DECK * rng.uniform(0.85, 1.1) if rng.random() < 0.6 else np.array([70, 70, 72], np.float32)
        lines = 1 + 0.06 * np.sin(roof.course * 2 * np.pi / 1.2)
        color = np.where(half[..., None], felt * lines[..., None], color)
        for _ in range(5):
            at = rng.uniform(-1, 1, 2) * (b.wings[0][2] * 0.8, b.wings[0][3] * 0.7)
            _rect(color, roof, *at, 0.6, 0.35, np.array(b.color) * 0.8, 1.0)
    elif rng.random() < 0.012:
        _tarp(color, roof, b, rng)
    elif rng.random() < 0.03:  # a new roof since the pre scene
        color = color * rng.uniform(0.75, 1.25) + rng.normal(0, 6, 3)
    return color


def _torn(color: np.ndarray, roof: Roof, b: Building, rng: np.random.Generator) -> np.ndarray:
    """Part of the roof gone: decking, then rafters, then the dark inside with what lies in it."""
    shape = roof.a.shape
    side = rng.uniform(0, 2 * np.pi)
    reach = max(b.wings[0][2:])
    field = smooth_noise(shape, 16, rng) + 0.45 * smooth_noise(shape, 5, rng)
    field = field + 1.5 * (np.cos(side) * roof.a + np.sin(side) * roof.b) / reach
    share = rng.uniform(0.3, 0.75)
    cut = np.quantile(field[roof.inside], 1 - share)
    deck, open_ = field > cut, field > cut + rng.uniform(0.15, 0.5)
    board = DECK * (1 + 0.12 * smooth_noise(shape, 4, rng)[..., None]) * rng.uniform(0.85, 1.12)
    color = np.where(deck[..., None], board, color)
    inside = _rubble(shape, rng) * rng.uniform(0.55, 0.95)
    if b.is_flooded:
        inside = inside * 0.25 + MUD * 0.62
    along = roof.b if b.wings[0][3] > b.wings[0][2] else roof.a
    rafter = (np.sin(along * 2 * np.pi / rng.uniform(1.1, 1.5)) > 0.55) & (smooth_noise(shape, 12, rng) > -0.3)
    inside = np.where(rafter[..., None], np.array([176, 150, 116], np.float32), inside)
    color = np.where(open_[..., None], inside, color)
    color *= (1 - 0.45 * (deck & ~open_ & (field > cut + 0.1)) * (rng.random(shape) < 0.4))[..., None]
    if rng.random() < 0.22:
        _tarp(color, roof, b, rng)
    return color


def _rubble(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return the look of broken things at half-metre size, float32 [rows, columns, 3]."""
    palette = np.array(
        [(182, 168, 150), (150, 124, 98), (206, 200, 192), (92, 80, 70), (58, 52, 48), (168, 140, 128), (120, 112, 104)],
        np.float32,
    )
    small = rng.integers(0, len(palette), (shape[0] // 3 + 2, shape[1] // 3 + 2))
    jumble = cv2.resize(palette[small], (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR)
    return jumble + rng.normal(0, 12, (*shape, 1)).astype(np.float32)


def _scarred(color: np.ndarray, roof: Roof, b: Building, rng: np.random.Generator) -> np.ndarray:
    """Some shingles gone, mostly near edges and ridges."""
    shape = roof.a.shape
    field = smooth_noise(shape, 7, rng) + 0.7 * smooth_noise(shape, 26, rng)
    cut = np.quantile(field[roof.inside], 1 - rng.uniform(0.05, 0.16))
    tone = DECK if rng.random() < 0.55 else np.array([62, 60, 60], np.float32)
    lost = np.where((field > cut)[..., None], tone + rng.normal(0, 9, (*shape, 1)), color)
    color = 0.2 * color + 0.8 * lost
    if rng.random() < 0.12:
        _tarp(color, roof, b, rng)
    return color.astype(np.float32)


def _tarp(color: np.ndarray, roof: Roof, b: Building, rng: np.random.Generator) -> None:
    _, _, ha, hb = b.wings[0]
    a, bb = rng.uniform(-0.5, 0.5) * ha, rng.uniform(-0.5, 0.5) * hb
    half = rng.uniform(0.3, 0.85, 2) * (ha, hb)
    hit = (np.abs(roof.a - a) < half[0]) & (np.abs(roof.b - bb) < half[1]) & roof.inside
    folds = 1 + 0.09 * smooth_noise(roof.a.shape, 5, rng) + 0.05 * rng.standard_normal(roof.a.shape)
    color[hit] = (TARP * rng.uniform(0.85, 1.2) * folds[..., None])[hit]


def _slab(canvas: Canvas, b: Building, look: Look, rng: np.random.Generator) -> None:
    """Floor of a destroyed house: rooms, stubs of walls, rubble over most of it."""
    roof = Roof(b, canvas, look)
    if roof.window is None or not roof.inside.any():
        return
    shape = roof.a.shape
    room = np.floor((roof.a + rng.uniform(0, 3)) / 3.6) * 7 + np.floor((roof.b + rng.uniform(0, 3)) / 3.1)
    floors = np.array([(158, 150, 138), (140, 126, 110), (120, 104, 86), (176, 168, 158), (128, 122, 116)], np.float32)
    color = floors[room.astype(int) % 5] * rng.uniform(0.85, 1.08)
    da, db = (roof.a + 20) % 3.6, (roof.b + 20) % 3.1
    stub = ((da < 0.35) | (db < 0.35)) & (smooth_noise(shape, 14, rng) > -0.1)
    shade = ((da < 0.95) | (db < 0.95)) & ~stub
    color = np.where(stub[..., None], np.array([190, 180, 166], np.float32), color * (1 - 0.3 * shade[..., None]))
    field = smooth_noise(shape, 11, rng) + 0.5 * smooth_noise(shape, 4, rng)
    heap = field > np.quantile(field[roof.inside], 1 - (rng.uniform(0.05, 0.3) if b.is_swept else rng.uniform(0.45, 0.9)))
    if b.is_flooded:
        color = color * 0.15 + MUD * 0.85
    color = np.where(heap[..., None], _rubble(shape, rng), color)
    worn = smooth_noise(shape, 8, rng) > -1.1  # ragged outline
    alpha = cv2.GaussianBlur((roof.inside & worn).astype(np.float32), (0, 0), 0.8)[..., None] * 0.93
    old = canvas.pixels[roof.window]
    canvas.pixels[roof.window] = np.clip(old + (color - old) * alpha, 0, 255).astype(np.uint8)
