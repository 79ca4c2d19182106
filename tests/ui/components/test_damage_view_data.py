"""What goes between page and browser, without a browser."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from pu_geo.errors import PuGeoError
from pu_geo.ui.build import FRONTEND
from pu_geo.ui.components import damage_view
from pu_geo.ui.components.damage_view import (
    Flagging,
    PresenceConfig,
    Queue,
    QueueItem,
    encode_details,
    encode_labels,
    encode_queue,
)


def decode(text: str) -> list[int]:
    return np.cumsum([int(step, 36) for step in text.split()]).tolist()


def test_labels_come_back_from_their_short_form() -> None:
    rng = np.random.default_rng(0)
    positions = {f"b{i}": i for i in range(20_000)}
    chosen = rng.choice(20_000, 2_000, replace=False)
    labels = {f"b{i}": ("positive" if k % 3 else "not_damaged") for k, i in enumerate(chosen)}
    encoded = encode_labels(labels, positions)
    assert decode(encoded["1"]) == sorted(i for k, i in enumerate(chosen.tolist()) if k % 3)
    assert decode(encoded["2"]) == sorted(i for k, i in enumerate(chosen.tolist()) if not k % 3)
    assert sum(map(len, encoded.values())) < 6_000, "2,000 labels of 20,000 buildings stay below 6 kB"


def test_cleared_and_unknown_buildings_are_left_out_and_the_first_one_is_position_zero() -> None:
    assert encode_labels({"a": "cleared", "z": "positive"}, {"a": 0}) == {}
    assert encode_labels({"a": "positive", "b": "positive"}, {"a": 0, "b": 1}) == {"1": "0 1"}


def test_details_come_back_from_their_short_form_and_stay_small() -> None:
    positions = {f"b{i}": i for i in range(20_000)}
    details = {
        f"b{i}": {
            "by": ("ann", "bob")[i % 2],
            "reason": "cloud" if i % 50 == 0 else "",
            "damage_types": ["roof", "walls"][: i % 3],
            "absent_types": ["walls"] if i % 100 == 0 else [],
            "comment": "a < b" if i == 70 else "",
            "shown": "audit" if i % 10 == 0 else "",
            "grade": "destroyed" if i % 40 == 0 else "",
        }
        for i in range(0, 20_000, 10)
    }
    encoded = encode_details({**details, "unknown": {"by": "ann"}}, positions)
    assert decode(encoded["by"]["ann"]) == list(range(0, 20_000, 10))
    assert decode(encoded["reason"]["cloud"]) == list(range(0, 20_000, 50))
    assert decode(encoded["type"]["walls"]) == list(range(20, 20_000, 30))
    assert decode(encoded["no_type"]["walls"]) == list(range(0, 20_000, 100))
    assert decode(encoded["grade"]["destroyed"]) == list(range(0, 20_000, 40))
    assert decode(encoded["shown"]["audit"]) == list(range(0, 20_000, 10))
    assert encoded["comment"] == {"70": "a < b"}
    assert sum(len(text) for texts in encoded.values() for text in texts.values()) < 16_000, "2,000 buildings, 16 kB"


def test_no_details_are_nothing_to_send() -> None:
    assert encode_details({}, {"a": 0}) == {
        "by": {},
        "reason": {},
        "type": {},
        "no_type": {},
        "shown": {},
        "grade": {},
        "comment": {},
    }


def test_the_words_of_an_audit_stay_here() -> None:
    queue = Queue("q-1", [QueueItem(3, "exploit", "score 0.9"), QueueItem(1, "audit", "random check of scores 0.2 to 0.4")])
    assert encode_queue(queue) == {"id": "q-1", "items": [[3, "exploit", "score 0.9"], [1, "audit", ""]]}
    assert encode_queue(replace(queue, is_second=True))["is_second"] is True


NEXT = {"n": 3, "op": "s-3", "next": True, "queue": "q-1"}
LABEL = {"n": 4, "op": "s-4", "building_id": "b1", "label": "positive"}


@pytest.fixture
def session_state(monkeypatch: pytest.MonkeyPatch) -> dict:
    state: dict = {"view": {"operations": {"session": "s", "attempt": 7, "ops": [NEXT]}}}
    monkeypatch.setattr(damage_view.st, "session_state", state)
    return state


@pytest.mark.parametrize(
    ("ops", "asked", "n"),
    [
        ([NEXT], ["q-1"], 3),
        ([], [], 0),  # asks for a run of the page alone
        ([NEXT, LABEL, {**NEXT, "n": 5}], ["q-1"], 3),
        ([LABEL], [], 0),
        ("x", [], 0),
        ([1, None], [], 0),
    ],
)
def test_the_page_takes_what_is_asked_of_it_and_acknowledges_no_label(
    session_state: dict, ops: object, asked: list[str], n: int
) -> None:
    session_state["view"]["operations"]["ops"] = ops
    queues: list[str] = []
    damage_view._take_message("view", queues.append)
    answer = damage_view._answer("view")
    assert queues == asked
    assert (answer["ack"], answer["problem"]) == ({"session": "s", "n": n, "attempt": 7}, None)


def test_a_view_without_a_queue_acknowledges_all_the_same(session_state: dict) -> None:
    damage_view._take_message("view", None)
    assert damage_view._answer("view")["ack"]["n"] == 3


def test_a_restarted_server_has_another_name(session_state: dict) -> None:
    before = damage_view._answer("view")["server"]
    assert damage_view._answer("view")["server"] == before
    session_state.clear()
    assert damage_view._answer("view")["server"] != before


@pytest.mark.parametrize(
    "error", [PuGeoError("It broke.", "Mend it."), sqlite3.OperationalError("It broke."), OSError("It broke.")]
)
def test_what_failed_is_not_acknowledged_and_the_browser_gets_the_reason(session_state: dict, error: Exception) -> None:
    def fail(queue: str) -> None:
        raise error

    damage_view._take_message("view", lambda queue: None)
    damage_view._take_message("view", fail)
    answer = damage_view._answer("view")
    assert answer["ack"] is None
    assert "It broke." in answer["problem"]


@pytest.mark.parametrize(
    ("here", "sent"),
    [(None, None), (PresenceConfig("ann", 7, "#e69f00"), {"analyst": "ann", "event": 7, "color": "#e69f00"})],
)
def test_the_browser_asks_for_others_only_where_the_page_says_who_is_here(
    session_state: dict, monkeypatch: pytest.MonkeyPatch, here: PresenceConfig | None, sent: dict | None
) -> None:
    given: list[dict] = []
    monkeypatch.setattr(damage_view, "_renderer", lambda: lambda **said: given.append(said["data"]))
    damage_view.damage_view(
        key="view", token="t", grid_px=(9, 9), gsd_m=0.5, layers=[], geometry_v="1", labels={}, positions={}, here=here
    )
    assert given[0].get("here") == sent


def test_no_script_writes_markup() -> None:
    sources = list((FRONTEND / "src").glob("*.js"))
    assert len(sources) > 5
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not [word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write") if word in text], (
            source
        )


def test_the_browser_hears_whether_types_are_a_scale() -> None:
    for is_scale in (False, True):
        sent = damage_view._flagging(Flagging("by a person", print, print, is_scale=is_scale), {})
        assert sent["scale"] is is_scale


def test_how_many_are_flagged_reaches_the_page_once_and_is_acknowledged(session_state: dict) -> None:
    heard: list[object] = []
    flagging = Flagging("by a person", heard.append, heard.append)
    session_state["view"] |= {"flag": {"n": 12, "top": 88, "of": "run-2"}, "map_color": "uncertainty"}
    damage_view.take_flag("view", flagging, "run-2")
    damage_view.take_color("view", flagging)
    assert (heard, session_state["view:flag"]) == ([88, "uncertainty"], 12)
    session_state["view"] |= {"flag": {"n": 13, "top": 70, "of": "run-1"}}
    damage_view.take_flag("view", flagging, "run-2")
    assert (heard, session_state["view:flag"]) == ([88, "uncertainty"], 13), "of the run that was shown before"


@pytest.mark.parametrize(("flag", "color"), [({"n": 1, "top": "all"}, "<b>"), ("x", None), ({"n": 1, "top": True}, 3)])
def test_what_makes_no_sense_changes_nothing(session_state: dict, flag: object, color: object) -> None:
    heard: list[object] = []
    session_state["view"] |= {"flag": flag, "map_color": color}
    damage_view.take_flag("view", Flagging("", heard.append, heard.append), None)
    damage_view.take_color("view", Flagging("", heard.append, heard.append))
    assert not heard
