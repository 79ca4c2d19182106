"""Browsers see each other and what others answered; a card shows the history of a building."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mapped_parts import RUN, N
from small_parts import click

from pu_geo.answers import presence, ranking
from pu_geo.answers.building_history import building_history
from pu_geo.records import LabelOp
from pu_geo.store import labels, rounds, run_names, runs, store
from pu_geo.store.layout import Layout, write_array
from pu_geo.store.rounds import PastAnswer, Round


def come(layout: Layout, session: str, analyst: str, building: int | None = None, since: int = 0) -> Any:
    return presence.exchange(layout, {"session": session, "analyst": analyst, "building": building, "since": since})


def test_browsers_see_where_others_are_until_they_are_not_heard_of(
    project: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(presence, "_now", lambda: now[0])
    elsewhere = store.create(tmp_path / "other.pugeo", "other")
    come(elsewhere, "s0", "eve", 1)
    assert come(project, "s1", "ann", 3)["others"] == []
    assert come(project, "s3", "ann", 2)["others"] == [], "a second tab of one's own is nobody"
    come(project, "s3", "zoe", 5)
    now[0] = 7
    come(project, "s1", "ann", 4)
    assert come(project, "s2", "bob")["others"] == [
        {"name": "ann", "color": presence.color_of("ann"), "building": 4, "seconds": 0},
        {"name": "zoe", "color": presence.color_of("zoe"), "building": 5, "seconds": 7},
    ]
    assert (presence.names_here(project), presence.names_here(elsewhere)) == ({"ann", "bob", "zoe"}, {"eve"})
    now[0] = 7 + presence.SECONDS_REMEMBERED - 1
    assert [(one["name"], one["seconds"]) for one in come(project, "s2", "bob")["others"]] == [("ann", 19)]
    now[0] = 7 + presence.SECONDS_REMEMBERED + 1
    assert presence.names_here(project) == {"bob"}
    assert come(project, "s2", "bob")["others"] == []


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
        labels.append(db, [LabelOp("s1-2", "b5", "positive")], analyst="ann", screen="map")
        last = labels.last_event(db)
    news = come(project, "s1", "ann", since=first)
    assert news["event"] == last
    assert come(project, "s1", "ann")["labels"] == come(project, "s1", "ann", since=last)["labels"] == {}
    assert news["labels"] == {
        "b0": "positive", "b1": "positive", "b2": "not_assessable", "b3": "cleared", "b4": "positive",
    }  # fmt: skip
    assert news["details"] == {
        "b0": {"grade": "major", "damage_types": ("roof",), "absent_types": ("burned",), "comment": "hm", "by": "bob"},
        "b1": {"shown": "audit", "by": "bob"},
        "b2": {"reason": "cloud", "by": "bob"},
        "b4": {"damage_types": ("roof",), "by": "bob"},
    }


def test_a_message_that_makes_no_sense_gets_no_answer(project: Layout) -> None:
    good = {"session": "s-1", "analyst": "ann", "building": 3, "since": 0}
    assert presence.exchange(project, good) == {"event": 0, "labels": {}, "details": {}, "others": []}
    found = come(project, "s-2", "bob")
    assert [(one["name"], one["building"]) for one in found["others"]] == [("ann", 3)]
    for wrong in (
        {"session": ""}, {"session": 7}, {"session": "x" * 201}, {"analyst": None}, {"building": -1}, {"building": "3"},
        {"building": True}, {"since": -1}, {"since": 1.5}, {"since": None}, {"since": 2**60}, {"analyst": "half \ud83c"}, {"analyst": "a\0"},
    ):  # fmt: skip
        assert presence.exchange(project, {**good, **wrong}) is None, wrong


@pytest.fixture
def layout(mapped: Layout) -> Layout:
    features = np.random.default_rng(0).normal(size=(1, N, 8))
    features[0, 7] = features[0, 5] + 0.01  # b7 looks like b5
    write_array(mapped.features("set"), features.astype(np.float16))
    return mapped


def test_it_has_answers_in_their_order_each_runs_score_the_chips_alike_and_the_imagery(layout: Layout) -> None:
    for building, label, analyst, details in (
        ("b5", "positive", "ann", {"grade": "minor", "damage_types": ["roof", "flooded"], "absent_types": ["burned"]}),
        ("b6", "positive", "ann", {}),
        ("b5", "not_damaged", "bob", {}),
    ):
        click(layout, building, label=label, analyst=analyst, **details)
    with store.connect(layout) as db:
        labels.undo(db, "u1", analyst="bob", screen="map")
    past = [PastAnswer(1, b, "damaged", "positive", "ann", "2026-01-01T00:00:00Z", 0.9, None, "Major") for b in ("b5", "b6")]
    rounds.write(layout, Round(2, "/elsewhere", past))
    found = building_history(layout, 5)
    assert (found["building_id"], found["attributes"]["name"]) == ("b5", "House 5")
    assert [(one["analyst"], one["label"], one["kind"]) for one in found["events"]] == [
        ("ann", "positive", "set"), ("bob", "not_damaged", "set"), ("bob", "positive", "undo"),
    ]  # fmt: skip
    for event in (found["events"][0], found["events"][2]):
        graded = [event[name] for name in ("grade", "damage_types", "absent_types")]
        assert graded == ["Minor", ["roof", "flooded"], ["burned"]]
    assert [(one["round"], one["label"], one["grade"]) for one in found["before"]] == [(1, "positive", "Major")]
    scores = np.asarray(runs.array(layout, RUN, "scores"))
    (one,) = found["runs"]
    assert one["name"] == run_names.names(layout)[RUN]
    assert one["score"] == pytest.approx(scores[5], abs=1e-4)
    assert one["rank"] == (scores > scores[5]).sum() + 1
    assert found["alike"][0] == 7
    assert 5 not in found["alike"]
    assert found["imagery"] == {"reason": "", "candidate": "", "post_hidden_share": 0.0}
    hidden = building_history(layout, 0)
    assert hidden["imagery"] == {"reason": "nodata", "candidate": "nodata", "post_hidden_share": 0.9}
    assert (hidden["events"], hidden["before"]) == ([], [])
    assert building_history(layout, -1) is building_history(layout, N) is None


def test_a_card_does_not_wait_for_the_features_of_very_many_buildings(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MOST_WAITED_FOR", N - 1)
    monkeypatch.setattr(ranking, "_warming", {})
    may_end, prepare = threading.Event(), ranking._prepare_plain
    monkeypatch.setattr(ranking, "_prepare_plain", lambda *known: may_end.wait(30) and prepare(*known))
    try:
        found = building_history(layout, 5)
        assert found["alike"] is None
        assert len(found["runs"]) == 1
        assert building_history(layout, 5)["alike"] is None  # the same preparation goes on
        assert len(ranking._warming) == 1
    finally:
        may_end.set()
    for thread in list(ranking._warming.values()):
        thread.join(30)
    assert building_history(layout, 5)["alike"][0] == 7
