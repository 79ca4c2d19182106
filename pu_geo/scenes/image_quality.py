"""The imagery at each building: why it cannot be assessed, and how far pre lies from post there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.records import Grid
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import alignment, chosen, contents, runs, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout

NOT_MEASURED = np.iinfo(np.int16).min
LARGEST_CM = np.iinfo(np.int16).max


@dataclass(frozen=True)
class ImageQuality:
    """What the imagery shows of a chip set's buildings.

    Attributes:
        reasons: building id -> why it is not assessed, see `assessability.reasons`; the others can be.
        candidates: building id -> likeliest reason, should somebody call it not assessable; "misaligned" too.
        shifts: names the shifts that `shifts_for_browser` sends; None where pre and post are not aligned.
    """

    reasons: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, str] = field(default_factory=dict)
    shifts: str | None = None


def image_quality(layout: Layout, run_id: str | None = None) -> ImageQuality:
    """Return what the imagery shows; nothing before there are footprints.

    Args:
        run_id: whose chips and evidence count; those of the newest chip set, without regard to evidence, if None.
    """
    with store.connect(layout) as db:
        run = None if run_id is None else runs.find(db, run_id)
        chip_set = contents.latest_chip_set(db) if run is None else run.chip_set
    found, _ = _now(layout, chip_set)
    return found if run is None else replace(found, reasons=chosen.reasons_of(layout, run) or {})


def _now(layout: Layout, chip_set: str | None) -> tuple[ImageQuality, Alignment | None]:
    """Return what the imagery shows of a chip set's buildings, and the alignment; both are kept until one of their files
    changes.
    """
    with store.connect(layout) as db:
        footprints, scenes = contents.geometry_v(db), tuple((one.role, one.sha256) for one in contents.scenes(db))
    files = [alignment.path_of(layout), layout.quicklooks / "post" / "pyramid.json"]
    files += [layout.chip_facts(chip_set)] if chip_set else []
    return _of_chips(layout, chip_set, f"{footprints}-" + "-".join(str(_changed_at(path)) for path in files), scenes)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # not there, or just being exchanged
        return 0


@lru_cache(maxsize=4)
def _of_chips(
    layout: Layout, chip_set: str | None, stamp: str, scenes: tuple[tuple[str, str], ...]
) -> tuple[ImageQuality, Alignment | None]:  # fmt: skip
    """Work it out once; another `stamp` or other `scenes` make it anew."""
    shifts = _alignment(layout)
    name = None if shifts is None else stamp.replace("-", "")
    failed = set()
    if shifts is not None:
        failed = {shifts.building_ids[row] for row in np.flatnonzero(shifts.is_misaligned).tolist()}
    if chip_set is None or not layout.chip_facts(chip_set).is_file():
        return ImageQuality(candidates=dict.fromkeys(failed, "misaligned"), shifts=name), shifts
    facts = chip_facts(layout, chip_set)
    ids: Sequence[str] = facts["building_ids"]
    is_misaligned = np.array([building in failed for building in ids], dtype=np.bool_)
    likeliest = assessability.candidates(facts, is_misaligned)
    reasons = assessability.by_building(ids, assessability.reasons(facts))
    return ImageQuality(reasons, assessability.by_building(ids, likeliest), name), shifts


def _alignment(layout: Layout) -> Alignment | None:
    with store.connect(layout) as db:
        ids, scenes = contents.building_ids(db), contents.scenes(db)
    return alignment.load(layout, ids, scenes) if ids else None


def shifts_for_browser(layout: Layout) -> bytes | None:
    """Return the shift of every building in the order of the map's geometry, little-endian.

    Returns:
        int16 [N, 2], centimetres to the east and north by which pre must move, -32768 where one date does not show the
        building; then uint8 [N], the quality in hundredths, 0 where it could not be aligned. None where nothing is aligned.
    """
    found = _alignment(layout)
    if found is None:
        return None
    cm = np.clip(np.rint(np.stack([found.dx_m, found.dy_m], axis=1) * 100), -LARGEST_CM, LARGEST_CM).astype("<i2")
    cm[~found.has_data] = NOT_MEASURED
    return cm.tobytes() + np.rint(found.quality * 100).astype(np.uint8).tobytes()


def pre_shifts_px(layout: Layout, grid: Grid) -> NDArray[np.float64] | None:
    """Return by how many (columns, rows) pre must move at each building, float64 [N, 2], in the order of the map's geometry.

    0 where it could not be aligned; None where nothing is aligned.
    """
    found = _alignment(layout)
    if found is None:
        return None
    moved = np.stack([found.dx_m, found.dy_m], axis=1) / grid.m_per_px[store.call(layout, contents.sites)]
    return np.where((found.has_data & (found.quality > 0))[:, None], moved, 0.0)


def imagery_of(layout: Layout, building_id: str) -> dict[str, Any]:
    """Return what the imagery shows of one building.

    Returns:
        {"reason", "candidate": as in `ImageQuality`, "" if there is none; "post_hidden_share" and "pre_hidden_share" of the
        outline, 0..1, where known;
        "shift_dx_m", "shift_dy_m", "shift_quality" where the project is aligned and both dates show the building}
    """
    chip_set = store.call(layout, contents.latest_chip_set)
    imagery, found = _now(layout, chip_set)
    shown: dict[str, Any] = {
        "reason": imagery.reasons.get(building_id, ""),
        "candidate": imagery.candidates.get(building_id, ""),
    }
    facts = chip_facts(layout, chip_set) if chip_set else {"building_ids": []}
    if building_id in facts["building_ids"]:
        row = facts["building_ids"].index(building_id)
        for role in ("post", "pre"):
            share = assessability.hidden_share(facts, role)
            if share is not None:
                shown[f"{role}_hidden_share"] = round(float(share[row]), 4)
    if found is not None:
        row = list(found.building_ids).index(building_id)
        if found.has_data[row]:
            shift = {"dx_m": found.dx_m, "dy_m": found.dy_m, "quality": found.quality}
            shown |= {f"shift_{name}": round(float(values[row]), 2) for name, values in shift.items()}
    return shown
