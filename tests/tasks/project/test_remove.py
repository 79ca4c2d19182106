"""Remove, replace, undo, reclaim: each kind leaves every listing, and comes back equal, rows and bytes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
import shapely.affinity
import shapely.geometry
from cli_parts import CommandLine
from small_parts import REPOSITORY, add_chips, add_run, answer, job_of, op_of, square_table

from pu_geo import jobs
from pu_geo.errors import ImageryError, JobError, ProjectError
from pu_geo.project import backups, contents, feature_sets, import_log, labels, removals, runs, store, versions
from pu_geo.project.layout import Layout
from pu_geo.project.removals import Kind
from pu_geo.services.imagery import preparation, scene_files, scene_pair
from pu_geo.services.project import choices, projects, removing
from pu_geo.services.project.copying import copy_project
from pu_geo.tasks.imagery.footprints import add_aoi
from pu_geo.tasks.project import remove as task

_LOGS = ("removal", "removal_end", "sqlite_sequence", "pinned_run")
_KEPT = ("trash", "jobs", "backups")


def rows(layout: Layout) -> dict[str, list[object]]:
    """All rows of all tables, but of the logs that a removal itself writes."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in _LOGS}
    for name in ("gpkg_contents",):
        found[name] = [(*row[:4], *row[5:]) for row in found[name]]
    found["pugeo_meta"] = [row for row in found["pugeo_meta"] if row[0] != "geometry_v"]  # each change names them anew
    return found


def files(layout: Layout) -> dict[str, bytes]:
    """The bytes of all files, but of the database, jobs and trash."""
    found = {}
    for path in sorted(layout.folder.rglob("*")):
        parts = path.relative_to(layout.folder).parts
        is_draft = any(".new" in part for part in parts)  # of a job that was killed: the next one writes it anew
        if (
            path.is_file()
            and not is_draft
            and parts[0] not in _KEPT
            and not path.name.startswith("project.")
            and not path.name.endswith("lock")
        ):
            found["/".join(parts)] = path.read_bytes()
    return found


def state(layout: Layout) -> tuple[object, object]:
    return rows(layout), files(layout)


def published(layout: Layout, number: int = 1, run_id: str = "ranker-1") -> None:
    """Write a version, as `publish` leaves it."""
    folder = layout.exports / f"v{number}"
    folder.mkdir(parents=True)
    facts = {"version": f"v{number}", "made_at": store.now(), "run_id": run_id, "threshold": 0.5, "n": 20, "flagged": 3}
    (folder / "version.json").write_text(json.dumps(facts))
    (folder / "map.csv").write_text("building_id\n")


def town_run(layout: Layout) -> str:
    """A second run of the ranked town, which is not the one that is shown."""
    first = choices.chosen_run(layout)
    assert first is not None
    choices.choose_run(layout, first.run_id)
    ids = runs.building_ids_of(layout, first.run_id)
    add_run(layout, "ranker-2", ids=ids, scores=np.linspace(0, 1, len(ids)), like=first.run_id)
    choices.chosen_run(layout)
    return "ranker-2"


def remove(layout: Layout, kind: Kind, name: str) -> int:
    """Remove a thing by whatever removes it, and return the number of the removal."""
    found = removing.task_of(removing.plan(layout, kind, name))
    if found is None:
        return removing.remove(layout, kind, name, "ann").number
    return int(str(getattr(task, found[0])(job_of(layout, "remove"), **found[1], analyst="ann")["removal"]))


def feature_set(layout: Layout) -> str:
    """Give the newest chips a second set of features."""
    chip_set = store.call(layout, contents.chosen_chip_set)
    shutil.copy(layout.features(chip_set), layout.features(chip_set, "other-1"))
    feature_sets.write_maker(layout, chip_set, "other-1", {"a": np.zeros(2)})
    found = feature_sets.FeatureSet("other-1", {"kind": "other"}, *feature_sets.views(layout, chip_set).shape)
    feature_sets.put(layout, chip_set, found)
    return "other-1"


