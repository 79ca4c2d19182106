"""The append-only log of labels. A building's current label is the one stored with its last event.

Nothing here rewrites or deletes: undo and redo are events too, and each stores the whole answer that results from it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pu_geo.errors import LabelError
from pu_geo.project.contents import building_ids
from pu_geo.project.label_log import COLUMNS, all_undone, details, event_of, insert, last_standing, problem, utc
from pu_geo.project.label_log import Ack as Ack
from pu_geo.project.label_log import LabelOp as LabelOp
from pu_geo.project.store import now, transaction
from pu_geo.records import LABELS, Label, LabelEvent, PUSet


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
        analyst: pseudonym of who made them. Whoever stores an operation may undo it, also where it is another's answer.
        screen: where: "map", "wall", "cli", ...
        kind: "set", "import" or "simulated".

    Returns:
        One `Ack` an operation. An unknown building or label gets an error and does not stop the others.
    """
    acks = []
    with transaction(db):
        for op in ops:
            stored = db.execute("SELECT event FROM label_event WHERE op = ?", (op.op,)).fetchone()
            wrong = None if stored else problem(db, op)
            if stored:
                acks.append(Ack(op.op, int(stored[0])))
            elif wrong:
                acks.append(Ack(op.op, None, wrong))
            else:
                acks.append(Ack(op.op, _insert(db, op, analyst, screen, kind)))
    return acks


def _insert(db: sqlite3.Connection, op: LabelOp, analyst: str, screen: str, kind: str) -> int:
    return insert(
        db,
        {
            "op": op.op,
            "building_id": op.building_id,
            **details(op),
            "analyst": op.analyst or analyst,
            "imported_by": analyst if op.analyst else None,
            "at": now(),
            "origin_at": utc(op.at),
            "origin_kind": "simulated" if op.is_simulated else None,
            "screen": screen,
            "kind": kind,
            "act": op.act or op.op,
        },
    )


def undo(db: sqlite3.Connection, op: str, *, analyst: str, screen: str, act: str | None = None) -> list[LabelEvent]:
    """Take back the last act of this analyst that still stands, by adding events with the answers that stand without it.

    What other analysts said stands, before that act as well as since.

    Args:
        act: the act to take back, where it need not be the last one; nothing is taken back unless it stands.

    Returns:
        The events added (none if there is nothing to undo). A replayed `op` adds nothing and returns what it added first.
    """
    return _step(db, op, analyst=analyst, screen=screen, kind="undo", only=act)


def redo(db: sqlite3.Connection, op: str, *, analyst: str, screen: str) -> list[LabelEvent]:
    """Make the last undone act of this analyst stand again; forgotten as soon as a new act was made."""
    return _step(db, op, analyst=analyst, screen=screen, kind="redo")


def _step(
    db: sqlite3.Connection, op: str, *, analyst: str, screen: str, kind: str, only: str | None = None
) -> list[LabelEvent]:
    with transaction(db):
        act = f"{kind}:{op}"
        replayed = "SELECT 1 FROM label_event WHERE act = ? UNION ALL SELECT 1 FROM empty_step WHERE op = ?"
        if db.execute(replayed, (act, op)).fetchone() is None:
            standing, undone = _stacks(db, analyst)
            stack = [one for one in (standing if kind == "undo" else undone) if only in (None, one)]
            if not stack:
                db.execute("INSERT INTO empty_step VALUES (?)", (op,))
            targets = _events_of_act(db, stack[-1]) if stack else []
            for number, target in enumerate(reversed(targets) if kind == "undo" else targets):
                one = op if number == 0 else f"{op}#{number}"
                _insert_step(db, one, target, analyst=analyst, screen=screen, kind=kind, act=act)
        return _events_of_act(db, act)


def _insert_step(
    db: sqlite3.Connection, op: str, target: LabelEvent, *, analyst: str, screen: str, kind: str, act: str
) -> None:
    """Store an undo or redo of one event, with the complete answer that stands afterwards."""
    found = last_standing(db, target.building_id, step=(target.event, kind))
    values: dict[str, object] = {"op": op, "building_id": target.building_id, "analyst": analyst, "at": now()}
    values |= {"screen": screen, "kind": kind, "undoes": target.event, "act": act}
    insert(db, {**values, **(details(found) if found else {"label": "cleared"}), "answer": found.event if found else None})


