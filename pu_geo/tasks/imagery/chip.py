"""Tile the scene pair into one chip per footprint, and compute the frozen features that ranker and quick presets use."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis import assessability, sensors
from pu_geo.atomic_write import atomic_write
from pu_geo.errors import FootprintError, ImageryError
from pu_geo.features.bank import DEFAULT_MAKER, FEATURE_SEED, MAKERS, N_VIEWS
from pu_geo.geo import chips as geo_chips
from pu_geo.geo.alignment import metres_per_px
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.geo.sheets import write_chip_sheets
from pu_geo.project import alignment, contents, runs, store
from pu_geo.project.layout import Layout, write_json
from pu_geo.records import FootprintTable, Grid, Scene
from pu_geo.services.project.choices import reasons_by_chips
from pu_geo.tasks.imagery.align import align
from pu_geo.tasks.imagery.hidden import hidden_shares, outline_facts
from pu_geo.tasks.job import Job, Part
from pu_geo.training.run import best_device

Bands = Literal["auto", "pre+post", "post"]
MOST_WITHOUT_PRE = 0.02
"""Share of buildings without a pre image up to which "auto" keeps the pre bands; these few are then not assessed."""


def chip(job: Job, *, size_px: int = 64, bands: Bands = "auto") -> dict[str, object]:
    """Cut chips, write their contact sheets, and compute features of 17 augmented views.

    Where the scenes have been aligned, each pre chip is cut from the post chip's place in the pre scenes; they are
    aligned again where scenes or footprints came since.

    Features are made of what every building shows. Where pre scenes leave out more than 2 % of the buildings that the post
    scenes show, "auto" makes them of the post bands alone, for all buildings: a blank pre chip is no evidence, and two rankings
    joined by rank found as much without pre, and less with it (Joplin halves, 5 draws: AP .96 for all by post, .95 joined).
    Chips that are hidden have no part in filters and statistics.

    Args:
        size_px: side of a chip, pixels.
        bands: "pre+post" (6 bands), "post" (3 bands), or "auto".

    Returns:
        {"chip_set", "n", "size_px", "bands", "bands_why": why "auto" left the pre bands out, "n_nodata": chips that no post
        scene covers in full, "n_moved": chips of which pre was moved by at least a pixel, "n_not_assessed": {reason: buildings
        that the imagery hides}, "n_without_pre": buildings that no pre scene shows, or clouds hide before the event,
        "n_sensors": groups of scenes too different for scores to carry over}

    Raises:
        ImageryError: if pre bands are wanted and there is no pre scene.
        FootprintError: if there are no footprints.
    """
    with store.connect(job.layout) as db:
        grid, scenes, table = contents.grid(db), contents.scenes(db), contents.footprints(db)
    is_auto = bands == "auto"
    if is_auto:
        bands = "pre+post" if any(scene.role == "pre" for scene in scenes) else "post"
    _check(table, scenes, bands, size_px)
    shift_px = _pre_shift(job, table, scenes, grid) if bands == "pre+post" else None
    chip_set = _chip_set_id(table, scenes, bands, size_px, shift_px)
    share, outlines = _cut(job, chip_set, table, scenes, grid, bands, size_px, shift_px)
    nodata_share = share[:, -1]
    n_moved = 0 if shift_px is None else int(shift_px.any(axis=1).sum())
    chips = np.load(job.layout.chips(chip_set), mmap_mode="r")
    windows = geo_chips.chip_windows(table.wkb, grid)
    facts: dict[str, Any] = {
        "bands": bands,
        "size_px": size_px,
        "building_ids": list(table.building_ids),
        **hidden_shares(job.layout, windows, scenes, grid, nodata_share, pre_shift_px=shift_px),
        **outline_facts(job.layout, windows, scenes, grid, chips, outlines, pre_shift_px=shift_px),
        "pre_nodata_share": [round(float(value), 4) for value in share[:, 0]] if bands == "pre+post" else None,
        "n_moved": n_moved,
    }
    why = _why_post_alone(facts) if is_auto else ""
    used = _chip_set_id(table, scenes, "post", size_px, None, is_hidden_by_both=True) if why else chip_set
    drawn = job.part(0.15, 0.2, "contact sheets of chips")
    facts["sheets"] = write_chip_sheets(chips, job.layout.sheets(used), report=drawn)  # with pre, where some have it
    if why:
        chips = _without_pre(job, chips, chip_set, used)
        facts |= {"bands": "post", "bands_why": why}
    chip_set = used
    is_visible = assessability.reasons(facts) == ""
    facts |= _groups(chips, facts, is_visible)
    matched = _compute_features(job, chip_set, chips, is_visible, np.asarray(facts["sensor_group"], np.int64))
    facts["matched_groups"] = list(matched)
    write_json(job.layout.chip_facts(chip_set), facts)
    with store.connect(job.layout) as db, store.transaction(db):
        contents.add_chip_set(db, chip_set, facts["bands"], size_px, len(table.building_ids))
        renew_reasons(db, job.layout, chip_set)
    made = {"chip_set": chip_set, "n": len(chips), "size_px": size_px, "bands": facts["bands"], "bands_why": why}
    hidden = {
        "n_not_assessed": assessability.counts(assessability.reasons(facts)),
        "n_without_pre": int((assessability.lacks_pre(facts) & (assessability.hidden_after(facts) == "")).sum()),
        "n_sensors": int(max(facts["sensor_group"], default=0)) + 1,
    }
    return {**made, "n_nodata": int((nodata_share > 0).sum()), "n_moved": n_moved, **hidden}


def _why_post_alone(facts: Mapping[str, Any]) -> str:
    """Return why features are made of the post bands alone, in one sentence; "" where pre scenes show nearly all buildings."""
    if facts["bands"] == "post":
        return ""
    is_shown = assessability.hidden_after(facts) == ""
    n_lacking, n = int((assessability.lacks_pre(facts) & is_shown).sum()), int(is_shown.sum())
    if n_lacking <= MOST_WITHOUT_PRE * n:
        return ""
    return (
        f"The pre-event scenes do not show {n_lacking:,} of {n:,} buildings, so the ranking uses the post-event scenes alone, "
        "for all buildings."
    )


def _without_pre(job: Job, chips: NDArray[np.uint8], chip_set: str, new: str) -> NDArray[np.uint8]:
    """Store the post bands of a chip set [N, 6, H, W] as another one; return its chips, uint8 [N, 3, H, W]."""
    with atomic_write(job.layout.chips(new)) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(len(chips), 3, *chips.shape[2:]))
        out[:] = chips[:, 3:]
        out.flush()
    is_kept = store.call(job.layout, contents.has_chip_set, chip_set)
    if not is_kept:
        job.layout.chips(chip_set).unlink()
    return np.load(job.layout.chips(new), mmap_mode="r")


def _groups(chips: NDArray[np.uint8], facts: Mapping[str, Any], is_visible: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Return the sensor group and the look group of every building, see `analysis.sensors`."""
    roles = ("pre", "post") if assessability.needs_pre(facts) else ("post",)
    shown = {role: facts[f"{role}_scene"] for role in roles}
    return {
        name: sensors.sensor_groups(chips, shown, facts["scenes"], is_visible, bounds).tolist()
        for name, bounds in (("sensor_group", sensors.SENSOR), ("look_group", sensors.APPEARANCE))
    }


