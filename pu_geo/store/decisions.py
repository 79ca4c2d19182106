"""What people decided about groups of buildings, in an append-only log: selections with a name, accepted clusters, named
types.

The newest entry of a kind and name counts; an entry without facts removes it. So everything can be put back.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pu_geo.errors import ProjectError
from pu_geo.store.store import now, transaction

KINDS = ("selection", "pseudo_positives", "reviewed", "groups")
MAX_NAME = 60
_COLUMNS = "decision, kind, name, analyst, at, facts"
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Decision:
    """One entry of the log.

    Attributes:
        decision: its number; later ones are higher.
        kind: one of `KINDS`.
        name: what people call it, 1 to 60 characters; unique among those of a kind that stand.
        at: RFC 3339, UTC.
        facts: JSON values; for groups of buildings "building_ids", and where they come from.
    """

    decision: int
    kind: str
    name: str
    analyst: str
    at: str
    facts: Mapping[str, Any]


def decide(
    db: sqlite3.Connection, op: str, kind: str, name: str, facts: Mapping[str, Any] | None, *, analyst: str
) -> int:  # fmt: skip
    """Store a decision; one that came before under the same operation id is not stored twice.

    Args:
        op: unique for ever, such as a uuid.
        facts: JSON values; None removes what this name means.

    Returns:
        Its number.

    Raises:
        ProjectError: if the kind or the name cannot be.
    """
    if kind not in KINDS:
        raise ProjectError(f"{kind!r} is no kind of decision.", f"Kinds are {', '.join(KINDS)}.", kind="decision")
    text = checked_name(name)
    with transaction(db):
        known = db.execute("SELECT decision FROM decision WHERE op = ?", (op,)).fetchone()
        if known:
            return int(known[0])
        row = db.execute(
            "INSERT INTO decision (op, kind, name, analyst, at, facts) VALUES (?, ?, ?, ?, ?, ?)",
            (op, kind, text, analyst, now(), json.dumps(facts, ensure_ascii=False)),
        )
    return int(row.lastrowid or 0)


def checked_name(name: str) -> str:
    """Return a name without spaces around it.

    Raises:
        ProjectError: unless it has 1 to 60 characters, all of them visible.
    """
    text = name.strip()
    if not 1 <= len(text) <= MAX_NAME or _INVISIBLE.search(text):
        raise ProjectError(
            f"{text[:80]!r} cannot be a name: names have 1 to {MAX_NAME} characters that can be seen.",
            "Choose another one.",
            kind="name",
        )
    return text


def standing(db: sqlite3.Connection, kind: str, *, at: int | None = None) -> dict[str, Decision]:
    """Return what counts of a kind, by name, in the order of the newest decisions; as after decision `at`, if given."""
    last = last_decision(db) if at is None else at
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM decision d WHERE kind = ? AND decision = "
        "(SELECT max(decision) FROM decision WHERE kind = d.kind AND name = d.name AND decision <= ?) ORDER BY decision",
        (kind, last),
    )
    return {each.name: each for each in map(_decision, rows) if each.facts is not None}


def last_decision(db: sqlite3.Connection) -> int:
    """Return the number of the newest decision, 0 if there is none."""
    return int(db.execute("SELECT ifnull(max(decision), 0) FROM decision").fetchone()[0])


def entries(db: sqlite3.Connection, kind: str, name: str) -> list[Decision]:
    """Return all that was ever decided under a name, newest first; the facts of an entry that took it away are None."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM decision WHERE kind = ? AND name = ? ORDER BY decision DESC", (kind, name))
    return list(map(_decision, rows))


def entry(db: sqlite3.Connection, decision: int) -> Decision | None:
    """Return the entry of a number, whether it still counts or not; None if there is none."""
    row = db.execute(f"SELECT {_COLUMNS} FROM decision WHERE decision = ?", (decision,)).fetchone()
    return None if row is None else _decision(row)


def _decision(row: tuple[Any, ...]) -> Decision:
    number, kind, name, analyst, at, facts = row
    return Decision(number, kind, name, analyst, at, json.loads(facts))
