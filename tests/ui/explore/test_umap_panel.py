"""UMAP on the Explore page: what is asked of the job, and what made the picture that is shown."""

from __future__ import annotations

import numpy as np
import pytest
from app_parts import checked, plain, press, show, words
from small_parts import add_chips, add_run, unheld_job
from streamlit.testing.v1 import AppTest

from pu_geo.errors import TrainingError
from pu_geo.jobs import worker
from pu_geo.project.layout import Layout, write_array, write_json
from pu_geo.services.explore import exploring
from pu_geo.services.explore.exploring import Picture, UmapSettings

RUN = "ranker-1"
USUAL = {"n_neighbors": 15, "min_dist": 0.1, "metric": "euclidean", "densmap": False, "supervised": False, "seed": 0}
Started = list[tuple[str, dict[str, object]]]


@pytest.fixture
def explored(project: Layout) -> Layout:
    add_chips(project, [f"b{i}" for i in range(20)], size_px=64)
    add_run(project, RUN, arrays={"embeddings": np.eye(20, 8, dtype=np.float32), "clusters": np.zeros(20)})
    return project


def switch(app: AppTest, kind: str) -> AppTest:
    return checked(app.segmented_control(key="explore-projection").set_value(kind).run())


def test_umap_is_made_on_demand_and_as_it_was_set(explored: Layout, started: Started) -> None:
    app = show("explore", explored)
    assert app.segmented_control(key="explore-projection").value == "PCA"
    switch(app, "UMAP")
    assert started == [("embed", {"run_id": RUN, "settings": USUAL})]
    app = show("explore", explored)
    assert exploring.SUPERVISED not in words(app)
    for name, value in (("n_neighbors", 40), ("min_dist", 0.5)):  # changed in one message, both are kept
        app.number_input(key=f"umap-{name}").set_value(value)
    app.selectbox(key="umap-metric").set_value("cosine").run()
    for name in ("densmap", "supervised"):
        app.toggle(key=f"umap-{name}").set_value(True).run()
    assert exploring.SUPERVISED in words(app), "before it is computed"
    app = show("explore", explored)
    assert app.number_input(key="umap-n_neighbors").value == 40, "the settings are the project's, not the session's"
    press(app, "umap-start")
    chosen = USUAL | {"n_neighbors": 40, "min_dist": 0.5, "metric": "cosine", "densmap": True, "supervised": True}
    assert started[1:] == [("embed", {"run_id": RUN, "settings": chosen})] * 2  # the job is a stand-in, so none is active


def test_the_page_says_what_made_the_picture_and_starts_from_there(explored: Layout, started: Started) -> None:
    labels = {"at_event": 3, "n_positive": 1200, "n_not_damaged": 2}
    made = Picture(UmapSettings(n_neighbors=50, densmap=True, supervised=True), labels, "set", [])
    write_array(explored.run(RUN) / "umap.npy", np.zeros((20, 2), np.float32))
    exploring.store_picture(explored, RUN, made, np.zeros((0, 2), np.float32))
    assert exploring.picture(explored, RUN) == made
    assert made.title == "Supervised densMAP"
    app = show("explore", explored)
    assert (
        "UMAP: 50 neighbors, least distance 0.1, euclidean, densMAP, supervised by labels (1,200 damaged, 2 not damaged)."
        in plain(app)
    )
    assert exploring.SUPERVISED in words(app)
    assert app.number_input(key="umap-n_neighbors").value == 50
    press(app, "umap-start")
    assert started[0][1]["settings"] == USUAL | {"n_neighbors": 50, "densmap": True, "supervised": True}


def test_a_picture_of_an_earlier_version_opens_pca_is_shown_again_and_nothing_is_started(
    explored: Layout, started: Started
) -> None:
    write_array(explored.run(RUN) / "umap.npy", np.zeros((20, 2), np.float32))
    for note in (None, {"seed": 0, "chip_set": "set", "new_ids": [], "note": ""}):
        if note:
            write_json(explored.run(RUN) / "umap.json", note)
        app = show("explore", explored)
        assert "UMAP: 15 neighbors, least distance 0.1, euclidean." in plain(app)
        assert exploring.SUPERVISED not in words(app)
    assert app.segmented_control(key="explore-projection").value == "UMAP"
    switch(app, "PCA")
    assert exploring.projection_of(explored, RUN, exploring.wanted_projection(explored))[0] == "PCA"
    app = show("explore", explored)
    assert app.segmented_control(key="explore-projection").value == "PCA"
    switch(app, "UMAP")
    assert started == []
    add_chips(explored, [f"b{i}" for i in range(22)], "newer", size_px=64)
    press(show("explore", explored), "Place 2 new buildings")
    assert started == [("embed", {"run_id": RUN})]


def test_a_job_that_failed_says_why(explored: Layout) -> None:
    folder = unheld_job(explored, "embed", {"run_id": RUN, "settings": USUAL | {"supervised": True}})
    with pytest.raises(TrainingError):
        worker.run(folder)
    for has_picture in (False, True):
        if has_picture:
            write_array(explored.run(RUN) / "umap.npy", np.zeros((20, 2), np.float32))
        app = show("explore", explored)
        assert "needs at least one building marked damaged" in words(app)
        assert not app.button(key="umap-start").disabled
