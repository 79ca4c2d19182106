"""The label log: append, replay, undo, redo, and what a method may learn from it."""

from __future__ import annotations

import pytest

from pu_geo.errors import LabelError
from pu_geo.project import labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout


def add(db: object, op: str, building: str, label: str = "positive", analyst: str = "ann", **more: object) -> labels.Ack:
    return labels.append(db, [LabelOp(op, building, label)], analyst=analyst, screen="map", **more)[0]  # type: ignore[arg-type]


def test_last_event_decides_and_cleared_buildings_carry_no_label(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1")
        add(db, "2", "b2")
        add(db, "3", "b1", "not_damaged")
        add(db, "4", "b2", "cleared")
        assert labels.current_labels(db) == {"b1": "not_damaged"}
        assert labels.current_labels(db, at=2) == {"b1": "positive", "b2": "positive"}


def test_replayed_operation_gets_its_old_event_and_stores_nothing(project: Layout) -> None:
    with store.connect(project) as db:
        first = add(db, "same", "b1")
        add(db, "other", "b1", "cleared")
        again = add(db, "same", "b1")
        assert again == first
        assert labels.last_event(db) == 2
        assert labels.current_labels(db) == {}


@pytest.mark.parametrize(
    ("op", "building", "label", "word"),
    [
        ("1", "nobody", "positive", "not in this project"),
        ("1", "b1", "broken", "is not one of"),
        ("", "b1", "positive", "op"),
    ],
)
def test_bad_operation_is_answered_and_does_not_stop_the_next(
    project: Layout, op: str, building: str, label: str, word: str
) -> None:
    with store.connect(project) as db:
        ops = [LabelOp(op, building, label), LabelOp("good", "b2", "positive")]  # type: ignore[arg-type]
        bad, good = labels.append(db, ops, analyst="ann", screen="map")
        assert bad.event is None
        assert word in str(bad.error)
        assert good.event == 1
        with pytest.raises(LabelError, match="1 of 2"):
            labels.refuse_rejected([bad, good], "x.csv")


def test_undo_and_redo_walk_the_whole_history_of_one_analyst(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1")
        add(db, "2", "b1", "not_damaged")
        add(db, "3", "b2")
        states = []
        for number in range(4):
            labels.undo(db, f"u{number}", analyst="ann", screen="map")
            states.append(labels.current_labels(db))
        assert states == [{"b1": "not_damaged"}, {"b1": "positive"}, {}, {}]
        for number in range(4):
            labels.redo(db, f"r{number}", analyst="ann", screen="map")
            states.append(labels.current_labels(db))
        assert states[4:] == [
            {"b1": "positive"},
            {"b1": "not_damaged"},
            {"b1": "not_damaged", "b2": "positive"},
            {"b1": "not_damaged", "b2": "positive"},
        ]


def test_new_act_forgets_what_could_be_redone(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1")
        labels.undo(db, "u", analyst="ann", screen="map")
        add(db, "2", "b2")
        assert labels.redo(db, "r", analyst="ann", screen="map") == []
        assert labels.current_labels(db) == {"b2": "positive"}


def test_replayed_undo_undoes_once(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1")
        add(db, "2", "b2")
        first = labels.undo(db, "u", analyst="ann", screen="map")
        assert labels.undo(db, "u", analyst="ann", screen="map") == first
        assert labels.current_labels(db) == {"b1": "positive"}


def test_replayed_undo_that_found_nothing_still_does_nothing(project: Layout) -> None:
    with store.connect(project) as db:
        assert labels.undo(db, "u", analyst="ann", screen="map") == []
        add(db, "1", "b1")
        assert labels.undo(db, "u", analyst="ann", screen="map") == []
        assert labels.current_labels(db) == {"b1": "positive"}


def test_building_twice_in_one_act_is_as_before_after_undo(project: Layout) -> None:
    with store.connect(project) as db:
        ops = [LabelOp("a", "b1", "positive", "x"), LabelOp("b", "b1", "not_damaged", "x")]
        labels.append(db, ops, analyst="ann", screen="cli")
        labels.undo(db, "u", analyst="ann", screen="map")
        assert labels.current_labels(db) == {}
        labels.redo(db, "r", analyst="ann", screen="map")
        assert labels.current_labels(db) == {"b1": "not_damaged"}


def test_undo_does_not_take_back_what_another_analyst_said_since(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1", analyst="ann")
        add(db, "2", "b1", "not_damaged", analyst="bob")
        labels.undo(db, "u", analyst="ann", screen="map")
        assert labels.current_labels(db) == {"b1": "not_damaged"}


def test_undo_leaves_other_analysts_alone(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1", analyst="ann")
        add(db, "2", "b2", analyst="bob")
        labels.undo(db, "u", analyst="ann", screen="map")
        assert labels.current_labels(db) == {"b2": "positive"}


def test_operations_of_one_act_are_undone_together(project: Layout) -> None:
    with store.connect(project) as db:
        ops = [LabelOp(f"i{i}", f"b{i}", "positive", "import-1") for i in range(5)]
        labels.append(db, ops, analyst="ann", screen="cli", kind="import")
        assert len(labels.undo(db, "u", analyst="ann", screen="map")) == 5
        assert labels.current_labels(db) == {}
        labels.redo(db, "r", analyst="ann", screen="map")
        assert len(labels.current_labels(db)) == 5


def test_pu_set_follows_the_order_asked_for_and_the_event(project: Layout) -> None:
    with store.connect(project) as db:
        add(db, "1", "b1")
        add(db, "2", "b2", "not_damaged")
        add(db, "3", "b3", "not_assessable")
        add(db, "4", "b4")
        found = labels.pu_set(db, at=3, ids=["b4", "b3", "b2", "b1"])
    assert found.is_positive.tolist() == [False, False, False, True]
    assert found.is_not_damaged.tolist() == [False, False, True, False]
    assert found.is_left_out.tolist() == [False, True, False, False]
    assert found.at_event == 3
