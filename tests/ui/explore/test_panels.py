"""The panels of the Explore screen: what they say of clusters, groups and UMAP, the way back, and a press on a button that is gone."""

from pathlib import Path

import numpy as np
import pytest
from app_parts import Started, checked, field, key_like, plain, press, show, show_panel, words
from clustered_parts import RUN, explored_project
from model_parts import with_chips
from small_parts import add_chips, add_run, click, logged_job, unheld_job
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest
from type_parts import IDS, KEPT, discovered

from pu_geo.errors import TrainingError
from pu_geo.explore import clusters, discovering, outliers, umap_picture
from pu_geo.explore.outliers import Suspect
from pu_geo.explore.umap_picture import Picture, UmapSettings
from pu_geo.jobs import worker
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout, write_array


def shown(layout: Layout) -> AppTest:
    kind = {"cluster-kind": "Two means (PUPL)"}
    return show_panel("explore.cluster_panel", layout, f"draw(layout, {RUN!r})", **kind)


def test_undo_takes_back_what_the_page_showed(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    found = clusters.inspect(layout, RUN, "two")
    clusters.accept(layout, RUN, found, "positives", analyst="ann")
    app = shown(layout)
    clusters.accept(layout, RUN, found, "other", analyst="bob")
    press(app, key_like(app, "cluster-undo"))
    left, told = clusters.newest(layout)
    assert "cluster other accepted" in told
    stale = shown(layout)
    clusters.undo(layout, left, analyst="bob")
    press(stale, key_like(stale, "cluster-undo"))
    assert "stands no more" in words(stale)


def test_merge_takes_the_cluster_that_is_chosen_at_the_click(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A click that comes with a new choice was merged with the choice before."""
    merged = []
    monkeypatch.setattr(clusters, "merge", lambda *given, analyst: merged.append(given[3:]))
    app = shown(explored_project(tmp_path))
    (only,) = field(app, "Merge with").options
    field(app, "Merge with").set_value(only).run()
    field(app, "Merge with").set_value(None)  # no rerun before the click
    press(app, "Merge")
    assert merged == []
    field(app, "Merge with").set_value(only).run()
    press(app, "Merge")
    assert merged == [("positives", only)]


def press_twice(app: AppTest, label: str) -> AppTest:
    """Press a button, and once more as it was before the first press had an effect, as a browser sends it: alone."""
    button = next(one for one in app.button if one.label.startswith(label))
    button.click().run()
    late = WidgetStates(widgets=[one for one in button.click().root.get_widget_states().widgets if one.id == button.id])
    return checked(app._run(late))


def n_answers(layout: Layout) -> int:
    """Count the answers that were given, also those that were given again."""
    with store.connect(layout) as db:
        return int(db.execute("SELECT count(*) FROM label_event").fetchone()[0])


def test_all_that_was_shown_is_labeled_and_not_what_came_next(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    before = store.call(layout, labels.current_labels)
    app = show_panel("explore.neighbor_panel", layout, f"draw(layout, {RUN!r}, ['b0'])")
    app = press_twice(app, "Mark all damaged (24)")
    assert len(store.call(layout, labels.current_labels)) == len(before) + 24
    assert n_answers(layout) == len(before) + 24, "nor are they labeled twice: one undo takes all back"
    press(app, "Mark all not damaged (24)")
    assert n_answers(layout) == len(before) + 48, "the next ones are labeled by a press of their own"


@pytest.mark.parametrize("answer", ["Keep as it is", "Not assessable"])
def test_one_suspect_is_reviewed_and_not_the_next(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = explored_project(tmp_path)
    suspects = tuple(Suspect("wrong click", (f"b{4 * k}",), "Perhaps not.", 0.9) for k in range(3))
    monkeypatch.setattr(outliers, "_wrong_clicks", lambda *_: suspects)
    before = n_answers(layout)
    app = show_panel("explore.outlier_panel", layout, f"draw(layout, {RUN!r})")
    app = press_twice(app, answer)
    assert [one.building_ids for one in outliers.queue(layout, RUN)] == [("b4",), ("b8",)]
    assert n_answers(layout) == before + (answer == "Not assessable")
    press(app, answer)
    assert len(outliers.queue(layout, RUN)) == 1


def test_the_cluster_under_the_buttons_stays_when_answers_sort_the_table_anew(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    app = show_panel("explore.cluster_panel", layout, f"draw(layout, {RUN!r})", **{"cluster-kind": "Two means (PUPL)"})
    assert "**Cluster of the damaged**" in words(app)
    found = clusters.inspect(layout, RUN, "two")
    others = [found.ids[row] for row in found.rows_of("other")]
    click(layout, *others)
    assert clusters.inspect(layout, RUN, "two").clusters[0].name == "other", "it is the first row now"
    assert "**Cluster of the damaged**" in words(checked(app.run()))


def named(layout: Layout) -> dict[str, list[str]]:
    return {name: list(each["building_ids"]) for name, each in discovering.types(layout).items()}


def test_the_job_is_started_with_what_was_chosen(project: Layout, started: Started) -> None:
    app = show_panel("explore.type_panel", with_chips(project))
    assert "No search yet" in words(app)
    for n_groups in (5, 0):
        app.number_input(key="types-groups").set_value(n_groups).run()
        press(app, "types-start")
    assert started == [("discover", {"seed": 0, "n_seeds": 3, "n_groups": n, "preset": "quick"}) for n in (5, None)]
    app.number_input(key="types-groups").set_value(1).run()
    assert app.button(key="types-start").disabled
    assert "ask for 2 or more" in words(app)
    epoch = {"stage": "training 2 of 3", "epoch": 4, "epochs": 9, "progress": 0.5}
    logged_job(project, "discover", ("epoch", epoch), ("paused", {}), n_seeds=3, preset="standard")
    assert "4 epochs of training 2 of 3 done" in words(show_panel("explore.type_panel", project))


def test_groups_are_named_merged_dropped_and_all_of_it_undone(project: Layout) -> None:
    layout = discovered(project)
    app = show_panel("explore.type_panel", layout)
    told = words(app)
    assert "**4 groups**, learned from 6 not damaged, 6 damaged" in told
    assert "**Group 1** · 8 buildings" in told
    assert "stable" in told
    app.text_input(key=f"name-{KEPT}-2").set_value("tarps | <b>")
    press(app, f"FormSubmitter:name-form-{KEPT}-2-Save")
    assert named(layout) == {"tarps | <b>": IDS[8:14]}
    app.multiselect(key=f"merge-{KEPT}").set_value(["2", "3"]).run()
    press(app, f"merge-now-{KEPT}")
    assert named(layout) == {"tarps | <b>": IDS[8:18]}
    assert "**Group 2+3**" in words(app)
    press(app, f"drop-{KEPT}-4")
    assert "Group 4, 1 building, was dropped." in words(app)
    press(app, f"back-{KEPT}-4")
    assert not discovering.proposal(layout).dropped
    for left in (1, 0, 0, 0):
        assert not app.button(key=key_like(app, f"types-undo-{KEPT}")).disabled
        press(app, key_like(app, f"types-undo-{KEPT}"))
        assert len(discovering.proposal(layout).dropped) == left
    assert named(layout) == {}


USUAL = {"n_neighbors": 15, "min_dist": 0.1, "metric": "euclidean", "densmap": False, "supervised": False, "seed": 0}


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
    assert umap_picture.SUPERVISED not in words(app)
    for name, value in (("n_neighbors", 40), ("min_dist", 0.5)):  # changed in one message, both are kept
        app.number_input(key=f"umap-{name}").set_value(value)
    app.selectbox(key="umap-metric").set_value("cosine").run()
    for name in ("densmap", "supervised"):
        app.toggle(key=f"umap-{name}").set_value(True).run()
    assert umap_picture.SUPERVISED in words(app), "before it is computed"
    app = show("explore", explored)
    assert app.number_input(key="umap-n_neighbors").value == 40, "the settings are the project's, not the session's"
    press(app, "umap-start")
    chosen = USUAL | {"n_neighbors": 40, "min_dist": 0.5, "metric": "cosine", "densmap": True, "supervised": True}
    assert started[1:] == [("embed", {"run_id": RUN, "settings": chosen})] * 2  # the job is a stand-in, so none is active


def test_the_page_says_what_made_the_picture_and_starts_from_there(explored: Layout, started: Started) -> None:
    labels = {"at_event": 3, "n_positive": 1200, "n_not_damaged": 2}
    made = Picture(UmapSettings(n_neighbors=50, densmap=True, supervised=True), labels)
    write_array(explored.run(RUN) / "umap.npy", np.zeros((20, 2), np.float32))
    umap_picture.store_picture(explored, RUN, made)
    assert umap_picture.picture(explored, RUN) == made
    assert made.title == "Supervised densMAP"
    app = show("explore", explored)
    told = "UMAP: 50 neighbors, least distance 0.1, euclidean, densMAP, supervised by labels (1,200 damaged, 2 not damaged)."
    assert told in plain(app)
    assert umap_picture.SUPERVISED in words(app)
    assert app.number_input(key="umap-n_neighbors").value == 50
    press(app, "umap-start")
    assert started[0][1]["settings"] == USUAL | {"n_neighbors": 50, "densmap": True, "supervised": True}


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
