"""Measure how far pre lies from post at every building, so that chips can be cut from the same place in both."""

from __future__ import annotations

import numpy as np

from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo.alignment import estimate_shifts
from pu_geo.geo.chips import chip_windows
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.geo.vector.sites import sites_under
from pu_geo.records import FootprintTable
from pu_geo.scenes import scene_files
from pu_geo.store import contents, store
from pu_geo.store.alignment import Alignment, save
from pu_geo.store.job import Job, Part


def align(job: Job) -> dict[str, object]:
    """Estimate the shifts and store them; chips cut from now on are moved by them.

    Returns:
        {"shifts": of the scene pair, {name of the site: [metres to the east and north that pre must move]}; "n";
        "n_mended": settled by neighbors; "n_failed": could not be aligned, though both dates show them; "n_outside": one
        date does not show them; "quality": median over those that both dates show, 0..1}

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
    n, of = len(windows), grid.site_of_windows(windows)
    found = Alignment(
        table.building_ids, np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n, np.bool_), np.zeros(n, np.bool_),
        np.zeros((len(grid.parts), 2)), [one.name for one in grid.parts],
    )  # fmt: skip
    fills, done = job.layout.quicklooks / FILLS, 0
    for k, site in enumerate(grid.parts):  # each has shifts of its own
        rows = np.flatnonzero(of == k)
        report = job.part(done / n, (done + len(rows)) / n, f"aligning {len(rows)} buildings")
        done += len(rows)
        own = site.alone
        found.has_data[rows] = not grid.sites or any(own in sites_under(scene, grid) for scene in pre_scenes)
        if not found.has_data[rows].any():
            continue
        within = (0, 0, own.width, own.height) if grid.sites else None
        with (
            Mosaic(pre_scenes, own, fills=fills, within=within) as pre,
            Mosaic(post_scenes, own, fills=fills, within=within) as post,
        ):
            shifts = estimate_shifts(
                pre, post, windows[rows] - [0, site.row, 0, 0], report=report, is_cancelled=job.is_cancelled
            )  # fmt: skip
        east, north = own.m_per_px[0]
        found.dx_m[rows], found.dy_m[rows] = shifts.dx_px * east, shifts.dy_px * north
        found.quality[rows], found.has_data[rows], found.is_mended[rows] = shifts.quality, shifts.has_data, shifts.is_mended
        found.scene_m[k] = np.array(shifts.scene_px) * [east, north]
    save(job.layout, found, scenes)
    known = found.quality[found.has_data]
    return {
        "shifts": dict(zip(found.sites, found.scene_m.round(2).tolist(), strict=True)),
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
