"""Remove, replace, undo, reclaim: each kind leaves every listing, and comes back equal, rows and bytes."""

import itertools
import json
import os
import shutil
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely
from cli_parts import CommandLine
from scale_parts import clicking, stored_clicks
from small_parts import add_chips, add_run, answer, in_tiers, job_of, op_of, square_table

from pu_geo import jobs
from pu_geo.errors import ImageryError, JobError, ProjectError
from pu_geo.lifecycle import doctor_job, projects, removing
from pu_geo.lifecycle import remove_job as task
from pu_geo.lifecycle.copying import copy_project
from pu_geo.maps import run_card
from pu_geo.scenes import pictures, preparation, scene_files, scene_pair
from pu_geo.scenes.footprints_job import add_aoi
from pu_geo.scenes.layers_job import add_layer
from pu_geo.scenes.scenes_job import Drawn
from pu_geo.store import chosen, contents, feature_sets, import_log, labels, removals, runs, store, versions
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout
from pu_geo.store.removals import Kind

_LOGS = ("removal", "removal_end", "sqlite_sequence", "pinned_run")
_KEPT = ("trash", "jobs", "backups")


def rows(layout: Layout) -> dict[str, list[object]]:
    """All rows of all tables, but of the logs that a removal itself writes."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in _LOGS}
    found["gpkg_contents"] = [(*row[:4], *row[5:]) for row in found["gpkg_contents"]]
    found["pugeo_meta"] = [row for row in found["pugeo_meta"] if row[0] != "geometry_v"]  # each change names them anew
    return {name: found[name] if name == "scene" else sorted(found[name], key=repr) for name in found}


def files(layout: Layout) -> dict[str, bytes]:
    """The bytes of all files, but of the database, jobs and trash."""
    found = {}
    for path in sorted(layout.folder.rglob("*")):
        parts = path.relative_to(layout.folder).parts
        is_draft = any(".new" in part for part in parts)  # of a job that was killed: the next one writes it anew
        is_own = parts[0] in _KEPT or path.name.startswith("project.") or path.name.endswith("lock")
        if path.is_file() and not is_draft and not is_own:
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


@pytest.fixture
def two_runs(project: Layout) -> Layout:
    """A project with the runs r-1, which is shown, and r-2."""
    for name in ("r-1", "r-2"):
        add_run(project, name)
    chosen.choose_run(project, "r-1")
    return project


def town_run(layout: Layout) -> str:
    """A second run of the ranked town, which is not the one that is shown."""
    first = chosen.chosen_run(layout)
    chosen.choose_run(layout, first.run_id)
    ids = runs.building_ids_of(layout, first.run_id)
    add_run(layout, "ranker-2", ids=ids, scores=np.linspace(0, 1, len(ids)), like=first.run_id)
    chosen.chosen_run(layout)
    return "ranker-2"


def remove(layout: Layout, kind: Kind, name: str) -> None:
    """Remove a thing by whatever removes it."""
    found = removing.plan(layout, kind, name)
    if found.task:
        getattr(task, found.task)(job_of(layout, "remove"), **found.args, analyst="ann")
    else:
        removing.start(layout, found, "ann")


def feature_set(layout: Layout) -> str:
    """Give the newest chips a second set of features."""
    chip_set = store.call(layout, contents.chosen_chip_set)
    shutil.copy(layout.features(chip_set), layout.features(chip_set, "other-1"))
    feature_sets.write_maker(layout, chip_set, "other-1", {"a": np.zeros(2)})
    found = feature_sets.FeatureSet("other-1", {"kind": "other"}, *feature_sets.views(layout, chip_set).shape)
    feature_sets.put(layout, chip_set, found)
    return "other-1"


def layer(layout: Layout) -> str:
    """Give a town two layers: the picture of its post scene, once more and in one band."""
    (post,) = (scene.path for scene in store.call(layout, contents.scenes) if scene.role == "post")
    for name in ("again", "kept"):
        add_layer(job_of(layout, "layer"), name=name, paths=[post])
    return "again"


NAMES: dict[Kind, Callable[[Layout], str]] = {
    "run": town_run,
    "export": lambda layout: (published(layout), "v1")[1],
    "chips": lambda layout: store.call(layout, contents.chosen_chip_set),
    "features": feature_set,
    "scene": lambda _: "pre",
    "layer": layer,
    "footprints": lambda layout: json.dumps(store.call(layout, contents.building_ids)[:3]),
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
def test_a_removed_thing_comes_back_equal_until_its_space_is_reclaimed(kind: Kind, ranked_town: Layout) -> None:
    name = NAMES[kind](ranked_town)
    wanted = {*json.loads(name)} if kind == "footprints" else {name}
    before = state(ranked_town)
    assert wanted <= {*listed(ranked_town, kind)}
    remove(ranked_town, kind, name)
    assert wanted.isdisjoint(listed(ranked_town, kind))
    assert state(ranked_town) != before
    assert [one.kind for one in removing.removed(ranked_town)] == [kind]
    removing.undo(ranked_town, "ann")
    assert state(ranked_town) == before
    remove(ranked_town, kind, name)  # once more, from where it was
    (again,), n_bytes = removing.reclaimable(ranked_town)
    assert n_bytes == removals.bytes_of([ranked_town.trash]) > 0
    assert removing.reclaimable(ranked_town, older_than_days=1) == ([], 0)
    assert removals.reclaim(ranked_town, [again.number], analyst="ann") == n_bytes
    assert (removals.bytes_of([ranked_town.trash]), removing.removed(ranked_town)) == (0, [])
    with pytest.raises(ProjectError, match="Nothing was removed that could be brought back"):
        removing.undo(ranked_town, "ann")


# Kills: wherever a process is killed, the thing is there, or removed and can be brought back

STEPS = ("move_path", "remove_path", "write_json", "_put_rows", "_state_of", "_settle", "_end", "not_ended")


def killed_at(act: Callable[[], object], step: int) -> bool:
    """Do something in a process that is killed right before a step of it; return whether it came that far."""
    pid, left = os.fork(), [step]
    if pid == 0:
        signal.alarm(300)  # a fork that hangs is a failure, and not the end of all tests
        try:
            for each in STEPS:
                setattr(removals, each, partial(_pass_by, left, getattr(removals, each)))
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def _pass_by(left: list[int], function: Callable[..., object], *given: object, **more: object) -> object:
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*given, **more)


@pytest.mark.slow
@pytest.mark.parametrize("kind", in_tiers(removing.KINDS, "kills", quick=["run"], ci=["footprints"]))
def test_each_kill_leaves_a_thing_in_place_or_removed(
    kind: Kind, ranked_town: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each kill of its undo, at each step that they have. Maps are copied, not drawn: GDAL's threads are not in a fork."""

    def drawn(job: Job, *_: object, **__: object) -> Drawn:
        fresh = job.layout.quicklooks.with_name("quicklooks.new")
        shutil.rmtree(fresh, ignore_errors=True)
        return Drawn([], Path(shutil.copytree(job.layout.quicklooks, fresh)), None, [])

    monkeypatch.setattr(task, "drawn", drawn)
    layout, name = ranked_town, NAMES[kind](ranked_town)
    before, keep, ways = state(layout), layout.folder.with_name("keep.pugeo"), set[str]()
    shutil.copytree(layout.folder, keep)
    for step in itertools.count(1):
        if not killed_at(lambda: remove(layout, kind, name), step):
            break
        projects.open_project(str(layout.folder))
        is_removed = bool(removing.removed(layout))
        ways.add("removed" if is_removed else "there")
        if is_removed:
            removing.undo(layout, "ann")
        assert state(layout) == before, f"after a kill at step {step}"
        put_back(keep, layout)
    assert ways == {"removed", "there"}
    removed_state = state(projects.find(layout.folder))
    put_back(layout.folder, Layout(keep))
    for step in itertools.count(1):
        if not killed_at(lambda: removing.undo(layout, "ann"), step):
            break
        projects.open_project(str(layout.folder))
        assert state(layout) == (removed_state if removing.removed(layout) else before), f"undo killed at step {step}"
        put_back(keep, layout)
    assert state(layout) == before


