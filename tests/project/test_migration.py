"""Projects of older schemas: brought up to date once, after a backup, with nothing lost; interrupted ones stay good."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from small_parts import REPOSITORY, square_table

from pu_geo.errors import ProjectError
from pu_geo.project import analysts, backups, contents, in_use, labels, schema, store
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp

OLD = {number: (Path(__file__).parent / f"schema_{number}.sql").read_text() for number in (1, 2, 3, 4, 5, 6, 7, 8)}
STEPS = [
    (old, number) for old in OLD for number in range(old, schema.SCHEMA)
]  # the project's live_style, the step that is broken
T = "2026-01-0{}T00:00:00.000Z"
OLD_EVENTS = [  # op, building, label, analyst, kind, undoes; bob's undo brings back what ann said
    ("1", "b1", "positive", "ann", "set", None),
    ("2", "b2", "positive", "ann", "set", None),
    ("3", "b1", "not_damaged", "bob", "set", None),
    ("4", "b1", "positive", "bob", "undo", 3),
    ("5", "b2", "cleared", "ann", "undo", 2),
    ("6", "b3", "not_assessable", "ann", "import", None),
]


@pytest.fixture(params=OLD)
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Layout:
    """A project as an older PU-Geo left it, with six events."""
    layout = Layout(tmp_path / "old.pugeo")
    layout.folder.mkdir()
    with closing(sqlite3.connect(layout.gpkg, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(OLD[request.param])
        db.executemany(
            "INSERT INTO pugeo_meta VALUES (?, ?)",
            [("schema", str(request.param)), ("name", "Old"), ("created_at", T.format(1))],
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


def schema_of(path: Path) -> int:
    return int(str(raw(path, "SELECT value FROM pugeo_meta WHERE key = 'schema'")[0][0]))


def backup_of(old: Layout) -> Path:
    """The one backup beside a project."""
    (made,) = backups.all_backups(old)
    assert made.reason == "migration"
    return made.path


def shape(path: Path) -> dict[str, object]:
    """Every table and view with its columns, and the other objects by name."""
    names = dict(raw(path, "SELECT name, type FROM sqlite_master"))
    return {name: (kind, raw(path, f"PRAGMA table_xinfo({name})")) for name, kind in names.items()}


def registry(path: Path) -> list[object]:
    """What the GeoPackage says of itself, without coordinate systems and times."""
    questions = (
        "SELECT table_name, data_type, identifier, description FROM gpkg_contents ORDER BY 1",
        "SELECT table_name, column_name, geometry_type_name, z, m FROM gpkg_geometry_columns ORDER BY 1",
        "SELECT f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, useAsDefault "
        "FROM layer_styles ORDER BY 3",
    )
    return [raw(path, question) for question in questions]


def test_migrated_project_has_all_its_events_and_a_backup_beside_it(old: Layout) -> None:
    before, found = old_rows(old.gpkg), schema_of(old.gpkg)
    with store.connect(old) as db:
        assert labels.current_labels(db) == {"b1": "positive", "b3": "not_assessable"}
        assert labels.pu_set(db).is_excluded.sum() == 1
        assert {key: facts.n_standing for key, facts in analysts.by_analyst(db).items()} == {"ann": 2, "bob": 0}
    assert old_rows(old.gpkg) == before
    assert schema_of(old.gpkg) == schema.SCHEMA
    backup = backup_of(old)
    assert old_rows(backup) == before
    assert schema_of(backup) == found
    assert raw(backup, "PRAGMA journal_mode") == [("delete",)]
    left = {path.name for path in old.folder.iterdir()}
    assert left <= {"backups", in_use.FILE, *(f"project.gpkg{tail}" for tail in ("", "-wal", "-shm"))}


def test_migrated_file_has_the_shape_of_a_new_one(old: Layout, project: Layout) -> None:
    store.open_project(old.folder)
    assert shape(old.gpkg) == shape(project.gpkg)
    assert registry(old.gpkg) == registry(project.gpkg)
    stamp = backup_of(old)
    made = stamp.stat().st_mtime_ns
    store.open_project(old.folder)  # nothing more to do
    assert stamp.stat().st_mtime_ns == made


def test_new_layers_of_a_migrated_project_lie_in_its_coordinate_system(old: Layout) -> None:
    new = {1: ("areas", "aoi"), 2: ("areas", "aoi"), 3: ("aoi",)}.get(schema_of(old.gpkg), ())
    with closing(sqlite3.connect(old.gpkg)) as db, db:
        for table in ("gpkg_contents", "gpkg_geometry_columns"):
            db.execute(f"UPDATE {table} SET srs_id = 32615 WHERE table_name = 'footprints'")
    store.open_project(old.folder)
    for table in ("gpkg_contents", "gpkg_geometry_columns"):
        for layer in new:
            assert raw(old.gpkg, f"SELECT srs_id FROM {table} WHERE table_name = '{layer}'") == [(32615,)]


@pytest.mark.parametrize("old", [1, 2], indirect=True)  # later ones have a style of ours already
def test_a_style_that_a_person_saved_from_qgis_stays_the_default(old: Layout) -> None:
    with closing(sqlite3.connect(old.gpkg)) as db, db:
        db.execute(schema.TABLE)
        db.execute("INSERT INTO gpkg_contents (table_name, data_type) VALUES ('layer_styles', 'attributes')")
        db.execute("INSERT INTO layer_styles (f_table_name, styleName, useAsDefault) VALUES ('damage_map', 'mine', 1)")
    store.open_project(old.folder)
    found = raw(old.gpkg, "SELECT f_table_name, styleName, useAsDefault FROM layer_styles ORDER BY id")
    assert found == [("damage_map", "mine", 1), ("damage_map", "PU-Geo", 0), ("areas", "PU-Geo", 1), ("aoi", "PU-Geo", 1)]


@pytest.mark.parametrize("old", [3, 4, 5], indirect=True)
def test_our_style_of_the_live_map_is_renewed_and_one_that_a_person_changed_is_not(old: Layout) -> None:
    find = "SELECT styleQML FROM layer_styles WHERE f_table_name = 'damage_map'"
    assert raw(old.gpkg, find) != [(schema.damage_map_qml(),)]
    store.open_project(old.folder)
    assert raw(old.gpkg, find) == [(schema.damage_map_qml(),)]
    with closing(sqlite3.connect(old.gpkg)) as db, db:
        db.execute("UPDATE layer_styles SET styleQML = '<qgis>mine</qgis>'")  # saved from QGIS under our name
        db.execute(schema.renew("damage_map", schema.damage_map_qml(), ""))
    assert raw(old.gpkg, find) == [("<qgis>mine</qgis>",)]


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
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            db.execute(
                "INSERT INTO label_event (op, building_id, label, analyst, at, screen, kind, act, absent_types) "
                "VALUES ('x', 'b1', 'not_damaged', 'ann', '', '', 'set', 'x', '[\"roof\"]')"
            )


def test_types_that_a_building_has_not_are_stored_in_a_migrated_log_and_nobody_answered_of_older_clicks(old: Layout) -> None:
    with store.connect(old) as db:
        assert {event.absent_types for event in labels.current(db).values()} == {()}
        labels.append(db, [LabelOp("7", "b1", "positive", absent_types=["roof"])], analyst="ann", screen="map")
        assert labels.current(db)["b1"].absent_types == ("roof",)
        labels.undo(db, "8", analyst="ann", screen="map")
        assert labels.current(db)["b1"].absent_types == ()


def every(statements: Callable[[int], Iterable[int]]) -> list[Any]:
    """Return each step with some of its statements; all but the last statement of an old schema's own step are long."""
    cases = [
        (old, number, at, at == max(statements(number)) and old == number)
        for old, number in STEPS
        for at in statements(number)
    ]
    return [pytest.param(*case, marks=() if is_quick else pytest.mark.long(part="slow")) for *case, is_quick in cases]


