"""What was removed from a project, and how it comes back: rows of `project.gpkg`, and files under `trash/`.

A removal takes out rows in one transaction, which writes it into the log `removal` too, and renames files into `trash/<op>/old/`.
A new file that takes the place of one waits in `trash/<op>/new/` meanwhile. `settle` ends what a killed process left half done:
the log says what holds. So at any moment a thing is there, or removed and can be brought back, until its space is reclaimed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pu_geo.errors import ProjectError, printable, writing
from pu_geo.files import make_folder, may_change, move_path, remove_path
from pu_geo.project import backups, contents, store
from pu_geo.project.layout import Layout, read_json, write_json
from pu_geo.project.locks import one_at_a_time

Kind = Literal["scene", "layer", "footprints", "chips", "features", "run", "export"]
State = Literal["removed", "undone", "reclaimed"]
OF_IMAGERY: tuple[Kind, ...] = ("scene", "layer", "footprints")
_ROWS, _FILES, _OLD, _NEW = "rows.json", "files.json", "old", "new"
_OP = re.compile(r"[0-9a-f]{16}")  # names of folders under `trash/`
_BLOB = "blob64"
_TABLES = (
    "run", "score", "scene", "chip_set", "footprints", "former", "intake", "pugeo_meta", "gpkg_contents", "gpkg_geometry_columns",
)  # fmt: skip
"""Those whose rows a removal may change."""
_SCENE = ("scene_id", "added_at")


class Watched(NamedTuple):
    """Rows of a table that a removal may change: those that `where`, with its values, selects; all if it is ""."""

    table: str
    where: str = ""
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class Removal:
    """An entry of the log.

    Attributes:
        number: by which people name it.
        op: name of its folder under `trash/`.
        name: of what was removed, such as a run's id.
        at, ended_at: RFC 3339 UTC; "" before it was undone or its space reclaimed.
        facts: {"files": paths that were moved, in the project's folder, "title", "bytes", ...}.
    """

    number: int
    op: str
    kind: Kind
    name: str
    analyst: str
    at: str
    facts: Mapping[str, Any]
    state: State
    ended_at: str

    @property
    def files(self) -> Sequence[str]:
        return list(self.facts["files"])

    @property
    def fresh(self) -> Sequence[str]:
        """Those of `files` in whose place nothing was before."""
        return list(self.facts.get("fresh", []))

    def folder(self, layout: Layout) -> Path:
        return layout.trash / self.op


def all_removals(db: sqlite3.Connection) -> list[Removal]:
    """Return the log, newest first."""
    rows = db.execute(
        "SELECT r.removal, op, kind, name, r.analyst, r.at, facts, ifnull(how, 'removed'), ifnull(e.at, '') "
        "FROM removal r LEFT JOIN removal_end e ON e.removal = r.removal ORDER BY r.removal DESC"
    )
    found = [
        Removal(number, op, kind, name, analyst, at, json.loads(facts), state, ended)
        for number, op, kind, name, analyst, at, facts, state, ended in rows
    ]
    for one in found:  # of the database, which anybody may have written
        if not _OP.fullmatch(one.op) or not _are_inside(*one.files, *one.fresh):
            raise ProjectError(
                f"The log of removals names {printable(one.op)!r} with files that are not in the project's folder.",
                "PU-Geo writes no such entry. Ask who sent the project, or `pu-geo restore` it from a backup.",
                kind="corrupt",
            )
    return found


def _are_inside(*paths: object) -> bool:
    """Return whether each is the path of something in the project's folder."""
    return all(isinstance(path, str) and contents.is_inside(path) for path in paths)


def find(db: sqlite3.Connection, number: int) -> Removal:
    """Return one entry. Raises ProjectError if there is none of that number."""
    for one in all_removals(db):
        if one.number == number:
            return one
    raise ProjectError(f"This project has no removal {number}.", "`pu-geo removed P.pugeo` lists them.")


def bytes_of(layout: Layout, one: Removal) -> int:
    """Return how many bytes its files take under `trash/`."""
    return _size(one.folder(layout))


def trash_bytes(layout: Layout) -> int:
    """Return how many bytes all that was removed takes."""
    return _size(layout.trash)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def removed_versions(db: sqlite3.Connection) -> list[int]:
    """Return the numbers of versions of the damage map that were ever removed: no other version gets one of them."""
    return [int(name.removeprefix("v")) for (name,) in db.execute("SELECT name FROM removal WHERE kind = 'export'")]


# Remove


def remove(
    layout: Layout, kind: Kind, name: str, *, analyst: str, watched: Sequence[Watched], change: Callable[[sqlite3.Connection], None],
    files: Sequence[str] = (), new: Mapping[str, Path] | None = None, facts: Mapping[str, object] | None = None,
) -> Removal:  # fmt: skip
    """Carry out a removal, or a replacement.

    Args:
        watched: the rows that `change` may take out, change or add; nothing else of what it does can be undone.
        change: called within the transaction.
        files: paths in the project's folder to be moved away, files or folders; one that is not there is left out.
        new: files or folders to take the place of some of `files`, each in the project's folder by now.
        facts: what to write into the log besides.

    Raises:
        ProjectError: if the disk is full, or whatever `change` raises; nothing was changed then.
    """
    op, new = secrets.token_hex(8), dict(new or {})
    folder = layout.trash / op
    backups.make(layout, "removal")
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        try:
            with writing(layout.trash, ProjectError):
                for part in (_OLD, _NEW):
                    make_folder(folder / part)
                there = [path for path in files if layout.path(path).exists() or path in new]
                fresh = [path for path in there if not layout.path(path).exists()]
                for path, made in new.items():
                    move_path(made, folder / _NEW / path)
                write_json(folder / _FILES, {"files": there, "fresh": fresh})
                with store.connect(layout) as db, store.transaction(db):
                    written = {**(facts or {}), "files": there, "fresh": fresh}
                    _change_rows(db, folder, watched, change)
                    written["after"] = _state_of(db, kind)
                    row = (op, kind, name, analyst, store.now(), json.dumps(written, ensure_ascii=False))
                    add = "INSERT INTO removal (op, kind, name, analyst, at, facts) VALUES (?, ?, ?, ?, ?, ?)"
                    number = int(db.execute(add, row).lastrowid or 0)
        except BaseException:
            with suppress(ProjectError):
                _settle(layout)  # by what the log says, whenever it was interrupted
            raise
        with writing(layout.trash, ProjectError):
            _move_away(layout, folder, there, fresh)
    return store.call(layout, find, number)


def _change_rows(
    db: sqlite3.Connection, folder: Path, watched: Sequence[Watched], change: Callable[[sqlite3.Connection], None]
) -> None:
    """Make the change, and write which rows it took out and which it put in."""
    for i, one in enumerate(watched):
        db.execute(f"DROP TABLE IF EXISTS temp.removal_{i}")
        db.execute(f"CREATE TEMP TABLE removal_{i} AS SELECT {_columns(db, one.table)} FROM {_rows_of(one)}", one.values)
    change(db)
    found = []
    for i, one in enumerate(watched):
        columns = _columns(db, one.table)
        before, after = f"SELECT * FROM temp.removal_{i}", f"SELECT {columns} FROM {_rows_of(one)}"
        taken = db.execute(f"{before} EXCEPT {after}", one.values).fetchall()
        put = db.execute(f"{after} EXCEPT {before}", one.values).fetchall()
        db.execute(f"DROP TABLE temp.removal_{i}")
        found.append({"table": one.table, "columns": columns.split(", "), "taken": _packed(taken), "put": _packed(put)})
    write_json(folder / _ROWS, found)


def _rows_of(one: Watched) -> str:
    return f"main.{one.table} WHERE {one.where}" if one.where else f"main.{one.table}"


def _columns(db: sqlite3.Connection, table: str) -> str:
    """Return the columns of a table as a list in SQL, its hidden rowid among them: the order of rows is restored too."""
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    (made,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    has_rowid = "WITHOUT ROWID" not in made and "INTEGER PRIMARY KEY" not in made
    return ", ".join([*(["rowid"] if has_rowid else []), *names])


def _packed(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[{_BLOB: base64.b64encode(v).decode()} if isinstance(v, bytes) else v for v in row] for row in rows]


def _unpacked(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[base64.b64decode(v[_BLOB]) if isinstance(v, dict) else v for v in row] for row in rows]


def _state_of(db: sqlite3.Connection, kind: Kind) -> str:
    """Return what the scenes and footprints are known by, for a removal that can be undone as long as they stay as they are."""
    if kind not in OF_IMAGERY:
        return ""
    scenes = db.execute(
        "SELECT group_concat(scene_id || ' ' || added_at) FROM (SELECT * FROM scene ORDER BY rowid)"
    ).fetchone()
    footprints = db.execute("SELECT count(*), ifnull(max(fid), 0) FROM footprints").fetchone()
    return json.dumps([*scenes, *footprints])


# Files: a rename each, in an order that `settle` can go on with


def _move_away(layout: Layout, folder: Path, files: Sequence[str], fresh: Collection[str]) -> None:
    for path in files:
        here, old, new = layout.path(path), folder / _OLD / path, folder / _NEW / path
        is_next = path not in fresh or new.exists()  # else what is there came with the removal, or after it
        if here.exists() and not old.exists() and is_next:
            move_path(here, old)
        if new.exists() and not here.exists():
            move_path(new, here)


def _move_back(layout: Layout, folder: Path, files: Sequence[str], fresh: Collection[str]) -> None:
    for path in reversed(files):
        here, old, new = layout.path(path), folder / _OLD / path, folder / _NEW / path
        if path in fresh and not old.exists() and here.exists() and not new.exists():
            move_path(here, new)
        if old.exists():
            if here.exists():
                move_path(here, new)
            move_path(old, here)


def settle(layout: Layout) -> None:
    """End what a killed process left half done under `trash/`; quick where nothing was."""
    if not layout.trash.is_dir() or not may_change(layout.folder) or not os.access(layout.trash, os.W_OK):
        return
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)


def folders(layout: Layout) -> list[str]:
    """Return the operation ids of the removals whose files are under `trash/`, the newest first."""
    found = [path for path in layout.trash.glob("*/") if (path / _FILES).is_file()]
    return [path.name for path in sorted(found, key=lambda path: (path / _FILES).stat().st_mtime_ns, reverse=True)]


def _files_of(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files that a removal lists, and those of them in whose place nothing was before; none if it was stopped before that."""
    if not (folder / _FILES).exists() and not any((folder / _OLD).glob("*")):
        return [], []
    listed = json.loads((folder / _FILES).read_text(encoding="utf-8"))
    files, fresh = listed["files"], listed["fresh"]
    if not _are_inside(*files, *fresh):
        raise ValueError("no paths in the project's folder")
    return files, fresh


def _is_readable(folder: Path) -> bool:
    """Return whether a folder under `trash/` is one that a removal made, and it can be read which files it moved."""
    if not _OP.fullmatch(folder.name):
        return False
    try:
        _files_of(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def not_settled(layout: Layout) -> list[Path]:
    """Return the folders under `trash/` that stay there: those that no removal made, and those whose files are not known."""
    known = {one.op for one in store.call(layout, all_removals)}
    found = layout.trash.iterdir() if layout.trash.is_dir() else ()
    return sorted(path for path in found if path.is_dir() and path.name not in known and not _is_readable(path))


def _settle(layout: Layout) -> None:
    known = {one.op: one for one in store.call(layout, all_removals)}
    order = folders(layout)  # a file that two of them moved comes back from the newer one first
    found = [path for path in layout.trash.iterdir() if path.is_dir()]
    for folder in sorted(found, key=lambda path: order.index(path.name) if path.name in order else len(order)):
        one = known.get(folder.name)
        if one is not None and one.state == "removed":
            if not _is_here_again(layout, one):
                _move_away(layout, folder, one.files, one.fresh)
            continue
        if one is None:  # it never came about, or the database was restored from a backup made before it
            if not _is_readable(folder):
                continue  # somebody's own, or the only copy of files
            _move_back(layout, folder, *_files_of(folder))
        remove_path(folder)


def _is_here_again(layout: Layout, one: Removal) -> bool:
    """Return whether chips that it took out, whose name follows from what they are made of, were cut again since."""
    names = json.dumps(one.facts.get("chip_sets", []))
    there = "SELECT 1 FROM chip_set WHERE chip_set IN (SELECT value FROM json_each(?))"
    with store.connect(layout) as db:
        return db.execute(there, (names,)).fetchone() is not None


# Undo, and reclaim the space


def undo(layout: Layout, number: int, *, analyst: str) -> Removal:
    """Bring back what was removed, rows and files as they were.

    Raises:
        ProjectError: if it was undone or its space reclaimed before, its files are gone, what it would bring back is there again,
            or scenes or footprints changed since.
    """
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        one = store.call(layout, find, number)
        _check_undoable(layout, one)
        folder = one.folder(layout)
        rows = read_json(folder / _ROWS)
        try:
            with writing(layout.folder, ProjectError):
                _move_back(layout, folder, one.files, one.fresh)
            with store.connect(layout) as db, store.transaction(db):
                for table in rows:
                    _put_back(db, one, **table)
                if one.kind in OF_IMAGERY:
                    contents.note_footprints(db)
                _end(db, one, "undone", analyst)
        except BaseException:
            _settle(layout)  # it is still removed
            raise
        remove_path(folder)
    return store.call(layout, find, number)


def _check_undoable(layout: Layout, one: Removal) -> None:
    if one.state != "removed":
        how = "was undone already" if one.state == "undone" else "cannot be undone: its space was reclaimed"
        raise ProjectError(
            f"Removal {one.number} ({one.facts['title']}) {how}.", "`pu-geo removed P.pugeo` lists what can be."
        )
    folder = one.folder(layout)
    moved = [path for path in one.files if path not in one.fresh]
    gone = [path for path in moved if not (folder / _OLD / path).exists() and not (folder / _NEW / path).exists()]
    if not (folder / _ROWS).is_file() or any(not layout.path(path).exists() for path in gone):
        raise ProjectError(
            f"The files of removal {one.number} ({one.facts['title']}) are not in {folder} any more.",
            "Backups of the project hold no such files. Copy that folder back from where you copied the project to, or add what was removed again.",
        )
    if _is_here_again(layout, one):
        raise ProjectError(
            f"Chips that removal {one.number} ({one.facts['title']}) took out are in the project again: they were cut anew.",
            "Remove those chips first, then undo; or leave it as it is.",
        )
    newer = [path for path in one.files if layout.path(path).exists() and (folder / _OLD / path).exists()]
    if newer and one.kind not in OF_IMAGERY:
        raise ProjectError(
            f"What removal {one.number} ({one.facts['title']}) took out was made anew since: {newer[0]} is in the project again.",
            "Remove that first, then undo; or leave it as it is.",
        )
    with store.connect(layout) as db:
        changed = _state_of(db, one.kind) != one.facts["after"]
    if changed:
        raise ProjectError(
            f"Scenes or footprints changed since removal {one.number} ({one.facts['title']}); undoing it now would mix the two.",
            "Undo the later removals first, the newest at first, or remove what was added since.",
        )


def _put_back(
    db: sqlite3.Connection, one: Removal, table: str, columns: Sequence[str], taken: list[list[Any]], put: list[list[Any]]
) -> None:
    if table not in _TABLES or columns != _columns(db, table).split(", "):  # of a file, which anybody may have written
        raise ProjectError(
            f"Removal {one.number} ({one.facts['title']}) cannot be undone: {_ROWS} in its folder is not as it was written.",
            "Add what was removed again.",
            kind="lost",
        )
    # A scene's date, and where its file is, may have changed since; it is the same scene.
    # A restored database numbers its rows anew.
    compared = _SCENE if table == "scene" else [column for column in columns if column not in ("rowid", "last_change")]
    same = " AND ".join(f"{column} IS ?" for column in compared)
    keep = [columns.index(column) for column in compared]
    for row in _unpacked(put):
        db.execute(f"DELETE FROM {table} WHERE {same}", [row[i] for i in keep])
    rows = _unpacked(taken)
    if columns[0] == "rowid" and rows:
        used = {row[0] for row in db.execute(f"SELECT rowid FROM {table}")}
        rows = [[None if row[0] in used else row[0], *row[1:]] for row in rows]
    try:
        db.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", rows)
    except sqlite3.IntegrityError as error:
        raise ProjectError(
            f"Removal {one.number} ({one.facts['title']}) cannot be undone: what it took out is in the project again.",
            "Remove that first, then undo.",
        ) from error


def reclaim(layout: Layout, numbers: Collection[int], *, analyst: str) -> int:
    """Delete the files of removals for good; return how many bytes that freed. Raises ProjectError if one is not there."""
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        with store.connect(layout) as db, store.transaction(db):
            found = [find(db, number) for number in numbers]
            for one in found:
                if one.state == "removed":
                    _end(db, one, "reclaimed", analyst)
        freed = sum(bytes_of(layout, one) for one in found)
        for one in found:
            remove_path(one.folder(layout))
    return freed


def _end(db: sqlite3.Connection, one: Removal, how: Literal["undone", "reclaimed"], analyst: str) -> None:
    db.execute("INSERT INTO removal_end VALUES (?, ?, ?, ?)", (one.number, how, analyst, store.now()))
