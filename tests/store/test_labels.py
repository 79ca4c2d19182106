"""The label log: append, replay, undo, redo, what a method may learn from it, and how far several analysts agree."""

from sqlite3 import Connection

import numpy as np
import pytest

from pu_geo.errors import LabelError
from pu_geo.records import REASONS, SHOWN, LabelOp
from pu_geo.store import analysts, labels
from pu_geo.store.analysts import Agreement, AnalystFacts


def add(
    db: Connection, op: str, building: str, label: str = "positive", analyst: str = "ann", **details: object
) -> labels.Ack:
    one = LabelOp(op, building, label, **details)  # type: ignore[arg-type]
    return labels.append(db, [one], analyst=analyst, screen="map")[0]


def undo(db: Connection, op: str, analyst: str = "ann", **more: str) -> list[labels.LabelEvent]:
    return labels.undo(db, op, analyst=analyst, screen="map", **more)


def redo(db: Connection, op: str, analyst: str = "ann") -> list[labels.LabelEvent]:
    ack = labels.append(db, [LabelOp(op, step="redo")], analyst=analyst, screen="map")[0]
    return labels._events(db, [ack.event or 0])


def test_replayed_operations_get_their_old_event_and_store_nothing(db: Connection) -> None:
    assert undo(db, "early") == []
    first = add(db, "same", "b1")
    add(db, "other", "b1", "cleared")
    assert add(db, "same", "b1") == first
    assert (labels.last_event(db), labels.current_labels(db)) == (2, {})
    assert undo(db, "early") == []  # it found nothing then
    assert undo(db, "u") == undo(db, "u")
    assert labels.current_labels(db) == {"b1": "positive"}
    ops = [LabelOp("new", "b2", "positive"), LabelOp("same", step="undo")]
    stored, refused = labels.append(db, ops, analyst="ann", screen="map")
    assert (stored.event, refused.event) == (4, None)
    assert "another operation" in str(refused.error)


def test_pu_set_follows_the_order_asked_for_and_the_event(db: Connection) -> None:
    add(db, "1", "b1")
    add(db, "2", "b2", "not_damaged")
    add(db, "3", "b3", "not_assessable")
    add(db, "4", "b4")
    found = labels.pu_set(db, at=3, ids=["b4", "b3", "b2", "b1"])
    assert np.flatnonzero(found.is_positive).tolist() == [3]
    assert np.flatnonzero(found.is_not_damaged).tolist() == [2]
    assert np.flatnonzero(found.is_excluded).tolist() == [1]
    assert (found.building_ids, found.at_event) == (["b4", "b3", "b2", "b1"], 3)


FULL = {
    "cloudy": {"label": "not_assessable", "reason": "cloud", "comment": "again in May?"},
    "torn": {"label": "positive", "damage_types": ("roof", "Wand, außen"), "absent_types": ("flooded",), "comment": "=1+1"},
    "bad": {"label": "positive", "grade": "major"},
    "drawn": {"label": "not_damaged", "shown": "audit", "inclusion": 0.125},
}


def said(event: object) -> dict[str, object]:
    keys = ("label", "reason", "damage_types", "absent_types", "comment", "shown", "inclusion", "grade")
    return {key: getattr(event, key) for key in keys}


def test_undo_and_redo_bring_back_the_whole_answer(db: Connection) -> None:
    for name, details in FULL.items():
        assert add(db, name, "b1", **details).error is None
    given = [said(labels.current(db, at=n)["b1"]) for n in (1, 2, 3, 4)]
    assert [{key: row[key] for key in FULL[name]} for name, row in zip(FULL, given, strict=True)] == list(FULL.values())
    for number, expected in ((1, given[2]), (2, given[1]), (3, given[0])):
        event = undo(db, f"u{number}")[-1]
        assert said(event) == said(labels.current(db)["b1"]) == expected
    emptied = undo(db, "u4")[-1]
    assert said(emptied) == said(type(emptied)(0, "", "", "cleared", "", "", ""))
    for number, expected in enumerate(given):
        event = redo(db, f"r{number}")[-1]
        assert said(event) == said(labels.current(db)["b1"]) == expected
    assert [audit.event for audit in labels.audit_answers(db).values()] == [4]


