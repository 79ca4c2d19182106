"""A project is restored: from a backup, with all that is newer and can still be read."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from damage_parts import checkpoint, overwrite, page_of
from small_parts import REPOSITORY, add_run, answer, click, square_table, unheld_job

from pu_geo import jobs
from pu_geo.errors import ProjectError
from pu_geo.project import backups, choices, contents, decisions, in_use, labels, recovered, runs, store, swap
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp
from pu_geo.services.project import recovery

COLUMNS = "event, op, building_id, label, analyst, at, screen, kind, undoes, act, origin_at, origin_kind, imported_by, answer, grade, absent_types"


def log_of(layout: Layout) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(layout.gpkg)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return db.execute(f"SELECT {COLUMNS} FROM label_event ORDER BY event").fetchall()


def next_acts(layout: Layout) -> list[str | None]:
    """Return what everybody's next undo and redo are about."""
    return [store.call(layout, labels.next_act, who, kind) for who in ("ann", "bob", "eve") for kind in ("undo", "redo")]


def work(layout: Layout, n: int, seed: int = 0) -> None:
    """Let three analysts click, undo and redo."""
    drawn = random.Random(seed)
    with store.connect(layout) as db:
        for number in range(n):
            analyst, kind = drawn.choice(["ann", "bob", "eve"]), drawn.choice(["set"] * 5 + ["undo", "undo", "redo"])
            op = LabelOp(f"op-{seed}-{number}", step=kind)  # type: ignore[arg-type]
            if kind == "set":
                label = drawn.choice(["positive", "not_damaged", "cleared"])
                absent = ["roof", "walls"][: number % 3] if label == "positive" else []
                op = LabelOp(op.op, f"b{drawn.randrange(20)}", label, absent_types=absent)  # type: ignore[arg-type]
            assert not labels.append(db, [op], analyst=analyst, screen="map")[0].error


def test_all_that_is_newer_than_the_backup_comes_back(project: Layout) -> None:
    work(project, 60)
    backup = backups.make(project, "asked")
    work(project, 90, seed=1)
    with store.connect(project) as db:
        decisions.decide(db, "d1", "selection", "roofs", {"building_ids": ["b1"]}, analyst="ann")
        choices.put(db, "grades", choices.get(db, "grades", [{"id": "gone", "name": "Gone", "damage_class": "destroyed"}]))
        contents.add_footprints(db, replace(square_table(25), building_ids=[f"b{i}" for i in range(25)]))
    click(project, "b24")
    before, current = log_of(project), store.call(project, labels.current)
    stacks = next_acts(project)
    overwrite(project, page_of(project, "scene"))
    done = recovery.restore(project)
    assert done.layout.folder == project.folder.with_name("event-restored.pugeo")
    assert log_of(done.layout) == before
    assert (done.rows.events, done.rows.unreadable, done.rows.left_out) == (before[-1][0] - backup.at_event, 0, 0)
    assert store.call(done.layout, labels.current) == current
    assert next_acts(done.layout) == stacks
    assert store.call(done.layout, decisions.standing, "selection")["roofs"].facts == {"building_ids": ["b1"]}
    assert store.call(done.layout, contents.count_footprints) == 25
    assert done.rows.others == {"footprints": 5, "decision": 1, "choice": 1, "empty_step": done.rows.others["empty_step"]}
    assert "None that is known of is lost" in done.notes[1]
    assert "None that" not in " ".join(replace(done, rows=replace(done.rows, unreadable=2)).notes)


LOST = [pytest.param(i, marks=pytest.mark.ci if i == 1 else pytest.mark.long(part="lost")) for i in range(1, 12)]


@pytest.mark.parametrize("seed", [0, *LOST])
def test_whatever_page_is_gone_the_log_goes_on_and_every_event_is_accounted_for(project: Layout, seed: int) -> None:
    drawn = random.Random(seed)
    work(project, 100, seed=100 + seed)
    backup = backups.make(project, "asked")
    work(project, 200, seed=200 + seed)
    whole, n = log_of(project), store.call(project, labels.last_event)
    pages = project.gpkg.stat().st_size // 4096
    overwrite(project, drawn.randrange(2, pages), drawn.randrange(1, 4))
    done = recovery.restore(project)
    there = log_of(done.layout)
    assert {*there} <= {*whole}
    assert len(there) == backup.at_event + done.rows.events
    assert done.rows.events + done.rows.left_out + done.rows.unreadable == n - backup.at_event
    work(done.layout, 60, seed=300 + seed)  # undo and redo go on for everybody


