"""Random histories of labels: what is kept of the log in memory is what all of it says, and many stored at once are one by one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_parts import small_project, square_table

from pu_geo.project import analysts, labels, store
from pu_geo.project.labels import COLUMNS, Ack, Given
from pu_geo.project.layout import Layout
from pu_geo.records import LABELS, LabelEvent, LabelOp

N_BUILDINGS = 12
PEOPLE = ("ann", "bob")
_DECIDING = (
    "FROM (SELECT max(event) AS last FROM label_event WHERE event <= ? GROUP BY building_id) "
    "JOIN label_event e ON e.event = last JOIN label_event a ON a.event = ifnull(e.answer, e.event) WHERE e.label <> 'cleared'"
)


def some_operation(rng: np.random.Generator, number: int) -> LabelOp:
    """A click, an act on several buildings, clearing, an undo or a redo."""
    kind = rng.choice(["undo", "redo", "set"], p=[0.25, 0.1, 0.65])
    if kind != "set":
        return LabelOp(f"op{number}", step=str(kind))  # type: ignore[arg-type]
    label = str(rng.choice(["positive", "not_damaged", "not_assessable", "cleared"], p=[0.4, 0.35, 0.1, 0.15]))
    is_check = rng.random() < 0.3
    return LabelOp(
        f"op{number}", f"b{rng.integers(N_BUILDINGS)}", label, f"act{number // 3}" if rng.random() < 0.4 else None,  # type: ignore[arg-type]
        reason="cloud" if label == "not_assessable" else "", grade="major" if label == "positive" and number % 2 else "",
        shown="audit" if is_check else "", inclusion=0.5 if is_check else None,
    )  # fmt: skip


def all_standing(db: sqlite3.Connection, at: int) -> dict[str, LabelEvent]:
    """Read the whole log, as `labels.current` did before it kept anything."""
    return {row[2]: labels.event_of(row) for row in db.execute(f"SELECT {COLUMNS} {_DECIDING}", (at,))}


def all_given_since(db: sqlite3.Connection, after: int) -> list[Given]:
    rows = db.execute(
        "SELECT event, building_id, analyst, shown = 'audit' FROM label_event "
        "WHERE event > ? AND undoes IS NULL AND label <> 'cleared' AND event NOT IN (SELECT value FROM json_each(?)) "
        "ORDER BY event",
        (after, json.dumps(sorted(labels.all_undone(db)))),
    )
    return [Given(int(event), building, analyst, bool(is_check)) for event, building, analyst, is_check in rows]


def all_changed_since(db: sqlite3.Connection, event: int, but_by: str) -> dict[str, tuple[str, LabelEvent | None]]:
    rows = db.execute(
        "SELECT building_id, label, event FROM label_event e WHERE event IN (SELECT max(event) FROM label_event "
        "WHERE event > ? AND substr(op, 1, ?) <> ? GROUP BY building_id) "
        "AND NOT EXISTS (SELECT 1 FROM label_event x WHERE x.building_id = e.building_id AND x.event > e.event)",
        (event, len(but_by), but_by),
    )
    return {building: (label, labels.current(db, at=at).get(building)) for building, label, at in rows}


def stacks(db: sqlite3.Connection, analyst: str) -> tuple[list[str], list[str]]:
    """Replay an analyst's whole history: which acts stand, and which can be redone."""
    rows = db.execute(
        "SELECT e.act, e.kind, u.act FROM label_event e LEFT JOIN label_event u ON u.event = e.undoes "
        "WHERE ifnull(e.imported_by, e.analyst) = ? GROUP BY e.act ORDER BY min(e.event)",
        (analyst,),
    )
    standing: list[str] = []
    undone: list[str] = []
    for act, kind, target in rows:
        if kind == "undo":
            standing.remove(target)
            undone.append(target)
        elif kind == "redo":
            undone.remove(target)
            standing.append(target)
        else:
            standing.append(act)
            undone.clear()
    return standing, undone


