"""The damage map of a run with damage types: a tab with a threshold each, words where nothing can be judged, and what exports say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from app_parts import plain, press, run_ahead, show, show_tab
from mapped_parts import RUN, TRUTH, answer_audit
from small_parts import add_run
from typed_parts import TYPED, TYPES, name_types, typed_project

from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import damage_types, exporting, mapping
from pu_geo.services.project import choices
from pu_geo.services.train import run_names
from pu_geo.ui.damage_map import type_panel
from pu_geo.ui.damage_map.texts import TAB_TYPES, tabs

pytestmark = pytest.mark.usefixtures("home", "same_draws")

CLICKED = [row for row in np.flatnonzero(TRUTH).tolist() if row > 1][:25]


@pytest.fixture
def typed(tmp_path: Path) -> Layout:
    layout = typed_project(tmp_path)
    choices.choose_run(layout, TYPED)
    choices.choose_threshold(layout, TYPED, 0.3)
    return layout


def here(layout: Layout) -> damage_types.TypesOnMap:
    return damage_types.on_map(layout, TYPED, mapping.threshold(layout, TYPED).value)


def test_few_answers_are_not_enough_and_no_share_is_shown_before_an_audit(typed: Layout) -> None:
    name_types(typed, CLICKED[:4])
    app = show_tab(typed, TAB_TYPES)
    assert "not enough to judge: it takes 10" in plain(app)
    assert [metric.value for metric in app.metric] == [str(one.n_by_people) for one in here(typed).types]  # nothing by score
    assert "not known before an accuracy assessment" in plain(app)
    assert "%" not in plain(app)
    answer_audit(typed, 60, run_id=TYPED)
    assert "not known before" not in plain(show_tab(typed, TAB_TYPES))


def test_number_and_threshold_of_a_type_set_each_other_and_are_kept(typed: Layout) -> None:
    """A browser sends what all widgets hold with each act: an old number stood for a choice of it. No threshold gives a type to none."""
    name_types(typed, CLICKED)
    app = show_tab(typed, TAB_TYPES)
    assert app.slider(key=f"type-top-{TYPED}-0").min == 1
    app.slider(key=f"type-top-{TYPED}-0").set_value(5).run()
    assert (here(typed).types[0].n_by_score, here(typed).types[0].threshold.origin) == (5, "top:5")
    app.number_input(key=f"type-threshold-{TYPED}-1").set_value(0.25).run()
    assert here(typed).types[1].threshold.value == 0.25
    app = show_tab(typed, TAB_TYPES)
    shown = (app.slider(key=f"type-top-{TYPED}-0").value, app.number_input(key=f"type-threshold-{TYPED}-1").value)
    assert shown == (5, 0.25)
    app.number_input(key=f"type-threshold-{TYPED}-0").set_value(0.4321)
    run_ahead(app)
    assert here(typed).types[0].threshold == choices.Threshold(0.4321, choices.PERSON)
    assert here(typed).types[1].threshold.value == 0.25
    assert app.slider(key=f"type-top-{TYPED}-0-1").value == here(typed).types[0].n_by_score
    press(app, f"type-start-{TYPED}-0")
    assert here(typed).types[0].threshold.origin.startswith("start:")
    damage_types.choose_threshold(typed, TYPED, "roof", 1.0)
    slider = show_tab(typed, TAB_TYPES).slider(key=f"type-top-{TYPED}-0")
    assert (slider.min, slider.value) == (0, 0), "what is so is shown"


def test_tab_and_color_are_there_only_where_the_run_scores_types(typed: Layout) -> None:
    assert type_panel.color_of("types", here(typed)) == "types"
    assert type_panel.color_of("types", damage_types.TypesOnMap(())) == "category"
    assert [tab.label for tab in show("damage_map", typed).tabs] == list(tabs(has_types=True))
    choices.choose_setting(typed, "map_color", "types")
    choices.choose_run(typed, RUN)
    without = show("damage_map", typed)
    assert [tab.label for tab in without.tabs] == list(tabs(has_types=False))
    assert f"the tab Damage types: {run_names.name(typed, TYPED)}" in plain(without)


def test_the_map_gets_who_says_so_of_each_building(typed: Layout) -> None:
    name_types(typed, CLICKED)
    found = here(typed)
    for one, layer in zip(found.types, type_panel.layers(found), strict=True):
        assert (len(layer.people), len(layer.score)) == (one.n_by_people, one.n_by_score)
        states = dict(zip(found.ids, one.states, strict=True))
        assert {states[building] for building in (*layer.people, *layer.score)} == {"yes"}


def test_before_an_export_the_types_are_counted_and_doubted(typed: Layout) -> None:
    name_types(typed, CLICKED)
    found = exporting.summary(typed, TYPED, 0.3)
    counts = [(one.name, one.states.count("yes")) for one in here(typed).types]
    assert list(found.types) == counts
    assert any(f"with {', '.join(TYPES)} by score" in words for words in found.gaps)
    assert f"roof {counts[0][1]}" in plain(press(show("damage_map", typed), "export"))
    add_run(typed, "ranker-9", scores=np.linspace(0, 1, 400), like=RUN)
    assert exporting.summary(typed, "ranker-9", 0.3).types == ()


def test_the_tab_warns_where_a_federations_map_disagrees_with_what_was_trained_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage_types, "_disagreements", lambda *_: ("It disagrees.",))
    app = show_tab(typed_project(tmp_path, preset="federated", method="fedaws"), TAB_TYPES)
    assert [one.value for one in app.warning] == ["It disagrees."]
