"""The map's outlines: made by the job that cuts chips or when somebody first asks, kept in a file beside the map tiles that
may be deleted.

The file holds what the browser gets first, then the map tiles of outlines, see `geo.vector.outlines.pack`. Before them are
the number of tiles and where each ends, counted from the file's start, int64: the first end is that of the first part.
"""

from __future__ import annotations

import io
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pu_geo.files import atomic_write, remove_path
from pu_geo.geo.vector.outlines import HEADER, joined, outlines_px, pack
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

_PIECE = 50_000  # outlines that are taken apart at a time
_END = np.dtype("<i8")
_MAKING = threading.Lock()  # two browsers that open a project ask at the same time
_unstored: dict[tuple[Layout, str], bytes] = {}  # of the newest project whose folder cannot be written


@dataclass(frozen=True)
class _Kept:
    """An open file of outlines: where its first part starts, and where that and each tile end."""

    file: BinaryIO
    start: int
    ends: list[int]

    def read(self, start: int, end: int) -> bytes:
        self.file.seek(start)
        return self.file.read(end - start)


def first_part(layout: Layout) -> bytes:
    """Return what the browser needs before it fetches outlines: order of tiles, boxes, areas and ids of all buildings."""
    kept = _opened(layout)
    with kept.file:
        return kept.read(kept.start, kept.ends[0])


def tile(layout: Layout, name: str, number: int) -> bytes | None:
    """Return a map tile of outlines; None where there is none, or where the outlines are others than `name` was given
    for.
    """
    kept = _opened(layout)
    with kept.file:
        header = np.frombuffer(kept.read(kept.start, kept.start + HEADER.itemsize), HEADER)[0]
        if name.encode() != header["name"] or not 0 <= number < len(kept.ends) - 1:
            return None
        return kept.read(kept.ends[number], kept.ends[number + 1])


def _opened(layout: Layout) -> _Kept:
    """Open the file of the footprints as they are now; make it first where there is none, or one that is not whole."""
    with store.connect(layout) as db:
        name = contents.geometry_v(db)
        found = _file(layout.outlines(name))
        if found is None:
            with _MAKING:
                found = _file(layout.outlines(name)) or _read(
                    io.BytesIO(_unstored.get((layout, name)) or _new(layout, name, db))
                )
        return found


def _file(path: Path) -> _Kept | None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    try:
        return _read(file)
    except ValueError:
        file.close()
        return None


def _read(file: BinaryIO) -> _Kept:
    """Return what an open file holds. Raises ValueError if it was cut short, or is something else."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    n = int.from_bytes(file.read(_END.itemsize), "little")
    if not 0 < n < size // _END.itemsize:
        raise ValueError("no outlines")
    start = _END.itemsize * (n + 1)
    ends = np.frombuffer(file.read(start - _END.itemsize), _END)
    if ends[0] < start + HEADER.itemsize or (np.diff(ends) <= 0).any() or ends[-1] != size:
        raise ValueError("not all outlines")
    return _Kept(file, start, ends.tolist())


def _new(layout: Layout, name: str, db: sqlite3.Connection) -> bytes:
    """Make outlines and keep them, under `name` where footprints did not change meanwhile."""
    made = _made(db)
    if contents.geometry_v(db) == name:
        _store(layout, name, made)
    return made


def _made(db: sqlite3.Connection) -> bytes:
    grid, ids, pieces = contents.grid(db), [], []
    for some, wkb in contents.outline_pieces(db, _PIECE):
        ids += some
        pieces.append(outlines_px(wkb, grid))
    first, tiles = pack(ids, joined(pieces or [outlines_px([], grid)]))
    n = len(tiles) + 1
    ends = _END.itemsize * (n + 1) + np.cumsum([len(first), *map(len, tiles)])
    return b"".join([np.array([n, *ends], _END).tobytes(), first, *tiles])


def _store(layout: Layout, name: str, made: bytes) -> None:
    """Keep it in the project and remove those of other footprints; in memory where the folder cannot be written."""
    _unstored.clear()
    path = layout.outlines(name)
    try:
        with atomic_write(path) as temporary:
            temporary.write_bytes(made)
        for old in path.parent.glob("outlines-*.bin"):
            if old != path:
                remove_path(old)
    except OSError:
        _unstored[layout, name] = made
