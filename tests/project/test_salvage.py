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
from damage_parts import PAGE, checkpoint, page_of
from small_parts import click, small_project

from pu_geo.project import choices, decisions, labels, salvage, store
from pu_geo.project.layout import Layout


@pytest.fixture(scope="module")
def clicked(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A project of 601 answers, and a decision that takes several pages."""
    layout = small_project(tmp_path_factory.mktemp("salvage") / "event.pugeo", 60)
    for _ in range(10):
        click(layout, *(f"b{i}" for i in range(60)))
    click(layout, "b3", damage_types=tuple(f"roof {i}" for i in range(9)), absent_types=("walls",), comment="é" * 500)
    with store.connect(layout) as db:
        choices.put(db, "map_run", {"run_id": "a"})
        ids = [f"b{i}" for i in range(60)] * 40
        decisions.decide(db, "op-1", "selection", "Riverside", {"building_ids": ids}, analyst="ann")
    checkpoint(layout)
    return layout


def stored(layout: Layout, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table as SQLite reads them."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY 1")]


def pages_of(layout: Layout, name: str) -> tuple[int, list[int]]:
    """Return the first page of a table, and its leaves."""
    root = page_of(layout, name)
    return root, salvage._leaves(salvage._Pages(layout.gpkg), root)


def damaged(layout: Layout, place: Path, page: int) -> Path:
    """Return a copy of a project's file with a page zeroed."""
    content = bytearray(layout.gpkg.read_bytes())
    content[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    (place / "project.gpkg").write_bytes(content)
    return place / "project.gpkg"


def test_reads_every_row_of_a_whole_file_as_sqlite_does(clicked: Layout) -> None:
    found = salvage.readable(clicked.gpkg)
    assert {table: one.rows for table, one in found.items()} == {table: stored(clicked, table) for table in salvage.LOGS}
    assert {one.n_unreadable for one in found.values()} == {0}
    assert len(found["label_event"].rows) == 601


def test_reads_all_events_but_those_of_a_page_that_is_gone_and_counts_them(clicked: Layout, tmp_path: Path) -> None:
    root, leaves = pages_of(clicked, "label_event")
    whole = stored(clicked, "label_event")
    assert root not in leaves
    for page in (root, 1):  # all others lie below the one, and are named in the other
        assert salvage.readable_events(damaged(clicked, tmp_path, page)) == (whole, 0)
    gone = {number for number, _ in salvage._rows(salvage._Pages(clicked.gpkg), leaves[1])}
    kept = [row for row in whole if row["event"] not in gone]
    assert salvage.readable_events(damaged(clicked, tmp_path, leaves[1])) == (kept, len(gone))
    assert len(gone) > 5


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


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\xff" * 9000, bytes(50_000)], ids=len)
def test_finds_nothing_in_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "project.gpkg").write_bytes(content)
    assert salvage.readable_events(tmp_path / "project.gpkg") == ([], 0)


def test_never_returns_an_event_that_was_not_stored(clicked: Layout, tmp_path: Path) -> None:
    dice, content = random.Random(3), clicked.gpkg.read_bytes()
    whole = {json.dumps(row) for row in stored(clicked, "label_event")}
    for _ in range(6):
        broken = bytearray(content)
        for _ in range(200):
            start = dice.randrange(len(broken) - 64)
            broken[start : start + 64] = bytes(64)
        (tmp_path / "project.gpkg").write_bytes(broken)
        found = {json.dumps(row) for row in salvage.readable_events(tmp_path / "project.gpkg")[0]}
        assert 0 < len(found) < len(whole)
        assert found <= whole


def test_salvaged_history_of_a_damaged_file_is_imported_without_the_undo_of_lost_answers(
    clicked: Layout, tmp_path: Path, run: CommandLine
) -> None:
    copy = Layout(Path(shutil.copytree(clicked.folder, tmp_path / "event.pugeo")))
    click(copy, "b50", analyst="bob")
    with store.connect(copy) as db:
        (lost,) = labels.undo(db, "undo-1", analyst="bob", screen="map")
    checkpoint(copy)
    damaged(copy, tmp_path, pages_of(clicked, "label_event")[1][1]).replace(copy.gpkg)
    run.refused("export-labels", copy.folder, "--out", tmp_path / "l.csv")
    path = tmp_path / "l.events.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2] + lines[-1:]))  # as if the page of bob's answer were gone, too
    n = len(lines) - 2
    assert 300 < n < lost.event - 1
    other = small_project(tmp_path / "other.pugeo", 60)
    found = run.json("label", other.folder, "--import", path, "--same-footprints")
    assert (found["rows"], found["stored"], found["skipped"]) == (n, n - 1, 1)
    assert "1 entry was left out" in found["notes"][-1]
    assert store.call(other, labels.current_labels) == store.call(clicked, labels.current_labels)
    again = run.json("label", other.folder, "--import", path, "--same-footprints")
    assert (again["stored"], again["unchanged"], again["skipped"]) == (0, n - 1, 1)
