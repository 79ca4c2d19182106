"""A project is restored: the newest good backup, and every newer label of the journal."""

import errno
import fcntl
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from damage_parts import checkpoint, overwrite, page_of
from small_parts import REPOSITORY, add_run, answer, click, small_project, unheld_job

from pu_geo import files, jobs
from pu_geo.errors import ProjectError
from pu_geo.jobs import worker
from pu_geo.lifecycle import recovery
from pu_geo.records import LabelOp
from pu_geo.store import backups, contents, history, in_use, journal, labels, runs, store, swap
from pu_geo.store.layout import Layout


def log_of(layout: Layout) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(layout.gpkg)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return db.execute("SELECT * FROM label_event ORDER BY event").fetchall()


def next_acts(layout: Layout) -> list[str | None]:
    """Return what everybody's next undo and redo are about."""
    return [store.call(layout, labels.next_act, who, kind) for who in ("ann", "bob", "eve") for kind in ("undo", "redo")]


def work(layout: Layout, n: int, seed: int = 0) -> None:
    """Let three analysts click, undo and redo, and import what others did."""
    drawn = random.Random(seed)
    with store.connect(layout) as db:
        for number in range(n):
            analyst, kind = drawn.choice(["ann", "bob", "eve"]), drawn.choice(["set"] * 5 + ["undo", "undo", "redo"])
            op, some = f"op-{seed}-{number}", drawn.sample(range(20), 1 + number % 3)
            ops = [LabelOp(op, step=kind)]  # type: ignore[arg-type]
            if kind == "set":
                label = drawn.choice(["positive", "not_damaged", "cleared"])
                more = {"absent_types": ["ü 'roof\"\n"], "grade": "major"} if label == "positive" and number % 2 else {}
                ops = [LabelOp(f"{op}-{i}", f"b{i}", label, op, comment="\u2028é" * (number % 2), **more) for i in some]  # type: ignore[arg-type]
            assert not any(ack.error for ack in labels.append(db, ops, analyst=analyst, screen="map"))
        past = [
            LabelOp(
                f"p-{seed}-{i}", "b3", act=f"import-{seed}", shown="audit", inclusion=1 / 3, analyst="far", at=store.now(),
                is_simulated=i == 1,
            )
            for i in range(3)
        ]  # fmt: skip
        assert not any(ack.error for ack in labels.append(db, past, analyst="eve", screen="cli", kind="import"))


def zero_half(layout: Layout) -> None:
    checkpoint(layout)
    content = layout.gpkg.read_bytes()
    layout.gpkg.write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))


