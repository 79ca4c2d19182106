"""Layers on the pages: chosen for features on Imagery, and asked for what they add on Train."""

from __future__ import annotations

from typing import Any

import pytest
from app_parts import field, plain, press, show
from layered_chip_parts import with_layers
from model_parts import with_chips

from pu_geo import jobs
from pu_geo.analysis.bakeoff import Interval
from pu_geo.project.layout import Layout
from pu_geo.services.train import layer_comparison
from pu_geo.services.train.layer_comparison import LayerComparison, LayerRow

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: found.append((task, args)) or "job")
    return found


def test_layers_are_chosen_on_imagery(project: Layout, started: list[tuple[str, Any]]) -> None:
    with_layers(project)
    app = show("imagery", project)
    chosen = field(app, "Layers to make features of")
    assert chosen.value == ["pre+post", "sar-post", "dsm"]
    chosen.set_value(["pre+post", "sar-post"]).run()
    press(app, "Make features of these layers and use them")
    assert [(task, args["request"]["layers"], args["use"]) for task, args in started] == [
        ("features", ("pre+post", "sar-post"), True)
    ]


def test_without_layers_there_is_nothing_to_choose(project: Layout) -> None:
    with_chips(project)
    assert "Layers to make features of" not in {each.label for each in show("imagery", project).multiselect}
    assert "compare-layers" not in {each.key for each in show("train", project).toggle}


def test_what_each_layer_adds_is_asked_and_shown_on_train(project: Layout, started: list[tuple[str, Any]]) -> None:
    with_layers(project)
    app = show("train", project)
    app.toggle(key="compare-layers").set_value(True).run()
    assert "No comparison yet." in plain(app)
    press(app, "compare-layers-start")
    assert started == []
    assert "Not enough clicks to compare: it takes 8 of your own; this project has 5." in plain(app)
    row = LayerRow("sar-post", "propagation", 0.6, 0.5, Interval(0.1, 0.02, 0.2))
    layer_comparison.keep(project, LayerComparison(layer_comparison.store.now(), 0, "set", "layers-1", 12, 0, 100, [row]))
    app.run()
    assert "sar-post adds to the ranking: AP +0.10, 95 % interval +0.02 to +0.20." in plain(app)
    assert "There are new answers since: compare again." in plain(app)
