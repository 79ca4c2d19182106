"""The part of the Train screen that compares feature sets."""

from __future__ import annotations

from pathlib import Path

from app_parts import checked, press, show_panel, words
from comparison_parts import BETTER, set_project
from small_parts import click, job_of
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features
from pu_geo.tasks.train.compare_features import compare_features


def opened(layout: Layout) -> AppTest:
    app = show_panel("train.feature_panel", layout)
    assert not app.multiselect
    return checked(app.toggle(key="compare-features").set_value(True).run())


def test_before_a_comparison_there_is_a_button_that_may_refuse(tmp_path: Path) -> None:
    layout = set_project(tmp_path, n_clicks=7)
    app = opened(layout)
    assert "No comparison yet" in words(app)
    assert not app.dataframe
    app = press(app, "compare-features-start")
    assert "Not enough clicks to compare" in app.error[0].value
    assert not jobs.all_jobs(layout)
    assert app.multiselect(key="compare-features-methods").set_value([]).run().button(key="compare-features-start").disabled


def test_the_pick_is_shown_and_chosen_only_by_its_button(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    compare_features(job_of(layout), methods=["ranker"])
    app = opened(layout)
    assert list(app.dataframe[0].value["features"]) == [BETTER, "rcf"]
    assert "is better than rcf" in words(app).replace("\\", "")
    assert features.overview(layout).in_use == "rcf"
    app = press(app, "compare-features-use")
    assert "In use: resnet18" in words(app).replace("\\", "")
    assert features.overview(layout).in_use == BETTER
    assert not [button for button in app.button if button.key == "compare-features-use"]
    click(layout, "b90")
    assert "There are 63 by now" in words(opened(layout))
