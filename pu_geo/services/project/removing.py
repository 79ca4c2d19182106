"""Remove what was added to a project, after a plan that says what goes, what becomes out of date and what stays; and undo it.

Labels are never removed. Runs, exports and chips go at once; scenes and footprints in a job, `tasks.project.remove`, which draws
the map anew and ends in `carry_out`, too.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobError, ProjectError, PuGeoError
from pu_geo.jobs import tasks
from pu_geo.project import aoi, checks, contents, feature_sets, import_log, labels, removals, runs, store, versions
from pu_geo.project.layout import RCF, Layout
from pu_geo.project.removals import Kind, Removal, Watched
from pu_geo.records import Layer, Scene
from pu_geo.services.imagery import layers
from pu_geo.services.project import choices
from pu_geo.services.train import run_names
from pu_geo.wording import day_and_time, plural, size

KINDS: tuple[Kind, ...] = ("scene", "layer", "footprints", "chips", "features", "run", "export")
_BY_JOB: tuple[Kind, ...] = ("scene", "footprints")
_LABEL_WORDS = {"positive": "damaged", "not_damaged": "not damaged", "not_assessable": "not assessable"}
_LABELS_STAY = "All labels stay."
_MOST_NAMED = 5


@dataclass(frozen=True)
class Plan:
    """What a removal will do, in sentences.

    Attributes:
        name: what the kind calls it: a scene's id, "v2", ...
        title: in words, such as "run NcPU quick, 22 Nov 11:29".
        goes: what is removed.
        stale: what stays and is out of date then, or changes.
        stays: what is not touched.
        n_bytes: that its files take; they are freed when the space is reclaimed.
    """

    kind: Kind
    name: str
    title: str
    goes: tuple[str, ...]
    stale: tuple[str, ...]
    stays: tuple[str, ...]
    n_bytes: int

    @property
    def lines(self) -> list[str]:
        """All sentences, in order."""
        freed = f"{size(self.n_bytes)} are freed when the space is reclaimed; until then the removal can be undone."
        return [*self.goes, *self.stale, *self.stays, freed if self.n_bytes else "The removal can be undone."]


def plan(layout: Layout, kind: Kind, name: str) -> Plan:
    """Return what removing one thing will do. Raises ProjectError if it is not there, or cannot be removed."""
    if kind not in _PLANS:
        raise ProjectError(f"{kind!r} is nothing that can be removed here.", f"Name one of: {', '.join(_PLANS)}.")
    return _PLANS[kind](layout, name)


def remove(layout: Layout, kind: Kind, name: str, analyst: str) -> Removal:
    """Remove a run, a version of the damage map, a layer, a chip set or a set of features.

    Raises:
        ProjectError: as `plan`; for "scene" and "footprints", which jobs remove.
        JobError: if a job uses it.
    """
    found = plan(layout, kind, name)
    watched, change, files, facts = _STEPS[kind](layout, found.name)
    done = carry_out(layout, found, analyst, watched=watched, change=change, files=files, facts=facts)
    choices.chosen_run(layout)
    return done


def carry_out(
    layout: Layout, found: Plan, analyst: str, *, watched: Sequence[Watched], change: Callable[[sqlite3.Connection], None],
    files: Sequence[str] = (), new: Mapping[str, Path] | None = None, facts: Mapping[str, object] | None = None, but: str = "",
) -> Removal:  # fmt: skip
    """Do what `removals.remove` does, unless a job uses what is removed.

    Args:
        but: id of the job that asks for it.

    Raises:
        JobError: if another job uses it.
    """
    with jobs.none_starting(layout):
        _check_free(layout, found.kind, found.name, but)
        about = {"title": found.title, "plan": found.lines, **(facts or {})}
        return removals.remove(
            layout,
            found.kind,
            found.name,
            analyst=analyst,
            watched=watched,
            change=change,
            files=files,
            new=new,
            facts=about,
        )


def _check_free(layout: Layout, kind: Kind, name: str, but: str) -> None:
    for job in jobs.all_jobs(layout, with_dismissed=True):
        if job.is_active and job.job_id != but and _uses(job.task, job.args, kind, name):
            raise JobError(
                f"Job {job.job_id} ({job.task}) is active and may use what is to be removed.",
                "Wait for it, or cancel it first.",
                kind="running",
            )


def _uses(task: str, args: Mapping[str, Any], kind: Kind, name: str) -> bool:
    if kind == "export":
        return tasks.of(task).writes_exports
    if kind == "run":
        given = json.dumps(dict(args))
        return any(json.dumps(word) in given for word in (name, "latest", "chosen")) or (
            tasks.of(task).reads_runs and '"run_id"' not in given
        )
    return True  # each task reads imagery, buildings or chips


def as_names(kind: Kind, names: Sequence[str]) -> list[str]:
    """Return the names of removals that a person asked for at once: buildings go together, all else one after the other."""
    is_group = len(names) == 1 and (names[0] in ("all", "outside-aoi") or names[0].startswith("file:"))
    return list(names) if kind != "footprints" or is_group else [json.dumps(list(names))]


def task_of(found: Plan) -> tuple[str, dict[str, Any]] | None:
    """Return the task that carries out a plan, and its arguments without "analyst"; None for what `remove` does at once."""
    return (f"remove_{found.kind}", {"name": found.name}) if found.kind in _BY_JOB else None


def start(layout: Layout, found: Plan, analyst: str, path: str = "") -> None:
    """Do what a plan says: at once, or in a job of its own.

    Args:
        path: the file that takes the place of a scene, or files of a layer, a line each, where the plan is one of `replacement`.

    Raises:
        PuGeoError: as `remove`, or as `jobs.start`.
    """
    task = task_of(found)
    if path and found.kind == "layer":
        jobs.start(layout, "replace_layer", {"name": found.name, "paths": path.splitlines(), "analyst": analyst})
    elif task is None:
        remove(layout, found.kind, found.name, analyst)
    elif path:
        jobs.start(layout, "replace_scene", {**task[1], "path": path, "analyst": analyst})
    else:
        jobs.start(layout, task[0], {**task[1], "analyst": analyst})


def start_replacing_footprints(
    layout: Layout, path: str, analyst: str, *, confirmed: Sequence[str] | None = None, shift: bool = False
) -> str:  # fmt: skip
    """Start the job that compares a footprint file with what is here, or, once its plan was confirmed, puts it there; return its id."""
    if not path:
        raise PuGeoError("No footprint file was named.", "Choose a file of building footprints, or write its path.")
    args = {"path": path, "analyst": analyst, "shift": shift, "dry_run": confirmed is None}
    return jobs.start(layout, "replace_footprints", {**args, "confirmed": None if confirmed is None else [*confirmed]})


def as_row(found: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {"kind": found.kind, "name": found.name, "title": found.title, "plan": found.lines, "bytes": found.n_bytes}


# What there is, and what each removal does


def _run(layout: Layout, name: str) -> Plan:
    with store.connect(layout) as db:
        facts, shown, found = runs.find(db, name), runs.pinned(db), runs.all_runs(db)
    called = run_names.names(layout)
    if facts.run_id == shown and len(found) > 1:
        raise ProjectError(
            f"{called[facts.run_id]} is the run that the map and all screens show.",
            f"Choose another to be shown first: on the Train page, or `pu-geo choose P.pugeo --run {_other(found, shown)}`.",
            kind="shown",
        )
    _check_closed(layout, "run_id", facts.run_id)
    published = [one["version"] for one in versions.all_facts(layout) if one.get("run_id") == facts.run_id]
    audits = sum(one["run_id"] == facts.run_id for one in checks.all_checks(layout))
    n = len(runs.building_ids_of(layout, facts.run_id))
    return Plan(
        "run", facts.run_id, f"run {called[facts.run_id]}",
        (f"{called[facts.run_id]} ({facts.run_id}) goes: its scores of {plural(n, 'building')} and its model.",),
        (
            *([] if len(found) > 1 else ["No run is left: the map shows no scores until you train again."]),
            *([f"{plural(audits, 'accuracy assessment')} of it cannot be read until it is brought back."] if audits else []),
        ),
        (
            *([f"Published from it, and staying: {', '.join(sorted(published))}."] if published else []),
            _LABELS_STAY,
        ),
        _bytes(layout, [f"runs/{facts.run_id}"]),
    )  # fmt: skip


def _other(found: Sequence[Any], shown: str) -> str:
    return next(str(one.run_id) for one in found if one.run_id != shown)


def _check_closed(layout: Layout, field: str, name: str) -> None:
    """Raise ProjectError where open random checks belong to a run or a chip set."""
    for facts in checks.all_checks(layout):
        if facts["is_open"] and facts[field] == name:
            what = "accuracy assessment" if facts["purpose"] == "audit" else "check"
            raise ProjectError(
                f"The {what} {facts['id']} of it is open.",
                "Finish it, or close it on the Damage map page, then remove.",
                kind="open",
            )


def _export(layout: Layout, name: str) -> Plan:
    there = versions.numbers(layout)
    known = [f"v{number}" for number in there]
    if name not in known:
        raise ProjectError(
            f"There is no version {name!r} of the damage map; there are: {_some(known) or 'none'}.", "Name one of them."
        )
    shown = choices.why_chosen(layout)
    facts = versions.all_facts(layout)
    decides = shown == "published" and bool(facts) and facts[0].get("version", name) == name
    n_files = sum(1 for path in (layout.exports / name).iterdir() if path.is_file())
    return Plan(
        "export", name, f"version {name} of the damage map",
        (f"Version {name} goes, with its {plural(n_files, 'file')}. Copies that you handed out do not change.",),
        ("The run it was made from is shown because this version was published last; another one may be shown then.",)
        if decides
        else (),
        (f"No other version will be called {name}; the next one is v{versions.next_number(layout)}.", "Its run stays.", _LABELS_STAY),
        _bytes(layout, [f"exports/{name}"]),
    )  # fmt: skip


def _chips(layout: Layout, name: str) -> Plan:
    with store.connect(layout) as db:
        chip_set = contents.chosen_chip_set(db, None if name in ("", "latest") else name)
        others = [one for one in contents.chip_sets(db) if one != chip_set]
        n, used = contents.chip_count(db, chip_set), [one.run_id for one in runs.all_runs(db) if one.chip_set == chip_set]
    _check_closed(layout, "chip_set", chip_set)
    sets = [one.name for one in feature_sets.all_sets(layout, chip_set)]
    return Plan(
        "chips", chip_set, f"chips {chip_set}",
        (f"{plural(n, 'chip')} of {chip_set} go, with their features: {_some(sets) or 'none'}.",),
        (
            f"Annotate, ranking and training use the chips {others[0]} then."
            if others
            else "No chips are left: cut them again before you rank, train or use the queue.",
            *([f"{plural(len(used), 'run')} of them cannot be resumed or placed anew until they are back: {_some(used)}."]
              if used else []),
        ),
        (*(["The scores and maps of these runs stay."] if used else []), _LABELS_STAY),
        _bytes(layout, chip_files(layout, chip_set)),
    )  # fmt: skip


def chip_files(layout: Layout, chip_set: str) -> list[str]:
    """Return what to move away of a chip set, in the project's folder. Its facts stay: maps and audits of its runs read them."""
    folder = layout.chips(chip_set).parent
    found = [path for path in folder.glob(f"{chip_set}.*") if path != layout.chip_facts(chip_set)]
    return sorted(f"{folder.name}/{path.name}" for path in found)


