"""The append-only log of labels. A building's current label is the one stored with its last event.

Nothing here rewrites or deletes: undo and redo are events too, and each stores the label that results from it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pu_geo.errors import LabelError
from pu_geo.project.contents import building_ids
from pu_geo.project.store import now, transaction
from pu_geo.records import LABELS, Label, LabelEvent, PUSet

_COLUMNS = "event, op, building_id, label, analyst, at, screen, kind, undoes"


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
    """

    op: str
    building_id: str
    label: Label
    act: str | None = None


def append(
    db: sqlite3.Connection,
    ops: Sequence[LabelOp],
    *,
    analyst: str,
    screen: str,
    kind: str = "set",
) -> list[Ack]:
    """Store operations in one transaction; when this returns they are on disk.

    Args:
        ops: in the order in which they were made.
        analyst: pseudonym of who made them.
        screen: where: "map", "wall", "cli", ...
        kind: "set", "import" or "simulated".

    Returns:
        One `Ack` an operation. An unknown building or label gets an error and does not stop the others.
    """
    acks = []
    with transaction(db):
        for op in ops:
            stored = db.execute("SELECT event FROM label_event WHERE op = ?", (op.op,)).fetchone()
            problem = None if stored else _problem(db, op)
            if stored:
                acks.append(Ack(op.op, int(stored[0])))
            elif problem:
                acks.append(Ack(op.op, None, problem))
            else:
                event = _insert(db, op, analyst=analyst, screen=screen, kind=kind, undoes=None, act=op.act or op.op)
                acks.append(Ack(op.op, event))
    return acks


def _problem(db: sqlite3.Connection, op: LabelOp) -> str | None:
    if not op.op or len(op.op) > 200:
        return "op must be a text of 1 to 200 characters that you never use twice."
    if op.label not in LABELS:
        return f"label {op.label!r} is not one of {', '.join(LABELS)}."
    if db.execute("SELECT 1 FROM footprints WHERE building_id = ?", (op.building_id,)).fetchone() is None:
        return f"building {op.building_id!r} is not in this project."
    return None


def _insert(
    db: sqlite3.Connection, op: LabelOp, *, analyst: str, screen: str, kind: str, undoes: int | None, act: str
) -> int:
    cursor = db.execute(
        "INSERT INTO label_event (op, building_id, label, analyst, at, screen, kind, undoes, act) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (op.op, op.building_id, op.label, analyst, now(), screen, kind, undoes, act),
    )
    return int(cursor.lastrowid or 0)


def undo(db: sqlite3.Connection, op: str, *, analyst: str, screen: str) -> list[LabelEvent]:
    """Take back the last act of this analyst that still stands, by adding events with the labels from before it.

    Returns:
        The events added (none if there is nothing to undo). A replayed `op` adds nothing and returns what it added first.
    """
    return _step(db, op, analyst=analyst, screen=screen, kind="undo")


def redo(db: sqlite3.Connection, op: str, *, analyst: str, screen: str) -> list[LabelEvent]:
    """Make the last undone act of this analyst stand again; forgotten as soon as a new act was made."""
    return _step(db, op, analyst=analyst, screen=screen, kind="redo")


def _step(db: sqlite3.Connection, op: str, *, analyst: str, screen: str, kind: str) -> list[LabelEvent]:
    with transaction(db):
        act = f"{kind}:{op}"
        replayed = "SELECT 1 FROM label_event WHERE act = ? UNION ALL SELECT 1 FROM empty_step WHERE op = ?"
        if db.execute(replayed, (act, op)).fetchone() is None:
            standing, undone = _stacks(db, analyst)
            stack = standing if kind == "undo" else undone
            if not stack:
                db.execute("INSERT INTO empty_step VALUES (?)", (op,))
            targets = _events_of_act(db, stack[-1]) if stack else []
            for number, target in enumerate(reversed(targets) if kind == "undo" else targets):
                label = _label_after_step(db, target, kind)
                one = LabelOp(op if number == 0 else f"{op}#{number}", target.building_id, label)
                _insert(db, one, analyst=analyst, screen=screen, kind=kind, undoes=target.event, act=act)
        return _events_of_act(db, act)


