"""Whether the file of a project is whole: asked when it is opened, before anything is read of it or written to it."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np

from pu_geo.errors import printable
from pu_geo.store import schema

CHECKED_AT_ONCE = 100 * 1024**2  # bytes; larger files are checked in a thread beside
_TEXTS = (
    "pugeo_meta",
    "scene",
    "chip_set",
    "run",
    "decision",
    "threshold",
    "choice",
    "aoi_log",
    "intake",
    "label_event",
    "footprints",
)
_JSON = (
    ("scene", "facts"),
    ("run", "facts"),
    ("decision", "facts"),
    ("choice", "value"),
    ("label_event", "damage_types"),
    ("label_event", "absent_types"),
    ("footprints", "attributes"),
)
_AT_ONCE = 5_000  # rows whose texts are joined
_LAST_AND_GIVEN = """
    SELECT (SELECT ifnull(max(event), 0) FROM label_event), ifnull(max(seq), 0)
    FROM sqlite_sequence WHERE name = 'label_event'
"""  # one statement: somebody may click between two
_WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEADER, _FRAME_HEADER = 32, 24
_WORDS_OF_CORRUPT = (
    "no such table",
    "no such column",
    "malformed",
    "decode to utf-8",
    "has no column",
    "unsupported file format",
)
_LEFT = {"layer_styles", "sqlite_sequence"}  # of QGIS and of SQLite
_indexes: dict[tuple[int, int], int] = {}  # device and inode -> descriptor
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: BaseException) -> bool:
    """Return whether an error of sqlite3 means that the file is damaged, or is no database."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    if code & 0xFF in _CORRUPT or code in (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS):
        return True
    is_operational = isinstance(error, sqlite3.OperationalError)
    return is_operational and any(words in str(error).lower() for words in _WORDS_OF_CORRUPT)


def problem(db: sqlite3.Connection) -> str:
    """Return what is damaged in a project's file, in words that end a sentence; "" if nothing is.

    Checked are the structure of the file with its indexes, the end of the label log, and that texts, JSON values and
    outlines are such. Of a changed letter in a text, or a changed number, nothing shows.

    Raises:
        sqlite3.Error: that is no damage, such as a file that another program holds.
    """
    try:
        if (found := str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])) != "ok":
            return _unreadable(found)
        last, given = db.execute(_LAST_AND_GIVEN).fetchone()
        if given != last:
            return f"the label log ends with entry {last}, and the number {given} was given"
        for table in _TEXTS:
            _read_texts(db, table)
        for table, column in _JSON:
            if db.execute(f"SELECT 1 FROM {table} WHERE NOT json_valid({column})").fetchone():
                return f"an entry of the table {table} makes no sense"
        if n := _broken_outlines(db):
            return f"the outlines of {n} buildings cannot be read"
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return _unreadable(str(error))
    return ""


def _unreadable(words: str) -> str:
    return f"a part of it cannot be read ({' '.join(words.removeprefix('*** in database main ***').split())})"


def strange(db: sqlite3.Connection) -> str:
    """Return in what our tables, views, indexes and triggers are not exactly as PU-Geo makes them, or have others, as
    `problem` does.

    A trigger of somebody else's could make an answer vanish that was acknowledged. Layers that QGIS saved into the file are
    left alone.
    """
    ours = _expected()
    tables = {table for table, _ in ours.values()}
    here = {name: made for name, made in _shape(db).items() if made[0] in tables}
    gone = [name for name in ours if name not in here]
    other = [name for name, made in here.items() if made != ours.get(name, made)]
    added = [printable(name) for name in here if name not in ours]
    words = (("it lacks", gone), ("another program changed its", other), ("PU-Geo did not make its", added))
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in words if names)


