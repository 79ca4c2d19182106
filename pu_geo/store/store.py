"""The project's GeoPackage: opened by Python's sqlite3 alone, in every process of ours.

A second SQLite library in one process (GDAL carries one) cancels the first one's file locks, and acknowledged clicks are
lost. So nothing in PU-Geo ever hands `project.gpkg` to GDAL, pyogrio, geopandas or rasterio, not even to read.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, TypeVar

from pu_geo.errors import ProjectError, printable
from pu_geo.files import elsewhere, is_ours, make_folder, may_change, move_path, sign, single, touch
from pu_geo.store import backups, in_use, integrity, journal, schema, swap
from pu_geo.store.layout import SUFFIX, Layout, find_project

Given = ParamSpec("Given")
Result = TypeVar("Result")
BUSY_MS = 20_000
_ROOM = 2**20  # bytes; a disk with less is full
_CLOSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
_PATIENCE_S = 0.2  # with a file that is only glanced at
_checking = threading.Lock()
_checked: dict[Path, tuple[int, ...]] = {}  # folder -> `_stamp` of the file that this process checked
_damage: dict[Path, tuple[tuple[int, ...], str]] = {}  # folder -> `_stamp` of its file, and what is known to be damaged
_kept = threading.local()  # its `connections`, folder -> connection, are there within `one_connection`


def now() -> str:
    """Return the time in UTC, RFC 3339, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def connect(layout: Layout, *, patience_s: float = BUSY_MS / 1000) -> Iterator[sqlite3.Connection]:
    """Open the project's GeoPackage for one piece of work. Transactions are begun by hand.

    Where this process may not write, the file is opened to be read, and no file is changed or made.

    Args:
        patience_s: how long to wait for another program that holds the file. Within `one_connection` the first one's counts.

    Raises:
        ProjectError: if the file has another schema, or is being restored; of kind "corrupt" if it is damaged, also where
            that shows later; "read_only" if it is to be changed and this process may not; "disk_full" or "disk" if the disk
            is full or fails; "busy" if another program holds it.
    """
    if not layout.gpkg.is_file():
        raise ProjectError(f"{layout.gpkg} is gone.", "Was the folder moved or renamed? Open it from where it is now.")
    swap.finish(layout)
    _refuse_damaged(layout)
    kept: dict[Path, sqlite3.Connection] | None = getattr(_kept, "connections", None)
    known = kept.get(layout.folder) if kept else None
    db = known
    try:
        if db is None:
            in_use.hold(layout)
            db = _opened(layout, patience_s)
            if kept is not None:
                kept[layout.folder] = db
        yield db
    except sqlite3.DatabaseError as error:
        if (in_words := _in_words(layout, error)) is None:
            raise
        raise in_words from error
    finally:
        if db is not None and (kept is None or kept.get(layout.folder) is not db):
            db.close()


def is_writable(layout: Layout) -> bool:
    """Return whether this process may change a project's file."""
    return may_change(layout.folder) and os.access(layout.gpkg, os.W_OK)


def _opened(layout: Layout, patience_s: float) -> sqlite3.Connection:
    """Return a connection to a file that is whole, as far as is known, and of this schema."""
    if _is_checked(layout):
        return _connection(layout, patience_s, is_first=False)
    with _checking:
        if _is_checked(layout):
            return _connection(layout, patience_s, is_first=False)
        _refuse_lost_changes(layout)
        return _connection(layout, patience_s, is_first=True)


