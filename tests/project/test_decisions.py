"""The log of decisions: the newest of a name counts, nothing is lost, a replay does nothing."""

from __future__ import annotations

import sqlite3
from sqlite3 import Connection

import pytest

from pu_geo.errors import ProjectError
from pu_geo.project import decisions


def test_the_newest_of_a_name_stands_and_can_be_taken_away_and_put_back(db: Connection) -> None:
    decisions.decide(db, "1", "selection", " island ", {"building_ids": ["b1"]}, analyst="ann")
    decisions.decide(db, "2", "selection", "coast", {"building_ids": ["b2"]}, analyst="ann")
    decisions.decide(db, "3", "damage_type", "island", {"building_ids": ["b3"]}, analyst="bob")
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
    assert list(decisions.standing(db, "damage_type")) == ["island"]
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
