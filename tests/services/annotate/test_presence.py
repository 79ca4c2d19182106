"""Browsers see each other, and what others answered, and nothing of their own."""

from __future__ import annotations

from pathlib import Path

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp
from pu_geo.services.annotate.presence import SECONDS_REMEMBERED, Other, Presence, color_of, exchange


def _say(project: Layout, op: str, building: str, label: str, analyst: str) -> int:
    with store.connect(project) as db:
        labels.append(db, [LabelOp(op, building, label)], analyst=analyst, screen="map")
        return labels.last_event(db)


def test_browsers_see_where_others_are_until_they_are_not_heard_of(project: Layout, tmp_path: Path) -> None:
    now = [0.0]
    here = Presence(lambda: now[0])
    elsewhere = store.create(tmp_path / "other.pugeo", "other")
    here.exchange(elsewhere, "s0", "eve", 1, 0)
    assert here.exchange(project, "s1", "ann", 3, 0).others == []
    assert here.exchange(project, "s3", "ann", 2, 0).others == [], "a second tab of one's own is nobody"
    here.exchange(project, "s3", "zoe", 5, 0)
    now[0] = 7
    here.exchange(project, "s1", "ann", 4, 0)
    assert here.exchange(project, "s2", "bob", None, 0).others == [
        Other("ann", color_of("ann"), 4, 0),
        Other("zoe", color_of("zoe"), 5, 7),
    ]
    assert (here.names(project), here.names(elsewhere)) == ({"ann", "bob", "zoe"}, {"eve"})
    now[0] = 7 + SECONDS_REMEMBERED - 1
    assert [(one.name, one.seconds) for one in here.exchange(project, "s2", "bob", None, 0).others] == [("ann", 19)]
    now[0] = 7 + SECONDS_REMEMBERED + 1
    assert here.names(project) == {"bob"}
    assert here.exchange(project, "s2", "bob", None, 0).others == []


def test_news_are_what_others_answered_since_as_it_stands_now(project: Layout) -> None:
    here = Presence()
    first = _say(project, "s1-1", "b0", "positive", "ann")
    _say(project, "s2-1", "b1", "positive", "bob")
    _say(project, "s2-2", "b1", "cleared", "bob")
    _say(project, "s2-3", "b2", "not_damaged", "bob")
    _say(project, "s1-2", "b2", "positive", "ann")  # what bob said of it does not stand any more
    last = _say(project, "s1-3", "b3", "positive", "ann")
    told = here.exchange(project, "s1", "ann", None, first)
    assert told.event == last
    assert here.exchange(project, "s1", "ann", None, 0).labels == {}
    assert told.labels == {"b1": "cleared"}
    assert here.exchange(project, "s1", "ann", None, last).labels == {}
    assert here.exchange(project, "s9", "ann", None, first).labels == {"b1": "cleared", "b2": "positive", "b3": "positive"}


def test_answers_of_others_come_whole_and_undone_ones_with_their_own_analyst(project: Layout) -> None:
    whole = {"grade": "major", "damage_types": ["roof"], "absent_types": ["burned"], "comment": "hm"}
    with store.connect(project) as db:
        labels.append(db, [LabelOp("s4-1", "b4", "positive", damage_types=["roof"])], analyst="bob", screen="map")
        labels.append(db, [LabelOp("s3-1", "b4", "not_damaged")], analyst="eve", screen="map")
        labels.append(db, [LabelOp("s1-1", "b0", "positive")], analyst="ann", screen="map")
        first = labels.last_event(db)
        labels.undo(db, "s3-2", analyst="eve", screen="map")
        ops = [
            LabelOp("s2-1", "b0", "positive", **whole),
            LabelOp("s2-2", "b1", "positive", shown="audit", inclusion=0.5),
            LabelOp("s2-3", "b2", "not_assessable", reason="cloud"),
            LabelOp("s2-4", "b3", "cleared"),
        ]
        labels.append(db, ops, analyst="bob", screen="map")
    news = Presence().exchange(project, "s1", "ann", None, first)
    assert news.labels == {
        "b0": "positive", "b1": "positive", "b2": "not_assessable", "b3": "cleared", "b4": "positive",
    }  # fmt: skip
    assert news.details == {
        "b0": {"grade": "major", "damage_types": ("roof",), "absent_types": ("burned",), "comment": "hm", "by": "bob"},
        "b1": {"shown": "audit", "by": "bob"},
        "b2": {"reason": "cloud", "by": "bob"},
        "b4": {"damage_types": ("roof",), "by": "bob"},
    }


def test_a_message_that_makes_no_sense_gets_no_answer(project: Layout) -> None:
    good = {"session": "s-1", "analyst": "ann", "building": 3, "since": 0}
    assert exchange(project, good) == {"event": 0, "labels": {}, "details": {}, "others": []}
    found = exchange(project, {**good, "session": "s-2", "analyst": "bob", "building": None})
    assert [(one["name"], one["building"]) for one in found["others"]] == [("ann", 3)]
    for wrong in (
        {"session": ""}, {"session": 7}, {"session": "x" * 201}, {"analyst": None}, {"building": -1}, {"building": "3"},
        {"building": True}, {"since": -1}, {"since": 1.5}, {"since": None}, {"since": 2**60}, {"analyst": "half \ud83c"}, {"analyst": "a\0"},
    ):  # fmt: skip
        assert exchange(project, {**good, **wrong}) is None, wrong
