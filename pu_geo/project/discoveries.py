"""Proposed groups of buildings, `discoveries/<id>/`, and what people made of them: names, merged and dropped groups.

A finished discovery is never changed. What people decide about it is in the append-only log of `decisions`: a named group
is a decision of kind "damage_type", what was merged and dropped is one of kind "groups" for the whole discovery.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import ProjectError
from pu_geo.files import make_folder, move_path, remove_path
from pu_geo.project import decisions
from pu_geo.project.decisions import Decision
from pu_geo.project.layout import Layout, read_array, read_json, write_array, write_facts, write_json
from pu_geo.project.store import now, transaction

NAMED, REVIEWED = "damage_type", "groups"
FACTS, IDS, GROUPS = "discovery.json", "building_ids.json", "groups.npy"
NO_GROUP = -1


@dataclass(frozen=True)
class Discovery:
    """A proposal, as it was made.

    Attributes:
        facts: what it was made from and how sure it is; see `tasks.explore.discover`.
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


@dataclass(frozen=True)
class Review:
    """What people made of the groups of a discovery without naming them.

    Attributes:
        merged: sets of groups that count as one, each in ascending order.
        dropped: groups that are no longer shown.
    """

    merged: Sequence[Sequence[int]] = ()
    dropped: Sequence[int] = ()

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
    names = ", ".join(str(facts["discovery"]) for facts in known[:5]) or "none yet"
    raise ProjectError(
        f"This project has no discovery {discovery_id!r}; there are: {names}.",
        "Name one of them, or make one on the Explore page or with `pu-geo discover`.",
        kind="discovery",
    )


# What people decide


def review_of(db: sqlite3.Connection, discovery_id: str) -> Review:
    """Return what is merged and dropped now."""
    found = decisions.standing(db, REVIEWED).get(_review_name(discovery_id))
    return Review() if found is None else Review(found.facts["merged"], found.facts["dropped"])


def types(db: sqlite3.Connection) -> dict[str, Decision]:
    """Return the named types of all discoveries by name, in the order of naming; facts: "discovery", "groups", "building_ids"."""
    return {name: each for name, each in decisions.standing(db, NAMED).items() if "discovery" in each.facts}


def type_of(db: sqlite3.Connection) -> dict[str, str]:
    """Return building id -> the named type that a machine put it into; where there are several, the one named last."""
    return {building: name for name, each in types(db).items() for building in each.facts["building_ids"]}


def decide(
    db: sqlite3.Connection, discovery_id: str, changes: Mapping[str | None, Mapping[str, Any] | None], *, analyst: str,
    undoes: str = "",
) -> None:  # fmt: skip
    """Store one act about a discovery, which is undone as a whole.

    Args:
        changes: name of a type -> its facts, None to take the name away; the key None is the review.
        undoes: the act that this one takes back.
    """
    act = f"{discovery_id}:{undoes or secrets.token_hex(8)}:{secrets.token_hex(4) if undoes else ''}"
    with transaction(db):
        for number, (name, facts) in enumerate(changes.items()):
            kind, named = (REVIEWED, _review_name(discovery_id)) if name is None else (NAMED, name)
            decisions.decide(db, f"{act}:{number}", kind, named, facts, analyst=analyst)


Act = list[tuple[int, str, str, str]]


def _acts(db: sqlite3.Connection) -> dict[tuple[str, str], Act]:
    """Return the acts that stand, by discovery and id, oldest first: (decision, kind, name, analyst) of each of their parts."""
    rows = db.execute(
        "SELECT decision, op, kind, name, analyst FROM decision WHERE kind IN (?, ?) ORDER BY decision", (NAMED, REVIEWED)
    )
    found: dict[tuple[str, str], Act] = {}
    for number, op, kind, name, analyst in rows:
        discovery, act, is_undo, _ = op.split(":") if op.count(":") == 3 else ("", op, "", "")
        if is_undo:
            found.pop((discovery, act), None)
        else:
            found.setdefault((discovery, act), []).append((number, kind, name, analyst))
    return found


def last_act(db: sqlite3.Connection, discovery_id: str) -> int | None:
    """Return the number of the last act about a discovery that counts, that of its first decision; None if there is none."""
    own = [parts for (discovery, _), parts in _acts(db).items() if discovery == discovery_id]
    return own[-1][0][0] if own else None


def undo(db: sqlite3.Connection, discovery_id: str, *, analyst: str, decision: int | None = None) -> bool:
    """Undo the last act about a discovery that counts; return whether there was one.

    Args:
        decision: its number, as `last_act` gives it; None for whichever is the last one.

    Raises:
        ProjectError: if another act is the last one, or one of its names was given to something else since.
    """
    with transaction(db):
        acts = _acts(db)
        own = [(act, parts) for (discovery, act), parts in acts.items() if discovery == discovery_id]
        if decision is not None and (not own or own[-1][1][0][0] != decision):
            who = f" by {own[-1][1][0][3]}" if own else ""
            raise ProjectError(
                f"Something else was decided since{who}.", "Look at the groups as they are now.", kind="decision"
            )
        if not own:
            return False
        act, parts = own[-1]
        _refuse_what_was_decided_since(acts.values(), parts)
        before = {kind: decisions.standing(db, kind, at=parts[0][0] - 1) for kind in (NAMED, REVIEWED)}
        changes = {
            None if kind == REVIEWED else name: before[kind][name].facts if name in before[kind] else None
            for _, kind, name, _ in parts
        }
        decide(db, discovery_id, changes, analyst=analyst, undoes=act)
    return True


def _refuse_what_was_decided_since(acts: Iterable[Act], parts: Act) -> None:
    newest = {(kind, name): (number, who) for act in acts for number, kind, name, who in sorted(act)}
    for number, kind, name, _ in parts:
        last, who = newest[kind, name]
        if last > number:
            raise ProjectError(
                f"{name!r} was decided anew since, by {who}: that would be lost.", "Take that back first.", kind="decision"
            )


def _review_name(discovery_id: str) -> str:
    return f"groups of {discovery_id}"
