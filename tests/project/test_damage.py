"""A project whose database is damaged, in more than a hundred ways: no click is acknowledged, and nothing ends in a traceback."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from cli_parts import CommandLine
from damage_parts import PAGE, overwrite, page_of
from small_parts import add_chips, add_run, click, small_project

from pu_geo.errors import PuGeoError
from pu_geo.project import integrity, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.project import readable_labels

N = 40
MESSAGE = {"session": "s", "analyst": "ann", "ops": [{"n": 1, "op": "new", "building_id": "b2", "label": "positive"}]}
Whole = tuple[Path, Path, dict[str, str], dict[str, str]]
HEADER = (0, 16, 17, 18, 19, 20, 21, 28, 31, 35, 44, 47, 56, 59)  # bytes of the file's header that mean something
KINDS = ("zero", "flip", "cut", "header")
WAYS = [  # the file or the log beside it, what happens to it, a seed
    pytest.param(end, kind, i, marks=pytest.mark.ci if i == 5 else pytest.mark.long(part="lost"))
    for end, kinds, n in (("", KINDS, 30), ("-wal", KINDS[:3], 6))
    for kind in kinds
    for i in range(n)
    if (end, kind, i) not in (("", "zero", 5), ("-wal", "flip", 5))
]


def damage(content: bytearray, kind: str, dice: random.Random) -> None:
    """Zero a page, change eight bytes or one of the header, or cut the rest off."""
    start = dice.randrange(len(content) - PAGE)
    if kind == "zero":
        content[start // PAGE * PAGE : (start // PAGE + 1) * PAGE] = bytes(PAGE)
    elif kind == "flip":
        content[start : start + 8] = dice.randbytes(8)
    elif kind == "cut":
        del content[start:]
    else:
        content[dice.choice(HEADER)] ^= 1 + dice.randrange(255)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A folder of a project with 500 answers, one with more of them in the log beside the file, and the labels of both."""
    place = tmp_path_factory.mktemp("damage")
    layout = small_project(place / "event.pugeo", N)
    add_chips(layout, [f"b{i}" for i in range(N)])
    add_run(layout)
    for i in range(12):
        click(layout, *(f"b{k}" for k in range(N)), label="positive" if i % 2 else "not_damaged")
    click(layout, *(f"b{k}" for k in range(0, N, 3)), label="positive")
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    settled = place / "settled" / "event.pugeo"
    shutil.copytree(layout.folder, settled, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    then = store.call(layout, labels.current_labels)
    with store.connect(layout) as db:  # while it is open the log stays
        db.execute("SELECT 1 FROM footprints").fetchall()
        click(layout, *(f"b{k}" for k in range(1, N, 3)), label="not_assessable", reason="cloud")
        click(layout, "b0", label="cleared")
        unsettled = place / "unsettled" / "event.pugeo"
        shutil.copytree(layout.folder, unsettled)
        now = store.call(layout, labels.current_labels)
    return settled, unsettled, dict(then), dict(now)


@pytest.mark.parametrize(("end", "kind", "seed"), [("", "zero", 5), ("-wal", "flip", 5), *WAYS])
def test_damage_is_refused_in_words_or_changes_no_label(
    whole: Whole, tmp_path: Path, run: CommandLine, end: str, kind: str, seed: int
) -> None:
    source, expected = whole[1 if end else 0], whole[3 if end else 2]
    layout = Layout(Path(shutil.copytree(source, tmp_path / "event.pugeo")))
    path = Path(f"{layout.gpkg}{end}")
    content = bytearray(path.read_bytes())
    damage(content, kind, random.Random(seed))
    path.write_bytes(content)
    readable_labels.read(layout)
    export = ["export-labels", layout.folder, "--out", tmp_path / "l.csv"]
    try:
        store.open_project(layout.folder)
        found, refusal = store.call(layout, labels.current_labels), ""
    except PuGeoError as error:
        refusal = error.kind
    if refusal:
        assert refusal in ("corrupt", "schema")
        refused = run.refused("runs", "list", layout.folder)
        assert "damaged" in refused or "schema" in refused or "project" in refused
        run(*export)  # what can still be read
        with pytest.raises(PuGeoError):
            labeling.store_operations(layout, MESSAGE)
    else:
        assert found == expected
        assert run(*export)[0] == 0
        is_stored = False
        with suppress(PuGeoError):  # a header that lets nobody write
            is_stored = labeling.store_operations(layout, MESSAGE) is not None
        with closing(sqlite3.connect(layout.gpkg)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert labels.current_labels(db) == expected | ({"b2": "positive"} if is_stored else {})
    assert run("jobs", layout.folder)[0] in (0, 2)


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
    with pytest.raises(PuGeoError, match="the labels cannot be read as a whole"):
        store.open_project(layout.folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE footprints SET geom = x'00' WHERE fid < 4", "the outlines of 3 buildings cannot be read"),
        ("UPDATE footprints SET attributes = '{'", "an entry of the buildings makes no sense"),
        ("UPDATE footprints SET building_id = CAST(x'ff' AS TEXT) WHERE fid = 1", "the buildings cannot be read as a whole"),
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