def _connection(layout: Layout, patience_s: float, *, is_first: bool) -> sqlite3.Connection:
    """Return a connection that may write where this process may; on a full disk, which has no room for files beside the
    database, one that reads.
    """
    to_read = backups.read_only_address(layout.gpkg)
    has_room = backups.is_open(layout.gpkg) or not _is_full(layout)  # for the files that SQLite makes beside it
    address = str(single(layout.gpkg)) if is_writable(layout) and has_room else to_read
    db = sqlite3.connect(address, uri=address.startswith("file:"), isolation_level=None, timeout=patience_s)
    try:
        if is_first:  # not over the other one: closing one that may write would put the log of a damaged file into it
            with closing(sqlite3.connect(to_read, uri=True, timeout=_PATIENCE_S)) as reader:
                _check(reader, layout)
        if address == to_read:
            db.execute("PRAGMA query_only=ON")
        else:
            db.execute("PRAGMA journal_mode=WAL")  # at each open: another program may have switched it back
            db.execute("PRAGMA synchronous=FULL")
    except UnicodeDecodeError as error:  # SQLite's words hold a damaged name
        db.close()
        _note_damage(layout, words := "the names of its tables cannot be read")
        raise damaged(layout, words) from error
    except BaseException:
        db.close()
        raise
    return db


def _is_full(layout: Layout) -> bool:
    return shutil.disk_usage(layout.folder).free < _ROOM


def call(
    layout: Layout, act: Callable[Concatenate[sqlite3.Connection, Given], Result], *args: Given.args, **more: Given.kwargs
) -> Result:  # fmt: skip
    """Return what `act` returns, which takes a connection first; for one question to a project, or one change of it."""
    with connect(layout) as db:
        return act(db, *args, **more)


@contextmanager
def one_connection() -> Iterator[None]:
    """Let all that this thread asks of a project meanwhile go over one connection, as a page asks for many things.

    Nothing is locked between two questions. Other threads open their own; within another one it is a part of that.
    """
    if hasattr(_kept, "connections"):
        yield
        return
    _kept.connections = {}
    try:
        yield
    finally:
        for db in _kept.__dict__.pop("connections").values():
            db.close()


# Damage


def _refuse_damaged(layout: Layout) -> None:
    """Raise `ProjectError` of kind "corrupt" if the file is known to be damaged, and is the same file as then."""
    found = _damage.get(layout.folder)
    if found is None:
        return
    if found[0] == _stamp(layout):
        raise damaged(layout, found[1])
    del _damage[layout.folder]  # another file took its place: it is checked anew
    _checked.pop(layout.folder, None)


def _refuse_lost_changes(layout: Layout) -> None:
    """Raise `ProjectError` of kind "corrupt", before SQLite opens the file, if a part of the log beside it is broken or
    gone.
    """
    if n_lost := integrity.lost_frames(backups.for_sqlite(layout.gpkg)):
        words = f"its last changes, {n_lost} pages of the log beside it, cannot be read"
        _note_damage(layout, words)
        raise damaged(layout, words)


def _check(db: sqlite3.Connection, layout: Layout) -> None:
    """Check a file that this process opens for the first time: at once, or in a thread beside where it is large."""
    require_schema(db, layout)
    is_small = layout.gpkg.stat().st_size <= integrity.CHECKED_AT_ONCE
    if words := integrity.problem(db) if is_small else "":
        _note_damage(layout, words)
        raise damaged(layout, words)
    if not is_small:
        threading.Thread(target=_check_beside, args=(layout,), daemon=True).start()
    _checked[layout.folder] = _stamp(layout)


def _check_beside(layout: Layout) -> None:
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{backups.for_sqlite(layout.gpkg).as_uri()}?mode=ro", uri=True)) as db,
    ):
        if words := integrity.problem(db):
            _note_damage(layout, words)


def _note_damage(layout: Layout, words: str) -> None:
    """Note that a file is damaged: nothing is read of it or written to it any more, until another one takes its place."""
    _damage[layout.folder] = _stamp(layout), words


def _is_checked(layout: Layout) -> bool:
    return _checked.get(layout.folder, ())[:2] == _stamp(layout)[:2]  # device and inode: its size and time change


