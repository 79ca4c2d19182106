"""A copy of a project that takes its place while the server runs: what was worked out from the former's labels is not shown of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from clustered_parts import RUN, explored_project
from small_parts import add_run, click

from pu_geo.project import decisions, store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.damage_map import auditing
from pu_geo.services.explore import clusters, coloring, neighbors, outliers
from pu_geo.services.project.copying import copy_project
from pu_geo.services.train import comparing
from pu_geo.ui.components.damage_view import EncodedLabels, labels_once


def sent_labels(layout: Layout) -> EncodedLabels:
    places = {f"b{i}": i for i in range(80)}
    return labels_once(
        "token", "v", labeling.moment(layout, labeling.newest_event(layout)), labeling.current_labels(layout), dict, places
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda layout: auditing.how_many(layout).words,
        lambda layout: comparing.compare(layout, RUN, "other-1").clicks.is_unlabeled.tolist(),
        lambda layout: {one.building_id: one.label for one in neighbors.like(layout, RUN, ["b0"], count=79)},
        lambda layout: [one.n_positive for one in clusters.inspect(layout, RUN, "two").clusters],
        lambda layout: [one.building_ids for one in outliers.queue(layout, RUN)],
        lambda layout: str(coloring.coloring(layout, RUN, "type").values.tolist()),
        lambda layout: sent_labels(layout).labels,
    ],
    ids=["how many", "comparison", "neighbors", "clusters", "outliers", "types", "labels of the map"],
)
def test_answers_of_the_former_are_not_shown_of_the_copy(ask: Callable[[Layout], object], tmp_path: Path) -> None:
    here = explored_project(tmp_path, n_positive=18)
    add_run(here, "other-1", like=RUN, scores=np.linspace(0, 1, 80))
    with store.connect(here) as db:
        decisions.decide(db, "type", "damage_type", "Burnt", {"building_ids": ["b1", "b2"]}, analyst="ann")
    copy_project(here, str(tmp_path / "copy.pugeo"))
    copy = Layout(tmp_path / "copy.pugeo")
    click(here, "b1", "b2", "b3")
    click(copy, "b1", "b2", "b3", label="not_damaged")
    former = ask(here)
    wanted = ask(copy)
    here.folder.rename(tmp_path / "former.pugeo")
    copy.folder.rename(here.folder)
    assert former != wanted
    assert ask(here) == wanted
