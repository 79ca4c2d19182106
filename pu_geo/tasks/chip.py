"""Tile the scene pair into one chip per footprint, and compute the frozen features that ranker and quick presets use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.engine import features
from pu_geo.engine.run import best_device
from pu_geo.errors import FootprintError, ImageryError
from pu_geo.geo import chips as geo_chips
from pu_geo.geo.alignment import metres_per_px
from pu_geo.geo.raster import Mosaic
from pu_geo.geo.sheets import write_chip_sheets
from pu_geo.project import alignment, contents, runs, store
from pu_geo.project.layout import Layout, replacing, write_json
from pu_geo.records import ChipSet, FootprintTable, Grid, Scene
from pu_geo.tasks.align import align
from pu_geo.tasks.hidden import hidden_shares
from pu_geo.tasks.job import Job, Part

FEATURE_SEED = 0
Bands = Literal["pre+post", "post"]


def chip(job: Job, *, size_px: int = 64, bands: Bands = "pre+post") -> dict[str, object]:
    """Cut chips, write their contact sheets, and compute features of 17 augmented views.

    Where the scenes have been aligned, each pre chip is cut from where the post chip's place lies in the pre scenes; they are
    aligned again where scenes or footprints came since.

    Args:
        size_px: side of a chip, pixels.
        bands: "pre+post" (6 bands) or "post" (3 bands).

    Returns:
        {"chip_set", "n", "size_px", "bands", "n_nodata": chips that no post scene covers in full,
        "n_moved": chips of which pre was moved by at least a pixel, "n_not_assessed": {reason: buildings that the imagery
        hides}, "n_pre_cloud": buildings that clouds hide before the event}

    Raises:
        ImageryError: if pre bands are wanted and there is no pre scene.
        FootprintError: if there are no footprints.
    """
    with store.connect(job.layout) as db:
        grid, scenes, table = contents.grid(db), contents.scenes(db), contents.footprints(db)
    _check(table, scenes, bands, size_px)
    shift_px = _pre_shift(job, table, scenes, grid) if bands == "pre+post" else None
    chip_set = _chip_set_id(table, scenes, bands, size_px, shift_px)
    share = _cut(job, chip_set, table, scenes, grid, bands, size_px, shift_px)
    nodata_share = share[:, -1]
    n_moved = 0 if shift_px is None else int(shift_px.any(axis=1).sum())
    chips = np.load(job.layout.chips(chip_set), mmap_mode="r")
    sheets = write_chip_sheets(chips, job.layout.sheets(chip_set), report=job.part(0.15, 0.2, "contact sheets of chips"))
    _compute_features(job, chip_set, chips)
    facts: dict[str, Any] = {
        "bands": bands,
        "size_px": size_px,
        "building_ids": list(table.building_ids),
        **hidden_shares(
            job.layout, geo_chips.chip_windows(table.wkb, grid), scenes, grid, nodata_share, pre_shift_px=shift_px
        ),
        "pre_nodata_share": [round(float(value), 4) for value in share[:, 0]] if bands == "pre+post" else None,
        "n_moved": n_moved,
        "sheets": sheets,
    }
    write_json(job.layout.chip_facts(chip_set), facts)
    with store.connect(job.layout) as db, store.transaction(db):
        contents.add_chip_set(db, chip_set, bands, size_px, len(table.building_ids))
        newly = why_not_assessed(job.layout, chip_set)
        for run in runs.all_runs(db):  # made of the same chips before: what is hidden may be known better now
            known = runs.reasons(db, run.run_id) if run.chip_set == chip_set else None
            if known is not None:
                others = {building: why for building, why in known.items() if why not in assessability.KINDS}
                runs.put_reasons(db, run.run_id, others | newly)
    n_nodata = int((nodata_share > 0).sum())
    made = {"chip_set": chip_set, "n": len(chips), "size_px": size_px, "bands": bands}
    hidden = {
        "n_not_assessed": assessability.counts(assessability.reasons(facts)),
        "n_pre_cloud": int((np.asarray(facts.get("pre_cloud_share", ())) > assessability.MOST_HIDDEN).sum()),
    }
    return {**made, "n_nodata": n_nodata, "n_moved": n_moved, **hidden}


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
    """Return the whole pixels by which each pre chip's content moves, float64 [N, 2]; None if nobody had the scenes aligned.

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
    table: FootprintTable, scenes: Sequence[Scene], bands: Bands, size_px: int, shift_px: NDArray[np.float64] | None
) -> str:
    """Name a chip set after what it is made from, so that the same input gives the same name."""
    digest = hashlib.sha256()
    for text in [*table.building_ids, *(scene.sha256 for scene in scenes)]:
        digest.update(text.encode())
    for wkb in table.wkb:
        digest.update(wkb)
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
) -> NDArray[np.float32]:
    windows = geo_chips.chip_windows(table.wkb, grid)
    shape = (len(table.wkb), 6 if bands == "pre+post" else 3, size_px, size_px)
    report = job.part(0.0, 0.15, f"cutting {shape[0]} chips")
    pre_scenes = [scene for scene in scenes if scene.role == "pre"] if bands == "pre+post" else []
    with replacing(job.layout.chips(chip_set)) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        with Mosaic([scene for scene in scenes if scene.role == "post"], grid, decode_threads=1) as post:
            if pre_scenes:
                with Mosaic(pre_scenes, grid, decode_threads=1) as pre:
                    share = geo_chips.cut_chips(
                        pre, post, windows, size_px, out,
                        pre_shift_px=shift_px, report=report, is_cancelled=job.is_cancelled,
                    )  # fmt: skip
            else:
                share = geo_chips.cut_chips(None, post, windows, size_px, out, report=report, is_cancelled=job.is_cancelled)
        out.flush()
    return share


def _compute_features(job: Job, chip_set: str, chips: NDArray[np.uint8]) -> None:
    settings = features.RcfSettings()
    n_views = settings.n_views
    generator = torch.Generator().manual_seed(FEATURE_SEED)
    bank = features.fit_rcf(chips, settings.n_filters, generator)
    with replacing(job.layout.filters(chip_set)) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **bank.to_arrays())
    with replacing(job.layout.features(chip_set)) as temporary:
        shape = (n_views, len(chips), bank.n_features)
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float16, shape=shape)
        features.extract_views(
            chips,
            bank,
            n_views,
            seed=FEATURE_SEED,
            device=best_device(),
            out=out,
            report=job.part(0.2, 1.0, f"features of {len(chips)} chips in {n_views} views"),
            is_cancelled=job.is_cancelled,
        )
        out.flush()


def load_chip_set(layout: Layout, chip_set: str) -> ChipSet:
    """Return the facts of a chip set."""
    facts = json.loads(layout.chip_facts(chip_set).read_text(encoding="utf-8"))
    share = np.array(facts["nodata_share"], dtype=np.float32)
    return ChipSet(chip_set, facts["bands"], facts["size_px"], facts["building_ids"], share)


def why_not_assessed(layout: Layout, chip_set: str) -> dict[str, str]:
    """Return building id -> why the imagery keeps a chip set's building from being assessed, for those it keeps from it."""
    return assessability.by_building(load_chip_set(layout, chip_set).building_ids, reasons_of(layout, chip_set))


def reasons_of(layout: Layout, chip_set: str) -> NDArray[np.str_]:
    """Return why each building of a chip set cannot be assessed, see `assessability.reasons`."""
    return assessability.reasons(json.loads(layout.chip_facts(chip_set).read_text(encoding="utf-8")))
