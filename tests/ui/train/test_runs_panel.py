"""Runs on the Train screen: two side by side, the card of one, and what is shown while one trains."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import small_parts
from app_parts import plain, press, show, show_panel, shown_late, words
from mapped_parts import RUN
from model_parts import N, with_chips
from small_parts import logged_job
from streamlit.testing.v1 import AppTest

from pu_geo.assessment import auditing
from pu_geo.runs.comparing import MapPoints
from pu_geo.store import chosen, events, run_names
from pu_geo.store.layout import Layout, write_json
from pu_geo.ui.train import runs_panel, texts


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
    chosen.choose_run(layout, "first-1")
    app.run()
    box = next(each for each in app.selectbox if str(each.key).startswith("rename-run"))
    assert box.format_func(box.value) == shown_late(box) == run_names.name(layout, "first-1")
    next(each for each in app.text_input if each.label == "Name").set_value("my first").run()
    press(app, "rename-save-first-1")
    assert app.dataframe[0].value["Run"].tolist()[1] == run_names.name(layout, "first-1") == "my first"


def shown(layout: Layout) -> AppTest:
    return show_panel("train.runs_panel", layout, "draw_comparison(layout, training.all_runs(layout))")


def test_two_runs_stand_side_by_side(layout: Layout) -> None:
    chosen.choose_run(layout, "first-1")
    app = shown(layout)
    assert not app.error
    assert [app.selectbox(key=f"compare-{name}").value for name in "AB"] == ["second-1", "first-1"]
    assert "opposite orders" in words(app)
    assert "| PU criterion | not enough to judge | not enough to judge |" in words(app)
    assert "<script>" not in words(app)  # a method of another's run file is shown as it is, not as a tag
    app.selectbox(key="compare-B").set_value("second-1").run()
    assert "was named twice" in app.error[0].value


def test_curves_of_both_are_in_one_figure(layout: Layout) -> None:
    reports = [{"stage": "training", "epoch": i, "epochs": 4, "loss": 8.0 / i, "share_positive": 0.1 * i} for i in (1, 2, 4)]
    for run_id in ("first-1", "second-1"):
        write_json(layout.run(run_id) / "curve.json", reports)
    assert len(shown(layout).get("plotly_chart")) == 2
    both = [reports, [{**one, "stage": "warm-up"} for one in reports]]  # a warm-up is no training

    def drawn(*given: Any, **wanted: bool) -> list[list[float]]:
        return [list(trace.y) for figure in runs_panel.curves(*given, **wanted) for trace in figure.data]

    assert drawn(both) == [[1.0, 0.5, 0.25]], "there is no audit"
    assert drawn(both, has_called=True) == [[1.0, 0.5, 0.25], [0.1, 0.2, 0.4]]
    assert list(runs_panel.curves(both)[0].data[0].x) == [0.25, 0.5, 1.0]
    assert runs_panel.curves([[], reports[:1]]) == []
    assert drawn([[{"epoch": i, "loss": -2.0 * i} for i in (1, 2)], []]) == [[-1.0, -2.0]]


def test_the_map_has_y_down_equal_axes_and_a_scale_around_nought() -> None:
    values = np.array([0.0, -0.25, 0.5], np.float32)
    figure = runs_panel.map_of(MapPoints(values, values, values, 0.5))
    (dots,) = figure.data
    assert (figure.layout.yaxis.autorange, figure.layout.yaxis.scaleanchor) == ("reversed", "x")
    assert (dots.marker.cmin, dots.marker.cmax) == (-0.5, 0.5)


def test_the_card_is_read_and_can_be_downloaded(mapped: Layout) -> None:
    app = show("research", mapped, **{"research-tab": texts.CARD})
    assert app.selectbox(key="run-card-run").options == [run_names.name(mapped, RUN)]
    assert "##### Judgement without negatives" in words(app)
    labels = [button.proto.label for button in app.get("download_button")]
    assert labels == ["Download HTML", "Download Markdown", "Download JSON"]
    for path in mapped.run(RUN).iterdir():
        path.unlink()
    assert "has lost its file" in app.run().error[0].value


ALARM = {"name": "calls_all", "seen": "97% score *0.5*", "meaning": "it may call all", "advice": "Look at [them](http://x)."}
HELD = {"n_held_out": 15, "recall": 0.8, "criterion": 1.6, "criterion_low": 0.9, "criterion_high": 2.2}


def job_with(layout: Layout, *reports: dict[str, Any], done: bool = False) -> Path:
    folder = logged_job(layout, "train", method="ncpu", preset="quick")
    (folder / "looks").mkdir()
    for report in reports:
        events.append(folder, "epoch", {"stage": "training", "epochs": 20, "loss": 1.0, **report})
        if "look" in report:
            cv2.imwrite(str(folder / "looks" / Path(report["look"]).name), np.full((30, 60, 3), report["epoch"], np.uint8))
    if done:
        events.append(folder, "done", {"result": {"run_id": "ncpu-1", "n_positive": 45, "seconds": 1.5}})
    return folder


def live(layout: Layout, folder: Path) -> AppTest:
    return show_panel("train.live_panel", layout, f"body(layout, jobs.view(jobs.folder_of(layout, {folder.name!r})))")


def figures(app: AppTest) -> dict[str, Any]:
    """Every figure by its title."""
    found = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return {figure["layout"]["title"]["text"]: figure for figure in found}


def lines(figure: Any) -> dict[str, Any]:
    return {trace["name"]: trace for trace in figure["data"] if "name" in trace}


def test_each_kind_of_signal_has_its_figure(project: Layout) -> None:
    reports = [
        {
            "epoch": n, "loss_cls": 0.5, "entropy": 0.1, "threshold": 0.5, "share_positive": 0.4, "chips_per_s": 900.0,
            "memory_mb": 700, "look": f"training-{n:04d}.png", "share_called": 0.5, **HELD,
        }
        for n in (1, 2, 3)
    ]  # fmt: skip
    app = live(project, job_with(project, *reports))
    assert set(figures(app)) == {"Loss", "Threshold and shares", "Held-out clicks"}, (
        "nothing is called damaged before an audit"
    )
    app.toggle[0].set_value(True).run()
    found = figures(app)
    assert set(found) == {"Loss", "Threshold and shares", "Held-out clicks", "Loss terms", "Speed and memory"}
    assert {title: list(lines(figure)) for title, figure in found.items() if title != "Held-out clicks"} == {
        "Loss": ["loss"], "Threshold and shares": ["threshold"], "Loss terms": ["cls", "entropy"],
        "Speed and memory": ["chips per second", "memory, MB (right)"],
    }  # fmt: skip
    assert {"PU criterion", "recall (right)"} <= set(lines(found["Held-out clicks"]))
    assert lines(found["Speed and memory"])["memory, MB (right)"]["yaxis"] == "y2"
    for figure in found.values():
        drawn = [trace["line"] for trace in lines(figure).values()]
        assert len({line["dash"] for line in drawn}) == len(drawn), "lines differ by color alone"
        assert figure["layout"]["xaxis"]["range"] == [0, 20]


def test_shares_called_damaged_come_with_an_audit(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = job_with(project, *({"epoch": n, "share_positive": 0.4, "share_called": 0.3} for n in (1, 2)))
    assert set(figures(live(project, folder))) == {"Loss"}
    of = auditing.how_many(project)
    monkeypatch.setattr(auditing, "how_many", lambda layout: replace(of, basis="audit"))
    found = figures(live(project, folder))["Threshold and shares"]
    assert list(lines(found)) == ["called damaged, in batches", "called damaged, all"]


def test_the_newest_look_is_shown_older_ones_can_be_gone_back_to_and_none_is_from_elsewhere(project: Layout) -> None:
    app = live(project, job_with(project, *({"epoch": n, "look": f"training-{n:04d}.png"} for n in (4, 8, 12))))
    assert "after epoch 12 of 20" in words(app)
    assert app.get("image")
    (slider,) = app.select_slider
    assert slider.options == ["4", "8", "12"]
    slider.set_value(0).run()
    assert "after epoch 4 of 20" in words(app)
    folder = job_with(project, {"epoch": 1}, {"epoch": 3, "look": "../secret.png"})
    (folder / "looks" / "secret.png").rename(folder / "secret.png")
    assert not live(project, folder).get("image")


def test_alarms_of_the_newest_look_are_told_until_the_run_tells_them(project: Layout) -> None:
    early = {"epoch": 3, "look": "training-0003.png", "alarms": [{**ALARM, "seen": "old"}]}
    late = {"epoch": 6, "look": "training-0006.png", "alarms": [ALARM], "n_held_out": 4, "recall": 0.5}
    app = live(project, job_with(project, early, late))
    (warning,) = app.warning
    assert "After epoch 6" in warning.value
    assert r"\*0.5\*" in warning.value
    assert "](http://x)" not in warning.value
    assert "4 held-out clicks: not enough to judge by" in words(app)
    assert not live(project, job_with(project, early, {**late, "alarms": []})).warning
    assert not live(project, job_with(project, late, done=True)).warning


def test_stages_are_shown_one_at_a_time(project: Layout) -> None:
    before = [{"stage": "pretraining", "epoch": n, "loss": 9.0} for n in (1, 2, 3)]
    app = live(project, job_with(project, *before, {"epoch": 1}, {"epoch": 2}))
    assert lines(figures(app)["Loss"])["loss"]["x"] == [1, 2]
    app.segmented_control[0].set_value("pretraining").run()
    assert lines(figures(app)["Loss"])["loss"]["x"] == [1, 2, 3]
