"""Accepted clusters: the later decision counts, answers of people count more, and the past can be asked for."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

from pu_geo.project import decisions, labels, pseudo_positives
from pu_geo.records import LabelOp


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
