"""Files that processes left which were killed: found, and removed once it is certain that nobody works on them.

A hidden `.part` file counts once its writer's lock is free, see `files.is_abandoned`. Anything else counts only while no
job of the project is alive. Finished work is never among them: not runs, labels, versions, or the states that a job goes on
from.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pu_geo.errors import ProjectError
from pu_geo.files import is_abandoned, move_path, remove_path
from pu_geo.store import locks, store
from pu_geo.store.layout import SHARDS, Layout

ROOM = "room"  # in a job's folder: some bytes that are freed for the last words of a job whose disk is full
_OF_JOBS = (ROOM, "features.npy", "discovery", "checkpoints/*-unfinished.pt")
_DISMISSED = "dismissed"  # of a job; one that somebody may yet resume needs its finished shards
_OF_CHIPS = re.compile(r"([a-z0-9][a-z0-9_-]{0,63})\.(npy|features\.npy|filters\.npz|look[a-z_]*\.(npy|json))")
_PICTURES = ("pre", "post")  # folders of map tiles, which hold no temporary files and up to a million others
_NOT_OURS = ("trash", "backups")
_COPY_S = 24 * 3600.0  # nobody holds a lock on the copy of a project that is being made


def find(layout: Layout, *, own: Path | None = None) -> list[Path]:
    """Return what killed processes left in a project and beside it, in the order of paths. Nothing is changed.

    Args:
        own: folder of the job that asks, which has written nothing yet or is at its end.
    """
    found, when_idle = [*_parts(layout), *_of_jobs(layout, own), *_copies(layout)], [*_when_idle(layout)]
    # The locks are asked after that.
    if not any(locks.is_held(folder / locks.JOB_LOCK) for folder in _job_folders(layout) if folder != own):
        found += when_idle
    return sorted(path for path in found if os.path.lexists(path))


def sweep(layout: Layout, *, own: Path | None = None) -> list[Path]:
    """Remove what `find` finds and return it; no job of the project starts meanwhile. What cannot be removed is left out.

    Where a job was killed as it exchanged the map tiles, those of before take their place again.
    """
    removed: list[Path] = []
    with suppress(OSError), locks.one_at_a_time(layout.jobs / locks.STARTING):
        for path in find(layout, own=own):
            with suppress(OSError):
                if path == _old_tiles(layout) and not layout.quicklooks.exists():
                    move_path(path, layout.quicklooks)
                    continue
                remove_path(path)
                if not path.exists():
                    removed.append(path)
    return removed


def _old_tiles(layout: Layout) -> Path:
    return layout.quicklooks.with_name(f"{layout.quicklooks.name}.old")


def _job_folders(layout: Layout) -> list[Path]:
    return [path for path in layout.jobs.iterdir() if path.is_dir()] if layout.jobs.is_dir() else []


def _parts(layout: Layout) -> Iterator[Path]:
    """Yield the hidden files of all folders."""
    for place, folders, names in os.walk(layout.folder):
        if Path(place) == layout.folder:
            folders[:] = [name for name in folders if name not in _NOT_OURS]
        if Path(place).name.startswith("quicklooks"):
            folders[:] = [name for name in folders if name not in _PICTURES]
        yield from (path for name in names if name.endswith(".part") and is_abandoned(path := Path(place, name)))


def _of_jobs(layout: Layout, own: Path | None) -> Iterator[Path]:
    """Yield what jobs work with that are not alive."""
    for folder in _job_folders(layout):
        if folder == own or not locks.is_held(folder / locks.JOB_LOCK):
            yield from (path for pattern in _OF_JOBS for path in folder.glob(pattern))
            if (folder / _DISMISSED).exists():
                yield from folder.glob(SHARDS)


def _when_idle(layout: Layout) -> Iterator[Path]:
    """Yield what counts while no job is alive alone: map tiles, versions, the files of chip sets that have neither facts nor
    a row.
    """
    versions = sorted(layout.exports.glob(".new-*"))
    if not locks.is_held(layout.exports / ".lock"):  # asked after they were listed
        yield from versions
    yield from (
        path for path in (layout.quicklooks.with_name(f"{layout.quicklooks.name}.new"), _old_tiles(layout)) if path.is_dir()
    )
    folder = layout.path("chips")
    if not folder.is_dir():
        return
    try:
        with store.connect_as_is(layout) as db:
            known = {row[0] for row in db.execute("SELECT chip_set FROM chip_set")}
    except ProjectError:  # who cannot read the list removes nothing
        return
    for path in folder.iterdir():
        match = _OF_CHIPS.fullmatch(path.name)
        if match and match[1] not in known and not layout.chip_facts(match[1]).is_file():
            yield path


def _copies(layout: Layout) -> Iterator[Path]:
    """Yield the folders in which a project was made or copied beside this one, a day after the last change there."""
    for pattern in (".copy-????????", ".new-????????", ".restore-????????"):
        for path in layout.folder.parent.glob(pattern):
            if not path.is_dir() or {each.name for each in path.iterdir()} != {"project"}:
                continue
            newest = max(Path(place).stat().st_mtime for place, _, _ in os.walk(path))
            if time.time() - newest > _COPY_S:
                yield path
