"""Run and threshold that a person chose on one page stand on the others, in the next session, and in what is exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mapped_parts import RUN, answer_audit, mapped_project
from small_parts import REPOSITORY
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project import runs, store
from pu_geo.project.layout import Layout, write_array
from pu_geo.services.damage_map import random_audits

N = 200


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A project with an older run, RUN, and a newer one, which is on the live map."""
    monkeypatch.setattr(random_audits, "_seed", lambda: 1)
    layout, _ = mapped_project(tmp_path, N)
    write_array(layout.features("set"), np.random.default_rng(0).normal(size=(2, N, 8)).astype(np.float16))
    with store.connect(layout) as db:
        facts = replace(runs.find(db, RUN), run_id="ranker-2", created_at="2026-03-01T00:00:00.000Z", threshold=0.1)
        draw = np.random.default_rng(3)
        for run in (facts, replace(facts, run_id="ranker-3", created_at="2026-03-02T00:00:00.000Z")):
            scores, embeddings = draw.random(N).astype(np.float32), draw.normal(size=(N, 4)).astype(np.float32)
            runs.finish(db, layout, run, ids=[f"b{i}" for i in range(N)], scores=scores, arrays={"embeddings": embeddings})
    return layout


def show(page: str, layout: Layout) -> AppTest:
    """Open a page in a session of its own."""
    app = AppTest.from_file(REPOSITORY / "pages" / f"{page}.py", default_timeout=20)
    app.session_state["project"] = str(layout.folder)
    app.run()
    assert not app.exception
    return app


def box(app: AppTest, label: str) -> Any:
    return next(
        field for field in (*app.selectbox, *app.slider, *app.number_input, *app.multiselect) if field.label == label
    )


def press(app: AppTest, label: str) -> AppTest:
    return next(button for button in app.button if button.label.startswith(label)).click().run()


def exported(layout: Layout, monkeypatch: pytest.MonkeyPatch, app: AppTest) -> dict[str, object]:
    """Press the export's button; return what its job was given."""
    started: list[dict[str, object]] = []
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: started.append(args) or "job")
    press(app, "Export the next version")
    assert not app.exception
    return started[0]


def test_run_and_threshold_stand_on_other_pages_and_in_the_next_session(
    mapped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = show("damage_map", mapped)
    assert box(app, "Run").value == "ranker-3"
    box(app, "Run").set_value("ranker-2").run()
    assert box(app, "Threshold").value == pytest.approx(0.1)
    box(app, "Threshold").set_value(0.3).run()
    assert (box(app, "Run").value, box(app, "Threshold").value) == ("ranker-2", 0.3)
    assert box(show("explore", mapped), "Run").value == "ranker-2"
    show("annotate", mapped)
    app = show("damage_map", mapped)
    assert (box(app, "Run").value, box(app, "Threshold").value) == ("ranker-2", 0.3)
    args = exported(mapped, monkeypatch, app)
    assert (args["run_id"], args["threshold"], args["threshold_origin"]) == ("ranker-2", 0.3, "person")


def test_each_run_keeps_its_own_threshold(mapped: Layout) -> None:
    app = show("damage_map", mapped)
    box(app, "Threshold").set_value(0.7).run()
    box(app, "Run").set_value("ranker-2").run()
    assert box(app, "Threshold").value == pytest.approx(0.1)
    box(app, "Run").set_value("ranker-3").run()
    assert box(app, "Threshold").value == pytest.approx(0.7)


def test_a_run_chosen_on_explore_is_the_one_on_the_map(mapped: Layout) -> None:
    app = show("explore", mapped)
    box(app, "Run").set_value("ranker-2").run()
    box(app, "Color by").set_value("size").run()
    assert not app.exception
    app = show("damage_map", mapped)
    assert box(app, "Run").value == "ranker-2"
    assert "This run is chosen by a person." in "\n".join(str(part.value) for part in app.caption)
    press(app, "Choose automatically")
    assert box(app, "Run").value == "ranker-3"
    assert box(show("explore", mapped), "Color by").value == "size"


def test_area_size_formats_and_classes_stay(mapped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    app = show("damage_map", mapped)
    box(app, "Side of square cells, m").set_value(250).run()
    box(app, "Formats").set_value(["csv"]).run()
    box(app, "Classes of other services").set_value(["unosat"]).run()
    app = show("damage_map", mapped)
    assert box(app, "Side of square cells, m").value == 250
    args = exported(mapped, monkeypatch, app)
    assert (args["formats"], args["profiles"]) == (["csv"], ["unosat"])


@pytest.mark.slow
def test_a_threshold_that_an_audit_gave_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_audits, "_seed", lambda: 1)
    layout, truth = mapped_project(tmp_path)
    check = answer_audit(layout, truth, 200)
    app = show("damage_map", layout)
    press(app, "Use ")
    assert not app.exception
    args = exported(layout, monkeypatch, show("damage_map", layout))
    assert args["threshold_origin"] == f"audit:{check.id}"
    assert args["threshold"] == pytest.approx(box(app, "Threshold").value)
    assert args["threshold"] != pytest.approx(0.5)
