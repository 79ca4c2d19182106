"""Everything between imagery and the first click: one chip per footprint, how much of it is hidden, and frozen features.

A building and its chip's window are hidden by the scenes' borders, missing data, clouds. The features are those that ranker
and quick presets use.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, sensors
from pu_geo.errors import ImageryError
from pu_geo.features.bank import N_VIEWS, fit_default
from pu_geo.files import atomic_write, remove_path
from pu_geo.geo.chips import Outlines, chip_windows, cut_chips
from pu_geo.geo.raster.mosaic import FILLS, Mosaic
from pu_geo.records import FootprintTable, Grid, Layer, Scene, View, scene_fingerprint
from pu_geo.scale import chips as chips_on_cluster
from pu_geo.scale import cluster as clusters
from pu_geo.scale import shards
from pu_geo.scenes import outlines as map_outlines
from pu_geo.scenes import scene_files
from pu_geo.scenes.align_job import align as align_dates
from pu_geo.scenes.align_job import check_footprints
from pu_geo.scenes.features_job import transform
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.scenes.hidden_job import hidden_facts, rounded
from pu_geo.scenes.layers import n_missing
from pu_geo.scenes.layers_job import add_layer
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import alignment, contents, feature_sets, freshness, runs, store
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import RCF, Layout, new_array, write_facts

Bands = Literal["auto", "pre+post", "post"]
MOST_WITHOUT_PRE = 0.02
"""Share of buildings without a pre image up to which "auto" keeps the pre bands; these few are then not assessed."""


def chip(
    job: Job, *, size_px: int = 64, bands: Bands = "auto", align: bool = False, views: int = N_VIEWS, cluster: str = ""
) -> dict[str, object]:  # fmt: skip
    """Cut chips and compute features of augmented views, 17 where nobody asks for fewer.

    Bands of layers follow those of pre and post; a building that a layer does not show is marked as missing there, see
    `contents.is_missing`. Layers are co-registered with post by definition, so they are cut where post is, those dated
    before the event too. Everything else here, hidden shares, groups and features "rcf", is of pre and post alone.

    Where the scenes have been aligned, each pre chip is cut from the post chip's place in the pre scenes; they are
    aligned again where scenes or footprints came since.

    Features are made of what every building shows. Where pre scenes leave out more than 2 % of the buildings that the post
    scenes show, "auto" makes them of the post bands alone, for all buildings: a blank pre chip is no evidence, and two
    rankings joined by rank found as much without pre, and less with it (figures are in docs/methods.md, Missing pre). Chips
    that are hidden have no part in filters and statistics.

    Args:
        size_px: side of a chip, pixels.
        bands: "pre+post" (6 bands), "post" (3 bands), or "auto".
        align: first align pre and post, where the chips show both.
        views: of each chip, that features are computed of; rankings need one, NcPU and PUCL more.
        cluster: of Dask, which cuts chips and computes features, see `scale.cluster.FORMS`; "" for this process alone.

    Returns:
        {"chip_set", "n", "size_px", "bands", "bands_why": why "auto" left the pre bands out, "n_nodata": chips that no post
        scene covers in full, "n_moved": chips of which pre was moved by at least a pixel, "n_not_assessed": {reason:
        buildings that the imagery hides}, "n_without_pre": buildings that no pre scene shows, or clouds hide before the
        event, "n_missing": {layer: buildings without it}, "n_sensors": groups of scenes too different for scores to carry
        over, "features_note": that the chosen features have to be made again, "" where they are "rcf" or there}

    Raises:
        ImageryError: for other bands, if pre bands are wanted and there is no pre scene, or if the file of a scene that is
            needed is missing or changed.
        FootprintError: if there are no footprints.
    """
    if bands not in get_args(Bands):
        raise ImageryError(f"Bands are {bands!r}; these are possible: {', '.join(get_args(Bands))}.", "Name one of them.")
    with clusters.of_job(cluster, job.folder, job.echo) as on:
        return _chip(job, size_px, bands, align, views, on)


def _chip(
    job: Job, size_px: int, bands: Bands, is_aligned_first: bool, views: int, cluster: clusters.JobCluster | None
) -> dict[str, object]:  # fmt: skip
    """Do what `chip` does, in this process or on the cluster of the job."""
    with store.connect(job.layout) as db:
        grid, scenes, table, layers = contents.grid(db), contents.scenes(db), contents.footprints(db), contents.layers(db)
    is_auto = bands == "auto"
    if is_auto:
        bands = "pre+post" if any(scene.role == "pre" for scene in scenes) else "post"
    _check(table, scenes, bands, size_px)
    needed = [scene for scene in scenes if scene.role == "post" or bands == "pre+post"]
    needed += [scene for layer in layers for scene in layer.scenes]
    scene_files.require(job.layout, needed, report=Part(job, 0.0, 0.02).report, is_cancelled=job.is_cancelled)
    scenes, layers = store.call(job.layout, contents.scenes), store.call(job.layout, contents.layers)
    windows = chip_windows(table.wkb, grid)
    shift_px = _pre_shift(job, table, scenes, grid, windows, is_aligned_first) if bands == "pre+post" else None
    files, n_dates = [*scenes, *(scene for layer in layers for scene in layer.scenes)], 2 if bands == "pre+post" else 1
    chip_set = _chip_set_id(table, files, grid, bands, size_px, shift_px)
    outlines = Outlines.of(table.wkb, grid, n_dates + len(layers))
    share = _cut(job, chip_set, windows, outlines, scenes, layers, grid, size_px, shift_px, cluster)
    nodata_share = share[:, n_dates - 1]
    n_moved = 0 if shift_px is None else int(shift_px.any(axis=1).sum())
    facts: dict[str, Any] = {"bands": bands, **_views(layers, bands, outlines.missing[:, n_dates:])}
    chips = contents.optical(np.load(job.layout.chips(chip_set), mmap_mode="r"), facts)
    facts |= {
        "size_px": size_px,
        "building_ids": list(table.building_ids),
        **hidden_facts(job.layout, windows, scenes, grid, chips, nodata_share, outlines, shift_px),
        "n_moved": n_moved,
    }
    why = _why_post_alone(facts) if is_auto else ""
    used = _chip_set_id(table, files, grid, "post", size_px, None, is_hidden_by_both=True) if why else chip_set
    if why:
        every = _without_pre(job, chip_set, used)
        facts |= {"bands": "post", "bands_why": why, **_views(layers, "post", outlines.missing[:, n_dates:])}
        chips = contents.optical(every, facts)
    chip_set = used
    is_visible = assessability.reasons(facts) == ""
    facts |= _groups(chips, facts, is_visible)
    group = np.asarray(facts["sensor_group"], np.int64)
    matched = _compute_features(job, chip_set, chips, is_visible, group, views, cluster)
    facts["matched_groups"] = list(matched)
    shown = {scene.scene_id for scene in files if scene.role != "pre" or facts["bands"] == "pre+post"}
    facts["made_from"] = store.call(job.layout, freshness.made_from, job.layout, shown, table.building_ids)
    finished = [job.layout.chips(chip_set), job.layout.features(chip_set), job.layout.filters(chip_set)]
    write_facts(job.layout.chip_facts(chip_set), facts, [path for path in finished if path.is_file()])
    with store.connect(job.layout) as db, store.transaction(db):
        contents.add_chip_set(db, chip_set, facts["bands"], size_px, len(table.building_ids))
        renew_reasons(db, job.layout, chip_set)
    map_outlines.first_part(job.layout)  # else the first who opens the map would wait for them
    shards.remove(job.folder)
    used_set = store.call(job.layout, feature_sets.in_use, job.layout, chip_set)
    feature_sets.look_next(job, chip_set, used_set.name)
    made = {"chip_set": chip_set, "n": len(chips), "size_px": size_px, "bands": facts["bands"], "bands_why": why}
    hidden = {
        "n_not_assessed": assessability.counts(assessability.reasons(facts)),
        "n_without_pre": int((assessability.lacks_pre(facts) & (assessability.hidden_after(facts) == "")).sum()),
        "n_missing": n_missing(facts),
        "n_sensors": int(max(facts["sensor_group"], default=0)) + 1,
        "features_note": used_set.note,
    }
    return {**made, "n_nodata": int((nodata_share > 0).sum()), "n_moved": n_moved, **hidden}


def _why_post_alone(facts: Mapping[str, Any]) -> str:
    """Return why features are made of the post bands alone, in one sentence; "" where pre scenes show nearly all
    buildings.
    """
    if facts["bands"] == "post":
        return ""
    is_shown = assessability.hidden_after(facts) == ""
    n_lacking, n = int((assessability.lacks_pre(facts) & is_shown).sum()), int(is_shown.sum())
    if n_lacking <= MOST_WITHOUT_PRE * n:
        return ""
    return (
        f"The pre-event scenes do not show {n_lacking:,} of {n:,} buildings, so the ranking uses the post-event scenes "
        "alone, for all buildings."
    )


_OF_FILE = ("scene_id", "sha256", "date", "gsd_m", "nodata")  # what facts say of each file of a layer


def _views(layers: Sequence[Layer], bands: str, missing: NDArray[np.float32]) -> dict[str, object]:
    """Return what a chip set's facts say of its layers: "views", "view_missing" and "scaling"; nothing without layers.

    Args:
        missing: float32 [N, L], share of each outline that a layer does not show.
    """
    if not layers:
        return {}
    views = list(contents.views_of({"bands": bands}))
    for layer in layers:
        start = views[-1].stop
        views.append(View(layer.name, layer.when, start, start + layer.bands))
    scaling = {
        layer.name: {
            "bands": [[*pair] for pair in layer.scaling], "unit": layer.unit, "kind": layer.kind,
            "dtype": layer.scenes[0].dtype, "nodata": layer.nodata,
            "files": [{name: getattr(scene, name) for name in _OF_FILE} for scene in layer.scenes],
        }
        for layer in layers
    }  # fmt: skip
    shares = {layer.name: rounded(missing[:, k]) for k, layer in enumerate(layers)}
    return {"views": [asdict(view) for view in views], "view_missing": shares, "scaling": scaling}


def _without_pre(job: Job, chip_set: str, new: str) -> NDArray[np.uint8]:
    """Store the bands of a chip set [N, B, H, W] but those of pre as another one; return its chips, uint8 [N, B - 3, H,
    W].
    """
    chips = np.load(job.layout.chips(chip_set), mmap_mode="r")
    with new_array(job.layout.chips(new), np.uint8, (len(chips), chips.shape[1] - 3, *chips.shape[2:])) as out:
        out[:] = chips[:, 3:]
    is_kept = store.call(job.layout, contents.has_chip_set, chip_set)
    if not is_kept:
        remove_path(job.layout.chips(chip_set))
    kept: NDArray[np.uint8] = np.load(job.layout.chips(new), mmap_mode="r")
    return kept


def _groups(chips: NDArray[np.uint8], facts: Mapping[str, Any], is_visible: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Return the sensor group and the look group of every building, see `analysis.sensors`."""
    roles = ("pre", "post") if assessability.needs_pre(facts) else ("post",)
    shown = {role: facts[f"{role}_scene"] for role in roles}
    return {
        name: sensors.sensor_groups(chips, shown, facts["scenes"], is_visible, bounds).tolist()
        for name, bounds in (("sensor_group", sensors.SENSOR), ("look_group", sensors.APPEARANCE))
    }


