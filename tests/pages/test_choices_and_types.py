"""Run, threshold and damage types that a person chose stand on the other pages, in the next session, and in what is exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import Started, field, plain, press, run_ahead, show, show_tab, words
from mapped_parts import RUN, TRUTH, answer_audit, mapped_project
from small_parts import add_run, click
from streamlit.testing.v1 import AppTest
from typed_parts import TYPED, TYPES, name_types, typed_project

from pu_geo.maps import damage_map, damage_types
from pu_geo.store import chosen, run_names
from pu_geo.store.layout import Layout, write_array
from pu_geo.ui.damage_map import type_panel
from pu_geo.ui.damage_map.texts import TAB_AREAS, TAB_AUDIT, TAB_TYPES, tabs

pytestmark = pytest.mark.usefixtures("home", "same_draws")

N = 200


@pytest.fixture
def three_runs(tmp_path: Path) -> Layout:
    """A project with an older run, RUN, and newer ones, of which the last is on the live map."""
    layout, draw = mapped_project(tmp_path, N), np.random.default_rng(3)
    write_array(layout.features("set"), draw.normal(size=(2, N, 8)).astype(np.float16))
    for run_id, day in (("ranker-2", 1), ("ranker-3", 2)):
        facts = {"created_at": f"2026-03-0{day}T00:00:00.000Z", "threshold": 0.1, "like": RUN}
        arrays = {"embeddings": draw.normal(size=(N, 4)).astype(np.float32)}
        add_run(layout, run_id, scores=draw.random(N), arrays=arrays, **facts)
    return layout


def exported(app: AppTest, started: Started) -> dict[str, Any]:
    """Press the export's button; return what its job was given."""
    press(press(app, "export"), "Export version 1")
    return started[0][1]


@pytest.mark.slow
def test_run_and_threshold_stand_on_other_pages_and_in_the_next_session(three_runs: Layout, started: Started) -> None:
    app = show("damage_map", three_runs)
    assert field(app, "Run").value == "ranker-3"
    field(app, "Run").set_value("ranker-2").run()
    field(show("explore", three_runs), "Color by").set_value("size").run()
    app = show("damage_map", three_runs)
    assert (field(app, "Run").value, field(app, "Threshold").value) == ("ranker-2", pytest.approx(0.1))
    assert "Chosen by a person." in words(app)
    field(app, "Threshold").set_value(0.3).run()
    show("annotate", three_runs)
    app = show_tab(three_runs, TAB_AREAS)
    assert (field(app, "Run").value, field(app, "Threshold").value) == ("ranker-2", 0.3)
    field(app, "Side of square cells, m").set_value(250).run()
    press(app, "export")
    field(app, "Formats").set_value(["csv"]).run()
    field(app, "EMS / UNOSAT / xBD / FEMA classes").set_value(["unosat"]).run()
    app = show_tab(three_runs, TAB_AREAS)
    assert field(app, "Side of square cells, m").value == 250
    args = exported(app, started)
    assert (args["run_id"], args["threshold"], args["threshold_origin"]) == ("ranker-2", 0.3, "person")
    assert (args["formats"], args["profiles"]) == (["csv"], ["unosat"])
    press(app, "Choose automatically")
    assert (field(app, "Run").value, field(app, "Threshold").value) == ("ranker-3", pytest.approx(0.1)), "each has its own"
    assert field(show("explore", three_runs), "Color by").value == "size"


def test_a_threshold_that_an_audit_gave_says_so(mapped: Layout, started: Started) -> None:
    check = answer_audit(mapped, 200)
    app = press(show_tab(mapped, TAB_AUDIT), "Use ")
    args = exported(show("damage_map", mapped), started)
    assert args["threshold_origin"] == f"audit:{check.id}"
    assert args["threshold"] == pytest.approx(field(app, "Threshold").value)
    assert args["threshold"] != pytest.approx(0.5)


def test_what_a_browser_holds_from_before_is_no_choice(three_runs: Layout) -> None:
    """It sends what all widgets hold with each act, also those that it has not drawn anew yet."""
    app = show("damage_map", three_runs)
    field(app, "Threshold").set_value(0.7)
    assert field(run_ahead(app), "Threshold").value == 0.7
    flagged = damage_map.of_run(three_runs, "ranker-3", 0.7).n["flagged"]
    field(app, "Flag the highest-ranked").set_value(flagged - 3)
    assert field(run_ahead(app), "Flag the highest-ranked").value == flagged - 3
    limit = field(app, "Threshold").value
    assert limit > 0.7
    found = damage_map.of_run(three_runs, "ranker-3", limit)
    click(three_runs, found.population.ids[found.classes.index("flagged")], label="not_damaged")  # by another analyst
    run_ahead(app)
    assert (field(app, "Threshold").value, field(app, "Flag the highest-ranked").value) == (limit, flagged - 4)
    chosen.choose_run(three_runs, "ranker-2")  # on another screen
    assert field(run_ahead(app), "Run").value == "ranker-2"


CLICKED = [row for row in np.flatnonzero(TRUTH).tolist() if row > 1][:25]


@pytest.fixture
def typed(tmp_path: Path) -> Layout:
    layout = typed_project(tmp_path)
    chosen.choose_run(layout, TYPED)
    chosen.choose_threshold(layout, TYPED, 0.3)
    return layout


def here(layout: Layout) -> damage_types.TypesOnMap:
    return damage_map.of_run(layout, TYPED).types


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
    assert here(typed).types[0].threshold == chosen.Threshold(0.4321, chosen.PERSON)
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
    chosen.choose_setting(typed, "map_color", "types")
    chosen.choose_run(typed, RUN)
    without = show("damage_map", typed)
    assert [tab.label for tab in without.tabs] == list(tabs(has_types=False))
    assert f"the tab Damage types: {run_names.name(typed, TYPED)}" in plain(without)


def test_the_map_gets_who_says_so_of_each_building(typed: Layout) -> None:
    name_types(typed, CLICKED)
    found = here(typed)
    for one in found.types:
        people, score = found.with_type(one)
        assert (len(people), len(score)) == (one.n_by_people, one.n_by_score)
        states = dict(zip(found.ids, one.states, strict=True))
        assert {states[building] for building in (*people, *score)} == {"yes"}


def test_before_an_export_the_types_are_counted_and_doubted(typed: Layout) -> None:
    name_types(typed, CLICKED)
    found = damage_map.of_run(typed, TYPED, 0.3)
    counts = [(one.name, one.states.count("yes")) for one in here(typed).types]
    assert counts[0][1] > 0
    assert any(f"with {', '.join(TYPES)} by score" in words for words in found.cannot_say)
    assert f"roof {counts[0][1]}" in plain(press(show("damage_map", typed), "export"))
