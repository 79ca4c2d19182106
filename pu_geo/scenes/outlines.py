"""The map's outlines: made by the job that cuts chips or when somebody first asks, kept in a file beside the map tiles that
may be deleted.

The file is a zip of what the browser gets first and of the map tiles of outlines, see `geo.vector.outlines.pack`. Its
comment is their name, which the header of the first part has, too.
"""

from __future__ import annotations

import io
import sqlite3
import threading
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np

from pu_geo.files import atomic_write, remove_path
from pu_geo.geo.vector.outlines import HEADER, joined, outlines_px, pack
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

_PIECE = 50_000  # outlines that are taken apart at a time
_FIRST = "first"
_MAKING = threading.Lock()  # two browsers that open a project ask at the same time
_unstored: dict[tuple[Layout, str], bytes] = {}  # of the newest project whose folder cannot be written


def first_part(layout: Layout) -> bytes:
    """Return what the browser needs before it fetches outlines: order of tiles, boxes, areas and ids of all buildings."""
    with _opened(layout) as kept:
        return kept.read(_FIRST)


def tile(layout: Layout, name: str, number: int) -> bytes | None:
    """Return a map tile of outlines; None where there is none, or where the outlines are others than `name` was given
    for.
    """
    with _opened(layout) as kept:
        return kept.read(str(number)) if name.encode() == kept.comment and str(number) in kept.namelist() else None


def _opened(layout: Layout) -> ZipFile:
    """Open the file of the footprints as they are now; make it first where there is none, or one that is not whole."""
    with store.connect(layout) as db:
        name = contents.geometry_v(db)
        found = _file(layout.outlines(name))
        if found is None:
            with _MAKING:
                found = _file(layout.outlines(name)) or ZipFile(
                    io.BytesIO(_unstored.get((layout, name)) or _new(layout, name, db))
                )
        return found


def _file(path: Path) -> ZipFile | None:
    try:
        return ZipFile(path)
    except (FileNotFoundError, BadZipFile):
        return None


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
    file = io.BytesIO()
    with ZipFile(file, "w") as kept:
        kept.comment = np.frombuffer(first, HEADER, 1)["name"][0]
        for name, part in ((_FIRST, first), *((str(number), part) for number, part in enumerate(tiles))):
            kept.writestr(name, part)
    return file.getvalue()


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