def _check(table: FootprintTable, scenes: Sequence[Scene], bands: Bands, size_px: int) -> None:
    if not table.wkb:
        raise FootprintError(
            "This project has no footprints, so there is nothing to cut chips for.",
            "Add some on the Imagery page, or with `pu-geo add-footprints`.",
        )
    if bands == "pre+post" and not any(scene.role == "pre" for scene in scenes):
        raise ImageryError(
            "Chips of pre and post bands were asked for, but this project has no pre-event scene.",
            "Add one, or cut chips of the post-event scene alone (`--bands post`).",
        )
    if not 16 <= size_px <= 256:
        raise ImageryError(f"Chips of {size_px} px were asked for; 16 to 256 px work.", "Choose 64 px if in doubt.")


def _pre_shift(job: Job, table: FootprintTable, scenes: Sequence[Scene], grid: Grid) -> NDArray[np.float64] | None:
    """Return the whole pixels by which each pre chip's content moves, float64 [N, 2]; None if the scenes were never aligned.

    An alignment that scenes or footprints came after is made anew.
    """
    found = alignment.load(job.layout, table.building_ids, scenes)
    if found is None and alignment.path_of(job.layout).is_file():
        align(Part(job, 0.0, 0.05))
        found = alignment.load(job.layout, table.building_ids, scenes)
    if found is None:
        return None
    return np.asarray(np.rint(np.stack([found.dx_m, found.dy_m], axis=1) / metres_per_px(grid)), dtype=np.float64)