def _stamp(layout: Layout) -> tuple[int, ...]:
    """Return what is different where another file took the place of a project's."""
    facts = layout.gpkg.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def damaged(layout: Layout, words: str) -> ProjectError:
    """Return the error of kind "corrupt" for a file that is damaged, or is no project's.

    Args:
        words: what is damaged, without a full stop.
    """
    return ProjectError(
        f"{layout.gpkg} is damaged, or it is no project file: {words}.",
        f"`pu-geo repair restore {layout.folder.name}` makes a new project of the newest backup and all newer labels; "
        f"`pu-geo export-labels {layout.folder.name} --out labels.csv` saves the labels.",
        kind="corrupt",
    )


def _in_words(layout: Layout, error: sqlite3.DatabaseError) -> ProjectError | None:
    """Return an error of the file or its disk in words; None for a programming error."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    name, is_closed = layout.gpkg.name, not is_writable(layout)
    if is_closed and not is_ours(layout.folder) and code in _CLOSED:
        return elsewhere(layout.folder)
    is_full = code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_READONLY and not is_closed and _is_full(layout))
    is_header = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY and not (is_closed or is_full)
    if is_header or integrity.is_damage(error):  # SQLite takes a file with a strange header for one that it may only read
        words = f"a part of it cannot be read ({error})"
        if code != sqlite3.SQLITE_ERROR:  # that is of one question, which meets a table that is not as it should be
            _note_damage(layout, words)
        return damaged(layout, words)
    if is_full:
        return ProjectError(
            f"The disk that holds {layout.folder} is full: what was to be stored was not.",
            "Make room there, then try again.",
            kind="disk_full",
        )
    if code == sqlite3.SQLITE_IOERR:
        return ProjectError(
            f"{name} could not be read or written: {error}. What was to be stored was not.",
            f"Look whether the disk that holds {layout.folder} is full, still connected, or failing, then try again.",
            kind="disk",
        )
    if is_closed and code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL):
        return ProjectError(
            f"You may not write to {layout.folder}, and its newest changes are in a log that can be read only by who may.",
            "Copy the folder to where you may write, then open the copy.",
            kind="read_only",
        )
    if code in _CLOSED:
        return ProjectError(
            f"{layout.folder} cannot be written to: it can be viewed and exported, not changed.",
            "To change it, copy the folder to where you may write, or ask whoever owns it.",
            kind="read_only",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return ProjectError(
            f"{name} could not be read or written: {error}.",
            "Another program has it open and holds it. Close that program, or wait, and try again; what was to be stored "
            "was not.",
            kind="busy",
        )
    return None


@contextmanager
def connect_as_is(layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open the project's file to read it as it is: nothing is brought up to date, and no file is changed or made.

    Raises:
        ProjectError: if it cannot be read; of kind "busy" if another program holds it.
    """
    if swap.waits(layout):
        raise swap.half_done(layout)
    _refuse_damaged(layout)
    if layout.folder not in _checked:
        _refuse_lost_changes(layout)
    try:
        with closing(sqlite3.connect(backups.read_only_address(layout.gpkg), uri=True, timeout=_PATIENCE_S)) as db:
            require_schema(db, layout)
            yield db
    except sqlite3.DatabaseError as error:
        is_busy = "locked" in str(error)
        if integrity.is_damage(error) or not is_busy:
            raise damaged(layout, str(error)) from error
        raise ProjectError(
            f"{layout.gpkg} cannot be read: {error}.", "Close the program that holds it, or wait.", kind="busy"
        ) from error


def state_of_file(layout: Layout) -> Literal["gone", "read_only", "writable"]:
    """Return whether a project's file is there, and whether this user may write to it."""
    if not layout.gpkg.is_file():
        return "gone"
    return "writable" if os.access(layout.gpkg, os.W_OK) else "read_only"


