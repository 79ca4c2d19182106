"""Clicks over HTTP: stored and acknowledged without a rerun of the page, so that many analysts can click at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pu_geo.services.annotate import audit_queue, labeling
from pu_geo.services.project import projects
from pu_geo.ui.annotate.operations import Operation, read_operations

_LONGEST_NAME = 100


def store_clicks(token: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Store a browser's labels, undo and redo, in their order; a replayed one is acknowledged again, not stored twice.

    Args:
        token: of an opened project.
        message: {"session", "analyst", "ops"}; see `read_operations`. Wishes for another queue need the page and are left out.

    Returns:
        {"session", "n": highest number that is dealt with, "event": newest event, "refused": None or problem and hint};
        None if there is no such project or the message makes no sense.

    Raises:
        PuGeoError: if nothing can be stored now, for example because another program holds the file.
    """
    layout, analyst = projects.resolve(token), message.get("analyst")
    session, highest, operations = read_operations(message)
    if layout is None or not session or not isinstance(analyst, str) or not 0 < len(analyst) <= _LONGEST_NAME:
        return None
    wishes = [
        wish(op, audit_queue.inclusion_now(layout, analyst, op.building_id) if op.shown == "audit" else None)
        for op in operations
        if op.kind != "queue"
    ]
    acks = labeling.apply_operations(layout, wishes, analyst=analyst, screen="map")
    wrong = [ack.error for ack in acks if ack.error]
    refused = None
    if wrong:
        words = f"{len(wrong)} of {len(acks)} labels were refused. The first: {wrong[0]}"
        refused = {"problem": words, "hint": "Reload the page."}
    return {"session": session, "n": highest, "event": labeling.newest_event(layout), "refused": refused}


def wish(op: Operation, inclusion: float | None) -> dict[str, object]:
    """Write an operation as the labeling service takes it.

    Args:
        inclusion: probability with which a check drew the building; without one an audit's answer is stored as any other.
    """
    return {
        "op": op.op,
        op.kind: True,
        "building_id": op.building_id,
        "label": op.label,
        "act": op.act,
        "screen": op.screen,
        "reason": op.reason,
        "damage_types": op.damage_types,
        "comment": op.comment,
        "shown": "" if op.shown == "audit" and inclusion is None else op.shown,
        "inclusion": inclusion,
    }
