"""Backups: whole, checked, few, and never made of a damaged database."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from damage_parts import overwrite, page_of
from small_parts import REPOSITORY, add_run, click

from pu_geo.errors import ProjectError
from pu_geo.store import backups, runs, schema, store
from pu_geo.store.backups import Backup
from pu_geo.store.layout import Layout


def aged(backup: Backup, days: float, reason: str = "") -> None:
    """Let a backup be older than it is."""
    facts = json.loads(backup.path.with_suffix(".json").read_text())
    at = datetime.now(UTC) - timedelta(days=days)
    facts |= {"made_at": at.isoformat(timespec="milliseconds"), "reason": reason or facts["reason"]}
    backup.path.with_suffix(".json").write_text(json.dumps(facts))


def test_a_backup_has_all_clicks_and_facts_beside_it(project: Layout) -> None:
    click(project, "b3")
    made = backups.make(project, "asked")
    assert (made.at_event, made.schema, made.reason) == (1, schema.SCHEMA, "asked")
    assert (made.path.parent, backups.verify(made)) == (project.folder / "backups", "")
    assert backups.all_backups(project) == [made]
    with closing(sqlite3.connect(made.path)) as db:
        assert db.execute("SELECT building_id, label FROM label_event").fetchall() == [("b3", "positive")]
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert made.project_id == store.call(project, store.project_id)


def test_a_backup_elsewhere_is_named_after_the_project_and_removes_nothing(
    project: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "KEPT", 1)
    for _ in range(3):
        made = backups.make(project, "asked", tmp_path / "stick" / "deep")
    assert made.path.name.startswith(f"{project.folder.stem}-2")
    assert len([*made.path.parent.glob("*.gpkg")]) == 3
    assert backups.read(made.path) == made
    assert backups.all_backups(project) == []


def test_a_damaged_database_is_refused_and_costs_no_good_backup(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage in a table that nobody reads is found, too."""
    monkeypatch.setattr(backups, "KEPT", 2)
    good = [backups.make(project, "asked") for _ in range(2)]
    overwrite(project, page_of(project, "scene"))
    with pytest.raises(ProjectError, match="its database is damaged") as caught:
        backups.make(project, "asked")
    assert caught.value.kind == "corrupt"
    assert f"restore {project.folder}" in caught.value.hint
    assert backups.all_backups(project) == good[::-1]
    assert {path.suffix for path in project.backups.iterdir()} == {".gpkg", ".json", ".lock"}


def test_the_newest_of_each_reason_stay(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "KEPT", 2)
    daily = [backups.make(project, "daily") for _ in range(3)]
    asked = backups.make(project, "asked")
    made = [backups.make(project, "removal") for _ in range(4)]
    kept = backups.all_backups(project)
    assert kept == [*made[:1:-1], asked, *daily[:0:-1]]
    assert len([*project.backups.glob("*.json")]) == len([*project.backups.glob("*.gpkg")]) == len(kept)


def test_a_backup_gives_up_where_a_program_holds_the_file(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    good = backups.make(project, "asked")
    monkeypatch.setattr(backups, "_BUSY_S", 0.3)
    with closing(sqlite3.connect(project.gpkg, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("PRAGMA journal_mode=DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ProjectError) as caught:
            backups.make(project, "daily")
    assert caught.value.kind == "busy"
    assert backups.all_backups(project) == [good]


def test_a_backup_without_whole_facts_counts_for_nothing_and_a_changed_one_is_found_out(project: Layout) -> None:
    made = [backups.make(project, "asked") for _ in range(4)]
    made[0].path.with_suffix(".json").write_text('{"made_at":')
    made[1].path.with_suffix(".json").unlink()
    content = made[2].path.read_bytes()
    made[2].path.write_bytes(content[:-1])
    assert backups.all_backups(project) == made[3:]
    made[2].path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert backups.all_backups(project) == made[:1:-1]
    assert [backups.verify(one)[:10] for one in made[2:]] == ["its sha256", ""]


@pytest.mark.parametrize("failing", ["room", "copy", "json"])
def test_a_full_disk_is_refused_in_words_and_leaves_nothing(
    project: Layout, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    good = backups.make(project, "asked")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def copy(source: Path, path: Path) -> None:
        path.write_bytes(b"half")
        raise full

    def write_json(path: Path, value: object) -> None:
        raise full

    if failing == "room":  # a backup leaves some for clicks
        usage = shutil.disk_usage(project.folder)._replace(free=project.gpkg.stat().st_size + 2**20)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    else:
        monkeypatch.setattr(backups, *(("_copy", copy) if failing == "copy" else ("write_json", write_json)))
    with pytest.raises(ProjectError, match="No space left") as caught:
        backups.make(project, "daily")
    assert caught.value.kind == "disk"
    assert {path.stem for path in project.backups.iterdir()} == {good.path.stem, ".backups"}


def test_a_daily_backup_is_made_once_a_day_of_what_changed(project: Layout) -> None:
    click(project, "b1")
    first = backups.make_daily(project)
    assert first is not None
    click(project, "b2")
    assert backups.make_daily(project) is None  # the newest is of today
    aged(first, days=1.1)
    second = backups.make_daily(project)
    assert second is not None
    assert second.at_event == 2
    aged(second, days=1.05)
    stored_at = time.time() - 1.1 * 24 * 3600
    os.utime(project.gpkg, (stored_at, stored_at))
    with store.connect(project):  # which makes files beside it, and stores nothing
        assert backups.make_daily(project) is None
    click(project, "b3")
    third = backups.make_daily(project)
    assert third is not None
    aged(third, days=-3)  # a wrong clock: one of tomorrow holds nothing back
    click(project, "b4")
    assert backups.make_daily(project) is not None


def test_of_several_servers_one_makes_the_daily_backup(project: Layout) -> None:
    click(project, "b1")
    with ThreadPoolExecutor(4) as servers:
        made = [one.result() for one in [servers.submit(backups.make_daily, project) for _ in range(4)]]
    assert sum(one is not None for one in made) == len(backups.all_backups(project)) == 1


CLICKING = """
import sys
from threading import Barrier, Thread
from pu_geo.store import labels, store
from pu_geo.records import LabelOp
layout, both = store.open_project(sys.argv[1]), Barrier(2)
def click(who):
    for number in range(1, 1_000_000):
        both.wait()  # else one core may serve one of them alone
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