def require_schema(db: sqlite3.Connection, layout: Layout) -> None:
    """Raise `ProjectError` of kind "schema" where another version of PU-Geo wrote a project's file, of kind "corrupt" where
    no schema is noted, or a table is not ours.

    To be asked before anything is read: what is called like a table of ours may be a view without end.
    """
    strange = integrity.strange(db)
    if "table pugeo_meta" not in strange:
        _require_number(db, layout)
    if strange:
        raise damaged(layout, printable(strange, 300))


def _require_number(db: sqlite3.Connection, layout: Layout) -> None:
    noted = fact(db, "schema")
    text = noted or ""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        what = "no schema" if noted is None else f"the schema {printable(text)!r}"
        raise ProjectError(
            f"This project's file notes {what}; it would be a whole number from 1.",
            "Another program has changed the file, or it is damaged. Restore project.gpkg from a backup: `pu-geo repair "
            "restore PROJECT`.",
            kind="corrupt",
        )
    if int(text) != schema.SCHEMA:
        raise ProjectError(
            f"{layout.folder.name} was made with another version of PU-Geo: its schema is {text}, this one reads "
            f"{schema.SCHEMA}.",
            "Open it with the version that made it, or make a new project of the same files.",
            kind="schema",
        )


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do everything inside or nothing. Takes the write lock at once, so that what is read inside stays true.

    Label events that were added are in the journal before they are in the database. Within another transaction it is a part
    of that one.

    Raises:
        ProjectError: if the journal cannot be written; see `journal.written`.
    """
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        last = journal.last_event(db)
        yield
        with journal.written(db, after=last):
            db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk may have ended it
            db.execute("ROLLBACK")
        raise


def create(path: str | Path, name: str) -> Layout:
    """Make a new, empty project.

    Args:
        path: folder to make; must end in ".pugeo" and not exist, or be an empty folder.
        name: shown to people.

    Raises:
        ProjectError: if the folder has another ending, or holds something already.
    """
    folder = Path(path).expanduser().resolve()
    if folder.suffix != SUFFIX:
        raise ProjectError(
            f"{path} does not end in {SUFFIX}; project folders do.", f"Call it {folder.name}{SUFFIX}, for example."
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ProjectError(f"{path} exists already and is not empty.", "Choose another name, or open that project.")
        make_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as place:
            made = Path(place) / "project"
            write_empty(make_folder(made) / "project.gpkg", name)
            sign(made)
            move_path(made, folder)  # whole or not at all; fails if somebody else was faster
    except OSError as error:
        raise ProjectError(
            f"The folder {printable(path)} cannot be made: {error.strerror}.",
            "Choose another name, or a place you may write to.",
        ) from error
    return Layout(folder)


def write_empty(path: Path, name: str) -> None:
    """Write the database of a new project."""
    touch(path)  # with the rights that the umask leaves: SQLite would let nobody but its maker write
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={schema.USER_VERSION}")
    db.execute("PRAGMA journal_mode=WAL")
    facts = {"schema": str(schema.SCHEMA), "name": name, "created_at": now(), "project_id": secrets.token_hex(16)}
    db.executescript(f"BEGIN;{schema.CREATE}COMMIT;")
    db.executemany("INSERT INTO pugeo_meta VALUES (?, ?)", facts.items())
    db.close()


def open_project(path: str | Path) -> Layout:
    """Return the layout of a project whose GeoPackage can be read; one that was changed since this process checked it is
    checked anew.
    """
    layout = find_project(path)
    if _checked.get(layout.folder) != _stamp(layout):
        _checked.pop(layout.folder, None)
    with connect(layout):
        return layout


def fact(db: sqlite3.Connection, key: str) -> str | None:
    """Return what a project notes of itself under a key; None where it notes nothing."""
    row = db.execute("SELECT value FROM pugeo_meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def project_name(db: sqlite3.Connection) -> str:
    return str(fact(db, "name"))


def created_at(db: sqlite3.Connection) -> str:
    return str(fact(db, "created_at"))


def project_id(db: sqlite3.Connection) -> str:
    """Return what all copies of a project share."""
    return str(fact(db, "project_id"))
