"""What became of each file of footprints: features in it = kept as they were + repaired + dropped, each drop with its reason."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pu_geo.project import contents
from pu_geo.project.store import now, transaction
from pu_geo.records import FootprintTable

DUPLICATE = "here already"


@dataclass(frozen=True)
class ImportRecord:
    """The account of one file, or of one grid that was laid.

    Attributes:
        file: its name, without folders.
        at: when it was taken in, RFC 3339 UTC.
        n_in: features in the file; kept + repaired + n_dropped. One that was split into several buildings counts once.
        kept: taken in as they were.
        repaired: mended, then taken in.
        dropped: how many were left out for which reason.
        notes: one sentence for each kind of repair, drop or renaming.
    """

    file: str
    at: str
    n_in: int
    kept: int
    repaired: int
    dropped: Mapping[str, int]
    notes: Sequence[str]

    @property
    def n_dropped(self) -> int:
        return sum(self.dropped.values())


def import_footprints(db: sqlite3.Connection, table: FootprintTable, file: str) -> ImportRecord:
    """Add footprints and write down what became of their file, in one transaction.

    Args:
        table: its reasons must add up to its drops.
        file: name to be shown.

    Raises:
        FootprintError: if an id is here already with another outline.
    """
    with transaction(db):
        new = contents.insert_footprints(db, table)
        feature = table.feature_of
        is_mended = np.zeros(len(table.wkb), np.bool_) if table.is_repaired is None else table.is_repaired
        taken, repaired = (len(np.unique(feature[rows])) for rows in (new, [i for i in new if is_mended[i]]))
        twice = len(np.unique(feature)) - taken
        dropped = {**table.dropped, **({DUPLICATE: twice} if twice else {})}
        notes = [*table.notes, *([f"{twice} footprint(s) are in the project already and were left out."] if twice else [])]
        found = ImportRecord(file, now(), table.n_in, taken - repaired, repaired, dropped, notes)
        db.execute(
            "INSERT INTO intake (file, at, n_in, kept, repaired, dropped, dropped_by, notes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (file, found.at, found.n_in, found.kept, repaired, found.n_dropped, _json(dropped), _json(notes)),
        )
    return found


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def all_records(db: sqlite3.Connection) -> list[ImportRecord]:
    """Return every account, the newest first."""
    rows = db.execute("SELECT file, at, n_in, kept, repaired, dropped_by, notes FROM intake ORDER BY intake DESC")
    return [
        ImportRecord(file, at, n_in, kept, repaired, json.loads(dropped), json.loads(notes))
        for file, at, n_in, kept, repaired, dropped, notes in rows
    ]
