"""What each quarter of the made-up town holds: house lots, shops, a school, works, fields, a wood."""

from __future__ import annotations

import numpy as np

from sample_data._houses import Box, fill_houses
from sample_data._town import FLAT_ROOFS, METAL_ROOFS, PITCH_U, PITCH_V, SHINGLES, Bend, Building, Town


def fill_quarter(
    town: Town, bend: Bend, kind: str, origin: tuple[float, float], is_wide: bool, rng: np.random.Generator
) -> None:
    """Fill the land between four main roads."""
    u0, v0 = origin
    inner = (u0 + 8, v0 + 8, u0 + PITCH_U - 8, v0 + PITCH_V - 8)
    if kind == "farm":
        _farm(town, bend, inner, rng)
    elif kind == "wood":
        _wood(town, bend, inner, rng, 0.011)
    else:
        _blocks(town, bend, kind, origin, is_wide, rng)


def main_roads(town: Town, bend: Bend) -> None:
    """Add the main roads, drawn last so that they bridge the creek."""
    width, height = town.size_m
    along = np.arange(-60, max(width, height) + 120, 6.0)
    for u in np.arange(-30, width + 60, PITCH_U):
        town.roads.append((bend(np.full_like(along, u), along), 13.5, "asphalt", True))
    for v in np.arange(-40, height + 60, PITCH_V):
        town.roads.append((bend(along, np.full_like(along, v)), 12.0, "asphalt", True))


def _blocks(town: Town, bend: Bend, kind: str, origin: tuple[float, float], is_wide: bool, rng: np.random.Generator) -> None:
    u0, v0 = origin
    n_u, n_v = (2, 4) if is_wide else (4, 2)
    du, dv = PITCH_U / n_u, PITCH_V / n_v
    s = np.linspace(0, 1, 80)
    for i in range(1, n_u):
        road = "asphalt" if rng.random() < 0.5 else "old_asphalt"
        town.roads.append((bend(np.full(80, u0 + i * du), v0 + s * PITCH_V), rng.uniform(7, 8.6), road, False))
    for j in range(1, n_v):
        road = "asphalt" if rng.random() < 0.4 else "old_asphalt"
        town.roads.append((bend(u0 + s * PITCH_U, np.full(80, v0 + j * dv)), rng.uniform(7, 8.6), road, False))
    for i in range(n_u):
        for j in range(n_v):
            box = (u0 + i * du + 7.5, v0 + j * dv + 7.5, u0 + (i + 1) * du - 7.5, v0 + (j + 1) * dv - 7.5)
            _block(town, bend, _block_kind(kind, i, j, rng), box, is_wide, rng)


def _block_kind(kind: str, i: int, j: int, rng: np.random.Generator) -> str:
    if kind == "shops":
        return "houses" if (i + j) % 4 == 3 else "shops"
    if kind == "works":
        return "houses" if (i + j) % 4 == 0 else "works"
    if kind == "school":
        return {(0, 0): "school", (1, 0): "meadow"}.get((i, j), "houses")
    return str(rng.choice(["houses", "church", "flats", "meadow"], p=[0.9, 0.03, 0.05, 0.02]))


def _block(town: Town, bend: Bend, kind: str, box: Box, is_wide: bool, rng: np.random.Generator) -> None:
    u0, v0, u1, v1 = box
    if kind == "houses":
        fill_houses(town, bend, box, is_wide, rng)
    elif kind in ("shops", "church"):
        _shops(town, bend, box, rng, count=1 if kind == "church" else int(rng.integers(2, 5)))
    elif kind == "works":
        _works(town, bend, box, rng)
    elif kind == "flats":
        _flats(town, bend, box, rng)
    elif kind == "school":
        _school(town, bend, box, rng)
    else:
        town.patches.append(("rough", bend.box(u0, v0, u1, v1)))
        _wood(town, bend, box, rng, 0.002)


