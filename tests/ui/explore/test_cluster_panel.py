"""The PUPL inspector on the Explore page: what it says of the clusters, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_parts import key_like, press, show_panel, words
from clustered_parts import RUN, explored_project
from small_parts import click
from streamlit.testing.v1 import AppTest

from pu_geo.project.layout import Layout
from pu_geo.services.explore import clusters


def shown(layout: Layout) -> AppTest:
    kind = {"cluster-kind": "Two means (PUPL)"}
    return show_panel("explore.cluster_panel", layout, f"draw(layout, {RUN!r})", **kind)


def test_kept_positives_are_those_that_two_means_were_told_of(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    assert "kept all 8 damaged buildings of its input" in (told := words(shown(layout)))
    assert "came later" not in told
    click(layout, "b1")
    told = words(shown(layout))
    assert "kept all 8 damaged buildings" in told
    assert "1 came later" in told


def test_undo_takes_back_what_the_page_showed(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    found = clusters.inspect(layout, RUN, "two")
    clusters.accept(layout, RUN, found, "positives", analyst="ann")
    app = shown(layout)
    clusters.accept(layout, RUN, found, "other", analyst="bob")
    press(app, key_like(app, "cluster-undo"))
    (left,) = clusters.history(layout)
    assert "cluster other accepted" in left.words
    stale = shown(layout)
    clusters.undo(layout, left.decision, analyst="bob")
    press(stale, key_like(stale, "cluster-undo"))
    assert "stands no more" in words(stale)


def test_merge_takes_the_cluster_that_is_chosen_at_the_click(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A click that comes with a new choice was merged with the choice before."""
    layout = explored_project(tmp_path)
    merged = []
    monkeypatch.setattr(
        clusters, "merge", lambda _layout, _run, _found, name, other, *, analyst: merged.append((name, other))
    )
    app = shown(layout)
    choice = next(one for one in app.selectbox if one.label == "Merge with")
    (only,) = choice.options
    choice.set_value(only).run()
    next(one for one in app.selectbox if one.label == "Merge with").set_value(None)  # no rerun before the click
    press(app, "Merge")
    assert merged == []
    next(one for one in app.selectbox if one.label == "Merge with").set_value(only).run()
    press(app, "Merge")
    assert merged == [("positives", only)]
