"""The event log of one job, `events.jsonl`: one JSON object a line, only ever appended to."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

from pu_geo.project.store import now

FILE_NAME = "events.jsonl"


def append(folder: Path, kind: str, values: Mapping[str, object] | None = None) -> None:
    """Append one event. Whole lines only: the line is written in one call, so that a reader never sees half of two.

    Raises:
        OSError: if it did not fit on the disk; a half of it is left, and ended by whoever appends next.
    """
    line = json.dumps({"at": now(), "event": kind, **(values or {})}, ensure_ascii=False) + "\n"
    with (folder / FILE_NAME).open("ab+", buffering=0) as stream:
        content = (_end_of_half_line(stream) + line).encode("utf-8")
        if stream.write(content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / FILE_NAME))


def _end_of_half_line(stream: io.FileIO) -> str:
    """Return what is missing at the end of the log where a write was cut off."""
    if stream.seek(0, os.SEEK_END) == 0:
        return ""
    stream.seek(-1, os.SEEK_END)
    return "" if stream.read(1) == b"\n" else "\n"


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