def _check(table: FootprintTable, scenes: Sequence[Scene], bands: Bands, size_px: int) -> None:
    check_footprints(table, "cut chips for")
    if bands == "pre+post" and not any(scene.role == "pre" for scene in scenes):
        raise ImageryError(
            "Chips of pre and post bands were asked for, but this project has no pre-event scene.",
            "Add one, or cut chips of the post-event scene alone (`--bands post`).",
        )
    if not 16 <= size_px <= 256:
        raise ImageryError(f"Chips of {size_px} px were asked for; 16 to 256 px work.", "Choose 64 px if in doubt.")


def _pre_shift(
    job: Job, table: FootprintTable, scenes: Sequence[Scene], grid: Grid, windows: NDArray[np.float64], is_wanted: bool
) -> NDArray[np.float64] | None:  # fmt: skip
    """Return the whole pixels by which each pre chip's content moves, float64 [N, 2]; None if the scenes were never aligned.

    They are aligned now where that is wanted. An alignment that scenes or footprints came after is made anew.
    """
    found = alignment.load(job.layout, table.building_ids, scenes)
    if is_wanted or (found is None and alignment.path_of(job.layout).is_file()):
        align_dates(Part(job, 0.0, 0.15))
        found = alignment.load(job.layout, table.building_ids, scenes)
    if found is None:
        return None
    m_per_px = grid.m_per_px[grid.site_of_windows(windows)]
    return np.asarray(np.rint(np.stack([found.dx_m, found.dy_m], axis=1) / m_per_px), dtype=np.float64)


