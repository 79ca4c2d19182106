"""What can still be read of a damaged project's file."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine
from small_parts import click, small_project

from pu_geo.project import choices, decisions, labels, salvage, store
from pu_geo.project.layout import Layout

PAGE = 4096


@pytest.fixture(scope="module")
def clicked(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A project of 601 answers, and a decision that takes several pages."""
    layout = small_project(tmp_path_factory.mktemp("salvage") / "event.pugeo", 60)
    for _ in range(10):
        click(layout, *(f"b{i}" for i in range(60)))
    click(layout, "b3", damage_types=tuple(f"roof {i}" for i in range(9)), absent_types=("walls",), comment="é" * 500)
    with store.connect(layout) as db:
        choices.put(db, "map_run", {"run_id": "a"})
        decisions.decide(
            db, "op-1", "selection", "Riverside", {"building_ids": [f"b{i}" for i in range(60)] * 40}, analyst="ann"
        )
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return layout


def stored(layout: Layout, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table as SQLite reads them."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY 1")]


def pages_of(layout: Layout, name: str) -> tuple[int, list[int]]:
    """Return the first page of a table, and its leaves."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return root, salvage._leaves(salvage._Pages(layout.gpkg), root)


def damaged(layout: Layout, place: Path, *numbers: int) -> Path:
    """Return a copy of a project's file with some pages zeroed."""
    content = bytearray(layout.gpkg.read_bytes())
    for number in numbers:
        content[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)
    (place / "project.gpkg").write_bytes(content)
    return place / "project.gpkg"


@pytest.mark.parametrize("table", salvage.LOGS)
def test_reads_every_row_of_a_whole_file_as_sqlite_does(clicked: Layout, table: str) -> None:
    found = salvage.readable(clicked.gpkg)[table]
    assert found.rows == stored(clicked, table)
    assert found.n_unreadable == 0


def test_reads_all_events_below_a_page_that_is_gone(clicked: Layout, tmp_path: Path) -> None:
    root, leaves = pages_of(clicked, "label_event")
    assert root not in leaves
    rows, n_unreadable = salvage.readable_events(damaged(clicked, tmp_path, root))
    assert rows == stored(clicked, "label_event")
    assert n_unreadable == 0


def test_counts_the_events_of_a_page_that_is_gone(clicked: Layout, tmp_path: Path) -> None:
    _, leaves = pages_of(clicked, "label_event")
    whole = stored(clicked, "label_event")
    gone = {number for number, _ in salvage._rows(salvage._Pages(clicked.gpkg), leaves[1])}
    rows, n_unreadable = salvage.readable_events(damaged(clicked, tmp_path, leaves[1]))
    assert n_unreadable == len(gone) > 5
    assert rows == [row for row in whole if row["event"] not in gone]


def test_reads_the_events_of_a_file_without_its_first_page(clicked: Layout, tmp_path: Path) -> None:
    rows, n_unreadable = salvage.readable_events(damaged(clicked, tmp_path, 1))
    assert rows == stored(clicked, "label_event")
    assert n_unreadable == 0


def test_reads_what_is_committed_in_the_log_beside_the_file_and_nothing_else(clicked: Layout, tmp_path: Path) -> None:
    layout = Layout(shutil.copytree(clicked.folder, tmp_path / "event.pugeo"))
    with store.connect(layout) as db:
        click(layout, "b1", "b2")
        click(layout, "b5")
        copy = Path(shutil.copytree(layout.folder, tmp_path / "copy.pugeo"))
        whole = [dict(row) for row in stored(layout, "label_event")]
        db.execute("SELECT 1")
    assert salvage.readable_events(copy / "project.gpkg")[0] == whole
    log = copy / "project.gpkg-wal"
    content = bytearray(log.read_bytes())
    content[-10] ^= 255
    log.write_bytes(content)
    rows, _ = salvage.readable_events(copy / "project.gpkg")
    assert rows == whole[:-1]


def test_reads_events_of_an_older_schema_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "project.gpkg"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((Path(__file__).parent / "schema_1.sql").read_text(encoding="utf-8"))
        db.executemany(
            "INSERT INTO label_event (op, building_id, label, analyst, at, screen, kind, act) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(f"op-{i}", f"b{i}", "positive", "ann", "2024-01-01T00:00:00Z", "map", "set", f"op-{i}") for i in range(50)],
        )
        db.commit()
        n = db.execute("SELECT count(*) FROM label_event").fetchone()[0]
    rows, n_unreadable = salvage.readable_events(path)
    assert len(rows) == n > 0
    assert n_unreadable == 0
    assert {(row["reason"], row["damage_types"], row["absent_types"], row["grade"], row["answer"]) for row in rows} == {
        ("", "[]", "[]", "", None)
    }


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\xff" * 9000, bytes(50_000)], ids=len)
def test_finds_nothing_in_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "project.gpkg").write_bytes(content)
    assert salvage.readable_events(tmp_path / "project.gpkg") == ([], 0)


def test_never_returns_an_event_that_was_not_stored(clicked: Layout, tmp_path: Path) -> None:
    dice, content = random.Random(3), clicked.gpkg.read_bytes()
    whole = {json.dumps(row) for row in stored(clicked, "label_event")}
    for _ in range(20):
        broken = bytearray(content)
        for _ in range(200):
            start = dice.randrange(len(broken) - 64)
            broken[start : start + 64] = bytes(64)
        (tmp_path / "project.gpkg").write_bytes(broken)
        rows, _ = salvage.readable_events(tmp_path / "project.gpkg")
        assert 0 < len(rows) < len(whole)
        assert [row for row in rows if json.dumps(row) not in whole] == []


def test_history_that_can_be_read_is_imported_without_the_undo_of_lost_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = small_project(tmp_path / "event.pugeo", 60)
    for i in range(10):
        click(layout, *(f"b{k}" for k in range(50)), label="positive" if i % 2 else "not_damaged")
    click(layout, "b50", analyst="bob")
    with store.connect(layout) as db:
        labels.undo(db, "undo-1", analyst="bob", screen="map")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    run, path = CommandLine(capsys), tmp_path / "l.events.csv"
    run.text("export-labels", layout.folder, "--out", tmp_path / "l.csv")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2] + lines[-1:]))  # as the salvage of a file that lost the page of bob's answer
    other = small_project(tmp_path / "other.pugeo", 60)
    found = run.json("label", other.folder, "--import", path, "--same-footprints")
    assert (found["rows"], found["stored"], found["skipped"]) == (501, 500, 1)
    assert "1 entry was left out" in found["notes"][-1]
    now = store.call(other, labels.current_labels)
    assert (len(now), now["b1"]) == (50, "positive")
    again = run.json("label", other.folder, "--import", path, "--same-footprints")
    assert (again["stored"], again["unchanged"], again["skipped"]) == (0, 500, 1)


def test_salvaged_history_of_a_damaged_file_is_imported(
    clicked: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Layout(Path(shutil.copytree(clicked.folder, tmp_path / "event.pugeo")))
    _, leaves = pages_of(clicked, "label_event")
    damaged(clicked, tmp_path, leaves[1]).replace(copy.gpkg)
    run = CommandLine(capsys)
    code, _, err = run("export-labels", copy.folder, "--out", tmp_path / "l.csv")
    assert code == 2
    assert "damaged" in err
    other = small_project(tmp_path / "other.pugeo", 60)
    found = run.json("label", other.folder, "--import", tmp_path / "l.events.csv", "--same-footprints")
    assert found["stored"] + found["skipped"] == found["rows"] > 0
    assert len(store.call(other, labels.current_labels)) > 0
