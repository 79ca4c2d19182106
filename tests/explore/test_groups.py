"""Clusters that a person can name: what is in each, and accepting, rejecting and taking back."""

from dataclasses import replace
from pathlib import Path

import pytest
from clustered_parts import RUN, explored_project, looked
from small_parts import click

from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError
from pu_geo.explore import groups, looks
from pu_geo.explore.groups import Group
from pu_geo.store import pseudo_positives, store
from pu_geo.store.layout import Layout


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    return looked(explored_project(tmp_path))


def first(layout: Layout) -> Group:
    return groups.grouping(layout, looks.LOOK).groups[0]


def accepted(layout: Layout) -> set[str]:
    return store.call(layout, pseudo_positives.accepted_ids)


def test_the_cluster_with_the_clicks_comes_first_and_those_of_pupl_last(explored: Layout) -> None:
    click(explored, "b76", label="not_assessable")
    found = groups.grouping(explored, looks.LOOK, RUN)
    *small, own, other = found.groups
    assert sum(len(one.building_ids) for one in small) == 80
    shares = [one.n_positive / len(one.building_ids) for one in small]
    assert shares == sorted(shares, reverse=True)
    assert (own.words, len(own.building_ids), own.n_positive, own.n_open) == ("of the damaged (PUPL)", 20, 8, 11)
    assert (other.words, other.n_positive) == ("of the others (PUPL)", 0)
    assert found.n_positive == 8


def test_clusters_that_suit_common_damage_are_large(explored: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "k-means" in groups.grouping(explored, looks.LOOK).why, "the run flags half of them"
    for n, way in ((5, "graph"), (30, "k-means")):
        counted = replace(auditing.how_many(explored), total=auditing.Estimate(n, n, n, ""))
        monkeypatch.setattr(auditing, "how_many", lambda _, counted=counted: counted)
        assert way in groups.grouping(explored, looks.LOOK).why


def test_accepting_is_said_undone_and_taken_back_by_rejecting(explored: Layout) -> None:
    group = first(explored)
    before = groups.next_training(explored)
    assert groups.accept(explored, looks.LOOK, group, analyst="ann") == group.n_open > 0
    assert len(accepted(explored)) == group.n_open
    assert groups.next_training(explored) == f"8 damaged + {group.n_open} pseudo-positives"
    assert first(explored).state == "accepted"
    number, words = groups.newest(explored)
    assert f"added {group.n_open} pseudo-positives" in words
    assert groups.undo(explored, number, analyst="bob") in words
    assert (accepted(explored), groups.next_training(explored), first(explored).state) == (set(), before, "")
    with pytest.raises(ProjectError, match="stands no more"):
        groups.undo(explored, number, analyst="bob")
    groups.accept(explored, looks.LOOK, group, analyst="ann")
    assert groups.reject(explored, looks.LOOK, group, analyst="ann") == group.n_open
    assert (accepted(explored), first(explored).state) == (set(), "rejected")
    click(explored, *group.building_ids)
    with pytest.raises(ProjectError, match="has an answer, or is hidden"):
        groups.accept(explored, looks.LOOK, group, analyst="ann")


def test_without_the_job_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="no clusters yet"):
        groups.grouping(explored_project(tmp_path), looks.LOOK)
