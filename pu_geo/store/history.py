"""The whole label log on its way from one project to another: every event, and its place in the order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pu_geo.records import MAX_NAME, LabelOp, is_text, utc
from pu_geo.store.journal import Row, last_event
from pu_geo.store.labels import NEWEST, Ack, details, insert, unknown_building
from pu_geo.store.store import now, transaction

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


@dataclass(frozen=True)
class PastEvent:
    """An event of another project.

    Attributes:
        event: its number there.
        op: operation, building and the answer after it, with the analyst, the screen and the time.
        kind: one of `KINDS`.
        undoes, answer: numbers of other events there: the one an undo or redo is about, and the one whose answer it brought.
        act, imported_by, stored_at, stored_kind: as the other project's log has them, for `rebuild`; "" where they are not
            known.
    """

    event: int
    op: LabelOp
    kind: str
    undoes: int | None = None
    answer: int | None = None
    act: str = ""
    imported_by: str = ""
    stored_at: str = ""
    stored_kind: str = ""


def rows(db: sqlite3.Connection, *, at: int) -> Iterator[tuple[object, ...]]:
    """Yield every event up to number `at`, oldest first, as a row of `COLUMNS`."""
    yield from db.execute(f"SELECT {', '.join(COLUMNS.values())} FROM label_event WHERE event <= ? ORDER BY event", (at,))


def of_building(db: sqlite3.Connection, building_id: str) -> list[dict[str, object]]:
    """Return every event of one building, oldest first: {"event", "at", "analyst", "label", "reason", "grade",
    "damage_types",
    "absent_types", "comment", "kind", "screen", "shown", "undoes"}; types are lists."""
    types = ("damage_types", "absent_types")
    names = ("event", "at", "analyst", "label", "reason", "grade", *types, "comment", "kind", "screen", "shown", "undoes")
    wanted = ", ".join(COLUMNS[name] for name in names)
    found = db.execute(f"SELECT {wanted} FROM label_event WHERE building_id = ? ORDER BY event", (building_id,))
    events = [dict(zip(names, row, strict=True)) for row in found]
    return [{**event, **{name: json.loads(str(event[name])) for name in types}} for event in events]


def replay(db: sqlite3.Connection, past: Iterable[PastEvent], *, importer: str, act: str) -> list[Ack]:
    """Store events of another project in their order, in one transaction and as one act of `importer`.

    Each becomes an event of kind "import" with its own operation id and analyst. Its former time and kind go to the
    columns `origin_at` and `origin_kind`, and what it undoes points at the new numbers. So undone answers stay undone, and
    every analyst's answers are the same as there.

    Returns:
        One `Ack` an event. An operation that is stored already is acknowledged again and stored no second time; one
        whose id another operation has taken here, or that cannot be stored, gets an error and does not stop the others.
    """
    acks = []
    numbers: dict[int, int] = {}
    with transaction(db):
        for one in sorted(past, key=lambda one: one.event):
            stored = db.execute(
                "SELECT event, building_id, label, analyst FROM label_event WHERE op = ?", (one.op.op,)
            ).fetchone()
            wrong = _taken(one, stored[1:]) if stored else _problem(db, one, numbers) or unknown_building(db, one.op)
            if not wrong:
                numbers[one.event] = (
                    int(stored[0])
                    if stored
                    else insert(
                        db,
                        {
                            **_row(one, numbers),
                            "imported_by": importer,
                            "at": now(),
                            "origin_at": utc(one.op.at),
                            "origin_kind": one.kind,
                            "kind": "import",
                            "act": act,
                        },
                    )
                )
            acks.append(Ack(one.op.op, None if wrong else numbers[one.event], wrong))
    return acks


def rebuild(db: sqlite3.Connection, past: Iterable[PastEvent]) -> str | None:
    """Store the whole log of another project as it was there: numbers, acts, kinds, who may undo what. For a log that is
    empty.

    Called within a transaction of the caller's, who ends it where something is wrong.

    Returns:
        What is wrong with the first event that cannot be stored, in words; None if all were.
    """
    log = ActLog()
    for one in sorted(past, key=lambda one: one.event):
        op, kind = one.op, one.stored_kind or one.kind
        try:
            at, stored_at = utc(op.at), utc(one.stored_at or op.at)
        except (ValueError, OverflowError):
            return f"event {one.event} has no time with a time zone."
        wrong = unknown_building(db, op) or log.store(
            db,
            one,
            {
                "event": one.event,
                "op": op.op,
                "building_id": op.building_id,
                **details(op),
                "analyst": op.analyst,
                "at": stored_at,
                "origin_at": None if at == stored_at else at,
                "origin_kind": None if one.kind == kind else one.kind,
                "imported_by": one.imported_by or None,
                "screen": op.screen,
                "kind": kind,
                "undoes": one.undoes,
                "answer": one.answer,
                "act": one.act or op.op,
            },
        )
        if wrong:
            return wrong
    return None


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
            if row["event"] > last and not log.store(db, _past_event(row), {name: row[name] for name in columns}):
                n += 1
    return n


def _past_event(row: Row) -> PastEvent:
    """Return the event of a row. Raises ValueError, TypeError, KeyError or OverflowError if it makes no sense."""
    texts = [row["building_id"], row["act"], row["at"], row["imported_by"] or "-", row["analyst"]]
    if not all(is_text(text, 1, NEWEST) for text in texts) or utc(row["at"]) != row["at"]:
        raise ValueError(f"event {row['event']} holds what is no text or no time")
    names = ("label", "reason", "comment", "shown", "inclusion", "grade", "analyst", "screen")
    types = {name: json.loads(row[name]) for name in ("damage_types", "absent_types")}
    at = row["at"] if row["origin_at"] is None else row["origin_at"]
    return PastEvent(
        row["event"],
        LabelOp(row["op"], row["building_id"], at=at, **types, **{name: row[name] for name in names}),
        row["origin_kind"] or row["kind"],
        row["undoes"],
        row["answer"],
        row["act"],
        row["imported_by"] or "",
        row["at"],
        row["kind"],
    )


def _taken(one: PastEvent, stored: tuple[str, str, str]) -> str | None:
    if stored == (one.op.building_id, one.op.label, one.op.analyst):
        return None
    return f"operation {one.op.op!r} of event {one.event} is here already, as {stored[1]} on {stored[0]!r} by {stored[2]}."


def _problem(db: sqlite3.Connection, one: PastEvent, numbers: Mapping[int, int]) -> str | None:
    if one.kind not in KINDS:
        return f"kind {one.kind!r} of event {one.event} is not one of {', '.join(KINDS)}."
    if (one.kind in ("undo", "redo")) != (one.undoes is not None):
        return f"event {one.event} is of kind {one.kind}; an undo or redo names the event it undoes, and nothing else does."
    for other in (one.undoes, one.answer):
        known = "SELECT 1 FROM label_event WHERE event = ? AND building_id = ?"
        if other is not None and not db.execute(known, (numbers.get(other), one.op.building_id)).fetchone():
            return (
                f"event {one.event} points at event {other}, which was not stored, comes later, or is of another building."
            )
    return one.op.problem(max_op=MAX_NAME + MOST_STEPS)


def _row(one: PastEvent, numbers: Mapping[int, int]) -> dict[str, object]:
    """Return what an event holds here as there.

    Args:
        numbers: of events there -> here.
    """
    others = {name: None if (number := getattr(one, name)) is None else numbers[number] for name in ("undoes", "answer")}
    own = {name: getattr(one.op, name) for name in ("op", "building_id", "analyst", "screen")}
    return {**own, **details(one.op), **others}


class ActLog:
    """The acts of every analyst that stand and that were undone, as `labels` replays them."""

    def __init__(self) -> None:
        self.event_of: dict[str, int] = {}  # operation -> its event
        self.numbers: dict[int, int] = {}  # of all events, each to itself
        self._act_of: dict[int, str] = {}
        self._known: set[str] = set()
        self._standing: dict[str, list[str]] = {}
        self._undone: dict[str, list[str]] = {}

    def add(self, event: int, op: str, who: str, kind: str, act: str, undoes: int | None) -> None:
        self.event_of[op], self.numbers[event] = event, event
        self._act_of[event] = act
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

    def store(self, db: sqlite3.Connection, one: PastEvent, row: Row) -> str | None:
        """Store an event with its own number; return instead what is wrong, in words, where it cannot follow from those
        before.
        """
        who, kind, act = one.imported_by or str(one.op.analyst), one.stored_kind or one.kind, one.act or one.op.op
        if wrong := _problem(db, one, self.numbers):
            return wrong
        if kind not in (one.kind, "import"):
            return f"event {one.event} is of kind {one.kind}, and was stored as {kind}."
        if one.op.op in self.event_of or not self._fits(who, kind, act, one.undoes):
            return (
                f"event {one.event} does not follow from those before: its operation is there twice, or it undoes what is "
                "undone."
            )
        insert(db, row)
        self.add(one.event, one.op.op, who, kind, act, one.undoes)
        return None

    def _fits(self, who: str, kind: str, act: str, undoes: int | None) -> bool:
        """Return whether an undo or redo is of an act that stands, or was undone; one that is not would end every later
        one.
        """
        if kind not in ("undo", "redo") or act in self._known:
            return True
        stacks = self._standing if kind == "undo" else self._undone
        return self._act_of.get(undoes or 0) in stacks.get(who, ())
