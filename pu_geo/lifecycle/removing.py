"""Remove what was added to a project, after a plan that says what goes, what becomes out of date and what stays; and bring
it back.

Labels are never removed. Runs, layers, exports and chips go at once; scenes and footprints in a job, `lifecycle.remove_job`,
which draws the map anew and ends in `carry_out`, too.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pu_geo import jobs
from pu_geo.errors import JobError, ProjectError, PuGeoError
from pu_geo.records import Scene
from pu_geo.scenes import layers
from pu_geo.scenes.scene_files import id_of
from pu_geo.scenes.sites import sites
from pu_geo.store import (
    aoi,
    checks,
    chosen,
    contents,
    feature_sets,
    import_log,
    labels,
    removals,
    run_names,
    runs,
    store,
    versions,
)
from pu_geo.store.layout import RCF, Layout
from pu_geo.store.removals import Kind, Removal
from pu_geo.wording import LABEL_WORDS, day_and_time, listed, plural, size

_LABELS_STAY = "All labels stay."
_RUNS_STAY = "Scores and maps of all runs stay: they are results."
_ALIGNED_ANEW = "The alignment of pre and post is measured anew before chips are cut."
_GROUPS = ("all", "outside-aoi", "file:")


@dataclass(frozen=True)
class Plan:
    """What a removal or a replacement will do.

    Attributes:
        name: what the kind calls it: a scene's id, "v2", ...
        title: in words, such as "run NcPU quick, 22 Nov 11:29".
        lines: what goes, what is out of date then, and what stays, a sentence each.
        files: paths in the project's folder to be moved away.
        facts: of its entry in the log, see `removals.remove`.
        change: as `removals.remove` takes it.
        task: the job that carries it out; "" where `start` does so at once.
        args: of that job, but for "analyst".
    """

    kind: Kind
    name: str
    title: str
    lines: Sequence[str]
    files: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[sqlite3.Connection], None] | None = None
    task: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"kind": self.kind, "name": self.name, "title": self.title, "plan": [*self.lines]}


def plan(layout: Layout, kind: Kind, name: str, paths: Sequence[str] = ()) -> Plan:
    """Return what removing one thing, or putting files in its place, will do.

    Args:
        name: of footprints "all", "outside-aoi", "file:" and the name of a file, the id of a building, or a JSON list of
            such ids.
        paths: files to take the place of a scene or a layer; none to remove it.

    Raises:
        ProjectError: if it is not there, or cannot be removed.
    """
    if kind not in KINDS:
        raise ProjectError(f"{kind!r} is nothing that can be removed here.", f"Name one of: {', '.join(KINDS)}.")
    if paths:
        return {"scene": _scene, "layer": _layer}[kind](layout, name, paths)
    return KINDS[kind](layout, name)


def start(layout: Layout, found: Plan, analyst: str) -> None:
    """Do what a plan says: at once, or in a job of its own. Raises as `carry_out`, or as `jobs.start`."""
    if found.task:
        jobs.start(layout, found.task, {**found.args, "analyst": analyst})
    else:
        carry_out(layout, found, analyst)


def carry_out(
    layout: Layout, found: Plan, analyst: str, *, new: Mapping[str, Path] | None = None, but: str = ""
) -> Removal:  # fmt: skip
    """Do at once what a plan says.

    Args:
        new: see `removals.remove`.
        but: id of the job that asks for it.

    Raises:
        JobError: if another job may use it.
        ProjectError: as `removals.remove`.
    """
    with jobs.none_starting(layout):
        _check_free(layout, found.kind, found.name, but)
        done = removals.remove(
            layout,
            found.kind,
            found.name,
            analyst=analyst,
            facts={**found.facts, "title": found.title, "plan": [*found.lines]},
            change=found.change,
            files=found.files,
            new=new,
        )
    chosen.chosen_run(layout)
    return done


def _check_free(layout: Layout, kind: Kind, name: str, but: str) -> None:
    """Raise JobError where a job may use what goes. A training uses no version, the picture of how buildings look chips and
    features alone; both, of the runs, those that they name.
    """
    unused_by: Mapping[str, Collection[str]] = {"train": {"export"}, "look": KINDS.keys() - {"chips", "features", "run"}}
    for job in jobs.all_jobs(layout, with_dismissed=True):
        unused = unused_by.get(job.task)
        is_apart = unused is not None and (kind in unused or (kind == "run" and name not in json.dumps(dict(job.args))))
        if job.is_active and job.job_id != but and not is_apart:
            raise JobError(
                f"Job {job.job_id} ({job.task}) is active and may use what is to be removed.",
                "Wait for it, or cancel it first.",
                kind="running",
            )


def _with_size(layout: Layout, lines: Sequence[str | None], files: Sequence[str]) -> list[str]:
    """Return the lines of a plan that there are, and how much space it frees."""
    n_bytes = removals.bytes_of(map(layout.path, files))
    freed = f"{size(n_bytes)} are freed when the space is reclaimed; until then the removal can be undone."
    return [*filter(None, lines), freed if n_bytes else "The removal can be undone."]


# What there is


def _run(layout: Layout, name: str) -> Plan:
    with store.connect(layout) as db:
        run_id, shown, found = runs.find(db, name).run_id, runs.pinned(db), [one.run_id for one in runs.all_runs(db)]
    title = run_names.name(layout, run_id)
    if run_id == shown and len(found) > 1:
        other = next(one for one in found if one != shown)
        raise ProjectError(
            f"{title} is the run that the map and all screens show.",
            f"Choose another to be shown first: on the Train page, or `pu-geo choose P.pugeo --run {other}`.",
            kind="shown",
        )
    _check_closed(layout, "run_id", run_id)
    audits, files = sum(one["run_id"] == run_id for one in checks.all_checks(layout)), [f"runs/{run_id}"]
    lines = (
        f"{title} ({run_id}) goes: its scores of {plural(len(runs.building_ids_of(layout, run_id)), 'building')} and its "
        "model.",
        "No run is left: the map shows no scores until you train again." if len(found) == 1 else None,
        f"{plural(audits, 'accuracy assessment')} of it cannot be read until it is brought back." if audits else None,
        f"Published versions that were made from it stay. {_LABELS_STAY}",
    )
    return Plan("run", run_id, f"run {title}", _with_size(layout, lines, files), files, {"runs": [run_id]})


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
    known = [f"v{number}" for number in versions.numbers(layout)]
    if name not in known:
        raise ProjectError(
            f"There is no version {name!r} of the damage map; there are: {listed(known) or 'none'}.", "Name one of them."
        )
    n_files, files = sum(path.is_file() for path in (layout.exports / name).iterdir()), [f"exports/{name}"]
    lines = (
        f"Version {name} goes, with its {plural(n_files, 'file')}. Copies that you handed out do not change.",
        "The map shows the run of the version published last among those that are left, unless you chose a run yourself.",
        f"No other version will be called {name}; the next one is v{versions.next_number(layout)}.",
        f"Its run stays. {_LABELS_STAY}",
    )
    return Plan("export", name, f"version {name} of the damage map", _with_size(layout, lines, files), files)


def _chips(layout: Layout, name: str) -> Plan:
    with store.connect(layout) as db:
        chip_set = contents.chosen_chip_set(db, None if name in ("", "latest") else name)
        others = [one for one in contents.chip_sets(db) if one != chip_set]
        n, used = contents.chip_count(db, chip_set), [one.run_id for one in runs.all_runs(db) if one.chip_set == chip_set]
    _check_closed(layout, "chip_set", chip_set)
    files, sets = chip_files(layout, chip_set), [one.name for one in feature_sets.all_sets(layout, chip_set)]
    lines = (
        f"{plural(n, 'chip')} of {chip_set} go, with their features: {listed(sets) or 'none'}.",
        f"Annotate, ranking and training use the chips {others[0]} then."
        if others
        else "No chips are left: cut them again before you rank, train or use the queue.",
        _used_by(used),
        _LABELS_STAY,
    )
    return Plan("chips", chip_set, f"chips {chip_set}", _with_size(layout, lines, files), files, {"chip_sets": [chip_set]})


def _used_by(used: Sequence[str]) -> str | None:
    if not used:
        return None
    return (
        f"{plural(len(used), 'run')} of them cannot be resumed or placed anew until they are back: {listed(used)}. "
        "Their scores and maps stay."
    )


def chip_files(layout: Layout, chip_set: str) -> list[str]:
    """Return what to move away of a chip set, in the project's folder. Its facts stay: maps and audits of its runs read
    them.
    """
    folder = layout.chips(chip_set).parent
    found = [path for path in folder.glob(f"{chip_set}.*") if path != layout.chip_facts(chip_set)]
    return sorted(f"{folder.name}/{path.name}" for path in found)


def _features(layout: Layout, name: str) -> Plan:
    chip_set, _, feature_set = name.rpartition(".")  # of the newest chips where none are named
    with store.connect(layout) as db:
        chip_set = contents.chosen_chip_set(db, chip_set or None)
        is_chosen = feature_sets.chosen(db) == feature_set and contents.latest_chip_set(db) == chip_set
        found = runs.all_runs(db)
    feature_sets.require_removable(layout, chip_set, feature_set)
    paths = (one(chip_set, feature_set) for one in (layout.feature_facts, layout.features, layout.maker))
    looks = feature_sets.look_files(layout, chip_set, feature_set)
    files = [str(path.relative_to(layout.folder)) for path in (*paths, *looks)]
    lines = (
        f"The features {feature_set} of the chips {chip_set} go.",
        f"They are the set in use: until they are back, it is {RCF}." if is_chosen else None,
        _used_by([one.run_id for one in found if (one.chip_set, one.feature_set) == (chip_set, feature_set)]),
        _LABELS_STAY,
    )
    return Plan("features", f"{chip_set}.{feature_set}", f"features {feature_set}", _with_size(layout, lines, files), files)


# Scenes, layers and footprints


def _scene(layout: Layout, name: str, paths: Sequence[str] = ()) -> Plan:
    with store.connect(layout) as db:
        scenes, newest = contents.scenes(db), contents.latest_chip_set(db)
        n_chips = contents.chip_count(db, newest) if newest else 0
    name = id_of(scenes, name)
    one = next((scene for scene in scenes if scene.scene_id == name), None)
    if one is None:
        known = ", ".join(scene.scene_id for scene in scenes) or "none"
        raise ProjectError(f"This project has no scene {name!r}; its scenes are: {known}.", "Name one of them.")
    left = [scene for scene in scenes if scene is not one]
    post = [scene for scene in left if scene.role == "post"]
    if not paths and one.role == "post" and not post:
        _check_first(layout, one, left)
    new, copied = listed([Path(path).name for path in paths]), scene_files(layout, [one], paths)
    where = "its copy in the project goes with it" if copied else "its file stays where it is"
    n_others = sum(scene.role == one.role for scene in left)
    lines = (
        f"The {one.role}-event scene {one.scene_id} goes; {where}.",
        f"{new} takes its place; the map is drawn anew."
        if new
        else f"The map is drawn anew from the other {plural(n_others, f'{one.role}-event scene')}."
        if n_others
        else f"There is no {one.role}-event imagery then.",
        f"{plural(n_chips, 'chip')} were cut with it: out of date until you cut chips again." if n_chips else None,
        *(
            f"{site.name} goes with it: {plural(site.n_buildings, 'building')} stay, and are not assessed."
            for site in sites(layout)
            if not paths and left and site.post == (name,)
        ),
        f"{_ALIGNED_ANEW} {_RUNS_STAY} {_LABELS_STAY}",
    )
    files = [*copied, "quicklooks"]
    return Plan(
        "scene",
        name,
        f"scene {name}, replaced by {new}" if new else f"scene {name}",
        _with_size(layout, lines, files),
        files,
        task="replace_scene" if new else "remove_scene",
        args={"name": name, **({"path": paths[0]} if new else {})},
    )


def _check_first(layout: Layout, one: Scene, left: Sequence[Scene]) -> None:
    """Refuse to remove the last post-event scene while other things depend on the grid that it gives."""
    with store.connect(layout) as db:
        n, chip_sets, n_layers = contents.count_footprints(db), contents.chip_sets(db), len(contents.layers(db))
    counts = {"footprint": n, "chip set": len(chip_sets), "pre-event scene": len(left), "layer": n_layers}
    there = [plural(n, what) for what, n in counts.items() if n]
    if there:
        raise ProjectError(
            f"{one.scene_id} is the only post-event scene: it gives the project its grid, and {', '.join(there)} are "
            "placed on it.",
            "Replace it by another file, or remove those first.",
            kind="last",
        )


def scene_files(layout: Layout, gone: Sequence[Scene], new: Sequence[str] = ()) -> list[str]:
    """Return the files of scenes that were copied into the project, with what gives them their place; none of another scene.

    Args:
        new: paths of files that take their place.
    """
    ids, folder = {scene.scene_id for scene in gone}, layout.path("sources")
    others = [scene.path for scene in store.call(layout, contents.all_scenes) if scene.scene_id not in ids]
    used = {part for path in (*others, *new) for part in with_sidecars(Path(path).absolute())}
    owned = [Path(scene.path) for scene in gone if Path(scene.path).is_relative_to(folder)]
    found = {part for path in owned for part in with_sidecars(path) if part not in used and part.is_file()}
    return sorted(str(path.relative_to(layout.folder)) for path in found)


_BESIDE = "tfw tifw tiffw pgw pngw jgw jpgw jpegw j2w jp2w wld prj json aux aux.xml ovr msk"  # labels of xBD are JSON


def with_sidecars(path: Path) -> list[Path]:
    """Return a picture and the files beside it that can be of it alone: world files, coordinate systems, statistics,
    overviews, labels.
    """
    wanted = {f"{start}.{ending}".lower() for start in (path.stem, path.name) for ending in _BESIDE.split()}
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return [one for one in there if one == path or one.name.lower() in wanted]


def _layer(layout: Layout, name: str, paths: Sequence[str] = ()) -> Plan:
    one = layers.find(layout, name)
    with store.connect(layout) as db:
        chip_sets = contents.chip_sets(db)
    facts = contents.chip_facts(layout, chip_sets[0]) if chip_sets and layout.chip_facts(chip_sets[0]).is_file() else {}
    n_chips = len(facts["building_ids"]) if name in facts.get("view_missing", {}) else 0
    new, copied = listed([Path(path).name for path in paths]), scene_files(layout, one.scenes, paths)
    files = [str(layout.layer_tiles(name).relative_to(layout.folder)), *copied]
    where = "copies in the project go with it" if copied else "files outside of the project stay where they are"
    lines = (
        f"The layer {name} ({plural(one.bands, 'band')}, {plural(len(one.scenes), 'file')}) goes; {where}.",
        f"In its place, with a new scaling: {new}." if new else None,
        f"The newest {plural(n_chips, 'chip')} hold it: out of date until you cut chips again." if n_chips else None,
        f"{_RUNS_STAY} {_LABELS_STAY}",
    )
    return Plan(
        "layer",
        name,
        f"layer {name}, replaced by {new}" if new else f"layer {name}",
        _with_size(layout, lines, files),
        files,
        change=lambda db: contents.exchange_layer(db, one.scenes, ()),
        task="replace_layer" if new else "",
        args={"name": name, "paths": [*paths]},
    )


def _footprints(layout: Layout, name: str) -> Plan:
    gone = chosen_footprints(layout, name)
    n, counted = store.call(layout, contents.count_footprints), plural(len(gone), "footprint")
    lines = (f"{counted} of {n:,} go.", *answers_among(layout, gone))
    is_group = name.startswith(_GROUPS)

    def change(db: sqlite3.Connection) -> None:
        contents.remove_footprints(db, gone, by_list=not is_group)

    return footprint_plan(
        layout, name if is_group else counted, counted, lines, gone, change, task="remove_footprints", args={"name": name}
    )


def chosen_footprints(layout: Layout, name: str) -> list[str]:
    """Return the ids of the footprints that a person named, see `plan`. Raises ProjectError if it is not known which they
    are.
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
            found = list(dict.fromkeys(json.loads(name))) if name.startswith("[") else [name]
            if unknown := sorted(set(found) - set(ids)):
                raise ProjectError(f"This project has no building {unknown[0]!r}.", "Name ids that it has.")
    if not found:
        raise ProjectError("There are no such footprints.", "Name others, or `all`.")
    return found


