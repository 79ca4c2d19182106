"""Backups of the database: whole copies that were checked, in `backups/` of the project, each with a JSON file beside it.

    backups/20261123-191329-123-daily.gpkg    the database as it stood at one moment, one file
    backups/20261123-191329-123-daily.json    written last: when, why, sha256, schema, last label event

Only a backup whose JSON is whole counts. Chips, runs and exports are not copied: no finished one ever changes.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from pu_geo.errors import OutOfReach, ProjectError
from pu_geo.files import atomic_write, checked, is_abandoned, make_folder, may_change, remove_path, single
from pu_geo.records import utc
from pu_geo.store import in_use, integrity, locks
from pu_geo.store.layout import Layout, read_json, sha256_of, write_json

Reason = Literal["daily", "job", "removal", "asked"]
LOCK = ".backups.lock"  # held while a backup is made there
KEPT = 7  # of each reason, so that a day of removals does not push out those of the week before
DAY = timedelta(days=1)
_RESERVE = 64 * 2**20  # bytes that a backup leaves free: clicks need room too
_BUSY_S = 20.0
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_BUSY_STEP_S = 0.25


@dataclass(frozen=True)
class Backup:
    """One backup.

    Args:
        path: the copy of the database.
        made_at: UTC, RFC 3339.
        reason: "daily", "job", "removal" or "asked".
        sha256: of the copy.
        schema: of the copy.
        at_event: number of the last label event in it; 0 if it has none.
        n_bytes: its size.
        project_id: what all copies of a project share.
    """

    path: Path
    made_at: str
    reason: str
    sha256: str
    schema: int
    at_event: int
    n_bytes: int
    project_id: str

    @property
    def age(self) -> timedelta:
        return datetime.now(UTC) - datetime.fromisoformat(self.made_at)


def make(layout: Layout, reason: Reason, to: Path | None = None) -> Backup:
    """Write a backup, check it, and remove those of the project's own folder that are too many.

    Others may read and write meanwhile. What was acknowledged before is in it.

    Args:
        to: folder to write to, where nothing is removed; the project's own if None.

    Raises:
        ProjectError: of kind "corrupt" if the database is damaged, "disk" if it cannot be written, "busy" if another program
            holds the database. Nothing is left behind then, and no older backup is removed.
    """
    folder = layout.backups if to is None else to
    with refused_in_words(layout, folder):
        if to is not None:
            make_folder(to)
            return _make(layout, reason, to, own=False)
        with locks.one_at_a_time(layout.backups / LOCK):
            return _make(layout, reason, layout.backups, own=True)


def make_daily(layout: Layout) -> Backup | None:
    """Write a backup if the newest is a day old and something changed since; return it, or None.

    Raises:
        ProjectError: as `make` does.
    """
    if _is_enough(layout):
        return None
    with refused_in_words(layout, layout.backups), locks.one_at_a_time(layout.backups / LOCK):
        if _is_enough(layout):
            return None  # another server was faster
        return _make(layout, "daily", layout.backups, own=True)


def _is_enough(layout: Layout) -> bool:
    """Return whether the newest backup is of the last day, or nothing was stored since; one from the future, by a wrong
    clock, is not.
    """
    last = newest(layout)
    if last is None or last.age < timedelta():
        return False
    files = [path.stat() for path in (layout.gpkg, layout.gpkg.with_name(f"{layout.gpkg.name}-wal")) if path.exists()]
    changed_at = max(one.st_mtime for one in files if one.st_size)
    return last.age < DAY or changed_at <= datetime.fromisoformat(last.made_at).timestamp()


def all_backups(layout: Layout) -> list[Backup]:
    """Return the backups in the project's own folder whose JSON is whole, newest first."""
    found = [backup for path in layout.backups.glob("*.gpkg") if (backup := read(path))]
    return sorted(found, key=lambda backup: (backup.made_at, backup.at_event, backup.path.name), reverse=True)


def newest(layout: Layout) -> Backup | None:
    return next(iter(all_backups(layout)), None)


