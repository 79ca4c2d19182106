"""The append-only log of labels. A building's current label is the one stored with its last event.

Nothing here rewrites or deletes: undo and redo are events too, and each stores the whole answer that results from it.

An *answer* is an event that an analyst gave (a click, an imported row): one whose `undoes` is empty. Undo and redo are
events that point at the event they take back or put back. An answer stands unless the last undo or redo of it is an undo.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pu_geo.errors import LabelError
from pu_geo.records import LABELS, Label, LabelEvent, LabelOp, PUSet, is_text, utc
from pu_geo.store import grades
from pu_geo.store.contents import any_removed, building_ids
from pu_geo.store.grades import Grade
from pu_geo.store.journal import last_event as last_event
from pu_geo.store.store import now, project_id, transaction

Value = TypeVar("Value")
NEWEST = (1 << 63) - 1
COLUMNS = (
    "a.event, a.op, a.building_id, a.label, a.analyst, ifnull(a.origin_at, a.at), a.screen, "
    "CASE WHEN a.kind = 'import' AND a.origin_kind = 'simulated' THEN 'simulated' ELSE a.kind END, a.undoes, a.reason, "
    "a.damage_types, a.comment, a.shown, a.inclusion, a.grade, a.absent_types"
)
_TYPES_COLUMNS = (10, 15)
_ROWS_AT_ONCE = 400  # in one statement
_CLEARED = LabelOp("", label="cleared")


@dataclass(frozen=True)
class Ack:
    """The answer to one operation: the number of its (last) event, or what was wrong with it."""

    op: str
    event: int | None
    error: str | None = None


def append(
    db: sqlite3.Connection, ops: Sequence[LabelOp], *, analyst: str, screen: str, kind: str = "set"
) -> list[Ack]:  # fmt: skip
    """Store operations in one transaction; when this returns they are on disk, in the journal and in the database.

    Args:
        ops: in the order in which they were made.
        analyst: pseudonym of who made them. Whoever stores an operation may undo it, also where it is another's answer.
        screen: where, for operations that do not name a screen.
        kind: of labels: "set", "import" or "simulated".

    Returns:
        One `Ack` an operation. What makes no sense gets an error and does not stop the others; a replayed operation is
        acknowledged again.
    """
    acks: list[Ack] = []
    with _collector_paused(), transaction(db):
        for is_step, some in groupby(ops, lambda op: bool(op.step)):
            if is_step:
                acks += [_store_step(db, op, analyst, op.screen or screen) for op in some]
            else:
                acks += _store_labels(db, list(some), analyst, screen, kind)
    return acks


def _store_labels(db: sqlite3.Connection, ops: Sequence[LabelOp], analyst: str, screen: str, kind: str) -> list[Ack]:
    """Store labels, each in a row of its own. What the project says of them is read once for all: a lasso may hold
    33,000.
    """
    stored = dict(_rows_of(db, "SELECT op, event FROM label_event WHERE op", [op.op for op in ops]))
    here = {
        row[0]
        for row in _rows_of(db, "SELECT building_id FROM footprints WHERE building_id", [op.building_id for op in ops])
    }
    scale = grades.known(db) if any(op.grade for op in ops) else []
    number, at = _next_number(db), now()
    acks: list[Ack] = []
    rows: list[dict[str, object]] = []
    for op in ops:
        is_stored = isinstance(op.op, str) and op.op in stored
        wrong = None if is_stored else _problem(db, op, here, scale)
        if wrong:
            acks.append(Ack(op.op, None, wrong))
            continue
        if not is_stored:
            rows.append({
                "event": number, "op": op.op, "building_id": op.building_id, **details(op),
                "grade": _grade_id(scale, op.grade), "analyst": op.analyst or analyst,
                "imported_by": analyst if op.analyst else None, "at": at, "origin_at": utc(op.at),
                "origin_kind": "simulated" if op.is_simulated else None, "screen": op.screen or screen, "kind": kind,
                "act": op.act or op.op,
            })  # fmt: skip
            stored[op.op] = number
            number += 1
        acks.append(Ack(op.op, int(stored[op.op])))
    insert_all(db, rows)
    return acks


def _problem(db: sqlite3.Connection, op: LabelOp, here: Collection[str], scale: Sequence[Grade]) -> str | None:
    """Return what is wrong with a label, in words; None if nothing is."""
    is_here = isinstance(op.building_id, str) and op.building_id in here
    not_here = None if is_here else f"building {op.building_id!r} is not in this project."
    if wrong := op.problem(details=False) or not_here or op.problem_of_details():
        return wrong
    return grades.unknown_words(db, op.grade) if op.grade and grades.find(scale, op.grade) is None else None


def _grade_id(scale: Sequence[Grade], text: str) -> str:
    found = grades.find(scale, text) if text else None
    return "" if found is None else found.id


def _store_step(db: sqlite3.Connection, op: LabelOp, analyst: str, screen: str) -> Ack:
    """Store an undo or redo."""
    find = "SELECT kind FROM label_event WHERE op = ?"
    stored = db.execute(find, (op.op,)).fetchone() if is_text(op.op, 1, NEWEST) else None
    if stored and stored[0] != op.step:
        return Ack(op.op, None, f"op {op.op!r} is the id of another operation; use each id once.")
    if wrong := op.problem():
        return Ack(op.op, None, wrong)
    act = _take_step(db, op.op, analyst=analyst, screen=screen, kind=op.step)
    (number,) = db.execute("SELECT max(event) FROM label_event WHERE act = ?", (act,)).fetchone()
    return Ack(op.op, last_event(db) if number is None else int(number))


def keep_details(db: sqlite3.Connection, ops: Sequence[LabelOp], but: Collection[str] = ()) -> list[LabelOp]:
    """Return operations that call buildings damaged with the grade and the damage types that stand, where they name none.

    The types that a building has and those that it has not are kept each by itself, without what an operation says
    otherwise. Types of an audit's answer stay with answers of audits: they would be learned from otherwise.

    Args:
        but: of "grade", "damage_types" and "absent_types" those that are not kept.
    """
    standing, known = current(db), {one.id for one in grades.known(db)}
    return [
        _with_kept(op, standing[op.building_id], known, but) if op.label == "positive" and op.building_id in standing else op
        for op in ops
    ]


def _with_kept(op: LabelOp, standing: LabelEvent, known: Collection[str], but: Collection[str]) -> LabelOp:
    kept: dict[str, Any] = {"grade": standing.grade} if standing.grade in known else {}
    if standing.label == "positive" and (standing.shown == "audit") == (op.shown == "audit"):
        kept["damage_types"] = tuple(one for one in standing.damage_types if one not in op.absent_types)
        kept["absent_types"] = tuple(one for one in standing.absent_types if one not in op.damage_types)
    return replace(op, **{name: value for name, value in kept.items() if name not in but and not getattr(op, name)})


def undo(db: sqlite3.Connection, op: str, *, analyst: str, screen: str, act: str | None = None) -> list[LabelEvent]:
    """Undo the last act of this analyst that still stands, by adding events with the answers that stand without it.

    Other analysts' answers stand, those before that act as well as since.

    Args:
        act: the act to undo, where it need not be the last one; nothing is undone unless it stands.

    Returns:
        The events added (none if there is nothing to undo). A replayed `op` adds nothing and returns what it added first.
    """
    with transaction(db):
        step = _take_step(db, op, analyst=analyst, screen=screen, kind="undo", only=act)
        added = db.execute("SELECT event FROM label_event WHERE act = ?", (step,))
        return _events(db, [event for (event,) in added])


def _take_step(db: sqlite3.Connection, op: str, *, analyst: str, screen: str, kind: str, only: str | None = None) -> str:
    """Store an undo or redo, unless it was stored before; return its act. What stands is read once for all buildings of
    it.
    """
    act = f"{kind}:{op}"
    replayed = "SELECT 1 FROM label_event WHERE act = ? UNION ALL SELECT 1 FROM empty_step WHERE op = ?"
    if db.execute(replayed, (act, op)).fetchone() is not None:
        return act
    found_act = next_act(db, analyst, kind, only=only)
    if found_act is None:
        db.execute("INSERT INTO empty_step VALUES (?)", (op,))
        return act
    order = "DESC" if kind == "undo" else "ASC"
    targets = db.execute(
        f"SELECT event, building_id FROM label_event WHERE act = ? ORDER BY event {order}", (found_act,)
    ).fetchall()
    first, at = _next_number(db), now()
    standing = _standing_after(db, targets, kind, first)
    answers = {event.event: event for event in _events(db, {number for number in standing if number is not None})}
    insert_all(db, [
        {
            "event": first + i, "op": op if i == 0 else f"{op}#{i}", "building_id": building, "analyst": analyst, "at": at,
            "screen": screen, "kind": kind, "undoes": target, "act": act,
            **details(_CLEARED if number is None else answers[number]),  # the whole answer from then on
            "answer": number,
        }
        for i, ((target, building), number) in enumerate(zip(targets, standing, strict=True))
    ])  # fmt: skip
    return act


def _standing_after(db: sqlite3.Connection, targets: Sequence[tuple[int, str]], kind: str, first: int) -> list[int | None]:
    """Return the answer that stands on each building after an undo or redo of its target; None where none does.

    Args:
        targets: events and their buildings, in the order in which they are undone or redone. A building may be among them
            again.
        first: number that the first of these steps gets.
    """
    query = "SELECT building_id, event, undoes, ifnull(origin_kind, kind) FROM label_event WHERE building_id"
    logs: defaultdict[str, list[tuple[int, int | None, str]]] = defaultdict(list)
    for building, *step in sorted(_rows_of(db, query, {building for _, building in targets}), key=itemgetter(1)):
        logs[building].append((step[0], step[1], step[2]))
    found: list[int | None] = []
    for number, (target, building) in enumerate(targets, first):
        log = logs[building]
        log.append((number, target, kind))
        gone = undone((event, about, how) for event, about, how in log if about is not None)
        found.append(next((event for event, about, _ in reversed(log) if about is None and event not in gone), None))
    return found


def next_act(db: sqlite3.Connection, analyst: str, kind: str, *, only: str | None = None) -> str | None:
    """Return the act that an analyst's next undo or redo is about; None if there is none.

    Acts stand in a stack: an undo moves the last one to the stack of what can be redone, which the next label empties. So
    the newest acts decide, and those before are not read.

    Args:
        kind: "undo" or "redo".
        only: the one act that it may be about.
    """
    mine = "ifnull(e.imported_by, e.analyst) = ?"
    rows = db.execute(
        "SELECT e.event, e.act, e.kind, u.act FROM label_event e LEFT JOIN label_event u ON u.event = e.undoes "
        f"WHERE {mine} ORDER BY e.event DESC",
        (analyst,),
    )
    first: dict[str, int] = {}  # event with which an act stands in the order
    settled: set[str] = set()  # acts about which a newer undo or redo was found
    for event, act, step, target in rows:
        if act not in first:
            of_act = f"SELECT event FROM label_event e WHERE act = ? AND {mine} ORDER BY event LIMIT 1"
            first[act] = db.execute(of_act, (act, analyst)).fetchone()[0]
        if event != first[act]:
            continue
        if step not in ("undo", "redo"):
            if kind == "redo":
                return None
            if act not in settled and only in (None, act):
                return str(act)
        elif target not in settled:
            settled.add(target)
            if step != kind and only in (None, target):
                return str(target)
            if target == only:
                return None
    return None


# Rows, and which answers stand


def details(answer: LabelOp | LabelEvent) -> dict[str, object]:
    """Return the columns that make up an answer."""
    return {
        "label": answer.label, "reason": answer.reason, "comment": answer.comment, "shown": answer.shown,
        "inclusion": answer.inclusion, "grade": answer.grade, "damage_types": _types_as(tuple(answer.damage_types)),
        "absent_types": _types_as(tuple(answer.absent_types)),
    }  # fmt: skip


@lru_cache(maxsize=1000)
def _types_as(types: tuple[str, ...]) -> str:
    """Return damage types as a row has them; few combinations occur, in very many answers."""
    return json.dumps(types, ensure_ascii=False)


def insert_all(db: sqlite3.Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Add events, all given by the same columns in the same order, with their numbers; see `_next_number`.

    Hundreds go into one statement: SQLite prepares the table's checks once for each statement, which takes longer than to
    store a row.
    """
    if not rows:
        return
    at_once = max(1, min(_ROWS_AT_ONCE, db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(rows[0])))
    head, marks = f"INSERT INTO label_event ({', '.join(rows[0])}) VALUES ", f"({', '.join('?' * len(rows[0]))})"
    for first in range(0, len(rows), at_once):
        some = rows[first : first + at_once]
        stored = db.execute(head + ", ".join([marks] * len(some)), [value for row in some for value in row.values()])
        if stored.rowcount != len(some):  # none of them is acknowledged
            raise LabelError(
                f"The project's file took {stored.rowcount} of {len(some)} answers, so none was stored: another program has "
                "changed the file.",
                "`pu-geo repair doctor` names what is odd in it.",
                kind="corrupt",
            )


