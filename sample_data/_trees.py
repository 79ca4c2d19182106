"""Tree crowns: lumpy domes lit by the sun, kept as a small bank of stamps."""

from __future__ import annotations

import cv2
import numpy as np

from sample_data._canvas import SCALE, Canvas, Look, smooth_noise

RADII = (0.8, 1.3, 1.9, 2.6, 3.3, 4.1, 5.0, 6.0)
SHAPES_PER_RADIUS = 9


class TreeBank:
    """Stamps for one date: cover float [n, n] and light float [n, n] for each radius and shape."""

    def __init__(self, look: Look, seed: int) -> None:
        rng = np.random.default_rng([seed, 31])
        self.stamps = [[_stamp(r, look, rng) for _ in range(SHAPES_PER_RADIUS)] for r in RADII]

    def pick(self, radius_m: float, shape: int) -> tuple[np.ndarray, np.ndarray]:
        """Return cover and light of the stamp nearest in size."""
        size = int(np.abs(np.array(RADII) - radius_m).argmin())
        return self.stamps[size][shape % SHAPES_PER_RADIUS]


def _stamp(radius_m: float, look: Look, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    radius = radius_m * SCALE
    n = int(radius * 3.3) | 1
    y, x = (np.mgrid[0:n, 0:n] - n // 2).astype(np.float32)
    height = np.full((n, n), -1.0, np.float32)
    lumps, lobes = max(4, int(5 + radius * 1.5)), rng.uniform(0, 2 * np.pi, 2)
    for _ in range(lumps):
        turn = rng.uniform(0, 2 * np.pi)
        reach = radius * (0.84 + 0.2 * np.sin(2 * turn + lobes[0]) + 0.16 * np.sin(3 * turn + lobes[1]))
        away = reach * np.sqrt(rng.random())
        r = rng.uniform(0.13, 0.34) * radius + 1.0
        dome = radius * 0.75 * np.sqrt(max(0.05, 1 - (away / (radius * 1.2)) ** 2)) * rng.uniform(0.75, 1.1)
        left = r**2 - (x - away * np.cos(turn)) ** 2 - (y - away * np.sin(turn)) ** 2
        lump = np.where(left > 0, dome + np.sqrt(np.maximum(left, 0)) * 1.1, -1.0)
        height = np.maximum(height, lump)
    height += rng.normal(0, 0.45, (n, n)).astype(np.float32) + smooth_noise((n, n), 3.0, rng) * 0.7
    cover = cv2.GaussianBlur((height > 0.5).astype(np.float32), (0, 0), 0.8)
    gy, gx = np.gradient(cv2.GaussianBlur(np.maximum(height, 0), (0, 0), 0.9))
    gx, gy = np.clip(gx, -2.2, 2.2), np.clip(gy, -2.2, 2.2)
    sun = look.sun
    lit = (-gx * sun[0] - gy * sun[1] + sun[2]) / np.sqrt(gx**2 + gy**2 + 1)
    deep = np.clip(height / (radius * 0.9), 0, 1)
    light = 0.34 + 0.62 * np.clip(lit, 0, 1) * (0.55 + 0.45 * deep) + 0.13 * deep
    return cover, light.astype(np.float32)


def _overlap(canvas: Canvas, x: float, y: float, n: int) -> tuple[tuple[slice, slice], tuple[slice, slice]] | None:
    px, py = (np.round(Canvas.to_px(np.array([x, y]))).astype(int) - n // 2).tolist()
    rows, columns = canvas.shape
    y0, y1, x0, x1 = max(py, 0), min(py + n, rows), max(px, 0), min(px + n, columns)
    if y0 >= y1 or x0 >= x1:
        return None
    return (slice(y0, y1), slice(x0, x1)), (slice(y0 - py, y1 - py), slice(x0 - px, x1 - px))


def tree_shadows(mask: np.ndarray, canvas: Canvas, trees: list[Tree], bank: TreeBank, look: Look, scale: float) -> None:
    """Add the crowns' shadows to a uint8 mask; `scale` < 1 gives the shorter shadow on roofs."""
    for tree in trees:
        cover, _ = bank.pick(tree.radius, tree.shape)
        sx, sy = look.shadow((1.0 + tree.radius * 1.15) * scale)
        where = _overlap(canvas, tree.x + sx, tree.y + sy, cover.shape[0])
        if where is not None:
            np.maximum(mask[where[0]], (cover[where[1]] * 255 * tree.leaves).astype(np.uint8), out=mask[where[0]])


class Tree:
    """One tree of one date; `leaves` is the share of the crown that is left."""

    def __init__(self, x: float, y: float, radius: float, shape: int, tone: tuple[float, ...], leaves: float) -> None:
        self.x, self.y, self.radius, self.shape, self.tone, self.leaves = x, y, radius, shape, tone, leaves


def make_trees(
    places: list[tuple[float, float, float]], look: Look, seed: int, strength: np.ndarray, is_hit: bool
) -> tuple[list[Tree], list[Tree]]:
    """Return the standing and the felled trees of one date.

    Args:
        places: x, y and crown radius of each tree in metres.
        strength: how hard the tornado hit each tree, float [n] in [0, 1].
        is_hit: whether the tornado has passed.
    """
    rng = np.random.default_rng([seed, 32])
    date = np.random.default_rng([seed, 33, int(look.is_post)])
    standing, felled = [], []
    for (x, y, radius), force in zip(places, strength, strict=True):
        shape, kind, luck = int(rng.integers(1000)), rng.normal(0, 1, 2), rng.random()
        tone = np.array(look.tree) * (1 + look.tree_spread * np.clip(kind[0], -2, 2)) + np.array([5.0, 2.0, -1.0]) * kind[1]
        tone = tone + date.normal(0, 2.5, 3)
        if date.random() < 0.02:
            continue  # cut down, or not yet planted
        tree = Tree(x, y, radius, shape, tuple(tone), 1.0)
        if is_hit and force > 0.12:
            if luck < force * 0.95:
                felled.append(tree)
                continue
            tree.leaves = float(np.clip(1.1 - force * 1.2, 0.3, 1))
            tree.tone = tuple(tone * 0.6 + np.array([104, 96, 74]) * 0.4)
        standing.append(tree)
    return standing, felled


def draw_trees(canvas: Canvas, trees: list[Tree], bank: TreeBank, look: Look) -> None:
    """Stamp the crowns, small ones first; crowns lean like everything high."""
    for tree in sorted(trees, key=lambda t: t.radius):
        cover, light = bank.pick(tree.radius, tree.shape)
        height = 1.0 + tree.radius
        where = _overlap(canvas, tree.x + look.lean[0] * height, tree.y + look.lean[1] * height, cover.shape[0])
        if where is None:
            continue
        board, part = where
        alpha = cover[part][..., None] * (0.97 if tree.leaves == 1 else tree.leaves)
        color = light[part][..., None] * np.array(tree.tone, np.float32) * 1.22
        old = canvas.pixels[board]
        canvas.pixels[board] = np.clip(old + (color - old) * alpha, 0, 255).astype(np.uint8)


def draw_felled(canvas: Canvas, trees: list[Tree], heading: float, rng: np.random.Generator) -> None:
    """Trunks and bare branches on the ground, roughly along the wind."""
    for tree in trees:
        turn = heading + rng.normal(0, 0.5)
        length = tree.radius * rng.uniform(1.2, 2.2)
        foot = np.array([tree.x, tree.y])
        tip = foot + length * np.array([np.cos(turn), np.sin(turn)])
        bark = np.array([112, 96, 78]) + rng.normal(0, 10, 3)
        leaf = np.array(tree.tone) * 0.5 + np.array([92, 84, 60]) * 0.5
        for _ in range(int(8 + tree.radius * 7)):
            at = foot + (tip - foot) * rng.uniform(0.35, 1.1) + rng.normal(0, tree.radius * 0.33, 2)
            side = turn + rng.normal(0, 0.8)
            end = at + rng.uniform(0.3, 1.3) * np.array([np.cos(side), np.sin(side)])
            tone = leaf if rng.random() < 0.4 else bark * rng.uniform(0.55, 1.15)
            canvas.line(np.array([at, end]), 0.25, tuple(tone.tolist()))
        canvas.line(np.array([foot, tip]) + np.array((0.35, 0.3)), 0.5, tuple((bark * 0.45).tolist()))
        canvas.line(np.array([foot, tip]), 0.45, tuple(bark.tolist()))
