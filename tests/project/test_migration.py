"""Projects of older schemas: brought up to date once, after a backup, with nothing lost; interrupted ones stay good."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from small_parts import REPOSITORY, square_table

from pu_geo.errors import ProjectError
from pu_geo.project import analysts, contents, labels, schema, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout

OLD = (Path(__file__).parent / "schema_1.sql").read_text()
T = "2026-01-0{}T00:00:00.000Z"
OLD_EVENTS = [  # op, building, label, analyst, kind, undoes; bob's undo brings back what ann said
    ("1", "b1", "positive", "ann", "set", None),
    ("2", "b2", "positive", "ann", "set", None),
    ("3", "b1", "not_damaged", "bob", "set", None),
    ("4", "b1", "positive", "bob", "undo", 3),
    ("5", "b2", "cleared", "ann", "undo", 2),
    ("6", "b3", "not_assessable", "ann", "import", None),
]
BACKUP = "project.v1-backup.gpkg"


@pytest.fixture
def old(tmp_path: Path) -> Layout:
    """A project as the first PU-Geo left it, with six events."""
    layout = Layout(tmp_path / "old.pugeo")
    layout.folder.mkdir()
    with closing(sqlite3.connect(layout.gpkg, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(OLD)
        db.executemany(
            "INSERT INTO pugeo_meta VALUES (?, ?)", [("schema", "1"), ("name", "Old"), ("created_at", T.format(1))]
        )
        db.execute("INSERT INTO gpkg_spatial_ref_sys VALUES ('UTM', 32615, 'EPSG', 32615, 'x', NULL)")
        contents.add_footprints(db, square_table(20))
        for number, (op, building, label, analyst, kind, undoes) in enumerate(OLD_EVENTS, 1):
            db.execute(
                "INSERT INTO label_event (op, building_id, label, analyst, at, screen, kind, undoes, act) "
                "VALUES (?, ?, ?, ?, ?, 'map', ?, ?, ?)",
                (op, building, label, analyst, T.format(number), kind, undoes, op if undoes is None else f"undo:{op}"),
            )
    return layout


def raw(path: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


def old_rows(path: Path) -> list[tuple[object, ...]]:
    return raw(path, "SELECT event, op, building_id, label, analyst, at, screen, kind, undoes, act FROM label_event")


def shape(path: Path) -> dict[str, object]:
    """Every table and view with its columns, and the other objects by name."""
    names = dict(raw(path, "SELECT name, type FROM sqlite_master"))
    return {name: (kind, raw(path, f"PRAGMA table_xinfo({name})")) for name, kind in names.items()}


def test_migrated_project_has_all_its_events_and_a_backup_beside_it(old: Layout) -> None:
    before = old_rows(old.gpkg)
    with store.connect(old) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b3": "not_assessable"}
        assert labels.pu_set(db).is_left_out.sum() == 1
        assert {key: facts.n_standing for key, facts in analysts.by_analyst(db).items()} == {"ann": 2, "bob": 0}
    assert old_rows(old.gpkg) == before
    assert raw(old.gpkg, "SELECT value FROM pugeo_meta WHERE key = 'schema'") == [("2",)]
    backup = old.folder / BACKUP
    assert old_rows(backup) == before
    assert raw(backup, "SELECT value FROM pugeo_meta WHERE key = 'schema'") == [("1",)]
    assert raw(backup, "PRAGMA journal_mode") == [("delete",)]
    left = {path.name for path in old.folder.iterdir()}
    assert left <= {BACKUP, *(f"project.gpkg{tail}" for tail in ("", "-wal", "-shm"))}


def test_migrated_file_has_the_shape_of_a_new_one(old: Layout, project: Layout) -> None:
    store.open_project(old.folder)
    assert shape(old.gpkg) == shape(project.gpkg)
    stamp = old.folder / BACKUP
    made = stamp.stat().st_mtime_ns
    store.open_project(old.folder)  # nothing more to do
    assert stamp.stat().st_mtime_ns == made


def test_old_events_are_undone_after_the_migration_as_before(old: Layout) -> None:
    with store.connect(old) as db:
        labels.append(db, [LabelOp("7", "b1", "not_assessable", reason="cloud")], analyst="ann", screen="map")
        labels.undo(db, "8", analyst="ann", screen="map")
        assert labels.current(db)["b1"].event == 1
        labels.undo(db, "9", analyst="ann", screen="map")  # the import of b3
        labels.undo(db, "10", analyst="ann", screen="map")  # her first click: b2 was undone before
        assert labels.current_labels(db) == {}


def test_log_stays_append_only_and_checks_what_it_holds(old: Layout) -> None:
    with store.connect(old) as db:
        for statement in ("UPDATE label_event SET comment = 'x'", "DELETE FROM label_event"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                db.execute(statement)
        for column, value in (("reason", "'fog'"), ("shown", "'audit'"), ("inclusion", "0.5"), ("comment", "zeroblob(501)")):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                db.execute(
                    f"INSERT INTO label_event (op, building_id, label, analyst, at, screen, kind, act, {column}) "
                    f"VALUES ('x', 'b1', 'positive', 'ann', '', '', 'set', 'x', {value})"
                )


@pytest.mark.parametrize("broken", range(1, len(schema.MIGRATIONS[1]) + 1))
def test_failed_migration_leaves_the_old_file_good(old: Layout, monkeypatch: pytest.MonkeyPatch, broken: int) -> None:
    before, kept = old_rows(old.gpkg), shape(old.gpkg)
    steps = schema.MIGRATIONS[1]
    monkeypatch.setitem(schema.MIGRATIONS, 1, (*steps[:broken], "SELECT no_such_column FROM label_event"))
    with pytest.raises(ProjectError, match="could not be read or written"):
        store.open_project(old.folder)
    assert (old_rows(old.gpkg), shape(old.gpkg)) == (before, kept)
    monkeypatch.setitem(schema.MIGRATIONS, 1, steps)
    store.open_project(old.folder)
    assert old_rows(old.gpkg) == before


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 5, len(schema.MIGRATIONS[1])])
def test_killed_migration_leaves_the_old_file_good(old: Layout, step: int) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        from pu_geo.project import schema, store
        class Deadly(str): pass
        real = store.sqlite3.Connection
        class Connection(real):
            def execute(self, sql, *rest):
                if isinstance(sql, Deadly):
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().execute(sql, *rest)
        connect = store.sqlite3.connect
        store.sqlite3.connect = lambda *a, **k: connect(*a, **{**k, "factory": Connection})
        steps = list(schema.MIGRATIONS[1])
        steps.insert(int(sys.argv[2]), Deadly("SELECT 1"))
        schema.MIGRATIONS[1] = tuple(steps)
        store.open_project(sys.argv[1])
    """
    before = old_rows(old.gpkg)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(old.folder), str(step)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert raw(old.gpkg, "SELECT value FROM pugeo_meta WHERE key = 'schema'") == [("1",)]
    assert "reason" not in {row[1] for row in raw(old.gpkg, "PRAGMA table_info(label_event)")}
    assert old_rows(old.gpkg) == old_rows(old.folder / BACKUP) == before
    store.open_project(old.folder)
    assert old_rows(old.gpkg) == before


@pytest.mark.slow
def test_many_who_open_an_old_project_at_once_migrate_it_once(old: Layout) -> None:
    script = """
        import sys
        from pathlib import Path
        from pu_geo.project import labels, store
        from pu_geo.project.layout import Layout
        sys.stdin.readline()  # all start together
        with store.connect(Layout(Path(sys.argv[1]))) as db:
            print(labels.last_event(db), db.execute("PRAGMA integrity_check").fetchone()[0])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(old.folder)]
    openers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) for _ in range(8)
    ]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    assert [opener.communicate(timeout=60)[0].strip() for opener in openers] == ["6 ok"] * 8
    assert old_rows(old.folder / BACKUP) == old_rows(old.gpkg)
    assert raw(old.folder / BACKUP, "SELECT value FROM pugeo_meta WHERE key = 'schema'") == [("1",)]


def test_without_a_backup_nothing_is_migrated(old: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "replacing", full)
    with pytest.raises(ProjectError, match="no copy of it can be made before it is brought up to date: No space"):
        store.open_project(old.folder)
    assert raw(old.gpkg, "SELECT value FROM pugeo_meta WHERE key = 'schema'") == [("1",)]
    monkeypatch.undo()
    store.open_project(old.folder)