def _next_number(db: sqlite3.Connection) -> int:
    """Return the number that the next event gets, while the write lock is held: none is ever given twice."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'label_event'").fetchone()
    return max(int(row[0]) if row else 0, last_event(db)) + 1


def _rows_of(db: sqlite3.Connection, query: str, texts: Collection[object]) -> list[Any]:
    """Return the rows of a query that ends in a column, where the column is one of some texts. What is no text is in no
    row.
    """
    listed = json.dumps([text for text in texts if is_text(text, 1, NEWEST)])
    return db.execute(f"{query} IN (SELECT value FROM json_each(?))", (listed,)).fetchall()


def event_of(row: Sequence[object]) -> LabelEvent:
    """Build an event from a row of `COLUMNS`."""
    values: list[object] = list(row)
    for column in _TYPES_COLUMNS:
        values[column] = _types_in(str(values[column]))
    return LabelEvent(*values)  # type: ignore[arg-type]  # the table checks what it holds


@lru_cache(maxsize=1000)
def _types_in(text: str) -> tuple[str, ...]:
    """Read damage types; few combinations occur, in very many answers."""
    return tuple(json.loads(text))


def undone(steps: Iterable[tuple[int, int, str]]) -> set[int]:
    """Return the answers that were undone and not redone since.

    Args:
        steps: (event, the event it is about, "undo" or "redo") in the order of events. Undoing an import that holds steps
            itself makes steps about steps: undoing an undo puts its answer back, undoing a redo takes it away again.
    """
    gone: set[int] = set()
    known: dict[int, tuple[int, bool]] = {}
    for event, target, kind in steps:
        takes_back = kind == "undo"
        known[event] = (target, takes_back)
        while target in known:
            target, took_back = known[target]
            takes_back = takes_back != took_back
        if takes_back:
            gone.add(target)
        else:
            gone.discard(target)
    return gone


def all_undone(db: sqlite3.Connection) -> set[int]:
    """Return every answer of the project that was undone and not redone since."""
    steps = "SELECT event, undoes, ifnull(origin_kind, kind) FROM label_event WHERE undoes IS NOT NULL ORDER BY event"
    return undone(db.execute(steps).fetchall())


def stands(db: sqlite3.Connection, acts: Collection[str]) -> set[str]:
    """Return those of some acts of which an answer was not undone, or was redone since."""
    gone = all_undone(db)
    rows = db.execute(
        "SELECT act, event FROM label_event WHERE undoes IS NULL AND act IN (SELECT value FROM json_each(?))",
        (json.dumps(list(acts)),),
    )
    return {act for act, event in rows if event not in gone}


def _events(db: sqlite3.Connection, numbers: Collection[int]) -> list[LabelEvent]:
    query = f"SELECT {COLUMNS} FROM label_event a WHERE a.event IN (SELECT value FROM json_each(?)) ORDER BY a.event"
    return [event_of(row) for row in db.execute(query, (json.dumps(list(numbers)),))]


class Moment(NamedTuple):
    """What stood after an event. Copies of a project count their events alike, so its operation tells one log from another.

    Attributes:
        event: number of a label event, 0 for before the first.
        op: its operation; "" where there is no such event.
    """

    event: int
    op: str


def moment(db: sqlite3.Connection, *, at: int | None = None) -> Moment:
    """Return what names the labels after event `at` (now, if None), for whoever keeps what was worked out from them."""
    event = last_event(db) if at is None else at
    return Moment(event, _op_of(db, event))


_DECIDING = (
    "FROM (SELECT max(event) AS last FROM label_event WHERE event <= ? GROUP BY building_id ORDER BY last) "
    "JOIN label_event e ON e.event = last JOIN label_event a ON a.event = ifnull(e.answer, e.event) "
    "WHERE e.label <> 'cleared'"
)  # in the order in which the file holds them: a million are read in two thirds of the time
_SINCE = (
    "FROM label_event e JOIN label_event a ON a.event = ifnull(e.answer, e.event) "
    "WHERE e.event > ? AND e.event <= ? ORDER BY e.event"
)


@dataclass
class _Standing:
    """The answers that stand in a project after event `event`, whose operation is `op`.

    Attributes:
        answers: building id -> its deciding answer, by building id.
        taught: what methods learn of buildings whose deciding answer is an audit's, as far as it was asked for.
    """

    event: int
    op: str
    answers: dict[str, LabelEvent]
    taught: dict[str, LabelEvent | None] = field(default_factory=dict)

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take in newer events, oldest first: building id, label, then a row of `COLUMNS`."""
        n_new = 0
        for building, label, *row in rows:
            self.taught.pop(building, None)
            if label == "cleared":
                self.answers.pop(building, None)
            else:
                n_new += building not in self.answers
                self.answers[building] = event_of(row)
        if n_new and (order := sorted(self.answers)) != list(self.answers):
            self.answers = {building: self.answers[building] for building in order}


