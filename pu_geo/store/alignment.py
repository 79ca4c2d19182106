"""The stored shift between pre and post of every building, and whether it still belongs to the scenes at hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.records import FIRST_SITE, Scene, scene_fingerprint
from pu_geo.store.layout import Layout, reading, write_arrays


@dataclass(frozen=True)
class Alignment:
    """Metres to the east (dx) and to the north (dy) by which the content of pre must move to lie on that of post.

    Attributes:
        building_ids: [N].
        dx_m, dy_m: float64 [N]; the shift of the scene pair where the quality is 0.
        quality: float64 [N], 0 (not known) to 1.
        has_data: bool [N], both dates show the building.
        is_mended: bool [N], settled by the neighbors.
        scene_m: float64 [S, 2], (dx, dy) of the scene pair of each site.
        sites: names of the sites, [S].
    """

    building_ids: Sequence[str]
    dx_m: NDArray[np.float64]
    dy_m: NDArray[np.float64]
    quality: NDArray[np.float64]
    has_data: NDArray[np.bool_]
    is_mended: NDArray[np.bool_]
    scene_m: NDArray[np.float64]
    sites: Sequence[str] = (FIRST_SITE,)

    @property
    def is_misaligned(self) -> NDArray[np.bool_]:
        """Buildings that both dates show and that could not be aligned, bool [N]."""
        return np.asarray(self.has_data & (self.quality == 0))


def path_of(layout: Layout) -> Path:
    return layout.path("alignment") / "alignment.npz"


def save(layout: Layout, alignment: Alignment, scenes: Sequence[Scene]) -> None:
    """Write the alignment of these scenes, with its fingerprint; it takes the place of the one before."""
    digest = hashlib.sha256(_name_of(scenes).encode())
    for array in (alignment.dx_m, alignment.dy_m, alignment.quality):
        digest.update(np.ascontiguousarray(array, "<f8").tobytes())
    arrays = {**vars(alignment), "building_ids": np.array(alignment.building_ids, dtype=np.str_)}
    arrays["sites"] = np.array(alignment.sites, dtype=np.str_)
    names = {"made_from": np.array(_name_of(scenes)), "fingerprint": np.array(digest.hexdigest()[:12])}
    write_arrays(path_of(layout), {**names, **arrays})


def fingerprint(layout: Layout, scenes: Sequence[Scene]) -> str:
    """Return what names the alignment of these scenes by what it found, 12 hex digits; "" where they were not aligned."""
    path = path_of(layout)
    if not path.is_file():
        return ""
    with reading(path), np.load(path, allow_pickle=False) as stored:
        return str(stored["fingerprint"]) if str(stored["made_from"]) == _name_of(scenes) else ""


def load(layout: Layout, building_ids: Sequence[str], scenes: Sequence[Scene]) -> Alignment | None:
    """Return the alignment of these buildings in this order.

    Returns:
        None if there is none, if it was made from other scenes, or if a building came after it.
    """
    path = path_of(layout)
    if not path.is_file():
        return None
    with reading(path), np.load(path, allow_pickle=False) as stored:
        row_of = {name: row for row, name in enumerate(stored["building_ids"].tolist())}
        if str(stored["made_from"]) != _name_of(scenes) or not row_of.keys() >= set(building_ids):
            return None
        rows = np.array([row_of[name] for name in building_ids], dtype=np.int64)
        columns = {name: stored[name][rows] for name in ("dx_m", "dy_m", "quality", "has_data", "is_mended")}
        return Alignment(
            building_ids=list(building_ids), scene_m=stored["scene_m"], sites=stored["sites"].tolist(), **columns
        )


def _name_of(scenes: Sequence[Scene]) -> str:
    """Name scenes by content, place and order; where two overlap, the first one is shown."""
    return hashlib.sha256("\n".join(map(scene_fingerprint, scenes)).encode()).hexdigest()