def standing_answers(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return building, analyst and label of every answer whose last undo or redo is no undo, in their order."""
    steps = dict(db.execute("SELECT undoes, kind FROM label_event WHERE undoes IS NOT NULL ORDER BY event"))
    rows = db.execute("SELECT event, building_id, analyst, label FROM label_event WHERE undoes IS NULL ORDER BY event")
    return [answer for event, *answer in rows if steps.get(event) != "undo"]  # type: ignore[misc]


def last_of(answers: Iterable[tuple[Any, str]]) -> dict[Any, str]:
    return {key: label for key, label in dict(answers).items() if label != "cleared"}


def taught(db: sqlite3.Connection, at: int) -> dict[str, str]:
    """Return what a method learns of each labeled building, "" of one that only an audit answered."""
    found = {}
    for building, event in all_standing(db, at).items():
        other = labels.last_standing(db, building, at=at, outside_audits=True) if event.shown == "audit" else event
        is_other = other is not None and other.label != "cleared" and other.event <= event.event
        found[building] = other.label if other is not None and is_other else ""
    return found


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_is_what_the_whole_log_says(tmp_path: Path, seed: int) -> None:
    layout = small_project(tmp_path / "a.pugeo", table=square_table(N_BUILDINGS))
    rng = np.random.default_rng(seed)
    for number in range(80):
        with store.connect(layout) as db:
            labels.append(db, [some_operation(rng, number)], analyst=str(rng.choice(PEOPLE)), screen="map")
            last = labels.last_event(db)
            if rng.random() < 0.4:  # so that several events come at once
                continue
            whole = all_standing(db, last)
            assert labels.current(db) == whole
            assert list(labels.current(db)) == sorted(whole)
            assert labels.current_labels(db) == {building: event.label for building, event in whole.items()}
            pu, what = labels.pu_set(db), taught(db, last)
            for mask, meant in ((pu.is_positive, {"positive"}), (pu.is_excluded, {"", "not_assessable"})):
                expected_ids = [building for building in pu.building_ids if what.get(building) in meant]
                assert [pu.building_ids[row] for row in np.flatnonzero(mask)] == expected_ids
            earlier = int(rng.integers(0, last + 1))
            assert labels.current(db, at=earlier) == all_standing(db, earlier)
            changed = labels.changed_since(db, earlier, but_by="op1")
            expected_changes = all_changed_since(db, earlier, "op1")
            expected_labels = {building: label for building, (label, _) in expected_changes.items()}
            assert {building: one.label for building, one in changed.items()} == expected_labels
            assert all(one is None or changed[building] == one for building, (_, one) in expected_changes.items())
            some = [f"b{i}" for i in range(0, N_BUILDINGS, 2)]
            expected = [one for one in all_given_since(db, earlier) if one.building_id in some]
            assert labels.given_since(db, earlier, some) == expected
            for analyst in PEOPLE:
                standing, undone = stacks(db, analyst)
                assert labels.next_act(db, analyst, "undo") == (standing[-1] if standing else None)
                assert labels.next_act(db, analyst, "redo") == (undone[-1] if undone else None)
                acts = [*standing, *undone, "another"]
                only = {act: labels.next_act(db, analyst, "undo", only=act) for act in acts}
                assert only == {act: act if act in standing else None for act in acts}
            answers = standing_answers(db)
            assert labels.current_labels(db) == last_of((building, label) for building, _, label in answers)
            own = {key: event.label for key, event in analysts.own_answers(db).items()}
            assert own == last_of(((building, who), label) for building, who, label in answers)


def test_what_is_kept_follows_a_file_that_took_the_place_of_another(project: Layout, tmp_path: Path) -> None:
    store_label(project, "op1", "b1")
    assert labels_of(project) == {"b1": "positive"}
    with store.connect(project) as db, closing(sqlite3.connect(tmp_path / "copy.gpkg")) as target:
        db.backup(target)
    store_label(project, "op2", "b2")
    assert labels_of(project) == {"b1": "positive", "b2": "positive"}
    for end in ("-wal", "-shm"):
        project.gpkg.with_name(f"{project.gpkg.name}{end}").unlink(missing_ok=True)
    project.gpkg.write_bytes((tmp_path / "copy.gpkg").read_bytes())  # the same inode: a backup was put back
    store_label(project, "op3", "b3")  # has the number of the event that is not there any more
    store_label(project, "op4", "b4")
    assert labels_of(project) == dict.fromkeys(("b1", "b3", "b4"), "positive")


def test_what_is_rolled_back_is_not_kept_and_what_a_caller_changes_is_its_own(project: Layout) -> None:
    store_label(project, "op1", "b1")
    with store.connect(project) as db:
        with suppress(KeyError), store.transaction(db):
            labels.append(db, [LabelOp("op2", "b2", "positive")], analyst="ann", screen="map")
            assert labels.current_labels(db) == {"b1": "positive", "b2": "positive"}
            raise KeyError
        labels.append(db, [LabelOp("op2", "b2", "not_damaged")], analyst="ann", screen="map")
        assert labels.current_labels(db) == {"b1": "positive", "b2": "not_damaged"}
        labels.current(db).clear()
        labels.current_labels(db).clear()
        assert list(labels.current(db)) == list(labels.current_labels(db)) == ["b1", "b2"]


def store_label(layout: Layout, op: str, building: str) -> None:
    with store.connect(layout) as db:
        labels.append(db, [LabelOp(op, building, "positive")], analyst="ann", screen="map")


def labels_of(layout: Layout) -> dict[str, str]:
    return dict(store.call(layout, labels.current_labels))


# Many labels stored at once: the same rows as one by one


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
            "op": f"op{number}", "building_id": f"b{rng.integers(8)}", "label": label, "act": f"act{number // 5}",
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


@pytest.mark.parametrize("seed", range(2))
def test_at_once_and_one_by_one_leave_the_same_log_and_acknowledgements(project: Layout, tmp_path: Path, seed: int) -> None:
    ops = some_operations(np.random.default_rng(seed), 90)
    one_by_one = Layout(Path(shutil.copytree(project.folder, tmp_path / "copy.pugeo")))
    with store.connect(project) as a, store.connect(one_by_one) as b:
        for some in (ops, ops[::-1]):
            alone = [ack for op in some for ack in labels.append(b, [op], analyst="ann", screen="map")]
            assert labels.append(a, some, analyst="ann", screen="map") == alone
            assert rows_of(a) == rows_of(b)
        assert sum(ack.error is not None for ack in alone) > 5
        assert len(rows_of(a)) > 40
        assert labels.current(a).keys() == labels.current(b).keys()


def test_numbers_go_on_where_the_table_says_and_none_is_given_twice(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('label_event', 40)")  # numbers that were given before
    ops = [LabelOp("x", "b1", "positive"), LabelOp("y", "b99", "positive"), LabelOp("z", "b2", "positive")]
    acks = labels.append(db, ops, analyst="ann", screen="map")
    assert [ack.event for ack in acks] == [41, None, 42]
    assert labels.append(db, ops[:1], analyst="ann", screen="map") == [Ack("x", 41)]
    assert labels.append(db, [LabelOp("w", "b1", "cleared")], analyst="ann", screen="map") == [Ack("w", 43)]
    for statement in ("UPDATE label_event SET label = 'cleared'", "DELETE FROM label_event"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            db.execute(statement)