_MOST_PROJECTS = 4  # whose standing answers are kept in memory, about 60 MB of 100,000 labeled buildings
_standing: OrderedDict[tuple[Path, int, str], _Standing] = OrderedDict()
_standing_locks: defaultdict[Path, threading.RLock] = defaultdict(
    threading.RLock
)  # by file: one project does not wait for another


@contextmanager
def _standing_at(db: sqlite3.Connection, at: int | None) -> Iterator[_Standing]:
    """Yield the answers that stand after event `at` (now, if None), read once and then brought up to date by newer events.

    The log only grows, so what stood after an event never changes. That the log is the same one is checked by the file, the
    project and the operation of the last event that was read: a copy may have been put in its place. Answers after an
    earlier event, and within a transaction, which may be rolled back, are read anew and not kept.
    """
    path = Path(db.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0])
    with _standing_locks[path]:
        last = last_event(db)
        is_kept = path.is_file() and not db.in_transaction and (at is None or at >= last)
        key = path, path.stat().st_ino if is_kept else 0, project_id(db)
        found = _standing.pop(key, None)
        if found is None or found.op != _op_of(db, found.event):
            event = last if is_kept or at is None else at
            found = _Standing(event, _op_of(db, event), {})
            rows = db.execute(f"SELECT e.building_id, e.label, {COLUMNS} {_DECIDING}", (event,))
        else:
            rows = db.execute(f"SELECT e.building_id, e.label, {COLUMNS} {_SINCE}", (found.event, last))
            found.event, found.op = last, _op_of(db, last)
        with _collector_paused():
            found.add(rows)
        if is_kept:
            _standing[key] = found
        while len(_standing) > _MOST_PROJECTS:
            _standing.popitem(last=False)
        yield found


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from running: it would go through all answers again and again while they are made."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _op_of(db: sqlite3.Connection, event: int) -> str:
    """Return the operation of an event; "" where there is no such event."""
    row = db.execute("SELECT op FROM label_event WHERE event = ?", (event,)).fetchone()
    return "" if row is None else str(row[0])