@pytest.mark.parametrize(("gone", "kept"), [("x", ["w"]), ("y", ["x", "w"])])
def test_an_undo_of_a_lost_click_is_left_out(project: Layout, tmp_path: Path, gone: str, kept: list[str]) -> None:
    click(project, "b1")
    backup = backups.make(project, "asked")
    answer(project, LabelOp("x", "b2", "positive"), LabelOp("y", step="undo"), LabelOp("z", step="redo"))
    answer(project, LabelOp("w", "b2", "positive"))
    damaged = tmp_path / "damaged.gpkg"
    backups.copy_database(project.gpkg, damaged)
    with closing(sqlite3.connect(damaged)) as db, db:
        db.execute("DROP TRIGGER label_event_no_delete")
        db.execute("DELETE FROM label_event WHERE op = ?", (gone,))
    checkpoint(project)
    project.gpkg.write_bytes(backup.path.read_bytes())
    found = store.call(project, recovered.merge, damaged)
    assert [row[1] for row in log_of(project)][1:] == kept
    assert (found.unreadable, found.left_out) == (1, 3 - len(kept))
    answer(project, LabelOp("again", step="undo"))
    assert set(store.call(project, labels.current_labels)) == ({"b1"} if gone == "x" else {"b1", "b2"})


def test_an_operation_whose_number_is_taken_gets_a_new_one(project: Layout, tmp_path: Path) -> None:
    """Two copies of a project went on by themselves; the backup is of the other one."""
    click(project, "b1")
    backups.make(project, "asked")
    other = recovery.restore(project, to=str(tmp_path / "other.pugeo")).layout
    answer(other, LabelOp("theirs", "b2", "positive"), analyst="bob")
    answer(project, LabelOp("ours", "b3", "not_damaged"), LabelOp("back", step="undo"))
    backup = backups.make(other, "asked", tmp_path / "stick")
    done = recovery.restore(project, str(backup.path))
    numbers = [(row[0], row[1], row[8]) for row in log_of(done.layout)][1:]
    assert numbers == [(2, "theirs", None), (3, "ours", None), (4, "back", 3)]
    assert store.call(done.layout, labels.current_labels) == {"b1": "positive", "b2": "positive"}


def test_runs_made_since_the_backup_are_there_with_their_scores(project: Layout) -> None:
    backups.make(project, "asked")
    add_run(project, "by-row")
    add_run(project, "by-folder", scores=np.linspace(1, 0, 20))
    add_run(project, "broken")
    (project.folder / "runs" / "broken" / "scores.npy").write_bytes(b"half")
    with closing(sqlite3.connect(project.gpkg)) as db, db:
        db.execute("DELETE FROM run WHERE run_id <> 'by-row'")
    done = recovery.restore(project)
    assert done.runs == ["by-folder"]
    with store.connect(done.layout) as db:
        assert {facts.run_id for facts in runs.all_runs(db)} == {"by-row", "by-folder"}
        counts = dict(db.execute("SELECT run_id, count(*) FROM score GROUP BY run_id").fetchall())
        assert counts == {"by-row": 20, "by-folder": 20}
    here, there = (layout.run("by-row") / "scores.npy" for layout in (project, done.layout))
    assert here.samefile(there)


_KILLED_RESTORE = """
    import os, signal, sys
    from pathlib import Path
    from pu_geo.project.layout import Layout
    from pu_geo.services.project import recovery
    folder, left = Path(sys.argv[1]), int(sys.argv[2])
    def killed(owner, name):
        real = getattr(owner, name)
        def wrapped(*args, **more):
            global left
            parents = [Path(arg).parent for arg in args[:2] if isinstance(arg, str | Path)]
            if folder in parents or owner is os:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
            return real(*args, **more)
        setattr(owner, name, wrapped)
    build = recovery._build
    def built(*args, **more):  # from here on the project's own files change
        found = build(*args, **more)
        killed(os, "link"), killed(os, "fsync"), killed(Path, "unlink"), killed(Path, "replace")
        return found
    recovery._build = built
    recovery.restore_in_place(Layout(folder))
"""