def first_ids(layout: Layout, n: int = 3) -> list[str]:
    return store.call(layout, contents.building_ids)[:n]


def layer(layout: Layout) -> str:
    """Give a town two layers: the picture of its post scene, once more and in one band."""
    from pu_geo.tasks.imagery.layers import add_layer

    (post,) = (scene.path for scene in store.call(layout, contents.scenes) if scene.role == "post")
    for name in ("again", "kept"):
        add_layer(job_of(layout, "layer"), name=name, paths=[post])
    return "again"


NAMES: dict[Kind, Callable[[Layout], str]] = {
    "run": town_run,
    "export": lambda layout: (published(layout), "v1")[1],
    "chips": lambda layout: store.call(layout, contents.chosen_chip_set),
    "features": feature_set,
    "scene": lambda _: "pre-1",
    "layer": layer,
    "footprints": lambda layout: json.dumps(first_ids(layout)),
}


def listed(layout: Layout, kind: Kind) -> list[str]:
    """What each screen and command lists of a kind."""
    with store.connect(layout) as db:
        chip_sets = contents.chip_sets(db)
        return {
            "run": [one.run_id for one in runs.all_runs(db)],
            "export": [f"v{number}" for number in versions.numbers(layout)],
            "chips": chip_sets,
            "features": [one.name for chip_set in chip_sets for one in feature_sets.all_sets(layout, chip_set)],
            "scene": [scene.scene_id for scene in contents.scenes(db)],
            "layer": [one.name for one in contents.layers(db)],
            "footprints": contents.building_ids(db),
        }[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", removing.KINDS)
def test_a_removed_thing_is_listed_nowhere_and_comes_back_equal(kind: Kind, ranked_town: Layout) -> None:
    name = NAMES[kind](ranked_town)
    wanted = {*json.loads(name)} if kind == "footprints" else {name}
    before = state(ranked_town)
    assert wanted <= {*listed(ranked_town, kind)}
    number = remove(ranked_town, kind, name)
    assert wanted.isdisjoint(listed(ranked_town, kind))
    assert state(ranked_town) != before
    assert [one.number for one in removing.removed(ranked_town)] == [number]
    removing.undo(ranked_town, number, "ann")
    after = state(ranked_town)
    assert after[1] == before[1]
    assert after[0] == before[0]
    assert removing.removed(ranked_town) == []
    with pytest.raises(ProjectError, match="was undone already"):
        removing.undo(ranked_town, number, "ann")
    remove(ranked_town, kind, name)  # once more, from where it was


@pytest.mark.slow
@pytest.mark.parametrize("kind", removing.KINDS)
def test_reclaimed_space_is_free_and_its_removal_cannot_be_undone(kind: Kind, ranked_town: Layout) -> None:
    number = remove(ranked_town, kind, NAMES[kind](ranked_town))
    found, n_bytes = removing.reclaimable(ranked_town)
    assert ([one.number for one in found], n_bytes) == ([number], removals.trash_bytes(ranked_town))
    assert n_bytes > 0
    assert removing.reclaimable(ranked_town, older_than_days=1) == ([], 0)
    assert removing.reclaim(ranked_town, [number], "ann") == n_bytes
    assert removals.trash_bytes(ranked_town) == 0
    with pytest.raises(ProjectError, match="its space was reclaimed"):
        removing.undo(ranked_town, number, "ann")


# What is left copes


def use_everything(layout: Layout) -> None:
    """Draw every page, ask what the browser asks, and publish; whatever refuses does so in words."""
    from app_parts import show, show_tab

    from pu_geo.errors import PuGeoError
    from pu_geo.services.annotate import queueing, ranking
    from pu_geo.services.damage_map import exporting, mapping
    from pu_geo.services.explore import exploring
    from pu_geo.services.imagery import image_quality
    from pu_geo.services.train import results, run_card
    from pu_geo.tasks.damage_map.publish import publish
    from pu_geo.tasks.explore.embed import embed
    from pu_geo.tasks.train.train import rank

    for page in ("project", "imagery", "annotate", "train", "explore", "damage_map"):
        show(page, layout)
    for tab in ("Export", "Areas", "Accuracy assessment"):
        show_tab(layout, tab)
    found = store.call(layout, runs.all_runs)
    asks: list[Callable[[], object]] = [
        lambda: queueing.advance(layout, "ann", done=None),
        lambda: ranking.scores_for_browser(layout, "live"),
        lambda: image_quality.shifts_for_browser(layout),
        lambda: results.table(layout, found),
        lambda: projects.summary(layout),
        lambda: publish(job_of(layout, "publish"), run_id="chosen", threshold=0.5, formats=["geojson", "csv"]),
        lambda: rank(job_of(layout, "rank")),
        *(
            ask
            for run in found
            for ask in (
                lambda run=run: ranking.scores_for_browser(layout, run.run_id),
                lambda run=run: run_card.card(layout, run.run_id),
                lambda run=run: exporting.summary(layout, run.run_id, 0.5),
                lambda run=run: exporting.classes_now(layout, run.run_id, 0.5),
                lambda run=run: mapping.at_threshold(layout, run.run_id, 0.5),
                lambda run=run: exploring.n_unplaced(layout, run.run_id),
                lambda run=run: exploring.chip_pictures(layout, run.run_id, first_ids(layout)),
                lambda run=run: embed(job_of(layout, "embed"), run_id=run.run_id),
            )
        ),
    ]
    for ask in asks:
        with suppress(PuGeoError):  # a refusal in words is fine
            ask()


@pytest.mark.long
@pytest.mark.parametrize("kind", removing.KINDS)
def test_all_screens_and_tasks_cope_with_what_is_gone(kind: Kind, ranked_town: Layout) -> None:
    from pu_geo.tasks.damage_map.publish import publish

    name = NAMES[kind](ranked_town)
    if kind != "export":
        publish(job_of(ranked_town, "publish"), run_id="chosen", threshold=0.5, formats=["geojson"])
    remove(ranked_town, kind, name)
    use_everything(ranked_town)


@pytest.mark.long
def test_all_screens_and_tasks_cope_without_any_footprint_or_run(ranked_town: Layout) -> None:
    remove(ranked_town, "footprints", "all")
    use_everything(ranked_town)
    (run,) = store.call(ranked_town, runs.all_runs)
    remove(ranked_town, "run", run.run_id)
    use_everything(ranked_town)


# Kills: wherever a process is killed, the thing is there, or removed and can be brought back

_KILLED = """
    import json, os, signal, sys
    from pathlib import Path
    sys.path.insert(0, "tests")
    from small_parts import job_of
    from pu_geo.project import removals
    from pu_geo.project.layout import Layout
    from pu_geo.services.project import removing
    from pu_geo.tasks.project import remove as task
    layout, kind, name, step = Layout(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
    count = [0]
    def deadly(function):
        def stepped(*given, **more):
            count[0] += 1
            if count[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*given, **more)
            count[0] += 1
            if count[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return stepped
    for each in ("_rename", "_change_rows", "_state_of", "write_json", "_move_away", "_move_back", "_put_back", "_end"):
        setattr(removals, each, deadly(getattr(removals, each)))
    if name == "undo":
        removing.undo(layout, 1, "ann")
    else:
        found = removing.task_of(removing.plan(layout, kind, name))
        if found is None:
            removing.remove(layout, kind, name, "ann")
        else:
            getattr(task, found[0])(job_of(layout, "killed"), **found[1], analyst="ann")
"""


def killed_at(layout: Layout, kind: Kind, name: str, step: int) -> bool:
    """Remove, or undo, in a process that is killed at a step; return whether it came that far."""
    code = [sys.executable, "-c", textwrap.dedent(_KILLED), str(layout.folder), kind, name, str(step)]
    ended = subprocess.run(code, check=False, cwd=REPOSITORY, capture_output=True, text=True).returncode
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def test_each_kill_leaves_a_run_in_place_or_removed(project: Layout) -> None:
    all_kills(
        project,
        "run",
        lambda layout: (add_run(layout, "r-1"), add_run(layout, "r-2"), choices.choose_run(layout, "r-1"), "r-2")[-1],
        3,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", removing.KINDS)
def test_each_kill_leaves_a_thing_in_place_or_removed(kind: Kind, ranked_town: Layout) -> None:
    all_kills(ranked_town, kind, NAMES[kind], 1)


def all_kills(layout: Layout, kind: Kind, name_of: Callable[[Layout], str], every: int) -> None:
    """Kill a removal, and then its undo, at each step that a removal has, or at every so many."""
    name = name_of(layout)
    before = state(layout)
    keep = layout.folder.with_name("keep.pugeo")
    shutil.copytree(layout.folder, keep)
    step, ways = 1, set[str]()
    while killed_at(layout, kind, name, step):
        projects.open_project(str(layout.folder))
        numbers = [one.number for one in removing.removed(layout)]
        ways.add("removed" if numbers else "there")
        for number in numbers:
            removing.undo(layout, number, "ann")
        assert state(layout) == before, f"after a kill at step {step}"
        shutil.rmtree(layout.folder)
        shutil.copytree(keep, layout.folder)
        step += every
    assert ways == {"removed", "there"}
    removed_state = state(projects.find(layout.folder))
    shutil.rmtree(keep)
    shutil.copytree(layout.folder, keep)
    step = 1
    while killed_at(layout, kind, "undo", step):
        projects.open_project(str(layout.folder))
        assert state(layout) == (removed_state if removing.removed(layout) else before), f"undo killed at step {step}"
        shutil.rmtree(layout.folder)
        shutil.copytree(keep, layout.folder)
        step += every
    assert state(layout) == before


# Labels


def write_footprints(path: Path, layout: Layout, ids: Sequence[str], *, moved: Sequence[str] = (), new: int = 0) -> str:
    """Write a GeoJSON file of some of the project's footprints, some of them moved by a metre, and new ones."""
    with store.connect(layout) as db:
        outline_of = dict(zip(ids, map(shapely.from_wkb, contents.outlines(db, ids)), strict=True))
        crs = contents.grid(db).crs
    shapes = {
        building: shapely.affinity.translate(each, 1.0 if building in moved else 0.0)
        for building, each in outline_of.items()
    }
    first = shapes[ids[0]]
    shapes |= {f"n{i}": shapely.affinity.translate(first, 0.0, -3.0 - i) for i in range(new)}
    features = [
        {"type": "Feature", "properties": {"id": building}, "geometry": shapely.geometry.mapping(each)}
        for building, each in shapes.items()
    ]
    name = f"urn:ogc:def:crs:EPSG::{crs.removeprefix('EPSG:')}"
    path.write_text(
        json.dumps(
            {"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": name}}, "features": features}
        )
    )
    return str(path)