def current(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, LabelEvent]:
    """Return the deciding answer of every building that carries a label, by building id, as things stood after event `at`.

    After an undo or redo that is the answer which it brought back: with its own analyst, time and kind. Of now (None),
    answers of buildings whose footprints were removed are left out; they count again once a footprint of that id is back.
    """
    with _standing_at(db, at) as standing:
        found = dict(standing.answers)
    if at is not None or not any_removed(db):
        return found
    here = set(building_ids(db))
    return {building: event for building, event in found.items() if building in here}


def current_labels(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, Label]:
    """Return building id -> label for every building that carries one, by building id; of the same buildings as
    `current`.
    """
    return {building: one.label for building, one in current(db, at=at).items()}


def changed_since(db: sqlite3.Connection, event: int, *, but_by: str) -> dict[str, LabelEvent]:
    """Return building id -> the whole answer as it stands, of label "cleared" too, where events after `event` are.

    After an undo or redo that is the answer which it brought back. Only these events are read.

    Args:
        but_by: buildings whose newest operation begins with this are left out.
    """
    rows = db.execute(
        f"SELECT e.building_id, substr(e.op, 1, ?) = ?, {COLUMNS} FROM label_event e "
        "JOIN label_event a ON a.event = ifnull(e.answer, e.event) WHERE e.event > ? "
        "AND EXISTS (SELECT 1 FROM footprints f WHERE f.building_id = e.building_id) ORDER BY e.event",
        (len(but_by), but_by, event),
    )
    last = {building: (is_own, row) for building, is_own, *row in rows}
    return {building: event_of(row) for building, (is_own, row) in last.items() if not is_own}


