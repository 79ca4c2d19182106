"""The cards of methods on the Train screen: a training is asked for as its card was filled in."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_parts import checked, press, show, words
from comparison_parts import BETTER, set_project
from small_parts import click

from pu_geo import jobs
from pu_geo.services.imagery import features


def test_a_training_is_asked_for_as_its_card_was_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: started.append((task, args)) or "id")
    layout = set_project(tmp_path, n_clicks=60)
    app = show("train", layout)
    assert app.toggle(key="compare-features").label.startswith("Compare features")
    press(app, "start-propagation")
    held_out = app.number_input(key="hold-out-ncpu-60")
    assert (held_out.value, held_out.max) == (12, 55), "one in five is proposed, and five are left to learn from"
    held_out.set_value(3)
    app.selectbox(key="preset-ncpu").set_value("quick")
    app.number_input(key="seed-ncpu").set_value(7)
    app.number_input(key="devices-ncpu").set_value(2)
    checked(app.run())
    app.selectbox(key="features-ncpu-rcf").set_value(BETTER)
    checked(app.text_input(key="set-ncpu-quick-epochs").set_value("5").run())
    press(app, "start-ncpu")
    assert started[0] == ("train", {**started[0][1], "method": "propagation", "overrides": {}, "feature_set": ""})  # type: ignore[index]
    assert started[1:] == [
        ("train", {
            "method": "ncpu", "preset": "quick", "seed": 7, "overrides": {"epochs": "5"}, "types_from": None, "hold_out": 3,
            "feature_set": BETTER, "devices": 2,
        }),
    ]  # fmt: skip


def test_cards_say_what_is_in_use_and_what_is_missing_and_take_types_where_there_are_some(tmp_path: Path) -> None:
    layout = set_project(tmp_path, n_clicks=4)
    features.choose(layout, BETTER)
    app = show("train", layout)
    assert BETTER in words(app).replace("\\", "")
    assert app.button(key="start-ncpu").disabled
    assert "needs at least 5 damaged buildings" in words(app)
    click(layout, "b0", "b1", "b4", damage_types=["roof"])
    app = show("train", layout)
    checked(app.toggle(key="group-1").set_value(True).run())
    types = app.selectbox(key="types-herocon")
    assert types.options[0] == "Types given on Annotate"
    checked(types.set_value("answers").run())
    assert "roof 3 yes" in words(app)