def _chip_set_id(
    table: FootprintTable, scenes: Sequence[Scene], grid: Grid, bands: Bands, size_px: int,
    shift_px: NDArray[np.float64] | None, *, is_hidden_by_both: bool = False,
) -> str:  # fmt: skip
    """Name a chip set after what it is made from, so that the same input gives the same name.

    Args:
        scenes: those of layers, too.
        is_hidden_by_both: of post bands, whose hidden shares were found by comparing both dates.
    """
    digest = hashlib.sha256()
    for text in [*table.building_ids, *map(scene_fingerprint, scenes), json.dumps(contents.lattice(grid))]:
        digest.update(text.encode())
    for wkb in table.wkb:
        digest.update(wkb)
    if is_hidden_by_both:
        digest.update(b"seen with pre")
    if shift_px is not None and shift_px.any():
        digest.update(shift_px.astype("<i4").tobytes())
    return f"{bands.replace('+', '')}-{size_px}-{digest.hexdigest()[:8]}"


def _cut(
    job: Job, chip_set: str, windows: NDArray[np.float64], outlines: Outlines, scenes: Sequence[Scene],
    layers: Sequence[Layer], grid: Grid, size_px: int, shift_px: NDArray[np.float64] | None,
    cluster: clusters.JobCluster | None,
) -> NDArray[np.float32]:  # fmt: skip
    """Cut and store the chips, of pre too where outlines are judged on both dates; return what `cut_chips` does."""
    n, n_dates = len(outlines.shapes), outlines.missing.shape[1] - len(layers)
    n_bands = 3 * n_dates + sum(layer.bands for layer in layers)
    report = job.part(0.0, 0.15, f"cutting {n} chips")
    pre_scenes, post_scenes = ([scene for scene in scenes if scene.role == role] for role in ("pre", "post"))
    if cluster:
        mosaics: dict[str, list[Sequence[Scene]]] = {
            "pre": [pre_scenes] if n_dates == 2 else [],
            "post": [post_scenes],
            "layers": [one.scenes for one in layers],
        }
        with new_array(job.layout.chips(chip_set), np.uint8, (n, n_bands, size_px, size_px)) as out:
            return chips_on_cluster.cut(
                windows, outlines, mosaics, grid, shift_px, out, quicklooks=job.layout.quicklooks, cluster=cluster,
                report=report, is_cancelled=job.is_cancelled,
            )  # fmt: skip
    fills = job.layout.quicklooks / FILLS
    with (
        new_array(job.layout.chips(chip_set), np.uint8, (n, n_bands, size_px, size_px)) as out,
        Mosaic(post_scenes, grid, fills=fills, decode_threads=1) as post,
        Mosaic(pre_scenes, grid, fills=fills, decode_threads=1) if n_dates == 2 else nullcontext() as pre,
        ExitStack() as stack,
    ):
        opened = [stack.enter_context(Mosaic(layer.scenes, grid, decode_threads=1)) for layer in layers]
        return cut_chips(
            pre, post, windows, size_px, out, layers=opened,
            pre_shift_px=shift_px, outlines=outlines, report=report, is_cancelled=job.is_cancelled,
        )  # fmt: skip


