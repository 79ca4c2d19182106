"""Rows that can still be read of a damaged `project.gpkg`: its pages are read one by one, without SQLite.

SQLite refuses a table once one page on the way to it is damaged, though the pages below it are whole. Here each page stands
for itself: a row is read wherever it is whole, also below a page that is not.

Source: "Database File Format", https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6, 2 and 4.
"""

from __future__ import annotations

import errno
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pu_geo.project import schema
from pu_geo.records import LABELS

LOGS = ("label_event", "decision", "choice", "threshold", "empty_step")  # rows of these are added and never changed
_NUMBERED = ("label_event", "decision", "choice", "threshold")  # 1, 2, 3, ... without a gap
_SMALLEST_ROW = 16  # bytes; so a file of n bytes has no row of a number above n / 16
_MAGIC = b"SQLite format 3\0"
_USUAL_PAGE = 4096
_TABLE_INNER, _TABLE_LEAF = 5, 13
_WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEADER, _FRAME_HEADER = 32, 24
_KINDS = ("set", "undo", "redo", "import", "simulated")
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
Value = int | float | str | bytes | None


@dataclass(frozen=True)
class Readable:
    """What can be read of a table.

    Attributes:
        rows: column -> value, by the row's number. Columns that came with a later schema have their default.
        n_unreadable: rows that are known to have been there and cannot be read. There may be more: what a page held that is
            gone, with all that pointed at it, nobody can know.
    """

    rows: list[dict[str, Value]]
    n_unreadable: int


class _Column(NamedTuple):
    name: str
    is_row_number: bool
    is_real: bool
    default: Value


class _Damaged(Exception):
    """A page or a row of it makes no sense."""


def readable_events(path: Path) -> tuple[list[dict[str, Value]], int]:
    """Return the rows of the label log that can be read, oldest first, and how many are known to be unreadable.

    Raises:
        OSError: if the file itself cannot be read.
    """
    found = readable(path, ("label_event",))["label_event"]
    return found.rows, found.n_unreadable


def readable(path: Path, tables: Sequence[str] = LOGS) -> dict[str, Readable]:
    """Return what can be read of some tables of a project's file, with what is committed in the log beside it.

    Args:
        tables: of `LOGS`, or others that have row numbers. Those of `LOGS` but "empty_step" are also found where nothing points at
            their pages any more.

    Raises:
        OSError: if the file itself cannot be read.
    """
    pages = _Pages(path)
    roots = _roots(pages)
    owner: dict[int, str] = {}
    for table in tables:
        owner.update(dict.fromkeys(_leaves(pages, roots.get(table, 0)), table))
    rows: dict[str, dict[int, dict[str, Value]]] = {table: {} for table in tables}
    for number in sorted(owner):
        for row_id, values in _rows(pages, number):
            if (row := _named(owner[number], row_id, values)) is not None:
                rows[owner[number]][row_id] = row
    for number in pages.numbers:
        if number not in owner and pages.kind(number) == _TABLE_LEAF:
            for row_id, values in _rows(pages, number):
                table = _table_of(values)
                if table in rows and (row := _named(table, row_id, values)) is not None:
                    rows[table].setdefault(row_id, row)
    last = _last_numbers(pages, roots)
    return {
        table: Readable(
            [found[i] for i in sorted(found)], max([last.get(table, 0), *found]) - len(found) if table in _NUMBERED else 0
        )
        for table, found in rows.items()
    }


# Pages


