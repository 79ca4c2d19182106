"""The made-up tornado: its track, the damage it does, and what it throws about."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import SCALE, Canvas, smooth_noise
from sample_data._town import Town

TRACK = ((0.08, 0.80), (0.30, 0.66), (0.46, 0.53), (0.62, 0.45), (0.80, 0.27), (0.97, 0.14))
SHARE_DESTROYED, SHARE_MAJOR, SHARE_MINOR = 0.030, 0.020, 0.030
DEBRIS = np.array(
    [
        (196, 184, 166), (170, 146, 118), (148, 122, 96), (120, 98, 78), (212, 206, 198), (182, 152, 138),
        (96, 84, 72), (140, 132, 124), (66, 58, 52), (226, 222, 216), (128, 92, 74), (96, 104, 120),
    ]
)  # fmt: skip
LITTER = np.array([2, 3, 6, 6, 3, 8, 1, 7, 10, 0, 2, 4])  # rows of DEBRIS: mostly brown, little white


class Tornado:
    """Path and strength of the wind; strength is 0 to 1."""

    def __init__(self, size_m: tuple[float, float], rng: np.random.Generator) -> None:
        knots = np.array(TRACK) * size_m
        t = np.linspace(0, len(knots) - 1, 400)
        line = np.stack([np.interp(t, np.arange(len(knots)), knots[:, i]) for i in (0, 1)], -1)
        kernel = np.hanning(121) / np.hanning(121).sum()
        self.line = np.stack([np.convolve(np.pad(line[:, i], 60, "edge"), kernel, "valid") for i in (0, 1)], -1)
        along = np.linspace(0, 1, 400)
        waves = 0.72 + 0.2 * np.sin(along * 17 + rng.uniform(0, 6)) + 0.12 * np.sin(along * 41)
        self.power = np.clip(waves * np.clip(along * 7, 0, 1) * np.clip((1 - along) * 5, 0, 1), 0.02, 1)
        self.width = 26 + 10 * np.sin(along * 9 + 1)
        self.heading = float(np.arctan2(*(knots[-1] - knots[0])[::-1]))

    def strength(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the wind's strength at places in metres, float of the same shape, in [0, 1]."""
        x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
        best = np.zeros(x.shape, np.float32)
        for (px, py), power, width in zip(self.line[::4], self.power[::4], self.width[::4], strict=True):
            far = ((x - px) ** 2 + (y - py) ** 2) / width**2
            np.maximum(best, power * np.exp(-far), out=best)
        return best


def grade_damage(town: Town, tornado: Tornado, rng: np.random.Generator) -> None:
    """Give every listed building its damage class; shares are exact, places follow the wind with some luck."""
    listed = [b for b in town.buildings if b.is_listed]
    where = np.array([(b.x, b.y) for b in listed]).reshape(-1, 2)
    is_big = np.array([sum(4 * w[2] * w[3] for w in b.wings) > 420 for b in listed])
    luck = (
        rng.normal(0, 0.14, len(listed))
        - 0.4 * is_big
        - 0.8 * (rng.random(len(listed)) < 0.09)
        + 0.5 * (rng.random(len(listed)) < 0.006)
    )
    wind = tornado.strength(where[:, 0], where[:, 1])
    order = np.argsort(-(wind + luck * np.sqrt(wind + 0.15)))
    destroyed = round(SHARE_DESTROYED * len(listed))
    major = destroyed + round(SHARE_MAJOR * len(listed))
    minor = major + round(SHARE_MINOR * len(listed))
    for rank, i in enumerate(order):
        b = listed[i]
        b.damage = (
            "destroyed" if rank < destroyed
            else "major-damage" if rank < major
            else "minor-damage" if rank < minor
            else "no-damage"
        )  # fmt: skip
        if rank < minor:
            b.is_reroofed = False
        b.is_swept = bool(rng.random() < 0.25)


