"""What became of each file of footprints: features in it = kept as they were + repaired + dropped, each drop with its
reason.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pu_geo.errors import ProjectError
from pu_geo.records import FootprintTable
from pu_geo.store import contents
from pu_geo.store.store import now, transaction

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
        doubts: what the outlines may say wrongly, one sentence each.
    """

    file: str
    at: str
    n_in: int
    kept: int
    repaired: int
    dropped: Mapping[str, int]
    notes: Sequence[str]
    doubts: Sequence[str] = ()

    @property
    def n_dropped(self) -> int:
        return sum(self.dropped.values())


def import_footprints(
    db: sqlite3.Connection, table: FootprintTable, file: str, *, replaces: bool = False, come_back: Collection[str] = ()
) -> ImportRecord:  # fmt: skip
    """Add footprints and write down what became of their file, in one transaction.

    Args:
        table: its reasons must add up to its drops.
        file: name to be shown.
        replaces: whether all other footprints were removed before: then those that are here already count as kept.
        come_back: see `contents.insert_footprints`.
    """
    with transaction(db):
        new = contents.insert_footprints(db, table, come_back)
        feature, here = table.feature_of, list(range(len(table.wkb))) if replaces else list(new)
        is_mended = np.zeros(len(table.wkb), np.bool_) if table.is_repaired is None else table.is_repaired
        taken, repaired = (len(np.unique(feature[rows])) for rows in (here, [i for i in here if is_mended[i]]))
        twice = len(np.unique(feature)) - taken
        dropped = {**table.dropped, **({DUPLICATE: twice} if twice else {})}
        notes = [*table.notes, *([f"{twice} footprint(s) are in the project already and were left out."] if twice else [])]
        if others := [own for row, building in new.items() if (own := table.building_ids[row]) not in ("", building)]:
            notes.append(
                f"{len(others):,} footprint(s) have the id of a building elsewhere, such as {others[0]}; they get ids of "
                "the project."
            )
        found = ImportRecord(file, now(), table.n_in, taken - repaired, repaired, dropped, notes, list(table.doubts))
        numbers = (file, found.at, found.n_in, found.kept, repaired, found.n_dropped)
        done = db.execute(
            "INSERT INTO intake (file, at, n_in, kept, repaired, dropped, dropped_by, notes, doubts) VALUES (?, ?, ?, ?, "
            "?, ?, ?, ?, ?)",
            (*numbers, *(json.dumps(one, ensure_ascii=False) for one in (dropped, notes, table.doubts))),
        )
        newest = "SELECT fid FROM footprints ORDER BY fid DESC LIMIT ?"
        n = -1 if replaces else len(new)  # -1: all
        db.execute(f"UPDATE footprints SET intake = ? WHERE fid IN ({newest})", (done.lastrowid, n))
    return found


def all_records(db: sqlite3.Connection) -> list[ImportRecord]:
    """Return every account, the newest first."""
    rows = db.execute("SELECT file, at, n_in, kept, repaired, dropped_by, notes, doubts FROM intake ORDER BY intake DESC")
    return [
        ImportRecord(file, at, n_in, kept, repaired, *map(json.loads, lists))
        for file, at, n_in, kept, repaired, *lists in rows
    ]


def doubts(db: sqlite3.Connection) -> list[str]:
    """Return what the outlines of files that are here may say wrongly, in sentences, the oldest first."""
    rows = db.execute("SELECT doubts FROM intake WHERE intake IN (SELECT intake FROM footprints) ORDER BY intake")
    return list(dict.fromkeys(words for (text,) in rows for words in json.loads(text)))


def footprints_of(db: sqlite3.Connection, file: str) -> list[str]:
    """Return the ids of the footprints that came from a file, by the name in its account.

    Raises:
        ProjectError: if no file of that name was added.
    """
    numbers = [row[0] for row in db.execute("SELECT intake FROM intake WHERE file = ?", (file,))]
    known = sorted({record.file for record in all_records(db)})
    if not numbers:
        raise ProjectError(
            f"No file {file!r} was added to this project; these were: {', '.join(known) or 'none'}.", "Name one."
        )
    some = json.dumps(numbers)
    query = "SELECT building_id FROM footprints WHERE intake IN (SELECT value FROM json_each(?)) ORDER BY fid"
    return [row[0] for row in db.execute(query, (some,))]