@pytest.mark.parametrize(
    ("details", "word"),
    [
        ({"building_id": "nobody", "reason": "cloudy"}, "not in this project"),
        ({"label": "broken"}, "is not one of"),
        ({"op": ""}, "op"),
        ({"op": ["op1"]}, "op"),
        ({"building_id": {"b": 1}}, "not in this project"),
        ({"label": []}, "is not one of"),
        ({"grade": 3}, "grade"),
        ({"damage_types": None}, "damage_types must be a list"),
        ({"label": "not_assessable", "reason": "fog"}, "reason 'fog' is not one of cloud"),
        ({"reason": "cloud"}, "the label is positive"),
        ({"damage_types": "roof"}, "damage_types must be a list"),
        ({"damage_types": ["x" * 61]}, "1 to 60 characters"),
        ({"damage_types": ["x"] * 21}, "21 entries; 20 at most"),
        ({"absent_types": ["x", 3]}, "absent_types must be a list"),
        ({"absent_types": ["roof"], "damage_types": ["wall", "roof"]}, "'roof' is in damage_types and in absent_types"),
        ({"absent_types": ["roof"], "label": "not_damaged"}, "does not have; the label is not_damaged"),
        ({"comment": "x" * 501}, "at most 500"),
        ({"comment": "half \ud83c"}, "comment must be a text"),
        ({"shown": "luck"}, "shown 'luck' is not one of exploit"),
        ({"shown": "audit"}, "got None"),
        ({"shown": "audit", "inclusion": 1.5}, "got 1.5"),
        ({"shown": "explore", "inclusion": 0.5}, "audit alone"),
        ({"at": "2026-01-01T00:00:00"}, "is not a time with its zone"),
        ({"analyst": ""}, "analyst must be"),
    ],
)
def test_bad_operation_is_answered_and_does_not_stop_the_next(db: Connection, details: dict[str, object], word: str) -> None:
    op = LabelOp(**{"op": "1", "building_id": "b1", "label": "positive", **details})  # type: ignore[arg-type]
    bad, good = labels.append(db, [op, LabelOp("good", "b2", "positive")], analyst="ann", screen="map")
    assert word in str(bad.error)
    assert (bad.event, good.event, labels.last_event(db)) == (None, 1, 1)
    with pytest.raises(LabelError, match="1 of 2"):
        labels.refuse_rejected([bad, good], "x.csv")


def test_all_words_of_the_records_and_the_longest_details_fit(db: Connection) -> None:
    more = {"damage_types": ["ß" * 60] * 20, "comment": "日" * 500, "shown": "audit", "inclusion": 1}
    assert add(db, "1", "b1", **more).error is None
    for reason in REASONS:
        assert add(db, f"r-{reason}", "b1", "not_assessable", reason=reason).error is None
    for shown in SHOWN:
        assert add(db, f"s-{shown}", "b1", shown=shown, inclusion=0.5 if shown == "audit" else None).error is None


def test_answer_for_another_keeps_name_and_time_and_is_undone_by_who_stored_it(db: Connection) -> None:
    op = LabelOp("1", "b1", "positive", analyst="bob", at="2026-01-02T03:04:05.678+02:00")
    labels.append(db, [op], analyst="ann", screen="cli", kind="import")
    found = labels.current(db)["b1"]
    assert (found.analyst, found.at) == ("bob", "2026-01-02T01:04:05.678Z")
    assert undo(db, "u", "bob") == []
    assert len(undo(db, "v")) == 1
    assert labels.current_labels(db) == {}


def audit(db: Connection, op: str, building: str, label: str) -> None:
    assert add(db, op, building, label, "eve", shown="audit", inclusion=0.25).error is None


def trains_on(db: Connection, building: str) -> str:
    pu = labels.pu_set(db, ids=[building])
    masks = {"positive": pu.is_positive, "not_damaged": pu.is_not_damaged, "left_out": pu.is_excluded}
    return "+".join(name for name, mask in masks.items() if mask[0]) or "unlabeled"


def test_audit_answers_are_shown_to_people_and_never_trained_on(db: Connection) -> None:
    for number, label in enumerate(("positive", "not_damaged", "not_assessable")):
        audit(db, f"{number}", f"b{number}", label)
        assert trains_on(db, f"b{number}") == "left_out"
        assert labels.current_labels(db)[f"b{number}"] == label
    assert labels.counts(labels.current_labels(db)) == {"positive": 1, "not_damaged": 1, "not_assessable": 1}
    audit(db, "c", "b0", "cleared")
    assert trains_on(db, "b0") == "unlabeled"
    add(db, "3", "b1", "positive")
    assert trains_on(db, "b1") == "positive", "an answer after the audit is learned from; the sample stays as drawn"
    found = [
        (one.building_id, one.label, one.inclusion, one.analyst, one.event) for one in labels.audit_answers(db).values()
    ]
    assert found == [("b1", "not_damaged", 0.25, "eve", 2), ("b2", "not_assessable", 0.25, "eve", 3)]
    add(db, "4", "b3")
    audit(db, "5", "b3", "cleared")
    audit(db, "6", "b3", "positive")
    assert trains_on(db, "b3") == "left_out", "clearing ends all before it, in a check too"


