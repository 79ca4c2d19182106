"""Selections with a name: save, load, remove and put back."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from collections.abc import Sequence

from pu_geo.errors import ProjectError
from pu_geo.records import rows_of
from pu_geo.store import contents, decisions, population, store
from pu_geo.store.decisions import Decision
from pu_geo.store.layout import Layout

KIND = "selection"


def saved(layout: Layout) -> list[Decision]:
    """Return all saved selections, the newest first; facts: "building_ids", "run_id"."""
    return [*store.call(layout, decisions.standing, KIND).values()][::-1]


def save(layout: Layout, name: str, building_ids: Sequence[str], *, run_id: str, analyst: str) -> int:
    """Save a selection; another one of this name is replaced, and can be put back.

    Returns:
        Where there was one of this name, the number of this decision, by which it is put back; 0 where there was none.

    Raises:
        ProjectError: if nothing is selected, or the name cannot be one.
    """
    if not building_ids:
        raise ProjectError("No building is selected.", "Draw a line around some dots, then save them.", kind="selection")
    with store.connect(layout) as db, store.transaction(db):
        is_known = decisions.checked_name(name) in decisions.standing(db, KIND)
        facts = {"building_ids": list(building_ids), "run_id": run_id}
        number = decisions.decide(db, uuid.uuid4().hex, KIND, name, facts, analyst=analyst)
    return number if is_known else 0


def remove(layout: Layout, name: str, *, analyst: str) -> int:
    """Remove a selection; return the number of this decision, by which `put_back` restores it."""
    with store.connect(layout) as db, store.transaction(db):
        standing(db, name)
        return decisions.decide(db, uuid.uuid4().hex, KIND, name, None, analyst=analyst)


def put_back(layout: Layout, name: str, *, decision: int, analyst: str) -> int:
    """Restore what a name meant before a decision; return how many buildings that is, 0 for none.

    Args:
        decision: its number, the newest under this name.

    Raises:
        ProjectError: if nothing was ever saved under this name, or somebody saved or removed it since.
    """
    with store.connect(layout) as db, store.transaction(db):
        past = decisions.entries(db, KIND, name)
        if not past:
            raise ProjectError(f"No selection was ever called {name!r}.", "Save one under this name.", kind="selection")
        if past[0].decision != decision:
            raise ProjectError(
                f"{name!r} was changed since, by {past[0].analyst}: that would be lost.", "Look at what is saved now.",
                kind="selection",
            )  # fmt: skip
        facts = past[1].facts if len(past) > 1 else None
        decisions.decide(db, uuid.uuid4().hex, KIND, name, facts, analyst=analyst)
    return len(facts["building_ids"]) if facts else 0


def on_the_ground(layout: Layout, building_ids: Sequence[str]) -> str:
    """Return how many buildings of a selection each site has, and how much closer together they stand than random ones."""
    from pu_geo.analysis import looks  # loads SciPy

    with store.connect(layout) as db:
        known = contents.building_ids(db)
        found, xy = population.sites(db, building_ids), contents.centers_m(db, known)
    sites = [f"{name or 'far from all sites'}: {n:,}" for name, n in sorted(Counter(found.named).items()) if found.names]
    is_in = rows_of(known, building_ids) >= 0
    times = looks.nearer_than_chance(xy - xy.mean(0), is_in)
    near = "" if times is None else f"Stands {times:.1f} times as densely on the ground as buildings at random."
    return " · ".join(filter(None, (*sites, near)))


def standing(db: sqlite3.Connection, name: str) -> Decision:
    found = decisions.standing(db, KIND)
    if name not in found:
        known = ", ".join(found) or "none yet"
        raise ProjectError(f"There is no selection {name!r}; there are: {known}.", "Choose one of them.", kind="selection")
    return found[name]
