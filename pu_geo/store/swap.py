"""Another database takes the place of a project's: decided by one rename, and ended by whoever opens the project next.

    project.gpkg-new                  waits, whole and on the disk: from here on it is the project's
    project.damaged-<stamp>.gpkg      the one before, with its -wal, under another name

The files beside the old database go first, as SQLite would put its log into the new one. A kill in between would leave it
without its newest changes; so nobody reads it while the new one waits.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pu_geo.errors import ProjectError
from pu_geo.files import atomic_write, checked, elsewhere, is_ours, may_change, move_path, remove_path, to_change
from pu_geo.store import in_use
from pu_geo.store.layout import Layout

_WAITING = "project.gpkg-new"
_KEPT = ("", "-wal")  # what SQLite had not put into the first file yet is in the second one
_BESIDE = ("-wal", "-shm", "-journal")


def waits(layout: Layout) -> bool:
    """Return whether a new database waits to take its place."""
    return layout.path(_WAITING).exists()


def put(layout: Layout, path: Path) -> Path | None:
    """Put a database into the place of a project's; return where that one is kept, None if it was gone.

    To be called where this process has the project alone.

    Args:
        path: the new one, on the same disk; it is moved.
    """
    stamp = datetime.now(UTC).timestamp()
    os.utime(path, (stamp, stamp))
    _to_disk(path)
    move_path(path, layout.path(_WAITING))
    return _end(layout)


def finish(layout: Layout) -> None:
    """End what a killed process left half done.

    Raises:
        ProjectError: of kind "busy" if another process does it now, "read_only" if this one may not.
    """
    if not waits(layout):
        return
    if not may_change(layout.folder):
        raise half_done(layout)
    with in_use.alone(layout):
        if waits(layout):
            _end(layout)


def half_done(layout: Layout) -> ProjectError:
    """Return the error for whoever may not end it."""
    return ProjectError(
        f"A restore of {layout.folder.name} was interrupted before its end, and what is there now lacks the newest labels.",
        "Open the project where you may write to its folder: that ends the restore."
        if is_ours(layout.folder)
        else elsewhere(layout.folder).hint,
        kind="read_only",
    )


def _end(layout: Layout) -> Path | None:
    new = layout.path(_WAITING)
    at = datetime.fromtimestamp(new.stat().st_mtime, UTC)
    kept = layout.path(f"project.damaged-{at:%Y%m%d-%H%M%S}.gpkg")
    _to_disk(layout.folder)
    for end in _KEPT:
        here, there = Path(f"{layout.gpkg}{end}"), Path(f"{kept}{end}")
        if checked(here).is_file() and not to_change(there).exists():
            _keep(here, there)
    _to_disk(layout.folder)
    for end in _BESIDE:
        remove_path(Path(f"{layout.gpkg}{end}"))
    _to_disk(layout.folder)
    move_path(new, layout.gpkg)
    _to_disk(layout.folder)
    return kept if kept.is_file() else None


def _keep(here: Path, there: Path) -> None:
    try:
        os.link(here, there)
    except OSError:  # a file system without links
        with atomic_write(there) as part:
            shutil.copy2(here, part)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # a folder, on some file systems
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