def answers_among(layout: Layout, gone: Sequence[str]) -> list[str]:
    """Return in a sentence which of some footprints have an answer that counts no more once they go; none where none has."""
    given = store.call(layout, labels.current_labels)
    counts = Counter(given[building] for building in gone if building in given)
    if not counts:
        return []
    each = ", ".join(f"{n:,} {LABEL_WORDS[label]}" for label, n in counts.most_common())
    return [
        f"{plural(counts.total(), 'building')} with an answer ({each}) are among them: "
        f"{listed([one for one in gone if one in given])}. "
        "Their answers stay in the history, and count again if a building is added where they stood."
    ]


def footprint_plan(
    layout: Layout,
    name: str,
    title: str,
    lines: Sequence[str | None],
    ids: Sequence[str],
    change: Callable[[sqlite3.Connection], None],
    *,
    runs: Sequence[str] = (),
    task: str = "",
    args: Mapping[str, Any] | None = None,
) -> Plan:
    """Return what a change of some footprints will do: the chips that hold one of them go, as the chip wall finds chips by
    the number of their footprint.

    Args:
        lines: what goes; sentences that are None are left out.
        runs: those whose scores `change` changes.

    Raises:
        ProjectError: where open checks forbid it.
    """
    gone = set(ids)
    found = store.call(layout, contents.chip_sets)
    chip_sets = [one for one in found if not gone.isdisjoint(contents.chip_facts(layout, one)["building_ids"])]
    for chip_set in chip_sets:
        _check_closed(layout, "chip_set", chip_set)
    files = [file for one in chip_sets for file in chip_files(layout, one)]
    chip_words = (
        f"The chips {listed(chip_sets)} go with their features: chips are numbered by footprints. Cut chips again before "
        "you rank, train or use the queue."
    )

    def change_all(db: sqlite3.Connection) -> None:
        change(db)
        db.execute("DELETE FROM chip_set WHERE chip_set IN (SELECT value FROM json_each(?))", (json.dumps(chip_sets),))

    every = (*lines, chip_words if chip_sets else None, f"{_RUNS_STAY} Published versions stay as they are. {_LABELS_STAY}")
    return Plan(
        "footprints", name, title, _with_size(layout, every, files), files, {"runs": [*runs], "chip_sets": chip_sets},
        change_all, task, args or {},
    )  # fmt: skip