def _features(layout: Layout, name: str) -> Plan:
    chip_set, feature_set = _of_chips(layout, name)
    feature_sets.require_removable(layout, chip_set, feature_set)
    with store.connect(layout) as db:
        is_chosen = feature_sets.chosen(db) == feature_set and contents.latest_chip_set(db) == chip_set
        found = runs.all_runs(db)
    used = [one.run_id for one in found if (one.chip_set, one.feature_set) == (chip_set, feature_set)]
    return Plan(
        "features", f"{chip_set}.{feature_set}", f"features {feature_set}",
        (f"The features {feature_set} of the chips {chip_set} go.",),
        (
            *([f"They are the set in use: from then on it is {RCF}."] if is_chosen else []),
            *([f"{plural(len(used), 'run')} of them cannot be placed anew until they are back: {_some(used)}."] if used else []),
        ),
        (*(["The scores and maps of these runs stay."] if used else []), _LABELS_STAY),
        _bytes(layout, _feature_files(layout, chip_set, feature_set)),
    )  # fmt: skip


def _of_chips(layout: Layout, name: str) -> tuple[str, str]:
    """Return chip set and feature set of a name: "SET" of the newest chips, or "CHIPS.SET"."""
    chip_set, _, feature_set = name.rpartition(".")
    return store.call(layout, contents.chosen_chip_set, chip_set or None), feature_set