def _compute_features(
    job: Job, chip_set: str, chips: NDArray[np.uint8], is_visible: NDArray[np.bool_], group: NDArray[np.int64], n_views: int,
    cluster: clusters.JobCluster | None,
) -> tuple[int, ...]:  # fmt: skip
    """Compute and store the features of all chips; return the sensor groups that were matched to the largest one.

    Args:
        is_visible: bool [N]; filters and statistics come from these alone (from all, where nothing is visible).
        group: int64 [N], sensor group of each building.
    """
    rows = np.flatnonzero(is_visible) if is_visible.any() else np.arange(len(chips))
    bank = fit_default(chips, rows)
    feature_sets.write_maker(job.layout, chip_set, RCF, bank.state())
    with feature_sets.new_views(job.layout, chip_set, RCF, (n_views, len(chips), bank.n_features)) as out:
        words = f"features of {len(chips)} chips"
        transform(job, bank, job.layout.chips(chip_set), chips, out, words, (0.2, 1.0), cluster=cluster)
        return sensors.match_groups(out, group, is_visible)


def renew_reasons(db: sqlite3.Connection, layout: Layout, chip_set: str) -> None:
    """Store anew why buildings are not assessed, for runs made of chips that were cut again: more may be known of them
    now.
    """
    for run in runs.all_runs(db):
        if run.chip_set == chip_set and runs.reasons(db, run.run_id) is not None:
            runs.put_reasons(db, run.run_id, runs.reasons_by_chips(layout, run) or {})


def prepare(
    job: Job, *, pre: Sequence[str], post: Sequence[str], footprints: Sequence[str],
    layers: Sequence[Mapping[str, Any]] = (), bands: Bands = "auto", size_px: int = 64, copy_sources: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Add scenes, layers and footprints, align pre with post, then cut chips and compute features.

    Args:
        layers: what `add_layer` takes of each: {"name", "paths", "when", "kind"}.
        copy_sources: first copy the scenes into the project folder (used for the sample event, which may move).

    Returns:
        what the parts returned: {"scenes", "layers", "footprints", "chips"}
    """
    if copy_sources:
        pre, post = ([_copied(job, path) for path in paths] for paths in (pre, post))
        layers = [{**layer, "paths": [_copied(job, path) for path in layer["paths"]]} for layer in layers]
    scenes = add_scenes(Part(job, 0.0, 0.12 if layers else 0.15), pre=pre, post=post)
    named = [add_layer(Part(job, 0.12, 0.15), **layer) for layer in layers]
    added = add_footprints(Part(job, 0.15, 0.2), paths=footprints)
    chips = chip(Part(job, 0.2, 1.0), size_px=size_px, bands=bands, align=True)
    return {"scenes": scenes, "layers": named, "footprints": added, "chips": chips}


def _copied(job: Job, path: str) -> str:
    source = Path(path)
    target = job.layout.path("sources") / source.name
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
    return str(target)
