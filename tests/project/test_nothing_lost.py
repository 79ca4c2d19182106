"""Clicks of several people, runs and backups at the same time, and a kill: nothing that was acknowledged is lost."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from small_parts import REPOSITORY, add_run

from pu_geo.project import backups, runs, store
from pu_geo.project.layout import Layout

CLICKING = """
import sys
from threading import Thread
from pu_geo.project import labels, store
from pu_geo.records import LabelOp
layout = store.open_project(sys.argv[1])
def click(who):
    for number in range(1, 1_000_000):
        op = LabelOp(f"{who}-{number}", f"b{number % 20}", "positive" if number % 2 else "cleared")
        ack = store.call(layout, labels.append, [op], analyst=who, screen="map")[0]
        sys.stdout.write(f"{ack.event} {ack.op}\\n")
        sys.stdout.flush()
for who in ("ann", "bob"):
    Thread(target=click, args=(who,)).start()
"""


def log_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {f"{event} {op}" for event, op in db.execute("SELECT event, op FROM label_event")}


@pytest.mark.slow
def test_clicks_runs_and_backups_at_once_and_a_kill_lose_nothing(project: Layout, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLICKING, str(project.folder)]
    acknowledged: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as clicking:
        assert clicking.stdout is not None
        for number in range(3):
            acknowledged += [clicking.stdout.readline().strip() for _ in range(20)]
            add_run(project, f"ranker-{number}")
            made = backups.make(project, "asked", tmp_path / "stick")
            assert backups.verify(made) == ""
            assert {*acknowledged} <= log_of(made.path)
        clicking.kill()
        acknowledged += clicking.stdout.read().splitlines()
    assert {*acknowledged} <= log_of(project.gpkg)
    assert {line.split()[1].split("-")[0] for line in acknowledged} == {"ann", "bob"}
    with store.connect(project) as db:
        assert len(runs.all_runs(db)) == 3
