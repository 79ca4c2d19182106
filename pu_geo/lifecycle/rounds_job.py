"""Begin the next round of an event: a new post image over the same buildings, with what the last round knew."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pu_geo.errors import ImageryError, ProjectError, writing
from pu_geo.files import atomic_write, checked
from pu_geo.geo.raster.placement import moved_to
from pu_geo.lifecycle.removing import with_sidecars
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.records import Layer, Scene
from pu_geo.scenes import scene_files
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.layers_job import take_over
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import aoi, contents, grades, labels, population, rounds, runs, store, versions
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import Layout, find_project
from pu_geo.store.rounds import PastAnswer, Round
from pu_geo.wording import listed


def next_round(
    job: Job,
    *,
    previous: str,
    post: Sequence[str],
    pre: Sequence[str] = (),
    bands: Sequence[int] | None = None,
    size_px: int = 64,
) -> dict[str, object]:
    """Fill an empty project from the round before it.

    Footprints keep their ids, the area of interest stays, and sites keep their names and divisions by place. Answers are
    carried over as "to be confirmed": they come first in the queue, and count, and are learned from, only once somebody gave
    them anew on the new image. Layers of no date and from before the event come along with their scaling; one from after the
    event shows what is past, and stays behind.

    Args:
        previous: project folder of the round before.
        post: paths of the new post-event scenes.
        pre: paths of pre-event scenes; those of the round before if none, read as they are there.
        bands: as in `add_scenes`; of files that name none, those of the round before if None.
        size_px: side of a chip, pixels.

    Returns:
        {"round", "n", "carried": answers to be confirmed, "compared_with": the map of the round before that changes are
        counted from, such as "v2" or "run ranker-1", "layers": names of those that came along, "notes": which did not, and
        why, and what to know about the scenes, in sentences, "scenes", "chips"}

    Raises:
        ProjectError: if the project is not empty, or the previous one has no footprints or no place on the Earth.
        ImageryError: if a pre scene of the round before is to be used and its file is missing or changed.
    """
    before = find_project(previous)
    with store.connect(before) as db:
        table, old_grid, area = contents.footprints(db), contents.grid(db), aoi.current(db)
        old_scenes, old_layers = contents.scenes(db), contents.layers(db)
    if not old_grid.has_place:
        raise ProjectError(
            f"{before.folder.name} has no place on the Earth; nothing tells where a new image would lie over it.",
            "Make a project of the new pictures, and give it the same outlines in pixels.",
        )
    with store.connect(job.layout) as db:
        if contents.count_footprints(db) or contents.scenes(db):
            raise ProjectError(
                f"{job.layout.folder.name} is not empty; a round begins in a project of its own.",
                "Make a new project for it.",
            )
    past = _past(before)
    kept: list[Scene] = []
    if not pre:
        found = scene_files.require(
            before, [scene for scene in old_scenes if scene.role == "pre"], is_cancelled=job.is_cancelled
        )
        kept = [replace(scene, path=_own_copy(before, job.layout, scene)) for scene in found]
    scenes = add_scenes(Part(job, 0.0, 0.2), pre=pre, post=post, bands=bands, kept=kept, like=old_scenes, before=old_grid)
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
        contents.add_footprints(db, replace(table, wkb=moved_to(table.wkb, old_grid.crs, grid.crs)))
        if area is not None:
            aoi.put(db, moved_to([area.wkb], old_grid.crs, grid.crs)[0], area.source)
        n = contents.count_footprints(db)
    layers, notes = _take_layers(Part(job, 0.2, 0.3), before, old_layers)
    chips = chip(Part(job, 0.3, 0.98), size_px=size_px)
    rounds.write(job.layout, past)
    carried = sum(one.label is not None for one in rounds.last_of_each(past).values())
    made = {"round": past.number, "n": n, "carried": carried, "compared_with": past.compared_with}
    notes += scenes["notes"]  # type: ignore[arg-type]
    return {**made, "layers": layers, "notes": notes, "scenes": scenes, "chips": chips}


def _take_layers(job: Job, before: Layout, layers: Sequence[Layer]) -> tuple[list[str], list[str]]:
    """Add the layers of the round before that still hold; return their names, and a sentence on those that were left out."""
    taken, notes = [], []
    for i, layer in enumerate(layers):
        if layer.when == "post":
            continue
        try:
            found = scene_files.require(before, layer.scenes, is_cancelled=job.is_cancelled)
            scenes = tuple(replace(scene, path=_own_copy(before, job.layout, scene)) for scene in found)
            take_over(Part(job, i / len(layers), (i + 1) / len(layers)), replace(layer, scenes=scenes))
        except ImageryError as error:
            notes.append(f"The layer {layer.name} was left out. {error.problem} {error.hint}")
        else:
            taken.append(layer.name)
    if past := [layer.name for layer in layers if layer.when == "post"]:
        notes.append(
            f"Layers from after the event stayed in the round before: {listed(past)}. Add newer ones on the Imagery page, "
            "then cut chips again."
        )
    return taken, notes


def _own_copy(before: Layout, layout: Layout, scene: Scene) -> str:
    """Return the path of a scene's file; one inside the project before is copied into this one, which may go elsewhere
    alone.

    What gives a picture its place, a world file or labels of the same name, is copied with it.
    """
    path = Path(scene.path)
    if not path.is_relative_to(before.folder):
        return scene.path
    target = layout.path("sources", *(part for part in path.relative_to(before.folder).parts if part != "sources"))
    for one in with_sidecars(checked(path)):
        with writing(target, ProjectError), atomic_write(target.with_name(one.name)) as temporary:
            shutil.copyfile(checked(one), temporary)
    return str(target)


def _past(before: Layout) -> Round:
    """Collect what all rounds so far know, the one that ends here last."""
    found = rounds.read(before)
    with store.connect(before) as db:
        events, scale = labels.current(db), grades.known(db)
        date = next((scene.date for scene in contents.scenes(db) if scene.role == "post" and scene.date), None)
        ids = contents.building_ids(db)
    map_name, binary, scores = _last_map(before)
    by_label = {"positive": "damaged", "not_damaged": "not_flagged"}  # of a building that no map of its round knew
    newest = [
        PastAnswer(
            found.number, building, binary.get(building) or by_label.get(event.label if event else "", "not_assessed"),
            event.label if event else None,
            event.analyst if event else None, event.at if event else None, scores.get(building), date,
            grades.name_of(scale, event.grade) if event else "",
        )
        for building, event in ((building, events.get(building)) for building in ids)
    ]  # fmt: skip
    return Round(found.number + 1, str(before.folder), [*found.past, *newest], map_name)


def _last_map(before: Layout) -> tuple[str, dict[str, str], dict[str, float | None]]:
    """Return the name, `damage_binary` and scores of the map that others have of a round: the version published last.

    Where none was, it is that of the run which is shown, at its threshold; nothing before there is a run.
    """
    published = versions.all_facts(before)
    if published:
        state = versions.read_state(before, published[0]["version"])
        run = next((one for one in store.call(before, runs.all_runs) if one.run_id == published[0]["run_id"]), None)
        scores = {} if run is None else population.of_run(before, run).score_of()
        rows = zip(state["building_id"], state["not_assessed_reason"], strict=True)
        known = {building: None if why else scores.get(building) for building, why in rows}
        return published[0]["version"], dict(zip(state["building_id"], state["damage_binary"], strict=True)), known
    chosen = store.call(before, runs.settle, before)
    if chosen is None:
        return "", {}, {}
    shown = build_damage_map(before, chosen.run_id, None)
    binary = dict(zip(shown.building_ids, map(str, shown.columns["damage_binary"]), strict=True))
    return f"run {chosen.run_id}", binary, dict(zip(shown.building_ids, shown.columns["score"], strict=True))  # type: ignore[arg-type]