@pytest.mark.slow
def test_labels_survive_by_id_where_footprints_are_replaced(ranked_town: Layout, tmp_path: Path) -> None:
    ids, before = store.call(ranked_town, contents.building_ids), state(ranked_town)
    answers = store.call(ranked_town, labels.current_labels)
    clicked = list(answers)
    file = write_footprints(tmp_path / "new.geojson", ranked_town, ids[:1] + ids[3:], moved=[ids[4]], new=1)
    planned = task.replace_footprints(job_of(ranked_town, "dry"), path=file, analyst="ann", dry_run=True)
    assert planned["removal"] is None
    assert state(ranked_town) == before
    words = " ".join(planned["plan"])  # type: ignore[call-overload]
    assert f"{len(ids) - 3} stay as they are, 1 get another outline, 1 are new, 2 are not in the new file and go" in words
    assert f"{len({*ids[1:3]} & {*clicked})} buildings with an answer" in words
    with pytest.raises(ProjectError, match="since the two were compared"):
        task.replace_footprints(job_of(ranked_town, "late"), path=file, analyst="ann", confirmed=["another plan"])
    confirmed: Any = planned["plan"]
    number = int(
        str(task.replace_footprints(job_of(ranked_town, "do"), path=file, analyst="ann", confirmed=confirmed)["removal"])
    )
    assert store.call(ranked_town, contents.building_ids) == [*ids[:1], *ids[3:], "n0"]
    kept = {building: label for building, label in answers.items() if building not in ids[1:3]}
    assert store.call(ranked_town, labels.current_labels) == kept
    assert projects.summary(ranked_town).n_positive == sum(label == "positive" for label in kept.values())
    assert store.call(ranked_town, labels.pu_set).is_positive.sum() == sum(label == "positive" for label in kept.values())
    again = write_footprints(tmp_path / "again.geojson", ranked_town, ids[:1], new=0)
    removing.undo(ranked_town, number, "ann")
    assert state(ranked_town) == before
    assert store.call(ranked_town, labels.current_labels) == answers
    assert again


