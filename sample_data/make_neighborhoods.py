"""Make an event of many scenes whose looks differ: chips, places and true damage for `benchmarks.queue_simulation`.

    python sample_data/make_neighborhoods.py neighborhoods.npz

Each scene is a small made-up town of its own ground, roofs, light, season and sensor, hit more or less hard, in its own way.
It is drawn as the sample event is; only chips are kept. Not shipped with the product.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cv2
import numpy as np

from sample_data import _tornado
from sample_data._canvas import MARGIN_M, POST, PRE, SCALE, Canvas, Look, smooth_noise
from sample_data._town import Building, Town
from sample_data.make_sample import GSD_M, draw_scene, plan_event

N_SCENES, SCENE_PX, N_BUILDINGS, APART_M = 28, 700, 112, 900.0
CHIP_PX, BUFFER = 64, 0.5  # as `geo.chips` cuts them
SHARE, MOST = 0.11, 0.7  # damaged in all scenes together, and in one
VARIETY = 0.5  # how far scenes differ in look
ROOFS = ((1, 1, 1), (1.35, 0.85, 0.65), (0.7, 0.75, 0.85), (1.5, 1.5, 1.5), (1.1, 0.95, 0.7), (0.75, 1.0, 0.85))
GROUNDS = ((1, 1, 1), (1.3, 1.12, 0.95), (0.8, 1.05, 0.75), (1.2, 1.2, 1.25), (0.75, 0.72, 0.75), (1.25, 0.95, 0.75))
GREENS = ("lawn", "rough", "crop", "turf", "wood")


def make_neighborhoods(seed: int) -> dict[str, np.ndarray]:
    """Draw all scenes.

    Returns:
        "chips" uint8 [N, 6, 64, 64], pre and post; "is_damaged" bool [N]; "damage" str [N]; "scene" int64 [N]; "xy_m"
        float64 [N, 2], scenes 900 m apart.
    """
    rng = np.random.default_rng([seed, 100])
    shares = rng.lognormal(0, 1.2, N_SCENES) * (rng.random(N_SCENES) > 0.45)
    for _ in range(9):
        shares = np.minimum(SHARE * shares / shares.mean(), MOST)
    parts = [_scene(number, float(share), seed) for number, share in enumerate(shares)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _scene(number: int, share: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 101, number])
    size_m = (SCENE_PX * GSD_M, SCENE_PX * GSD_M)
    own = seed * 1000 + number
    town, tornado, flood = plan_event(size_m, N_BUILDINGS, own)
    _grade(town, tornado, share, rng)
    tint = (np.array(ROOFS[rng.integers(len(ROOFS))]) * rng.uniform(0.9, 1.1, 3)) ** VARIETY
    for building in town.buildings:
        tone = np.clip(np.array(building.color) * tint, 20, 240).astype(int)
        building.color = (int(tone[0]), int(tone[1]), int(tone[2]))
    ground = (np.array(GROUNDS[rng.integers(len(GROUNDS))]) * rng.uniform(0.92, 1.08, 3)) ** VARIETY
    pictures = []
    blur = 1.3 + VARIETY * rng.uniform(-0.4, 1.3)
    for look in (_changed(PRE, ground, rng), _changed(POST, ground * rng.uniform(0.85, 1.15, 3) ** VARIETY, rng)):
        canvas = draw_scene(town, tornado, flood, look, own)
        pictures.append(_observed(canvas, look, blur * rng.uniform(0.85, 1.2), rng))
    listed = [building for building in town.buildings if building.is_listed]
    damage = np.array([building.damage for building in listed])
    corner = np.array([number % 6, number // 6]) * (size_m[0] + APART_M)
    return {
        "chips": np.stack([_chip(np.concatenate(pictures, 2), building) for building in listed]),
        "damage": damage,
        "is_damaged": np.isin(damage, ("destroyed", "major-damage")),
        "scene": np.full(len(listed), number),
        "xy_m": np.array([(building.x, building.y) for building in listed]) + corner,
    }  # fmt: skip


def _grade(town: Town, tornado: _tornado.Tornado, share: float, rng: np.random.Generator) -> None:
    """Give every listed building its damage: so many in all, more of them destroyed in some scenes than in others."""
    listed = [building for building in town.buildings if building.is_listed]
    wind = tornado.strength(*np.array([(b.x, b.y) for b in listed]).T)
    order = np.argsort(-(wind + rng.normal(0, rng.uniform(0.1, 0.4), len(listed)) * np.sqrt(wind + 0.15)))
    n_damaged, n_destroyed = round(share * len(listed)), round(share * rng.uniform(0.85, 1.0) * len(listed))
    n_minor, swept = round(rng.uniform(0, 0.08) * len(listed)), rng.uniform(0, 0.5)
    for rank, at in enumerate(order):
        grade = "destroyed" if rank < n_destroyed else "major-damage" if rank < n_damaged else "minor-damage"
        listed[at].damage = grade if rank < n_damaged + n_minor else "no-damage"
        listed[at].is_reroofed &= rank >= n_damaged + n_minor
        listed[at].is_swept = bool(rng.random() < swept)


def _changed(look: Look, ground: np.ndarray, rng: np.random.Generator) -> Look:
    """Draw light, season and sensor of one date of one scene."""
    season = rng.uniform(0.8, 1.25, 3) ** VARIETY
    covers = {
        name: tuple((np.array(tone) * (ground * season if name in GREENS else ground**0.6)).clip(15, 235).tolist())
        for name, tone in look.ground.items()
    }
    light = rng.uniform(0.7, 1.2) ** VARIETY
    return replace(
        look,
        sun_azimuth_deg=180 + VARIETY * rng.uniform(-70, 70), sun_elevation_deg=52 + VARIETY * rng.uniform(-24, 16),
        lean=tuple(VARIETY * rng.normal(0, 0.13, 2)),
        ground=covers, tree=tuple(np.array(look.tree) * season * rng.uniform(0.8, 1.2) ** VARIETY),
        gain=tuple(light * rng.uniform(0.92, 1.08, 3) ** VARIETY),
        offset=tuple(VARIETY * (rng.uniform(-6, 24) + rng.uniform(-4, 4, 3))),
        shift_px=tuple(VARIETY * rng.normal(0, 0.8, 2)), noise=2.5 + VARIETY * rng.uniform(-1.5, 3.5),
    )  # fmt: skip


def _observed(canvas: Canvas, look: Look, blur: float, rng: np.random.Generator) -> np.ndarray:
    """Turn a drawing into what a camera delivers, uint8 [rows, columns, 3]: blur, shift, light, color, noise."""
    y, x = np.mgrid[0:SCENE_PX, 0:SCENE_PX].astype(np.float32)
    step = GSD_M * SCALE
    places = [
        (axis + 0.5 + shift) * step + MARGIN_M * SCALE - 0.5 for axis, shift in zip((x, y), look.shift_px, strict=True)
    ]
    blurred = cv2.GaussianBlur(canvas.pixels, (0, 0), blur)
    scene = cv2.remap(
        blurred, *(each.astype(np.float32) for each in places), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    light = 1 + 0.03 * smooth_noise((SCENE_PX, SCENE_PX), 400, rng)[..., None]
    found = scene * light * np.array(look.gain, np.float32) + look.offset
    return np.clip(found + look.noise * rng.standard_normal(found.shape) + 0.5, 0, 255).astype(np.uint8)


def _chip(scene: np.ndarray, building: Building) -> np.ndarray:
    """Cut one building's window out of both dates, uint8 [6, 64, 64]."""
    corners = np.concatenate(building.corners()) / GSD_M
    low, high = corners.min(0), corners.max(0)
    half = (high - low) / 2 + BUFFER * max(4.0, *(high - low))
    start = np.round((low + high) / 2 - half).astype(int)
    end = start + np.round(2 * half).astype(int)
    rows, columns = (np.clip(np.arange(start[axis], end[axis]), 0, len(scene) - 1) for axis in (1, 0))
    window = scene[np.ix_(rows, columns)]
    parts = [cv2.resize(np.ascontiguousarray(window[..., at : at + 3]), (CHIP_PX, CHIP_PX)) for at in (0, 3)]
    return np.concatenate(parts, 2).transpose(2, 0, 1)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="file of arrays to write, .npz")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = make_neighborhoods(options.seed)
    np.savez(options.out, **found)
    print(f"{len(found['scene']):,} chips, {int(found['is_damaged'].sum()):,} damaged: {options.out}")


if __name__ == "__main__":
    main()
