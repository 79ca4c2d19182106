"""Rows of a damaged database on their way into a backup of it: as they are, by operation id, in the order of events.

Nothing is interpreted anew. A row is left out, and counted, where it points at one that cannot be read: an undo of a lost
click says nothing about the click before it.

Scenes, footprints and chip sets that were removed or replaced since are taken as a whole or not at all: rows of both states would
make a map of houses that never stood together. See `_Imagery`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import shapely

from pu_geo.project import backups, contents, integrity, salvage, schema
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
    "former": "building_id", "chip_set": "chip_set", "intake": "intake", "aoi_log": "step", "areas": "layer", "run": "run_id", "empty_step": "op",
}  # fmt: skip
"""Table -> the column by which its rows are known."""
_OF_GRID = ("gpkg_contents", "gpkg_geometry_columns")
_REMOVALS = ("removal", "removal_end")
_STATE = ("scene", "footprints", "former", "intake", "chip_set")
"""Tables that a removal or a replacement of one of `_IMAGERY` changes."""
_STATE_KEYS = ("grid", "pre_share")
_IMAGERY = ("scene", "footprints", "chips")
_JSON = {
    "footprints": "attributes", "scene": "facts", "run": "facts", "decision": "facts", "choice": "value", "removal": "facts",
}  # fmt: skip


class _Imagery(Enum):
    """What is taken of the scenes, footprints and chip sets of the other database."""

    MISSING = "the rows that are not here: both have the same removals"
    ALL = "all rows, in the place of those here: it has further removals"
    NONE = "none: it has other removals, and not all of its rows can be read"


@dataclass(frozen=True)
class Recovered:
    """What came over.

    Attributes:
        events: label events that were put in.
        unreadable: newer label events that are known to have been there and cannot be read.
        left_out: label events that can be read, but point at one that cannot, or cannot be stored.
        others: table -> rows that were put in, where there were any.
        is_older: scenes, footprints and chip sets are those of before a removal or replacement, as what came of it cannot be read.
    """

    events: int = 0
    unreadable: int = 0
    left_out: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    is_older: bool = False


@dataclass(frozen=True)
class _Source:
    """What can be read of the other database, by table, and the tables of which that is all."""

    rows: Mapping[str, Readable]
    whole: Collection[str]

    def __getitem__(self, table: str) -> Sequence[Row]:
        return self.rows[table].rows


def merge(
    db: sqlite3.Connection, source: Path, *, is_new: bool = False, trash: Mapping[str, Collection[str]] | None = None
) -> Recovered:
    """Put into a database, in one transaction, every row of another one of the same project that can be read and is not there yet.

    Args:
        source: file that nobody writes to meanwhile; it may be damaged. The log beside it counts.
        is_new: whether the database was made for this, and gets the name and id of the other one.
        trash: operation id of each removal whose files are there -> buildings that it took out.

    Raises:
        OSError: if it cannot be read at all.
    """
    found = _rows_of(source)
    events, n_unreadable = found["label_event"], found.rows["label_event"].n_unreadable
    with transaction(db):
        before = last_event(db)
        had_grid = db.execute("SELECT 1 FROM pugeo_meta WHERE key = 'grid'").fetchone() is not None
        if is_new:
            for row in found["pugeo_meta"]:
                if row["key"] != "schema":
                    _put(db, "pugeo_meta", row, "INSERT OR REPLACE")
        imagery = _Imagery.MISSING if is_new else _imagery(db, found, trash or {})
        others = _put_removals(db, found, with_imagery=is_new or imagery is _Imagery.ALL)
        others |= _exchange(db, found) if imagery is _Imagery.ALL else {}
        tables = [table for table in _KEYS if table not in _STATE or imagery is _Imagery.MISSING]
        others |= {table: _put_missing(db, table, _wanted(table, found[table], imagery)) for table in tables}
        _raise_counters(db, found["pugeo_meta"])
        if imagery is _Imagery.ALL or (imagery is _Imagery.MISSING and not had_grid):
            for table in _OF_GRID:
                for row in found[table]:
                    _put(db, table, row, "INSERT OR REPLACE")
        known = None  # all are, where the whole log can be read
        if "label_event" not in found.whole:
            known = {row["building_id"] for table in ("footprints", "former") for row in found[table]}.union(
                *(trash or {}).values()
            )
        n_events, left_out = _put_events(db, events, known)
        db.execute("DELETE FROM former WHERE building_id IN (SELECT building_id FROM footprints)")
        others |= {table: _put_log(db, table, found[table]) for table in _LOGS}
        contents.note_footprints(db)
    readable = {row["event"] for row in events}
    older = sum(number not in readable for number in range(1, min(before, len(readable) + n_unreadable) + 1))
    return Recovered(
        n_events, max(0, n_unreadable - older), left_out, {table: n for table, n in others.items() if n},
        is_older=imagery is _Imagery.NONE,
    )  # fmt: skip


def _wanted(table: str, rows: Sequence[Row], imagery: _Imagery) -> Sequence[Row]:
    if table == "pugeo_meta" and imagery is _Imagery.NONE:
        return [row for row in rows if row["key"] not in _STATE_KEYS]
    return rows


def _raise_counters(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Set each number of the project, such as the highest one that a footprint was given, to the higher of both: none goes back."""
    higher = (
        "UPDATE pugeo_meta SET value = ?2 WHERE key = ?1 AND key <> 'schema' AND value NOT GLOB '*[^0-9]*' "
        "AND CAST(value AS INTEGER) < CAST(?2 AS INTEGER)"
    )
    for row in rows:
        if isinstance(row["value"], str) and row["value"].isascii() and row["value"].isdigit():
            db.execute(higher, (row["key"], row["value"]))


