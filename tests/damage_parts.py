"""Pages of a project's file, to damage them on purpose."""

import sqlite3
from contextlib import closing

from pu_geo.store import in_use
from pu_geo.store.layout import Layout

PAGE = 4096  # bytes


def checkpoint(layout: Layout) -> None:
    """Put what is in the log beside the file into the file."""
    in_use.let_go(layout)
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def page_of(layout: Layout, table: str) -> int:
    """Return the number of the first page of a table."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        return int(db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0])


def overwrite(layout: Layout, page: int, n: int = 1) -> None:
    """Fill some pages with bytes that are none of a database, as a bad disk may."""
    checkpoint(layout)
    with layout.gpkg.open("r+b") as file:
        file.seek(PAGE * (page - 1))
        file.write(b"\x77" * PAGE * n)