def pu_set(db: sqlite3.Connection, *, at: int | None = None, ids: Sequence[str] | None = None) -> PUSet:
    """Return what a method may learn from, as labels stood after event `at` (now, if None).

    Answers of audits are never learned from: they judge what was learned. A building whose deciding answer is an audit's
    counts with the last answer from before it that stands and is no audit's; it is left out where there is none.

    Args:
        ids: order of the rows, as in the chip set; all buildings in their own order if None.
    """
    at_event = last_event(db) if at is None else at
    order = list(building_ids(db) if ids is None else ids)
    is_positive, is_not_damaged, is_excluded, is_queued = (np.zeros(len(order), np.bool_) for _ in range(4))
    marked = {"positive": is_positive, "not_damaged": is_not_damaged}
    for row, event in enumerate(map(taught(db, at_event).get, order, repeat(_CLEARED))):
        if event is not _CLEARED:
            label = event.label if isinstance(event, LabelEvent) else ""
            marked.get(label, is_excluded)[row] = True
            is_queued[row] = label == "positive" and isinstance(event, LabelEvent) and event.shown != ""
    return PUSet(order, is_positive, is_not_damaged, is_excluded, at_event, is_queued)


def taught(db: sqlite3.Connection, at: int) -> dict[str, LabelEvent | None]:
    """Return what a method may learn of every building that carries a label; None where only an audit has an answer."""
    with _standing_at(db, at) as standing:
        found: dict[str, LabelEvent | None] = dict(standing.answers)
        for building, event in standing.answers.items():
            if event.shown == "audit":
                if building not in standing.taught:
                    standing.taught[building] = _outside_audits(db, event, at)
                found[building] = standing.taught[building]
        return found


