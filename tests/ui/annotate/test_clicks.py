"""Clicks that come over HTTP are stored once, in their order, and only where they make sense."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from small_parts import small_grid, small_scene, square_table

from pu_geo.errors import PuGeoError
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects
from pu_geo.ui.annotate.clicks import store_clicks


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))
    layout = projects.create(str(tmp_path / "town.pugeo"), "town")
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], small_grid())
        contents.add_footprints(db, square_table(5))
    return layout


def click(number: int, building: str, label: str = "positive", **more: object) -> dict[str, object]:
    return {"n": number, "op": f"s-{number}", "building_id": building, "label": label, "screen": "map", **more}


def send(layout: Layout, *ops: dict[str, object], **more: object) -> dict[str, object] | None:
    return store_clicks(projects.token_of(layout), {"session": "s", "analyst": "ann", "ops": list(ops), **more})


def standing(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return dict(labels.current_labels(db))


def test_clicks_are_stored_in_their_order_and_acknowledged(town: Layout) -> None:
    told = send(town, click(1, "b0"), click(2, "b1"), click(3, "b0", "cleared"), {"n": 4, "op": "s-4", "undo": True})
    assert told == {"session": "s", "n": 4, "event": 4, "refused": None}
    assert standing(town) == {"b0": "positive", "b1": "positive"}
    with store.connect(town) as db:
        assert {event.analyst for event in labels.current(db).values()} == {"ann"}


def test_what_is_sent_again_is_acknowledged_again_and_stored_once(town: Layout) -> None:
    first = send(town, click(1, "b0"))
    assert send(town, click(1, "b0"), click(2, "b1")) == {"session": "s", "n": 2, "event": 2, "refused": None}
    assert first is not None
    assert first["event"] == 1


def test_what_can_never_be_stored_is_refused_for_good_and_the_rest_stored(town: Layout) -> None:
    told = send(town, click(1, "nobody"), click(2, "b1"))
    assert told is not None
    assert (told["n"], standing(town)) == (2, {"b1": "positive"})
    assert "1 of 2 labels were refused" in str(told["refused"])


def test_a_wish_for_the_next_queue_is_left_to_the_page(town: Layout) -> None:
    told = send(town, {"n": 1, "op": "s-1", "next": True, "queue": "q"})
    assert told is not None
    assert told["event"] == 0


def test_an_audits_answer_that_no_check_drew_is_an_ordinary_one(town: Layout) -> None:
    send(town, click(1, "b0", shown="audit"))
    with store.connect(town) as db:
        assert labels.current(db)["b0"].shown == ""


@pytest.mark.parametrize(
    "wrong", [{"analyst": ""}, {"analyst": None}, {"analyst": "x" * 101}, {"session": ""}, {"session": 5}]
)
def test_what_makes_no_sense_is_not_stored(town: Layout, wrong: dict[str, object]) -> None:
    assert send(town, click(1, "b0"), **wrong) is None
    assert standing(town) == {}


def test_an_unknown_project_is_nothing(town: Layout) -> None:
    assert store_clicks("nobody", {"session": "s", "analyst": "ann", "ops": [click(1, "b0")]}) is None


def test_a_file_that_another_program_holds_is_said_so(town: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_MS", 50)
    other = sqlite3.connect(town.gpkg, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(PuGeoError):
            send(town, click(1, "b0"))
    finally:
        other.close()
    assert send(town, click(1, "b0")) is not None
