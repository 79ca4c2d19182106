"""What a made-up radar satellite sees of the town after the tornado: walls, shadows, rubble, water, speckle.

The radar looks at the scene from the east, 38 degrees off the vertical. A wall that faces it makes, with the ground before
it, a corner that sends the pulse straight back: the double bounce, a bright line along the foot of the wall. Where a
building collapsed there is no such wall; its rubble is rough and of middling brightness. Open water is dark, and walls that
stand in it are brighter than others.
"""

from __future__ import annotations

import cv2
import numpy as np

from sample_data import _ground, _trees
from sample_data._canvas import CLASSES, MARGIN_M, POST, SCALE, Canvas, smooth_noise
from sample_data._flood import Flood
from sample_data._tornado import Tornado
from sample_data._town import Building, Town

GSD_M = 1.25
OFFSET_M = (0.3, 0.2)  # of the grid's corner, right and down of the scene's
TOWARD = np.array([0.985, 0.174])  # on the ground, from a building to the radar
INCIDENCE = np.radians(38)
LOOKS = 3
BLUR_PX = 0.6
FLOOR_DB, STEP_DB = -26.0, 0.5  # noise of the receiver; values are rounded, which keeps the file small
SWATH = (0.12, 0.28)  # the data end at a slanted line: its place at the upper and the lower border, as a share of the width
COVER_DB = {
    "lawn": -12.0, "rough": -10.5, "crop": -10.0, "soil": -12.5, "asphalt": -19.0, "old_asphalt": -17.5, "drive": -16.5,
    "concrete": -17.0, "parking": -18.0, "gravel": -12.0, "clay": -15.0, "turf": -13.0, "water": -23.0, "pool": -22.0,
    "wood": -8.0, "fence": -8.0, "paint": -18.0, "walk": -16.0,
}  # fmt: skip
ROOF_DB = {"gable": -9.5, "hip": -10.0, "flat": -13.0, "metal": -6.0}
WATER_DB, TREE_DB, RUBBLE_DB = -22.0, -7.5, -7.0


def draw_radar(town: Town, tornado: Tornado, flood: Flood, seed: int) -> np.ndarray:
    """Return the backscatter of the post date in dB, float32 [rows, columns], NaN beyond the swath."""
    rng = np.random.default_rng([seed, 30])
    power = _mean_power(town, tornado, flood, seed, rng)
    columns, rows = (int((side - max(OFFSET_M)) / GSD_M) for side in town.size_m)
    step = GSD_M * SCALE
    small = cv2.GaussianBlur(power, (0, 0), step / 2)
    x = ((np.arange(columns) + 0.5) * GSD_M + OFFSET_M[0] + MARGIN_M) * SCALE - 0.5
    y = ((np.arange(rows) + 0.5) * GSD_M + OFFSET_M[1] + MARGIN_M) * SCALE - 0.5
    power = cv2.remap(small, *np.meshgrid(x.astype(np.float32), y.astype(np.float32)), cv2.INTER_LINEAR)
    db = 10 * np.log10(power * _speckle(power.shape, rng) + _power(FLOOR_DB))
    db = (np.round(db / STEP_DB) * STEP_DB).astype(np.float32)
    edge = columns * np.linspace(*SWATH, rows)
    db[np.arange(columns) < edge[:, None]] = np.nan
    return db


def _power(db: float | np.ndarray) -> np.ndarray:
    return 10 ** (np.asarray(db, np.float32) / 10)


