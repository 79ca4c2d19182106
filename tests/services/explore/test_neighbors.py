"""More like this, with scores and labels, and all of them labeled and unlabeled in one act."""

from __future__ import annotations

import pytest
from clustered_parts import RUN, groups

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.explore import neighbors


def test_finds_the_group_of_a_chip_with_labels_and_scores(explored: Layout) -> None:
    found = neighbors.like(explored, RUN, ["b0"], count=19)
    assert {groups()[int(one.building_id[1:])] for one in found} == {0}
    assert sum(one.label == "positive" for one in found) == 7
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    assert {one.building_id: one.score for one in found}["b4"] == pytest.approx(1 - 4 / 79)
    assert "b0" not in {one.building_id for one in found}
    of_both = neighbors.like(explored, RUN, ["b0", "b1", "no such"], count=16)
    assert {groups()[int(one.building_id[1:])] for one in of_both} == {0, 1}
    unlabeled = neighbors.like(explored, "latest", ["b0"], count=12, only_unlabeled=True)
    assert [one.label for one in unlabeled] == [""] * 12


def test_refuses_what_the_run_does_not_know(explored: Layout) -> None:
    with pytest.raises(ProjectError, match=r"knows none of these buildings \(nowhere\)"):
        neighbors.like(explored, RUN, ["nowhere"])
    with pytest.raises(ProjectError, match="0 buildings"):
        neighbors.like(explored, RUN, ["b0"], count=0)
    with pytest.raises(ProjectError, match="not labeled"):
        neighbors.label_all(explored, ["nowhere"], "positive", analyst="ann")


def test_labeling_all_is_one_act_and_known_at_the_next_look(explored: Layout) -> None:
    def unlabeled() -> list[str]:
        return [one.building_id for one in neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)]

    first = unlabeled()
    assert neighbors.label_all(explored, first, "not_damaged", analyst="ann") == 5
    assert set(labeling.current_labels(explored).values()) == {"positive", "not_damaged"}
    assert not {*first} & {*unlabeled()}
    labels = {one.building_id: one.label for one in neighbors.like(explored, RUN, ["b0"], count=19)}
    assert {labels[building] for building in first} == {"not_damaged"}
    assert neighbors.undo(explored, analyst="ann")
    assert unlabeled() == first
    assert set(labeling.current_labels(explored).values()) == {"positive"}
