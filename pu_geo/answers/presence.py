"""Who is on which building right now, and what others answered since. Held in memory: after a restart browsers send it
anew.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pu_geo.records import MAX_NAME, LabelEvent, is_text
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout

SECONDS_REMEMBERED = 20.0  # browsers send where they are every few seconds; one that sent nothing for so long is gone
COLORS = ("#0B6E99", "#8A5A00", "#5B3E96", "#00695C", "#AD1457", "#37474F", "#1565C0", "#558B2F")
_DETAILS = ("reason", "grade", "damage_types", "absent_types", "comment", "shown")
_MOST_SESSIONS = 500  # of one project; more are no people


class _Place(NamedTuple):
    analyst: str
    building: int | None
    at: float


_lock = threading.Lock()
_places: dict[tuple[Path, str], _Place] = {}  # by project and session, of all projects of this server
_now = time.monotonic


def color_of(analyst: str) -> str:
    """Return an analyst's color, "#rrggbb"; the same in every browser."""
    return COLORS[hashlib.sha256(analyst.encode()).digest()[0] % len(COLORS)]


def names_here(layout: Layout) -> set[str]:
    """Return the analysts whose browsers are on a project."""
    with _lock:
        return {one.analyst for one in _here(layout).values()}


def _here(layout: Layout) -> dict[str, _Place]:
    """Return session -> place of the browsers on a project; one that sent nothing for long is gone. The caller holds the
    lock.
    """
    for key in [key for key, one in _places.items() if one.at < _now() - SECONDS_REMEMBERED]:
        del _places[key]
    return {session: one for (folder, session), one in _places.items() if folder == layout.folder}


def exchange(layout: Layout, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Note where a browser is; return what it does not know yet, or None if its message makes no sense.

    Args:
        message: {"session": of the browser's page: its own operations begin with it, and it knows them; "analyst";
            "building": its place in the footprint file or None; "since": number of the last label event that it knows, 0
            asks for no labels}.

    Returns:
        {"event": newest label event, "labels": building id -> label as it stands now ("cleared" too), "details": building id
        -> what else these answers hold, "others": {"name", "color", "building", "seconds" since it sent something} of each
        other browser on the project}

    Raises:
        PuGeoError: if somebody else holds the file for too long; the browser asks again soon.
    """
    session, analyst, building, since = (message.get(key) for key in ("session", "analyst", "building", "since"))
    names_fit = is_text(session, 1, MAX_NAME) and is_text(analyst, 1, MAX_NAME)
    if not (names_fit and _is_count(since) and (building is None or _is_count(building))):
        return None
    others = _note(layout, str(session), _Place(str(analyst), building, _now()))
    with store.connect(layout) as db:
        event = labels.last_event(db)
        changed = labels.changed_since(db, since or 0, but_by=str(session)) if 0 < (since or 0) < event else {}
    details = {building: _details(answer) for building, answer in changed.items() if answer.label != "cleared"}
    news = {building: answer.label for building, answer in changed.items()}
    return {"event": event, "labels": news, "details": details, "others": others}


def _note(layout: Layout, session: str, place: _Place) -> list[dict[str, Any]]:
    with _lock:
        here = _here(layout)
        if len(here) < _MOST_SESSIONS or session in here:
            _places[layout.folder, session] = place
    others = [
        {
            "name": one.analyst, "color": color_of(one.analyst), "building": one.building,
            "seconds": round(place.at - one.at),
        }
        for name, one in here.items()
        if name != session and one.analyst != place.analyst
    ]  # fmt: skip
    return sorted(others, key=lambda other: str(other["name"]))


def _details(answer: LabelEvent) -> dict[str, Any]:
    """Return what an answer holds beside its label, as far as it holds something."""
    named = {name: getattr(answer, name) for name in _DETAILS}
    return {name: value for name, value in {**named, "by": answer.analyst}.items() if value}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53