@pytest.mark.parametrize(
    ("old", "number", "broken"), every(lambda number: range(1, len(schema.MIGRATIONS[number]) + 1)), indirect=["old"]
)
def test_failed_migration_leaves_the_old_file_good(
    old: Layout, monkeypatch: pytest.MonkeyPatch, number: int, broken: int
) -> None:
    before, kept = old_rows(old.gpkg), shape(old.gpkg)
    steps = schema.MIGRATIONS[number]
    monkeypatch.setitem(schema.MIGRATIONS, number, (*steps[:broken], "SELECT no_such_column FROM label_event"))
    with pytest.raises(ProjectError, match=r"cannot be read \(no such column"):
        store.open_project(old.folder)
    assert (old_rows(old.gpkg), shape(old.gpkg)) == (before, kept)
    monkeypatch.setitem(schema.MIGRATIONS, number, steps)
    store.open_project(old.folder)
    assert old_rows(old.gpkg) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "number", "step"), every(lambda number: (0, 5, len(schema.MIGRATIONS[number]))), indirect=["old"]
)
def test_killed_migration_leaves_the_old_file_good(old: Layout, number: int, step: int) -> None:
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
        number, step = map(int, sys.argv[2:])
        steps = list(schema.MIGRATIONS[number])
        steps.insert(step, Deadly("SELECT 1"))
        schema.MIGRATIONS[number] = tuple(steps)
        store.open_project(sys.argv[1])
    """
    before, kept, found = old_rows(old.gpkg), shape(old.gpkg), schema_of(old.gpkg)
    code = [sys.executable, "-c", textwrap.dedent(script), str(old.folder), str(number), str(step)]
    assert subprocess.run(code, check=False).returncode == -signal.SIGKILL
    assert (schema_of(old.gpkg), shape(old.gpkg)) == (found, kept)
    assert old_rows(old.gpkg) == old_rows(backup_of(old)) == before
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
    found = schema_of(old.gpkg)
    command = [sys.executable, "-c", textwrap.dedent(script), str(old.folder)]
    openers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) for _ in range(8)
    ]
    for opener in openers:
        opener.stdin.write("go\n")
        opener.stdin.flush()
    assert [opener.communicate(timeout=60)[0].strip() for opener in openers] == ["6 ok"] * 8
    assert old_rows(backup_of(old)) == old_rows(old.gpkg)
    assert schema_of(backup_of(old)) == found


def test_without_a_backup_nothing_is_migrated(old: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    found = schema_of(old.gpkg)
    monkeypatch.setattr(backups, "atomic_write", full)
    with pytest.raises(ProjectError, match=r"brought up to date only after a backup.*No space"):
        store.open_project(old.folder)
    assert schema_of(old.gpkg) == found
    monkeypatch.undo()
    store.open_project(old.folder)


def test_a_migration_that_fails_again_and_again_makes_one_backup(old: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schema.MIGRATIONS, schema.SCHEMA - 1, ("SELECT no_such_column",))
    for _ in range(3):
        with pytest.raises(ProjectError):
            store.open_project(old.folder)
    assert backup_of(old).is_file()


@pytest.mark.parametrize("old", [number for number in OLD if number < 6], indirect=True)  # schema 6 has the table itself
def test_a_table_of_another_program_in_the_way_is_named(old: Layout) -> None:
    db = sqlite3.connect(old.gpkg)
    db.execute("CREATE TABLE choice (mine TEXT)")
    db.commit()
    db.close()
    with (
        pytest.raises(ProjectError, match=r"table choice already exists.*Nothing was changed") as caught,
        store.connect(old),
    ):
        pass
    assert "QGIS" in caught.value.hint
    assert raw(old.gpkg, "SELECT sql FROM sqlite_master WHERE name = 'choice'") == [("CREATE TABLE choice (mine TEXT)",)]
