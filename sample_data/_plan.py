"""From a size and a seed to the whole plan of the made-up town."""

from __future__ import annotations

import numpy as np

from sample_data._quarters import fill_quarter, main_roads
from sample_data._town import PITCH_U, PITCH_V, QUARTERS, Bend, Town


def plan_town(size_m: tuple[float, float], n_buildings: int, rng: np.random.Generator) -> Town:
    """Lay out streets, lots, buildings and trees; at most `n_buildings` buildings lie wholly inside the scene."""
    town, bend = Town(size_m), Bend(rng)
    if min(size_m) > 600:
        town.creek = _creek(size_m)
    for row in range(int((size_m[1] + 60) / PITCH_V) + 1):
        for col in range(int((size_m[0] + 50) / PITCH_U) + 1):
            kind = QUARTERS[row % 4][col % 4]
            origin = (-30 + col * PITCH_U, -40 + row * PITCH_V)
            fill_quarter(town, bend, kind, origin, (row + col) % 2 == 1, rng)
    main_roads(town, bend)
    _keep_inside(town, n_buildings, rng)
    _creek_trees(town, rng)
    return town


def _creek(size_m: tuple[float, float]) -> np.ndarray:
    knots = np.array([(1.08, 0.55), (0.93, 0.63), (0.855, 0.74), (0.74, 0.83), (0.66, 0.93), (0.58, 1.08)])
    t = np.linspace(0, 5, 500)
    line = np.stack([np.interp(t, np.arange(6), knots[:, i]) * size_m[i] for i in (0, 1)], -1)
    kernel = np.hanning(91) / np.hanning(91).sum()
    smooth = np.stack([np.convolve(np.pad(line[:, i], 45, "edge"), kernel, "valid") for i in (0, 1)], -1)
    smooth[:, 0] += 12 * np.sin(t * 6.1) + 4 * np.sin(t * 17)
    smooth[:, 1] += 12 * np.cos(t * 5.3) + 4 * np.cos(t * 14)
    return smooth


def _creek_trees(town: Town, rng: np.random.Generator) -> None:
    if town.creek is None:
        return
    for x, y in town.creek[::2]:
        for _ in range(3):
            away = rng.normal(0, 11)
            if abs(away) > 4.5:
                town.trees.append((x + away, y + rng.normal(0, 11), rng.uniform(2.5, 6)))


def _keep_inside(town: Town, n_buildings: int, rng: np.random.Generator) -> None:
    """Mark buildings that touch the border, drop what stands in the creek, and thin to the number asked for."""
    width, height = town.size_m
    kept = []
    for b in town.buildings:
        points = np.concatenate(b.corners())
        is_inside = (points > 3).all() and (points[:, 0] < width - 3).all() and (points[:, 1] < height - 3).all()
        is_near = (points.max(0) > 0).all() and points[:, 0].min() < width and points[:, 1].min() < height
        if is_near and town.creek_distance(b.x, b.y) > 30:
            b.is_listed = bool(is_inside)
            kept.append(b)
    listed = rng.permutation([i for i, b in enumerate(kept) if b.is_listed]).tolist()
    listed.sort(key=lambda i: kept[i].use not in ("outbuilding", "residential"))  # the large ones stay
    drop = set(listed[: max(0, len(listed) - n_buildings)])
    town.buildings = [b for i, b in enumerate(kept) if i not in drop]
    number = 0
    for b in town.buildings:
        if b.is_listed:
            number += 1
            b.number = number
            b.is_reroofed = bool(rng.random() < 0.02 and b.use == "residential")
