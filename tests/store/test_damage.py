"""A project whose database is damaged: no click is acknowledged, and nothing ends in a traceback."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from cli_parts import CommandLine
from damage_parts import PAGE, overwrite, page_of
from small_parts import click, small_project

from pu_geo.answers import labeling
from pu_geo.errors import PuGeoError
from pu_geo.store import integrity, labels, store
from pu_geo.store.layout import Layout

N = 40
MESSAGE = {"session": "s", "analyst": "ann", "ops": [{"n": 1, "op": "new", "building_id": "b2", "label": "positive"}]}
Whole = tuple[Path, Path]


def damage(content: bytearray, kind: str) -> None:
    """Zero a page of a file, change eight bytes or one of the header, or cut the rest off."""
    dice = random.Random(5)
    start = dice.randrange(len(content) - PAGE)
    if kind == "zero":
        content[start // PAGE * PAGE : (start // PAGE + 1) * PAGE] = bytes(PAGE)
    elif kind == "flip":
        content[start : start + 8] = dice.randbytes(8)
    elif kind == "cut":
        del content[start:]
    else:
        content[16] ^= 5  # the size of its pages


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A folder of a project with 160 answers, and one with more of them in the log beside the file."""
    place = tmp_path_factory.mktemp("damage")
    layout = small_project(place / "event.pugeo", N)
    for _ in range(4):
        click(layout, *(f"b{k}" for k in range(N)))
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    settled = Path(
        shutil.copytree(layout.folder, place / "settled" / "event.pugeo", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    )
    with store.connect(layout) as db:  # while it is open the log stays
        db.execute("SELECT 1 FROM footprints").fetchall()
        click(layout, *(f"b{k}" for k in range(1, N, 3)), label="not_assessable", reason="cloud")
        return settled, Path(shutil.copytree(layout.folder, place / "unsettled" / "event.pugeo"))


@pytest.mark.parametrize(("end", "kind"), [("", "zero"), ("", "cut"), ("", "header"), ("-wal", "flip"), ("-wal", "cut")])
def test_a_damaged_project_is_refused_in_words_and_stores_nothing(
    whole: Whole, tmp_path: Path, run: CommandLine, end: str, kind: str
) -> None:
    layout = Layout(Path(shutil.copytree(whole[1 if end else 0], tmp_path / "event.pugeo")))
    path = Path(f"{layout.gpkg}{end}")
    content = bytearray(path.read_bytes())
    damage(content, kind)
    path.write_bytes(content)
    before = layout.journal.read_bytes()
    assert "damaged" in run.refused("runs", "list", layout.folder)
    with pytest.raises(PuGeoError) as caught:
        labeling.store_operations(layout, MESSAGE)
    assert caught.value.kind == "corrupt"
    assert run.json("export-labels", layout.folder, "--out", tmp_path / "l.csv")["n_events"] == before.count(b"\n")
    assert layout.journal.read_bytes() == before


def test_damage_found_while_it_is_open_ends_all_writing(whole: Whole, tmp_path: Path) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    store.open_project(layout.folder)
    overwrite(layout, page_of(layout, "label_event"))
    for act in (lambda: labeling.current_labels(layout), lambda: labeling.store_operations(layout, MESSAGE)):
        with pytest.raises(PuGeoError) as caught:
            act()
        assert caught.value.kind == "corrupt"
    shutil.copy(whole[0] / "project.gpkg", tmp_path / "restored")
    (tmp_path / "restored").rename(layout.gpkg)
    assert labeling.store_operations(layout, MESSAGE) is not None, "another file took its place"


def test_a_large_file_is_checked_beside(whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(integrity, "CHECKED_AT_ONCE", 1000)
    monkeypatch.setattr(store.threading, "Thread", lambda **given: started.append(given) or SimpleNamespace(start=list))
    overwrite(layout, page_of(layout, "label_event"))
    store.open_project(layout.folder)
    started[0]["target"](*started[0]["args"])
    with pytest.raises(PuGeoError, match="a part of it cannot be read"):
        store.open_project(layout.folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE footprints SET geom = x'00' WHERE fid < 4", "the outlines of 3 buildings cannot be read"),
        ("UPDATE footprints SET attributes = '{'", "an entry of the table footprints makes no sense"),
        ("UPDATE footprints SET building_id = CAST(x'ff' AS TEXT) WHERE fid = 1", "a part of it cannot be read"),
        ("INSERT INTO sqlite_sequence VALUES ('label_event', 7)", "ends with entry 0, and the number 7 was given"),
        ("DROP TRIGGER label_event_no_delete", "it lacks trigger label_event_no_delete"),
        ("CREATE TRIGGER t BEFORE INSERT ON label_event BEGIN SELECT RAISE(IGNORE); END", "did not make its trigger t"),
        ("ALTER TABLE run ADD COLUMN more", "another program changed its table run"),
    ],
)
def test_what_is_damaged_is_named(db: Connection, change: str, words: str) -> None:
    assert (integrity.strange(db) or integrity.problem(db)) == ""
    db.execute(change)
    assert words in (integrity.strange(db) or integrity.problem(db))


@pytest.mark.parametrize("value", ["abc", "0", None])
def test_a_schema_that_cannot_be_is_refused(whole: Whole, tmp_path: Path, run: CommandLine, value: str | None) -> None:
    layout = Layout(Path(shutil.copytree(whole[0], tmp_path / "event.pugeo")))
    with closing(sqlite3.connect(layout.gpkg)) as db, db:
        if value is None:
            db.execute("DELETE FROM pugeo_meta WHERE key = 'schema'")
        else:
            db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'schema'", (value,))
    with pytest.raises(PuGeoError, match="notes no schema" if value is None else "notes the schema") as caught:
        store.open_project(layout.folder)
    assert caught.value.kind == "corrupt"
    assert "schema" in run.refused("runs", "list", layout.folder)


def test_looking_at_a_damaged_file_changes_neither_it_nor_the_log_beside_it(project: Layout, tmp_path: Path) -> None:
    root = page_of(project, "score")
    copied = Layout(tmp_path / "copied.pugeo")
    copied.folder.mkdir()
    with closing(sqlite3.connect(project.gpkg)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        click(project, "b3")  # in the log, as this connection keeps the last one from putting it into the file
        for end in ("", "-wal"):
            shutil.copy2(f"{project.gpkg}{end}", f"{copied.gpkg}{end}")
    content = bytearray(copied.gpkg.read_bytes())
    content[(root - 1) * PAGE : root * PAGE] = b"\x77" * PAGE
    copied.gpkg.write_bytes(content)
    before = [Path(f"{copied.gpkg}{end}").read_bytes() for end in ("", "-wal")]
    assert len(before[1]) > PAGE
    with pytest.raises(PuGeoError, match="is damaged"):
        store.call(copied, labels.last_event)
    assert [Path(f"{copied.gpkg}{end}").read_bytes() for end in ("", "-wal")] == before


def test_a_click_while_the_file_is_checked_is_no_damage(project: Layout) -> None:
    click(project, "b1")

    def meanwhile(statement: str) -> None:
        if "max(seq)" in statement:
            reader.set_trace_callback(None)
            click(project, "b2")

    with closing(sqlite3.connect(project.gpkg)) as reader:
        reader.set_trace_callback(meanwhile)
        assert integrity.problem(reader) == ""
        assert labels.last_event(reader) == 2