def put_back(source: Path, layout: Layout) -> None:
    shutil.rmtree(layout.folder)
    shutil.copytree(source, layout.folder)


def test_a_click_while_footprints_are_removed_is_not_lost(project: Layout) -> None:
    with clicking(project, ["b5"]) as clicked:
        for _ in range(5):
            remove(project, "footprints", json.dumps(["b1", "b2"]))
            removing.undo(project, "ann")
    assert clicked
    assert stored_clicks(project) == clicked


# Refusals, numbers, and what follows


def test_the_run_that_is_shown_goes_once_another_is_shown(two_runs: Layout) -> None:
    with pytest.raises(ProjectError, match="is the run that the map and all screens show") as caught:
        remove(two_runs, "run", "r-1")
    assert "--run r-2" in caught.value.hint
    chosen.choose_run(two_runs, "r-2")
    remove(two_runs, "run", "r-1")
    assert store.call(two_runs, runs.pinned) == "r-2"
    remove(two_runs, "run", "r-2")  # the last one
    assert store.call(two_runs, runs.pinned) is None
    with store.connect(two_runs) as db:
        assert db.execute("SELECT DISTINCT run_id, not_assessed_reason FROM damage_map").fetchall() == [(None, "no_run")]


def test_nothing_is_removed_while_a_job_may_use_it(project: Layout) -> None:
    add_run(project, "r-1")
    published(project)
    folder, lock = jobs.create_held(project, "train", {"method": "ncpu"})
    try:
        with pytest.raises(JobError, match=rf"Job {folder.name} \(train\) is active and may use what is to be removed"):
            remove(project, "footprints", json.dumps(["b1"]))
        remove(project, "export", "v1")  # a training reads none
    finally:
        os.close(lock)
    folder, lock = jobs.create_held(project, "look", {"source": "r-1"})
    try:
        remove(project, "footprints", json.dumps(["b1"]))  # a picture is drawn of chips and embeddings alone
        with pytest.raises(JobError, match=rf"Job {folder.name} \(look\) is active"):
            remove(project, "run", "r-1")
    finally:
        os.close(lock)


