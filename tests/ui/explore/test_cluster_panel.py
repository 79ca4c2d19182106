"""The inspectors on the Explore page: what they say of clusters and neighbors, the way back, and a press on a button that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_parts import checked, field, key_like, press, show_panel, words
from clustered_parts import RUN, explored_project
from small_parts import click
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.explore import clusters, outliers
from pu_geo.services.explore.outliers import Suspect


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
def test_one_suspect_is_reviewed_and_not_the_one_after_it(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