# Removals


def _imagery(db: sqlite3.Connection, found: _Source, trash: Collection[str]) -> _Imagery:
    here = _acts(*([dict(row) for row in _all_rows(db, table)] for table in _REMOVALS))
    there = _acts(found["removal"], found["removal_end"])
    if not {*_REMOVALS} <= {*found.whole}:
        ends = {op for op, how in here | there if how}
        if {op for op, _ in here | there if op not in ends} != {*trash}:  # an entry of the log is lost
            return _Imagery.NONE
    changed_here, changed_there = (
        {(op, how) for (op, how), kind in acts.items() if kind in _IMAGERY and how != "reclaimed"} for acts in (here, there)
    )
    if changed_here == changed_there:
        return _Imagery.MISSING
    return _Imagery.ALL if changed_here < changed_there and {*_STATE, "pugeo_meta"} <= {*found.whole} else _Imagery.NONE


def _acts(removals: Sequence[Row], ends: Sequence[Row]) -> dict[tuple[Any, Any], Any]:
    """Return (operation id, "" or how it ended) -> kind, for each entry of the two logs."""
    of = {row["removal"]: row for row in removals}
    acts = {(row["op"], ""): row["kind"] for row in removals}
    return acts | {
        (of[row["removal"]]["op"], row["how"]): of[row["removal"]]["kind"] for row in ends if row["removal"] in of
    }


def _put_removals(db: sqlite3.Connection, found: _Source, *, with_imagery: bool) -> dict[str, int]:
    """Add the removals that are not here, and what became of them; take out the runs that were removed.

    Args:
        with_imagery: also those of scenes, footprints and chips, as the rows that they left are taken too.
    """
    number_of = {row["op"]: row["removal"] for row in _all_rows(db, "removal")}
    ended = {row["removal"] for row in _all_rows(db, "removal_end")}
    there = {row["removal"]: row for row in found["removal"] if _is_whole("removal", row)}
    new = []
    for number, row in there.items():
        if row["op"] in number_of or (row["kind"] in _IMAGERY and not with_imagery):
            continue
        given = number if number > max(number_of.values(), default=0) else None
        if _put(db, "removal", {**row, "removal": given}):
            number_of[row["op"]] = db.execute("SELECT max(removal) FROM removal").fetchone()[0]
            new.append(row)
    n_ends, undone = 0, set()
    for end in found["removal_end"]:
        row = there.get(end["removal"], {})
        here = number_of.get(row.get("op"))
        is_wanted = with_imagery or row.get("kind") not in _IMAGERY or end["how"] == "reclaimed"
        if here is not None and here not in ended and is_wanted:
            n_ends += _put(db, "removal_end", {**end, "removal": here})
            undone |= {row["op"]} if end["how"] == "undone" else set()
    kept = {row["run_id"] for row in found["run"]}
    for row in new:
        if row["kind"] == "run" and row["op"] not in undone and row["name"] not in kept:
            for table in ("run", "score"):
                db.execute(f"DELETE FROM {table} WHERE run_id = ?", (row["name"],))
    return {"removal": len(new), "removal_end": n_ends}


