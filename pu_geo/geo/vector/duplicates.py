"""Footprints that are one building twice: from two files, or from one file that names it twice."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.records import FootprintTable

SAME_IOU = 0.3
"""Outlines that share more of their common area than this are one building. On Joplin a copy shifted by 1 m shares 0.81 in the
middle, and more than this at all but one of 383 (a shed of 7 m2); different buildings of 24 scenes of xBD share 0.01 at most, row
houses that touch 0."""
INSIDE = 0.5  # share of the smaller outline from which on two that are not one building are to be checked on the map
DUPLICATES = "duplicates"
_LOOK = "see on the map whether they are parts of one building."


def without_known(table: FootprintTable, known: NDArray[np.object_], known_ids: AbstractSet[str]) -> FootprintTable:
    """Leave out footprints whose building is in the project already under another name, and count them.

    Args:
        known: outlines of the project, WKB [M], project CRS.
        known_ids: ids in the project; a footprint that has one of them is left for `contents.insert_footprints` to judge, and
            so is one without id whose outline is there byte for byte.
    """
    same_bytes = set(known.tolist())
    is_new = np.array(
        [
            building not in known_ids and (bool(building) or wkb not in same_bytes)
            for building, wkb in zip(table.building_ids, table.wkb, strict=True)
        ],
        dtype=bool,
    )
    if not is_new.any() or not len(known):
        return table
    shapes, there = (shapely.from_wkb(np.array(list(wkb), dtype=object)) for wkb in (table.wkb, known))
    there = there[_reach(there, shapes)]  # the files of a large event are of one area each
    parts, owner = shapely.get_parts(there, return_index=True)
    is_part = shapely.get_num_geometries(there)[owner] > 1  # of which a file may have one alone
    first, _, iou, inside = _overlaps(shapes, np.concatenate([there, parts[is_part]]))
    is_same, is_near = np.zeros(len(shapes), dtype=bool), np.zeros(len(shapes), dtype=bool)
    is_same[first[iou > SAME_IOU]] = True
    is_near[first[inside > INSIDE]] = True
    is_same, is_near = is_same & is_new, is_near & is_new & ~is_same
    if is_near.any():
        words = f"{int(is_near.sum()):,} footprint(s) overlap one that is in the project, but were kept: {_LOOK}"
        table = replace(table, notes=(*table.notes, words))
    if not is_same.any():
        return table
    note = (
        f"{int(is_same.sum()):,} footprint(s) are buildings that are in the project already (the outlines overlap by more than "
        f"{SAME_IOU:.0%}) and were left out."
    )
    return table.without(is_same, DUPLICATES, note)


def without_twins(table: FootprintTable) -> FootprintTable:
    """Leave out footprints whose building stands further up in the same table, and count them."""
    shapes = shapely.from_wkb(np.array(list(table.wkb), dtype=object))
    is_same = twins(shapes)
    if not is_same.any():
        return table
    note = (
        f"{int(is_same.sum()):,} footprint(s) are the same building as another one of this file (the outlines overlap by more "
        f"than {SAME_IOU:.0%}) and were left out."
    )
    return table.without(is_same, DUPLICATES, note)


def twins(shapes: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark outlines that are the same building as one before them that is not marked, bool [N]."""
    first, second, iou, _ = _overlaps(shapes, None)
    is_same = np.zeros(len(shapes), dtype=bool)
    pairs = np.stack([first, second], axis=1)[iou > SAME_IOU]
    for one, other in pairs[np.lexsort(pairs.T)].tolist():  # by the second: what was before it is settled
        is_same[other] |= not is_same[one]
    return is_same


def _overlaps(
    shapes: NDArray[np.object_], others: NDArray[np.object_] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return pairs of outlines that share some area: rows of both, the shared part of their union, and of the smaller one.

    Args:
        others: None for pairs within `shapes`, the smaller row first.
    """
    shapes = _valid(shapes)
    there = shapes if others is None else _valid(others)
    first, second = shapely.STRtree(there).query(shapes, predicate="intersects")
    if others is None:
        first, second = first[first < second], second[first < second]
    first, second = first.astype(np.int64), second.astype(np.int64)
    area, there_area = shapely.area(shapes)[first], shapely.area(there)[second]
    box, there_box = shapely.bounds(shapes)[first], shapely.bounds(there)[second]
    sides = np.minimum(box[:, 2:], there_box[:, 2:]) - np.maximum(box[:, :2], there_box[:, :2])
    most = sides.clip(0).prod(axis=1) / np.minimum(area, there_area)  # what their boxes share is cheap to know
    near = most > SAME_IOU
    first, second, area, there_area = first[near], second[near], area[near], there_area[near]
    shared = shapely.area(shapely.intersection(shapes[first], there[second]))
    return first, second, shared / (area + there_area - shared), shared / np.minimum(area, there_area)


def _reach(shapes: NDArray[np.object_], others: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark outlines whose box reaches into the box around all others, bool [N]."""
    box, around = shapely.bounds(shapes), shapely.total_bounds(others)
    return np.asarray((box[:, :2] <= around[2:]).all(axis=1) & (box[:, 2:] >= around[:2]).all(axis=1))


def _valid(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return outlines that can be intersected; an older file may have left a broken one in the project."""
    is_broken, mended = ~shapely.is_valid(shapes), shapes.copy()
    mended[is_broken] = shapely.make_valid(shapes[is_broken])
    return mended