def _big(
    town: Town, bend: Bend, u: float, v: float, half: tuple[float, float], roof: str, use: str, rng: np.random.Generator
) -> None:
    x, y = bend(u, v).tolist()
    palette = {"flat": FLAT_ROOFS, "metal": METAL_ROOFS}.get(roof, SHINGLES)
    tone = tuple(int(c * f) for f in [rng.uniform(0.9, 1.08)] for c in palette[rng.integers(len(palette))])
    wings = [(0.0, 0.0, *half)]
    if rng.random() < 0.5:
        out = (rng.choice([-1, 1]) * half[0] * 0.5, rng.choice([-1, 1]) * half[1] * 0.6)
        wings.append((*out, half[0] * 0.45, half[1] * 0.7))
    storeys = 2 if use == "apartments" else 1
    town.buildings.append(Building(x, y, bend.angle(u, v), wings, roof, tone, 3.2 * storeys + 1.5, use, storeys))


def _car_park(town: Town, bend: Bend, box: Box) -> None:
    u0, v0, u1, v1 = box
    town.patches.append(("parking", bend.box(*box)))
    for v in np.arange(v0 + 3, v1 - 5, 8.5):
        for u in np.arange(u0 + 3, u1 - 2, 2.8):
            x, y = bend(u, v).tolist()
            town.parking.append((x, y, bend.angle(u, v) + np.pi / 2))
            mark = bend(np.array([u - 1.4, u - 1.4]), np.array([v - 2.4, v + 2.4]))
            town.lines.append((mark, 0.16, "paint"))


def _shops(town: Town, bend: Bend, box: Box, rng: np.random.Generator, count: int) -> None:
    u0, v0, u1, v1 = box
    town.patches.append(("lawn", bend.box(*box)))
    step = (v1 - v0) / count
    for k in range(count):
        a0, a1 = v0 + k * step + 2, v0 + (k + 1) * step - 2
        split = u0 + (u1 - u0) * (rng.uniform(0.25, 0.35) if count == 1 else rng.uniform(0.42, 0.58))
        _car_park(town, bend, (u0 + 2, a0, split - 3, a1))
        half = ((u1 - split) / 2 - rng.uniform(3, 8), (a1 - a0) / 2 - rng.uniform(3, 8))
        if min(half) > 4:
            half = (min(half[0], 21.0), min(half[1], 27.0))
            use = "public" if count == 1 else "commercial"
            _big(town, bend, (split + u1) / 2, (a0 + a1) / 2, half, "flat", use, rng)
        for _ in range(5):
            where = bend(rng.uniform(split - 3, split - 1), rng.uniform(a0, a1)).tolist()
            town.trees.append((*where, rng.uniform(1.2, 2.8)))


def _works(town: Town, bend: Bend, box: Box, rng: np.random.Generator) -> None:
    u0, v0, u1, v1 = box
    town.patches.append(("gravel", bend.box(*box)))
    for _ in range(16):
        kind = str(rng.choice(["rough", "soil", "old_asphalt", "parking", "rough"]))
        town.patches.append((kind, _blob(bend, rng.uniform(u0, u1), rng.uniform(v0, v1), rng.uniform(4, 13), rng)))
    for _ in range(26):
        edge = bend(u0 + rng.uniform(0, 3), rng.uniform(v0, v1)) if rng.random() < 0.5 else None
        where = bend(rng.uniform(u0, u1), v1 - rng.uniform(0, 4)) if edge is None else edge
        town.trees.append((*where.tolist(), rng.uniform(1.5, 4.5)))
    for u in np.arange(u0 + 20, u1 - 16, 42):
        for v in np.arange(v0 + 16, v1 - 12, 34):
            pick = rng.random()
            if pick < 0.62:
                half = (rng.uniform(6, 16), rng.uniform(5, 12))
                apron = bend.box(u - half[0] - 4, v - half[1] - 4, u + half[0] + 7, v + half[1] + 5)
                town.patches.append((str(rng.choice(["old_asphalt", "concrete", "parking"])), apron))
                _big(town, bend, u, v, half, "metal" if rng.random() < 0.7 else "flat", "industrial", rng)
                x, y = bend(u + rng.uniform(-20, 20), v + 15).tolist()
                town.clutter.append((x, y, rng.uniform(3, 8), 0.5))
            else:  # scrap and stored goods
                x, y = bend(u, v).tolist()
                town.clutter.append((x, y, rng.uniform(8, 15), rng.uniform(0.4, 1.1)))
                town.patches.append(("soil", _blob(bend, u, v, rng.uniform(10, 16), rng)))
                for k in range(int(rng.integers(0, 9))):  # a row of wrecks
                    town.parking.append((*bend(u - 12 + 2.6 * k, v + 12).tolist(), bend.angle(u, v) + 1.6))


