"""What the browser logs and sends: labels with their details, undo and redo, and the wish for another queue.

The browser may send anything; what is read here is checked, and what makes no sense is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pu_geo.records import LABELS, REASONS, SHOWN, Label, Reason, Shown

_MOST_OPERATIONS = 200_000  # more in one message is no person's work
_LONGEST_TEXT = 200
_LONGEST_COMMENT = 500
_MOST_TYPES = 20
_MOST_SKIPPED = 1_000


@dataclass(frozen=True)
class Operation:
    """One wish of the analyst, as the browser logged it.

    Attributes:
        op: unique for ever; the same one may arrive several times and must be stored once.
        kind: "set" gives `building_id` the `label` and the details below, which replace earlier ones; "undo" and "redo"
            carry neither; "queue" asks for what comes after the queue `queue`, and may arrive again when that was answered.
        screen: "map", "wall", "keys", "queue" or "card".
        act: id shared by operations that are undone together, or None.
        reason: why the building is not assessable, "unclear" unless the analyst said; "" with every other label.
        damage_types: of a positive, in the words the page offers.
        comment: at most 500 characters.
        shown: kind of the queue's item that was answered; "" where the analyst picked the building.
        queue: id of the queue that was answered from, or that is done.
        skipped: building ids that the analyst passed over in that queue.
    """

    op: str
    kind: Literal["set", "undo", "redo", "queue"]
    building_id: str = ""
    label: Label = "cleared"
    screen: str = "map"
    act: str | None = None
    reason: Reason = ""
    damage_types: tuple[str, ...] = ()
    comment: str = ""
    shown: Shown = ""
    queue: str = ""
    skipped: tuple[str, ...] = ()


def read_operations(message: Mapping[str, Any]) -> tuple[str, int, list[Operation]]:
    """Check what came from a browser: (session, highest number, well-formed operations in their order).

    Operations that make no sense are left out and yet acknowledged; they would make none the next time either.
    """
    raw = message.get("ops")
    entries = [each for each in raw[:_MOST_OPERATIONS] if isinstance(each, Mapping)] if isinstance(raw, list) else []
    numbers = [n for n in (each.get("n") for each in entries) if isinstance(n, int)]
    operations = [operation for operation in map(_operation, entries) if operation is not None]
    return _text(message.get("session")), max(numbers, default=0), operations


def _operation(entry: Mapping[str, Any]) -> Operation | None:
    op, screen = _text(entry.get("op")), _text(entry.get("screen")) or "map"
    if not op:
        return None
    if entry.get("undo") is True:
        return Operation(op, "undo", screen=screen)
    if entry.get("redo") is True:
        return Operation(op, "redo", screen=screen)
    if entry.get("next") is True:
        skipped = _texts(entry.get("skipped"), _MOST_SKIPPED)
        return (
            None
            if skipped is None
            else Operation(op, "queue", screen=screen, queue=_text(entry.get("queue")), skipped=skipped)
        )
    return _label(op, screen, entry)


def _label(op: str, screen: str, entry: Mapping[str, Any]) -> Operation | None:
    building_id, label = _text(entry.get("building_id")), entry.get("label")
    reason = entry.get("reason") or ("unclear" if label == "not_assessable" else "")
    shown, comment = entry.get("shown") or "", entry.get("comment") or ""
    types = _texts(entry.get("damage_types"), _MOST_TYPES)
    if not building_id or label not in LABELS or reason not in REASONS or shown not in SHOWN or types is None:
        return None
    if (reason and label != "not_assessable") or not isinstance(comment, str) or len(comment) > _LONGEST_COMMENT:
        return None
    act, queue = _text(entry.get("act")) or None, _text(entry.get("queue"))
    return Operation(op, "set", building_id, label, screen, act, reason, types, comment, shown, queue)


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT else ""


def _texts(value: object, most: int) -> tuple[str, ...] | None:
    """Return a list of texts, empty where nothing was said; None if it is not one or too long."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most or not all(map(_text, value)):
        return None
    return tuple(value)