class _Pages:
    """The pages of a file, numbered from 1, as its last commit left them."""

    def __init__(self, path: Path) -> None:
        self._content = _content(path)
        log = path.with_name(f"{path.name}-wal")
        wal = _content(log) if log.is_file() else b""
        self.size = _page_size(self._content) or _wal_page_size(wal) or _USUAL_PAGE
        reserved = self._content[20] if len(self._content) > 20 and self._content.startswith(_MAGIC) else 0
        self.usable = self.size - (reserved if reserved <= 32 else 0)
        self._newer = _committed(wal, self.size)
        self.numbers = sorted({*range(2, len(self._content) // self.size + 1), *self._newer} - {1})
        self.count = len(self.numbers) + 1
        self.most_rows = self.count * self.size // _SMALLEST_ROW

    def get(self, number: int) -> bytes:
        """Return a page. Raises `_Damaged` if there is none of this number."""
        if number in self._newer:
            return self._newer[number]
        page = self._content[(number - 1) * self.size : number * self.size] if number >= 1 else b""
        if len(page) < self.size:
            raise _Damaged(f"there is no page {number}")
        return page

    def kind(self, number: int) -> int:
        try:
            return self.get(number)[100 if number == 1 else 0]
        except _Damaged:
            return 0


def _content(path: Path) -> bytes:
    """Read a file in a process of its own: closing it in this one would cancel the locks that SQLite holds on it here."""
    read = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", read, str(path)], capture_output=True, check=False)
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip().rpartition("\n")[2], str(path))
    return done.stdout


def _page_size(header: bytes) -> int:
    if not header.startswith(_MAGIC):
        return 0
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and not size & (size - 1) else 0


def _wal_page_size(wal: bytes) -> int:
    size = int.from_bytes(wal[8:12], "big") if len(wal) >= _WAL_HEADER else 0
    return size if 512 <= size <= 65536 and not size & (size - 1) else 0


def _committed(wal: bytes, size: int) -> dict[int, bytes]:
    """Return page number -> content for the transactions of a write-ahead log that are whole."""
    found: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for number, pages_after, page in frames(wal, size):
        pending[number] = page
        if pages_after:
            found.update(pending)
            pending = {}
    return found


def frames(wal: bytes, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield page number, pages of the file after this commit (0 within a transaction), and page of each whole frame of a log.

    Ends, as SQLite does, at the first frame whose checksum or salt is not right.
    """
    order = _WAL_MAGICS.get(int.from_bytes(wal[:4], "big"))
    if order is None or len(wal) < _WAL_HEADER or int.from_bytes(wal[8:12], "big") != size:
        return
    sums = _checksum(wal[:24], order, (0, 0))
    if sums != struct.unpack(">II", wal[24:32]):
        return
    for at in range(_WAL_HEADER, len(wal) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        number, pages_after, salt, first, second = struct.unpack(">II8sII", wal[at : at + _FRAME_HEADER])
        page = wal[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        sums = _checksum(wal[at : at + 8] + page, order, sums)
        if salt != wal[16:24] or sums != (first, second) or not number:
            return
        yield number, pages_after, page


def _checksum(content: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


# Trees and rows


def _roots(pages: _Pages) -> dict[str, int]:
    """Return name -> first page, of tables and indexes whose entry in the schema can be read."""
    found = {}
    for number in _leaves(pages, 1):
        for _, values in _rows(pages, number):
            if len(values) == 5 and isinstance(values[1], str) and isinstance(values[3], int):
                found[values[1]] = values[3]
    return found


def _leaves(pages: _Pages, root: int) -> list[int]:
    """Return the numbers of the leaf pages of a table that can be reached from its first page."""
    found, waiting, known = [], [root], set()
    while waiting:
        number = waiting.pop()
        if number in known:
            continue
        known.add(number)
        kind = pages.kind(number)
        if kind == _TABLE_LEAF:
            found.append(number)
        elif kind == _TABLE_INNER:
            page = pages.get(number)
            start = 100 if number == 1 else 0
            waiting.append(int.from_bytes(page[start + 8 : start + 12], "big"))
            waiting += [int.from_bytes(page[at : at + 4], "big") for at in _cells(page, start, 12)]
    return found


def _cells(page: bytes, start: int, header: int) -> list[int]:
    """Return where the cells of a page are; those that would be outside of it are left out."""
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    first = start + header
    count = min(count, (len(page) - first) // 2)
    places = struct.unpack(f">{count}H", page[first : first + 2 * count])
    return [at for at in places if first + 2 * count <= at < len(page) - 3]


def _rows(pages: _Pages, number: int) -> Iterator[tuple[int, list[Value]]]:
    """Yield row number and values of each whole row of a leaf page; one whose number is out of order is not whole."""
    page = pages.get(number)
    found = []
    for at in _cells(page, 100 if number == 1 else 0, 8):
        try:
            size, at = _varint(page, at)
            row_id, at = _varint(page, at)
            found.append((row_id, _values(_payload(pages, page, at, size, pages.usable - 35))))
        except _Damaged:
            continue
    last = 0
    for i, (row_id, values) in enumerate(found):
        if last < row_id < (found[i + 1][0] if i + 1 < len(found) else pages.most_rows):
            last = row_id
            yield row_id, values


def _payload(pages: _Pages, page: bytes, at: int, size: int, most: int) -> bytes:
    """Return the content of a row, which goes on in other pages where it is long. Raises `_Damaged`."""
    if size > pages.count * pages.size:
        raise _Damaged("a row is longer than the file")
    if size <= most:
        local, following = size, 0
    else:
        least = (pages.usable - 12) * 32 // 255 - 23
        wanted = least + (size - least) % (pages.usable - 4)
        local = wanted if wanted <= most else least
        following = int.from_bytes(page[at + local : at + local + 4], "big")
    if at + local > pages.usable:
        raise _Damaged("a row leads out of its page")
    parts, left = [page[at : at + local]], size - local
    while left > 0:
        other = pages.get(following)
        part = other[4 : min(pages.usable, 4 + left)]
        following, left = int.from_bytes(other[:4], "big"), left - len(part)
        parts.append(part)
    return b"".join(parts)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where the next thing is."""
    value = 0
    for i in range(9):
        if at >= len(content):
            raise _Damaged("a number leads out of its page")
        byte = content[at]
        at += 1
        if i == 8:
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
    return (value - (1 << 64) if value >= 1 << 63 else value), at


def _values(record: bytes) -> list[Value]:
    header, at = _varint(record, 0)
    if not 0 < header <= len(record):
        raise _Damaged("the head of a row leads out of it")
    kinds = []
    while at < header:
        kind, at = _varint(record, at)
        kinds.append(kind)
    values: list[Value] = []
    at = header
    for kind in kinds:
        value, at = _value(record, at, kind)
        values.append(value)
    if at != len(record):
        raise _Damaged("a row has another length than its values")
    return values


def _value(record: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], at
    if kind < 0 or kind in (10, 11):
        raise _Damaged(f"there is no value of kind {kind}")
    size = 8 if kind == 7 else _INTEGER_BYTES.get(kind) or (kind - 12) // 2
    part = record[at : at + size]
    if len(part) < size:
        raise _Damaged("a value leads out of its row")
    if kind in _INTEGER_BYTES:
        return int.from_bytes(part, "big", signed=True), at + size
    if kind == 7:
        return float(struct.unpack(">d", part)[0]), at + size
    if kind % 2 == 0:
        return part, at + size
    if b"\0" in part:
        raise _Damaged("a text holds zeros")
    try:
        return part.decode(), at + size
    except UnicodeDecodeError as error:
        raise _Damaged("a text is no text") from error


# What our tables hold


@lru_cache
def _columns(table: str) -> tuple[_Column, ...]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.CREATE)
        rows = db.execute("SELECT name, type, dflt_value, pk FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
        return tuple(
            _Column(
                name, pk == 1 and type == "INTEGER", type == "REAL", db.execute(f"SELECT {default or 'NULL'}").fetchone()[0]
            )
            for name, type, default, pk in rows
        )


def _named(table: str, row_id: int, values: list[Value]) -> dict[str, Value] | None:
    """Return a row with the names of its columns; None where it cannot be one of this table."""
    columns = _columns(table)
    if len(values) > len(columns) or (table != "empty_step" and table in LOGS and _table_of(values) != table):
        return None
    row: dict[str, Value] = {}
    for i, column in enumerate(columns):
        value = values[i] if i < len(values) else column.default
        if column.is_row_number:
            value = row_id
        elif column.is_real and isinstance(value, int):
            value = float(value)
        row[column.name] = value
    return row


def _table_of(values: list[Value]) -> str:
    """Return the log that a row belongs to, by its shape; "" if to none."""
    if len(values) < 4 or values[0] is not None:
        return ""
    texts = [isinstance(value, str) for value in values]
    if len(values) >= 10 and all(texts[1:8]) and texts[9]:
        return "label_event" if values[3] in LABELS and values[7] in _KINDS else ""
    if len(values) == 7 and all(texts[1:]):
        return "decision"
    if len(values) == 5 and texts[1] and isinstance(values[2], int | float) and texts[3] and texts[4]:
        return "threshold" if values[4][:2].isdigit() else ""  # type: ignore[index]
    return "choice" if len(values) == 4 and all(texts[1:]) else ""


def _last_numbers(pages: _Pages, roots: dict[str, int]) -> dict[str, int]:
    """Return table -> the highest number that a row of it was given."""
    found: dict[str, int] = {}
    for number in _leaves(pages, roots.get("sqlite_sequence", 0)):
        for _, values in _rows(pages, number):
            if len(values) == 2 and isinstance(values[0], str) and isinstance(values[1], int):
                found[values[0]] = values[1] if values[1] <= pages.most_rows else 0
    return found