def in_child(script: str, *args: object) -> int:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.run(command, check=False, timeout=60, cwd=REPOSITORY).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps", [pytest.param([3], marks=pytest.mark.ci), pytest.param(range(20), marks=pytest.mark.long(part="kills"))]
)
def test_a_kill_at_a_step_of_the_swap_loses_no_click(project: Layout, steps: Sequence[int]) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    with store.connect(project) as db:
        db.execute("SELECT 1 FROM footprints").fetchall()  # while it is open the clicks are in the log beside the file
        click(project, "b5", "b6")
        left = shutil.copytree(project.folder, project.folder.with_name("left.pugeo"))
    codes = []
    for step in steps:
        copy = Layout(Path(shutil.copytree(left, project.folder.with_name(f"step-{step}.pugeo"))))
        assert copy.gpkg.with_name("project.gpkg-wal").stat().st_size
        codes.append(in_child(_KILLED_RESTORE, copy.folder, step))
        assert {*store.call(copy, labels.current_labels)} == {"b1", "b5", "b6"}, step
        assert len(log_of(copy)) == 3
        assert not swap.waits(copy)
        click(copy, "b7")
    assert codes[0] == -9
    assert len(codes) == 1 or (codes.count(-9) > 8 and codes[-1] == 0)


def test_a_swap_that_was_cut_off_is_ended_by_a_restore(project: Layout) -> None:
    click(project, "b1")
    made = backups.make(project, "asked")
    click(project, "b2")
    in_use.let_go(project)
    waiting = project.folder / "project.gpkg-new"
    shutil.copy2(made.path, waiting)
    with pytest.raises(ProjectError, match="was interrupted"), store.connect_as_is(project):
        pass
    assert waiting.exists()
    done = recovery.restore(project)
    assert store.call(done.layout, labels.current_labels) == {"b1": "positive"}
    assert store.call(project, labels.current_labels) == {"b1": "positive"}
    assert len([*project.folder.glob("project.damaged-*.gpkg")]) == 1


def test_a_database_that_is_gone_comes_back_from_the_backup(project: Layout) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    checkpoint(project)
    project.gpkg.unlink()
    recovery.restore_in_place(recovery.find(str(project.folder)))
    assert store.call(project, labels.current_labels) == {"b1": "positive"}


def test_without_a_backup_all_that_can_be_read_becomes_a_project(project: Layout) -> None:
    work(project, 100)
    before, name = log_of(project), store.call(project, store.project_id)
    overwrite(project, page_of(project, "intake"))
    done = recovery.restore(project)
    assert done.backup is None
    assert log_of(done.layout) == before
    with store.connect(done.layout) as db:
        assert store.project_id(db) == name
        assert contents.grid(db).crs == "EPSG:32615"
        assert contents.building_ids(db) == [f"b{i}" for i in range(20)]


def test_nothing_to_restore_from_is_refused_and_leaves_nothing(project: Layout) -> None:
    checkpoint(project)
    project.gpkg.write_bytes(b"\0" * 4096 * 10)
    with pytest.raises(ProjectError, match="nothing of its database can be read"):
        recovery.restore(project)
    assert [path.name for path in project.folder.parent.iterdir()] == [project.folder.name]


def test_a_bad_backup_and_one_of_another_project_are_refused(project: Layout, tmp_path: Path) -> None:
    other = backups.make(store.create(tmp_path / "other.pugeo", "Other"), "asked")
    good, bad = (backups.make(project, "asked") for _ in range(2))
    with bad.path.open("r+b") as file:
        file.seek(5000)
        file.write(b"x")
    with pytest.raises(ProjectError, match="sha256") as caught:
        recovery.restore(project)
    assert good.path.name in caught.value.hint
    for backup, words in ((str(other.path), "another project"), ("nothing", "is no backup")):
        with pytest.raises(ProjectError, match=words):
            recovery.restore(project, backup)
    assert recovery.restore(project, good.path.name).backup == good


def test_in_place_is_refused_while_others_work_there(project: Layout) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    before = project.gpkg.stat().st_ino
    with (project.folder / in_use.FILE).open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(ProjectError, match="open in another process") as caught:
            recovery.restore_in_place(project)
        assert caught.value.kind == "busy"
        recovery.restore(project)  # into a new folder at any time
    lock = jobs.take_lock(unheld_job(project, "rank", {}))
    with pytest.raises(ProjectError, match=r"works in event\.pugeo"):
        recovery.restore_in_place(project)
    os.close(lock)
    with in_use.alone(project), pytest.raises(ProjectError, match="is being restored"):
        store.open_project(project.folder)
    assert project.gpkg.stat().st_ino == before
    done = recovery.restore_in_place(project)
    assert done.damaged is not None
    assert done.damaged.stat().st_ino == before != project.gpkg.stat().st_ino
    assert not [path.name for path in project.folder.iterdir() if path.name.startswith(".restore")]