@pytest.mark.slow
def test_labels_of_a_building_count_again_once_a_later_file_has_it(ranked_town: Layout, tmp_path: Path) -> None:
    from pu_geo.tasks.imagery.footprints import add_footprints

    answers = store.call(ranked_town, labels.current_labels)
    building = next(iter(answers))
    file = write_footprints(tmp_path / "one.geojson", ranked_town, [building])
    events = store.call(ranked_town, labels.last_event)
    remove(ranked_town, "footprints", json.dumps([building]))
    assert building not in store.call(ranked_town, labels.current_labels)
    with store.connect(ranked_town) as db:
        assert db.execute("SELECT count(*) FROM label_event WHERE building_id = ?", (building,)).fetchone()[0] > 0
    add_footprints(job_of(ranked_town, "add"), path=file)
    assert store.call(ranked_town, labels.current_labels) == answers
    assert store.call(ranked_town, labels.last_event) == events


def test_a_click_while_footprints_are_removed_is_not_lost(project: Layout) -> None:
    stored, stop = list[str](), threading.Event()

    def clicks() -> None:
        while not stop.is_set():
            op = op_of("b5")
            answer(project, op)
            stored.append(op.op)

    clicking = threading.Thread(target=clicks)
    clicking.start()
    try:
        for _ in range(5):
            number = remove(project, "footprints", json.dumps(["b1", "b2"]))
            removing.undo(project, number, "ann")
    finally:
        stop.set()
        clicking.join()
    with store.connect(project) as db:
        found = {row[0] for row in db.execute("SELECT op FROM label_event")}
    assert stored
    assert {*stored} <= found