def _chip_set_id(
    table: FootprintTable, scenes: Sequence[Scene], bands: Bands, size_px: int, shift_px: NDArray[np.float64] | None, *,
    is_hidden_by_both: bool = False,
) -> str:  # fmt: skip
    """Name a chip set after what it is made from, so that the same input gives the same name.

    Args:
        is_hidden_by_both: of post bands, whose hidden shares were found by comparing both dates.
    """
    digest = hashlib.sha256()
    for text in [*table.building_ids, *(scene.sha256 for scene in scenes)]:
        digest.update(text.encode())
    for wkb in table.wkb:
        digest.update(wkb)
    if is_hidden_by_both:
        digest.update(b"seen with pre")
    if shift_px is not None and shift_px.any():
        digest.update(shift_px.astype("<i4").tobytes())
    return f"{bands.replace('+', '')}-{size_px}-{digest.hexdigest()[:8]}"


def _cut(
    job: Job,
    chip_set: str,
    table: FootprintTable,
    scenes: Sequence[Scene],
    grid: Grid,
    bands: Bands,
    size_px: int,
    shift_px: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float32], geo_chips.Outlines]:
    windows = geo_chips.chip_windows(table.wkb, grid)
    shape = (len(table.wkb), 6 if bands == "pre+post" else 3, size_px, size_px)
    report = job.part(0.0, 0.15, f"cutting {shape[0]} chips")
    fills = job.layout.quicklooks / FILLS
    pre_scenes = [scene for scene in scenes if scene.role == "pre"] if bands == "pre+post" else []
    outlines = geo_chips.Outlines.of(table.wkb, grid, 2 if pre_scenes else 1)
    post_scenes = [scene for scene in scenes if scene.role == "post"]
    with atomic_write(job.layout.chips(chip_set)) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        with (
            Mosaic(post_scenes, grid, fills=fills, decode_threads=1) as post,
            Mosaic(pre_scenes, grid, fills=fills, decode_threads=1) if pre_scenes else nullcontext() as pre,
        ):
            share = geo_chips.cut_chips(
                pre, post, windows, size_px, out,
                pre_shift_px=shift_px, outlines=outlines, report=report, is_cancelled=job.is_cancelled,
            )  # fmt: skip
        out.flush()
    return share, outlines


def _compute_features(
    job: Job, chip_set: str, chips: NDArray[np.uint8], is_visible: NDArray[np.bool_], group: NDArray[np.int64]
) -> tuple[int, ...]:
    """Compute and store the features of all chips; return the sensor groups that were matched to the largest one.

    Args:
        is_visible: bool [N]; filters and statistics come from these alone (from all, where nothing is visible).
        group: int64 [N], sensor group of each building.
    """
    generator = torch.Generator().manual_seed(FEATURE_SEED)
    rows = np.flatnonzero(is_visible) if is_visible.any() else np.arange(len(chips))
    bank = MAKERS[DEFAULT_MAKER].fit(chips, generator, rows=rows)
    with atomic_write(job.layout.filters(chip_set)) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **bank.state())
    with atomic_write(job.layout.features(chip_set)) as temporary:
        shape = (N_VIEWS, len(chips), bank.n_features)
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float16, shape=shape)
        report = job.part(0.2, 1.0, f"features of {len(chips)} chips in {N_VIEWS} views")
        bank.transform(
            chips, N_VIEWS, seed=FEATURE_SEED, device=best_device(), out=out, report=report, is_cancelled=job.is_cancelled
        )
        matched = sensors.match_groups(out, group, is_visible)
        out.flush()
    return matched


def renew_reasons(db: sqlite3.Connection, layout: Layout, chip_set: str) -> None:
    """Store anew why buildings are not assessed, for runs made of chips that were cut again: more may be known of them now."""
    for run in runs.all_runs(db):
        if run.chip_set == chip_set and runs.reasons(db, run.run_id) is not None:
            runs.put_reasons(db, run.run_id, reasons_by_chips(layout, run) or {})
