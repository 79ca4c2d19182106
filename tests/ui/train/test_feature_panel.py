"""The part of the Train screen that compares feature sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from app_parts import checked, press, show, show_panel, words
from comparison_parts import BETTER, set_project
from small_parts import add_chips, click, job_of
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.tasks.train.compare_features import compare_features


def opened(layout: Layout) -> AppTest:
    app = show_panel("train.feature_panel", layout)
    assert not app.multiselect
    return checked(app.toggle(key="compare-features").set_value(True).run())


def test_before_a_comparison_there_is_a_button_and_no_table(tmp_path: Path) -> None:
    app = opened(set_project(tmp_path, n_clicks=8))
    assert "No comparison yet" in words(app)
    assert not app.dataframe
    assert not app.button(key="compare-features-start").disabled


def test_too_few_own_clicks_are_refused_in_words(tmp_path: Path) -> None:
    layout = set_project(tmp_path, n_clicks=7)
    app = press(opened(layout), "compare-features-start")
    assert "Not enough clicks to compare" in app.error[0].value
    assert not jobs.all_jobs(layout)


def test_the_button_starts_a_job_of_the_chosen_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: started.append((task, args)))
    app = opened(set_project(tmp_path, n_clicks=8))
    checked(app.multiselect(key="compare-features-methods").set_value(["ranker"]).run())
    press(app, "compare-features-start")
    assert started == [("compare_features", {"methods": ["ranker"]})]


def test_the_pick_is_shown_and_chosen_only_by_its_button(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    compare_features(job_of(layout), methods=["ranker"])
    app = opened(layout)
    table = app.dataframe[0].value
    assert list(table["features"]) == [BETTER, "rcf"]
    assert "is better than rcf" in words(app).replace("\\", "")
    assert "In use: rcf" in words(app).replace("\\", "")
    assert features.overview(layout).in_use == "rcf"
    app = press(app, "compare-features-use")
    assert features.overview(layout).in_use == BETTER
    assert not [button for button in app.button if button.key == "compare-features-use"]
    click(layout, "b90")
    assert "There are 63 by now" in words(opened(layout))


def test_a_comparison_that_is_out_of_date_offers_nothing(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    compare_features(job_of(layout), methods=["ranker"])
    assert opened(layout).button(key="compare-features-use")
    click(layout, "b99", label="not_damaged")  # as many own clicks as before
    app = opened(layout)
    assert "There are new answers since: compare again." in words(app)
    assert not [button for button in app.button if button.key == "compare-features-use"]
    compare_features(job_of(layout), methods=["ranker"])
    features.remove(layout, BETTER, "ann")
    assert "Feature sets were made or removed since: compare again." in words(opened(layout))


def test_where_no_difference_was_found_nothing_is_to_be_chosen(tmp_path: Path) -> None:
    layout = set_project(tmp_path, shift=0.0)
    compare_features(job_of(layout), methods=["ranker"])
    app = opened(layout)
    assert "No difference seen, use either" in words(app)
    assert not [button for button in app.button if button.key == "compare-features-use"]


def test_a_worse_set_in_use_may_be_left_for_the_incumbent(tmp_path: Path) -> None:
    layout = set_project(tmp_path, shift=2.0)
    swapped = layout.features("set"), layout.features("set", BETTER)
    texts = [path.read_bytes() for path in swapped]
    for path, text in zip(swapped, reversed(texts), strict=True):
        path.write_bytes(text)
    features.choose(layout, BETTER)
    compare_features(job_of(layout), methods=["ranker"])
    found = comparison.last(layout)
    assert found is not None
    assert found.verdict.kind == "same"
    assert comparison.proposed(layout, found) == "rcf"
    press(opened(layout), "compare-features-use")
    assert features.overview(layout).in_use == "rcf"


def test_a_set_that_was_removed_since_is_not_proposed(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    compare_features(job_of(layout), methods=["ranker"])
    features.remove(layout, BETTER, "ann")
    app = opened(layout)
    assert len(app.dataframe[0].value) == 2
    assert not [button for button in app.button if button.key == "compare-features-use"]


def test_of_chips_that_were_cut_anew_it_proposes_nothing(tmp_path: Path) -> None:
    layout = set_project(tmp_path)
    compare_features(job_of(layout), methods=["ranker"])
    add_chips(layout, [f"b{i}" for i in range(100)], "newer", features=np.ones((1, 100, 2), np.float16))
    app = opened(layout)
    assert "Chips were cut anew since" in words(app)
    assert not [button for button in app.button if button.key == "compare-features-use"]


def test_the_page_has_it(tmp_path: Path) -> None:
    assert (
        show("train", set_project(tmp_path, n_clicks=8)).toggle(key="compare-features").label.startswith("Compare features")
    )
