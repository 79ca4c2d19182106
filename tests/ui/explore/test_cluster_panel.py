"""The PUPL inspector on the Explore page: what it says of the clusters, and the way back."""

from __future__ import annotations

from pathlib import Path

from app_parts import press, show_panel, words
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
    press(app, "cluster-undo")
    (left,) = clusters.history(layout)
    assert "cluster other accepted" in left.words
    stale = shown(layout)
    clusters.undo(layout, left.decision, analyst="bob")
    press(stale, "cluster-undo")
    assert "stands no more" in words(stale)