def _feature_files(layout: Layout, chip_set: str, feature_set: str) -> list[str]:
    paths = (one(chip_set, feature_set) for one in (layout.feature_facts, layout.features, layout.maker))
    return [str(path.relative_to(layout.folder)) for path in paths if path.exists()]


# Scenes and footprints


def _scene(layout: Layout, name: str) -> Plan:
    with store.connect(layout) as db:
        scenes = contents.scenes(db)
    one = next((scene for scene in scenes if scene.scene_id == name), None)
    if one is None:
        known = ", ".join(scene.scene_id for scene in scenes) or "none"
        raise ProjectError(f"This project has no scene {name!r}; its scenes are: {known}.", "Name one of them.")
    left = [scene for scene in scenes if scene is not one]
    post = [scene for scene in left if scene.role == "post"]
    if one.role == "post" and not post:
        _check_first(layout, one, left)
    elif one.role == "post" and post[0].crs != one.crs:
        check_same_system(layout, f"scene {name}", post[0].crs)
    return Plan("scene", name, f"scene {name}", *_scene_words(layout, one, left), _bytes(layout, ["quicklooks"]))


def _scene_words(
    layout: Layout, one: Scene, left: Sequence[Scene]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what goes with a scene, what is out of date then, and what stays."""
    copied = scene_files(layout, [one], left)
    where = "its copy in the project goes with it" if copied else "its file stays where it is"
    with store.connect(layout) as db:
        newest, n_runs = contents.latest_chip_set(db), len(runs.all_runs(db))
        n_chips = contents.chip_count(db, newest) if newest else 0
    others = sum(scene.role == one.role for scene in left)
    return (
        (f"The {one.role}-event scene {one.scene_id} ({Path(one.path).name}) goes; {where}.",
         f"The map is drawn anew from the other {plural(others, f'{one.role}-event scene')}."
         if others else f"There is no {one.role}-event imagery then."),
        (*([f"{plural(n_chips, 'chip')} were cut with it: out of date until you cut chips again."] if n_chips else []),
         "The alignment of pre and post is measured anew before chips are cut."),
        (*([f"The scores and maps of {plural(n_runs, 'run')} stay: they are results."] if n_runs else []), _LABELS_STAY),
    )  # fmt: skip


def _check_first(layout: Layout, one: Scene, left: Sequence[Scene]) -> None:
    """Refuse to remove the last post-event scene while other things depend on the grid that it gives."""
    with store.connect(layout) as db:
        n, chip_sets, n_layers = contents.count_footprints(db), contents.chip_sets(db), len(contents.layers(db))
    there = [
        *([plural(n, "footprint")] if n else []), *([plural(len(chip_sets), "chip set")] if chip_sets else []),
        *([plural(len(left), "pre-event scene")] if left else []), *([plural(n_layers, "layer")] if n_layers else []),
    ]  # fmt: skip
    if there:
        raise ProjectError(
            f"{one.scene_id} is the only post-event scene: it gives the project its grid, and {', '.join(there)} are placed on it.",
            "Replace it by another file, or remove those first.",
            kind="last",
        )


def check_same_system(layout: Layout, title: str, crs: str) -> None:
    """Refuse a change of scenes after which the project would have another coordinate system, where there are footprints."""
    with store.connect(layout) as db:
        n, now = contents.count_footprints(db), contents.grid(db).crs
    if n:
        raise ProjectError(
            f"Without {title}, the project's coordinate system would become {crs[:40]}; it is {now[:40]}, and "
            f"{plural(n, 'footprint')} have coordinates in it.",
            "Replace it by a scene in the same system, or remove the footprints first.",
            kind="crs",
        )


def replacement(layout: Layout, name: str, path: str, kind: Kind = "scene") -> Plan:
    """Return what putting a file in the place of a scene, or files in that of a layer, will do. Raises as `plan`.

    Args:
        path: of a layer one in each line.
    """
    if kind == "layer":
        return layer_replacement(layout, name, path.splitlines())
    scenes = store.call(layout, contents.scenes)
    one = next((scene for scene in scenes if scene.scene_id == name), None)
    if one is None:
        return _scene(layout, name)  # raises
    goes, stale, stays = _scene_words(layout, one, [scene for scene in scenes if scene is not one])
    goes = (goes[0], f"{Path(path).name} takes its place; the map is drawn anew.")
    return Plan(
        "scene", name, f"scene {name}, replaced by {Path(path).name}", goes, stale, stays, _bytes(layout, ["quicklooks"])
    )


def scene_files(layout: Layout, gone: Sequence[Scene], left: Sequence[Scene]) -> list[str]:
    """Return the files of scenes that were copied into the project, with what gives them their place; none of another scene.

    Args:
        left: other scenes; those of the project that are not `gone` count too, layers and all.
    """
    ids = {scene.scene_id for scene in gone}
    others = [scene for scene in store.call(layout, contents.all_scenes) if scene.scene_id not in ids]
    used = {part for scene in (*left, *others) for part in with_sidecars(Path(scene.path))}
    owned = [Path(scene.path) for scene in gone if Path(scene.path).is_relative_to(layout.path("sources"))]
    found = {part for path in owned for part in with_sidecars(path) if part not in used and part.is_file()}
    return sorted(str(path.relative_to(layout.folder)) for path in found)


_BESIDE = ("prj", "aux", "json")  # behind the name without its ending; labels of xBD are JSON
_BEHIND = ("aux.xml", "ovr", "msk")  # behind the whole name


def with_sidecars(path: Path) -> list[Path]:
    """Return a picture and the files beside it that can be of it alone: world files, coordinate systems, statistics, overviews, labels."""
    kind = path.suffix.removeprefix(".").lower()
    beside = {"wld", f"{kind}w", f"{kind[:1]}{kind[-1:]}w", f"{kind[:1]}gw", *_BESIDE}
    wanted = [(f"{path.stem}.", beside), (f"{path.name}.", {*_BEHIND})]
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return [
        one
        for one in there
        if one == path
        or any(one.name.startswith(start) and one.name.removeprefix(start).lower() in ends for start, ends in wanted)
    ]


def _layer(layout: Layout, name: str) -> Plan:
    one = layers.find(layout, name)
    return Plan("layer", name, f"layer {name}", *_layer_words(layout, one), _bytes(layout, layer_files(layout, one)))


def _layer_words(layout: Layout, one: Layer) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what goes with a layer, what is out of date then, and what stays."""
    copied = scene_files(layout, one.scenes, [])
    files = plural(len(one.scenes), "file")
    where = (
        "copies in the project go with it"
        if copied
        else "its file stays where it is"
        if len(one.scenes) == 1
        else "its files stay where they are"
    )
    with store.connect(layout) as db:
        chip_sets, found = contents.chip_sets(db), runs.all_runs(db)
    cut = {
        chip_set: contents.chip_facts(layout, chip_set)
        for chip_set in chip_sets
        if layout.chip_facts(chip_set).is_file()
        and one.name in contents.chip_facts(layout, chip_set).get("view_missing", {})
    }
    n_runs = sum(run.chip_set in cut for run in found)
    return (
        (f"The layer {one.name} ({plural(one.bands, 'band')}, {files}) goes; {where}.",),
        (*([f"The newest {plural(len(cut[chip_sets[0]]['building_ids']), 'chip')} hold it: out of date until you cut chips again."]
           if chip_sets and chip_sets[0] in cut else []),),
        (*([f"Chips that were cut with it stay, and so do the scores and maps of {plural(n_runs, 'run')} of them."] if n_runs else []),
         _LABELS_STAY),
    )  # fmt: skip


def layer_files(layout: Layout, one: Layer, new: Sequence[Scene] = ()) -> list[str]:
    """Return what goes with a layer, in the project's folder: its map tiles, and files of it that were copied in.

    Args:
        new: what takes its place; files that it keeps stay.
    """
    tiles = str(layout.layer_tiles(one.name).relative_to(layout.folder))
    return [tiles, *scene_files(layout, one.scenes, new)]


def layer_replacement(layout: Layout, name: str, paths: Sequence[str]) -> Plan:
    """Return what putting other files in the place of those of a layer will do. Raises as `plan`."""
    one = layers.find(layout, name)
    (goes, *_), stale, stays = _layer_words(layout, one)
    files = ", ".join(Path(path).name for path in paths[:_MOST_NAMED])
    return Plan(
        "layer", name, f"layer {name}, replaced by {_some([Path(path).name for path in paths])}",
        (goes, f"{files} take its place, with a new scaling." if len(paths) > 1 else f"{files} takes its place, with a new scaling."),
        stale, stays, _bytes(layout, layer_files(layout, one)),
    )  # fmt: skip


def _footprints(layout: Layout, name: str) -> Plan:
    gone = chosen_footprints(layout, name)
    with store.connect(layout) as db:
        n = contents.count_footprints(db)
    goes = (f"{counted(gone)} of {n:,} go.", *_lost_labels(layout, gone))
    return _footprint_plan(layout, name, counted(gone), goes, gone)


def counted(ids: Sequence[str]) -> str:
    """Return how many footprints there are, in words."""
    return plural(len(ids), "footprint")


def chosen_footprints(layout: Layout, name: str) -> list[str]:
    """Return the ids of the footprints that a person named.

    Args:
        name: "all", "outside-aoi", "file:" and the name of a file, or a JSON list of building ids.

    Raises:
        ProjectError: if there are none such, or it is not known which they are.
    """
    with store.connect(layout) as db:
        ids = contents.building_ids(db)
        if name == "all":
            found = ids
        elif name == "outside-aoi":
            found = aoi.outside(db)
        elif name.startswith("file:"):
            found = import_log.footprints_of(db, name.removeprefix("file:"))
        else:
            found = list(dict.fromkeys(json.loads(name)))
            if unknown := sorted(set(found) - set(ids)):
                raise ProjectError(f"This project has no building {unknown[0]!r}.", "Name ids that it has.")
    if not found:
        raise ProjectError("There are no such footprints.", "Name others, or `all`.")
    return found


def _lost_labels(layout: Layout, gone: Sequence[str]) -> list[str]:
    given = store.call(layout, labels.current_labels)
    counts = Counter(given[building] for building in gone if building in given)
    if not counts:
        return []
    each = ", ".join(f"{n:,} {_LABEL_WORDS[label]}" for label, n in counts.most_common())
    return [
        f"{plural(counts.total(), 'building')} with an answer ({each}) are among them: {_some([one for one in gone if one in given])}. Their "
        "answers stay in the history, and count again if a building is added where they stood."
    ]


def footprint_exchange(
    layout: Layout, file: str, gone: Sequence[str], changed: Sequence[str], *, n_same: int, n_new: int, unclear: Sequence[str] = (),
    way: tuple[float, float] | None = None, n_moved: int = 0, is_shifted: bool = False, n_back: int = 0,
) -> Plan:  # fmt: skip
    """Return what putting a file in the place of all footprints will do. Raises ProjectError where open checks forbid it.

    Args:
        gone, changed: buildings at whose place the file has none, and whose outline it draws otherwise.
        n_same, n_new: how many it draws the same, and has where none was.
        unclear: of those that go, the ones that overlap several of the file, or share one with others.
        way, n_moved: how far all of its outlines are moved, metres, and how many pair up if that is taken into account.
        is_shifted: it is.
        n_back: how many stand where buildings stood that were removed before.
    """
    goes = (
        f"{file} takes the place of all footprints: {n_same:,} stay as they are, {len(changed):,} get another outline, {n_new:,} are "
        f"new, {len(gone):,} have no building at their place in the new file and go.",
        *(
            [f"Of these, {len(unclear):,} became several buildings, or one with others: {_some(unclear)}."]
            if unclear
            else []
        ),
        *_lost_labels(layout, gone),
        *(
            [f"{plural(n_back, 'building')} stand where removed ones stood: their answers and scores count again."]
            if n_back
            else []
        ),
        *([_way_words(file, way, n_moved, is_shifted=is_shifted)] if way else []),
    )
    found = _footprint_plan(layout, file, f"footprints, replaced by {file}", goes, [*gone, *changed])
    keep = ("Buildings keep their labels where they stand, whatever the new file calls them.", *found.stays)
    return replace(found, stays=keep)


def _way_words(file: str, way: tuple[float, float], n_moved: int, *, is_shifted: bool) -> str:
    east, north = way
    far = f"{abs(east):.1f} m {'east' if east > 0 else 'west'} and {abs(north):.1f} m {'north' if north > 0 else 'south'}"
    if is_shifted:
        return f"All outlines of {file} are taken to be moved {far}; scores of buildings that moved are of another place and count no more."
    return (
        f"The outlines of {file} lie {far} of those here as a whole. If one of the two is misplaced, replace with the shift: "
        f"{plural(n_moved, 'building')} keep their labels then."
    )


def _footprint_plan(layout: Layout, name: str, title: str, goes: tuple[str, ...], ids: Sequence[str]) -> Plan:
    chip_sets = chip_sets_with(layout, ids)
    for chip_set in chip_sets:
        _check_closed(layout, "chip_set", chip_set)
    with store.connect(layout) as db:
        found = runs.all_runs(db)
    files = [file for one in chip_sets for file in chip_files(layout, one)]
    return Plan(
        "footprints", name, title,
        (*goes, *([f"The chips {_some(chip_sets)} go with their features: chips are numbered by footprints."] if chip_sets else [])),
        ("Cut chips again before you rank, train or use the queue.",) if chip_sets else (),
        (*([f"The scores of {plural(len(found), 'run')} stay; the map shows them where buildings are left."] if found else []),
         "Published versions stay as they are.", _LABELS_STAY),
        _bytes(layout, files),
    )  # fmt: skip


def chip_sets_with(layout: Layout, ids: Sequence[str]) -> list[str]:
    """Return the chip sets that hold one of these buildings: the chip wall finds chips by the number of their footprint."""
    wanted = set(ids)
    found = store.call(layout, contents.chip_sets)
    return [one for one in found if not wanted.isdisjoint(contents.chip_facts(layout, one)["building_ids"])]


_Steps = tuple[Sequence[Watched], Callable[[sqlite3.Connection], None], Sequence[str], Mapping[str, object]]


def _run_steps(layout: Layout, name: str) -> _Steps:
    watched = [Watched(table, "run_id = ?", (name,)) for table in ("run", "score")]
    return watched, lambda db: _delete(db, watched), [f"runs/{name}"], {}


def _layer_steps(layout: Layout, name: str) -> _Steps:
    one = layers.find(layout, name)
    ids = json.dumps([scene.scene_id for scene in one.scenes])
    return (
        [Watched("scene", "scene_id IN (SELECT value FROM json_each(?))", (ids,))],
        lambda db: contents.exchange_layer(db, one.scenes, ()), layer_files(layout, one), {},
    )  # fmt: skip


def _chips_steps(layout: Layout, name: str) -> _Steps:
    watched = [Watched("chip_set", "chip_set = ?", (name,))]
    return watched, lambda db: _delete(db, watched), chip_files(layout, name), {"chip_sets": [name]}


def _delete(db: sqlite3.Connection, watched: Sequence[Watched]) -> None:
    for one in watched:
        db.execute(f"DELETE FROM {one.table} WHERE {one.where}", one.values)


def _export_steps(layout: Layout, name: str) -> _Steps:
    return [], lambda db: None, [f"exports/{name}"], {}


def _features_steps(layout: Layout, name: str) -> _Steps:
    chip_set, feature_set = _of_chips(layout, name)

    with store.connect(layout) as db:
        was_chosen = feature_sets.chosen(db) == feature_set and contents.latest_chip_set(db) == chip_set

    def change(db: sqlite3.Connection) -> None:
        if was_chosen:
            feature_sets.choose(db, layout, chip_set, RCF)

    return [], change, _feature_files(layout, chip_set, feature_set), {"was_chosen": was_chosen}


_PLANS: dict[Kind, Callable[[Layout, str], Plan]] = {
    "scene": _scene, "layer": _layer, "footprints": _footprints, "run": _run, "export": _export, "chips": _chips, "features": _features,
}  # fmt: skip
_STEPS: dict[Kind, Callable[[Layout, str], _Steps]] = {
    "layer": _layer_steps, "run": _run_steps, "export": _export_steps, "chips": _chips_steps, "features": _features_steps,
}  # fmt: skip


def _bytes(layout: Layout, files: Sequence[str]) -> int:
    total = 0
    for path in (layout.path(name) for name in files):
        inside = path.rglob("*") if path.is_dir() else [path]
        total += sum(one.stat().st_size for one in inside if one.is_file())
    return total


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# What was removed


def removed(layout: Layout) -> list[Removal]:
    """Return what was removed and can be brought back, newest first."""
    return [one for one in store.call(layout, removals.all_removals) if one.state == "removed"]


def removed_row(layout: Layout, one: Removal) -> dict[str, Any]:
    """Return a removal as JSON, with its size and its time in words."""
    n_bytes = removals.bytes_of(layout, one)
    row = {
        "removal": one.number,
        "kind": one.kind,
        "name": one.name,
        "title": str(one.facts["title"]),
        "analyst": one.analyst,
    }
    return {**row, "removed_at": one.at, "at": day_and_time(one.at), "bytes": n_bytes, "size": size(n_bytes)}


def reclaim_words(n: int, n_bytes: int) -> str:
    """Return what reclaiming the space of removals does, in a sentence."""
    if not n:
        return "There is nothing to reclaim."
    return f"{size(n_bytes)} are freed; {plural(n, 'removal')} can then not be undone any more."


def undo(layout: Layout, number: int, analyst: str) -> Removal:
    """Bring back what was removed. Raises as `removals.undo`, and JobError if a job that it concerns is active."""
    one = store.call(layout, removals.find, number)
    with jobs.none_starting(layout):
        _check_free(layout, one.kind, one.name, "")
        done = removals.undo(layout, number, analyst=analyst)
        if one.facts.get("was_chosen"):
            chip_set, feature_set = _of_chips(layout, one.name)
            store.call(layout, feature_sets.choose, layout, chip_set, feature_set)
    choices.chosen_run(layout)
    return done


def reclaimable(layout: Layout, older_than_days: float = 0) -> tuple[list[Removal], int]:
    """Return the removals whose space can be reclaimed, and how many bytes that is.

    Args:
        older_than_days: of those removed before that many days alone.
    """
    until = (datetime.now(UTC) - timedelta(days=older_than_days)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = [one for one in removed(layout) if not older_than_days or one.at < until]
    return found, sum(removals.bytes_of(layout, one) for one in found)


def reclaim(layout: Layout, numbers: Collection[int], analyst: str) -> int:
    """Delete what was removed for good; return how many bytes that freed."""
    return removals.reclaim(layout, numbers, analyst=analyst)
