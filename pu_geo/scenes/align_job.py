"""Measure how far pre lies from post at every building, so that chips can be cut from the same place in both."""

from __future__ import annotations

import numpy as np

from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo.alignment import estimate_shifts, metres_per_px
from pu_geo.geo.chips import chip_windows
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.records import FootprintTable
from pu_geo.scenes import scene_files
from pu_geo.store import contents, store
from pu_geo.store.alignment import Alignment, save
from pu_geo.store.job import Job, Part


def align(job: Job) -> dict[str, object]:
    """Estimate the shifts and store them; chips cut from now on are moved by them.

    Returns:
        {"dx_m", "dy_m": shift of the scene pair, metres to the east and north that pre must move; "n"; "n_mended": settled
        by neighbors; "n_failed": could not be aligned, though both dates show them; "n_outside": one date does not show
        them; "quality": median over those that both dates show, 0..1}

    Raises:
        ImageryError: if there is no pre scene, or a scene's file is missing or changed.
        FootprintError: if there are no footprints.
    """
    with store.connect(job.layout) as db:
        grid, scenes, table = contents.grid(db), contents.scenes(db), contents.footprints(db)
    check_footprints(table, "align the scenes at")
    if not any(scene.role == "pre" for scene in scenes):
        raise ImageryError(
            "This project has no pre-event scene, so there is nothing to align.",
            "Add one, or cut chips of the post-event scene alone (`--bands post`).",
        )
    scenes = scene_files.require(job.layout, scenes, report=Part(job, 0.0, 0.05).report, is_cancelled=job.is_cancelled)
    windows = chip_windows(table.wkb, grid, buffer=0.0)
    pre_scenes, post_scenes = ([scene for scene in scenes if scene.role == role] for role in ("pre", "post"))
    report = job.part(0.0, 1.0, f"aligning {len(windows)} buildings")
    fills = job.layout.quicklooks / FILLS
    with Mosaic(pre_scenes, grid, fills=fills) as pre, Mosaic(post_scenes, grid, fills=fills) as post:
        shifts = estimate_shifts(pre, post, windows, report=report, is_cancelled=job.is_cancelled)
    east, north = metres_per_px(grid)
    found = Alignment(
        table.building_ids, shifts.dx_px * east, shifts.dy_px * north, shifts.quality, shifts.has_data, shifts.is_mended,
        np.array(shifts.scene_px) * [east, north],
    )  # fmt: skip
    save(job.layout, found, scenes)
    known = found.quality[found.has_data]
    return {
        "dx_m": round(float(found.scene_m[0]), 2),
        "dy_m": round(float(found.scene_m[1]), 2),
        "n": len(windows),
        "n_mended": int(found.is_mended.sum()),
        "n_failed": int(found.is_misaligned.sum()),
        "n_outside": int((~found.has_data).sum()),
        "quality": round(float(np.median(known)), 2) if len(known) else 0.0,
    }


def check_footprints(table: FootprintTable, purpose: str) -> None:
    """Raise FootprintError if there are none; `purpose` is what they are wanted for."""
    if not table.wkb:
        raise FootprintError(
            f"This project has no footprints, so there is nothing to {purpose}.",
            "Add some on the Imagery page, or with `pu-geo add-footprints`.",
        )
