"""Rows of a damaged or newer database on their way into a backup of it: as they are, by operation id, in the order of events.

Nothing is interpreted anew. A row is left out, and counted, where it points at one that cannot be read: an undo of a lost
click says nothing about the click before it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import shapely

from pu_geo.project import contents, salvage, schema
from pu_geo.project.contents import wkb_from_blob
from pu_geo.project.history import ActLog
from pu_geo.project.labels import last_event
from pu_geo.project.salvage import Readable
from pu_geo.project.store import transaction

Row = Mapping[str, Any]
_LOGS = {"decision": "decision", "choice": "choice", "threshold": "step", "pinned_run": "pin"}
"""Log -> its column of numbers, which only grow."""
_KEYS = {
    "gpkg_spatial_ref_sys": "srs_id", "pugeo_meta": "key", "footprints": "building_id", "scene": "scene_id",
    "chip_set": "chip_set", "intake": "intake", "aoi_log": "step", "areas": "layer", "run": "run_id", "empty_step": "op",
}  # fmt: skip
"""Table -> the column by which its rows are known."""
_OF_GRID = ("gpkg_contents", "gpkg_geometry_columns")
_JSON = {"footprints": "attributes", "scene": "facts", "run": "facts", "decision": "facts", "choice": "value"}


@dataclass(frozen=True)
class Recovered:
    """What came over.

    Attributes:
        events: label events that were put in.
        unreadable: newer label events that are known to have been there and cannot be read.
        left_out: label events that can be read, but point at one that cannot, or cannot be stored.
        others: table -> rows that were put in, where there were any.
    """

    events: int = 0
    unreadable: int = 0
    left_out: int = 0
    others: Mapping[str, int] = field(default_factory=dict)


def merge(db: sqlite3.Connection, source: Path, *, is_new: bool = False) -> Recovered:
    """Put into a database, in one transaction, every row of another one of the same project that can be read and is not there yet.

    Args:
        source: file that nobody writes to meanwhile; it may be damaged. The log beside it counts.
        is_new: whether the database was made for this, and gets the name and id of the other one.

    Raises:
        OSError: if it cannot be read at all.
    """
    found = _rows_of(source)
    events, n_unreadable = found["label_event"].rows, found["label_event"].n_unreadable
    with transaction(db):
        before = last_event(db)
        had_grid = db.execute("SELECT 1 FROM pugeo_meta WHERE key = 'grid'").fetchone() is not None
        if is_new:
            for row in found["pugeo_meta"].rows:
                if row["key"] != "schema":
                    _put(db, "pugeo_meta", row, "INSERT OR REPLACE")
        others = {table: _put_missing(db, table, found[table].rows) for table in _KEYS}
        if not had_grid:
            for table in _OF_GRID:
                for row in found[table].rows:
                    _put(db, table, row, "INSERT OR REPLACE")
        n_events, left_out = _put_events(db, events)
        others |= {table: _put_log(db, table, found[table].rows) for table in _LOGS}
        contents.note_restore(db, {row["key"]: row["value"] for row in found["pugeo_meta"].rows})
    readable = {row["event"] for row in events}
    older = sum(number not in readable for number in range(1, min(before, len(readable) + n_unreadable) + 1))
    return Recovered(n_events, max(0, n_unreadable - older), left_out, {table: n for table, n in others.items() if n})


def _rows_of(source: Path) -> dict[str, Readable]:
    """Return the rows of every table that is put in: by SQLite of a file that is whole and of this schema, else page by page."""
    tables = ("label_event", *_LOGS, *_KEYS, *_OF_GRID)
    with (
        suppress(sqlite3.DatabaseError, TypeError, ValueError),
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as db,
    ):
        db.row_factory = sqlite3.Row
        is_whole = [row[0] for row in db.execute("PRAGMA quick_check(1)")] == ["ok"]
        own = db.execute("SELECT value FROM pugeo_meta WHERE key = 'schema'").fetchone()[0]
        if is_whole and int(own) == schema.SCHEMA:
            rows = {table: [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY rowid")] for table in tables}
            last = db.execute("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'label_event'").fetchone()[0]
            return {
                table: Readable(rows[table], last - len(rows[table]) if table == "label_event" else 0) for table in tables
            }
    return salvage.readable(source, tables)


def _put(db: sqlite3.Connection, table: str, row: Row, verb: str = "INSERT") -> bool:
    marks = ", ".join("?" * len(row))
    try:
        db.execute(f"{verb} INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    except sqlite3.IntegrityError:
        return False
    return True


def _put_missing(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> int:
    """Add the rows whose key is not there; return how many. A row number that another row has is given anew."""
    key = _KEYS[table]
    known = {one for (one,) in db.execute(f"SELECT {key} FROM {table}")}
    number = {"footprints": "fid", "areas": "fid"}.get(table)
    n = 0
    for row in rows:
        if row[key] is None or row[key] in known or not _is_whole(table, row):
            continue
        n += _put(db, table, row) or (number is not None and _put(db, table, {**row, number: None}))
    return n


def _put_log(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> int:
    """Add the rows of a log that came after its last one here, and decisions whose operation id is not here."""
    number = _LOGS[table]
    last = int(db.execute(f"SELECT ifnull(max({number}), 0) FROM {table}").fetchone()[0])
    n = 0
    for row in rows:
        if _is_whole(table, row) and (row[number] > last or "op" in row):
            n += _put(db, table, row if row[number] > last else {**row, number: None})
    return n


def _is_whole(table: str, row: Row) -> bool:
    """Return whether what a row holds beside plain values can be read."""
    try:
        value: Any = json.loads(row[_JSON[table]]) if table in _JSON else None
        if table in ("run", "scene") and value[_KEYS[table]] != row[_KEYS[table]]:
            return False
        return table not in ("footprints", "areas") or shapely.from_wkb(wkb_from_blob(row["geom"])) is not None
    except (ValueError, TypeError, KeyError, shapely.errors.GEOSException):
        return False


def _put_events(db: sqlite3.Connection, rows: Sequence[Row]) -> tuple[int, int]:
    """Add the label events whose operation is not here; return how many, and how many more could be read and did not fit."""
    columns = "event, op, ifnull(imported_by, analyst), kind, act, undoes"
    log = ActLog()
    for stored in db.execute(f"SELECT {columns} FROM label_event ORDER BY event"):
        log.add(*stored)
    buildings = {one for (one,) in db.execute("SELECT building_id FROM footprints")}
    here = {row["event"]: log.event_of[row["op"]] for row in rows if row["op"] in log.event_of}
    of_others = {row["event"] for row in rows} - {*here}  # numbers that stand for other operations there than here
    last = max(log.event_of.values(), default=0)
    here |= {number: number for number in log.event_of.values() if number not in of_others and number not in here}
    put = left_out = 0
    for row in rows:
        if row["op"] in log.event_of:
            continue
        undoes, answer = (None if row[name] is None else here.get(row[name], 0) for name in ("undoes", "answer"))
        who = row["imported_by"] or row["analyst"]
        event = max(row["event"], last + 1)
        fits = (
            row["building_id"] in buildings
            and undoes != 0
            and answer != 0
            and log.fits(who, row["kind"], row["act"], undoes)
        )
        if not fits or not _put(db, "label_event", {**row, "event": event, "undoes": undoes, "answer": answer}):
            left_out += 1
            continue
        log.add(event, row["op"], who, row["kind"], row["act"], undoes)
        here[row["event"]] = last = event
        put += 1
    return put, left_out
