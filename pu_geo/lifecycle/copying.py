"""Copy a project, for another machine or as a backup, while people click in it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from pu_geo.errors import ProjectError, writing
from pu_geo.files import checked, make_folder, move_path
from pu_geo.store import backups, federations, labels, removals, store
from pu_geo.store.layout import SUFFIX, Layout

_NOT_COPIED = ("-wal", "-shm", ".lock", ".part")  # ends of names: what belongs to whoever works in the project now
_OF_DATABASE = re.compile(r"project(\.v\d+-backup|\.damaged-.*)?\.gpkg.*")  # and copies of it beside it


def copy_project(layout: Layout, target: str, *, with_exports: bool = True) -> dict[str, object]:
    """Copy a project as it stands at one moment. Scenes stay where they are; labels that are clicked meanwhile may be
    missing.

    What was removed stays behind, so that it can be brought back in the project alone; so do keys of federations.

    The database is copied first: all files that it names are there by then, and no finished one changes.

    Args:
        target: folder to make, ending in ".pugeo".
        with_exports: whether exports come along.

    Returns:
        {"out": path, "at_event": number of the last label event in the copy, "bytes"}

    Raises:
        ProjectError: if `target` has another ending, or is there already, or lies within the project.
        PuGeoError: if it cannot be written.
    """
    folder = folder_to_make(layout, target, f"{layout.folder.stem}-copy{SUFFIX}")
    with writing(folder):
        make_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".copy-", dir=folder.parent) as place:
            made = Layout(Path(place) / "project")
            with backups.refused_in_words(layout, folder, "copy"):
                backups.copy_database(layout.gpkg, made.gpkg)
            left = (layout.trash, *federations.secrets(layout), *(() if with_exports else (layout.exports,)))
            copy_files(layout, made, without=left)
            move_path(made.folder, folder)
    copied = Layout(folder)
    at_event = store.call(copied, labels.last_event)
    return {"out": str(folder), "at_event": at_event, "bytes": removals.bytes_of([folder])}


def folder_to_make(layout: Layout, named: str, example: str) -> Path:
    """Return the folder that a project shall be copied or restored into; ProjectError if it can be none, or is there
    already.
    """
    folder = Path(named).expanduser().resolve()
    if folder.suffix != SUFFIX or layout.folder in folder.parents:
        raise ProjectError(
            f"{folder} cannot be made of {layout.folder.name}: the new folder ends in {SUFFIX} and lies outside the "
            "project.",
            f"Call it {example}, for example.",
        )
    if folder.exists():
        raise ProjectError(f"{folder} exists already; nothing was made.", "Name a folder that is not there yet.")
    return folder


def free_folder(folder: Path) -> Path:
    """Return a folder that is not there yet: joplin.pugeo, joplin-2.pugeo, ..."""
    others = (folder.with_name(f"{folder.stem}-{number}{folder.suffix}") for number in count(2))
    return next(one for one in chain([folder], others) if not one.exists())


def copy_files(layout: Layout, made: Layout, without: Collection[Path] = (), linked: Collection[Path] = ()) -> None:
    """Copy all files but the database and its backups; one that goes away meanwhile, such as an old checkpoint, is left out.

    Args:
        without: folders to leave out.
        linked: folders whose files never change: they become hard links where the file system has these.
    """
    without = {*without, layout.backups}
    for place, folders, names in os.walk(layout.folder):
        folders[:] = [name for name in folders if Path(place, name) not in without and not name.endswith(_NOT_COPIED)]
        for name in folders:
            checked(Path(place, name))
        there = made.folder / Path(place).relative_to(layout.folder)
        make_folder(there)
        can_link = any(Path(place).is_relative_to(folder) for folder in linked)
        for name in names:
            if not name.endswith(_NOT_COPIED) and not (Path(place) == layout.folder and _OF_DATABASE.fullmatch(name)):
                with suppress(FileNotFoundError):
                    _copy(checked(Path(place, name)), there / name, can_link=can_link)


def _copy(path: Path, target: Path, *, can_link: bool) -> None:
    if can_link:
        try:
            os.link(path, target, follow_symlinks=False)
        except OSError:  # another disk, or a file system without links
            pass
        else:
            return
    shutil.copy2(path, target)
