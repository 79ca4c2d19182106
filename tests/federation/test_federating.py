"""What the Train screen asks of federations: classes that can be held, names that are free, addresses, the ledger, noise in words."""

from pathlib import Path
from typing import Any

import pytest
from federation_parts import agency, storm
from small_parts import click, small_project

from pu_geo.errors import FederationError
from pu_geo.federation import federating
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.federating import Plan
from pu_geo.federation.member_job import OwnData, feature_space
from pu_geo.store import federations, grades, store
from pu_geo.store.layout import Layout

__all__ = ["storm"]
pytestmark = pytest.mark.usefixtures("home")
Started = list[tuple[str, dict[str, Any]]]


def test_loopback_is_this_computer() -> None:
    for address in ("127.0.0.1", "127.0.0.1:9000", "127.1.2.3", "localhost", "localhost:80"):
        assert federating.is_local(address)
        assert not federating.is_local(address.replace("127.", "12.").replace("local", "other"))


def test_buildings_of_a_class_are_counted_as_a_member_takes_them(storm: Layout) -> None:
    """Grades by their own names, a building of several types once, and a type called damaged of its buildings alone."""
    with store.connect(storm) as db:
        major, minor = [one for one in grades.known(db) if one.is_offered][:2]
    click(storm, "b0", "b1", "b2", grade=major.id, damage_types=["roof"])
    click(storm, "b3", "b4", grade=minor.id, damage_types=["roof", "flooded"])
    click(storm, "b5", "b6", damage_types=["damaged"])
    found = {(one.name, one.types_from): one.n for one in federating.own_classes(storm)}
    assert found == {
        ("", None): 8, ("roof", "answers"): 3, ("flooded", "answers"): 2, ("damaged", "answers"): 2, (major.name, "grades"): 3,
        (minor.name, "grades"): 2,
    }  # fmt: skip
    types = tuple(dict.fromkeys(name for name, _ in found if name))
    own = OwnData.read(storm, Agreement("storm", "Storm", ("rest", *types), feature_space(storm)))
    for (name, source), n in found.items():
        if name:
            assert len(own.rows_of(name, source)) == n
            federating._require_labels(storm, {name: source})
    assert own.rows_of("damaged", "answers").tolist() == [5, 6]
    for name, source in ((f"at least {minor.name}", "grades"), ("crushed", "answers")):
        with pytest.raises(FederationError, match="no damaged building of the class"):
            federating._require_labels(storm, {name: source})


def test_ids_are_made_of_titles_and_free_in_each_project(storm: Layout, tmp_path: Path) -> None:
    for title in ("Storm", "  ", "Überflutung – 2"):
        first = federating._new_id(title, storm)
        federations.write_agreement(storm.federation(first), b"{}")
        assert federating._new_id(title, storm) == f"{first}-2"
    water = agency(tmp_path / "water.pugeo", "flooded", seed=1)
    federations.write_agreement(water.federation("trial"), b"{}")
    held = {storm: {"destroyed": None, "rest": None}, water: {"flooded": None}}
    args = federating.arguments_to_simulate(storm, Plan("Trial"), held)
    assert (args["federation"], args["plan"]["types"]) == ("trial-2", ("destroyed", "flooded"))
    with pytest.raises(FederationError, match="destroyed"):
        federating.arguments_to_simulate(storm, Plan("Trial"), {storm: {"destroyed": None}})
    with pytest.raises(FederationError, match="Flower" if not federating.is_installed() else "no chips"):
        federating.arguments_to_lead(small_project(tmp_path / "bare.pugeo"), Plan("Storm", ("destroyed",)), {})
