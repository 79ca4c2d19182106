"""Backups, restore and check on the Project screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_parts import field, plain, press, show, words
from small_parts import click, unheld_job

from pu_geo.errors import ProjectError
from pu_geo.project import backups, events, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.project import daily_backups
from pu_geo.tasks.project.doctor import examine, report_of

pytestmark = pytest.mark.usefixtures("home")


def test_a_backup_is_made_on_request_and_named(project: Layout) -> None:
    click(project, "b1")
    app = show("project", project)
    assert "There is no backup yet." in words(app)
    app = press(app, "back-up")
    (made,) = backups.all_backups(project)
    assert (made.reason, made.at_event) == ("asked", 1)
    assert "backup on request · labels up to event 1" in words(app)


def test_a_restore_opens_the_new_project_and_names_what_came_over(project: Layout, tmp_path: Path) -> None:
    backups.make(project, "asked")
    click(project, "b1")
    app = show("project", project)
    field(app, "New folder").set_value(str(tmp_path / "again"))
    app = press(app.run(), "restore-now")
    assert app.session_state["project"] == str(tmp_path / "again.pugeo")
    assert "1 newer label event was recovered" in "".join(str(one.value) for one in app.success).replace("\\", "")
    with store.connect(Layout(tmp_path / "again.pugeo")) as db:
        assert labels.current_labels(db) == {"b1": "positive"}


def test_a_restore_that_cannot_be_is_refused_in_words(project: Layout) -> None:
    made = backups.make(project, "asked")
    app = show("project", project)
    made.path.write_bytes(b"x" * made.n_bytes)
    app = press(app, "restore-now")
    assert "sha256" in plain(app)
    assert app.session_state["project"] == str(project.folder)


def test_a_daily_backup_that_failed_is_named(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(daily_backups._failed, project.folder, ProjectError("No space left.", "Make room."))
    assert "The daily backup failed." in words(show("project", project))


def test_what_the_check_found_is_listed(project: Layout) -> None:
    folder = unheld_job(project, "doctor", {})
    for event, facts in (("launched", {}), ("done", {"result": report_of(examine(project))})):
        events.append(folder, event, facts)
    shown = plain(show("project", project))
    assert "There is no backup." in shown
    assert "checks found nothing wrong." in shown
