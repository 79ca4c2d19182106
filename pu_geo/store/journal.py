"""The journal of labels: each label event as a line of JSON beside the database, on the disk before the database has it.

    labels.jsonl    {"event": 1, "op": "s-1", "building_id": "b7", ..., "project": "5e1...", "crc": 2914}

A line has all columns of its row, the id of its project, and the CRC-32 of the text before. What a backup lacks is put in
again from it, see `history.complete`; only a database that cannot be read is ever behind it, but for the last lines: of a
process that was killed before its database had them. The event that is stored next has the number of the first of these, and
so takes their place.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pu_geo.errors import OutOfReach, ProjectError
from pu_geo.files import FULL, appended, opened
from pu_geo.store.layout import JOURNAL, Layout, reading

Row = dict[str, Any]
_LONGEST = 2**16  # bytes of a line; the longest answer has 20,000
_MOST = 2**31  # bytes of a journal; a million answers have 500 MB
_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Journal:
    """What can be read of a journal.

    Attributes:
        rows: of `label_event`, column -> value as the lines have them, by number; their values may be anything.
        n_unreadable: lines that cannot be read, or are of another project.
    """

    rows: list[Row]
    n_unreadable: int


def last_event(db: sqlite3.Connection) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return int(db.execute("SELECT ifnull(max(event), 0) FROM label_event").fetchone()[0])


@contextmanager
def written(db: sqlite3.Connection, *, after: int) -> Iterator[None]:
    """Write the events of a transaction into the journal, in one write; the block commits them. Where it fails, they are
    taken out again.

    Args:
        after: number of the last event that was there before.

    Raises:
        ProjectError: of kind "disk_full" or "disk" if they cannot be written.
    """
    cursor = db.execute("SELECT * FROM label_event WHERE event > ? ORDER BY event", (after,))
    rows = cursor.fetchall()
    path = db.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()[0]
    if not rows or not path:
        yield
        return
    names = [column[0] for column in cursor.description]
    (project,) = db.execute("SELECT max(value) FROM pugeo_meta WHERE key = 'project_id'").fetchone()
    lines = "".join(_line({**dict(zip(names, row, strict=True)), "project": project}) for row in rows)
    journal = Path(path).with_name(JOURNAL)
    try:
        with appended(journal, lines.encode()):
            yield
    except OutOfReach:
        raise
    except OSError as error:
        is_full = error.errno in FULL
        raise ProjectError(
            f"{journal} cannot be written: {error.strerror or error}. What was to be stored was not.",
            "Make room on its disk, then try again." if is_full else "Look whether its disk is there and may be written to.",
            kind="disk_full" if is_full else "disk",
        ) from error


def read(layout: Layout, project_id: str | None = None) -> Journal:
    """Read a project's journal. Half a line at its end is of an event that was never acknowledged.

    Args:
        project_id: of the project whose lines count; None for any.

    Raises:
        OutOfReach: if a link leads elsewhere.
        ProjectError: of kind "lost" if it cannot be read.
    """
    rows: list[Row] = []
    n_unreadable = 0
    check(layout)
    with reading(layout.journal):
        for line in _lines(layout.journal):
            if (row := _row(line, project_id)) is None:
                n_unreadable += 1
                continue
            while rows and rows[-1]["event"] >= row["event"]:
                rows.pop()
            rows.append(row)
    return Journal(rows, n_unreadable)


def check(layout: Layout) -> None:
    """Raise ProjectError of kind "lost" if a project's journal is too large to be one; before anything is copied."""
    with reading(layout.journal):
        if layout.journal.exists() and layout.journal.stat().st_size > _MOST:
            raise ValueError(f"{layout.journal.stat().st_size:,} bytes")


def _line(row: Row) -> str:
    text = _text(row)
    return f'{text[:-1]},"crc":{zlib.crc32(text.encode())}}}\n'


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a file; of one that is too long its pieces, none of which is a line of ours."""
    if not path.exists():
        return
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        while line := file.readline(_LONGEST):
            if line.endswith(b"\n") or len(line) == _LONGEST:
                yield line


def _row(line: bytes, project_id: str | None) -> Row | None:
    """Return the row of a line; None where it is none of ours, or damaged, or of another project."""
    try:
        row: Row = json.loads(line.decode())
        crc = row.pop("crc")
        is_whole = zlib.crc32(_text(row).encode()) == crc and type(row["event"]) is int
        is_of_it = row.pop("project") == project_id or project_id is None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return row if is_whole and is_of_it else None
