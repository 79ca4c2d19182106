"""Run and threshold that a person chose on one page stand on the others, in the next session, and in what is exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import field, plain, press, run_ahead, show, show_tab, shown_late, words
from mapped_parts import RUN, answer_audit, mapped_project
from small_parts import add_run, click
from streamlit.testing.v1 import AppTest

from pu_geo.project.layout import Layout, write_array
from pu_geo.services.damage_map import exporting
from pu_geo.services.project import choices
from pu_geo.ui.damage_map.texts import TAB_AREAS, TAB_AUDIT

pytestmark = pytest.mark.usefixtures("home")

N = 200
Started = list[tuple[str, dict[str, Any]]]


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
    app = show("explore", three_runs)
    assert field(app, "Run").value == "ranker-3"
    field(app, "Run").set_value("ranker-2").run()
    field(app, "Color by").set_value("size").run()
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


def test_as_many_are_flagged_as_a_person_wants_and_the_page_says_who_chose(three_runs: Layout) -> None:
    app = show("damage_map", three_runs)
    field(app, "Flag the highest-ranked").set_value(25).run()
    app = show("damage_map", three_runs)
    limit = field(app, "Threshold").value
    assert f"Threshold {limit:.4f}: chosen by a person." in plain(app)
    found = exporting.classes_now(three_runs, "ranker-3", limit)
    flagged = [building for building, kind in found.items() if kind == "flagged"]
    assert (len(flagged), field(app, "Flag the highest-ranked").value) == (25, 25)
    click(three_runs, flagged[0], label="not_damaged")
    assert "so 24 are flagged" in plain(app.run())


def test_what_a_browser_holds_from_before_is_no_choice(three_runs: Layout) -> None:
    """It sends what all widgets hold with each act, also those that it has not drawn anew yet."""
    app = show("damage_map", three_runs)
    field(app, "Threshold").set_value(0.7)
    assert field(run_ahead(app), "Threshold").value == 0.7
    flagged = exporting.summary(three_runs, "ranker-3", 0.7).n["flagged"]
    field(app, "Flag the highest-ranked").set_value(flagged - 3)
    assert field(run_ahead(app), "Flag the highest-ranked").value == flagged - 3
    limit = field(app, "Threshold").value
    assert limit > 0.7
    found = exporting.classes_now(three_runs, "ranker-3", limit)
    click(
        three_runs, next(each for each, kind in found.items() if kind == "flagged"), label="not_damaged"
    )  # by another analyst
    run_ahead(app)
    assert (field(app, "Threshold").value, field(app, "Flag the highest-ranked").value) == (limit, flagged - 4)
    choices.choose_run(three_runs, "ranker-2")  # on another screen
    assert field(run_ahead(app), "Run").value == "ranker-2"


def test_a_list_that_is_opened_later_shows_what_counts(three_runs: Layout) -> None:
    """A browser draws what is in it only then; it showed a threshold of 0 and the newest run, and sent both with the next act."""
    choices.choose_run(three_runs, "ranker-2")
    choices.choose_threshold(three_runs, "ranker-2", 0.7)
    app = show("damage_map", three_runs).run()
    assert shown_late(field(app, "Threshold")) == 0.7
    assert shown_late(field(app, "Flag the highest-ranked")) == field(app, "Flag the highest-ranked").value > 0
    assert shown_late(field(app, "Run")) == field(app, "Run").format_func("ranker-2")