def _blob(bend: Bend, u: float, v: float, radius: float, rng: np.random.Generator) -> np.ndarray:
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    waves = sum(rng.uniform(0.05, 0.25) * np.sin(k * turn + rng.uniform(0, 6)) for k in (1, 2, 3, 5))
    r = radius * (1 + waves)
    return bend(u + r * np.cos(turn) * rng.uniform(0.8, 1.6), v + r * np.sin(turn))


def _flats(town: Town, bend: Bend, box: Box, rng: np.random.Generator) -> None:
    u0, v0, u1, v1 = box
    _car_park(town, bend, ((u0 + u1) / 2 - 8, v0 + 6, (u0 + u1) / 2 + 8, v1 - 6))
    for v in np.arange(v0 + 18, v1 - 14, 30):
        for u in np.r_[np.arange(u0 + 17, (u0 + u1) / 2 - 16, 34), np.arange(u1 - 17, (u0 + u1) / 2 + 16, -34)]:
            _big(town, bend, u, v, (rng.uniform(6, 8), rng.uniform(9, 12)), "hip", "apartments", rng)
            where = bend(u + rng.uniform(-14, 14), v + 15).tolist()
            town.trees.append((*where, rng.uniform(2, 4.5)))


def _school(town: Town, bend: Bend, box: Box, rng: np.random.Generator) -> None:
    u0, v0, u1, v1 = box
    mid_u, mid_v = (u0 + u1) / 2, v0 + (v1 - v0) * 0.42
    town.patches.append(("turf", bend.box(*box)))
    _big(town, bend, mid_u, v1 - 26, (24, 12), "flat", "public", rng)
    _car_park(town, bend, (u0 + 4, v1 - 12, u1 - 4, v1 - 1))
    reach_u, reach_v = (u1 - u0) / 2 - 6, (v1 - v0) * 0.36
    t = np.linspace(0, 2 * np.pi, 60)
    oval = [np.sign(f(t)) * np.abs(f(t)) ** 0.6 for f in (np.cos, np.sin)]
    town.lines.append((bend(mid_u + reach_u * oval[0], mid_v + reach_v * oval[1]), 6.0, "clay"))
    for f in np.linspace(-0.62, 0.62, 9):
        line = bend(np.array([mid_u - reach_u * 0.7, mid_u + reach_u * 0.7]), np.full(2, mid_v + f * reach_v))
        town.lines.append((line, 0.2, "paint"))


def _farm(town: Town, bend: Bend, box: Box, rng: np.random.Generator) -> None:
    u0, v0, u1, v1 = box
    cut_u, cut_v = u0 + (u1 - u0) * rng.uniform(0.35, 0.65), v0 + (v1 - v0) * rng.uniform(0.35, 0.65)
    kinds = rng.permutation(["crop", "soil", "rough", "crop"])
    for kind, part in zip(
        kinds, [(u0, v0, cut_u, cut_v), (cut_u, v0, u1, cut_v), (u0, cut_v, cut_u, v1), (cut_u, cut_v, u1, v1)], strict=True
    ):
        town.patches.append((str(kind), bend.box(*part)))
    town.roads.append((bend(np.linspace(u0 - 8, u1, 50), np.full(50, cut_v)), 4.0, "gravel", False))
    for at in np.arange(v0, v1, 6.0):
        if rng.random() < 0.7:
            town.trees.append((*bend(cut_u + rng.normal(0, 1.5), at).tolist(), rng.uniform(2, 5)))
    for k in range(3):
        _big(town, bend, u0 + 25 + 28 * k, cut_v + 18, (rng.uniform(6, 10), rng.uniform(5, 8)), "metal", "farm", rng)
    town.clutter.append((*bend(u0 + 40, cut_v + 34).tolist(), 7.0, 0.5))


def _wood(town: Town, bend: Bend, box: Box, rng: np.random.Generator, density: float) -> None:
    u0, v0, u1, v1 = box
    if density > 0.005:
        town.patches.append(("wood", bend.box(*box)))
    for _ in range(int((u1 - u0) * (v1 - v0) * density)):
        where = bend(rng.uniform(u0, u1), rng.uniform(v0, v1)).tolist()
        town.trees.append((*where, rng.uniform(2.5, 6.5)))