def unfinished(layout: Layout) -> list[Path]:
    """Return what a killed process left of a backup, and of a restore in place."""
    parts = [path for path in layout.backups.glob(".*.part") if is_abandoned(path)]
    is_restored_now = locks.is_held(layout.path(in_use.FILE))
    return parts if is_restored_now else [*parts, *layout.folder.glob(".restore-????????")]


def read(path: Path) -> Backup | None:
    """Return what stands beside a backup; None if that is not whole, or the copy is gone or has another size."""
    try:
        facts = read_json(path.with_suffix(".json"))
        backup = Backup(**{**facts, "path": path})
        is_whole = checked(path).stat().st_size == backup.n_bytes and backup.reason in get_args(Reason)
        is_whole &= utc(backup.made_at) is not None and isinstance(backup.project_id, str) and path.is_file()
    except (ProjectError, OSError, ValueError, TypeError, OverflowError):
        return None
    return backup if is_whole else None


def verify(backup: Backup) -> str:
    """Return what is wrong with a backup, as half a sentence; "" if nothing is."""
    try:
        if sha256_of(backup.path) != backup.sha256:
            return "its sha256 is not the one it was written with"
        wrong = quick_check(backup.path)
    except (OSError, sqlite3.DatabaseError) as error:
        return f"it cannot be read: {error}"
    return f"it is damaged: {wrong}" if wrong else ""


def copy_database(source: Path, path: Path) -> None:
    """Copy a database as it stands at one moment, over a connection of its own; others may read and write meanwhile.

    Raises:
        OSError: if `path` cannot be written.
        sqlite3.DatabaseError: if the database cannot be read, or the disk is full.
    """
    with atomic_write(path) as temporary:
        _copy(source, temporary)


def too_many(backups: list[Backup]) -> list[Backup]:
    """Return those to remove of a list, newest first: all but the `KEPT` newest of each reason."""
    ours = [[one for one in backups if one.reason == reason] for reason in get_args(Reason)]
    return [backup for of_reason in ours for backup in of_reason[KEPT:]]


def _make(layout: Layout, reason: Reason, folder: Path, *, own: bool) -> Backup:
    at = datetime.now(UTC)
    name = "" if own else f"{layout.folder.stem}-"
    path = folder / f"{name}{at:%Y%m%d-%H%M%S}-{at.microsecond // 1000:03}-{reason}.gpkg"
    _need_room(layout, folder)
    with atomic_write(path) as temporary:
        _copy(layout.gpkg, temporary)
        if wrong := quick_check(temporary):
            raise sqlite3.DatabaseError(wrong)
        with closing(_reading(temporary)) as db:
            meta = dict(db.execute("SELECT key, value FROM pugeo_meta").fetchall())
            (at_event,) = db.execute("SELECT ifnull(max(event), 0) FROM label_event").fetchone()
        made_at = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        n_bytes = temporary.stat().st_size
        made = Backup(
            path, made_at, reason, sha256_of(temporary), int(meta["schema"]), at_event, n_bytes, str(meta["project_id"])
        )
    try:
        write_json(path.with_suffix(".json"), {key: value for key, value in asdict(made).items() if key != "path"})
    except BaseException:
        remove_path(path)  # without its JSON it counts for nothing
        raise
    if own:
        for old in too_many(all_backups(layout)):
            remove_path(old.path.with_suffix(".json"))
            remove_path(old.path)
    return made


def _copy(source: Path, path: Path) -> None:
    give_up = time.monotonic() + _BUSY_S

    def waited(status: int, _remaining: int, _total: int) -> None:  # without it, a copy waits for ever
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > give_up:
            raise sqlite3.OperationalError("database is locked")

    is_writable = os.access(source, os.W_OK) and may_change(source.parent)
    address = single(for_sqlite(source)).as_uri() if is_writable else read_only_address(source)
    with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_STEP_S)) as db, closing(sqlite3.connect(path)) as target:
        db.backup(target, progress=waited, sleep=_BUSY_STEP_S)
        target.execute("PRAGMA journal_mode=DELETE")  # one file that can be handed over


