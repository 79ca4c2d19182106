"""More like this, with scores and labels, and all of them labeled and unlabeled in one act."""

from __future__ import annotations

from pathlib import Path

import pytest
from clustered_parts import RUN, explored_project, groups

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.explore import neighbors


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    return explored_project(tmp_path)


def test_finds_the_group_of_a_chip_with_labels_and_scores(explored: Layout) -> None:
    found = neighbors.like(explored, RUN, ["b0"], count=19)
    assert {groups()[int(one.building_id[1:])] for one in found} == {0}
    assert sum(one.label == "positive" for one in found) == 7
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    assert {one.building_id: one.score for one in found}["b4"] == pytest.approx(1 - 4 / 79)
    assert "b0" not in {one.building_id for one in found}


def test_of_a_selection_each_member_is_looked_for(explored: Layout) -> None:
    found = neighbors.like(explored, RUN, ["b0", "b1", "no such"], count=16)
    assert {groups()[int(one.building_id[1:])] for one in found} == {0, 1}


def test_leaves_labeled_ones_out_on_request(explored: Layout) -> None:
    found = neighbors.like(explored, "latest", ["b0"], count=12, only_unlabeled=True)
    assert all(one.label == "" for one in found)
    assert len(found) == 12


def test_labeling_all_is_one_act(explored: Layout) -> None:
    ids = [one.building_id for one in neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)]
    assert neighbors.label_all(explored, ids, "positive", analyst="ann") == 5
    assert sum(label == "positive" for label in labeling.current_labels(explored).values()) == 13
    assert neighbors.undo(explored, analyst="ann")
    assert sum(label == "positive" for label in labeling.current_labels(explored).values()) == 8


def test_refuses_what_the_run_does_not_know(explored: Layout) -> None:
    with pytest.raises(ProjectError, match=r"knows none of these buildings \(nowhere\)"):
        neighbors.like(explored, RUN, ["nowhere"])
    with pytest.raises(ProjectError, match="0 buildings"):
        neighbors.like(explored, RUN, ["b0"], count=0)
    with pytest.raises(ProjectError, match="not labeled"):
        neighbors.label_all(explored, ["nowhere"], "positive", analyst="ann")


def test_answers_since_the_last_look_are_known(explored: Layout) -> None:
    first = neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)[0].building_id
    neighbors.label_all(explored, [first], "not_damaged", analyst="ann")
    assert first not in {one.building_id for one in neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)}
    labels = {one.building_id: one.label for one in neighbors.like(explored, RUN, ["b0"], count=19)}
    assert labels[first] == "not_damaged"
    assert neighbors.undo(explored, analyst="ann")
    assert first in {one.building_id for one in neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)}