def _outside_audits(db: sqlite3.Connection, event: LabelEvent, at: int) -> LabelEvent | None:
    """Return the answer from before an audit's that stands and is no audit's; None where there is none.

    Clearing a building is no answer: it ends all before it.
    """
    rows = db.execute(
        "SELECT event, undoes, ifnull(origin_kind, kind), shown = 'audit' AND label <> 'cleared' FROM label_event "
        "WHERE building_id = ? AND event <= ? ORDER BY event",
        (event.building_id, at),
    ).fetchall()
    gone = undone((number, target, kind) for number, target, kind, _ in rows if target is not None)
    others = (n for n, target, _, is_audit in reversed(rows) if target is None and n not in gone and not is_audit)
    found = _events(db, [next(others, 0)])
    return found[0] if found and found[0].label != "cleared" and found[0].event < event.event else None


def audit_answers(db: sqlite3.Connection) -> dict[str, LabelEvent]:
    """Return building id -> its last standing audit answer, in the order in which they were given.

    A later answer outside the audit changes the building's label but not the sample; only clearing the building, or undo,
    takes an audit answer out of it.
    """
    gone = all_undone(db)
    last: dict[str, LabelEvent] = {}
    for event in map(event_of, db.execute(
        f"SELECT {COLUMNS} FROM label_event a WHERE undoes IS NULL AND (shown = 'audit' OR label = 'cleared') ORDER BY event"
    )):  # fmt: skip
        if event.event not in gone:
            last.pop(event.building_id, None)
            last[event.building_id] = event
    return {building: event for building, event in last.items() if event.label != "cleared"}


