"""The labels that can still be read of a damaged project, as a history that another project imports."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pu_geo.errors import LabelError, ProjectError, writing
from pu_geo.files import atomic_write
from pu_geo.project import history, labels, salvage, schema
from pu_geo.project.layout import Layout, writable_target
from pu_geo.spreadsheets import guarded


@dataclass(frozen=True)
class ReadableLabels:
    """What can be read of a label log.

    Attributes:
        n: entries that can be read.
        n_unreadable: entries that are known to have been there and cannot be read.
        n_buildings: buildings that the readable ones are about.
        csv: the readable ones as `pu-geo export-labels` writes a history.
    """

    n: int
    n_unreadable: int
    n_buildings: int
    csv: str


def read(layout: Layout) -> ReadableLabels:
    """Read the label log of a project's file page by page. Raises `ProjectError` if the disk does not give the file."""
    facts = [path.stat() if path.exists() else None for path in (layout.gpkg, layout.gpkg.with_name("project.gpkg-wal"))]
    return _read(layout, tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in facts if one))


@lru_cache(maxsize=2)
def _read(layout: Layout, stamp: object) -> ReadableLabels:
    """Read it once, until the file changes: a page is drawn many times."""
    try:
        events, n_unreadable = salvage.readable_events(layout.gpkg)
    except OSError as error:
        raise ProjectError(
            f"{layout.gpkg} cannot be read: {error.strerror or error}.", "Look whether its disk is there.", kind="disk"
        ) from error
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(history.COLUMNS)
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.CREATE)
        for event in events:
            with suppress(sqlite3.IntegrityError):  # a value that no label has: counted below
                labels.insert(db, event)
        n = db.execute("SELECT count(*) FROM label_event").fetchone()[0]
        n_buildings = db.execute("SELECT count(DISTINCT building_id) FROM label_event").fetchone()[0]
        for row in history.rows(db, at=labels.NEWEST):
            table.writerow([guarded(cell) if isinstance(cell, str) else cell for cell in row])
    return ReadableLabels(n, n_unreadable + len(events) - n, n_buildings, text.getvalue())


def save(layout: Layout, path: str) -> tuple[ReadableLabels, Path]:
    """Write them as `<stem>.events.csv` beside where the labels would go; return them and the file.

    The current labels are not written: an entry that cannot be read may have changed one.

    Raises:
        LabelError: if the place cannot be used.
        ProjectError: if the disk does not give the project's file.
    """
    target = Path(path)
    out = writable_target(str(target.with_name(f"{target.stem.removesuffix('.events')}.events.csv")), LabelError)
    found = read(layout)
    with writing(out, LabelError), atomic_write(out) as temporary:
        temporary.write_text(found.csv, encoding="utf-8", newline="")
    return found, out
