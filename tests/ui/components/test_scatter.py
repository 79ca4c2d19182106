"""What goes between page and browser for the scatter, without a browser."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.services.explore import exploring
from pu_geo.services.explore.coloring import Coloring
from pu_geo.services.project import projects
from pu_geo.ui.components import scatter
from pu_geo.ui.components.scatter import Scatter, decode_places, encode_places, encode_scatter, read_selection

POSITIONS = {f"b{i}": i for i in range(100)}


@pytest.mark.parametrize("seed", [0, 1])
def test_places_come_back_from_their_short_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = sorted(rng.choice(100_000, rng.integers(0, 3000), replace=False).tolist())
    assert decode_places(encode_places(places), 100_000) == places


def test_places_that_cannot_be_are_refused() -> None:
    """The first place may be 0, and the last one n - 1."""
    assert decode_places("0 2r", 100) == [0, 99]
    assert decode_places("", 100) == []
    for text in ("1 0", "-1", "zz", "A", "1 2\u0663", "1.5", "1111111", "2s"):
        assert decode_places(text, 100) is None, text


def test_no_numbers_of_dots_travel_with_the_page() -> None:
    values = np.zeros(100, np.float32)
    color = Coloring("attribute:damage", "Damage", "categories", ["none", "roof"], values, v="7")
    told = encode_scatter(Scatter("run-1", "UMAP", "1", color, "Supervised UMAP", ["b3", "gone", "b1"], load="x"), POSITIONS)
    assert told["selected"] == "1 2"
    assert told["title"] == "Supervised UMAP"
    assert told["color"]["names"] == ["none", "roof"]
    assert "values" not in told["color"]
    assert len(str(told)) < 400


def test_selections_are_checked() -> None:
    for message, found in (
        ({"places": "1 2", "focus": 5}, (["b1", "b3"], "b5")),
        ({"places": "", "focus": -1}, ([], None)),
        ({"places": "1", "focus": 100}, (["b1"], None)),
        ({"places": "1", "focus": "5"}, (["b1"], None)),
        ({"places": "2s"}, None), ({"places": [1, 2]}, None), (None, None), ("1 2", None),
    ):  # fmt: skip
        assert read_selection(message, POSITIONS) == found, message


def test_a_selection_that_makes_no_sense_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict = {"explore": {"selection": {"places": "1 2", "focus": -1, "number": 7}}}
    monkeypatch.setattr(scatter.st, "session_state", state)
    scatter.store_selection("explore", POSITIONS)
    assert (state["explore:selected"], state["explore:heard"]) == (["b1", "b3"], 7)
    state["explore"] = {"selection": {"places": "9999", "number": 8}}
    scatter.store_selection("explore", POSITIONS)
    assert (state["explore:selected"], state["explore:heard"]) == (["b1", "b3"], 8)


def test_the_route_asks_for_positions_or_colors_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "resolve", lambda token: "layout" if token == "p-1" else None)
    monkeypatch.setattr(exploring, "positions_for_browser", lambda layout, run_id, kind: f"{run_id} {kind}".encode())
    monkeypatch.setattr(scatter, "values_for_browser", lambda layout, run_id, by: f"{run_id} {by}".encode())
    assert scatter.dots("p-1", "run-1", "pca", "") == b"run-1 PCA"
    assert scatter.dots("p-1", "run-1", "umap", "") == b"run-1 UMAP"
    assert scatter.dots("p-1", "run-1", "color", "area:adm2") == b"run-1 area:adm2"
    assert scatter.dots("p-1", "run-1", "weights", "") is None
    assert scatter.dots("p-1", "run-1", "color", "x" * 201) is None
    assert scatter.dots("p-2", "run-1", "pca", "") is None
