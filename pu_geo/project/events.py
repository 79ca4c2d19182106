"""The event log of one job, `events.jsonl`: one JSON object a line, only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pu_geo.project.store import now

FILE_NAME = "events.jsonl"


def append(folder: Path, kind: str, values: Mapping[str, object] | None = None) -> None:
    """Append one event. Whole lines only: the line is written in one call, so that a reader never sees half of two."""
    line = json.dumps({"at": now(), "event": kind, **(values or {})}, ensure_ascii=False) + "\n"
    with (folder / FILE_NAME).open("ab", buffering=0) as stream:
        stream.write(line.encode("utf-8"))


def read(folder: Path) -> list[dict[str, object]]:
    """Return all events; a last line that a crash cut off is left out."""
    path = folder / FILE_NAME
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
