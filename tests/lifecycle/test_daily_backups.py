"""Projects that are open are backed up once a day, without anybody waiting for it."""

import errno
import os
import shutil
import threading
import time

import pytest
from small_parts import click

from pu_geo.lifecycle import daily_backups
from pu_geo.store import backups, in_use, store
from pu_geo.store.layout import Layout


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process opened projects, too."""
    monkeypatch.setattr(in_use, "_held", {})
    monkeypatch.setattr(daily_backups, "_next", {})
    monkeypatch.setattr(daily_backups, "_failed", {})


def test_one_that_fails_is_kept_in_words_and_tried_again_later(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(project.folder)
    in_use.let_go(project)
    assert daily_backups.back_up_open_projects() == []  # nobody has one open
    click(project, "b1")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=0))
        assert daily_backups.back_up_open_projects() == []
    assert "No space left" in str(daily_backups.problem(project))
    click(project, "b2")  # work goes on
    assert daily_backups.back_up_open_projects() == []  # not before an hour has passed
    monkeypatch.setattr(daily_backups, "_next", {})
    (made,) = daily_backups.back_up_open_projects()
    assert (made.reason, made.at_event, daily_backups.problem(project)) == ("daily", 2, None)
    click(project, "b3")
    monkeypatch.setattr(daily_backups, "_next", {})
    assert daily_backups.back_up_open_projects() == []  # one a day


def test_what_one_project_has_holds_up_no_other(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    click(project, "b1")
    unplugged, moved = (Layout(project.folder.with_name(f"{name}.pugeo")) for name in ("unplugged", "moved"))
    unplugged.folder.mkdir()
    unplugged.gpkg.touch()
    make = backups.make_daily

    def make_daily(layout: Layout) -> backups.Backup | None:
        if layout == unplugged:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(layout)

    monkeypatch.setattr(backups, "make_daily", make_daily)
    monkeypatch.setattr(in_use, "held_here", lambda: [unplugged, moved, project])
    assert len(daily_backups.back_up_open_projects()) == 1
    assert "No backup of unplugged.pugeo was made" in str(daily_backups.problem(unplugged))
    assert (daily_backups.problem(project), daily_backups.problem(moved), moved.folder.exists()) == (None, None, False)


@pytest.mark.slow
def test_clicks_are_stored_while_a_backup_is_made(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    copy = backups._copy
    monkeypatch.setattr(backups, "_copy", lambda *paths: (copy(*paths), may_end.wait(20)))
    monkeypatch.setattr(daily_backups, "_ROUND_S", 0.05)
    store.open_project(project.folder)
    ended = daily_backups.start()
    click(project, "b1", "b2", "b3")
    assert backups.all_backups(project) == []
    may_end.set()
    for _ in range(1000):
        if not backups.all_backups(project):
            time.sleep(0.02)
    ended.set()
    assert len(backups.all_backups(project)) == 1
