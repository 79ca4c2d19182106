"""Browsers see each other, and what others answered, and nothing of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.records import LabelOp
from pu_geo.services.annotate.presence import SECONDS_REMEMBERED, Presence, color_of, exchange


def _say(project: Layout, op: str, building: str, label: str, analyst: str) -> int:
    with store.connect(project) as db:
        labels.append(db, [LabelOp(op, building, label)], analyst=analyst, screen="map")  # type: ignore[arg-type]
        return labels.last_event(db)


def test_two_browsers_see_where_the_other_is(project: Layout) -> None:
    here = Presence()
    assert here.exchange(project, "s1", "ann", 3, 0).others == []
    (other,) = here.exchange(project, "s2", "bob", None, 0).others
    assert (other.name, other.building, other.color) == ("ann", 3, color_of("ann"))
    here.exchange(project, "s1", "ann", 4, 0)
    assert [one.building for one in here.exchange(project, "s2", "bob", None, 0).others] == [4]


def test_who_was_not_heard_of_is_gone(project: Layout) -> None:
    now = [0.0]
    here = Presence(lambda: now[0])
    here.exchange(project, "s1", "ann", 3, 0)
    now[0] = SECONDS_REMEMBERED - 1
    assert [one.seconds for one in here.exchange(project, "s2", "bob", None, 0).others] == [round(now[0])]
    now[0] = SECONDS_REMEMBERED + 1
    assert here.exchange(project, "s2", "bob", None, 0).others == []


def test_another_project_and_a_second_tab_of_ones_own_are_nobody(project: Layout, tmp_path: Path) -> None:
    elsewhere = store.create(tmp_path / "other.pugeo", "other")
    here = Presence()
    here.exchange(elsewhere, "s0", "eve", 1, 0)
    here.exchange(project, "s1", "ann", 1, 0)
    assert here.exchange(project, "s2", "ann", 2, 0).others == []


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
    assert told.labels == {"b1": "cleared"}
    assert here.exchange(project, "s1", "ann", None, last).labels == {}
    assert here.exchange(project, "s9", "ann", None, first).labels == {"b1": "cleared", "b2": "positive", "b3": "positive"}


def test_answers_of_others_come_whole(project: Layout) -> None:
    first = _say(project, "s1-1", "b0", "positive", "ann")
    with store.connect(project) as db:
        ops = [
            LabelOp("s2-1", "b0", "positive", grade="major", damage_types=["roof"], absent_types=["burned"], comment="hm"),
            LabelOp("s2-2", "b1", "positive", shown="audit", inclusion=0.5),
            LabelOp("s2-3", "b2", "not_assessable", reason="cloud"),
            LabelOp("s2-4", "b3", "cleared"),
        ]
        labels.append(db, ops, analyst="bob", screen="map")
    news = Presence().exchange(project, "s1", "ann", None, first)
    assert news.labels == {"b0": "positive", "b1": "positive", "b2": "not_assessable", "b3": "cleared"}
    assert news.details == {
        "b0": {"grade": "major", "damage_types": ("roof",), "absent_types": ("burned",), "comment": "hm", "by": "bob"},
        "b1": {"shown": "audit", "by": "bob"},
        "b2": {"reason": "cloud", "by": "bob"},
    }


def test_what_an_undo_brings_back_is_the_first_answer_with_its_own_analyst(project: Layout) -> None:
    with store.connect(project) as db:
        labels.append(db, [LabelOp("s2-1", "b0", "positive", damage_types=["roof"])], analyst="bob", screen="map")
        labels.append(db, [LabelOp("s3-1", "b0", "not_damaged")], analyst="eve", screen="map")
        since = labels.last_event(db)
        labels.undo(db, "s3-2", analyst="eve", screen="map")
    news = Presence().exchange(project, "s1", "ann", None, since)
    assert (news.labels, news.details) == ({"b0": "positive"}, {"b0": {"damage_types": ("roof",), "by": "bob"}})


GOOD = {"session": "s-1", "analyst": "ann", "building": 3, "since": 0}


def test_two_browsers_of_a_server_hear_of_each_other(project: Layout) -> None:
    assert exchange(project, GOOD) == {"event": 0, "labels": {}, "details": {}, "others": []}
    found = exchange(project, {**GOOD, "session": "s-2", "analyst": "bob", "building": None})
    assert [(one["name"], one["building"]) for one in found["others"]] == [("ann", 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": ""}, {"session": 7}, {"session": "x" * 201}, {"analyst": None}, {"building": -1}, {"building": "3"},
        {"building": True}, {"since": -1}, {"since": 1.5}, {"since": None}, {"since": 2**60},
        {"analyst": "half \ud83c"}, {"session": "half \ud83c"}, {"analyst": "a\0"},
    ],
)  # fmt: skip
def test_a_message_that_makes_no_sense_gets_no_answer(project: Layout, wrong: dict[str, object]) -> None:
    assert exchange(project, {**GOOD, **wrong}) is None
