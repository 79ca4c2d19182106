"""Rows of the append-only label log: what an operation may say, how a row is written and read, and which answers stand.

An *answer* is an event that an analyst gave (a click, an imported row): one whose `undoes` is empty. Undo and redo are
events that point at the event they take back or put back. An answer stands unless the last undo or redo of it is an undo.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pu_geo.records import LABELS, REASONS, SHOWN, Label, LabelEvent, Reason, Shown

MAX_OP = 200  # characters, as for names
MAX_COMMENT = 500
MAX_TYPES, MAX_TYPE = 20, 60  # damage types of an answer, and characters of each
NEWEST = (1 << 63) - 1
COLUMNS = (
    "a.event, a.op, a.building_id, a.label, a.analyst, ifnull(a.origin_at, a.at), a.screen, "
    "CASE WHEN a.kind = 'import' AND a.origin_kind = 'simulated' THEN 'simulated' ELSE a.kind END, a.undoes, a.reason, "
    "a.damage_types, a.comment, a.shown, a.inclusion"
)
_TYPES_COLUMN = 10


@dataclass(frozen=True)
class Ack:
    """The answer to one operation: the number of its (last) event, or what was wrong with it."""

    op: str
    event: int | None
    error: str | None = None


@dataclass(frozen=True)
class LabelOp:
    """One wish of an analyst.

    Attributes:
        op: unique for ever: a replayed operation is acknowledged again, never stored twice.
        act: id shared by operations that are undone together; by default each stands alone.
        reason: for not assessable buildings alone, one of `REASONS`.
        damage_types: at most 20 texts of 1 to 60 characters.
        comment: at most 500 characters.
        shown: why the building was put before the analyst, one of `SHOWN`.
        inclusion: probability, (0, 1], with which an audit drew the building; given for "audit" and for nothing else.
        analyst: whose answer it is, where that is not who stores it (imports).
        at: when it was given, ISO 8601 with a time zone, where that is not now (imports).
        is_simulated: taken from known labels for a trial, where it was made (imports); nobody looked.
    """

    op: str
    building_id: str
    label: Label
    act: str | None = None
    reason: Reason = ""
    damage_types: Sequence[str] = ()
    comment: str = ""
    shown: Shown = ""
    inclusion: float | None = None
    analyst: str | None = None
    at: str | None = None
    is_simulated: bool = False


def problem(db: sqlite3.Connection, op: LabelOp, *, longest_op: int = MAX_OP) -> str | None:
    """Say what is wrong with an operation, None if nothing is. Its values may be anything: they come from outside."""
    if not op.op or len(op.op) > longest_op:
        return f"op must be a text of 1 to {longest_op} characters that you never use twice."
    if op.label not in LABELS:
        return f"label {op.label!r} is not one of {', '.join(LABELS)}."
    if db.execute("SELECT 1 FROM footprints WHERE building_id = ?", (op.building_id,)).fetchone() is None:
        return f"building {op.building_id!r} is not in this project."
    return _problem_of_details(op) or _problem_of_origin(op)


def _problem_of_details(op: LabelOp) -> str | None:
    if op.reason not in REASONS:
        return f"reason {op.reason!r} is not one of {', '.join(REASONS[1:])}."
    if op.reason and op.label != "not_assessable":
        return f"reason {op.reason!r} says why a building is not assessable; the label is {op.label}."
    types = op.damage_types
    if not isinstance(types, list | tuple) or not all(_is_text(text, 1, MAX_TYPE) for text in types):
        return f"damage_types must be a list of texts of 1 to {MAX_TYPE} characters; got {types!r}."
    if len(types) > MAX_TYPES:
        return f"damage_types has {len(types)} entries; {MAX_TYPES} at most."
    if not _is_text(op.comment, 0, MAX_COMMENT):
        return f"comment must be a text of at most {MAX_COMMENT} characters."
    if op.shown not in SHOWN:
        return f"shown {op.shown!r} is not one of {', '.join(SHOWN[1:])}."
    if op.shown != "audit":
        return None if op.inclusion is None else f"inclusion goes with shown = audit alone; shown is {op.shown!r}."
    if isinstance(op.inclusion, bool) or not isinstance(op.inclusion, int | float) or not 0 < op.inclusion <= 1:
        return f"inclusion of an audit answer must be a probability above 0, up to 1; got {op.inclusion!r}."
    return None


def _problem_of_origin(op: LabelOp) -> str | None:
    if op.analyst is not None and not _is_text(op.analyst, 1, MAX_OP):
        return f"analyst must be a text of 1 to {MAX_OP} characters."
    try:
        utc(op.at)
    except (ValueError, OverflowError):
        return f"at {op.at!r} is not a time with its zone, such as 2026-01-31T12:00:00Z."
    return None


def _is_text(value: object, least: int, most: int) -> bool:
    """Say whether a value is a text of that many characters that SQLite and UTF-8 can hold: no NUL, no half characters."""
    if not isinstance(value, str) or not least <= len(value) <= most:
        return False
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in value)


def utc(text: str | None) -> str | None:
    """Return a time as RFC 3339 in UTC, to the millisecond; None stays None.

    Raises:
        ValueError, OverflowError: if it is not ISO 8601, has no time zone, or is in no year of UTC.
    """
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("no time zone")
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def details(said: LabelOp | LabelEvent) -> dict[str, object]:
    """Return the columns that make up an answer."""
    return {
        "label": said.label,
        "reason": said.reason,
        "damage_types": json.dumps(list(said.damage_types), ensure_ascii=False),
        "comment": said.comment,
        "shown": said.shown,
        "inclusion": said.inclusion,
    }


def insert(db: sqlite3.Connection, values: Mapping[str, object]) -> int:
    """Add one event, given as column -> value; return its number."""
    marks = ", ".join("?" * len(values))
    cursor = db.execute(f"INSERT INTO label_event ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
    return int(cursor.lastrowid or 0)


def event_of(row: Sequence[object]) -> LabelEvent:
    """Build an event from a row of `COLUMNS`."""
    values: list[object] = list(row)
    types = str(values[_TYPES_COLUMN])
    values[_TYPES_COLUMN] = () if types == "[]" else tuple(json.loads(types))
    return LabelEvent(*values)  # type: ignore[arg-type]  # the table checks what it holds


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
    return undone(
        db.execute(
            "SELECT event, undoes, ifnull(origin_kind, kind) FROM label_event WHERE undoes IS NOT NULL ORDER BY event"
        ).fetchall()
    )


def last_standing(
    db: sqlite3.Connection,
    building_id: str,
    *,
    at: int = NEWEST,
    step: tuple[int, str] | None = None,
    outside_audits: bool = False,
) -> LabelEvent | None:
    """Return the last answer that stands on a building, whoever gave it, as things stood after event `at`.

    Args:
        step: (event, "undo" or "redo") that is about to be stored, and counts already.
        outside_audits: pass over the answers of audits. Clearing a building is no answer: it ends all before it.
    """
    rows = db.execute(
        "SELECT event, undoes, ifnull(origin_kind, kind), shown = 'audit' AND label <> 'cleared' FROM label_event "
        "WHERE building_id = ? AND event <= ? ORDER BY event",
        (building_id, at),
    ).fetchall()
    steps = [(event, target, kind) for event, target, kind, _ in rows if target is not None]
    if step:
        steps.append((NEWEST, *step))
    gone = undone(steps)
    for event, target, _, is_audit in reversed(rows):
        if target is None and event not in gone and not (outside_audits and is_audit):
            return event_of(db.execute(f"SELECT {COLUMNS} FROM label_event a WHERE a.event = ?", (event,)).fetchone())
    return None