# Refusals, numbers, and what follows


def test_a_version_number_is_never_given_again(project: Layout) -> None:
    published(project, 1)
    published(project, 2)
    removing.remove(project, "export", "v2", "ann")
    assert versions.next_number(project) == 3
    with versions.new_version(project) as (number, _):
        assert number == 3
    removing.reclaim(project, [1], "ann")
    removing.remove(project, "export", "v3", "ann")
    assert versions.next_number(project) == 4


def test_the_run_that_is_shown_goes_once_another_is_shown(project: Layout) -> None:
    add_run(project, "r-1")
    add_run(project, "r-2")
    choices.choose_run(project, "r-1")
    with pytest.raises(ProjectError, match="is the run that the map and all screens show") as caught:
        removing.remove(project, "run", "r-1", "ann")
    assert "--run r-2" in caught.value.hint
    choices.choose_run(project, "r-2")
    removing.remove(project, "run", "r-1", "ann")
    assert store.call(project, runs.pinned) == "r-2"
    removing.remove(project, "run", "r-2", "ann")  # the last one
    assert store.call(project, runs.pinned) is None
    with store.connect(project) as db:
        assert db.execute("SELECT DISTINCT run_id, not_assessed_reason FROM damage_map").fetchall() == [(None, "no_run")]


def test_nothing_is_removed_while_a_job_may_use_it(project: Layout) -> None:
    add_run(project, "r-1")
    published(project)
    folder, lock = jobs.create_held(project, "train", {"method": "ncpu"})
    try:
        with pytest.raises(JobError, match=rf"Job {folder.name} \(train\) is active and may use what is to be removed"):
            remove(project, "footprints", json.dumps(["b1"]))
        removing.remove(project, "export", "v1", "ann")  # a training reads none
    finally:
        os.close(lock)
    remove(project, "footprints", json.dumps(["b1"]))


