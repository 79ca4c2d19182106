"""Pictures of the ground around buildings, pre above post, for lists and panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.geo.vector.sites import in_px
from pu_geo.scenes import image_quality, preparation
from pu_geo.store import contents, runs, store
from pu_geo.store.layout import Layout

GROUND_PX = 160  # side of a picture of one date


def of_run(layout: Layout, run_id: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return pictures of buildings of a run, see `of_chips`."""
    return of_chips(layout, store.call(layout, runs.find, run_id).chip_set, building_ids)


def of_chips(layout: Layout, chip_set: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return pictures of the ground around buildings, uint8 [H, W, 3], pre above post; see `geo.ground`.

    In a project without map tiles they show the chips of the set instead.
    """
    from pu_geo.geo.ground import ground_pictures  # loads OpenCV, which no other answer here needs

    pyramids = [layout.quicklooks / layer["name"] for layer in preparation.map_layers(layout)]
    if not pyramids:
        return _chips_of(layout, chip_set, building_ids)
    with store.connect(layout) as db:
        grid, known, outlines = contents.grid(db), contents.building_ids(db), contents.outlines(db, building_ids)
    shifts = image_quality.pre_shifts_px(layout, grid)
    pictures = []
    shapes = in_px(np.asarray(shapely.from_wkb(outlines)), grid)
    for building, shape in zip(building_ids, shapes, strict=True):
        row = known.index(building)
        moved = [(0.0, 0.0) if shifts is None or folder.name == "post" else tuple(shifts[row]) for folder in pyramids]
        site = grid.parts[int(grid.site_at(np.array(shapely.bounds(shape)[1])))]
        pictures.append(ground_pictures(pyramids, shape, site.gsd_m, GROUND_PX, moved))
    return pictures


def _chips_of(layout: Layout, chip_set: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    rows = {building: i for i, building in enumerate(contents.chip_facts(layout, chip_set)["building_ids"])}
    if not layout.chips(chip_set).is_file():
        raise ProjectError(
            f"The chips {chip_set} were removed, so they cannot be shown.",
            "Bring them back on the Project screen, or cut chips again and train.",
        )
    chips = contents.optical_chips(layout, chip_set)
    pictures = []
    for building in building_ids:
        chip = np.asarray(chips[rows[building]])
        stacked = np.concatenate([chip[band : band + 3] for band in range(0, len(chip), 3)], axis=1)
        pictures.append(np.ascontiguousarray(stacked.transpose(1, 2, 0)))
    return pictures