class Given(NamedTuple):
    """One answer that somebody gave; `is_check`: to a random check, of whatever sample."""

    event: int
    building_id: str
    analyst: str
    is_check: bool


def given_again(db: sqlite3.Connection) -> set[str]:
    """Return the buildings whose answer that stands repeats an earlier one of theirs in all that it holds: somebody looked
    again.
    """
    same = ("building_id", "label", "reason", "damage_types", "absent_types", "comment", "grade")
    pairs = db.execute(
        f"SELECT DISTINCT b.event FROM label_event a JOIN label_event b USING ({', '.join(same)}) "
        "WHERE a.event < b.event AND a.undoes IS NULL AND b.undoes IS NULL"
    )
    again = {event for (event,) in pairs}
    return {building for building, answer in current(db).items() if answer.event in again}


def given_since(db: sqlite3.Connection, after: int, building_ids: Collection[str]) -> list[Given]:
    """Return the answers that were given on some buildings after an event, oldest first.

    Answers that were undone do not count; those that were corrected or cleared since do. Only events of these buildings are
    read: an undo is about an answer on its own building.
    """
    rows = db.execute(
        "SELECT event, building_id, analyst, shown = 'audit', label = 'cleared', undoes, ifnull(origin_kind, kind) "
        "FROM label_event WHERE building_id IN (SELECT value FROM json_each(?)) ORDER BY event",
        (json.dumps(list(building_ids)),),
    ).fetchall()
    gone = undone((event, target, kind) for event, *_, target, kind in rows if target is not None)
    return [
        Given(event, building, analyst, bool(is_check))
        for event, building, analyst, is_check, is_cleared, target, _ in rows
        if event > after and target is None and not is_cleared and event not in gone
    ]


def refuse_rejected(acks: Sequence[Ack], source: str) -> None:
    """Raise `LabelError` for the first rejected operation of a file, after everything else in it was stored."""
    rejected = [ack for ack in acks if ack.error]
    if rejected:
        raise LabelError(
            f"{len(rejected)} of {len(acks)} labels in {source} were not stored. The first: {rejected[0].error}",
            "Correct those rows and import the file again; labels that are stored already do no harm.",
        )


def counts(labels: Mapping[str, Label]) -> dict[str, int]:
    """Count current labels: {"positive": n, "not_damaged": n, "not_assessable": n}."""
    found = Counter(labels.values())
    return {label: found[label] for label in LABELS if label != "cleared"}