def _stacks(db: sqlite3.Connection, analyst: str) -> tuple[list[str], list[str]]:
    """Replay an analyst's history: which acts stand, and which were undone and can be redone."""
    rows = db.execute(
        "SELECT e.act, e.kind, u.act FROM label_event e LEFT JOIN label_event u ON u.event = e.undoes "
        "WHERE e.analyst = ? GROUP BY e.act ORDER BY min(e.event)",
        (analyst,),
    )
    standing: list[str] = []
    undone: list[str] = []
    for act, kind, target in rows:
        if kind == "undo":
            standing.remove(target)
            undone.append(target)
        elif kind == "redo":
            undone.remove(target)
            standing.append(target)
        else:
            standing.append(act)
            undone.clear()
    return standing, undone


def _events_of_act(db: sqlite3.Connection, act: str) -> list[LabelEvent]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM label_event WHERE act = ? ORDER BY event", (act,))
    return [LabelEvent(*row) for row in rows]


def _label_after_step(db: sqlite3.Connection, target: LabelEvent, kind: str) -> Label:
    """Return the label that undoing or redoing an event leads to; what another analyst said since then stands."""
    last = db.execute(
        "SELECT label, analyst FROM label_event WHERE building_id = ? ORDER BY event DESC LIMIT 1", (target.building_id,)
    ).fetchone()
    if last[1] != target.analyst:
        found: Label = last[0]
        return found
    return _label_before(db, target) if kind == "undo" else target.label


def _label_before(db: sqlite3.Connection, event: LabelEvent) -> Label:
    row = db.execute(
        "SELECT label FROM label_event WHERE building_id = ? AND event < ? ORDER BY event DESC LIMIT 1",
        (event.building_id, event.event),
    ).fetchone()
    return "cleared" if row is None else row[0]


def last_event(db: sqlite3.Connection) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return int(db.execute("SELECT ifnull(max(event), 0) FROM label_event").fetchone()[0])


def current(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, LabelEvent]:
    """Return the deciding event of every building that carries a label, as things stood after event `at`."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM label_event WHERE event IN "
        "(SELECT max(event) FROM label_event WHERE event <= ? GROUP BY building_id) AND label <> 'cleared'",
        (last_event(db) if at is None else at,),
    )
    return {row[2]: LabelEvent(*row) for row in rows}


def current_labels(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, Label]:
    """Return building id -> label for every building that carries one."""
    return {building: event.label for building, event in current(db, at=at).items()}


def pu_set(db: sqlite3.Connection, *, at: int | None = None, ids: Sequence[str] | None = None) -> PUSet:
    """Return what a method may learn from, as labels stood after event `at` (now, if None).

    Args:
        ids: order of the rows, as in the chip set; all buildings in their own order if None.
    """
    at_event = last_event(db) if at is None else at
    order = list(building_ids(db) if ids is None else ids)
    labels = current_labels(db, at=at_event)

    def marked(label: Label) -> np.ndarray:
        return np.fromiter((labels.get(building) == label for building in order), dtype=np.bool_, count=len(order))

    return PUSet(order, marked("positive"), marked("not_damaged"), marked("not_assessable"), at_event)


def refuse_rejected(acks: Sequence[Ack], source: str) -> None:
    """Raise for the first rejected operation of a file, after everything else in it was stored.

    Raises:
        LabelError: says how many were stored and how many were not.
    """
    rejected = [ack for ack in acks if ack.error]
    if rejected:
        raise LabelError(
            f"{len(rejected)} of {len(acks)} labels in {source} were not stored. The first: {rejected[0].error}",
            "Correct those rows and import the file again; labels that are stored already do no harm.",
        )


def counts(labels: Mapping[str, Label]) -> dict[str, int]:
    """Count current labels: {"positive": n, "not_damaged": n, "not_assessable": n}."""
    return {label: sum(value == label for value in labels.values()) for label in LABELS if label != "cleared"}
