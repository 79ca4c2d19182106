"""The whole label log on its way from one project to another: every event, and its place in the order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter

from pu_geo.records import MAX_NAME, LabelOp, is_text, utc
from pu_geo.store.journal import Row, last_event
from pu_geo.store.labels import NEWEST, insert_all

COLUMNS: Mapping[str, str] = {  # column of a history file -> SQL
    **{name: name for name in ("event", "op", "building_id", "label", "reason", "damage_types", "comment", "shown")},
    "inclusion": "inclusion",
    "grade": "grade",
    "absent_types": "absent_types",
    "analyst": "analyst",
    "at": "ifnull(origin_at, at)",
    "screen": "screen",
    "kind": "ifnull(origin_kind, kind)",
    "undoes": "undoes",
    "answer": "answer",
    "act": "act",
    "imported_by": "imported_by",
    "stored_at": "at",
    "stored_kind": "kind",
}
MOST_STEPS = 10  # digits and a sign that an undo of many events adds to its operation id
KINDS = ("set", "undo", "redo", "import", "simulated")
_TYPES = ("damage_types", "absent_types")
_TEXTS = ("op", "building_id", "label", "reason", "comment", "shown", "grade", "analyst", "screen", "act")
_MOST_EVENTS = 2**53


def rows(db: sqlite3.Connection, *, at: int) -> Iterator[tuple[object, ...]]:
    """Yield every event up to number `at`, oldest first, as a row of `COLUMNS`."""
    yield from db.execute(f"SELECT {', '.join(COLUMNS.values())} FROM label_event WHERE event <= ? ORDER BY event", (at,))


def of_building(db: sqlite3.Connection, building_id: str) -> list[dict[str, object]]:
    """Return every event of one building, oldest first: {"event", "at", "analyst", "label", "reason", "grade",
    "damage_types",
    "absent_types", "comment", "kind", "screen", "shown", "undoes"}; types are lists."""
    names = ("event", "at", "analyst", "label", "reason", "grade", *_TYPES, "comment", "kind", "screen", "shown", "undoes")
    wanted = ", ".join(COLUMNS[name] for name in names)
    found = db.execute(f"SELECT {wanted} FROM label_event WHERE building_id = ? ORDER BY event", (building_id,))
    events = [dict(zip(names, row, strict=True)) for row in found]
    return [{**event, **{name: json.loads(str(event[name])) for name in _TYPES}} for event in events]


def row_of(cells: Mapping[str, str]) -> Row:
    """Return the row of the log that a row of a history file was written from, column -> value.

    Args:
        cells: of `COLUMNS`, as texts; "" for NULL.

    Raises:
        ValueError, OverflowError: if a number or a time makes no sense.
    """
    at, stored_at, kind, stored_kind = utc(cells["at"]), utc(cells["stored_at"]), cells["kind"], cells["stored_kind"]
    return {
        **{name: cells[name] for name in (*_TEXTS, *_TYPES)},
        **{name: int(cells[name]) if cells[name] else None for name in ("event", "undoes", "answer")},
        "inclusion": float(cells["inclusion"]) if cells["inclusion"] else None,
        "at": stored_at,
        "origin_at": None if at == stored_at else at,
        "kind": stored_kind,
        "origin_kind": None if kind == stored_kind else kind,
        "imported_by": cells["imported_by"] or None,
    }


def rebuild(db: sqlite3.Connection, rows: Iterable[Row]) -> str | None:
    """Store the whole log of another project as it was there: numbers, acts, kinds, who may undo what. For a log that is
    empty.

    Called within a transaction of the caller's, who ends it where something is wrong.

    Returns:
        What is wrong with the first event that cannot be stored, in words; None if all were.
    """
    log = ActLog()
    return next(filter(None, (log.store(db, row) for row in sorted(rows, key=itemgetter("event")))), None)


def complete(db: sqlite3.Connection, rows: Sequence[Row]) -> int | None:
    """Add the events of a journal that are newer than a database's, as they were: numbers, operations, acts, what they undo.

    What cannot be an event of this log is left out: a row that makes no sense, or that points at one which is not there.

    Returns:
        How many were added; None if the journal is of another log, and nothing was.
    """
    log, last, n = ActLog(), last_event(db), 0
    for event in db.execute(
        "SELECT event, op, ifnull(imported_by, analyst), kind, act, undoes FROM label_event ORDER BY event"
    ):
        log.add(*event)
    if any(row["event"] <= last and log.event_of.get(str(row.get("op"))) != row["event"] for row in rows):
        return None
    columns = [name for (name,) in db.execute("SELECT name FROM pragma_table_info('label_event')")]
    for row in rows:
        with suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError, sqlite3.Error):
            if row["event"] > last and not log.store(db, {name: row[name] for name in columns}):
                n += 1
    return n


def _problem(db: sqlite3.Connection, row: Row) -> str | None:
    """Return what is wrong with an event by itself, in words; its values may be anything."""
    event, kind, building, undoes = row["event"], row["origin_kind"] or row["kind"], row["building_id"], row["undoes"]
    texts = (building, row["act"], row["at"], row["imported_by"] or "-", row["analyst"])
    numbers = [number for number in (event, undoes, row["answer"]) if number is not None]
    try:
        types = {name: json.loads(row[name]) for name in _TYPES}
        is_whole = all(is_text(text, 1, NEWEST) for text in texts) and utc(row["at"]) == row["at"]
    except (ValueError, TypeError, OverflowError, RecursionError):
        is_whole = False
    if not is_whole:
        return f"event {event} holds what is no text, no list or no time."
    if not all(type(number) is int and 0 < number < _MOST_EVENTS for number in numbers):
        return f"the numbers of event {event} are not whole numbers from 1 to {_MOST_EVENTS:,}."
    if kind not in KINDS:
        return f"kind {kind!r} of event {event} is not one of {', '.join(KINDS)}."
    if (kind in ("undo", "redo")) != (undoes is not None):
        return f"event {event} is of kind {kind}; an undo or redo names the event it undoes, and nothing else does."
    for other in numbers[1:]:
        known = "SELECT 1 FROM label_event WHERE event = ? AND building_id = ?"
        if not db.execute(known, (other, building)).fetchone():
            return f"event {event} points at event {other}, which was not stored, comes later, or is of another building."
    values = {name: row[name] for name in (*_TEXTS, "inclusion") if name != "act"}
    return LabelOp(**values, **types, at=row["origin_at"]).problem(max_op=MAX_NAME + MOST_STEPS)


class ActLog:
    """The acts of every analyst that stand and that were undone, as `labels` replays them."""

    def __init__(self) -> None:
        self.event_of: dict[str, int] = {}  # operation -> its event
        self._act_of: dict[int, str] = {}
        self._known: set[str] = set()
        self._standing: dict[str, list[str]] = {}
        self._undone: dict[str, list[str]] = {}

    def add(self, event: int, op: str, who: str, kind: str, act: str, undoes: int | None) -> None:
        self.event_of[op], self._act_of[event] = event, act
        if act in self._known:
            return
        self._known.add(act)
        standing, undone = self._standing.setdefault(who, []), self._undone.setdefault(who, [])
        if kind in ("undo", "redo"):
            goes, comes = (standing, undone) if kind == "undo" else (undone, standing)
            target = self._act_of.get(undoes or 0, "")
            if target in goes:
                goes.remove(target)
            comes.append(target)
        else:
            standing.append(act)
            undone.clear()

    def store(self, db: sqlite3.Connection, row: Row) -> str | None:
        """Store an event with its own number; return instead what is wrong, in words, where it cannot follow from those
        before.
        """
        if wrong := _problem(db, row):
            return wrong
        event, op, who, kind, act = row["event"], row["op"], row["imported_by"] or row["analyst"], row["kind"], row["act"]
        if kind not in (row["origin_kind"] or kind, "import"):
            return f"event {event} is of kind {row['origin_kind']}, and was stored as {kind}."
        if op in self.event_of or not self._fits(who, kind, act, row["undoes"]):
            return (
                f"event {event} does not follow from those before: its operation is there twice, or it undoes what is "
                "undone."
            )
        insert_all(db, [row])
        self.add(event, op, who, kind, act, row["undoes"])
        return None

    def _fits(self, who: str, kind: str, act: str, undoes: int | None) -> bool:
        """Return whether an undo or redo is of an act that stands, or was undone; one that is not would end every later
        one.
        """
        if kind not in ("undo", "redo") or act in self._known:
            return True
        stacks = self._standing if kind == "undo" else self._undone
        return self._act_of.get(undoes or 0) in stacks.get(who, ())
