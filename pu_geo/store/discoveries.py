"""Proposed groups of buildings, `discoveries/<id>/`, and what people made of them: names, merged and dropped groups.

A finished discovery is never changed. What people decide about it is in the append-only log of `decisions`: each act is one
entry with all that is named, merged and dropped then.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.files import make_folder, move_path, remove_path
from pu_geo.store import decisions
from pu_geo.store.decisions import Decision
from pu_geo.store.layout import Layout, read_array, read_json, write_array, write_facts, write_json
from pu_geo.store.store import now, transaction
from pu_geo.wording import listed

KIND = "groups"
FACTS, IDS, GROUPS = "discovery.json", "building_ids.json", "groups.npy"
NO_GROUP = -1


@dataclass(frozen=True)
class Discovery:
    """A proposal, as it was made.

    Attributes:
        facts: what it was made from and how sure it is; see `explore.discover_job`.
        building_ids: [N], in the order of the chip set.
        groups: of each building, int16 [N]; -1 for buildings that were left out.
    """

    facts: Mapping[str, Any]
    building_ids: Sequence[str]
    groups: NDArray[np.int16]

    @property
    def id(self) -> str:
        return str(self.facts["discovery"])

    def members(self, numbers: Iterable[int]) -> list[str]:
        """Return the buildings of some groups."""
        rows = np.flatnonzero(np.isin(self.groups, list(numbers))).tolist()
        return [self.building_ids[row] for row in rows]


@dataclass
class Review:
    """What people made of the groups of a discovery.

    Attributes:
        merged: sets of groups that count as one, each in ascending order.
        dropped: groups that are no longer shown.
        names: group -> the type that it was named as.
    """

    merged: list[list[int]] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)

    def joined(self, n_groups: int) -> list[tuple[int, ...]]:
        """Return all groups 0..n_groups-1 as people see them: merged ones together, in the order of their first number."""
        found = [tuple(sorted(each)) for each in self.merged]
        alone = set(range(n_groups)) - {group for each in found for group in each}
        return sorted([*found, *((group,) for group in alone)])


def new_id() -> str:
    """Return an id that no discovery has."""
    stamp = now()[5:16].replace("-", "").replace("T", "-").replace(":", "")
    return f"types-{stamp}-{secrets.token_hex(2)}"


def keep(layout: Layout, work: Path, facts: Mapping[str, Any], ids: Sequence[str], groups: NDArray[np.int16]) -> None:
    """Write a discovery in the folder `work`, then move it to its place in one step: it is there as a whole or not at all.

    Args:
        work: an empty place on the project's disk, such as in the folder of the job.
    """
    remove_path(work)
    make_folder(work)
    write_json(work / IDS, list(ids))
    write_array(work / GROUPS, groups)
    write_facts(work / FACTS, facts, [work / IDS, work / GROUPS])
    move_path(work, layout.discovery(str(facts["discovery"])))


def all_facts(layout: Layout) -> list[Mapping[str, Any]]:
    """Return the facts of every discovery of a project, newest first."""
    found = [read_json(path) for path in layout.path("discoveries").glob(f"*/{FACTS}")]
    return sorted(found, key=lambda facts: (facts["made_at"], facts["discovery"]), reverse=True)


def load(layout: Layout, discovery_id: str) -> Discovery:
    """Return one discovery; "latest" is the newest. Raises ProjectError if there is no such discovery."""
    known = all_facts(layout)
    for facts in known:
        if discovery_id in (facts["discovery"], "latest"):
            folder = layout.discovery(facts["discovery"])
            return Discovery(facts, read_json(folder / IDS), read_array(folder / GROUPS))
    names = listed([str(facts["discovery"]) for facts in known]) or "none yet"
    raise ProjectError(
        f"This project has no discovery {discovery_id!r}; there are: {names}.",
        "Name one of them, or make one on the Explore page or with `pu-geo discover`.",
        kind="discovery",
    )


# What people decide


def review_of(db: sqlite3.Connection, discovery_id: str) -> Review:
    """Return what is merged, dropped and named now."""
    facts = _facts(db, discovery_id)
    own = {name: each for name, each in types(db).items() if each["discovery"] == discovery_id}
    names = {group: name for name, each in own.items() for group in each["groups"]}
    return Review([list(each) for each in facts["merged"]], set(facts["dropped"]), names)


def _facts(db: sqlite3.Connection, discovery_id: str, *, at: int | None = None) -> Mapping[str, Any]:
    found = decisions.standing(db, KIND, at=at).get(_name(discovery_id))
    return {"discovery": discovery_id, "merged": [], "dropped": [], "types": {}} if found is None else found.facts


def types(db: sqlite3.Connection) -> dict[str, Mapping[str, Any]]:
    """Return the named types of all discoveries by name, in the order of naming: {"discovery", "groups", "building_ids"}
    each.

    Where several discoveries have a name, it is of the one where it was given last.
    """
    every = [
        (each["number"], name, {**each, "discovery": decision.facts["discovery"]})
        for decision in decisions.standing(db, KIND).values()
        for name, each in decision.facts["types"].items()
    ]
    found: dict[str, Mapping[str, Any]] = {}
    for _, name, each in sorted(every, key=lambda one: one[0]):
        found.pop(name, None)
        found[name] = each
    return found


def type_of(db: sqlite3.Connection) -> dict[str, str]:
    """Return building id -> the named type that a machine put it into; where there are several, the one named last."""
    return {building: name for name, each in types(db).items() for building in each["building_ids"]}


def decide(db: sqlite3.Connection, found: Discovery, review: Review, *, analyst: str) -> None:
    """Store what people made of a discovery, where it is another thing than before, as one act."""
    with transaction(db):
        before, known = _facts(db, found.id), types(db)
        own = {  # names that another discovery has now come back with its undo
            name: each
            for name, each in before["types"].items()
            if known[name]["discovery"] != found.id and not set(each["groups"]) & {*review.names, *review.dropped}
        }
        for name in dict.fromkeys(review.names.values()):
            groups = sorted(group for group, other in review.names.items() if other == name)
            same = known.get(name, {})
            is_same = same.get("discovery") == found.id and same["groups"] == groups
            number = same["number"] if is_same else decisions.last_decision(db) + 1
            own[name] = {"groups": groups, "building_ids": found.members(groups), "number": number}
        facts = {"discovery": found.id, "merged": review.merged, "dropped": sorted(review.dropped), "types": own}
        if any(facts[name] != before[name] for name in facts):
            _store(db, facts, analyst)


def _store(db: sqlite3.Connection, facts: Mapping[str, Any], analyst: str) -> None:
    decisions.decide(db, secrets.token_hex(16), KIND, _name(facts["discovery"]), facts, analyst=analyst)


def last_act(db: sqlite3.Connection, discovery_id: str) -> Decision | None:
    """Return the last act about a discovery that counts; None if there is none."""
    acts: list[Decision] = []
    for one in decisions.entries(db, KIND, _name(discovery_id))[::-1]:
        if "undoes" in one.facts:
            acts.pop()
        else:
            acts.append(one)
    return acts[-1] if acts else None


def undo(db: sqlite3.Connection, discovery_id: str, *, analyst: str, decision: int | None = None) -> bool:
    """Undo the last act about a discovery that counts; return whether there was one.

    Args:
        decision: its number; None for whichever is the last one.

    Raises:
        ProjectError: if another act is the last one.
    """
    with transaction(db):
        act = last_act(db, discovery_id)
        if decision is not None and (act is None or act.decision != decision):
            who = f" by {act.analyst}" if act else ""
            raise ProjectError(
                f"Something else was decided since{who}.", "Look at the groups as they are now.", kind="decision"
            )
        if act is None:
            return False
        _store(db, {**_facts(db, discovery_id, at=act.decision - 1), "undoes": act.decision}, analyst)
    return True


def _name(discovery_id: str) -> str:
    return f"groups of {discovery_id}"
