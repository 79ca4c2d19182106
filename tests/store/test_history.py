"""A history on its way into an empty project: each event as it was, or words of what is wrong with it."""

from sqlite3 import Connection

import pytest

from pu_geo.records import LabelOp
from pu_geo.store import analysts, history, labels

AT = "2026-01-02T03:04:05.678Z"


def cells(event: int, kind: str = "set", **more: str) -> dict[str, str]:
    """An event of a history file, as texts: damaged, by ann."""
    usual = {"op": f"op{event}", "building_id": "b1", "label": "positive", "damage_types": "[]", "absent_types": "[]"}
    of_origin = {"analyst": "ann", "at": AT, "stored_at": AT, "kind": kind, "stored_kind": kind, "act": f"act{event}"}
    return {**dict.fromkeys(history.COLUMNS, ""), "event": str(event), **usual, **of_origin, "screen": "map", **more}


def rebuild(db: Connection, *events: dict[str, str]) -> str | None:
    return history.rebuild(db, [history.row_of(one) for one in events])


def test_events_have_their_numbers_names_times_and_kinds_whatever_the_order_of_the_file(db: Connection) -> None:
    past = (
        cells(2, label="not_damaged", stored_at="2026-02-02T00:00:00.000Z", stored_kind="import", imported_by="carl"),
        cells(1),
        cells(4, "undo", undoes="2", answer="1", analyst="carl"),
    )
    assert rebuild(db, *past) is None
    rows = [dict(zip(history.COLUMNS, row, strict=True)) for row in history.rows(db, at=4)]
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows] == [
        past[1], past[0], past[2],
    ]  # fmt: skip
    assert len(list(history.rows(db, at=3))) == 2
    assert labels.current(db)["b1"].event == 1  # the answer that the undo brought back there
    assert set(analysts.own_answers(db)) == {("b1", "ann")}
    labels.append(db, [LabelOp("r", step="redo")], analyst="carl", screen="map")
    assert labels.current_labels(db) == {"b1": "not_damaged"}


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (cells(2, op="op1", label="not_damaged"), "its operation is there twice"),
        (cells(2, "magic"), "kind 'magic'"),
        (cells(2, "undo"), "names the event it undoes"),
        (cells(2, undoes="1"), "nothing else does"),
        (cells(2, "undo", undoes="9"), "points at event 9"),
        (cells(2, "undo", undoes="1", building_id="b2"), "of another building"),
        (cells(2, "undo", undoes="1", answer="5"), "points at event 5"),
        (cells(2, analyst=""), "no text"),
        (cells(2, comment="x" * 501), "comment must be"),
        (cells(2, damage_types="roof"), "no list"),
        (cells(0), "whole numbers from 1"),
    ],
)
def test_the_first_event_that_makes_no_sense_is_named(db: Connection, event: dict[str, str], word: str) -> None:
    assert word in str(rebuild(db, cells(1), event))
