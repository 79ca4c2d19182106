"""Plan of the made-up town: streets, lots, buildings, trees. Nothing here draws a pixel.

Everything is in metres from the scene's top-left corner, x to the right and y down. The plan is first laid out on a
right-angled grid (u, v) and then bent by `Bend`, so streets curve and lots follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PITCH_U, PITCH_V = 372.0, 404.0  # distance between main roads
QUARTERS = (
    ("streets", "curved", "school", "farm"),
    ("curved", "shops", "streets", "streets"),
    ("streets", "streets", "curved", "works"),
    ("farm", "curved", "streets", "wood"),
)
SHINGLES = (
    (96, 95, 92), (84, 70, 58), (142, 140, 134), (128, 104, 76), (68, 66, 64), (104, 78, 64), (112, 110, 104),
    (88, 92, 90), (120, 98, 84), (158, 154, 146), (76, 70, 62), (136, 124, 106),
)  # fmt: skip
FLAT_ROOFS = ((186, 184, 178), (140, 138, 132), (112, 108, 102), (156, 148, 136), (204, 202, 198), (126, 120, 112))
METAL_ROOFS = ((168, 172, 174), (120, 132, 138), (148, 136, 124), (196, 196, 192))


@dataclass
class Building:
    """One building: `wings` are boxes (centre a, centre b, half a, half b) in its own turned frame."""

    x: float
    y: float
    angle: float
    wings: list[tuple[float, float, float, float]]
    roof: str  # gable, hip, flat, metal
    color: tuple[int, int, int]
    eave_m: float
    use: str
    storeys: int = 1
    damage: str = "no-damage"  # by the wind; see `grade`
    is_listed: bool = True  # wholly inside the scene, so it gets a footprint
    is_reroofed: bool = False  # roofers at work when the post scene was taken
    is_swept: bool = False  # destroyed, and the wind took most of the rubble along
    is_flooded: bool = False  # stands in the water of the post scene
    number: int = 0

    @property
    def grade(self) -> str:
        """The true damage class: the wind's, and at least "major-damage" in the water, as on the Joint Damage Scale of
        xBD.
        """
        is_light = self.damage in ("no-damage", "minor-damage")
        return "major-damage" if self.is_flooded and is_light else self.damage

    @property
    def types(self) -> tuple[str, ...]:
        """The true damage types; none where a building is not damaged."""
        by_wind = {"destroyed": ("collapsed",), "major-damage": ("roof",)}.get(self.damage, ())
        return (*by_wind, "flooded") if self.is_flooded else by_wind

    def corners(self) -> list[np.ndarray]:
        """Return each wing's four corners, float [4, 2] in metres."""
        c, s = np.cos(self.angle), np.sin(self.angle)
        turn = np.array([[c, s], [-s, c]])
        out = []
        for ca, cb, ha, hb in self.wings:
            box = np.array([[ca - ha, cb - hb], [ca + ha, cb - hb], [ca + ha, cb + hb], [ca - ha, cb + hb]])
            out.append(box @ turn + [self.x, self.y])
        return out


@dataclass
class Town:
    """The whole plan. Patches are (ground class, polygon [n, 2]); roads are (polyline, width, class, is_main)."""

    size_m: tuple[float, float]
    patches: list[tuple[str, np.ndarray]] = field(default_factory=list)
    roads: list[tuple[np.ndarray, float, str, bool]] = field(default_factory=list)
    lines: list[tuple[np.ndarray, float, str]] = field(default_factory=list)
    buildings: list[Building] = field(default_factory=list)
    trees: list[tuple[float, float, float]] = field(default_factory=list)  # x, y, crown radius
    lawns: list[tuple[np.ndarray, float]] = field(default_factory=list)  # polygon, tint
    parking: list[tuple[float, float, float]] = field(default_factory=list)  # x, y, angle of a place for a car
    clutter: list[tuple[float, float, float, float]] = field(default_factory=list)  # x, y, radius, density per m2
    sites: list[tuple[float, float, float]] = field(default_factory=list)  # x, y, angle of lots built on after pre
    creek: np.ndarray | None = None

    def creek_distance(self, x: float, y: float) -> float:
        """Return the distance to the creek's centre line in metres."""
        if self.creek is None:
            return np.inf
        return float(np.hypot(self.creek[:, 0] - x, self.creek[:, 1] - y).min())


class Bend:
    """Smooth map from the right-angled plan (u, v) to the ground (x, y)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.phase = rng.uniform(0, 2 * np.pi, 6).tolist()
        self.curved = np.array([[q == "curved" for q in line] for line in QUARTERS])

    def __call__(self, u: np.ndarray | float, v: np.ndarray | float) -> np.ndarray:
        """Return float [..., 2] in metres."""
        u, v = np.asarray(u, float), np.asarray(v, float)
        p = self.phase
        x = u + 13 * np.sin(v / 150 + p[0]) + 5 * np.sin(u / 90 + v / 210 + p[1])
        y = v + 11 * np.sin(u / 170 + p[2]) + 5 * np.sin(v / 80 + p[3])
        fu, fv = (u + 30) / PITCH_U, (v + 40) / PITCH_V
        col, row = np.floor(fu).astype(int), np.floor(fv).astype(int)
        edge = np.sin(np.pi * (fu - col)) ** 2 * np.sin(np.pi * (fv - row)) ** 2 * self.curved[row % 4, col % 4]
        x = x + edge * 30 * np.sin(2 * np.pi * (fv - row) * 1.4 + p[4])
        y = y + edge * 26 * np.sin(2 * np.pi * (fu - col) * 1.3 + p[5])
        return np.stack([x, y], -1)

    def angle(self, u: float, v: float) -> float:
        """Return the direction of growing u on the ground, in radians."""
        dx, dy = (self(u + 2, v) - self(u - 2, v)).tolist()
        return float(np.arctan2(dy, dx))

    def box(self, u0: float, v0: float, u1: float, v1: float) -> np.ndarray:
        """Return the outline of a bent box, float [n, 2] in metres."""
        s = np.linspace(0, 1, 9)
        us = np.concatenate([u0 + (u1 - u0) * s, np.full(9, u1), u1 + (u0 - u1) * s, np.full(9, u0)])
        vs = np.concatenate([np.full(9, v0), v0 + (v1 - v0) * s, np.full(9, v1), v1 + (v0 - v1) * s])
        return self(us, vs)
