"""Remove or replace scenes and footprints: the map is drawn anew first, then all changes at once; see `store.removals`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from pu_geo.errors import FootprintError, ImageryError, ProjectError
from pu_geo.geo import local_space
from pu_geo.geo.raster import reading
from pu_geo.geo.readers import in_child
from pu_geo.geo.vector.aoi import limited
from pu_geo.geo.vector.crs import is_local
from pu_geo.geo.vector.matching import Match, match, shift_between
from pu_geo.lifecycle import removing
from pu_geo.records import FootprintTable, Grid, Scene, reads_alike
from pu_geo.scenes import layers as services
from pu_geo.scenes import layers_job, scene_files
from pu_geo.scenes.footprints_job import GRID, with_former_ids
from pu_geo.scenes.scenes_job import drawn, new_grid, rgb_of, with_ids
from pu_geo.store import aoi, contents, import_log, runs, store
from pu_geo.store.job import Job, Part
from pu_geo.wording import listed, plural, short_crs


def remove_scene(job: Job, *, name: str, analyst: str) -> dict[str, object]:
    """Remove a scene and draw the map of those that are left; its file stays where it is, unless it was copied into the
    project.

    Returns:
        {"removal": its number, "title", "plan"}

    Raises:
        ProjectError: if it cannot be removed, see `removing.plan`.
    """
    found = removing.plan(job.layout, "scene", name)
    scenes = _checked_scenes(job, but=found.name)
    return _exchange_scenes(job, found, scenes, [scene for scene in scenes if scene.scene_id != found.name], [], analyst)


def replace_scene(
    job: Job, *, name: str, path: str, analyst: str, bands: Sequence[int] | None = None, crs: str | None = None
) -> dict[str, object]:  # fmt: skip
    """Put another file in the place of a scene, of its date; the rest is as in `remove_scene` and `add_scenes`.

    What the file does not say, and nobody does, is as in the scene that was here: which bands are shown, its coordinate
    system.

    Returns:
        as `remove_scene`, and "notes".

    Raises:
        ImageryError: if the file cannot be used, or it is one that is here, read as it is.
    """
    found = removing.plan(job.layout, "scene", name, [path])
    scenes = _checked_scenes(job, but=found.name)
    old = next(scene for scene in scenes if scene.scene_id == found.name)
    rgb = rgb_of(bands)
    is_as_wide = is_local(old.crs)
    pixel_m = old.transform[0] if is_as_wide else None
    job.report(0.0, f"checking {path}")
    described, is_as_before = _as_before(
        lambda crs: next(in_child.describe_each([path], bands=rgb, crs=crs, pixel_m=pixel_m)), [path], crs, old
    )
    described = reading.with_crs(described, old) if is_as_before else described
    new = replace(described, role=old.role, date=described.date or old.date)
    if is_as_wide:
        side = old.width * old.transform[0] / new.width
        new = replace(new, transform=(side, 0.0, 0.0, 0.0, -side, 0.0), gsd_m=side)
    new = reading.with_bands([new], [old, *(scene for scene in scenes if scene is not old)])[0]
    (new,) = with_ids([new], store.call(job.layout, contents.all_scenes), job.layout)
    twins = [scene for scene in scenes if (scene.role, scene.sha256) == (new.role, new.sha256)]
    if same := [scene.scene_id for scene in twins if scene is not old or reads_alike(new, old)]:
        raise ImageryError(
            f"{path} has the same content as {same[0]}, which is here already.", "Name another file.", kind="dup"
        )
    (new,) = local_space.laid_over([scene for scene in scenes if scene is not old], [new])
    left = [new if scene is old else scene for scene in scenes]
    return _exchange_scenes(job, found, scenes, left, [new], analyst)


def replace_layer(
    job: Job, *, name: str, paths: Sequence[str], analyst: str, nodata: float | None = None, crs: str | None = None
) -> dict[str, object]:  # fmt: skip
    """Put other files in the place of those of a layer, of its date and kind, with a scaling of their own; see `add_layer`.

    Returns:
        as `remove_scene`, and what `layers.as_result` does.

    Raises:
        ProjectError: if there is no such layer.
        ImageryError: if a file cannot be used, or all of them are those that are here.
    """
    found, old = removing.plan(job.layout, "layer", name, paths), services.find(job.layout, name)

    def described(crs: str | None) -> layers_job.Described:
        return layers_job.describe(job, name, paths, None, when=old.when, kind=old.kind, nodata=nodata, crs=crs, former=old)

    made, is_as_before = _as_before(described, paths, crs, old.scenes[0])
    n_alike = sum(any(reads_alike(new, scene) for scene in old.scenes) for new in made.new)
    if n_alike == len(made.new) == len(old.scenes):
        raise ImageryError(f"The layer {name} has these files already.", "Name other files.", kind="dup")
    found = replace(found, change=lambda db: contents.exchange_layer(db, old.scenes, made.new))
    done = _done(job, found, analyst, {found.files[0]: made.tiles})
    crs_words = f"Files that name no coordinate system are taken to be in {short_crs(old.scenes[0].crs)}, as before."
    more = [crs_words] * is_as_before
    return {**layers_job.as_result(made), **done, "notes": [*more, *made.notes]}


def _checked_scenes(job: Job, *, but: str) -> list[Scene]:
    """Return all scenes, once the files of those but one were checked: the map is drawn from them. Raises as `require`
    does.
    """
    others = [scene for scene in store.call(job.layout, contents.all_scenes) if scene.scene_id != but]
    scene_files.require(job.layout, others, report=Part(job, 0.0, 0.02).report, is_cancelled=job.is_cancelled)
    return store.call(job.layout, contents.scenes)


def _exchange_scenes(
    job: Job, found: removing.Plan, scenes: Sequence[Scene], left: Sequence[Scene], new: Sequence[Scene], analyst: str
) -> dict[str, object]:
    post = [scene for scene in left if scene.role == "post"]
    pre_share, notes = None, list[str]()
    former = store.call(job.layout, contents.any_grid)
    grid = new_grid(job.layout, post, former) if post else None
    gone, made = [scene for scene in scenes if scene not in left], {}
    if grid is not None:
        known = [scene for scene in left if scene not in new]
        redrawn = drawn(job, known, new, grid, order=[scene.scene_id for scene in left])
        left, pre_share, notes = redrawn.scenes, redrawn.pre_share, redrawn.notes
        made["quicklooks"] = redrawn.folder
        mine = {scene.scene_id for scene in new}
        new = [scene for scene in left if scene.scene_id in mine]

    def change(db: sqlite3.Connection) -> None:
        contents.set_stretch(db, [scene for scene in left if scene not in scenes and scene not in new])
        contents.exchange_scenes(db, gone, new, grid, pre_share)

    return {**_done(job, replace(found, change=change), analyst, made), "notes": notes}


def _as_before(
    described: Callable[[str | None], Any], paths: Sequence[str], crs: str | None, old: Scene
) -> tuple[Any, bool]:
    """Describe files by a function of the coordinate system of those that name none.

    Where none was given, that of what was here is taken; returns whether it was.
    """
    try:
        return described(crs), False
    except ImageryError as error:
        names_one = any(Path(path).with_suffix(".prj").is_file() for path in paths)  # which cannot be read
        if error.kind != "crs" or crs is not None or is_local(old.crs) or names_one:
            raise
    return described(old.crs), True


def _done(
    job: Job, found: removing.Plan, analyst: str, new: Mapping[str, Path] | None = None
) -> dict[str, object]:  # fmt: skip
    done = removing.carry_out(job.layout, found, analyst, new=new, but=job.folder.name)
    return {"removal": done.number, "title": done.facts["title"], "plan": done.facts["plan"]}


# Footprints


def remove_footprints(job: Job, *, name: str, analyst: str) -> dict[str, object]:
    """Remove footprints, and the chips of which they are; takes what `removing.plan` does, and returns as `remove_scene`."""
    found = removing.plan(job.layout, "footprints", name)
    job.report(0.2, f"removing {found.title}")
    return _done(job, found, analyst)


def replace_footprints(
    job: Job, *, path: str, analyst: str, crs: str | None = None, shift: bool = False, confirmed: Sequence[str] | None = None
) -> dict[str, object]:
    """Put the footprints of a file in the place of all that are here; a building that stands where one stood keeps its id
    and its labels.

    Args:
        crs: "EPSG:n", for a file that does not name its own coordinate system.
        shift: all outlines of the file are moved from those here by the same way, as the plan of a dry run says: a building
            is the one that stood there before that. Its scores are of another place then and count no more.
        confirmed: "plan" that this returned before and a person read; None to compare the two and change nothing.

    Returns:
        as `remove_scene`; "removal" is None where nothing was changed.

    Raises:
        FootprintError: if the file cannot be used.
        ProjectError: if random checks of chips that go are open, or what would be done is no longer what was confirmed.
    """
    job.report(0.05, f"reading {path}")
    with store.connect(job.layout) as db:
        grid, area, before = contents.grid(db), aoi.current(db), contents.footprints(db)
        former, sources = contents.former_outlines(db), contents.footprint_sources(db)
    table = in_child.read_footprints(path, grid, crs=crs)
    table = table if area is None else limited(table, area.wkb)
    found, way, n_moved = _places(before, sources, table, grid, is_shifted=shift)
    if shift and way is None:
        raise FootprintError(
            f"The outlines of {Path(path).name} are not moved from those here as a whole.",
            "Leave the shift away.",
            kind="shift",
        )
    shift_m = way if way and shift else (0.0, 0.0)
    table, come_back = with_former_ids(_with_ids(table, before, found), former, grid, rows=found.only_in_b, shift_m=shift_m)
    kept = {before.building_ids[i] for i in found.pairs[:, 0]}
    gone = [building for building in before.building_ids if building not in kept]
    changed = [before.building_ids[i] for i, k in found.pairs.tolist() if before.wkb[i] != table.wkb[k]]
    renewed = [before.building_ids[i] for i, k in found.pairs.tolist() if before.attributes[i] != table.attributes[k]]
    unclear = [before.building_ids[i] for i in np.unique(found.ambiguous[:, 0])]
    file, n_new = Path(path).name, len(table.wkb) - len(kept)

    def change(db: sqlite3.Connection) -> None:
        contents.remove_footprints(db, gone, by_list=True)
        contents.change_outlines(db, table, {*changed, *renewed})
        import_log.import_footprints(db, table, file, replaces=True, come_back=come_back)
        if shift:
            contents.move_former(db, (shift_m[0] / grid.x_unit_m, shift_m[1] / grid.y_unit_m))
            runs.note_moved(db, changed)

    lines = (
        f"{file} takes the place of all footprints: {len(kept) - len(changed):,} stay as they are, {len(changed):,} get "
        "another outline, "
        f"{n_new:,} are new, {len(gone):,} have no building at their place in the new file and go.",
        f"Of these, {len(unclear):,} became several buildings, or one with others: {listed(unclear)}." if unclear else None,
        *removing.answers_among(job.layout, gone),
        f"{plural(len(come_back), 'building')} stand where removed ones stood: their answers and scores count again."
        if come_back
        else None,
        _way_words(file, way, n_moved, is_shifted=shift) if way else None,
        "Buildings keep their labels where they stand, whatever the new file calls them.",
    )
    plan = removing.footprint_plan(
        job.layout, file, f"footprints, replaced by {file}", lines, [*gone, *changed], change,
        runs=[run.run_id for run in store.call(job.layout, runs.all_runs)] if shift else [],
    )  # fmt: skip
    if not gone and not changed and not renewed and not n_new:
        raise FootprintError(
            f"{file} holds the footprints that are here already.", "Nothing needs to be replaced.", kind="dup"
        )
    if confirmed is None:
        about = {"path": path, "crs": crs, "way": way, "shift": shift}
        return {"removal": None, "title": plan.title, "plan": [*plan.lines], **about}
    if [*confirmed] != [*plan.lines]:
        raise ProjectError(
            f"{file} or the project has changed since the two were compared, so nothing was replaced.",
            "Compare them again, then confirm once more.",
        )
    job.report(0.6, f"replacing {len(before.wkb)} footprints by {len(table.wkb)}")
    job.stop_if_cancelled()
    return _done(job, plan, analyst)


def _way_words(file: str, way: tuple[float, float], n_moved: int, *, is_shifted: bool) -> str:
    east, north = way
    far = f"{abs(east):.1f} m {'east' if east > 0 else 'west'} and {abs(north):.1f} m {'north' if north > 0 else 'south'}"
    if is_shifted:
        return (
            f"All outlines of {file} are taken to be moved {far}; scores of buildings that moved are of another place and "
            "count no more."
        )
    return (
        f"The outlines of {file} lie {far} of those here as a whole. If one of the two is misplaced, replace with the "
        f"shift: {plural(n_moved, 'building')} keep their labels then."
    )


def _places(
    before: FootprintTable, sources: Sequence[str], table: FootprintTable, grid: Grid, *, is_shifted: bool
) -> tuple[Match, tuple[float, float] | None, int]:
    """Match the footprints here with those of a file; also return the way by which all of these are moved, m, and how many
    that pairs.
    """
    cells = np.flatnonzero(np.array(sources) == GRID)  # of no outline: no house is one of them
    ours, theirs = (shapely.from_wkb(np.array(list(each.wkb), dtype=object)) for each in (before, table))
    ours[cells] = None
    pair = partial(
        match, ours, theirs, unit_m=(grid.x_unit_m, grid.y_unit_m), ids_a=before.building_ids, ids_b=table.building_ids
    )
    way = shift_between(ours, theirs, unit_m=(grid.x_unit_m, grid.y_unit_m))
    moved = pair(shift_m=way) if way else None
    here = moved if moved is not None and is_shifted else pair()
    return here, way, 0 if moved is None else len(moved.pairs)


def _with_ids(table: FootprintTable, before: FootprintTable, found: Match) -> FootprintTable:
    """Give footprints the ids of the buildings that they are; what else has the id of one that is here gets another
    later.
    """
    known = set(before.building_ids)
    ids = ["" if building in known else building for building in table.building_ids]
    for i, k in found.pairs.tolist():
        ids[k] = before.building_ids[i]
    return replace(table, building_ids=ids)