def test_what_is_not_there_or_is_needed_is_refused(project: Layout) -> None:
    refused: list[tuple[Kind, str, str]] = [
        ("run", "r-9", "no run 'r-9'"), ("export", "v7", "no version 'v7'"), ("scene", "pre-9", "no scene 'pre-9'"),
        ("chips", "none", "no chips"), ("footprints", "outside-aoi", "no area of interest"),
        ("footprints", "file:x.gpkg", "No file 'x.gpkg' was added"), ("footprints", '["b99"]', "no building 'b99'"),
        ("scene", "post-1", r"is the only post-event scene.*20 footprints"),
    ]  # fmt: skip
    for kind, name, words in refused:
        with pytest.raises(ProjectError, match=words):
            removing.plan(project, kind, name)
    assert not project.trash.exists()


def test_the_newest_comes_back_first_and_not_into_what_was_added_since(project: Layout) -> None:
    for name in ("b1", "b2"):
        remove(project, "footprints", name)
    with store.connect(project) as db:
        import_log.import_footprints(db, square_table(22), "more.geojson")
    with pytest.raises(ProjectError, match="cannot be brought back: scenes or footprints were added"):
        removing.undo(project, "ann")
    assert store.call(project, contents.count_footprints) == 22
    with store.connect(project) as db:
        db.execute("DELETE FROM footprints WHERE fid > 20")
    for n, count in (("b2", 19), ("b1", 20)):
        removing.undo(project, "ann")
        assert n in store.call(project, contents.building_ids)
        assert store.call(project, contents.count_footprints) == count


def test_a_copy_leaves_the_trash_behind(project: Layout, tmp_path: Path) -> None:
    published(project)
    remove(project, "export", "v1")
    assert removals.bytes_of([project.trash]) > 0
    copy = Layout(Path(str(copy_project(project, str(tmp_path / "copy.pugeo"))["out"])))
    assert not copy.trash.exists()
    with pytest.raises(ProjectError, match=r"are not in .*trash.* any more"):
        removing.undo(copy, "ann")


@pytest.mark.slow
def test_a_scene_is_replaced_in_its_place(town: Path, ranked_town: Layout, tmp_path: Path) -> None:
    before = state(ranked_town)
    other = tmp_path / "other.tif"
    shutil.copy(town / "pre.tif", other)
    with pytest.raises(ImageryError, match="has the same content as post,"):
        task.replace_scene(job_of(ranked_town, "same"), name="post.tif", path=str(town / "post.tif"), analyst="ann")
    task.replace_scene(job_of(ranked_town, "do"), name="post", path=str(other), analyst="ann")
    found = store.call(ranked_town, contents.scenes)
    assert [(scene.scene_id, scene.role) for scene in found] == [("pre", "pre"), ("other", "post")]
    chips = preparation.overview(ranked_town).chips
    assert "The chips show post, which was removed" in scene_pair.judge(ranked_town, chips).stale
    scene_pair.set_dates(ranked_town, {"other": date(2011, 5, 29)})  # it goes all the same
    scene_files.relink(ranked_town, "other.tif", str(other.rename(tmp_path / "moved.tif")))
    removing.undo(ranked_town, "ann")
    assert state(ranked_town) == before
    assert scene_pair.judge(ranked_town, chips).stale == ""


