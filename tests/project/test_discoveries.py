"""Discoveries on disk: whole or not at all, never changed; decisions about them stand, and are undone in turn."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pytest
from type_parts import GROUPS, IDS, KEPT, discovered

from pu_geo.errors import ProjectError
from pu_geo.project import decisions, discoveries
from pu_geo.project.layout import Layout
from pu_geo.project.runs import sha256_of


def test_a_discovery_comes_back_as_it_was_kept_the_newest_first(project: Layout) -> None:
    found = discoveries.load(discovered(project), KEPT)
    assert (found.id, list(found.building_ids)) == (KEPT, IDS)
    np.testing.assert_array_equal(found.groups, GROUPS)
    assert (found.groups.dtype, found.membership.dtype) == (np.int16, np.float32)
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


def test_the_last_named_type_of_a_building_counts(db: Connection) -> None:
    facts = {"discovery": KEPT, "groups": [0], "building_ids": ["b0", "b1"]}
    discoveries.decide(db, KEPT, {"tarps": facts}, analyst="ann")
    discoveries.decide(db, KEPT, {"debris": {**facts, "building_ids": ["b1"]}}, analyst="ann")
    decisions.decide(db, "other", "damage_type", "by hand", {"building_ids": ["b0"]}, analyst="bob")
    assert list(discoveries.types(db)) == ["tarps", "debris"]
    assert discoveries.type_of(db) == {"b0": "tarps", "b1": "debris"}


def test_acts_are_undone_one_after_the_other(db: Connection) -> None:
    one, two = ({"discovery": KEPT, "groups": [i], "building_ids": [f"b{i}"]} for i in (0, 1))
    discoveries.decide(db, KEPT, {"tarps": one}, analyst="ann")
    discoveries.decide(db, KEPT, {"tarps": None, "blue tarps": one, None: {"merged": [], "dropped": [2]}}, analyst="ann")
    discoveries.decide(db, KEPT, {"blue tarps": two}, analyst="ann")
    discoveries.decide(db, "types-other", {"mud": two}, analyst="ann")
    assert discoveries.undo(db, KEPT, analyst="bob")
    assert discoveries.types(db)["blue tarps"].facts == one
    discoveries.decide(db, KEPT, {"straw": two}, analyst="ann")  # a new act after an undo is the last
    n_before = decisions.last_decision(db)
    assert discoveries.undo(db, KEPT, analyst="bob")
    assert list(discoveries.types(db)) == ["mud", "blue tarps"]
    with pytest.raises(ProjectError, match="Something else was decided since by ann"):
        discoveries.undo(db, KEPT, analyst="bob", decision=1)
    assert discoveries.last_act(db, KEPT) == 2
    assert discoveries.undo(db, KEPT, analyst="bob", decision=2)
    assert discoveries.review_of(db, KEPT) == discoveries.Review()
    assert {name: each.facts for name, each in discoveries.types(db).items()} == {"mud": two, "tarps": one}
    assert discoveries.undo(db, KEPT, analyst="bob")
    assert list(discoveries.types(db)) == ["mud"]
    assert (discoveries.undo(db, KEPT, analyst="bob"), discoveries.last_act(db, KEPT)) == (False, None)
    assert decisions.last_decision(db) == n_before + 5  # nothing is taken out of the log


def test_merged_groups_count_as_one() -> None:
    assert discoveries.Review([[3, 1]], [0]).joined(5) == [(0,), (1, 3), (2,), (4,)]