def _exchange(db: sqlite3.Connection, found: _Source) -> dict[str, int]:
    """Put the scenes, footprints and chip sets of the other database into the place of those here; return how many are new."""
    n = {}
    for table in _STATE:
        key = _KEYS[table]
        before = {one for (one,) in db.execute(f"SELECT {key} FROM {table}")}
        db.execute(f"DELETE FROM {table}")
        n[table] = sum(_put(db, table, row) and row[key] not in before for row in found[table])
    for one in _STATE_KEYS:
        db.execute("DELETE FROM pugeo_meta WHERE key = ?", (one,))
    return n


def _all_rows(db: sqlite3.Connection, table: str) -> list[Row]:
    cursor = db.execute(f"SELECT * FROM {table} ORDER BY rowid")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


# What can be read


def _rows_of(source: Path) -> _Source:
    """Return the rows of every table that is put in: by SQLite of a file that is whole and of this schema, else page by page."""
    tables = ("label_event", *_LOGS, *_KEYS, *_OF_GRID, *_REMOVALS)
    with suppress(sqlite3.DatabaseError, TypeError, ValueError), closing(_reading(source)) as db:
        db.execute("BEGIN")  # all tables as of one moment: people may click meanwhile
        is_whole = not integrity.strange(db) and [row[0] for row in db.execute("PRAGMA quick_check(1)")] == ["ok"]
        own = db.execute("SELECT value FROM pugeo_meta WHERE key = 'schema'").fetchone()[0]
        if is_whole and int(own) == schema.SCHEMA:
            rows: dict[str, list[Any]] = {table: list(_all_rows(db, table)) for table in tables}
            last = db.execute("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'label_event'").fetchone()[0]
            found = {
                table: Readable(rows[table], last - len(rows[table]) if table == "label_event" else 0) for table in tables
            }
            return _Source(found, tables)
    found = salvage.readable(source, tables)
    return _Source(
        found, [table for table in (*_STATE, *_REMOVALS, "pugeo_meta") if _has_all(source, table, found[table].rows)]
    )


def _reading(source: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{backups.for_sqlite(source).as_uri()}?mode=ro", uri=True)


def _has_all(source: Path, table: str, rows: Sequence[Row]) -> bool:
    """Return whether SQLite finds nothing wrong in one table of a damaged file, and as many rows as were read."""
    with suppress(sqlite3.DatabaseError), closing(_reading(source)) as db:
        is_whole = [row[0] for row in db.execute(f"PRAGMA quick_check({table})")] == ["ok"]
        n = sum(1 for _ in db.execute(f"SELECT * FROM {table} NOT INDEXED"))
        return is_whole and n == len(rows) and all(_is_whole(table, row) for row in rows)
    return False


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
    number = {"footprints": "fid", "areas": "fid", "chip_set": "number", "run": "number"}.get(table)
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


def _put_events(db: sqlite3.Connection, rows: Sequence[Row], known: Collection[Any] | None) -> tuple[int, int]:
    """Add the label events whose operation is not here; return how many, and how many more could be read and did not fit.

    Args:
        known: buildings besides those here that an event may be of; None for any. Labels of removed buildings are kept too.
    """
    columns = "event, op, ifnull(imported_by, analyst), kind, act, undoes"
    log = ActLog()
    for stored in db.execute(f"SELECT {columns} FROM label_event ORDER BY event"):
        log.add(*stored)
    here_too = "SELECT building_id FROM footprints UNION SELECT building_id FROM label_event"
    buildings = {one for (one,) in db.execute(here_too)}.union(known or ())
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
            (known is None or row["building_id"] in buildings)
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
