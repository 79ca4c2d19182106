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
            wrong = {
                "op": ["", 7, ["op1"], None, "a\0b", "\ud800", "x" * 201], "building_id": ["b99", "", None, {"b": 1}, "b\0", "\ud800"],
                "label": ["damaged", None, []], "act": ["", 5], "grade": ["no such", 3, "x" * 500], "reason": ["fog"],
                "comment": [None, "x" * 501], "damage_types": ["roof", [""], ["walls"], None], "at": ["yesterday"], "analyst": [""],
            }  # fmt: skip
            name = str(rng.choice(list(wrong)))
            given[name] = wrong[name][int(rng.integers(len(wrong[name])))]
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
    found = tuple(Layout(folder / f"{name}.pugeo") for name in ("a", "b"))
    for one in found:
        shutil.copytree(layout.folder, one.folder)
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(4))
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


def plain_step(db: sqlite3.Connection, op: str, kind: str) -> None:
    """Take an act of ann's back, or make it stand again, a building at a time."""
    act = labels.next_act(db, "ann", kind)
    rows = db.execute("SELECT event, building_id FROM label_event WHERE act = ? ORDER BY event", (act,)).fetchall()
    for number, (target, building) in enumerate(rows[::-1] if kind == "undo" else rows):
        found = labels.last_standing(db, building, step=(target, kind))
        values = labels.details(found) if found else {"label": "cleared"}
        labels.insert(db, {
            "op": op if number == 0 else f"{op}#{number}", "building_id": building, "analyst": "ann", "at": store.now(),
            "screen": "map", "kind": kind, "undoes": target, "act": f"{kind}:{op}", **values, "answer": found.event if found else None,
        })  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_an_act_is_undone_and_redone_as_a_building_at_a_time(empty: Layout, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ops = [
        LabelOp(
            f"op{i}", f"b{rng.integers(N)}", str(rng.choice(LABELS)), f"act{i // 9}", analyst="kim" if i % 5 == 0 else None
        )  # type: ignore[arg-type]
        for i in range(60)
    ]
    at_once, plain = copies(empty, tmp_path)
    with store.connect(at_once) as a, store.connect(plain) as b:
        for db in (a, b):
            labels.append(db, ops, analyst="ann", screen="map")
        for number, kind in enumerate(("undo", "undo", "redo", "undo", "undo", "redo", "redo", "undo")):
            (ack,) = labels.append(a, [LabelOp(f"s{number}", step=kind)], analyst="ann", screen="map")  # type: ignore[arg-type]
            plain_step(b, f"s{number}", kind)
            assert rows_of(a) == rows_of(b)
            assert (ack.error, ack.event) == (None, labels.last_event(b))
        assert labels.current_labels(a) == labels.current_labels(b)


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
