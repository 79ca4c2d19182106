"""What goes between page and browser, without a browser."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from pu_geo.errors import PuGeoError
from pu_geo.ui.annotate.operations import Operation, read_operations
from pu_geo.ui.build import FRONTEND
from pu_geo.ui.components import damage_view
from pu_geo.ui.components.damage_view import PresenceConfig, Queue, QueueItem, encode_details, encode_labels, encode_queue


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


def test_cleared_and_unknown_buildings_are_left_out() -> None:
    assert encode_labels({"a": "cleared", "z": "positive"}, {"a": 0}) == {}


def test_first_building_is_position_zero() -> None:
    assert encode_labels({"a": "positive", "b": "positive"}, {"a": 0, "b": 1}) == {"1": "0 1"}


def test_details_come_back_from_their_short_form_and_stay_small() -> None:
    positions = {f"b{i}": i for i in range(20_000)}
    details = {
        f"b{i}": {
            "by": ("ann", "bob")[i % 2],
            "reason": "cloud" if i % 50 == 0 else "",
            "damage_types": ["roof", "walls"][: i % 3],
            "comment": "a < b" if i == 70 else "",
            "shown": "audit" if i % 10 == 0 else "",
        }
        for i in range(0, 20_000, 10)
    }
    encoded = encode_details({**details, "unknown": {"by": "ann"}}, positions)
    assert decode(encoded["by"]["ann"]) == list(range(0, 20_000, 10))
    assert decode(encoded["reason"]["cloud"]) == list(range(0, 20_000, 50))
    assert decode(encoded["type"]["walls"]) == list(range(20, 20_000, 30))
    assert decode(encoded["shown"]["audit"]) == list(range(0, 20_000, 10))
    assert encoded["comment"] == {"70": "a < b"}
    assert sum(len(text) for texts in encoded.values() for text in texts.values()) < 16_000, "2,000 buildings, 16 kB"


def test_no_details_are_nothing_to_send() -> None:
    assert encode_details({}, {"a": 0}) == {"by": {}, "reason": {}, "type": {}, "shown": {}, "comment": {}}


def test_the_words_of_an_audit_stay_here() -> None:
    queue = Queue("q-1", [QueueItem(3, "exploit", "score 0.9"), QueueItem(1, "audit", "random check of scores 0.2 to 0.4")])
    assert encode_queue(queue) == {"id": "q-1", "items": [[3, "exploit", "score 0.9"], [1, "audit", ""]]}


def read_one(entry: dict) -> Operation | None:
    operations = read_operations({"session": "s", "ops": [{"n": 1, "op": "s-1", **entry}]})[2]
    return operations[0] if operations else None


def test_an_answer_brings_its_details() -> None:
    said = {"damage_types": ["roof", "walls"], "comment": "<b>", "shown": "audit", "queue": "q-1", "screen": "queue"}
    assert read_one({"building_id": "b1", "label": "positive", **said}) == Operation(
        "s-1", "set", "b1", "positive", "queue", damage_types=("roof", "walls"), comment="<b>", shown="audit", queue="q-1"
    )


@pytest.mark.parametrize(
    ("said", "reason"), [({"reason": "cloud"}, "cloud"), ({}, "unclear"), ({"reason": None}, "unclear")]
)
def test_what_is_not_assessable_is_unclear_unless_somebody_said_why(said: dict, reason: str) -> None:
    operation = read_one({"building_id": "b1", "label": "not_assessable", **said})
    assert operation is not None
    assert operation.reason == reason


def test_the_wish_for_another_queue_names_the_one_that_is_done() -> None:
    wish = {"next": True, "queue": "q-1", "skipped": ["b1", "b2"], "screen": "queue"}
    assert read_one(wish) == Operation("s-1", "queue", screen="queue", queue="q-1", skipped=("b1", "b2"))


@pytest.mark.parametrize(
    "entry",
    [
        {"label": "positive", "reason": "cloud"},
        {"label": "not_assessable", "reason": "rain"},
        {"label": "not_assessable", "reason": ["cloud"]},
        {"label": "positive", "shown": "by chance"},
        {"label": "positive", "shown": {}, "comment": 7},
        {"label": "positive", "comment": "x" * 501},
        {"label": "positive", "damage_types": "roof"},
        {"label": "positive", "damage_types": ["roof", 3]},
        {"label": "positive", "damage_types": [""]},
        {"label": "positive", "damage_types": ["roof"] * 21},
        {"next": True, "queue": "q-1", "skipped": "b1"},
    ],
)
def test_details_that_make_no_sense_leave_the_operation_out(entry: dict) -> None:
    assert read_one({"building_id": "b1", **entry}) is None


def test_operations_are_read_in_order() -> None:
    message = {
        "session": "s",
        "ops": [
            {"n": 4, "op": "s-4", "building_id": "b1", "label": "positive", "screen": "wall", "act": "box-1"},
            {"n": 5, "op": "s-5", "undo": True},
            {"n": 6, "op": "s-6", "redo": True},
        ],
    }
    assert read_operations(message) == (
        "s",
        6,
        [
            Operation("s-4", "set", "b1", "positive", "wall", "box-1"),
            Operation("s-5", "undo"),
            Operation("s-6", "redo"),
        ],
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"n": 1, "op": "", "building_id": "b1", "label": "positive"},
        {"n": 1, "op": "s-1", "building_id": "b1", "label": "destroyed"},
        {"n": 1, "op": "s-1", "building_id": "b1", "label": ["positive"]},
        {"n": 1, "op": "s-1", "building_id": "", "label": "positive"},
        {"n": 1, "op": "s-1", "building_id": "b" * 201, "label": "positive"},
        {"n": 1, "op": 7, "building_id": "b1", "label": "positive"},
    ],
)
def test_nonsense_is_left_out_but_acknowledged(entry: dict) -> None:
    assert read_operations({"session": "s", "ops": [entry]}) == ("s", 1, [])


@pytest.mark.parametrize("message", [{}, {"ops": "x"}, {"ops": [1, None, "x"]}, {"session": 3, "ops": [{}]}])
def test_a_broken_message_is_empty(message: dict) -> None:
    assert read_operations(message) == ("", 0, []) or read_operations(message)[2] == []


def test_a_box_of_20_000_buildings_is_one_message() -> None:
    raw = [
        {"n": n, "op": f"s-{n}", "building_id": f"b{n}", "label": "positive", "screen": "map", "act": "box-1"}
        for n in range(1, 20_001)
    ]
    session, last, operations = read_operations({"session": "s", "attempt": 0, "ops": raw})
    assert (session, last) == ("s", 20_000)
    assert [operation.op for operation in operations] == [each["op"] for each in raw]


MESSAGE = {"session": "s", "attempt": 7, "ops": [{"n": 3, "op": "s-3", "building_id": "b1", "label": "positive"}]}


@pytest.fixture
def session_state(monkeypatch: pytest.MonkeyPatch) -> dict:
    state: dict = {"view": {"operations": MESSAGE}}
    monkeypatch.setattr(damage_view.st, "session_state", state)
    return state


def test_what_was_stored_is_acknowledged(session_state: dict) -> None:
    stored = []
    damage_view._store("view", stored.extend)
    assert [operation.op for operation in stored] == ["s-3"]
    answer = damage_view._answer("view")
    assert (answer["ack"], answer["problem"]) == ({"session": "s", "n": 3, "attempt": 7}, None)


def test_a_message_without_operations_runs_the_page_and_touches_no_project(session_state: dict) -> None:
    def fail(operations: object) -> None:
        raise PuGeoError("Somebody else holds the file.", "Wait.")

    session_state["view"] = {"operations": {"session": "s", "attempt": 8, "ops": []}}
    damage_view._store("view", fail)
    answer = damage_view._answer("view")
    assert (answer["ack"], answer["problem"]) == ({"session": "s", "n": 0, "attempt": 8}, None)


def test_a_restarted_server_has_another_name(session_state: dict) -> None:
    before = damage_view._answer("view")["server"]
    assert damage_view._answer("view")["server"] == before
    session_state.clear()
    assert damage_view._answer("view")["server"] != before


@pytest.mark.parametrize(
    "error", [PuGeoError("It broke.", "Mend it."), sqlite3.OperationalError("It broke."), OSError("It broke.")]
)
def test_what_was_not_stored_is_not_acknowledged_and_the_browser_hears_why(session_state: dict, error: Exception) -> None:
    def fail(operations: object) -> None:
        raise error

    damage_view._store("view", lambda operations: None)
    damage_view._store("view", fail)
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