def test_files_of_another_scene_or_of_none_stay_where_a_scene_goes(project: Layout) -> None:
    folder = project.folder / "sources"
    folder.mkdir(exist_ok=True)
    scene = store.call(project, contents.scenes)[0]
    suffixes = ("tif", "tfw", "TFW", "prj", "json", "tif.aux.xml", "tif.ovr", "tif.msk", "wld")
    own = [f"img.{suffix}" for suffix in suffixes]
    for name in (*own, "img.2.tif", "img.2.tfw", "img.2.tif.aux.xml", "img.geojson", "img.gpkg", "img.tif.txt"):
        (folder / name).write_text("x")
    gone, left = (replace(scene, scene_id=name, path=str(folder / name)) for name in ("img.tif", "img.2.tif"))
    assert removing.scene_files(project, [gone], [left.path]) == sorted(f"sources/{name}" for name in own)


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


def test_a_command_lists_the_plan_first_and_asks(two_runs: Layout, run: CommandLine) -> None:
    project, folder = two_runs, two_runs.folder
    assert "r-2" in run.text("remove", folder, "run", "r-2", "--dry-run")
    assert "nobody is here to confirm it" in run.refused("remove", folder, "run", "r-2")
    assert [one.run_id for one in store.call(project, runs.all_runs)] == ["r-2", "r-1"]
    assert "pu-geo repair undo-removal" in run.text("remove", folder, "run", "r-2", "--yes")
    assert run.json("repair", "removed", folder)["name"] == "r-2"
    assert "Brought back" in run.text("repair", "undo-removal", folder)
    assert "Nothing was removed" in run.text("repair", "removed", folder)
    run.text("remove", folder, "footprints", "b1", "b2", "--yes")
    assert store.call(project, contents.count_footprints) == 18
    assert "can then not be undone" in run.refused("repair", "empty-trash", folder)
    assert "cannot be undone any more" in run.text("repair", "empty-trash", folder, "--yes")
    assert "Nothing was removed that could" in run.refused("repair", "undo-removal", folder)


def test_a_run_whose_chips_or_footprints_were_removed_says_so_and_keeps_its_labels(project: Layout) -> None:
    def warned() -> bool:
        return any(
            "The chips set that it learned from were removed" in one for one in run_card.card(project, "r-1")["warnings"]
        )

    ids = [f"b{i}" for i in range(20)]
    add_chips(project, ids, "set", chips=np.zeros((20, 3, 16, 16), np.uint8), features=np.zeros((1, 20, 4), np.float16))
    answer(project, op_of("b1", "not_damaged"), op_of("b2"))
    add_run(project, "r-1", at_event=2)
    known = run_card.card(project, "r-1")["labels"]
    assert not warned()
    remove(project, "chips", "set")
    assert warned()
    with pytest.raises(ProjectError, match="The chips set were removed"):
        pictures.of_run(project, "r-1", ["b1"])
    removing.undo(project, "ann")
    assert len(pictures.of_run(project, "r-1", ["b1"])) == 1
    remove(project, "footprints", json.dumps(["b1"]))
    assert run_card.card(project, "r-1")["labels"] == known
    assert store.call(project, labels.current_labels) == {"b2": "positive"}


@pytest.mark.slow
def test_a_command_replaces_footprints_after_it_compared_them(ranked_town: Layout, run: CommandLine, tmp_path: Path) -> None:
    folder, ids = ranked_town.folder, store.call(ranked_town, contents.building_ids)
    with store.connect(ranked_town) as db:
        shapes, crs = shapely.from_wkb(contents.outlines(db, ids[1:])), contents.grid(db).crs
    file = tmp_path / "new.geojson"
    geopandas.GeoDataFrame({"id": ids[1:]}, geometry=shapes, crs=crs).to_file(file)
    with pytest.raises(ProjectError, match="since the two were compared"):
        task.replace_footprints(job_of(ranked_town), path=str(file), analyst="ann", confirmed=["another plan"])
    assert "1 have no building at their place in the new file and go" in run.text(
        "replace", folder, "footprints", file, "--dry-run"
    )
    assert "nobody is here to confirm it" in run.refused("replace", folder, "footprints", file)
    assert store.call(ranked_town, contents.building_ids) == ids
    assert "brings back what was there" in run.text("replace", folder, "footprints", file, "--yes")
    assert store.call(ranked_town, contents.building_ids) == ids[1:]
    assert "holds the footprints that are here already" in run.refused("replace", folder, "footprints", file, "--yes")
    assert "takes a scene and a file" in run.refused("replace", folder, "scene", file)
    run.text("repair", "undo-removal", folder)
    assert store.call(ranked_town, contents.building_ids) == ids


def test_the_doctor_names_the_space_and_takes_nothing_removed_for_a_leftover(project: Layout) -> None:
    add_chips(project, [f"b{i}" for i in range(20)], "set", chips=np.zeros((20, 3, 16, 16), np.uint8))
    remove(project, "chips", "set")
    found = {one.about: one for one in doctor_job.examine(project)}
    assert "1 removal can be undone" in found["trash"].words
    assert "orphans" not in found
