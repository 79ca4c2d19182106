"""Accepted clusters: their unlabeled buildings count as positives where the next run learns, and nowhere else."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
from numpy.typing import NDArray

from pu_geo.records import PUSet
from pu_geo.store import decisions
from pu_geo.store.decisions import Decision

KIND = "pseudo_positives"
ACCEPT, REJECT, SPLIT, MERGE = "accept", "reject", "split", "merge"


def acts(db: sqlite3.Connection, run_id: str | None = None, *, at: int | None = None) -> list[Decision]:
    """Return the decisions on clusters that stand, oldest first.

    Args:
        run_id: of the run whose clusters they are; all runs if None.
        at: as they stood after this decision; now if None.
    """
    found = decisions.standing(db, KIND, at=at).values()
    return [each for each in found if run_id is None or each.facts["run_id"] == run_id]


def accepted_ids(db: sqlite3.Connection, *, at: int | None = None) -> set[str]:
    """Return the buildings of accepted clusters of all runs; of accepting and rejecting one, the later counts."""
    found: set[str] = set()
    for each in acts(db, at=at):
        if each.facts["decision"] == ACCEPT:
            found.update(each.facts["building_ids"])
        elif each.facts["decision"] == REJECT:
            found.difference_update(each.facts["building_ids"])
    return found


def ever_accepted_ids(db: sqlite3.Connection, before: str) -> set[str]:
    """Return the buildings of clusters that were accepted at any time before, whatever was decided of them later.

    Args:
        before: RFC 3339 UTC.
    """
    rows = db.execute("SELECT facts FROM decision WHERE kind = ? AND at <= ?", (KIND, before))
    found = [facts for (text,) in rows if (facts := json.loads(text)) and facts["decision"] == ACCEPT]
    return {building for facts in found for building in facts["building_ids"]}


def is_accepted(db: sqlite3.Connection, pu: PUSet, *, at: int | None = None) -> NDArray[np.bool_]:
    """Return which unlabeled buildings a run learns from as if they were positives, bool [N] in the order of `pu`.

    A person's answer on a building counts more than its cluster, whichever came first.
    """
    ids = accepted_ids(db, at=at)
    found = np.fromiter((building in ids for building in pu.building_ids), np.bool_, len(pu.building_ids))
    return found & pu.is_open
