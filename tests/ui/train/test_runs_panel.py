"""The part of the Train screen about finished runs: two side by side, averages, and the card of one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import small_parts
from app_parts import checked, plain, press, show_panel, shown_late, words
from mapped_parts import RUN, answer_audit
from model_parts import N, with_chips
from small_parts import add_chips, small_project
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project.layout import Layout, write_json
from pu_geo.services.project import choices
from pu_geo.services.train import results, run_names, training
from pu_geo.services.train.comparing import MapPoints
from pu_geo.ui.train import runs_panel


def add_run(layout: Layout, run_id: str, *, is_reversed: bool = False, method: str = "pucl") -> None:
    scores = np.linspace(0, 1, N, dtype=np.float32)[:: -1 if is_reversed else 1].copy()
    small_parts.add_run(layout, run_id, scores=scores, method=method, at_event=12, n_positive=6, n_unlabeled=14)


@pytest.fixture
def layout(project: Layout) -> Layout:
    made = with_chips(project)
    add_run(made, "first-1")
    add_run(made, "second-1", is_reversed=True, method="<script>|x")
    return made


def test_all_runs_are_in_a_table_under_names_that_can_be_changed(layout: Layout) -> None:
    app = show_panel("train.runs_panel", layout, "draw_results(layout, training.all_runs(layout))")
    table = app.dataframe[0].value
    names = run_names.names(layout)
    assert table["Run"].tolist() == list(names.values())
    assert table["Shown"].tolist() == ["✓ shown", ""]
    assert "second-1" not in plain(app).replace("commands keep the id second-1", "")
    field = next(each for each in app.text_input if each.label == "Name")
    field.set_value("my second").run()
    press(app, "rename-save-second-1")
    assert app.dataframe[0].value["Run"].tolist()[0] == "my second"
    assert run_names.name(layout, "second-1") == "my second"


def test_the_run_that_is_renamed_is_the_one_that_a_list_opened_now_shows(layout: Layout) -> None:
    app = show_panel("train.runs_panel", layout, "draw_results(layout, training.all_runs(layout))")
    choices.choose_run(layout, "first-1")
    app.run()
    box = next(each for each in app.selectbox if str(each.key).startswith("rename-run"))
    assert box.format_func(box.value) == shown_late(box) == run_names.name(layout, "first-1")
    next(each for each in app.text_input if each.label == "Name").set_value("my first").run()
    press(app, "rename-save-first-1")
    assert run_names.name(layout, "first-1") == "my first"


def test_a_run_of_an_imported_model_names_no_labels_of_this_project(layout: Layout) -> None:
    small_parts.add_run(layout, "third-1", like="first-1", from_model={"n_positive": 40})
    rows = {row.run_id: row.n_damaged for row in results.table(layout, training.all_runs(layout))}
    assert rows == {"first-1": 6, "second-1": 6, "third-1": None}
    app = show_panel("train.runs_panel", layout, "draw_results(layout, training.all_runs(layout))")
    assert app.dataframe[0].value["Labels"].isna().sum() == 1


def test_the_table_has_how_runs_are_judged_with_an_interval(layout: Layout) -> None:
    judged = {"n_held_out": 12, "recall": 1.0, "share_called": 0.3, "criterion": 3.3, "low": 2.0, "high": 3.4, "n_called": 4}
    small_parts.add_run(layout, "third-1", like="first-1", judgement=judged)
    small_parts.add_run(layout, "fourth-1", like="first-1", judgement={**judged, "n_held_out": 9})
    rows = {row.run_id: row for row in results.table(layout, training.all_runs(layout))}
    assert rows["third-1"].judged == "100 % (75–100) of 12, 4 flagged"
    assert rows["fourth-1"].judged == "not enough: 9 of 10 clicks"
    assert rows["first-1"].judged == results.NOT_JUDGED
    assert {row.audited for row in rows.values()} == {results.NOT_AUDITED}


def test_an_audited_run_has_its_figures_in_the_table(mapped: Layout) -> None:
    answer_audit(mapped, 200)
    (row,) = results.table(mapped, training.all_runs(mapped))
    assert re.fullmatch(r"precision [\d.]+ % \(\d+–\d+\), recall [\d.]+ % \(\d+–\d+\)", row.audited)


def shown(layout: Layout, *, is_open: bool = True) -> AppTest:
    app = show_panel("train.runs_panel", layout, "draw_comparison(layout, training.all_runs(layout))")
    return checked(app.toggle(key="compare-runs").set_value(True).run()) if is_open and len(app.toggle) else app


def test_one_run_alone_is_not_compared(project: Layout) -> None:
    add_run(with_chips(project), "first-1")
    app = shown(project)
    assert not app.toggle


def test_nothing_is_worked_out_until_it_is_opened(layout: Layout) -> None:
    app = shown(layout, is_open=False)
    assert not app.selectbox
    assert not app.markdown


def test_two_runs_stand_side_by_side(layout: Layout) -> None:
    app = shown(layout)
    assert not app.error
    said = words(app)
    assert "opposite orders" in said
    assert "| PU criterion | not enough to judge | not enough to judge |" in said
    assert "0 clicks that neither run learned from" in said
    assert "PUCL" in said
    assert "<script>" not in said  # a method of another's run file is shown as it is, not as a tag
    assert "A high, B low" in said


def test_the_newest_run_comes_first_and_the_one_that_is_shown_second(layout: Layout) -> None:
    choices.choose_run(layout, "first-1")
    add_run(layout, "third-1")
    app = shown(layout)
    assert app.selectbox(key="compare-A").value == "third-1"
    assert app.selectbox(key="compare-B").value == "first-1"
    assert app.button(key="pin-B").disabled


def test_a_run_can_be_put_on_the_live_map(layout: Layout) -> None:
    choices.choose_run(layout, "first-1")
    app = shown(layout)
    press(app, "pin-A")
    assert training.pinned_run(layout) == "second-1"


def test_the_same_run_twice_is_refused_in_words(layout: Layout) -> None:
    app = shown(layout)
    app.selectbox(key="compare-B").set_value(app.selectbox(key="compare-A").value).run()
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
    shown(layout)
    both = [reports, [{**one, "stage": "warm-up"} for one in reports]]  # a warm-up is no training
    assert [list(trace.y) for trace in runs_panel.curves(both).data] == [[1.0, 0.5, 0.25]], "there is no audit"
    figure = runs_panel.curves(both, has_called=True)
    assert [list(trace.y) for trace in figure.data] == [[1.0, 0.5, 0.25], [0.1, 0.2, 0.4]]
    assert list(figure.data[0].x) == [0.25, 0.5, 1.0]
    assert runs_panel.curves([[], reports[:1]]) is None


def test_curves_without_shares_have_one_picture() -> None:
    reports = [{"epoch": i, "loss": -2.0 * i} for i in (1, 2)]
    figure = runs_panel.curves([reports, []])
    assert [list(trace.y) for trace in figure.data] == [[-1.0, -2.0]]


def test_the_map_has_y_down_equal_axes_and_a_scale_around_nought() -> None:
    values = np.array([0.0, -0.25, 0.5], np.float32)
    figure = runs_panel.map_of(MapPoints(values, values, values, 0.5))
    (dots,) = figure.data
    assert figure.layout.yaxis.autorange == "reversed"
    assert figure.layout.yaxis.scaleanchor == "x"
    assert (dots.marker.cmin, dots.marker.cmax) == (-0.5, 0.5)


def test_runs_of_a_project_without_common_buildings_do_not_break_the_page(tmp_path: Path, layout: Layout) -> None:
    other = small_project(tmp_path / "other.pugeo", 4)
    add_chips(layout, ["x0", "x1"], "newer")
    small_parts.add_run(layout, "newer-1", scores=np.array([0.1, 0.2]), ids=["x0", "x1"], chip_set="newer")
    app = shown(layout)
    assert "0 assessable buildings in common" in app.error[0].value
    shown(other)


def show_card(layout: Layout) -> AppTest:
    return show_panel("train.runs_panel", layout, "draw_card(layout, training.all_runs(layout))")


def test_nothing_is_drawn_before_there_are_runs(project: Layout) -> None:
    app = show_card(project)
    assert not app.expander


def test_the_card_is_read_only_once_it_is_asked_for(mapped: Layout) -> None:
    app = show_card(mapped)
    assert not app.selectbox
    app.toggle(key="run-card-open").set_value(True).run()
    (option,) = app.selectbox(key="run-card-run").options
    assert option == run_names.name(mapped, RUN)
    assert "##### Judgement without negatives" in app.markdown[0].value
    labels = [button.proto.label for button in app.get("download_button")]
    assert labels == ["Download HTML", "Download Markdown", "Download JSON"]


def test_a_run_whose_files_are_gone_is_told_of(mapped: Layout) -> None:
    app = show_card(mapped)
    for path in mapped.run(RUN).iterdir():
        path.unlink()
    app.toggle(key="run-card-open").set_value(True).run()
    assert "has lost its file" in app.error[0].value
