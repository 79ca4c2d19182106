"""Remove, bring back and reclaim on the screens: the dialog lists what goes, and nothing goes before it is confirmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from app_parts import press, show, show_tab, words
from small_parts import add_chips, add_run

from pu_geo import jobs
from pu_geo.project import contents, removals, runs, store, versions
from pu_geo.project.layout import Layout
from pu_geo.services.project import choices, removing

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def two_runs(project: Layout) -> Layout:
    """A project with two runs, of which r-1 is shown, chips, and a version of the map."""
    add_chips(project, [f"b{i}" for i in range(20)])
    add_run(project, "r-1")
    add_run(project, "r-2")
    choices.choose_run(project, "r-1")
    folder = project.exports / "v1"
    folder.mkdir(parents=True)
    facts = {"version": "v1", "made_at": store.now(), "run_id": "r-1", "threshold": 0.5, "n": 20, "flagged": 3}
    (folder / "version.json").write_text(json.dumps(facts))
    return project


def test_a_run_goes_once_its_dialog_is_confirmed_and_comes_back(two_runs: Layout) -> None:
    app = press(show("train", two_runs), "remove-run")
    assert "All labels stay" in words(app)
    assert len(store.call(two_runs, runs.all_runs)) == 2
    press(app, "removal-do")
    assert [one.run_id for one in store.call(two_runs, runs.all_runs)] == ["r-1"]
    app = show("project", two_runs)
    assert "Removed: 1" in words(app) + "".join(one.label for one in app.expander)
    press(app, "undo-removal-1")
    assert len(store.call(two_runs, runs.all_runs)) == 2
    assert not any("Removed" in one.label for one in show("project", two_runs).expander)


def test_what_cannot_be_removed_is_said_in_the_dialog(two_runs: Layout) -> None:
    app = show("train", two_runs)
    next(one for one in app.selectbox if one.key == "run-to-remove").set_value("r-1").run()
    app = press(app, "remove-run")
    assert "is the run that the map and all screens show" in words(app)
    assert not [one for one in app.button if one.key == "removal-do"]


def test_keep_it_changes_nothing(two_runs: Layout) -> None:
    app = press(press(show("train", two_runs), "remove-run"), "removal-keep")
    assert removing.removed(two_runs) == []
    assert not [one for one in app.button if one.key == "removal-do"]


def test_a_version_goes_and_its_space_is_reclaimed(two_runs: Layout) -> None:
    app = press(show_tab(two_runs, "Export"), "remove-v1")
    assert "the next one is v2" in words(app)
    press(app, "removal-do")
    assert versions.numbers(two_runs) == []
    press(show("project", two_runs), "reclaim")
    assert removals.trash_bytes(two_runs) == 0
    assert removing.removed(two_runs) == []


def test_chips_and_footprints_go_from_the_imagery_screen(two_runs: Layout) -> None:
    app = press(press(show("imagery", two_runs), "remove-chips"), "removal-do")
    assert store.call(two_runs, contents.chip_sets) == []
    next(one for one in app.toggle if one.key == "change-footprints").set_value(True).run()
    app = press(press(app, "remove-footprints"), "removal-do")
    (job,) = (one for one in jobs.all_jobs(two_runs) if one.task == "remove_footprints")
    jobs.wait(two_runs, job.job_id, seconds=60)
    assert store.call(two_runs, contents.count_footprints) == 0
    for page in ("imagery", "annotate", "train", "explore", "damage_map", "project"):
        show(page, two_runs)


def test_a_scene_can_be_replaced_from_its_row(two_runs: Layout, tmp_path: Path) -> None:
    app = show("imagery", two_runs)
    next(one for one in app.toggle if one.key == "change-scenes").set_value(True).run()
    next(one for one in app.text_input if one.key == "scene_new_path").set_value(str(tmp_path / "new.tif")).run()
    app = press(app, "replace-scene")
    assert "new.tif takes its place" in words(app).replace("\\", "")


def test_reclaiming_takes_what_was_listed_and_nothing_that_was_removed_since(two_runs: Layout) -> None:
    add_run(two_runs, "r-3")
    removing.start(two_runs, removing.plan(two_runs, "run", "r-2"), "ann")
    app = show("project", two_runs)
    removing.start(two_runs, removing.plan(two_runs, "run", "r-3"), "bob")
    press(app, "reclaim")
    assert [one.name for one in removing.removed(two_runs)] == ["r-3"]
    assert removals.trash_bytes(two_runs) > 0


def test_a_list_that_changed_since_it_was_drawn_is_drawn_again_and_nothing_goes(two_runs: Layout) -> None:
    app = press(show("imagery", two_runs), "remove-chips")
    before = words(app)
    add_run(two_runs, "r-9")
    app = press(app, "removal-do")
    assert "changed since this list was drawn" in words(app)
    assert words(app) != before
    assert store.call(two_runs, contents.chip_sets) == ["set"]
    press(app, "removal-do")
    assert store.call(two_runs, contents.chip_sets) == []


def test_a_dialog_ends_with_the_visit_of_its_screen(two_runs: Layout) -> None:
    app = press(show("imagery", two_runs), "remove-chips")
    assert [one for one in app.button if one.key == "removal-do"]
    app.session_state["visit"] = 2  # as the frame counts when other screens were drawn meanwhile
    app.run()
    assert not [one for one in app.button if one.key == "removal-do"]
