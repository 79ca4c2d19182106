"""The event log of one job, `events.jsonl`: one JSON object a line, only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pu_geo.files import append_lines
from pu_geo.store.store import now

FILE_NAME = "events.jsonl"
BEGUN_ANEW = "begun_anew"  # Event: what a training had reached was thrown away, and it begins from nothing
_MOST_LOGS = 200


def append(folder: Path, kind: str, values: Mapping[str, object] | None = None) -> None:
    """Append one event. Whole lines only: the line is written in one call, so that a reader never sees half of two.

    Args:
        values: further facts of it; "at" and "event" among them are not taken.

    Raises:
        OSError: if it did not fit on the disk; a half of it is left, and ended by whoever appends next.
    """
    line = json.dumps({**(values or {}), "at": now(), "event": kind}, ensure_ascii=False) + "\n"
    append_lines(folder / FILE_NAME, line)


def read(folder: Path) -> list[dict[str, object]]:
    """Return all events, not to be changed; a last line that a crash cut off is left out."""
    path = folder / FILE_NAME
    if not path.is_file():
        return []
    facts = path.stat()
    return list(_parsed(path, facts.st_size, facts.st_mtime_ns))


@lru_cache(maxsize=_MOST_LOGS)
def _parsed(path: Path, size: int, mtime_ns: int) -> tuple[dict[str, object], ...]:
    """Read a log as it is at this size; screens ask for those of all jobs again and again, and most have ended."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict) and {"event", "at"} <= event.keys():
                found.append(event)
    return tuple(found)


def curve(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the report of each epoch of a training, over all its starts, in the order in which they were first done.

    Of an epoch that was done twice the last report counts; what was done before a training began anew does not.

    Args:
        log: events, as `read` gives them.
    """
    kinds = [event.get("event") for event in log]
    first = len(kinds) - kinds[::-1].index(BEGUN_ANEW) if BEGUN_ANEW in kinds else 0
    epochs = {(one.get("stage"), one.get("epoch")): one for one in log[first:] if one.get("event") == "epoch"}
    return [dict(event) for event in epochs.values()]
