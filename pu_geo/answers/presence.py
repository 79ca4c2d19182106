"""Who is on which building right now, and what others answered since. Held in memory: after a restart browsers send it
anew.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pu_geo.records import MAX_NAME, Label, LabelEvent, is_text
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout

SECONDS_REMEMBERED = 20.0  # browsers send where they are every few seconds; one that sent nothing for so long is gone
COLORS = ("#0B6E99", "#8A5A00", "#5B3E96", "#00695C", "#AD1457", "#37474F", "#1565C0", "#558B2F")
_DETAILS = ("reason", "grade", "damage_types", "absent_types", "comment", "shown")
_MOST_SESSIONS = 500  # of one project; more are no people


@dataclass(frozen=True)
class Other:
    """Another browser on the project: its analyst, the building's place in the footprint file, seconds since it sent
    something.
    """

    name: str
    color: str
    building: int | None
    seconds: int


@dataclass(frozen=True)
class Changes:
    """What a browser does not know yet: labels up to `event` as they stand now ("cleared" too), what else these answers
    hold,
    and who else is here."""

    event: int
    labels: dict[str, Label]
    details: dict[str, dict[str, Any]]
    others: list[Other]


@dataclass(frozen=True)
class _Place:
    analyst: str
    building: int | None
    at: float


def color_of(analyst: str) -> str:
    """Return an analyst's color, "#rrggbb"; the same in every browser."""
    return COLORS[hashlib.sha256(analyst.encode()).digest()[0] % len(COLORS)]


class Presence:
    """The browsers of all projects of this server. Safe to call from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._places: dict[tuple[Path, str], _Place] = {}

    def exchange(self, layout: Layout, session: str, analyst: str, building: int | None, since: int) -> Changes:
        """Note where a browser is; return what it does not know yet.

        Args:
            session: of the browser's page; its own operations begin with it, and it knows them.
            since: number of the last label event that it knows; 0 asks for no labels.
        """
        others = self._note(layout.folder, session, _Place(analyst, building, self._clock()))
        with store.connect(layout) as db:
            event = labels.last_event(db)
            changed = labels.changed_since(db, since, but_by=session) if 0 < since < event else {}
        news = {building: answer.label for building, answer in changed.items()}
        details = {building: _details(answer) for building, answer in changed.items() if answer.label != "cleared"}
        return Changes(event, news, details, others)

    def names(self, layout: Layout) -> set[str]:
        """Return the analysts whose browsers are on a project."""
        with self._lock:
            oldest = self._clock() - SECONDS_REMEMBERED
            return {known.analyst for key, known in self._places.items() if key[0] == layout.folder and known.at >= oldest}

    def _note(self, folder: Path, session: str, place: _Place) -> list[Other]:
        with self._lock:
            oldest = place.at - SECONDS_REMEMBERED
            self._places = {key: known for key, known in self._places.items() if known.at >= oldest}
            here = [(key[1], known) for key, known in self._places.items() if key[0] == folder]
            if len(here) < _MOST_SESSIONS or any(known == session for known, _ in here):
                self._places[folder, session] = place
        others = [
            Other(known.analyst, color_of(known.analyst), known.building, round(place.at - known.at))
            for name, known in here
            if name != session and known.analyst != place.analyst
        ]
        return sorted(others, key=lambda other: other.name)


_PRESENCE = Presence()


def names_here(layout: Layout) -> set[str]:
    """Return the analysts whose browsers are on a project."""
    return _PRESENCE.names(layout)


def exchange(layout: Layout, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Note where a browser is; return what it does not know yet, or None if its message makes no sense.

    Args:
        message: {"session", "analyst", "building", "since"}; see `Presence.exchange`.

    Raises:
        PuGeoError: if somebody else holds the file for too long; the browser asks again soon.
    """
    session, analyst, building, since = (message.get(key) for key in ("session", "analyst", "building", "since"))
    names_fit = is_text(session, 1, MAX_NAME) and is_text(analyst, 1, MAX_NAME)
    if not (names_fit and _is_count(since) and (building is None or _is_count(building))):
        return None
    return asdict(_PRESENCE.exchange(layout, str(session), str(analyst), building, since or 0))


def _details(answer: LabelEvent) -> dict[str, Any]:
    """Return what an answer holds beside its label, as far as it holds something."""
    named = {name: getattr(answer, name) for name in _DETAILS}
    return {name: value for name, value in {**named, "by": answer.analyst}.items() if value}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53