def start_replacing_footprints(
    layout: Layout, path: str, analyst: str, *, confirmed: Sequence[str] | None = None, shift: bool = False
) -> None:  # fmt: skip
    """Start the job that compares a footprint file with what is here, or, once its plan was confirmed, puts it there."""
    if not path:
        raise PuGeoError("No footprint file was named.", "Choose a file of building footprints, or write its path.")
    args = {"path": path, "analyst": analyst, "shift": shift, "confirmed": confirmed}
    jobs.start(layout, "replace_footprints", args)


KINDS: Mapping[Kind, Callable[[Layout, str], Plan]] = {
    "scene": _scene,
    "layer": _layer,
    "footprints": _footprints,
    "run": _run,
    "export": _export,
    "chips": _chips,
    "features": _features,
}


# What was removed


def removed(layout: Layout) -> list[Removal]:
    """Return what was removed and is still there, newest first: the first can be brought back."""
    return store.call(layout, removals.not_ended)


def removed_row(layout: Layout, one: Removal) -> dict[str, Any]:
    """Return a removal as JSON, with its size and its time in words."""
    n_bytes = removals.bytes_of([one.folder(layout)])
    about = {"kind": one.kind, "name": one.name, "title": str(one.facts["title"]), "analyst": one.analyst}
    return {**about, "removed_at": one.at, "at": day_and_time(one.at), "bytes": n_bytes, "size": size(n_bytes)}


def reclaim_words(n: int, n_bytes: int) -> str:
    """Return what reclaiming the space of removals does, in a sentence."""
    if not n:
        return "There is nothing to reclaim."
    return f"{size(n_bytes)} are freed; {plural(n, 'removal')} can then not be undone any more."


def undo(layout: Layout, analyst: str) -> Removal:
    """Bring back what was removed last. Raises as `removals.undo`, and JobError if a job that it concerns is active."""
    with jobs.none_starting(layout):
        for one in removed(layout)[:1]:
            _check_free(layout, one.kind, one.name, "")
        done = removals.undo(layout, analyst=analyst)
    chosen.chosen_run(layout)
    return done


def reclaimable(layout: Layout, older_than_days: float = 0) -> tuple[list[Removal], int]:
    """Return the removals whose space can be reclaimed, and how many bytes that is.

    Args:
        older_than_days: of those removed before that many days alone.
    """
    until = (datetime.now(UTC) - timedelta(days=older_than_days)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = [one for one in removed(layout) if not older_than_days or one.at < until]
    return found, removals.bytes_of(one.folder(layout) for one in found)
