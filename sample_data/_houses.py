"""Blocks of house lots: house, drive, back yard and what stands in it."""

from __future__ import annotations

import numpy as np

from sample_data._town import METAL_ROOFS, SHINGLES, Bend, Building, Town

Box = tuple[float, float, float, float]


def fill_houses(town: Town, bend: Bend, box: Box, is_wide: bool, rng: np.random.Generator) -> None:
    """Two rows of lots back to back; `is_wide` blocks have their streets above and below."""
    u0, v0, u1, v1 = box
    along0, along1, across0, across1 = (u0, u1, v0, v1) if is_wide else (v0, v1, u0, u1)
    depth = (across1 - across0) / 2
    big = rng.uniform(13.6, 18.0)
    alike = rng.integers(0, len(SHINGLES), 5)
    for side in (0, 1):
        at = along0
        while along1 - at > big * 0.9:
            front = min(rng.uniform(0.9, 1.25) * big, along1 - at)
            color = SHINGLES[int(rng.choice(alike))] if rng.random() < 0.7 else SHINGLES[rng.integers(len(SHINGLES))]
            _lot(_Lot(town, bend, is_wide, at, front, across0 if side == 0 else across1, depth, side), color, rng)
            at += front
    back = (across0 + across1) / 2
    if rng.random() < 0.6:
        town.lines.append((_place(bend, is_wide, np.linspace(along0, along1, 30), np.full(30, back)), 0.3, "fence"))


def _place(bend: Bend, is_wide: bool, along: np.ndarray | float, across: np.ndarray | float) -> np.ndarray:
    return bend(along, across) if is_wide else bend(across, along)


class _Lot:
    """One house lot; `at` runs along the street, `into` away from it."""

    def __init__(
        self, town: Town, bend: Bend, is_wide: bool, start: float, front: float, street: float, depth: float, side: int
    ) -> None:
        self.town, self.bend, self.is_wide = town, bend, is_wide
        self.start, self.front, self.street, self.depth = start, front, street, depth
        self.sign = 1 if side == 0 else -1

    def point(self, at: float, into: float) -> tuple[float, float]:
        x, y = _place(self.bend, self.is_wide, self.start + at, self.street + self.sign * into).tolist()
        return x, y

    def angle(self, into: float) -> float:
        """Direction along the street."""
        ax, ay = self.point(self.front / 2 - 2, into)
        bx, by = self.point(self.front / 2 + 2, into)
        return float(np.arctan2(by - ay, bx - ax))

    def strip(self, at0: float, at1: float, into0: float, into1: float) -> np.ndarray:
        return np.array([self.point(*p) for p in ((at0, into0), (at1, into0), (at1, into1), (at0, into1))])


def _lot(lot: _Lot, color: tuple[int, int, int], rng: np.random.Generator) -> None:
    town = lot.town
    town.lawns.append((lot.strip(0, lot.front, 0, lot.depth), float(rng.normal(0, 1))))
    if town.creek_distance(*lot.point(lot.front / 2, 15)) < 38:
        return
    if rng.random() < 0.045:
        _empty_lot(lot, rng)
        return
    house = _house(lot, color, rng)
    town.buildings.append(house)
    at = 1.9 if rng.random() < 0.5 else lot.front - 1.9
    reach = rng.uniform(9, 19)
    half = rng.uniform(1.3, 1.9)
    town.patches.append(("drive", lot.strip(at - half, at + half, -4.5, reach)))
    town.parking.extend((*lot.point(at, into), lot.angle(5) + np.pi / 2) for into in (3.5, reach - 3))
    _backyard(lot, rng)
    if rng.random() < 0.5:
        town.lines.append((lot.strip(0, 0.01, 14, lot.depth)[[0, 3]], 0.28, "fence"))