def test_the_last_post_scene_stays_while_footprints_are_placed_on_its_grid(project: Layout) -> None:
    with pytest.raises(ProjectError, match=r"is the only post-event scene.*20 footprints") as caught:
        removing.plan(project, "scene", "post-1")
    assert "Replace it" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("run", "r-9", "no run 'r-9'"), ("export", "v7", "no version 'v7'"), ("scene", "pre-9", "no scene 'pre-9'"),
        ("chips", "none", "no chips"), ("footprints", "outside-aoi", "no area of interest"),
        ("footprints", "file:x.gpkg", "No file 'x.gpkg' was added"), ("footprints", '["b99"]', "no building 'b99'"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_in_words(kind: Kind, name: str, words: str, project: Layout) -> None:
    with pytest.raises(ProjectError, match=words):
        removing.plan(project, kind, name)
    assert not project.trash.exists()


def test_an_undo_does_not_mix_with_what_was_added_since(project: Layout) -> None:
    first = remove(project, "footprints", json.dumps(["b1"]))
    second = remove(project, "footprints", json.dumps(["b2"]))
    with pytest.raises(ProjectError, match="Scenes or footprints changed since removal 1"):
        removing.undo(project, first, "ann")
    removing.undo(project, second, "ann")
    removing.undo(project, first, "ann")
    assert store.call(project, contents.count_footprints) == 20


def test_a_backup_from_before_a_removal_brings_its_files_back(project: Layout) -> None:
    add_run(project, "r-1")
    add_run(project, "r-2")
    choices.choose_run(project, "r-1")
    before = state(project)
    removing.remove(project, "run", "r-2", "ann")
    backup = backups.newest(project)
    assert backup is not None
    assert backup.reason == "removal"
    for tail in ("", "-wal", "-shm"):
        project.gpkg.with_name(f"project.gpkg{tail}").unlink(missing_ok=True)
    shutil.copy(backup.path, project.gpkg)
    projects.find(project.folder)
    assert {k: v for k, v in files(project).items() if not k.startswith("backups")} == before[1]
    assert rows(project) == before[0]


def test_a_copy_leaves_the_trash_behind(project: Layout, tmp_path: Path) -> None:
    published(project)
    removing.remove(project, "export", "v1", "ann")
    assert removals.trash_bytes(project) > 0
    copy = Layout(Path(str(copy_project(project, str(tmp_path / "copy.pugeo"))["out"])))
    assert not copy.trash.exists()
    with pytest.raises(ProjectError, match=r"are not in .*trash.* any more"):
        removing.undo(copy, 1, "ann")


@pytest.mark.slow
def test_chips_that_were_cut_again_are_not_overwritten_by_an_undo(ranked_town: Layout) -> None:
    from pu_geo.tasks.imagery.chip import chip

    name = store.call(ranked_town, contents.chosen_chip_set)
    number = remove(ranked_town, "chips", name)
    assert chip(job_of(ranked_town, "chip"))["chip_set"] == name
    before = files(ranked_town)
    with pytest.raises(ProjectError, match="they were cut anew"):
        removing.undo(ranked_town, number, "ann")
    projects.find(ranked_town.folder)
    assert files(ranked_town) == before


@pytest.mark.slow
def test_a_scene_is_replaced_in_its_place(town: Path, ranked_town: Layout, tmp_path: Path) -> None:
    before = state(ranked_town)
    other = tmp_path / "other.tif"
    shutil.copy(town / "pre.tif", other)
    with pytest.raises(ImageryError, match="has the same content as post-1"):
        task.replace_scene(job_of(ranked_town, "same"), name="post-1", path=str(town / "post.tif"), analyst="ann")
    done = task.replace_scene(job_of(ranked_town, "do"), name="post-1", path=str(other), analyst="ann")
    found = store.call(ranked_town, contents.scenes)
    assert [(scene.scene_id, scene.role) for scene in found] == [("pre-1", "pre"), ("post-2", "post")]
    chips = preparation.overview(ranked_town).chips
    assert "changed after the chips were cut" in scene_pair.judge(ranked_town, chips).stale
    removing.undo(ranked_town, int(str(done["removal"])), "ann")
    assert state(ranked_town) == before
    assert scene_pair.judge(ranked_town, chips).stale == ""


def test_a_scene_whose_date_or_place_changed_since_goes_when_its_replacement_is_undone(
    ranked_town: Layout, town: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.tif"
    shutil.copy(town / "pre.tif", other)
    done = task.replace_scene(job_of(ranked_town), name="post-1", path=str(other), analyst="ann")
    scene_pair.set_dates(ranked_town, {"post-2": date(2011, 5, 29)})
    scene_files.relink(ranked_town, "post-2", str(other.rename(tmp_path / "moved.tif")))
    removing.undo(ranked_town, int(str(done["removal"])), "ann")
    assert [scene.scene_id for scene in store.call(ranked_town, contents.scenes)] == ["pre-1", "post-1"]


def test_a_removal_that_misses_another_scenes_file_names_the_command_that_finds_it(ranked_town: Layout) -> None:
    with store.connect(ranked_town) as db:
        db.execute("UPDATE scene SET facts = json_set(facts, '$.path', '/gone/post.tif') WHERE scene_id = 'post-1'")
    with pytest.raises(ImageryError, match=f"`pu-geo relink {ranked_town.folder} /gone/post.tif NEW_FILE`"):
        task.remove_scene(job_of(ranked_town), name="pre-1", analyst="ann")


def test_files_of_another_scene_or_of_none_stay_where_a_scene_goes(project: Layout) -> None:
    folder = project.folder / "sources"
    folder.mkdir(exist_ok=True)
    own = [
        "img.tif",
        "img.tfw",
        "img.TFW",
        "img.prj",
        "img.json",
        "img.tif.aux.xml",
        "img.tif.ovr",
        "img.tif.msk",
        "img.wld",
    ]
    for name in (*own, "img.2.tif", "img.2.tfw", "img.2.tif.aux.xml", "img.geojson", "img.gpkg", "img.tif.txt"):
        (folder / name).write_text("x")
    scene = store.call(project, contents.scenes)[0]
    gone, left = (replace(scene, scene_id=name, path=str(folder / name)) for name in ("img.tif", "img.2.tif"))
    assert removing.scene_files(project, [gone], [left]) == sorted(f"sources/{name}" for name in own)


@pytest.mark.parametrize(
    ("name", "world"), [("a.png", "a.pgw"), ("a.png", "a.pngw"), ("a.jpg", "a.jgw"), ("a.jpeg", "a.jgw")]
)
def test_world_files_of_pictures_go_with_them(name: str, world: str, project: Layout) -> None:
    folder = project.folder / "sources"
    folder.mkdir(exist_ok=True)
    for each in (name, world):
        (folder / each).write_text("x")
    gone = replace(store.call(project, contents.scenes)[0], path=str(folder / name))
    assert removing.scene_files(project, [gone], []) == sorted(f"sources/{each}" for each in (name, world))


def test_footprints_of_one_file_or_outside_an_area_go_alone(project: Layout) -> None:
    with store.connect(project) as db:
        import_log.import_footprints(db, square_table(22), "more.geojson")
    add_aoi(
        job_of(project, "aoi"),
        text="SRID=32615;POLYGON((500000 4000000, 500040 4000000, 500040 4000008, 500000 4000008, 500000 4000000))",
    )
    assert removing.chosen_footprints(project, "file:more.geojson") == ["b20", "b21"]
    remove(project, "footprints", "file:more.geojson")
    remove(project, "footprints", "outside-aoi")
    assert store.call(project, contents.building_ids) == ["b0", "b1", "b2"]


# Commands


def test_a_command_lists_the_plan_first_and_asks(project: Layout, run: CommandLine) -> None:
    add_run(project, "r-1")
    add_run(project, "r-2")
    choices.choose_run(project, "r-1")
    folder = project.folder
    assert "r-2" in run.text("remove", folder, "run", "r-2", "--dry-run")
    assert "nobody is here to confirm it" in run.refused("remove", folder, "run", "r-2")
    assert [one.run_id for one in store.call(project, runs.all_runs)] == ["r-2", "r-1"]
    assert "pu-geo undo-removal" in run.text("remove", folder, "run", "r-2", "--yes")
    assert run.json("removed", folder)["name"] == "r-2"
    assert "Brought back" in run.text("undo-removal", folder, 1)
    assert "Nothing was removed" in run.text("removed", folder)
    run.text("remove", folder, "footprints", "b1", "b2", "--yes")
    assert store.call(project, contents.count_footprints) == 18
    assert "can then not be undone" in run.refused("empty-trash", folder)
    assert "cannot be undone any more" in run.text("empty-trash", folder, "--yes")
    assert "its space was reclaimed" in run.refused("undo-removal", folder, 2)


def test_a_run_whose_chips_were_removed_says_so(project: Layout) -> None:
    from pu_geo.services.explore import exploring
    from pu_geo.services.train import run_card

    ids = [f"b{i}" for i in range(20)]
    add_chips(project, ids, "set", chips=np.zeros((20, 3, 16, 16), np.uint8), features=np.zeros((1, 20, 4), np.float16))
    add_run(project, "r-1")
    assert not any("were removed" in one for one in run_card.card(project, "r-1")["warnings"])
    number = remove(project, "chips", "set")
    assert any("The chips set that it learned from were removed" in one for one in run_card.card(project, "r-1")["warnings"])
    with pytest.raises(ProjectError, match="The chips set were removed") as caught:
        exploring.chip_pictures(project, "r-1", ["b1"])
    assert "Bring them back" in caught.value.hint
    removing.undo(project, number, "ann")
    assert len(exploring.chip_pictures(project, "r-1", ["b1"])) == 1


def test_the_card_of_a_run_keeps_the_labels_that_it_learned_from(project: Layout) -> None:
    from pu_geo.services.train import run_card

    answer(project, op_of("b1", "not_damaged"), op_of("b2"))
    add_run(project, "r-1", at_event=2)
    before = run_card.card(project, "r-1")["labels"]
    remove(project, "footprints", json.dumps(["b1"]))
    assert run_card.card(project, "r-1")["labels"] == before
    assert store.call(project, labels.current_labels) == {"b2": "positive"}


@pytest.mark.slow
def test_a_command_replaces_footprints_after_it_compared_them(ranked_town: Layout, run: CommandLine, tmp_path: Path) -> None:
    folder, ids = ranked_town.folder, store.call(ranked_town, contents.building_ids)
    file = write_footprints(tmp_path / "new.geojson", ranked_town, ids[1:])
    assert "1 are not in the new file and go" in run.text("replace", folder, "footprints", file, "--dry-run")
    assert "nobody is here to confirm it" in run.refused("replace", folder, "footprints", file)
    assert store.call(ranked_town, contents.building_ids) == ids
    assert "brings back what was there" in run.text("replace", folder, "footprints", file, "--yes")
    assert store.call(ranked_town, contents.building_ids) == ids[1:]
    assert "holds the footprints that are here already" in run.refused("replace", folder, "footprints", file, "--yes")
    assert "takes the id of a scene and a file" in run.refused("replace", folder, "scene", file)
    run.text("undo-removal", folder, 1)
    assert store.call(ranked_town, contents.building_ids) == ids


def test_the_doctor_names_the_space_and_takes_nothing_removed_for_a_leftover(project: Layout) -> None:
    from pu_geo.tasks.project import doctor

    add_chips(project, [f"b{i}" for i in range(20)], "set", chips=np.zeros((20, 3, 16, 16), np.uint8))
    remove(project, "chips", "set")
    found = {one.about: one for one in doctor.examine(project)}
    assert "1 removal can be undone" in found["trash"].words
    assert "orphans" not in found