def cut(layout: Layout) -> None:
    checkpoint(layout)
    os.truncate(layout.gpkg, layout.gpkg.stat().st_size // 3)


def without_its_log(layout: Layout) -> None:
    """Put another file into the place of the log beside the database, and of the database one from before the clicks."""
    in_use.let_go(layout)
    shutil.copy(backups.all_backups(layout)[0].path, layout.gpkg)
    for end in ("-wal", "-shm"):
        layout.gpkg.with_name(f"project.gpkg{end}").write_bytes(b"x" * 5000)


WAYS: dict[str, Callable[[Layout], object]] = {
    "a page of the labels": lambda layout: overwrite(layout, page_of(layout, "label_event")),
    "the first page": lambda layout: overwrite(layout, 1), "half of it is zeros": zero_half, "cut off": cut,
    "gone": lambda layout: (checkpoint(layout), layout.gpkg.unlink()), "an older file": without_its_log, "nothing": checkpoint,
}  # fmt: skip


@pytest.mark.parametrize(("way", "in_place"), [(way, i % 2 == 1) for i, way in enumerate(WAYS)])
def test_whatever_is_damaged_every_acknowledged_label_comes_back_as_it_was(
    project: Layout, way: str, *, in_place: bool
) -> None:
    work(project, 15)
    backup = backups.make(project, "asked")
    work(project, 25, seed=1)
    before, current, stacks = log_of(project), store.call(project, labels.current), next_acts(project)
    assert len(before) == len(journal.read(project).rows)
    WAYS[way](project)
    layout = recovery.find(str(project.folder))
    done = recovery.restore_in_place(layout) if in_place else recovery.restore(layout)
    assert log_of(done.layout) == before
    assert (done.n_events, done.n_missing, done.n_unreadable) == (before[-1][0] - backup.at_event, 0, 0)  # type: ignore[operator]
    assert store.call(done.layout, labels.current) == current
    assert next_acts(done.layout) == stacks
    work(done.layout, 8, seed=2)
    assert len(log_of(done.layout)) == len(journal.read(done.layout).rows)
    assert log_of(recovery.restore(done.layout, str(backup.path)).layout) == log_of(done.layout)


def test_without_a_backup_the_history_of_the_journal_makes_a_project_anew(
    project: Layout, run: CommandLine, tmp_path: Path
) -> None:
    work(project, 25)
    before = log_of(project)
    cut(project)
    assert "There is no backup" in run.refused("repair", "restore", project.folder)
    assert [path.name for path in tmp_path.iterdir()] == [project.folder.name]
    found = run.json("export-labels", project.folder, "--out", tmp_path / "l.csv")
    assert (found["n_events"], found["n_unreadable"]) == (len(before), 0)
    made = small_project(tmp_path / "new.pugeo")
    run("label", made.folder, "--import", found["events_out"], "--rebuild", "--same-footprints")
    assert [row[:10] for row in log_of(made)] == [row[:10] for row in before]
    assert next_acts(made) == next_acts(recovery.restore(made, backups.make(made, "asked").path.name).layout)


_KILLED = """
    import os, signal, sys
    from contextlib import contextmanager
    from pathlib import Path
    from pu_geo.store import journal, labels, store
    from pu_geo.store.layout import Layout
    from pu_geo.records import LabelOp
    written = journal.written
    @contextmanager
    def killed(*args, **more):
        with written(*args, **more):
            os.kill(os.getpid(), signal.SIGKILL)
            yield
    journal.written = killed
    ops = [LabelOp(op, "b5", "positive") for op in ("lost-1", "lost-2")]
    store.call(Layout(Path(sys.argv[1])), labels.append, ops, analyst="ann", screen="map")
"""


@pytest.mark.parametrize("is_sent_again", [True, False])
def test_a_kill_between_journal_and_database_changes_nothing(project: Layout, *, is_sent_again: bool) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    assert in_child(_KILLED, project.folder) == -9
    assert [row["op"] for row in journal.read(project).rows][1:] == ["lost-1", "lost-2"]
    assert len(log_of(project)) == 1
    if is_sent_again:
        answer(project, LabelOp("lost-1", "b5", "positive"), LabelOp("lost-2", "b5", "positive"))
    click(project, "b7", label="not_damaged")
    done = recovery.restore(project)
    assert log_of(done.layout) == log_of(project)
    assert (done.n_missing, len(log_of(project))) == (0, 4 if is_sent_again else 2)


@pytest.mark.parametrize("fails", ["fsync", "write", "commit"])
def test_what_the_disk_does_not_take_is_not_stored(project: Layout, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    click(project, "b1")
    before = project.journal.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if fails == "fsync":
            patch.setattr(files.os, "fsync", full)
        elif fails == "write":
            patch.setattr(files.os, "fdopen", lambda *_, **__: full())
        with store.connect(project) as db:
            if fails == "commit":
                db.execute("PRAGMA max_page_count = 1")
                db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
            ops = [LabelOp(f"x-{i}", f"b{i % 20}", "positive", comment="x" * 500) for i in range(500)]
            with pytest.raises((ProjectError, sqlite3.OperationalError), match=r"full|No space"):
                labels.append(db, ops, analyst="ann", screen="map")
    assert (project.journal.read_bytes(), len(log_of(project))) == (before, 1)
    click(project, "b2")
    assert [row["event"] for row in journal.read(project).rows] == [1, 2]


def line_of(layout: Layout, **changed: object) -> bytes:
    """Return a line as PU-Geo would write it, of event 3, with other values."""
    row = {
        **journal.read(layout).rows[1],
        "event": 3,
        "op": "new",
        "act": "new",
        "project": store.call(layout, store.project_id),
    }
    return journal._line(row | changed).encode()


NONSENSE: tuple[dict[str, object], ...] = (
    {"label": "rubble"}, {"label": []}, {"damage_types": "[1]"}, {"damage_types": "{"}, {"at": "yesterday"}, {"building_id": 7}, {"act": ""},
    {"op": "x" * 900}, {"undoes": 1}, {"kind": "undo", "undoes": 9}, {"kind": "undo", "undoes": [1]}, {"answer": 2**70}, {"event": 2**70},
    {"event": "3"}, {"inclusion": float("nan")}, {"imported_by": "\0"}, {"project": "another"}, {"comment": {}}, {"shown": "audit"},
)  # fmt: skip


def test_a_journal_is_data_and_lines_that_make_no_sense_are_counted_and_left_out(project: Layout) -> None:
    click(project, "b1")
    backup = backups.make(project, "asked")
    click(project, "b2")
    good, injected = project.journal.read_bytes(), {"op) VALUES (9); DROP TABLE label_event; --": 1}
    lines = [line_of(project, **changed) for changed in NONSENSE]
    lines += [b"{}\n", b"[" * 60_000 + b"\n", bytes(200_000) + b"\n", line_of(project).replace(b"positive", b"cleared")]
    for line in lines:
        project.journal.write_bytes(good + line)
        found = journal.read(project, backup.project_id)
        with closing(sqlite3.connect(backup.path)) as db:
            assert history.complete(db, found.rows) == 1, line[:200]
            db.rollback()
        assert found.n_unreadable + len(found.rows) - 2 > 0, line[:200]
    project.journal.write_bytes(
        bytes(200_000) + b"\n" + good + line_of(project, **injected) + line_of(project, event=4)[:-9]
    )
    done = recovery.restore(project)
    assert [row[:4] for row in log_of(done.layout)] == [*(row[:4] for row in log_of(project)), (3, "new", "b2", "positive")]
    assert (done.n_events, done.n_unreadable) == (2, 4), "the line without end in pieces"


def test_the_undo_of_a_lost_click_is_left_out_and_counted(project: Layout) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    answer(project, LabelOp("x", "b2", "positive"), LabelOp("y", step="undo"), LabelOp("z", step="redo"))
    answer(project, LabelOp("w", "b3", "positive"))
    lines = project.journal.read_bytes().splitlines(keepends=True)
    project.journal.write_bytes(b"".join([lines[0], lines[1].replace(b"b2", b"b9"), *lines[2:]]))
    done = recovery.restore(project)
    assert [row[1] for row in log_of(done.layout)][1:] == ["w"]
    assert (done.n_events, done.n_missing, done.n_unreadable) == (1, 3, 1)
    assert any("3 more are missing" in note for note in done.notes)
    answer(done.layout, LabelOp("again", step="undo"))
    assert set(store.call(done.layout, labels.current_labels)) == {"b1"}


def test_a_journal_of_another_history_is_refused(project: Layout, tmp_path: Path) -> None:
    click(project, "b1")
    backups.make(project, "asked")
    other = recovery.restore(project, to=str(tmp_path / "other.pugeo")).layout
    answer(other, LabelOp("theirs", "b2", "positive"), analyst="bob")
    answer(project, LabelOp("ours", "b3", "not_damaged"))
    backup = backups.make(other, "asked", tmp_path / "stick")
    with pytest.raises(ProjectError, match="another history"):
        recovery.restore(project, str(backup.path))
    project.journal.rename(tmp_path / "elsewhere")
    assert log_of(recovery.restore(project, str(backup.path)).layout) == log_of(other)


def test_labels_of_buildings_that_the_backup_lacks_stay_in_the_log_and_in_no_count(project: Layout) -> None:
    click(project, "b1", "b9")
    oldest = backups.make(project, "asked")
    with closing(sqlite3.connect(oldest.path)) as db, db:
        db.execute("DELETE FROM footprints WHERE building_id = 'b9'")
    facts = json.loads(oldest.path.with_suffix(".json").read_text())
    facts |= {"sha256": backups.sha256_of(oldest.path), "n_bytes": oldest.path.stat().st_size}
    oldest.path.with_suffix(".json").write_text(json.dumps(facts))
    click(project, "b9", "b2")
    done = recovery.restore(project)
    assert log_of(done.layout) == log_of(project)
    assert set(store.call(done.layout, labels.current_labels)) == {"b1", "b2"}


def test_runs_made_since_the_backup_are_there_with_their_scores(project: Layout) -> None:
    backups.make(project, "asked")
    add_run(project, "by-folder", scores=np.linspace(1, 0, 20))
    add_run(project, "broken")
    (project.folder / "runs" / "broken" / "scores.npy").write_bytes(b"half")
    done = recovery.restore(project)
    assert done.runs == ["by-folder"]
    with store.connect(done.layout) as db:
        assert {facts.run_id for facts in runs.all_runs(db)} == {"by-folder"}
        assert db.execute("SELECT count(*) FROM score").fetchone() == (20,)
    here, there = (layout.run("by-folder") / "scores.npy" for layout in (project, done.layout))
    assert here.samefile(there)


def test_a_job_that_changes_what_the_project_is_made_of_ends_with_a_backup(project: Layout) -> None:
    click(project, "b1", "b9")
    worker.run(unheld_job(project, "remove_footprints", {"name": '["b9"]', "analyst": "ann"}))
    newest = backups.all_backups(project)[0]
    assert newest.reason == "job"
    overwrite(project, page_of(project, "footprints"))
    done = recovery.restore(project)
    assert done.backup == newest
    assert "b9" not in store.call(done.layout, contents.building_ids)


_KILLED_RESTORE = """
    import os, signal, sys
    from pathlib import Path
    from pu_geo.store.layout import Layout
    from pu_geo.lifecycle import recovery
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
    in_use.let_go(project)
    waiting = project.folder / "project.gpkg-new"
    shutil.copy2(made.path, waiting)
    with pytest.raises(ProjectError, match="was interrupted"), store.connect_as_is(project):
        pass
    done = recovery.restore(project)
    assert not waiting.exists()
    assert store.call(done.layout, labels.current_labels) == {"b1": "positive"}
    assert len([*project.folder.glob("project.damaged-*.gpkg")]) == 1


def test_a_bad_backup_is_passed_over_and_one_of_another_project_refused(project: Layout, tmp_path: Path) -> None:
    other = backups.make(store.create(tmp_path / "other.pugeo", "Other"), "asked")
    good, bad = (backups.make(project, "asked") for _ in range(2))
    with bad.path.open("r+b") as file:
        file.seek(5000)
        file.write(b"x")
    assert recovery.restore(project).backup == good
    for backup, words in ((bad.path.name, "sha256"), (str(other.path), "another project"), ("nothing", "is no backup")):
        with pytest.raises(ProjectError, match=words):
            recovery.restore(project, backup)


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
