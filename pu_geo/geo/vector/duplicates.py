"""Footprints that are one building twice: from two files, or from one file that names it twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.vector.matching import SAME_IOU, overlaps
from pu_geo.records import FootprintTable

INSIDE = 0.5  # share of the smaller outline from which on two that are not one building are to be checked on the map
DUPLICATES = "duplicates"
_LOOK = "see on the map whether they are parts of one building."


def without_known(table: FootprintTable, known: NDArray[np.object_]) -> FootprintTable:
    """Leave out footprints whose building is in the project already, and count them.

    Args:
        known: outlines of the project, WKB [M], project CRS. One that is there byte for byte is left for
            `contents.insert_footprints`.
    """
    same_bytes = set(known.tolist())
    is_new = np.array([wkb not in same_bytes for wkb in table.wkb], dtype=bool)
    if not is_new.any() or not len(known):
        return table
    shapes, there = (shapely.from_wkb(np.array(list(wkb), dtype=object)) for wkb in (table.wkb, known))
    there = there[_reach(there, shapes)]  # the files of a large event are of one area each
    parts, owner = shapely.get_parts(there, return_index=True)
    is_part = shapely.get_num_geometries(there)[owner] > 1  # of which a file may have one alone
    first, _, iou, inside = overlaps(shapes, np.concatenate([there, parts[is_part]]))
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
        f"{int(is_same.sum()):,} footprint(s) are buildings that are in the project already (the outlines overlap by more "
        f"than {SAME_IOU:.0%}) and were left out."
    )
    return table.without(is_same, DUPLICATES, note)


def without_twins(table: FootprintTable) -> FootprintTable:
    """Leave out footprints whose building stands further up in the same table, and count them."""
    shapes = shapely.from_wkb(np.array(list(table.wkb), dtype=object))
    is_same = twins(shapes)
    if not is_same.any():
        return table
    note = (
        f"{int(is_same.sum()):,} footprint(s) are the same building as another one of this file (the outlines overlap by "
        f"more than {SAME_IOU:.0%}) and were left out."
    )
    return table.without(is_same, DUPLICATES, note)


def twins(shapes: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark outlines that are the same building as one before them that is not marked, bool [N]."""
    first, second, iou, _ = overlaps(shapes, None)
    is_same = np.zeros(len(shapes), dtype=bool)
    pairs = np.stack([first, second], axis=1)[iou > SAME_IOU]
    for one, other in pairs[np.lexsort(pairs.T)].tolist():  # by the second: what was before it is settled
        is_same[other] |= not is_same[one]
    return is_same


def _reach(shapes: NDArray[np.object_], others: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark outlines whose box reaches into the box around all others, bool [N]."""
    box, around = shapely.bounds(shapes), shapely.total_bounds(others)
    return np.asarray((box[:, :2] <= around[2:]).all(axis=1) & (box[:, 2:] >= around[:2]).all(axis=1))
