"""Many labels stored at once: the same rows as one by one, and undo of them the same as building by building."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_parts import small_project

from pu_geo.project import labels, store
from pu_geo.project.labels import Ack
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp

N = 8
LABELS = ("positive", "not_damaged", "not_assessable", "cleared")


WRONG: dict[str, list[Any]] = {
    "op": ["", 7, ["op1"], None, "a\0b", "\ud800", "x" * 201], "building_id": ["b99", "", None, {"b": 1}, "b\0", "\ud800"],
    "label": ["damaged", None, []], "act": ["", 5], "grade": ["no such", 3, "x" * 500], "reason": ["fog"],
    "comment": [None, "x" * 501], "damage_types": ["roof", [""], ["walls"], None], "at": ["yesterday"], "analyst": [""],
}  # fmt: skip


def some_operations(rng: np.random.Generator, n: int) -> list[LabelOp]:
    """Labels of acts on several buildings, with undo, redo, replays, and what makes no sense, among them values of other kinds."""
    found: list[LabelOp] = []
    for number in range(n):
        kind = rng.random()
        if kind < 0.12 and found:
            found.append(found[int(rng.integers(len(found)))])  # sent again
            continue
        if kind < 0.25:
            found.append(LabelOp(f"op{number}", step=str(rng.choice(["undo", "redo"]))))  # type: ignore[arg-type]
            continue
        label = str(rng.choice(LABELS))
        given: dict[str, Any] = {
            "op": f"op{number}", "building_id": f"b{rng.integers(N)}", "label": label, "act": f"act{number // 5}",
            "grade": str(rng.choice(["", "major", "Minor"])) if label == "positive" else "",
            "damage_types": ["roof"] if label == "positive" and number % 3 == 0 else (),
            "absent_types": ("walls",) if label == "positive" and number % 4 == 0 else (),
            "reason": "cloud" if label == "not_assessable" else "", "comment": "ü" * (number % 2),
            "analyst": "kim" if number % 7 == 0 else None, "at": "2026-05-01T12:00:00+02:00" if number % 7 == 0 else None,
        }  # fmt: skip
        if kind > 0.75:
            name = str(rng.choice(list(WRONG)))
            given[name] = WRONG[name][int(rng.integers(len(WRONG[name])))]
        found.append(LabelOp(**given))
    return found


def rows_of(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the whole log but for the times at which rows were stored."""
    names = [row[1] for row in db.execute("PRAGMA table_info(label_event)") if row[1] != "at"]
    return [
        *db.execute(f"SELECT {', '.join(names)} FROM label_event ORDER BY event"),
        *db.execute("SELECT * FROM empty_step"),
    ]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return small_project(tmp_path_factory.mktemp("empty") / "event.pugeo", N)


def copies(layout: Layout, folder: Path) -> tuple[Layout, Layout]:
    one, other = (Layout(Path(shutil.copytree(layout.folder, folder / f"{name}.pugeo"))) for name in ("a", "b"))
    return one, other


@pytest.mark.parametrize("seed", range(2))
def test_at_once_and_one_by_one_leave_the_same_log_and_acknowledgements(empty: Layout, tmp_path: Path, seed: int) -> None:
    ops = some_operations(np.random.default_rng(seed), 90)
    at_once, one_by_one = copies(empty, tmp_path)
    with store.connect(at_once) as a, store.connect(one_by_one) as b:
        alone = [ack for op in ops for ack in labels.append(b, [op], analyst="ann", screen="map")]
        assert labels.append(a, ops, analyst="ann", screen="map") == alone
        assert rows_of(a) == rows_of(b)
        assert sum(ack.error is not None for ack in alone) > 5
        assert len(rows_of(a)) > 40
        assert labels.append(a, ops[::-1], analyst="ann", screen="map") == labels.append(
            b, ops[::-1], analyst="ann", screen="map"
        )
        assert labels.current(a).keys() == labels.current(b).keys()


def test_numbers_go_on_where_the_table_says_and_none_is_given_twice(empty: Layout, tmp_path: Path) -> None:
    layout, _ = copies(empty, tmp_path)
    with store.connect(layout) as db:
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('label_event', 40)")  # numbers that were given before
        ops = [LabelOp("x", "b1", "positive"), LabelOp("y", "b99", "positive"), LabelOp("z", "b2", "positive")]
        acks = labels.append(db, ops, analyst="ann", screen="map")
        assert [ack.event for ack in acks] == [41, None, 42]
        assert labels.append(db, ops[:1], analyst="ann", screen="map") == [Ack("x", 41)]
        assert labels.append(db, [LabelOp("w", "b1", "cleared")], analyst="ann", screen="map") == [Ack("w", 43)]
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            db.execute("UPDATE label_event SET label = 'cleared'")
        with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
            db.execute("DELETE FROM label_event")
