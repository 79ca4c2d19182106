"""The PUPL inspector's service: what is in a cluster, what people decide, and what the next run gets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clustered_parts import RUN, N, explored_project, groups
from model_parts import job_of
from small_parts import click

from pu_geo.answers import labeling
from pu_geo.assessment import auditing
from pu_geo.errors import ProjectError
from pu_geo.explore import clusters, neighbors
from pu_geo.explore.cluster_job import cluster
from pu_geo.store import decisions, pseudo_positives, run_names, store
from pu_geo.store.layout import Layout


@pytest.fixture
def explored(tmp_path: Path) -> Layout:
    """80 buildings in four groups, of which the first holds eight clicks, and a finished run."""
    return explored_project(tmp_path)


@pytest.fixture
def audited(explored: Layout, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """An audit counted 18.8 damaged buildings in all: 15 % of the 72 that nobody clicked, and the 8 clicks."""
    counted = replace(auditing.how_many(explored), total=auditing.Estimate(18.8, 18.8, 18.8, ""))
    monkeypatch.setattr(auditing, "how_many", lambda _: counted)
    return explored


def clustered(layout: Layout, k: int = 4) -> clusters.Inspected:
    cluster(job_of(layout, f"cluster-{len(list(layout.jobs.glob('*')))}"), run_id=RUN, k=k)
    return clusters.inspect(layout, RUN, "many")


def test_two_means_of_the_run_are_there_at_once(explored: Layout) -> None:
    found = clusters.inspect(explored, RUN, "two")
    own, other = found.clusters
    assert (own.name, own.size, own.n_positive, own.n_open, other.n_positive) == ("positives", 20, 8, 12, 0)
    assert (found.is_oriented, found.potential) == (True, None)
    assert (own.damaged, own.low, own.high, other.damaged) == (None, None, None, None)  # clicks alone do not tell
    with pytest.raises(ProjectError, match="not split into many"):
        clusters.inspect(explored, RUN, "many")


def test_turned_two_means_fail_the_orientation_check(explored: Layout) -> None:
    np.save(explored.run(RUN) / "clusters.npy", (groups() == 1).astype(np.int8))
    assert clusters.inspect(explored, RUN, "two").is_oriented is False


def test_the_job_finds_the_groups_with_potential_and_stability(explored: Layout) -> None:
    found = clustered(explored)
    best = found.clusters[0]
    rows = found.rows_of(best.name)
    assert set(rows.tolist()) == set(np.flatnonzero(groups() == 0).tolist())
    assert (best.size, best.n_positive) == (20, 8)
    assert min(one.stability or 0 for one in found.clusters) > 0.9
    quarter, middle, three = best.spread
    assert 0 < quarter < middle < three < 1
    two = clusters.inspect(explored, RUN, "two")
    assert two.is_oriented
    assert two.potential > 0
    shown, at = clusters.examples(explored, RUN, found, best.name, 3), list(found.names).index(best.name)
    assert shown.center[0] == rows[found.gaps[rows, at].argmin()]
    assert shown.highest.tolist() == rows[:3].tolist()  # scores fall with the row
    margin = np.delete(found.gaps[rows], at, axis=1).min(axis=1) - found.gaps[rows, at]
    assert shown.border[0] == rows[margin.argmin()]


def test_accepting_adds_the_unlabeled_and_rejecting_or_undo_takes_them_away(explored: Layout) -> None:
    found = clustered(explored)
    name = found.clusters[0].name
    assert (clusters.next_run(explored).n_positive, clusters.next_run(explored).n_accepted) == (8, 0)
    assert clusters.accept(explored, RUN, found, name, analyst="ann") == 12
    assert clusters.next_run(explored).words == "next run: 8 damaged + 12 accepted"
    assert clusters.inspect(explored, RUN, "many").clusters[0].state == "accepted"
    assert len(labeling.current_labels(explored)) == 8  # nothing is labeled by it
    with store.connect(explored) as db:
        (act,) = decisions.standing(db, pseudo_positives.KIND).values()
    facts = act.facts
    assert (facts["decision"], facts["run_id"], facts["how"]) == ("accept", RUN, "4 clusters")
    assert len(facts["building_ids"]) == 12
    assert clusters.reject(explored, RUN, found, name, analyst="bob") == 12
    assert clusters.next_run(explored).n_accepted == 0
    assert clusters.inspect(explored, RUN, "many").clusters[0].state == "rejected"
    clusters.undo(explored, clusters.newest(explored)[0], analyst="ann")
    click(explored, "b76", label="not_damaged")
    told = clusters.next_run(explored)
    assert (told.n_accepted, told.n_overruled, told.n_not_damaged) == (11, 1, 1)
    accepted, told = clusters.newest(explored)
    assert told.endswith(f"{run_names.name(explored, RUN)})")
    clusters.split(explored, RUN, found, name, analyst="ann")
    assert len(clustered(explored, k=3).clusters) == 3, "another clustering forgets splits, but not what was accepted"
    assert clusters.next_run(explored).n_accepted == 11
    assert clusters.undo(explored, accepted, analyst="ann") == f"cluster {name} accepted, 12 buildings"
    assert clusters.next_run(explored).n_accepted == 0


def test_split_and_merge_change_the_clusters_and_can_be_undone(explored: Layout) -> None:
    found = clusters.inspect(explored, RUN, "two")
    first, second = clusters.split(explored, RUN, found, "other", analyst="ann")
    now = clusters.inspect(explored, RUN, "two")
    assert {one.name for one in now.clusters} == {"positives", first, second}
    assert sum(one.size for one in now.clusters) == N
    for name in (first, second):  # of three groups of 20 that touch, each side holds most of one
        assert np.bincount(groups()[now.rows_of(name)], minlength=4).max() >= 18
    merged = clusters.merge(explored, RUN, now, first, "positives", analyst="ann")
    after = clusters.inspect(explored, RUN, "two")
    assert set(after.rows_of(merged).tolist()) == {*now.rows_of(first).tolist(), *now.rows_of("positives").tolist()}
    with pytest.raises(ProjectError, match="no cluster 'other' any more"):
        clusters.accept(explored, RUN, after, "other", analyst="ann")
    with pytest.raises(ProjectError, match="with itself"):
        clusters.merge(explored, RUN, after, merged, merged, analyst="ann")
    for _ in range(2):
        clusters.undo(explored, clusters.newest(explored)[0], analyst="ann")
    again = clusters.inspect(explored, RUN, "two")
    np.testing.assert_array_equal(again.part, found.part)
    assert list(again.names) == ["other", "positives"]


def test_an_audit_tells_how_much_of_a_cluster_is_damaged_and_later_answers_are_part_of_it(audited: Layout) -> None:
    np.save(audited.run(RUN) / "clusters.npy", (groups() < 2).astype(np.int8))
    own, other = clusters.inspect(audited, RUN, "two").clusters
    assert own.damaged == pytest.approx((0.15 * 72 + 8) / 40)  # all clicks are here
    assert other.damaged == 0 < other.high < 0.2
    damaged = np.flatnonzero(groups() == 0)[8:].tolist()
    click(audited, *(f"b{row}" for row in damaged[:6]))
    assert clusters.inspect(audited, RUN, "two").clusters[0].damaged == pytest.approx(own.damaged)
    click(audited, *(f"b{row}" for row in damaged[6:]))
    click(audited, *(f"b{row}" for row in np.flatnonzero(groups() == 1)), label="not_damaged")
    now = clusters.inspect(audited, RUN, "two").clusters[0]
    assert (now.damaged, now.low, now.high) == (0.5, 0.5, 0.5)  # all 40 are answered, half of them as damaged


def test_positives_that_came_later_are_none_that_were_kept(explored: Layout) -> None:
    click(explored, "b32", "b1")  # of these one lies in the positives' cluster anyway
    found = clusters.inspect(explored, RUN, "two")
    assert (found.n_kept, found.n_near, found.n_later) == (8, 8, 2)
    assert {one.name: one.n_positive for one in found.clusters} == {"positives": 9, "other": 1}
    clustered(explored)
    found = clusters.inspect(explored, RUN, "two")
    assert (found.n_kept, found.n_later) == (10, 0)


# More like this


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
        labeling.label_all(explored, ["nowhere"], "positive", analyst="ann", screen="explore")


def test_labeling_all_is_one_act_and_known_at_the_next_look(explored: Layout) -> None:
    def unlabeled() -> list[str]:
        return [one.building_id for one in neighbors.like(explored, RUN, ["b0"], count=5, only_unlabeled=True)]

    first = unlabeled()
    assert labeling.label_all(explored, first, "not_damaged", analyst="ann", screen="explore") == 5
    assert set(labeling.current_labels(explored).values()) == {"positive", "not_damaged"}
    assert not {*first} & {*unlabeled()}
    labels = {one.building_id: one.label for one in neighbors.like(explored, RUN, ["b0"], count=19)}
    assert {labels[building] for building in first} == {"not_damaged"}
    assert neighbors.undo(explored, analyst="ann")
    assert unlabeled() == first
    assert set(labeling.current_labels(explored).values()) == {"positive"}