def _house(lot: _Lot, color: tuple[int, int, int], rng: np.random.Generator) -> Building:
    half_a = min(rng.uniform(5.2, 7.6), lot.front / 2 - 1.0)
    half_b = rng.uniform(3.9, 5.4)
    into = rng.uniform(6.2, 9.0) + half_b
    x, y = lot.point(lot.front / 2 + rng.normal(0, 0.4), into)
    wings = [(0.0, 0.0, half_a, half_b)]
    if rng.random() < 0.55:  # a wing toward street or yard makes an L or T
        wing_a = rng.uniform(2.3, 3.2)
        out = rng.uniform(1.5, 4.0)
        wings.append((rng.choice([-1, 1]) * (half_a - wing_a), rng.choice([-1, 1]) * (out + 0.6), wing_a, half_b))
    if rng.random() < 0.18:
        wings.append((rng.uniform(-2, 2), -lot.sign * (half_b + 1.2), 2.2, 1.6))
    tone = np.clip(np.array(color) * rng.uniform(0.88, 1.14) + rng.normal(0, 1.8, 3), 30, 235).astype(int)
    storeys = int(rng.choice([1, 2], p=[0.78, 0.22]))
    roof = str(rng.choice(["gable", "hip"], p=[0.6, 0.4]))
    angle = lot.angle(into) + rng.normal(0, 0.02)
    return Building(x, y, angle, wings, roof, tuple(tone.tolist()), 2.8 * storeys, "residential", storeys)


def _empty_lot(lot: _Lot, rng: np.random.Generator) -> None:
    x, y = lot.point(lot.front / 2, 15)
    if rng.random() < 0.5:
        lot.town.sites.append((x, y, lot.angle(15)))
    for _ in range(rng.integers(0, 5)):
        lot.town.trees.append((*lot.point(rng.uniform(1, lot.front - 1), rng.uniform(4, 34)), rng.uniform(2, 5.5)))


def _backyard(lot: _Lot, rng: np.random.Generator) -> None:
    town, deep = lot.town, lot.depth
    busy = rng.random()
    if busy < 0.36:
        half = rng.uniform(1.7, 3.4)
        x, y = lot.point(rng.uniform(half + 1, max(half + 1.1, lot.front - half - 1)), deep - half - rng.uniform(1, 8))
        tone = SHINGLES[rng.integers(len(SHINGLES))] if rng.random() < 0.6 else METAL_ROOFS[rng.integers(4)]
        wings = [(0.0, 0.0, half, half * rng.uniform(0.8, 1.25))]
        town.buildings.append(Building(x, y, lot.angle(deep - 5), wings, "gable", tone, 2.3, "outbuilding"))
    elif busy < 0.44:
        x, y = lot.point(lot.front / 2, 26)
        t = np.linspace(0, 2 * np.pi, 16)
        r = rng.uniform(2.0, 2.9)
        shape = np.stack([x + r * rng.uniform(1, 1.7) * np.cos(t), y + r * np.sin(t)], -1)
        town.patches.append(("concrete", (shape - [x, y]) * 1.35 + [x, y]))
        town.patches.append(("pool", shape))
    elif busy < 0.62:  # patio, trampoline, wood pile, junk
        at, into = rng.uniform(3, lot.front - 3), rng.uniform(19, 30)
        town.patches.append(("concrete", lot.strip(at - 1.5, at + 2, into - 1.5, into + 1.5)))
        town.clutter.append((*lot.point(at, into + 4), rng.uniform(2, 4), 0.5))
    for _ in range(rng.poisson(1.5)):  # trees stand in groups
        at, into = rng.uniform(0, lot.front), rng.uniform(20, deep)
        for _ in range(int(rng.integers(1, 5))):
            where = lot.point(at + rng.normal(0, 3.5), into + rng.normal(0, 3.5))
            town.trees.append((*where, float(np.clip(rng.gamma(5, 0.62), 1.0, 6.5))))
    if rng.random() < 0.5:
        town.trees.append((*lot.point(rng.uniform(1, lot.front - 1), rng.uniform(0.5, 4.5)), rng.uniform(1.8, 5.2)))
    for _ in range(rng.poisson(1.2)):  # bushes along the house
        town.trees.append((*lot.point(rng.uniform(1, lot.front - 1), rng.uniform(4.5, 7)), rng.uniform(0.6, 1.2)))