def _stacks(db: sqlite3.Connection, analyst: str) -> tuple[list[str], list[str]]:
    """Replay an analyst's history: which acts stand, and which were undone and can be redone."""
    rows = db.execute(
        "SELECT e.act, e.kind, u.act FROM label_event e LEFT JOIN label_event u ON u.event = e.undoes "
        "WHERE ifnull(e.imported_by, e.analyst) = ? GROUP BY e.act ORDER BY min(e.event)",
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


def last_of(db: sqlite3.Connection, building_id: str) -> tuple[str, str]:
    """Return the act of a building's newest event, and who made it; empty texts where there is none."""
    found = db.execute(
        "SELECT act, ifnull(imported_by, analyst) FROM label_event WHERE building_id = ? ORDER BY event DESC LIMIT 1",
        (building_id,),
    ).fetchone()
    return ("", "") if found is None else (str(found[0]), str(found[1]))


def stands(db: sqlite3.Connection, acts: Collection[str]) -> set[str]:
    """Return those of some acts of which an answer was not undone, or was redone since."""
    gone = all_undone(db)
    rows = db.execute(
        "SELECT act, event FROM label_event WHERE undoes IS NULL AND act IN (SELECT value FROM json_each(?))",
        (json.dumps(list(acts)),),
    )
    return {act for act, event in rows if event not in gone}


def _events_of_act(db: sqlite3.Connection, act: str) -> list[LabelEvent]:
    return [
        event_of(row) for row in db.execute(f"SELECT {COLUMNS} FROM label_event a WHERE a.act = ? ORDER BY event", (act,))
    ]


def last_event(db: sqlite3.Connection) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return int(db.execute("SELECT ifnull(max(event), 0) FROM label_event").fetchone()[0])


_DECIDING = (
    "FROM (SELECT max(event) AS last FROM label_event WHERE event <= ? GROUP BY building_id) "
    "JOIN label_event e ON e.event = last JOIN label_event a ON a.event = ifnull(e.answer, e.event) "
    "WHERE e.label <> 'cleared'"
)


def current(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, LabelEvent]:
    """Return the deciding answer of every building that carries a label, as things stood after event `at`.

    After an undo or redo that is the answer which it brought back: with its own analyst, time and kind.
    """
    rows = db.execute(f"SELECT {COLUMNS} {_DECIDING}", (last_event(db) if at is None else at,))
    return {row[2]: event_of(row) for row in rows}


def current_labels(db: sqlite3.Connection, *, at: int | None = None) -> dict[str, Label]:
    """Return building id -> label for every building that carries one."""
    return dict(db.execute(f"SELECT e.building_id, e.label {_DECIDING}", (last_event(db) if at is None else at,)).fetchall())


def changed_since(db: sqlite3.Connection, event: int, *, but_by: str) -> dict[str, Label]:
    """Return building id -> label as it stands, "cleared" too, where events after `event` are.

    Args:
        but_by: operations whose ids begin with this are left out.
    """
    rows = db.execute(
        "SELECT building_id, label FROM label_event e WHERE event IN (SELECT max(event) FROM label_event "
        "WHERE event > ? AND substr(op, 1, ?) <> ? GROUP BY building_id) "
        "AND NOT EXISTS (SELECT 1 FROM label_event x WHERE x.building_id = e.building_id AND x.event > e.event)",
        (event, len(but_by), but_by),
    )
    return dict(rows.fetchall())


def pu_set(db: sqlite3.Connection, *, at: int | None = None, ids: Sequence[str] | None = None) -> PUSet:
    """Return what a method may learn from, as labels stood after event `at` (now, if None).

    Answers of audits are never learned from: they judge what was learned. A building whose deciding answer is an audit's
    counts with the last answer from before it that stands and is no audit's; it is left out where there is none.

    Args:
        ids: order of the rows, as in the chip set; all buildings in their own order if None.
    """
    at_event = last_event(db) if at is None else at
    order = list(building_ids(db) if ids is None else ids)
    row = {building: i for i, building in enumerate(order)}
    is_positive, is_not_damaged, is_excluded = (np.zeros(len(order), np.bool_) for _ in range(3))
    for building, event in current(db, at=at_event).items():
        if building in row:
            label = _for_training(db, event, at_event)
            marked = {"positive": is_positive, "not_damaged": is_not_damaged}.get(label or "", is_excluded)
            marked[row[building]] = True
    return PUSet(order, is_positive, is_not_damaged, is_excluded, at_event)


def _for_training(db: sqlite3.Connection, event: LabelEvent, at: int) -> Label | None:
    """Return what a method may know about a building; None where only an audit has an answer."""
    if event.shown != "audit":
        return event.label
    other = last_standing(db, event.building_id, at=at, outside_audits=True)
    return None if other is None or other.label == "cleared" or other.event > event.event else other.label


class Audit(NamedTuple):
    """One answer of an audit; `inclusion` is the probability, (0, 1], with which the building was drawn."""

    building_id: str
    label: Label
    inclusion: float
    analyst: str
    event: int


def audits(db: sqlite3.Connection) -> list[Audit]:
    """Return the last standing audit answer of each building, in the order in which they were given.

    A later answer outside the audit changes the building's label but not the sample; only clearing the building, or undo,
    takes an audit answer out of it.
    """
    gone = all_undone(db)
    last: dict[str, tuple[str, Audit]] = {}
    for shown, *row in db.execute(
        "SELECT shown, building_id, label, inclusion, analyst, event FROM label_event "
        "WHERE undoes IS NULL AND (shown = 'audit' OR label = 'cleared') ORDER BY event"
    ):
        found = Audit(*row)
        if found.event not in gone:
            last.pop(found.building_id, None)
            last[found.building_id] = (shown, found)
    return [found for shown, found in last.values() if shown == "audit" and found.label != "cleared"]


class Given(NamedTuple):
    """One answer that somebody gave; `is_check`: to a random check, of whatever sample."""

    event: int
    building_id: str
    analyst: str
    is_check: bool


def given_since(db: sqlite3.Connection, after: int) -> list[Given]:
    """Return the answers that were given after an event, oldest first.

    Answers that were undone do not count; those that were corrected or cleared since do.
    """
    rows = db.execute(
        "SELECT event, building_id, analyst, shown = 'audit' FROM label_event "
        "WHERE event > ? AND undoes IS NULL AND label <> 'cleared' AND event NOT IN (SELECT value FROM json_each(?)) "
        "ORDER BY event",
        (after, json.dumps(sorted(all_undone(db)))),
    )
    return [Given(int(event), building, analyst, bool(is_check)) for event, building, analyst, is_check in rows]


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
