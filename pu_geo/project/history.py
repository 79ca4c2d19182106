"""The whole label log on its way from one project to another: every event, and its place in the order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pu_geo.project.labels import Ack, details, insert, unknown_building
from pu_geo.project.store import now, transaction
from pu_geo.records import MAX_NAME, LabelOp, utc

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
        act, imported_by, stored_at, stored_kind: as the other project's log has them, for `rebuild`; "" where they are not known.
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
    """Return every event of one building, oldest first: {"event", "at", "analyst", "label", "reason", "grade", "damage_types",
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
            wrong = _taken(one, stored[1:]) if stored else _problem(db, one, numbers)
            if not wrong:
                numbers[one.event] = int(stored[0]) if stored else insert(db, {
                    **_row(one, numbers), "imported_by": importer, "at": now(), "origin_at": utc(one.op.at), "origin_kind": one.kind,
                    "kind": "import", "act": act,
                })  # fmt: skip
            acks.append(Ack(one.op.op, None if wrong else numbers[one.event], wrong))
    return acks


def rebuild(db: sqlite3.Connection, past: Iterable[PastEvent]) -> str | None:
    """Store the whole log of another project as it was there: numbers, acts, kinds, who may undo what. For a log that is empty.

    Called within a transaction of the caller's, who ends it where something is wrong.

    Returns:
        What is wrong with the first event that cannot be stored, in words; None if all were.
    """
    log = ActLog()
    numbers: dict[int, int] = {}
    for one in sorted(past, key=lambda one: one.event):
        who, kind, act = one.imported_by or str(one.op.analyst), one.stored_kind or one.kind, one.act or one.op.op
        wrong = _problem(db, one, numbers)
        if not wrong and kind not in (one.kind, "import"):
            wrong = f"event {one.event} is of kind {one.kind}, and was stored as {kind}."
        if not wrong and (one.op.op in log.event_of or not log.fits(who, kind, act, one.undoes)):
            wrong = f"event {one.event} does not follow from those before: its operation is there twice, or it undoes what is undone."
        if wrong:
            return wrong
        at, stored_at = utc(one.op.at), utc(one.stored_at or one.op.at)
        numbers[one.event] = insert(db, {
            **_row(one, numbers), "event": one.event, "at": stored_at, "origin_at": None if at == stored_at else at,
            "origin_kind": None if one.kind == kind else one.kind, "imported_by": one.imported_by or None, "kind": kind, "act": act,
        })  # fmt: skip
        log.add(one.event, one.op.op, who, kind, act, one.undoes)
    return None


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
    return one.op.problem(max_op=MAX_NAME + MOST_STEPS) or unknown_building(db, one.op)


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
        self._act_of: dict[int, str] = {}
        self._known: set[str] = set()
        self._standing: dict[str, list[str]] = {}
        self._undone: dict[str, list[str]] = {}

    def add(self, event: int, op: str, who: str, kind: str, act: str, undoes: int | None) -> None:
        self.event_of[op] = event
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

    def fits(self, who: str, kind: str, act: str, undoes: int | None) -> bool:
        """Return whether an undo or redo is of an act that stands, or was undone; one that is not would end every later one."""
        if kind not in ("undo", "redo") or act in self._known:
            return True
        stacks = self._standing if kind == "undo" else self._undone
        return self._act_of.get(undoes or 0) in stacks.get(who, ())