def test_operations_of_one_act_are_undone_together(db: Connection) -> None:
    ops = [LabelOp(f"i{i}", f"b{i % 4}", "not_damaged" if i > 3 else "positive", "import-1") for i in range(5)]  # b0 twice
    labels.append(db, ops, analyst="ann", screen="cli", kind="import")
    assert [event.building_id for event in undo(db, "u")] == ["b0", "b3", "b2", "b1", "b0"]
    assert labels.current_labels(db) == {}
    redo(db, "r")
    assert labels.current_labels(db) == {"b0": "not_damaged", "b1": "positive", "b2": "positive", "b3": "positive"}


def test_one_act_is_undone_where_it_is_not_the_last(db: Connection) -> None:
    for i in range(3):
        labels.append(db, [LabelOp(str(i), f"b{i}", "positive", act=f"act-{i}")], analyst="ann", screen="map")
    assert undo(db, "u0", "bob", act="act-1") == []
    (event,) = undo(db, "u1", act="act-1")
    assert event.building_id == "b1"
    assert undo(db, "u2", act="act-1") == []
    assert labels.stands(db, ["act-0", "act-1", "unknown"]) == {"act-0"}
    redo(db, "r")
    assert set(labels.current_labels(db)) == {"b0", "b1", "b2"}


def say(db: Connection, analyst: str, *pairs: tuple[str, str]) -> None:
    number = labels.last_event(db)
    ops = [LabelOp(f"{number}-{i}", building, label) for i, (building, label) in enumerate(pairs)]
    acks = labels.append(db, ops, analyst=analyst, screen="map")
    assert not any(ack.error for ack in acks)


def test_each_analyst_counts_their_own_standing_answers(db: Connection) -> None:
    say(db, "bob", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"))
    say(db, "ann", ("b1", "not_damaged"), ("b2", "cleared"))
    say(db, "bob", ("b3", "cleared"), ("b2", "not_damaged"))
    say(db, "eve", ("b9", "positive"))
    undo(db, "u", "eve")
    times = dict(db.execute("SELECT analyst, max(at) FROM label_event GROUP BY analyst").fetchall())
    assert list(analysts.by_analyst(db).items()) == [
        ("bob", AnalystFacts(2, times["bob"])),  # b1, which ann has decided since, and b2
        ("ann", AnalystFacts(1, times["ann"])),
        ("eve", AnalystFacts(0, times["eve"])),
    ]


def test_conflicts_are_buildings_whose_last_answers_differ(db: Connection) -> None:
    say(db, "ann", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"), ("b4", "positive"))
    say(db, "bob", ("b1", "positive"), ("b2", "not_damaged"), ("b3", "cleared"))
    since = {who: labels.current(db, at=event)["b2"].at for who, event in (("ann", 2), ("bob", 6))}
    answers = [("ann", "positive", since["ann"]), ("bob", "not_damaged", since["bob"])]
    assert analysts.conflicts(db) == [("b2", answers)]
    say(db, "ann", ("b2", "not_assessable"))
    assert [answer.analyst for answer in analysts.conflicts(db)[0][1]] == ["bob", "ann"]  # oldest first
    say(db, "ann", ("b2", "not_damaged"))  # she changes her mind
    assert analysts.conflicts(db) == []


def test_agreement_of_a_worked_example(db: Connection) -> None:
    """b1: + + (alike 1), b2: + - (0), b3: + + - (2 of 6 ordered pairs, 1/3), b4: one answer, not counted.

    Alike on average 4/9; of 7 answers 5 are positive: by chance (25 + 4) / 49 = 29/49; kappa (4/9 - 29/49) / (20/49).
    """
    say(db, "ann", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"), ("b4", "positive"))
    say(db, "bob", ("b1", "positive"), ("b2", "not_damaged"), ("b3", "positive"))
    say(db, "eve", ("b3", "not_damaged"))
    kappa = pytest.approx((4 / 9 - 29 / 49) / (20 / 49), abs=1e-12)
    assert analysts.agreement(db) == Agreement(3, pytest.approx(1 / 3), kappa)
    assert analysts.agreement(db, among={"b1", "b4"}) == Agreement(1, 1.0, None)


def test_one_label_throughout_has_no_kappa_and_perfect_agreement_has_one(db: Connection) -> None:
    assert (analysts.by_analyst(db), analysts.conflicts(db), analysts.agreement(db)) == ({}, [], Agreement(0, None, None))
    for n, label, kappa in ((1, "positive", None), (2, "not_damaged", 1.0)):
        for analyst in ("ann", "bob"):
            say(db, analyst, (f"b{n}", label))
        assert analysts.agreement(db) == Agreement(n, 1.0, kappa)