def _speckle(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return fully developed speckle, mean 1, of `LOOKS` looks; neighbors share some of it, as the sensor's own blur makes
    them.
    """
    total = np.zeros(shape, np.float32)
    for _ in range(2 * LOOKS):  # real and imaginary part of each look
        total += cv2.GaussianBlur(rng.standard_normal(shape, dtype=np.float32), (0, 0), BLUR_PX) ** 2
    return total / total.mean()


def _mean_power(town: Town, tornado: Tornado, flood: Flood, seed: int, rng: np.random.Generator) -> np.ndarray:
    """Return the backscatter without speckle, float32 at the resolution of the drawing board."""
    canvas = Canvas(town.size_m)
    cover, _ = _ground.cover_map(town, canvas)
    power = _power(np.array([COVER_DB[name] for name in CLASSES]))[cover]
    del cover
    power *= _power(1.2 * smooth_noise(power.shape, 60, rng))
    places = np.array(town.trees).reshape(-1, 3)
    strength = tornado.strength(places[:, 0], places[:, 1])
    trees, felled = _trees.make_trees(town.trees, POST, seed, strength, True)
    _litter(power, canvas, tornado, rng)
    for window in flood.windows(canvas):
        power[window][flood.level(*canvas.metres(window)) > 0] = _power(WATER_DB)
    for tree in felled:
        _disc(power, tree.x, tree.y, tree.radius, RUBBLE_DB)
    for tree in trees:
        _disc(power, tree.x, tree.y, tree.radius, TREE_DB + 10 * np.log10(tree.leaves) + rng.normal(0, 0.8))
    for x, y, _ in town.parking:
        if rng.random() < 0.3:
            _disc(power, x, y, 0.6, rng.normal(2, 4))
    for index, building in enumerate(town.buildings):
        draw = _collapsed if building.damage == "destroyed" else _standing
        draw(power, canvas, building, np.random.default_rng([seed, 35, index]))
    return power


def _disc(power: np.ndarray, x: float, y: float, radius: float, db: float) -> None:
    middle = Canvas.fixed(np.array([[x, y]])).ravel().tolist()
    cv2.circle(power, middle, round(radius * SCALE * 16), float(_power(db)), -1, cv2.LINE_8, 4)


def _fill(power: np.ndarray, points: np.ndarray, db: float) -> None:
    hull = cv2.convexHull(np.asarray(points, np.float32)).reshape(-1, 2)
    cv2.fillPoly(power, [Canvas.fixed(hull)], float(_power(db)), cv2.LINE_8, 4)


def _litter(power: np.ndarray, canvas: Canvas, tornado: Tornado, rng: np.random.Generator) -> None:
    """Roughen the ground along the track: what the wind threw about."""
    step = 8
    x, y = canvas.metres((slice(0, canvas.shape[0] // step + 1), slice(0, canvas.shape[1] // step + 1)))
    force = tornado.strength(x * step, y * step)
    grid = force * np.clip(1 + 0.6 * smooth_noise(force.shape, 4, rng), 0, 2)
    big = cv2.resize(grid.astype(np.float32), (force.shape[1] * step, force.shape[0] * step))
    power += _power(-10.5) * big[: power.shape[0], : power.shape[1]]


def _collapsed(power: np.ndarray, canvas: Canvas, b: Building, rng: np.random.Generator) -> None:
    """A heap: rough, uneven, without walls."""
    window = canvas.window(np.concatenate(b.corners()), 2.0)
    if window is None:
        return
    x, y = canvas.metres(window)
    dx, dy, c, s = x - b.x, y - b.y, np.cos(b.angle), np.sin(b.angle)
    across, along = dx * c + dy * s, dy * c - dx * s
    is_heap = np.zeros(x.shape, bool)
    for ca, cb, ha, hb in b.wings:
        is_heap |= (np.abs(across - ca) < ha * 1.15) & (np.abs(along - cb) < hb * 1.15)
    heap = _power(RUBBLE_DB + rng.normal(0, 1.2) + 2.5 * smooth_noise(x.shape, 10, rng))
    power[window] = np.where(is_heap, heap, power[window])


def _standing(power: np.ndarray, canvas: Canvas, b: Building, rng: np.random.Generator) -> None:
    """Shadow behind, wall laid over before it, roof, and the double bounce along each wall that faces the radar."""
    high = b.eave_m + 0.4 * min(b.wings[0][2:])
    shadow, overlay = -TOWARD * high * np.tan(INCIDENCE), TOWARD * b.eave_m / np.tan(INCIDENCE)
    for corners in b.corners():
        _fill(power, np.concatenate([corners, corners + shadow]), FLOOR_DB)
    for corners in b.corners():
        _fill(power, np.concatenate([corners, corners + overlay]), -8.0 + rng.normal(0, 1))
    is_torn = b.damage == "major-damage"
    for corners in b.corners():
        _fill(power, corners, ROOF_DB[b.roof] + rng.normal(0, 1) + 3.0 * is_torn)  # an open roof is rough
    gain = rng.normal(0, 2.5) - 1.5 * is_torn + 3.0 * b.is_flooded
    for corners in b.corners():
        middle = corners.mean(0)
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            along = end - start
            normal = np.array([along[1], -along[0]]) / np.hypot(*along)
            normal *= np.sign(normal @ ((start + end) / 2 - middle))
            facing = normal @ TOWARD
            if facing > 0.3:
                foot = np.array([start, end]) + normal * 0.6
                db = 6.5 + gain + 18 * np.log10(facing) + 4 * np.log10(b.eave_m / 3)
                line = float(_power(db))
                cv2.polylines(power, [Canvas.fixed(foot)], False, line, round(1.4 * SCALE), cv2.LINE_8, 4)
