"""What browsers tell of themselves between clicks, checked, and what they get to know for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from pu_geo.services.annotate.presence import Presence
from pu_geo.services.project import projects

_LONGEST_NAME = 100


@cache
def _presence() -> Presence:
    """The one register of this server."""
    return Presence()


def news(token: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Note where a browser is; return what it does not know yet, or None if what it says makes no sense.

    Raises PuGeoError where somebody else holds the file for too long; the browser asks again soon.

    Args:
        token: of an opened project.
        message: {"session", "analyst", "building", "since"}; see `Presence.tell`.
    """
    session, analyst, building, since = (message.get(key) for key in ("session", "analyst", "building", "since"))
    if not (_is_name(session) and _is_name(analyst) and _is_count(since) and (building is None or _is_count(building))):
        return None
    layout = projects.resolve(token)
    return None if layout is None else asdict(_presence().tell(layout, str(session), str(analyst), building, since or 0))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53
