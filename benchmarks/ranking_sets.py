"""Events of which the damage is known, drawn at several shares of damage: what `benchmarks.ranking` holds methods against.

A cell is a set of chips, a share of damaged buildings among the unlabeled, and a number of clicks. It counts only where at
least 20 damaged buildings are left unlabeled; a cell with fewer is named and stays empty.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CHOSEN, CONFOUNDED, REPORTED = "chosen on", "chosen on, confounded", "reported on"
CLICKS = (10, 30)
LEAST_LEFT = 20  # damaged buildings that are left unlabeled; with fewer an average precision means little
N_SEEDS = 10


@dataclass(frozen=True)
class Source:
    """Chips that events are drawn from, and their cached features.

    Attributes:
        is_damaged: bool [N].
        views: RCF features of views, float16 [V, N, D], the chip as it was cut first.
        scene: int64 [N], the scene of each; metrics of sets whose labels follow the scene are of one scene.
        xy_m: float64 [N, 2], places in metres.
        place: int64 [N], the same number for chips of one place at several dates; None where each has its own.
        damage: grade of each, str [N]; None where there are none.
    """

    is_damaged: NDArray[np.bool_]
    views: NDArray[np.float16]
    scene: NDArray[np.int64]
    xy_m: NDArray[np.float64]
    place: NDArray[np.int64] | None = None
    damage: NDArray[np.str_] | None = None


@dataclass(frozen=True)
class Cell:
    """One row of the table.

    Attributes:
        source: name of the source.
        role: `CHOSEN`, `CONFOUNDED` or `REPORTED`.
        share: of damaged among the unlabeled, 0..1; None leaves all chips in.
        clicks: damaged buildings that are clicked.
        scene: draw from this scene alone; None: from all.
        undamaged_places: share of the places that give undamaged chips, where a place has chips of both kinds; others give
            damaged ones. None where a place has one chip.
    """

    source: str
    role: str
    share: float | None
    clicks: int
    scene: int | None = None
    undamaged_places: float | None = None

    @property
    def name(self) -> str:
        """Name the row, without the number of clicks."""
        words = self.source if self.scene is None else f"{self.source}, scene {self.scene}"
        return f"{words}, native" if self.share is None else f"{words} at {100 * self.share:g} %"

    def draw(self, source: Source, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """Draw the chips of an event and its clicks; cells that differ draw others from the same seed.

        Returns:
            Row numbers, int64 [M], and which are clicked, bool [M]; None where fewer than 20 damaged ones would be left.
        """
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        rows = np.arange(len(source.is_damaged))
        if self.scene is not None:
            rows = rows[source.scene == self.scene]
        if self.undamaged_places is not None and source.place is not None:
            _, place = np.unique(source.place, return_inverse=True)
            gives_undamaged = rng.permutation(place.max() + 1) < self.undamaged_places * (place.max() + 1)
            rows = np.flatnonzero(gives_undamaged[place] != source.is_damaged)
        damaged, undamaged = (rng.permutation(rows[source.is_damaged[rows] == which]) for which in (True, False))
        clicked, left = damaged[: self.clicks], damaged[self.clicks :]
        if self.share is not None:
            odds = self.share / (1 - self.share)
            undamaged = undamaged[: int(len(left) / odds)]
            left = left[: round(len(undamaged) * odds)]
        if len(left) < LEAST_LEFT or not len(undamaged):
            return None
        chosen = np.sort(np.concatenate([clicked, left, undamaged]))
        return chosen, np.isin(chosen, clicked)


def cells() -> Iterator[Cell]:
    """Return every cell, in the order of the table."""
    shares = {
        "joplin": (CHOSEN, (None, 0.2)), "santa_rosa_a": (CHOSEN, (None, 0.2)), "matthew_wind": (CHOSEN, (None, 0.2)),
        "neighborhoods": (CHOSEN, (None,)), "town": (CHOSEN, (0.05,)),
        "harvey_a": (CONFOUNDED, (0.2, 0.05, 0.01)), "harvey_d": (CONFOUNDED, (0.2, 0.05, 0.01)),
    }  # fmt: skip
    for source, (role, wanted) in shares.items():
        for share in wanted:
            for clicks in CLICKS:
                places = 0.75 if source.startswith("harvey") else None
                yield Cell(source, role, share, clicks, undamaged_places=places)
    for source, scene in (("harvey_flood", 0), ("harvey_flood", None), ("florence_flood", None)):
        for clicks in CLICKS:
            yield Cell(source, REPORTED, None, clicks, scene)


def read_source(folder: Path, name: str) -> Source:
    """Read what `benchmarks.ranking prepare` keeps of a source: `NAME.npz`, and its features in `NAME.views.npy`."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as kept:
        place = kept["place"].astype(np.int64) if "place" in kept.files else None
        damage = kept["damage"] if "damage" in kept.files else None
        facts = {key: kept[key] for key in ("is_damaged", "scene", "xy_m")}
    views = np.load(folder / f"{name}.views.npy", mmap_mode="r", allow_pickle=False)
    return Source(views=views, place=place, damage=damage, **facts)
