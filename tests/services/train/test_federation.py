"""What the Train screen asks of federations: classes that can be held, names that are free, addresses, the ledger, noise in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from federation_parts import agency, shared_set, storm, with_federation
from small_parts import click, small_project

from pu_geo import wording
from pu_geo.errors import FederationError
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.member import OwnData, feature_space
from pu_geo.project import federations, grades, store
from pu_geo.project.federations import Membership, Sent
from pu_geo.project.layout import Layout
from pu_geo.services.train import federation
from pu_geo.services.train.federation import Plan

__all__ = ["storm"]
pytestmark = pytest.mark.usefixtures("home")
Started = list[tuple[str, dict[str, Any]]]


def test_loopback_is_this_computer() -> None:
    for address in ("127.0.0.1", "127.0.0.1:9000", "127.1.2.3", "localhost", "localhost:80"):
        assert federation.is_local(address)
        assert not federation.is_local(address.replace("127.", "12.").replace("local", "other"))


def test_buildings_of_a_class_are_counted_as_a_member_takes_them(storm: Layout) -> None:
    """Grades by their own names, a building of several types once, and a type called damaged of its buildings alone."""
    with store.connect(storm) as db:
        major, minor = [one for one in grades.known(db) if one.is_offered][:2]
    click(storm, "b0", "b1", "b2", grade=major.id, damage_types=["roof"])
    click(storm, "b3", "b4", grade=minor.id, damage_types=["roof", "flooded"])
    click(storm, "b5", "b6", damage_types=["damaged"])
    found = {
        (one.name, one.types_from): one.n
        for one in federation.own_classes(storm)
        if one.types_from in (None, "answers", "grades")
    }
    assert found == {
        ("", None): 8, ("roof", "answers"): 3, ("flooded", "answers"): 2, ("damaged", "answers"): 2, (major.name, "grades"): 3,
        (minor.name, "grades"): 2,
    }  # fmt: skip
    types = tuple(dict.fromkeys(name for name, _ in found if name))
    own = OwnData.read(storm, Agreement("storm", "Storm", ("rest", *types), feature_space(storm, shared_set(storm))))
    for (name, source), n in found.items():
        if name:
            assert len(own.rows_of(name, source)) == n
            federation._require_labels(storm, [Membership(name, source)])
    assert own.rows_of("damaged", "answers").tolist() == [5, 6]
    for name, source in ((f"at least {minor.name}", "grades"), ("crushed", "answers")):
        with pytest.raises(FederationError, match="no damaged building of the class"):
            federation._require_labels(storm, [Membership(name, source)])


def test_ids_are_made_of_titles_and_free_in_each_project(storm: Layout, tmp_path: Path, started: Started) -> None:
    for title in ("Storm", "  ", "Überflutung – 2"):
        first = federation._new_id(title, storm)
        federations.write_agreement(storm.federation(first), b"{}")
        assert federation._new_id(title, storm) == f"{first}-2"
    water = agency(tmp_path / "water.pugeo", "flooded", seed=1)
    federations.write_agreement(water.federation("trial"), b"{}")
    held = {storm.folder: [Membership("destroyed"), Membership("rest")], water.folder: [Membership("flooded")]}
    federation.start_simulation(storm, Plan("Trial"), held)
    assert [args["name"] for _, args in started] == ["trial-2"]
    with pytest.raises(FederationError, match="destroyed"):
        federation.start_simulation(storm, Plan("Trial"), {storm.folder: [Membership("destroyed")]})
    with pytest.raises(FederationError, match="no chips"):
        federation.start_lead(small_project(tmp_path / "bare.pugeo"), Plan("Storm", ("destroyed",)), [])
    assert len(started) == 1


def test_federations_of_one_title_differ_by_their_times_and_ids(storm: Layout) -> None:
    for name, title in (("storm", "Storm"), ("storm-2", "Storm"), ("flood", "Flood")):
        with_federation(storm, id=name, title=title)
        os.utime(storm.federation(name) / federations.AGREEMENT, (0, 1_800_000_000))
    at = wording.day_and_time("2027-01-15T08:00:00+00:00")
    labels = federation.labels_of(storm, federation.all_of(storm))
    assert labels == {"flood": "Flood", "storm": f"Storm · {at} · storm", "storm-2": f"Storm · {at} · storm-2"}


def test_the_ledger_is_counted_and_written_line_by_line(storm: Layout) -> None:
    found = federation.ledger(with_federation(storm, n_rounds=3), "storm")
    assert federation.ledger_csv(found).splitlines()[1].endswith(f"head.weight,float32,64 x 256,65536,{1:064x}")
    assert federation.ledger_lines(found).count("\n") == 3
    assert [row["round"] for row in federation.ledger_table(found)] == ["1", "2", "3"]
    of_model = Sent(store.now(), "model", "flooded", 0, "class_vectors", "float32", (3, 8), 96, "0" * 64)
    assert federation.ledger_table([of_model])[0]["round"] == "", "and no None on the screen"
    now = federation.read(storm, "storm")
    assert [round(angle) for _, angle in now.angles] == [60, 60, 60], "cosine 0.5 is 60 degrees"


def test_noise_is_named_with_its_epsilon_for_one_class_and_for_all_of_a_project() -> None:
    """Each class of a project is in the sum that gets the noise: see the epsilon in tests/federation/test_privacy.py."""
    central = federation.privacy_words({"kind": "central", "clip": 1.0, "epsilon": 8.0, "delta": 1e-5}, 2)
    assert "epsilon is 8 at delta 1e-05" in central
    assert "up to 18.1 for the 2 classes of this project together" in central
    local = federation.privacy_words({"kind": "local", "clip": 1.0, "epsilon": 8.0, "delta": 1e-5})
    assert "up to 11.9 for an agency that holds two" in local
    assert "no formal privacy" in federation.privacy_words({"kind": "none"})