def scour(canvas: Canvas, tornado: Tornado, rng: np.random.Generator) -> None:
    """Grey-brown, streaked ground under the strong wind."""
    step = 8
    rows, columns = canvas.shape[0] // step + 1, canvas.shape[1] // step + 1
    y, x = np.mgrid[0:rows, 0:columns]
    x, y = canvas.metres((slice(0, rows), slice(0, columns)))
    force = tornado.strength(x * step, y * step)
    rough = smooth_noise(force.shape, 5, rng)
    amount = np.clip(force * 1.0 + 0.22 * rough * (force > 0.05) - 0.14, 0, 0.66).astype(np.float32)
    streak = smooth_noise((rows * 2, columns * 2), 4, rng)
    for top in range(0, canvas.shape[0], 512):
        part = canvas.pixels[top : top + 512]
        high = part.shape[0]
        grid = amount[top // step : (top + 512) // step + 1]
        big = cv2.resize(grid, (columns * step, grid.shape[0] * step))[:high, : part.shape[1], None]
        if big.max() < 0.01:
            continue
        lines = streak[top // 4 : (top + 512) // 4 + 1]
        grain = cv2.resize(lines, (lines.shape[1] * 4, lines.shape[0] * 4))[:high, : part.shape[1], None]
        speck = cv2.GaussianBlur(rng.standard_normal(part.shape[:2], dtype=np.float32), (0, 0), 1.0)[..., None]
        mud = np.array([126, 110, 90], np.float32) + 8 * grain + 62 * speck * np.sqrt(big)
        big = big * np.where(canvas.road[top : top + 512], 0.35, 1.0)[..., None]
        canvas.pixels[top : top + 512] = np.clip(part + (mud - part) * big, 0, 255).astype(np.uint8)


def scatter(
    canvas: Canvas,
    x: np.ndarray,
    y: np.ndarray,
    largest_m: float,
    rng: np.random.Generator,
    clumps: int = 0,
    materials: np.ndarray | None = None,
    shingle: tuple[int, int, int] | None = None,
) -> None:
    """Throw flat pieces, the larger ones with a thin shadow, on places in metres.

    With `shingle`, every sixth piece has that color, the lost roof's. With `clumps`, pieces share direction and material
    with their clump; that is how walls and stacks come apart.
    """
    n = len(x)
    member = rng.integers(0, max(1, clumps), n)
    loose = (rng.random(n) < 0.35) | (clumps == 0)
    turn = rng.uniform(0, np.pi, max(1, clumps))[member] + rng.choice([0, np.pi / 2], n) + rng.normal(0, 0.25, n)
    turn = np.where(loose, rng.uniform(0, np.pi, n), turn)
    is_plank = rng.random(n) < 0.10
    is_panel = rng.random(n) < 0.025
    long = 0.36 * rng.lognormal(0, 0.65, n) + is_plank * rng.uniform(0.4, 2.6, n) + is_panel * rng.uniform(0.8, 2.4, n)
    long = np.minimum(long, largest_m) / 2
    thin = np.where(is_plank, 0.13, long * rng.uniform(0.2, 0.85, n))
    material = rng.integers(0, len(DEBRIS), (max(1, clumps), 3))[member, rng.integers(0, 3, n)]
    row = np.where(loose, rng.integers(0, len(DEBRIS), n), material)
    tone = DEBRIS[row if materials is None else materials[row]] * rng.uniform(0.78, 1.06, (n, 1))
    if shingle is not None:
        tone = np.where((rng.random(n) < 0.17)[:, None], np.array(shingle) * rng.uniform(0.7, 1.1, (n, 1)), tone)
    ux, uy = np.cos(turn), np.sin(turn)
    corners = np.stack(
        [
            np.stack([x + i * long * ux - j * thin * uy, y + i * long * uy + j * thin * ux], -1)
            for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ],
        1,
    )
    middle = np.round(Canvas.to_px(np.stack([x, y], -1))).astype(int)
    middle = np.clip(middle, 0, np.array(canvas.shape[::-1]) - 1)
    cleared = canvas.road[middle[:, 1], middle[:, 0]] & (rng.random(n) < 0.85)
    quads = np.round(Canvas.to_px(corners) * 16).astype(np.int32)
    colors = np.clip(tone, 0, 250).tolist()
    shade = round(0.3 * SCALE * 16)
    for k in np.flatnonzero(~cleared):
        if long[k] > 0.4:
            cv2.fillConvexPoly(canvas.pixels, quads[k] + [-shade // 4, -shade], (58, 52, 46), cv2.LINE_AA, 4)
        cv2.fillConvexPoly(canvas.pixels, quads[k], colors[k], cv2.LINE_AA, 4)


def throw_debris(canvas: Canvas, town: Town, tornado: Tornado, rng: np.random.Generator) -> None:
    """Debris from each torn building, downwind more than up, and thin litter along the whole track."""
    ahead = np.array([np.cos(tornado.heading), np.sin(tornado.heading)])
    for b in town.buildings:
        share = {"destroyed": 1.0, "major-damage": 0.3, "minor-damage": 0.03}.get(b.damage, 0.0)
        if not share:
            continue
        area = sum(4 * w[2] * w[3] for w in b.wings)
        spread = np.sqrt(area) * rng.uniform(0.32, 0.6)
        clumps = int(area / 7) + 3
        centre = rng.normal(0, spread, (clumps, 2)) + rng.exponential(4.0, (clumps, 1)) * ahead
        if b.damage != "destroyed":  # around the house rather than on it
            centre += centre / (np.hypot(*centre.T)[:, None] + 0.5) * np.sqrt(area) * 0.45
        size = np.maximum(rng.lognormal(0, 0.8, clumps), 0.2)
        count = (share * area * (rng.uniform(0.6, 1.6) if b.is_swept else rng.uniform(1.8, 5.0)) * size / size.sum()).astype(
            int
        )
        for middle, n in zip(centre, count, strict=True):
            away = rng.normal(0, 0.7 + 0.09 * np.sqrt(n), (n, 2)) * rng.uniform(0.6, 1.5, 2)
            x, y = b.x + middle[0] + away[:, 0], b.y + middle[1] + away[:, 1]
            scatter(canvas, x, y, 3.4, rng, clumps=1, shingle=b.color)
    width, height = town.size_m
    n = int(width * height * 0.3)
    x, y = rng.uniform(0, width, n), rng.uniform(0, height, n)
    patchy = np.exp(0.7 * rng.standard_normal(n))
    hit = rng.random(n) < np.clip(tornado.strength(x, y) * 1.3 * patchy, 0, 1) ** 1.6
    scatter(canvas, x[hit], y[hit], 1.1, rng, materials=LITTER)
