"""The PUPL inspector on the Explore page: what it says of the clusters, and the way back."""

from __future__ import annotations

from pathlib import Path

from clustered_parts import RUN, explored_project
from streamlit.testing.v1 import AppTest

from pu_geo.project import labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from pu_geo.services.explore import clusters

SCRIPT = """
from pathlib import Path
import streamlit as st
from pu_geo.project.layout import Layout
from pu_geo.ui.explore import cluster_panel
st.session_state.setdefault("cluster-kind", "Two means (PUPL)")
cluster_panel.draw(Layout(Path({folder!r})), {run!r})
"""


def shown(layout: Layout) -> AppTest:
    app = AppTest.from_string(SCRIPT.format(folder=str(layout.folder), run=RUN), default_timeout=30).run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    return "\n".join(str(part.value) for part in (*app.markdown, *app.caption, *app.error))


def test_kept_positives_are_those_that_two_means_were_told_of(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    assert "kept all 8 positives that it was told of" in (told := words(shown(layout)))
    assert "came later" not in told
    with store.connect(layout) as db:
        labels.append(db, [LabelOp("later", "b1", "positive")], analyst="ann", screen="map")
    told = words(shown(layout))
    assert "kept all 8 positives" in told
    assert "1 came later" in told


def test_undo_takes_back_what_the_page_showed(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    found = clusters.inspect(layout, RUN, "two")
    clusters.accept(layout, RUN, found, "positives", analyst="ann")
    app = shown(layout)
    clusters.accept(layout, RUN, found, "other", analyst="bob")
    app.button(key="cluster-undo").click().run()
    (left,) = clusters.history(layout)
    assert "cluster other accepted" in left.words
    stale = shown(layout)
    clusters.undo(layout, left.decision, analyst="bob")
    stale.button(key="cluster-undo").click().run()
    assert "stands no more" in words(stale)
