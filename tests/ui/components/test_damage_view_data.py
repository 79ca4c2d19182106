"""What goes between page and browser for the map and the scatter, without a browser."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_parts import small_grid

from pu_geo.answers.queueing import StoredQueue
from pu_geo.errors import PuGeoError
from pu_geo.explore import looks
from pu_geo.explore.coloring import Coloring
from pu_geo.explore.looks import Region
from pu_geo.explore.questions import Asked
from pu_geo.maps.damage_types import TypesOnMap
from pu_geo.scenes.image_quality import ImageQuality
from pu_geo.store.layout import Layout
from pu_geo.store.queues import QueueItem
from pu_geo.ui.build import FRONTEND
from pu_geo.ui.components import damage_view, scatter
from pu_geo.ui.components.damage_view import Flagging, encode_details, encode_flagging, encode_labels, encode_queue
from pu_geo.ui.components.project_view import encode_image_quality
from pu_geo.ui.components.scatter import Scatter, decode_places, encode_scatter, read_selection


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
    assert encode_labels({"a": "cleared", "z": "positive"}, {"a": 0}) == {}
    assert encode_labels({"a": "positive", "b": "positive"}, {"a": 0, "b": 1}) == {"1": "0 1"}


def test_details_come_back_from_their_short_form_and_stay_small() -> None:
    positions = {f"b{i}": i for i in range(20_000)}
    every = range(0, 20_000, 10)

    def details_of(i: int) -> dict[str, object]:
        types = {"damage_types": ["roof", "walls"][: i % 3], "absent_types": ["walls"] if i % 100 == 0 else []}
        words = {"reason": "cloud" if i % 50 == 0 else "", "comment": "a < b" if i == 70 else ""}
        shown = {"shown": "audit" if i % 30 == 0 else "", "grade": "destroyed" if i % 40 == 0 else ""}
        return {"by": ("ann", "bob")[i % 20 // 10], **types, **words, **shown}

    encoded = encode_details({f"b{i}": details_of(i) for i in every} | {"unknown": {"by": "ann"}}, positions)
    found = {(kind, value): decode(text) for kind in encoded if kind != "comment" for value, text in encoded[kind].items()}
    assert found == {
        ("by", "ann"): list(range(0, 20_000, 20)), ("by", "bob"): list(range(10, 20_000, 20)),
        ("reason", "cloud"): list(range(0, 20_000, 50)), ("type", "roof"): [i for i in every if i % 3],
        ("type", "walls"): [i for i in every if i % 3 == 2], ("no_type", "walls"): list(range(0, 20_000, 100)),
        ("grade", "destroyed"): list(range(0, 20_000, 40)), ("shown", "audit"): list(range(0, 20_000, 30)),
    }  # fmt: skip
    assert encoded["comment"] == {"70": "a < b"}
    assert sum(len(text) for texts in encoded.values() for text in texts.values()) < 16_000, "2,000 buildings, 16 kB"
    kinds = ("by", "reason", "type", "no_type", "shown", "grade", "comment")
    assert encode_details({}, {"a": 0}) == {kind: {} for kind in kinds}


def test_the_words_of_an_audit_stay_here_and_a_removed_building_is_left_out() -> None:
    items = [QueueItem("d", "exploit", "score 0.9"), QueueItem("b", "audit", "random check"), QueueItem("gone", "audit", "")]
    queue, places = StoredQueue("set", items, is_second=True, id="q-1"), {"a": 0, "b": 1, "d": 3}
    sent = encode_queue(queue, places, is_assessment=False)
    assert sent == {
        "id": "q-1", "items": [[3, "exploit", "score 0.9"], [1, "audit", ""]], "is_second": True, "is_assessment": False,
    }  # fmt: skip


NO_TYPES = TypesOnMap(())
NEXT = {"n": 3, "op": "s-3", "next": True, "queue": "q-1"}
LABEL = {"n": 4, "op": "s-4", "building_id": "b1", "label": "positive"}


@pytest.fixture
def session_state(monkeypatch: pytest.MonkeyPatch) -> dict:
    state: dict = {"view": {"operations": {"session": "s", "attempt": 7, "ops": [NEXT]}}}
    monkeypatch.setattr(damage_view.st, "session_state", state)
    return state


def test_the_page_takes_what_is_asked_of_it_and_acknowledges_no_label(session_state: dict) -> None:
    for ops, asked, n in (
        ([NEXT], ["q-1"], 3), ([], [], 0),  # asks for a run of the page alone
        ([NEXT, LABEL, {**NEXT, "n": 5}], ["q-1"], 3), ([LABEL], [], 0), ("x", [], 0), ([1, None], [], 0),
    ):  # fmt: skip
        for name in [name for name in session_state if name != "view"]:
            del session_state[name]
        session_state["view"]["operations"]["ops"] = ops
        queues: list[str] = []
        for take in (queues.append, None):  # a view without a queue acknowledges all the same
            damage_view.take_message("view", take)
            answer = damage_view.answer("view")
            assert (answer["ack"], answer["problem"]) == ({"session": "s", "n": n, "attempt": 7}, None)
        assert queues == asked


@pytest.mark.parametrize("error", [PuGeoError("It broke.", "Mend it."), OSError("It broke.")])
def test_what_failed_is_not_acknowledged_and_the_browser_gets_the_reason(session_state: dict, error: Exception) -> None:
    def fail(queue: str) -> None:
        raise error

    damage_view.take_message("view", lambda queue: None)
    damage_view.take_message("view", fail)
    answer = damage_view.answer("view")
    assert answer["ack"] is None
    assert "It broke." in answer["problem"]


def test_no_script_writes_markup() -> None:
    sources = {source.name: source.read_text(encoding="utf-8") for source in (FRONTEND / "src").glob("*.js")}
    assert len(sources) > 5
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write")
    assert not [name for name, text in sources.items() if any(word in text for word in ways)]


def test_how_many_are_flagged_reaches_the_page_once_and_is_acknowledged(session_state: dict) -> None:
    heard: list[object] = []
    flagging = Flagging("by a person", heard.append, heard.append, NO_TYPES)
    session_state["view"] |= {"flag": {"n": 12, "top": 88, "of": "run-2"}, "map_color": "uncertainty"}
    damage_view.take_flag("view", flagging, "run-2")
    damage_view.take_color("view", flagging)
    assert (heard, session_state["view:flag"]) == ([88, "uncertainty"], 12)
    session_state["view"] |= {"flag": {"n": 13, "top": 70, "of": "run-1"}}
    damage_view.take_flag("view", flagging, "run-2")
    assert (heard, session_state["view:flag"]) == ([88, "uncertainty"], 13), "of the run that was shown before"
    for is_scale in (False, True):
        assert encode_flagging(replace(flagging, types=TypesOnMap((), is_ordinal=is_scale)), {})["scale"] is is_scale


def test_what_makes_no_sense_changes_nothing(session_state: dict) -> None:
    heard: list[object] = []
    for flag, color in (({"n": 1, "top": "all"}, "<b>"), ("x", None), ({"n": 1, "top": True}, 3)):
        session_state["view"] |= {"flag": flag, "map_color": color}
        damage_view.take_flag("view", Flagging("", heard.append, heard.append, NO_TYPES), None)
        damage_view.take_color("view", Flagging("", heard.append, heard.append, NO_TYPES))
    assert not heard


POSITIONS = {f"b{i}": i for i in range(100)}


def test_places_that_cannot_be_are_refused() -> None:
    """The first place may be 0, and the last one n - 1."""
    assert decode_places("0 2r", 100) == [0, 99]
    assert decode_places("", 100) == []
    for text in ("1 0", "-1", "zz", "A", "1 2\u0663", "1.5", "1111111", "2s"):
        assert decode_places(text, 100) is None, text


def test_no_numbers_of_dots_travel_with_the_page() -> None:
    values = np.zeros(100, np.float32)
    color = Coloring("attribute:damage", "Damage", "categories", ["none", "roof"], values, v="7")
    region = Region(7, 0.5, 1.5, 146, 23, 0.93)
    asked = Asked("Else?", ["b9", "gone", "b2"], ["x", "y", "z"])
    chosen = ["b3", "gone", "b1"]
    told = encode_scatter(Scatter("run-1", "1", color, regions=[region], selected=chosen, load="x", asked=asked), POSITIONS)
    assert told["selected"] == "1 2"
    assert told["regions"] == [
        {"place": 7, "x": 0.5, "y": 1.5, "n": 146, "clicks": 23, "words": "146 buildings, 23 marked, 93 % flagged"}
    ]
    assert (told["asked"]["places"], told["asked"]["notes"], told["outline"]) == ([9, 2], ["x", "z"], None)
    assert told["color"]["names"] == ["none", "roof"]
    assert "values" not in told["color"]
    assert len(str(told)) < 800


def test_selections_are_checked() -> None:
    for message, found in (
        ({"places": "1 2"}, ["b1", "b3"]), ({"places": ""}, []),
        ({"places": "2s"}, None), ({"places": [1, 2]}, None), (None, None), ("1 2", None),
    ):  # fmt: skip
        assert read_selection(message, POSITIONS) == found, message


def test_a_selection_that_makes_no_sense_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict = {"explore": {"selection": {"places": "1 2", "number": 7}}}
    monkeypatch.setattr(scatter.st, "session_state", state)
    scatter.store_selection("explore", POSITIONS)
    assert (state["explore:selected"], state["explore:heard"]) == (["b1", "b3"], 7)
    state["explore"] = {"selection": {"places": "9999", "number": 8}}
    scatter.store_selection("explore", POSITIONS)
    assert (state["explore:selected"], state["explore:heard"]) == (["b1", "b3"], 8)


def test_the_route_asks_for_positions_or_colors_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "positions_for_browser", lambda layout, source: source.encode())
    monkeypatch.setattr(scatter, "values_for_browser", lambda layout, run_id, by: f"{run_id} {by}".encode())
    assert scatter.dots(Layout(Path("town.pugeo")), "look", "plane", "") == b"look"
    assert scatter.dots(Layout(Path("town.pugeo")), "run-1", "color", "area:adm2") == b"run-1 area:adm2"
    assert scatter.dots(Layout(Path("town.pugeo")), "run-1", "weights", "") is None
    assert scatter.dots(Layout(Path("town.pugeo")), "run-1", "color", "x" * 201) is None


def test_reasons_and_other_candidates_are_written_as_places() -> None:
    reasons = {"a": "cloud", "b": "nodata", "c": "cloud", "not on the map": "cloud"}
    seen = ImageQuality(reasons, {**reasons, "d": "misaligned"}, "7")
    encoded = encode_image_quality(seen, {"a": 3, "b": 4, "c": 40, "d": 0}, small_grid())
    assert encoded["reasons"] == {"cloud": "3 11", "nodata": "4"}
    assert encoded["candidates"] == {"misaligned": "0"}  # a reason is the likeliest one anyway
    assert encoded["shifts"] == {"v": "7", "m_per_px": [[pytest.approx(0.5), pytest.approx(-0.5)]]}
    assert encode_image_quality(ImageQuality({}, {}, None), {"a": 0}, small_grid())["shifts"] is None
