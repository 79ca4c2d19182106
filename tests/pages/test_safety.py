"""Backups, restore, check, remove, bring back and reclaim on the screens: nothing goes before it is confirmed."""

import json
from pathlib import Path

import pytest
from app_parts import field, plain, press, show, show_tab, words
from small_parts import add_chips, add_run, click, logged_job
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.errors import ProjectError
from pu_geo.lifecycle import daily_backups, removing
from pu_geo.lifecycle.doctor_job import examine, report_of
from pu_geo.store import backups, chosen, contents, labels, removals, runs, store, versions
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.usefixtures("home")


def test_a_backup_is_made_on_request_and_a_failed_one_named(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    click(project, "b1")
    app = show("project", project)
    assert "There is no backup yet." in words(app)
    logged_job(project, "doctor", ("done", {"result": report_of(examine(project))}))
    monkeypatch.setitem(daily_backups._failed, project.folder, ProjectError("No space left.", "Make room."))
    app = press(app, "back-up")
    (made,) = backups.all_backups(project)
    assert (made.reason, made.at_event) == ("asked", 1)
    assert "backup on request · labels up to event 1" in words(app)
    assert "The daily backup failed." in words(app)
    assert "checks found nothing wrong." in words(app)


def test_a_restore_opens_the_new_project_and_names_what_came_over(project: Layout, tmp_path: Path) -> None:
    backups.make(project, "asked")
    click(project, "b1")
    app = show("project", project)
    field(app, "New folder").set_value(str(tmp_path / "again"))
    app = press(app.run(), "restore-now")
    assert app.session_state["project"] == str(tmp_path / "again.pugeo")
    assert "1 newer label event was taken from the journal" in "".join(str(one.value) for one in app.success)
    with store.connect(Layout(tmp_path / "again.pugeo")) as db:
        assert labels.current_labels(db) == {"b1": "positive"}


def test_a_restore_that_cannot_be_is_refused_in_words(project: Layout) -> None:
    made = backups.make(project, "asked")
    app = show("project", project)
    made.path.write_bytes(b"x" * made.n_bytes)
    app = press(app, "restore-now")
    assert "no backup of event.pugeo that is whole" in plain(app)
    assert app.session_state["project"] == str(project.folder)


@pytest.fixture
def two_runs(project: Layout) -> Layout:
    """A project with two runs, of which r-1 is shown, chips, and a version of the map."""
    add_chips(project, [f"b{i}" for i in range(20)])
    add_run(project, "r-1")
    add_run(project, "r-2")
    chosen.choose_run(project, "r-1")
    folder = project.exports / "v1"
    folder.mkdir(parents=True)
    facts = {
        "version": "v1", "made_at": store.now(), "run_id": "r-1", "threshold": 0.5, "threshold_origin": "person", "n": 20, "flagged": 3,
        "confirmed": 0, "not_assessed": 0, "units": "buildings", "n_changes": None, "estimate": {"estimate": None}, "audit_id": "no accuracy assessment",
    }  # fmt: skip
    (folder / "version.json").write_text(json.dumps(facts))
    return project


def has_dialog(app: AppTest) -> bool:
    return "removal-do" in {one.key for one in app.button}


def test_a_run_goes_once_its_dialog_is_confirmed_and_comes_back(two_runs: Layout) -> None:
    app = show("train", two_runs)
    app.selectbox(key="run-to-remove").set_value("r-1").run()
    app = press(app, "remove-run")
    assert "is the run that the map and all screens show" in words(app)
    assert not has_dialog(app)
    app = press(press(show("train", two_runs), "remove-run"), "removal-keep")
    assert (removing.removed(two_runs), has_dialog(app)) == ([], False)
    app = press(app, "remove-run")
    assert "All labels stay" in words(app)
    assert len(store.call(two_runs, runs.all_runs)) == 2
    press(app, "removal-do")
    assert [one.run_id for one in store.call(two_runs, runs.all_runs)] == ["r-1"]
    app = show("project", two_runs)
    assert "Removed: 1" in words(app) + "".join(one.label for one in app.expander)
    press(app, "undo-removal-1")
    assert len(store.call(two_runs, runs.all_runs)) == 2
    assert not any("Removed" in one.label for one in show("project", two_runs).expander)


def test_a_version_goes_and_its_space_is_reclaimed(two_runs: Layout) -> None:
    app = press(show_tab(two_runs, "Versions"), "remove-v1")
    assert "the next one is v2" in words(app)
    press(app, "removal-do")
    assert versions.numbers(two_runs) == []
    press(show("project", two_runs), "reclaim")
    assert removals.bytes_of([two_runs.trash]) == 0
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


def test_a_list_that_changed_since_it_was_drawn_is_drawn_again_and_nothing_goes(two_runs: Layout) -> None:
    app = press(show("imagery", two_runs), "remove-chips")
    assert has_dialog(app)
    app.session_state["visit"] = 2  # as the frame counts when other screens were drawn meanwhile
    assert not has_dialog(app.run())
    app = press(app, "remove-chips")
    before = words(app)
    add_run(two_runs, "r-9")
    app = press(app, "removal-do")
    assert "changed since this list was drawn" in words(app)
    assert words(app) != before
    assert store.call(two_runs, contents.chip_sets) == ["set"]
    press(app, "removal-do")
    assert store.call(two_runs, contents.chip_sets) == []
