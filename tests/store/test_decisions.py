"""The log of decisions, about clusters and discoveries too: the newest of a name counts, and nothing is lost."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from type_parts import GROUPS, IDS, KEPT, discovered

from pu_geo.errors import ProjectError
from pu_geo.records import LabelOp
from pu_geo.store import decisions, discoveries, labels, pseudo_positives
from pu_geo.store.discoveries import Discovery
from pu_geo.store.layout import Layout, sha256_of


def test_the_newest_of_a_name_stands_and_can_be_taken_away_and_put_back(db: Connection) -> None:
    decisions.decide(db, "1", "selection", " island ", {"building_ids": ["b1"]}, analyst="ann")
    decisions.decide(db, "2", "selection", "coast", {"building_ids": ["b2"]}, analyst="ann")
    decisions.decide(db, "3", "reviewed", "island", {"building_ids": ["b3"]}, analyst="bob")
    decisions.decide(db, "4", "selection", "island", {"building_ids": ["b1", "b4"]}, analyst="bob")
    found = decisions.standing(db, "selection")
    assert [(name, each.facts["building_ids"], each.analyst) for name, each in found.items()] == [
        ("coast", ["b2"], "ann"),
        ("island", ["b1", "b4"], "bob"),
    ]
    decisions.decide(db, "5", "selection", "island", None, analyst="ann")
    assert list(decisions.standing(db, "selection")) == ["coast"]
    decisions.decide(db, "6", "selection", "island", found["island"].facts, analyst="ann")
    assert list(decisions.standing(db, "selection")) == ["coast", "island"]
    assert list(decisions.standing(db, "reviewed")) == ["island"]
    assert list(decisions.standing(db, "selection", at=2)) == ["island", "coast"]
    entries = decisions.entries(db, "selection", "island")
    assert [(each.decision, each.analyst, each.facts) for each in entries[1:3]] == [
        (5, "ann", None), (4, "bob", {"building_ids": ["b1", "b4"]}),
    ]  # fmt: skip
    assert (decisions.entry(db, 1), decisions.entry(db, 7)) == (entries[-1], None)


def test_a_replayed_operation_is_stored_once_and_the_log_is_never_changed(db: Connection) -> None:
    assert [decisions.decide(db, "1", "selection", "a", {}, analyst="ann") for _ in range(3)] == [1, 1, 1]
    assert db.execute("SELECT count(*) FROM decision").fetchone() == (1,)
    for statement in ("UPDATE decision SET name = 'x'", "DELETE FROM decision"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            db.execute(statement)


@pytest.mark.parametrize(
    ("kind", "name"), [("selection", " "), ("selection", "x" * 61), ("selection", "a\u202eb"), ("no", "a")]
)
def test_what_cannot_be_a_name_or_kind_is_refused(db: Connection, kind: str, name: str) -> None:
    with pytest.raises(ProjectError, match=r"cannot be a name|is no kind"):
        decisions.decide(db, "1", kind, name, {}, analyst="ann")


def facts(decision: str, *ids: str, run_id: str = "run-1") -> dict[str, Any]:
    return {"run_id": run_id, "decision": decision, "building_ids": list(ids)}


def test_of_accepting_and_rejecting_a_building_the_later_counts(db: Connection) -> None:
    decisions.decide(db, "1", pseudo_positives.KIND, "a", facts("accept", "b1", "b2"), analyst="ann")
    decisions.decide(db, "2", pseudo_positives.KIND, "b", facts("reject", "b2", run_id="run-2"), analyst="bob")
    first = decisions.last_decision(db)
    decisions.decide(db, "3", pseudo_positives.KIND, "c", facts("accept", "b2", "b3"), analyst="ann")
    assert pseudo_positives.accepted_ids(db) == {"b1", "b2", "b3"}
    assert pseudo_positives.accepted_ids(db, at=first) == {"b1"}
    assert pseudo_positives.accepted_ids(db, at=0) == set()
    assert [act.name for act in pseudo_positives.acts(db, "run-1")] == ["a", "c"]
    decisions.decide(db, "4", pseudo_positives.KIND, "a", None, analyst="ann")
    assert pseudo_positives.accepted_ids(db) == {"b2", "b3"}
    assert pseudo_positives.accepted_ids(db, at=first) == {"b1"}  # the past stays as it was


def test_an_answer_of_a_person_counts_more_than_the_cluster(db: Connection) -> None:
    decisions.decide(db, "1", pseudo_positives.KIND, "a", facts("accept", "b1", "b2", "b3", "b4", "gone"), analyst="ann")
    said = [("b1", "positive"), ("b2", "not_damaged"), ("b3", "not_assessable")]
    ops = [LabelOp(building, building, label) for building, label in said]  # type: ignore[arg-type]
    labels.append(db, ops, analyst="ann", screen="map")
    pu = labels.pu_set(db)
    rows = pseudo_positives.is_accepted(db, pu)
    assert [building for building, one in zip(pu.building_ids, rows, strict=True) if one] == ["b4"]
    assert pu.is_positive.sum() == 1


def test_a_discovery_comes_back_as_it_was_kept_the_newest_first(project: Layout) -> None:
    found = discoveries.load(discovered(project), KEPT)
    assert (found.id, list(found.building_ids)) == (KEPT, IDS)
    np.testing.assert_array_equal(found.groups, GROUPS)
    assert found.groups.dtype == np.int16
    assert found.members([1, 3]) == [*IDS[8:14], "b18"]
    arrays = {path.name: sha256_of(path) for path in project.discovery(KEPT).iterdir() if path.name != "discovery.json"}
    assert found.facts["sha256"] == arrays
    assert found.facts["known"] == {"not damaged": 6, "damaged": 6}
    assert not (project.folder / "work").exists()
    discovered(project, name="types-2")
    assert [facts["discovery"] for facts in discoveries.all_facts(project)] == ["types-2", KEPT]
    assert discoveries.load(project, "latest").id == "types-2"
    assert discoveries.new_id() != discoveries.new_id()


def test_one_that_was_not_finished_is_none(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, value: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(discoveries, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        discovered(project)
    assert discoveries.all_facts(project) == []
    assert not (project.folder / "discoveries").exists()
    with pytest.raises(ProjectError, match="none yet"):
        discoveries.load(project, "latest")


def found_in(discovery_id: str) -> Discovery:
    return Discovery({"discovery": discovery_id}, ["b0", "b1"], np.array([0, 1], np.int16))


def decided(db: Connection, discovery_id: str = KEPT, analyst: str = "ann", **changes: Any) -> None:
    review = discoveries.review_of(db, discovery_id)
    discoveries.decide(db, found_in(discovery_id), replace(review, **changes), analyst=analyst)


def test_the_last_named_type_of_a_building_counts(db: Connection) -> None:
    decided(db, names={0: "tarps"})
    decided(db, "types-other", names={0: "debris", 1: "mud"})
    decided(db, names={0: "tarps", 1: "walls"})
    assert list(discoveries.types(db)) == ["tarps", "debris", "mud", "walls"]
    assert discoveries.type_of(db) == {"b0": "debris", "b1": "walls"}


def test_merged_groups_count_as_one() -> None:
    assert discoveries.Review([[3, 1]], {0}).joined(5) == [(0,), (1, 3), (2,), (4,)]
