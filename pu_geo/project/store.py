"""The project's GeoPackage: opened by Python's sqlite3 alone, in every process of ours.

A second SQLite library in one process (GDAL carries one) cancels the first one's file locks, and acknowledged clicks are
lost. So nothing in PU-Geo ever hands `project.gpkg` to GDAL, pyogrio, geopandas or rasterio, not even to read.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, TypeVar

from pu_geo.errors import ProjectError
from pu_geo.project import backups, in_use, schema
from pu_geo.project.layout import SUFFIX, Layout, find_project

Given = ParamSpec("Given")
Result = TypeVar("Result")
BUSY_MS = 20_000
_PATIENCE_S = 0.2  # with a file that is only glanced at
_kept = threading.local()  # its `connections`, folder -> connection, are there within `one_connection`


def now() -> str:
    """Return the time in UTC, RFC 3339, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def connect(layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open the project's GeoPackage for one piece of work. Transactions are begun by hand.

    A file that an older PU-Geo wrote is brought up to date first, with a copy of it left beside it.

    Raises:
        ProjectError: if the file is damaged or was written by a newer PU-Geo, that copy cannot be made, or it is being restored.
    """
    if not layout.gpkg.is_file():
        raise ProjectError(f"{layout.gpkg} is gone.", "Was the folder moved or renamed? Open it from where it is now.")
    kept: dict[Path, sqlite3.Connection] | None = getattr(_kept, "connections", None)
    known = kept.get(layout.folder) if kept else None
    db = known or sqlite3.connect(layout.gpkg, isolation_level=None, timeout=BUSY_MS / 1000)
    try:
        if known is None:
            in_use.hold(layout)
            _set_up(db, layout)
            if kept is not None:
                kept[layout.folder] = db
        yield db
    except sqlite3.OperationalError as error:
        advice = (
            "Another program may hold it, or the disk may be full. Close what has it open and try again; nothing is lost."
        )
        if not os.access(layout.folder, os.W_OK) or not os.access(layout.gpkg, os.W_OK):
            advice = (
                f"You may not write to {layout.folder}, and a project cannot be opened without: copy it to where you may, or ask "
                "whoever owns it."
            )
        raise ProjectError(f"{layout.gpkg.name} could not be read or written: {error}.", advice, kind="busy") from error
    finally:
        if kept is None or kept.get(layout.folder) is not db:
            db.close()


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


def _set_up(db: sqlite3.Connection, layout: Layout) -> None:
    try:
        db.execute("PRAGMA journal_mode=WAL")  # at each open: another program may have switched it back
        db.execute("PRAGMA synchronous=FULL")
        found = _schema_of(db)
        if found > schema.SCHEMA:
            raise ProjectError(
                f"{layout.folder.name} was written by a newer PU-Geo: its schema is {found}, this one knows {schema.SCHEMA}.",
                "Update PU-Geo, then open the project again.",
            )
        if found < schema.SCHEMA:
            _migrate(db, layout)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise _damaged(layout, error) from error
    except sqlite3.DatabaseError as error:
        raise _damaged(layout, error) from error


@contextmanager
def connect_as_is(layout: Layout) -> Iterator[sqlite3.Connection]:
    """Open the project's file to read it as it is: nothing is brought up to date, and no file is changed or made.

    Raises:
        ProjectError: if it cannot be read; of kind "busy" if another program holds it.
    """
    # A reader of a file in WAL mode makes files beside it. Where there are none nobody has it open, and it is read as it lies.
    is_open = any(layout.gpkg.with_name(layout.gpkg.name + end).exists() for end in ("-wal", "-journal"))
    address = f"{layout.gpkg.resolve().as_uri()}?mode=ro{'' if is_open else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE_S)) as db:
            yield db
    except (sqlite3.DatabaseError, TypeError) as error:
        raise ProjectError(
            f"{layout.gpkg} cannot be read: {error}.",
            "Restore it from a backup, or look whether its disk is there.",
            kind="busy" if "locked" in str(error) else "corrupt",
        ) from error


def age(db: sqlite3.Connection) -> Literal["older", "same", "newer"]:
    """Return whether an older PU-Geo wrote a project's file, one with the same schema as this one, or a newer one."""
    found = _schema_of(db)
    return "older" if found < schema.SCHEMA else "newer" if found > schema.SCHEMA else "same"


def _damaged(layout: Layout, error: sqlite3.DatabaseError) -> ProjectError:
    return ProjectError(
        f"{layout.gpkg} is no project file, or it is damaged: {error}.",
        "Restore project.gpkg from a backup, or move the folder away and start a new project.",
        kind="corrupt",
    )


def _schema_of(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT value FROM pugeo_meta WHERE key = 'schema'").fetchone()[0])


def _migrate(db: sqlite3.Connection, layout: Layout) -> None:
    """Migrate the file to this schema in one transaction, after a backup; whoever comes second finds it done."""
    with transaction(db):
        found = _schema_of(db)
        if found < schema.SCHEMA:
            _back_up(layout)
        for number in range(found, schema.SCHEMA):
            for statement in schema.MIGRATIONS[number]:
                _run_step(db, layout, statement)
        db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'schema'", (str(schema.SCHEMA),))


def _run_step(db: sqlite3.Connection, layout: Layout, statement: str) -> None:
    try:
        db.execute(statement)
    except sqlite3.OperationalError as error:
        if "already exists" not in str(error):
            raise
        raise ProjectError(
            f"{layout.folder.name} was written by an older PU-Geo and cannot be brought up to date: {error}, made by another "
            "program. Nothing was changed.",
            "Rename that layer or table in QGIS, then open the project again.",
        ) from error


def _back_up(layout: Layout) -> None:
    """Make a backup of the file as it is.

    SQLite makes no copy over the connection that holds the write lock, and that lock must be held meanwhile: nobody may
    add to the file between its copy and its migration.
    """
    try:
        backups.make(layout, "migration")
    except ProjectError as error:
        raise ProjectError(
            f"{layout.folder.name} was written by an older PU-Geo, and is brought up to date only after a backup. {error.problem}",
            f"{error.hint} Then open the project again; nothing was changed.",
            kind=error.kind,
        ) from error


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do everything inside or nothing. Takes the write lock at once, so that what is read inside stays true.

    Within another transaction it is a part of that one.
    """
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


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
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{path} exists already and is not empty.", "Choose another name, or open that project.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as place:
            made = Path(place) / "project"
            made.mkdir()
            write_empty(made / "project.gpkg", name)
            made.rename(folder)  # whole or not at all; fails if somebody else was faster
    except OSError as error:
        raise ProjectError(
            f"The folder {path} cannot be made: {error.strerror}.", "Choose another name, or a place you may write to."
        ) from error
    return Layout(folder)


def write_empty(path: Path, name: str) -> None:
    """Write the database of a new project."""
    path.touch()  # with the rights that the umask leaves: SQLite would let nobody but its maker write
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={schema.USER_VERSION}")
    db.execute("PRAGMA journal_mode=WAL")
    facts = {"schema": str(schema.SCHEMA), "name": name, "created_at": now(), "project_id": secrets.token_hex(16)}
    db.executescript(f"BEGIN;{schema.CREATE}COMMIT;")
    db.executemany("INSERT INTO pugeo_meta VALUES (?, ?)", facts.items())
    db.close()


def open_project(path: str | Path) -> Layout:
    """Return the layout of a project whose GeoPackage can be read."""
    layout = find_project(path)
    with connect(layout):
        return layout


def project_name(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT value FROM pugeo_meta WHERE key = 'name'").fetchone()[0])


def created_at(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT value FROM pugeo_meta WHERE key = 'created_at'").fetchone()[0])


def project_id(db: sqlite3.Connection) -> str:
    """Return what all copies of a project share: its id, or where an older PU-Geo made it, when that was."""
    found = dict(db.execute("SELECT key, value FROM pugeo_meta WHERE key IN ('project_id', 'created_at')").fetchall())
    return str(found.get("project_id", found["created_at"]))