def for_sqlite(gpkg: Path) -> Path:
    """Return the absolute path of a database once neither it nor what SQLite opens beside it leads elsewhere.

    Raises:
        OutOfReach: see `files.single`; a reader, too, writes to the files beside it. Also where its journal belongs to
            several databases.

    Source: "Database File Format", https://www.sqlite.org/fileformat2.html, section 3; a file named at the journal's end is
    deleted.
    """
    for ending in ("-wal", "-shm", "-journal"):
        beside = single(gpkg.with_name(f"{gpkg.name}{ending}"))
    if beside.is_file() and _end_of(beside) == _SUPER_JOURNAL:
        raise OutOfReach(
            f"{beside} names another journal, which SQLite would remove.",
            "PU-Geo writes no such file: remove it.",
            kind="link",
        )
    return checked(gpkg).absolute()


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - len(_SUPER_JOURNAL), 0))
        return file.read()


def read_only_address(gpkg: Path) -> str:
    """Return the address by which SQLite opens a database to read it, and neither changes nor makes a file."""
    # A reader of a file in WAL mode makes files beside it. Where there are none nobody has it open: it is read as it lies.
    return f"{for_sqlite(gpkg).as_uri()}?mode=ro{'' if is_open(gpkg) else '&immutable=1'}"


def is_open(gpkg: Path) -> bool:
    """Return whether a process may have a database open, or left changes beside it."""
    return any(gpkg.with_name(gpkg.name + end).exists() for end in ("-wal", "-journal"))


def _need_room(layout: Layout, folder: Path) -> None:
    wal = layout.gpkg.with_name(f"{layout.gpkg.name}-wal")
    need = layout.gpkg.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    if shutil.disk_usage(folder).free < need + _RESERVE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def quick_check(path: Path) -> str:
    """Return the first thing that is wrong in a file that nobody has open, to SQLite or since it is not ours; "" if nothing
    is.
    """
    with closing(_reading(path)) as db:
        if strange := integrity.strange(db):
            return strange
        found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if found == "ok" else " ".join(found.split())


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


@contextmanager
def refused_in_words(layout: Layout, folder: Path, what: str = "backup") -> Iterator[None]:
    """Raise as `ProjectError` what keeps a database from being copied to a folder; `what` the copy is, in words."""
    none = f"No {what} of {layout.folder.name} was made"
    try:
        yield
    except OutOfReach:
        raise
    except OSError as error:
        raise _not_written(none, folder, error) from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise ProjectError(
                f"{none}: another program holds its database.",
                "Close that program, such as QGIS, then try again.",
                kind="busy",
            ) from error
        if not os.access(layout.folder, os.W_OK) and ("readonly" in str(error) or "open" in str(error)):
            raise ProjectError(
                f"{none}: you may not write to {layout.folder}, and its newest changes are in a log that can be read only "
                "by who may.",
                f"Ask whoever may write there for a {what}.",
                kind="read_only",
            ) from error
        if "full" in str(error) or "I/O" in str(error) or "open" in str(error):
            raise _not_written(none, folder, error) from error
        raise _damaged(layout, none, error) from error
    except (sqlite3.DatabaseError, KeyError, TypeError, ValueError) as error:
        raise _damaged(layout, none, error) from error


def _not_written(none: str, folder: Path, error: Exception) -> ProjectError:
    number, why = (error.errno, error.strerror or str(error)) if isinstance(error, OSError) else (None, str(error))
    is_forbidden = number in (errno.EACCES, errno.EPERM, errno.EROFS)
    return ProjectError(
        f"{none}: {folder} cannot be written: {why}. Older backups are as they were.",
        "Name a folder that you may write to: pu-geo repair backup --to FOLDER."
        if is_forbidden
        else "Make room on that disk, or back up to another one: pu-geo repair backup --to FOLDER.",
        kind="disk",
    )


def _damaged(layout: Layout, none: str, error: Exception) -> ProjectError:
    last = newest(layout)
    return ProjectError(
        f"{none}: its database is damaged: {error}. Older backups are as they were.",
        f"Restore the project from the backup of {last.made_at}: pu-geo repair restore {layout.folder}."
        if last
        else f"There is no backup of it. Save its labels: pu-geo export-labels {layout.folder} --out labels.csv.",
        kind="corrupt",
    )
