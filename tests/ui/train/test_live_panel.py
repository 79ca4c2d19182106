"""What a training's card shows while it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from app_parts import show_panel, words
from small_parts import unheld_job
from streamlit.testing.v1 import AppTest

from pu_geo.project import events
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import auditing

ALARM = {"name": "calls_all", "seen": "97% score *0.5*", "meaning": "it may call all", "advice": "Look at [them](http://x)."}
HELD = {"n_held_out": 15, "recall": 0.8, "criterion": 1.6, "criterion_low": 0.9, "criterion_high": 2.2}


def job_with(layout: Layout, *reports: dict[str, Any], done: bool = False, args: dict[str, Any] | None = None) -> Path:
    folder = unheld_job(layout, "train", {"method": "ncpu", "preset": "quick", **(args or {})})
    events.append(folder, "launched")
    (folder / "looks").mkdir()
    for report in reports:
        events.append(folder, "epoch", {"stage": "training", "epochs": 20, "loss": 1.0, **report})
        if "look" in report:
            cv2.imwrite(str(folder / "looks" / Path(report["look"]).name), np.full((30, 60, 3), report["epoch"], np.uint8))
    if done:
        events.append(folder, "done", {"result": {"run_id": "ncpu-1", "n_positive": 45, "seconds": 1.5}})
    return folder


def shown(layout: Layout, folder: Path) -> AppTest:
    return show_panel("train.live_panel", layout, f"body(layout, jobs.view(jobs.folder_of(layout, {folder.name!r})))")


def figures(app: AppTest) -> dict[str, Any]:
    """Every figure by its title."""
    found = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return {figure["layout"]["title"]["text"]: figure for figure in found}


def lines(figure: Any) -> dict[str, Any]:
    return {trace["name"]: trace for trace in figure["data"] if "name" in trace}


def test_nothing_is_drawn_of_what_was_not_reported(project: Layout) -> None:
    assert not shown(project, job_with(project)).caption
    app = shown(project, job_with(project, {"epoch": 1}, {"epoch": 2}, done=True, args={"hold_out": 9}))
    assert list(figures(app)) == ["Loss"]
    assert not app.get("image")
    assert "Run ncpu\\-1 · 45 damaged labels · 9 held-out clicks · 2 s" in words(app)


def test_each_kind_of_signal_has_its_figure(project: Layout) -> None:
    reports = [
        {
            "epoch": n, "loss_cls": 0.5, "entropy": 0.1, "threshold": 0.5, "share_positive": 0.4, "chips_per_s": 900.0,
            "memory_mb": 700, "look": f"training-{n:04d}.png", "share_called": 0.5, **HELD,
        }
        for n in (1, 2, 3)
    ]  # fmt: skip
    app = shown(project, job_with(project, *reports))
    assert set(figures(app)) == {"Loss", "Threshold", "Held-out clicks"}, "nothing is called damaged before an audit"
    app.toggle[0].set_value(True).run()
    found = figures(app)
    assert set(found) == {"Loss", "Threshold", "Held-out clicks", "Loss terms", "Speed and memory"}
    assert {title: list(lines(figure)) for title, figure in found.items() if title != "Held-out clicks"} == {
        "Loss": ["loss"], "Threshold": ["threshold"], "Loss terms": ["cls", "entropy"],
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
    assert set(figures(shown(project, folder))) == {"Loss"}
    of = auditing.how_many(project)
    monkeypatch.setattr(auditing, "how_many", lambda layout: replace(of, basis="audit"))
    found = figures(shown(project, folder))["Shares"]
    assert list(lines(found)) == ["called damaged, in batches", "called damaged, all"]


def test_the_newest_look_is_shown_older_ones_can_be_gone_back_to_and_none_is_from_elsewhere(project: Layout) -> None:
    app = shown(project, job_with(project, *({"epoch": n, "look": f"training-{n:04d}.png"} for n in (4, 8, 12))))
    assert "after epoch 12 of 20" in words(app)
    assert app.get("image")
    (slider,) = app.select_slider
    assert slider.options == ["4", "8", "12"]
    slider.set_value(0).run()
    assert "after epoch 4 of 20" in words(app)
    folder = job_with(project, {"epoch": 1}, {"epoch": 3, "look": "../secret.png"})
    (folder / "looks" / "secret.png").rename(folder / "secret.png")
    assert not shown(project, folder).get("image")


def test_alarms_of_the_newest_look_are_told_until_the_run_tells_them(project: Layout) -> None:
    early = {"epoch": 3, "look": "training-0003.png", "alarms": [{**ALARM, "seen": "old"}]}
    late = {"epoch": 6, "look": "training-0006.png", "alarms": [ALARM], "n_held_out": 4, "recall": 0.5}
    app = shown(project, job_with(project, early, late))
    (warning,) = app.warning
    assert "After epoch 6" in warning.value
    assert r"\*0.5\*" in warning.value
    assert "](http://x)" not in warning.value
    assert "4 held-out clicks: not enough to judge by" in words(app)
    assert not shown(project, job_with(project, early, {**late, "alarms": []})).warning
    assert not shown(project, job_with(project, late, done=True)).warning


def test_stages_are_shown_one_at_a_time(project: Layout) -> None:
    before = [{"stage": "pretraining", "epoch": n, "loss": 9.0} for n in (1, 2, 3)]
    app = shown(project, job_with(project, *before, {"epoch": 1}, {"epoch": 2}))
    assert lines(figures(app)["Loss"])["loss"]["x"] == [1, 2]
    app.segmented_control[0].set_value("pretraining").run()
    assert lines(figures(app)["Loss"])["loss"]["x"] == [1, 2, 3]
