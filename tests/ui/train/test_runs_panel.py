"""The part of the Train screen about finished runs: two side by side, averages, and the card of one."""

from __future__ import annotations

import numpy as np
import pytest
import small_parts
from app_parts import checked, plain, press, show_panel, shown_late, words
from mapped_parts import RUN
from model_parts import N, with_chips
from small_parts import add_chips
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project.layout import Layout, write_json
from pu_geo.services.project import choices
from pu_geo.services.train import run_names, training
from pu_geo.services.train.comparing import MapPoints
from pu_geo.ui.train import runs_panel


def add_run(layout: Layout, run_id: str, *, is_reversed: bool = False, method: str = "pucl", **facts: object) -> None:
    scores = np.linspace(0, 1, N, dtype=np.float32)[:: -1 if is_reversed else 1].copy()
    small_parts.add_run(layout, run_id, scores=scores, method=method, at_event=12, n_positive=6, n_unlabeled=14, **facts)


@pytest.fixture
def layout(project: Layout) -> Layout:
    made = with_chips(project)
    add_run(made, "first-1")
    add_run(made, "second-1", is_reversed=True, method="<script>|x")
    return made


def show_results(layout: Layout) -> AppTest:
    return show_panel("train.runs_panel", layout, "draw_results(layout, training.all_runs(layout))")


def test_all_runs_are_in_a_table_under_names_that_can_be_changed(layout: Layout) -> None:
    app = show_results(layout)
    table = app.dataframe[0].value
    assert table["Run"].tolist() == list(run_names.names(layout).values())
    assert table["Shown"].tolist() == ["✓ shown", ""]
    assert "second-1" not in plain(app).replace("commands keep the id second-1", "")
    choices.choose_run(layout, "first-1")
    app.run()
    box = next(each for each in app.selectbox if str(each.key).startswith("rename-run"))
    assert box.format_func(box.value) == shown_late(box) == run_names.name(layout, "first-1")
    next(each for each in app.text_input if each.label == "Name").set_value("my first").run()
    press(app, "rename-save-first-1")
    assert app.dataframe[0].value["Run"].tolist()[1] == run_names.name(layout, "first-1") == "my first"


def test_the_first_warnings_of_a_run_are_shown_and_the_others_counted(layout: Layout) -> None:
    add_run(layout, "third-1", warnings=tuple(f"*warning* {number}" for number in range(7)))
    said = plain(show_results(layout))
    assert [f"*warning* {number}" in said for number in range(7)] == [True] * 5 + [False] * 2
    assert "2 more warnings" in said


def shown(layout: Layout) -> AppTest:
    app = show_panel("train.runs_panel", layout, "draw_comparison(layout, training.all_runs(layout))")
    assert not app.selectbox, "nothing is worked out until it is opened"
    return checked(app.toggle(key="compare-runs").set_value(True).run()) if len(app.toggle) else app


def test_one_run_alone_is_not_compared(project: Layout) -> None:
    add_run(with_chips(project), "first-1")
    assert not shown(project).toggle


def test_two_runs_stand_side_by_side_and_either_can_be_shown(layout: Layout) -> None:
    choices.choose_run(layout, "first-1")
    app = shown(layout)
    assert not app.error
    assert [app.selectbox(key=f"compare-{name}").value for name in "AB"] == ["second-1", "first-1"]
    assert "opposite orders" in words(app)
    assert "| PU criterion | not enough to judge | not enough to judge |" in words(app)
    assert "<script>" not in words(app)  # a method of another's run file is shown as it is, not as a tag
    assert app.button(key="pin-B").disabled
    press(app, "pin-A")
    assert training.pinned_run(layout) == "second-1"
    app.selectbox(key="compare-B").set_value("second-1").run()
    assert "was named twice" in app.error[0].value


def test_an_average_starts_a_job_of_the_chosen_runs(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(jobs, "start", lambda *job: started.append(job[1:]))
    app = shown(layout)
    assert not app.button(key="average").disabled  # the two newest are chosen at first
    assert app.multiselect(key="average-runs").set_value(["first-1"]).run().button(key="average").disabled
    app.multiselect(key="average-runs").set_value(["second-1", "first-1"]).run()
    press(app, "average")
    assert started == [("ensemble", {"run_ids": ["second-1", "first-1"]})]


def test_curves_of_both_are_in_one_figure(layout: Layout) -> None:
    reports = [{"stage": "training", "epoch": i, "epochs": 4, "loss": 8.0 / i, "share_positive": 0.1 * i} for i in (1, 2, 4)]
    for run_id in ("first-1", "second-1"):
        write_json(layout.run(run_id) / "curve.json", reports)
    assert len(shown(layout).get("plotly_chart")) == 2
    both = [reports, [{**one, "stage": "warm-up"} for one in reports]]  # a warm-up is no training
    assert [list(trace.y) for trace in runs_panel.curves(both).data] == [[1.0, 0.5, 0.25]], "there is no audit"
    figure = runs_panel.curves(both, has_called=True)
    assert [list(trace.y) for trace in figure.data] == [[1.0, 0.5, 0.25], [0.1, 0.2, 0.4]]
    assert list(figure.data[0].x) == [0.25, 0.5, 1.0]
    assert runs_panel.curves([[], reports[:1]]) is None
    below = runs_panel.curves([[{"epoch": i, "loss": -2.0 * i} for i in (1, 2)], []])
    assert [list(trace.y) for trace in below.data] == [[-1.0, -2.0]]


def test_the_map_has_y_down_equal_axes_and_a_scale_around_nought() -> None:
    values = np.array([0.0, -0.25, 0.5], np.float32)
    figure = runs_panel.map_of(MapPoints(values, values, values, 0.5))
    (dots,) = figure.data
    assert (figure.layout.yaxis.autorange, figure.layout.yaxis.scaleanchor) == ("reversed", "x")
    assert (dots.marker.cmin, dots.marker.cmax) == (-0.5, 0.5)


def test_runs_without_common_buildings_do_not_break_the_page(layout: Layout) -> None:
    add_chips(layout, ["x0", "x1"], "newer")
    small_parts.add_run(layout, "newer-1", scores=np.array([0.1, 0.2]), ids=["x0", "x1"], chip_set="newer")
    assert "0 assessable buildings in common" in shown(layout).error[0].value


def test_the_card_is_read_only_once_it_is_asked_for(mapped: Layout) -> None:
    app = show_panel("train.runs_panel", mapped, "draw_card(layout, training.all_runs(layout))")
    assert not app.selectbox
    app.toggle(key="run-card-open").set_value(True).run()
    assert app.selectbox(key="run-card-run").options == [run_names.name(mapped, RUN)]
    assert "##### Judgement without negatives" in app.markdown[0].value
    labels = [button.proto.label for button in app.get("download_button")]
    assert labels == ["Download HTML", "Download Markdown", "Download JSON"]
    for path in mapped.run(RUN).iterdir():
        path.unlink()
    assert "has lost its file" in app.run().error[0].value