def _shape(db: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Return of which table each table, view, index and trigger is, and what makes it; indexes of SQLite's own follow from
    these.
    """
    found = db.execute("SELECT type || ' ' || name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): (table, made) for name, table, made in found if table not in _LEFT}


@cache
def _expected() -> dict[str, tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.CREATE)
        return _shape(db)


def _read_texts(db: sqlite3.Connection, table: str) -> None:
    """Read all texts of a table. Raises sqlite3.OperationalError where one is no text: Python decodes it, SQLite does
    not.
    """
    joined = " || ".join(f"ifnull({name}, '')" for name, kind in _columns(db, table).items() if kind == "TEXT")
    for _ in db.execute(f"SELECT group_concat({joined}, '') FROM {table} GROUP BY rowid / {_AT_ONCE}"):
        pass


def _columns(db: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return name -> type of a table's columns, none where there is no such table."""
    return dict(db.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall())


def _broken_outlines(db: sqlite3.Connection) -> int:
    """Return how many outlines of buildings are none; 0 where a training alone runs, which reads no outline."""
    if importlib.util.find_spec("shapely") is None:
        return 0
    import shapely

    n, rows = 0, db.execute("SELECT substr(geom, 1, 2) = CAST('GP' AS BLOB), substr(geom, 41) FROM footprints")
    while some := rows.fetchmany(_AT_ONCE):
        shapes = shapely.from_wkb(
            np.array([wkb if is_ours else b"" for is_ours, wkb in some], dtype=object), on_invalid="ignore"
        )
        n += int((~np.isfinite(shapely.bounds(shapes)).all(axis=1)).sum())
    return n


# The log beside the file


def lost_frames(gpkg: Path) -> int:
    """Return how many committed frames of the write-ahead log beside a file are broken or gone, 0 if none is known to be.

    To be asked before SQLite opens the file: it passes over a broken frame, and all after it, without a word, and then
    writes the log's index anew, which counts them still.

    Source: "WAL-mode File Format", https://www.sqlite.org/walformat.html, section 2.1.
    """
    index = _index_of(gpkg)
    content = os.pread(index, 136, 0) if index >= 0 else b""
    if len(content) < 136 or content[:48] != content[48:96]:
        return 0
    n_frames, n_in_file = (int.from_bytes(content[at : at + 4], sys.byteorder) for at in (16, 96))
    if n_in_file >= n_frames:
        return 0
    try:
        log = gpkg.with_name(f"{gpkg.name}-wal").read_bytes()  # SQLite holds no locks on it that closing it would cancel
    except OSError:
        log = b""
    size = int.from_bytes(log[8:12], "big")
    n_whole = sum(1 for _ in _frames(log, size))
    is_newer = (
        n_whole > 0 and log[16:24] != content[32:40]
    )  # another process has put the log into the file, and begun a new one
    if is_newer or n_whole >= n_frames or os.fstat(index).st_nlink == 0:
        return 0
    return n_frames - max(n_whole, n_in_file)


def _index_of(gpkg: Path) -> int:
    """Open the index of a file's log, once for ever: closing it would cancel the locks that SQLite holds on it in this
    process.
    """
    path = gpkg.with_name(f"{gpkg.name}-shm")
    if path.is_dir():
        return -1
    try:
        facts = path.stat()
        if (facts.st_dev, facts.st_ino) not in _indexes:
            _indexes[facts.st_dev, facts.st_ino] = os.open(path, os.O_RDONLY)
        return _indexes[facts.st_dev, facts.st_ino]
    except OSError:
        return -1


def _frames(wal: bytes, size: int) -> Iterator[None]:
    """Yield once for each whole frame of a log; ends, as SQLite does, at the first one whose checksum or salt is not
    right.
    """
    order = _WAL_MAGICS.get(int.from_bytes(wal[:4], "big"))
    if order is None or len(wal) < _WAL_HEADER or not 512 <= size <= 65536:
        return
    sums = _checksum(wal[:24], order, (0, 0))
    if sums != struct.unpack(">II", wal[24:32]):
        return
    for at in range(_WAL_HEADER, len(wal) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        number, salt, first, second = struct.unpack(">I4x8sII", wal[at : at + _FRAME_HEADER])
        sums = _checksum(wal[at : at + 8] + wal[at + _FRAME_HEADER : at + _FRAME_HEADER + size], order, sums)
        if salt != wal[16:24] or sums != (first, second) or not number:
            return
        yield


def _checksum(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
