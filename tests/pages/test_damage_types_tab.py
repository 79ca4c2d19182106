"""The damage map of a run with damage types: a tab with a threshold each, words where nothing can be judged, and what exports say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from app_parts import field, plain, press, run_ahead, show, show_tab
from mapped_parts import RUN, TRUTH, answer_audit
from small_parts import add_run
from streamlit.testing.v1 import AppTest
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


def labels_of_tabs(app: AppTest) -> list[str]:
    return [tab.label for tab in app.tabs]


def test_the_tab_is_there_only_where_the_run_scores_types(typed: Layout) -> None:
    assert labels_of_tabs(show("damage_map", typed)) == list(tabs(has_types=True))
    choices.choose_run(typed, RUN)
    without = show("damage_map", typed)
    assert labels_of_tabs(without) == list(tabs(has_types=False))
    assert (
        f"no scores of damage types. Choose one that has for the tab Damage types: {run_names.name(typed, TYPED)}"
        in plain(without)
    )


def test_few_answers_are_not_enough_and_the_page_says_so(typed: Layout) -> None:
    name_types(typed, CLICKED[:4])
    app = show_tab(typed, TAB_TYPES)
    assert "not enough to judge: it takes 10" in plain(app)
    assert "no proof that the type is absent" in plain(app)
    assert field(app, "Threshold") is not None
    assert [metric.value for metric in app.metric] == [str(one.n_by_people) for one in here(typed).types]  # nothing by score


def test_number_and_threshold_of_a_type_set_each_other_and_are_kept(typed: Layout) -> None:
    name_types(typed, CLICKED)
    app = show_tab(typed, TAB_TYPES)
    assert "a starting point, not an estimate" in plain(app)
    app.slider(key=f"type-top-{TYPED}-0").set_value(5).run()
    assert here(typed).types[0].n_by_score == 5
    assert here(typed).types[0].threshold.origin == "top:5"
    app.number_input(key=f"type-threshold-{TYPED}-1").set_value(0.25).run()
    assert here(typed).types[1].threshold.value == 0.25
    again = show_tab(typed, TAB_TYPES)
    assert (again.slider(key=f"type-top-{TYPED}-0").value, again.number_input(key=f"type-threshold-{TYPED}-1").value) == (
        5,
        0.25,
    )
    press(again, f"type-start-{TYPED}-0")
    assert here(typed).types[0].threshold.origin.startswith("start:")


def test_a_browser_that_has_not_drawn_the_number_anew_does_not_take_a_threshold_back(typed: Layout) -> None:
    """It sends what all widgets hold with each act, and the old number stood for a choice of it."""
    name_types(typed, CLICKED)
    app = show_tab(typed, TAB_TYPES)
    before = here(typed).types[1].threshold.value
    app.number_input(key=f"type-threshold-{TYPED}-0").set_value(0.4321)
    run_ahead(app)
    assert here(typed).types[0].threshold == choices.Threshold(0.4321, choices.PERSON)
    assert here(typed).types[1].threshold.value == before
    assert app.slider(key=f"type-top-{TYPED}-0-1").value == here(typed).types[0].n_by_score


def test_the_words_about_a_threshold_have_the_whole_width_and_the_legend_is_above_the_bars(typed: Layout) -> None:
    """In a column of a narrow screen they had three words a line, and the legend lay over the bars."""
    app = show_tab(typed, TAB_TYPES)
    everywhere, beside = (
        [caption.value.replace("\\", "").replace("\u2060", "") for part in parts for caption in part.caption]
        for parts in ([app], app.columns)
    )
    for one in here(typed).types:
        assert (one.words in everywhere, one.words in beside) == (True, False)
        legend = type_panel._histogram(one).layout.legend
        assert (legend.yanchor, legend.y >= 1) == ("bottom", True)


def test_the_slider_offers_only_numbers_that_can_be_chosen(typed: Layout) -> None:
    name_types(typed, CLICKED)
    assert show_tab(typed, TAB_TYPES).slider(key=f"type-top-{TYPED}-0").min == 1, "no threshold gives a type to none"
    damage_types.choose_threshold(typed, TYPED, "roof", 1.0)
    app = show_tab(typed, TAB_TYPES)
    assert (app.slider(key=f"type-top-{TYPED}-0").min, app.slider(key=f"type-top-{TYPED}-0").value) == (0, 0), (
        "what is so is shown"
    )
    app.slider(key=f"type-top-{TYPED}-0").set_value(3).run()
    assert here(typed).types[0].n_by_score == 3
    assert app.slider(key=f"type-top-{TYPED}-0").min == 1


def test_on_a_scale_the_slider_counts_what_its_own_threshold_reaches(tmp_path: Path) -> None:
    layout = typed_project(tmp_path, types=("at least Minor", "at least Major"), types_from="grades", is_ordinal=True)
    for name, n in (("at least Minor", 3), ("at least Major", 20)):
        damage_types.choose_top(layout, TYPED, mapping.threshold(layout, TYPED).value, name, n)
    assert here(layout).types[0].n_by_score >= 20
    app = show_tab(layout, TAB_TYPES)
    assert [app.slider(key=f"type-top-{TYPED}-{k}").value for k in (0, 1)] == [3, 20]


def test_no_share_is_shown_before_an_audit_and_then_with_its_interval(typed: Layout) -> None:
    name_types(typed, CLICKED)
    words = plain(show_tab(typed, TAB_TYPES))
    assert "not known before an accuracy assessment" in words
    assert "%" not in words
    answer_audit(typed, 60, run_id=TYPED)
    words = plain(show_tab(typed, TAB_TYPES))
    assert "say yes or no" in words or "says yes or no" in words
    assert "not known before" not in words


def test_a_color_by_types_falls_back_where_the_run_has_none(typed: Layout) -> None:
    assert type_panel.color_of("types", here(typed)) == "types"
    assert type_panel.color_of("types", damage_types.TypesOnMap(())) == "category"
    choices.choose_setting(typed, "map_color", "types")
    choices.choose_run(typed, RUN)
    assert not show("damage_map", typed).exception


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
    words = "Of the 15 buildings that this project trained as roof, by the thresholds 11 are flooded."
    monkeypatch.setattr(damage_types, "_disagreements", lambda *_: (words,))
    app = show_tab(typed_project(tmp_path, preset="federated", method="fedaws"), TAB_TYPES)
    assert app.warning[0].value.replace("\\", "") == words
    assert "a building can be yes for several types" in plain(app)
