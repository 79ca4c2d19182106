"""What was removed from a project, and how the newest of it comes back.

    trash/<op>/files.json    paths that were moved, in the project's folder
    trash/<op>/old/...       the files themselves
    trash/<op>/rows.gpkg     the rows that the removal may change, as they were: an empty project with these alone

A removal writes these, then changes the rows and adds itself to the log `removal`, in one transaction. Bringing it back puts
the rows into the place of those that are there now, in one transaction too, and then the files. So after a kill the log says
what holds: `settle` puts back the files of what is not in it, or was brought back.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pu_geo.errors import ProjectError, printable, writing
from pu_geo.files import may_change, move_path, remove_path
from pu_geo.store import backups, contents, integrity, store
from pu_geo.store.layout import Layout, write_json
from pu_geo.store.locks import one_at_a_time

Kind = Literal["scene", "layer", "footprints", "chips", "features", "run", "export"]
State = Literal["removed", "undone", "reclaimed"]
OF_IMAGERY: tuple[Kind, ...] = ("scene", "layer", "footprints")
_FILES, _OLD, _KEPT = "files.json", "old", "rows.gpkg"
_OP = re.compile(r"[0-9a-f]{16}")  # names of folders under `trash/`
_REGISTERED = dict.fromkeys(("gpkg_contents", "gpkg_geometry_columns"), "table_name IN ('footprints', 'damage_map')")
_OF_RUNS = "run_id IN (SELECT value FROM json_each(:runs))"
_OF_CHIPS = {"chip_set": "chip_set IN (SELECT value FROM json_each(:chip_sets))"}
_ROWS: Mapping[str, Mapping[str, str]] = {
    "scene": {"scene": "TRUE", "pugeo_meta": "key IN ('grid', 'pre_share')", **_REGISTERED},
    "layer": {"scene": "TRUE"},
    "footprints": {
        "footprints": "TRUE", "former": "TRUE", "intake": "TRUE", "score": _OF_RUNS, **_OF_CHIPS, **_REGISTERED,
    },
    "chips": _OF_CHIPS,
    "features": {},
    "run": {"run": _OF_RUNS, "score": _OF_RUNS},
    "export": {},
}  # fmt: skip
"""Kind -> tables and rows of them that a removal may change; ":runs" and ":chip_sets" are lists in its facts."""


@dataclass(frozen=True)
class Removal:
    """An entry of the log.

    Attributes:
        number: they only grow.
        op: name of its folder under `trash/`.
        name: of what was removed, such as a run's id.
        at: RFC 3339 UTC.
        facts: {"title", "plan", "chip_sets": those that went, "after": see `_state_of`, ...}.
    """

    number: int
    op: str
    kind: Kind
    name: str
    analyst: str
    at: str
    facts: Mapping[str, Any]
    state: State

    def folder(self, layout: Layout) -> Path:
        return layout.trash / self.op


def all_removals(db: sqlite3.Connection) -> list[Removal]:
    """Return the log, newest first."""
    rows = db.execute(
        "SELECT r.removal, op, kind, name, r.analyst, r.at, facts, ifnull(how, 'removed') "
        "FROM removal r LEFT JOIN removal_end e ON e.removal = r.removal ORDER BY r.removal DESC"
    )
    found = [
        Removal(number, op, kind, name, analyst, at, json.loads(facts), state)
        for number, op, kind, name, analyst, at, facts, state in rows
    ]
    for one in found:  # of the database, which anybody may have written
        if not _OP.fullmatch(one.op) or one.kind not in _ROWS:
            raise ProjectError(
                f"The log of removals names {printable(one.op)!r}, and PU-Geo writes no such entry.",
                "Ask who sent the project, or `pu-geo repair restore` it from a backup.",
                kind="corrupt",
            )
    return found


def not_ended(db: sqlite3.Connection) -> list[Removal]:
    """Return the removals that were neither brought back nor deleted for good, newest first: the first can be brought
    back.
    """
    return [one for one in all_removals(db) if one.state == "removed"]


def bytes_of(paths: Iterable[Path]) -> int:
    """Return how many bytes some files take, with those in folders; what is not there takes none."""
    every = (part for path in paths for part in (path, *path.rglob("*")))
    return sum(part.lstat().st_size for part in every if part.is_file())


def removed_versions(db: sqlite3.Connection) -> list[int]:
    """Return the numbers of versions of the damage map that were ever removed: no other version gets one of them."""
    return [int(name.removeprefix("v")) for (name,) in db.execute("SELECT name FROM removal WHERE kind = 'export'")]


def remove(
    layout: Layout,
    kind: Kind,
    name: str,
    *,
    analyst: str,
    facts: Mapping[str, Any],
    change: Callable[[sqlite3.Connection], None] | None = None,
    files: Sequence[str] = (),
    new: Mapping[str, Path] | None = None,
) -> Removal:
    """Carry out a removal, or a replacement.

    Args:
        facts: what to write into the log; "runs" and "chip_sets" name those whose rows it changes.
        change: called within the transaction; it changes rows of `_ROWS` alone. None to delete these.
        files: paths in the project's folder to be moved away, files or folders; one that is not there is left out.
        new: files or folders to take the place of some of `files`, each in the project's folder by now.

    Raises:
        ProjectError: if the disk is full, or whatever `change` raises; nothing was changed then.
    """
    op = f"{time.time_ns():016x}"  # folders sort by their age
    folder = layout.trash / op
    backups.make(layout, "removal")
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        try:
            with writing(layout.trash, ProjectError), store.connect(layout) as db, store.transaction(db):
                there = [path for path in files if layout.path(path).exists()]
                write_json(folder / _FILES, there)
                if _ROWS[kind]:
                    store.write_empty(folder / _KEPT, name)
                    with closing(sqlite3.connect(folder / _KEPT)) as kept, kept:
                        _put_rows(kept, kind, facts, db)
                for path in there:
                    move_path(layout.path(path), folder / _OLD / path)
                for path, made in (new or {}).items():
                    move_path(made, layout.path(path))
                _put_rows(db, kind, facts) if change is None else change(db)
                written = json.dumps({**facts, "after": _state_of(db, kind)}, ensure_ascii=False)
                add = "INSERT INTO removal (op, kind, name, analyst, at, facts) VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(add, (op, kind, name, analyst, store.now(), written))
        except BaseException:
            with suppress(ProjectError):
                _settle(layout)  # by what the log says, whenever it was interrupted
            raise
    return store.call(layout, not_ended)[0]


def _put_rows(
    target: sqlite3.Connection, kind: Kind, facts: Mapping[str, Any], source: sqlite3.Connection | None = None
) -> None:
    """Delete the rows that a removal of some kind may change, and put those of another database into their place."""
    lists = {name: json.dumps(facts.get(name, [])) for name in ("runs", "chip_sets")}
    for table, where in _ROWS[kind].items():
        target.execute(f"DELETE FROM {table} WHERE {where}", lists)
        if source is not None:
            rows = source.execute(f"SELECT * FROM {table} WHERE {where}", lists)
            target.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows.description))})", rows)


def _state_of(db: sqlite3.Connection, kind: Kind) -> str:
    """Return what the scenes and footprints are known by, for a removal that comes back only as long as they stay as they
    are.
    """
    if kind not in OF_IMAGERY:
        return ""
    scenes = [f"{scene} {at}" for scene, at in db.execute("SELECT scene_id, added_at FROM scene ORDER BY rowid")]
    return json.dumps([scenes, *db.execute("SELECT count(*), max(fid) FROM footprints").fetchone()])


# After a kill


def settle(layout: Layout) -> None:
    """End what a killed process left half done under `trash/`; quick where nothing was."""
    if not layout.trash.is_dir() or not may_change(layout.folder) or not os.access(layout.trash, os.W_OK):
        return
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)


def _settle(layout: Layout) -> None:
    states = {one.op: one.state for one in store.call(layout, all_removals)}
    for folder in _folders(layout):
        # One that is not in the log never came about, or the database was restored from a backup made before it.
        state = states.get(folder.name, "undone")
        if state == "removed":
            continue
        if state == "undone":
            for path in _files_of(folder) or ():
                if (folder / _OLD / path).exists():  # else it was not moved yet, or is back
                    remove_path(layout.path(path))  # what took its place
                    move_path(folder / _OLD / path, layout.path(path))
        remove_path(folder)


def _files_of(folder: Path) -> list[str] | None:
    """Return the paths that a removal moved into its folder; None where no removal made it, or they cannot be read."""
    if not _OP.fullmatch(folder.name):
        return None
    if not any((folder / name).exists() for name in (_FILES, _OLD)):
        return []  # it was stopped before it moved one
    with suppress(OSError, ValueError):
        paths = json.loads((folder / _FILES).read_text(encoding="utf-8"))
        if isinstance(paths, list) and all(isinstance(path, str) and contents.is_inside(path) for path in paths):
            return paths
    return None  # the only copy of files, perhaps


def _folders(layout: Layout) -> list[Path]:
    """Return the folders of removals under `trash/`, the newest first: a file that two of them moved comes back from that
    one first.
    """
    return sorted((path for path in layout.trash.glob("*/") if _files_of(path) is not None), reverse=True)


def not_settled(layout: Layout) -> list[Path]:
    """Return the folders under `trash/` that stay there: those that no removal made, and those whose files are not known."""
    return sorted(path for path in layout.trash.glob("*/") if _files_of(path) is None)


# Bring back the newest, and reclaim the space


def _kept_rows(folder: Path) -> sqlite3.Connection:
    """Open the rows that a removal kept. Raises sqlite3.DatabaseError if they cannot be read, or are not as PU-Geo writes
    them.
    """
    db = sqlite3.connect(backups.read_only_address(folder / _KEPT), uri=True)
    if strange := integrity.strange(db):
        db.close()
        raise sqlite3.DatabaseError(strange)
    return db


def undo(layout: Layout, *, analyst: str) -> Removal:
    """Bring back what was removed or replaced last, rows and files as they were; return that removal.

    Raises:
        ProjectError: if there is nothing to bring back, its files are gone, what it would bring back is there again, or
            scenes or footprints changed since.
    """
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        with store.connect(layout) as db, store.transaction(db):
            found = not_ended(db)
            if not found:
                raise ProjectError(
                    "Nothing was removed that could be brought back.", "`pu-geo repair removed P.pugeo` lists what can."
                )
            one = found[0]
            _check_undoable(db, layout, one)
            try:
                if _ROWS[one.kind]:
                    with closing(_kept_rows(one.folder(layout))) as kept:
                        _put_rows(db, one.kind, one.facts, kept)
            except sqlite3.DatabaseError as error:
                raise _refused(one, f"its rows cannot be put back ({error})") from error
            if one.kind in OF_IMAGERY:
                contents.note_footprints(db)
            _end(db, one, "undone", analyst)
        with writing(layout.folder, ProjectError):
            _settle(layout)
    return one


def _check_undoable(db: sqlite3.Connection, layout: Layout, one: Removal) -> None:
    folder = one.folder(layout)
    files = _files_of(folder)
    if files is None or not folder.is_dir() or not all((folder / _OLD / path).exists() for path in files):
        raise _refused(one, f"its files are not in {folder} any more")
    if again := [path for path in files if one.kind not in OF_IMAGERY and layout.path(path).exists()]:
        raise _refused(one, f"{again[0]} is in the project again", "Remove that first.")
    if _state_of(db, one.kind) != one.facts["after"]:
        raise _refused(one, "scenes or footprints were added or replaced since")


def _refused(one: Removal, why: str, hint: str = "Add it again, as you did at first.") -> ProjectError:
    return ProjectError(f"What was removed last ({one.facts['title']}) cannot be brought back: {why}.", hint)


def reclaim(layout: Layout, numbers: Collection[int], *, analyst: str) -> int:
    """Delete the files of removals for good; return how many bytes that freed."""
    with one_at_a_time(layout.trash / ".lock"):
        _settle(layout)
        with store.connect(layout) as db, store.transaction(db):
            found = [one for one in not_ended(db) if one.number in numbers]
            for one in found:
                _end(db, one, "reclaimed", analyst)
        freed = bytes_of(one.folder(layout) for one in found)
        _settle(layout)
    return freed


def _end(db: sqlite3.Connection, one: Removal, how: Literal["undone", "reclaimed"], analyst: str) -> None:
    db.execute("INSERT INTO removal_end VALUES (?, ?, ?, ?)", (one.number, how, analyst, store.now()))
