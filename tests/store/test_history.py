"""A history on its way into another project: in order, once, with undone answers undone."""

from __future__ import annotations

from dataclasses import replace
from sqlite3 import Connection

import pytest

from pu_geo.records import LabelOp
from pu_geo.store import analysts, history, labels
from pu_geo.store.history import PastEvent
from pu_geo.store.labels import Ack

AT = "2026-01-02T03:04:05.678Z"


def past(event: int, kind: str = "set", label: str = "positive", **more: object) -> PastEvent:
    op = LabelOp(f"op{event}", "b1", label, analyst="ann", at=AT, screen="map")  # type: ignore[arg-type]
    op = replace(op, **{key: more.pop(key) for key in ("building_id", "analyst", "op", "reason") if key in more})  # type: ignore[arg-type]
    return PastEvent(event, op, kind, **more)  # type: ignore[arg-type]


def replay(db: object, *events: PastEvent, act: str = "import-1") -> list[Ack]:
    return history.replay(db, events, importer="carl", act=act)  # type: ignore[arg-type]


def test_replayed_event_is_an_import_that_keeps_name_time_and_kind(db: Connection) -> None:
    assert replay(db, past(7, "simulated"))[0] == Ack("op7", 1)
    found = labels.current(db)["b1"]
    assert (found.analyst, found.at, found.kind, found.screen) == ("ann", AT, "simulated", "map")
    assert db.execute("SELECT origin_kind, imported_by FROM label_event").fetchone() == ("simulated", "carl")
    assert db.execute("SELECT labeller, labelled_at FROM damage_map WHERE label <> ''").fetchone() == ("ann", AT)


def test_replaying_again_stores_only_what_is_new(db: Connection) -> None:
    first = replay(db, past(2, building_id="b2"), past(1))  # in their order, whatever that of the file
    assert [ack.event for ack in first] == [1, 2]
    labels.append(db, [LabelOp("x", "b1", "not_damaged")], analyst="ann", screen="map")
    again = replay(db, past(1), past(2, building_id="b2"), past(3, "undo", "cleared", undoes=2, building_id="b2"), act="b")
    assert again[:2] == first
    assert labels.current_labels(db) == {"b1": "not_damaged"}
    assert labels.last_event(db) == 4


def test_whole_import_is_one_act_of_who_imported_and_what_was_undone_stays_undone(db: Connection) -> None:
    labels.append(db, [LabelOp("mine", "b1", "not_assessable")], analyst="carl", screen="map")
    replay(db, past(1), past(2, label="not_damaged"), past(3, "undo", undoes=2, answer=1))
    assert labels.current(db)["b1"].event == 2  # the answer that the undo brought back there
    rows = [dict(zip(history.COLUMNS, row, strict=True)) for row in history.rows(db, at=4)]
    columns = ("op", "label", "analyst", "at", "kind", "undoes", "answer", "act", "imported_by")
    assert [tuple(row[name] for name in columns) for row in rows[1:]] == [
        ("op1", "positive", "ann", AT, "set", None, None, "import-1", "carl"),
        ("op2", "not_damaged", "ann", AT, "set", None, None, "import-1", "carl"),
        ("op3", "positive", "ann", AT, "undo", 3, 2, "import-1", "carl"),
    ]
    assert len(list(history.rows(db, at=3))) == 3
    labels.undo(db, "u", analyst="carl", screen="map")
    assert labels.current_labels(db) == {"b1": "not_assessable"}
    assert set(analysts.own_answers(db)) == {("b1", "carl")}
    labels._step(db, "r", analyst="carl", screen="map", kind="redo")
    assert labels.current_labels(db) == {"b1": "positive"}
    assert analysts.own_answers(db)["b1", "ann"].label == "positive"


def test_an_undone_import_of_an_undo_lets_the_answer_stand_again(db: Connection) -> None:
    replay(db, past(1))
    replay(db, past(1), past(2, "undo", "cleared", undoes=1), act="import-2")
    assert labels.current_labels(db) == {}
    labels.undo(db, "u", analyst="carl", screen="map")
    assert labels.current_labels(db) == {"b1": "positive"}
    labels._step(db, "r", analyst="carl", screen="map", kind="redo")
    assert labels.current_labels(db) == {}


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (past(2, op="op1", label="not_damaged"), "is here already, as positive on 'b1' by ann"),
        (past(2, op="op1", building_id="b2"), "is here already"),
        (past(2, "magic"), "kind 'magic'"),
        (past(2, "undo"), "names the event it undoes"),
        (past(2, undoes=1), "nothing else does"),
        (past(2, "undo", undoes=9), "points at event 9"),
        (past(2, "undo", undoes=1, building_id="b2"), "of another building"),
        (past(2, "undo", undoes=1, answer=5), "points at event 5"),
        (past(2, building_id="nobody"), "not in this project"),
        (past(2, analyst=""), "analyst must be"),
    ],
)
def test_event_that_makes_no_sense_is_answered_and_does_not_stop_the_next(
    db: Connection, event: PastEvent, word: str
) -> None:
    acks = replay(db, past(1), event, past(3, building_id="b3"))
    assert [ack.error is None for ack in acks] == [True, False, True]
    assert word in str(acks[1].error)
    assert labels.current_labels(db) == {"b1": "positive", "b3": "positive"}
