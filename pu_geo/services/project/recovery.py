"""Restore a project: a backup of its database, with all newer rows that can still be read of the damaged one."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pu_geo import jobs
from pu_geo.errors import ProjectError, writing
from pu_geo.files import make_folder, move_path, to_change
from pu_geo.project import backups, in_use, leftovers, recovered, removals, runs, store, swap
from pu_geo.project.backups import Backup
from pu_geo.project.layout import SUFFIX, Layout, find_project
from pu_geo.project.recovered import Recovered
from pu_geo.services.project.copying import copy_files
from pu_geo.wording import listed, plural, when

_ONE = {
    "footprints": "footprint", "scene": "scene", "chip_set": "chip set", "run": "run", "pinned_run": "run to show",
    "threshold": "threshold", "decision": "decision", "choice": "setting", "areas": "area", "aoi_log": "outline of the area",
    "former": "place of a removed building", "intake": "imported file", "empty_step": "empty undo", "pugeo_meta": "project fact",
    "gpkg_spatial_ref_sys": "coordinate system", "removal": "removal", "removal_end": "removal that was undone or made final",
}  # fmt: skip
"""Table -> one of its rows, for people."""


@dataclass(frozen=True)
class Restored:
    """What a restore did.

    Attributes:
        backup: it was made from; None where there was none, and all of it is what could be read.
        rows: that were newer than the backup.
        runs: ids of runs that were known again by their folders.
        damaged: the database that was there before, where another one took its place.
    """

    layout: Layout
    backup: Backup | None
    rows: Recovered
    runs: list[str]
    damaged: Path | None

    @property
    def notes(self) -> list[str]:
        """What a person should know of it, a sentence each."""
        if self.backup is None:
            head = f"There was no backup. {self.layout.folder} holds what can be read of the database."
        else:
            head = f"{self.layout.folder} holds the backup of {when(self.backup.made_at)}, and what was newer."
        lost = f" {plural(self.rows.unreadable, 'label event')} that came after it cannot be read."
        if not self.rows.unreadable:
            lost = "" if self.rows.left_out else " None that is known of is lost."
        notes = [head, f"{plural(self.rows.events, 'newer label event was', 'newer label events were')} recovered.{lost}"]
        if self.rows.left_out:
            notes.append(
                f"{plural(self.rows.left_out, 'event')} can be read and could not be taken over: what it undoes or means is lost."
            )
        if self.rows.others:
            named = ", ".join(plural(n, _ONE.get(table, f"row of {table}")) for table, n in self.rows.others.items())
            notes.append(f"Newer besides, and recovered: {named}.")
        if self.rows.is_older:
            notes.append(
                "Scenes, footprints or chips were removed or replaced after the backup, and what the project has of them since cannot be "
                "read as a whole. The restored project has those of the backup: remove or replace them again where you want that."
            )
        if self.runs:
            notes.append(f"{plural(len(self.runs), 'run')} known again by the folder: {', '.join(self.runs)}.")
        if self.damaged:
            notes.append(f"The database that was there before is kept as {self.damaged.name}.")
        return notes

    def facts(self) -> dict[str, object]:
        """Return the same for machines."""
        return {
            "project": str(self.layout.folder),
            "backup": str(self.backup.path) if self.backup else None,
            "recovered": self.rows.events,
            "unreadable": self.rows.unreadable,
            "left_out": self.rows.left_out,
            "other_rows": dict(self.rows.others),
            "is_older": self.rows.is_older,
            "runs": self.runs,
            "damaged": str(self.damaged) if self.damaged else None,
        }


def find(path: str) -> Layout:
    """Return the layout of a project, also of one whose database is gone. Raises ProjectError if `path` is none."""
    layout = Layout(Path(path).expanduser().resolve())
    return layout if layout.folder.suffix == SUFFIX and backups.newest(layout) else find_project(path)


def backup_of(layout: Layout, named: str | None) -> Backup | None:
    """Return the backup of a name or path, verified; the newest if None, and None where there is none.

    Raises:
        ProjectError: if there is no such backup, it is damaged, or it is of another project.
    """
    found = backups.all_backups(layout)
    if named is None:
        chosen = found[0] if found else None
    else:
        paths = (Path(named).expanduser().resolve(), layout.backups / named, layout.backups / f"{named}.gpkg")
        path = next((path for path in paths if path.is_file()), None)
        chosen = next((one for one in found if one.path == path), None) or (backups.read(path) if path else None)
        if chosen is None:
            known = listed([one.path.name for one in found]) or "none"
            raise ProjectError(
                f"{named} is no backup of {layout.folder.name}, or the JSON file that belongs beside it is missing. "
                f"Its backups are: {known}.",
                f"Name one of them, or leave it out to take the newest: pu-geo restore {layout.folder}.",
            )
    if chosen is not None:
        _check(layout, chosen, found)
    return chosen


def _check(layout: Layout, chosen: Backup, found: list[Backup]) -> None:
    if wrong := backups.verify(chosen):
        older = next((one for one in found if one.made_at < chosen.made_at and not backups.verify(one)), None)
        raise ProjectError(
            f"The backup {chosen.path.name} cannot be used: {wrong}.",
            f"Restore the next older one: pu-geo restore {layout.folder} {older.path.name}."
            if older
            else "There is no older one that is whole.",
            kind="corrupt",
        )
    ours = {one.project_id for one in found if one.project_id}
    if chosen.project_id and ours and chosen.project_id not in ours:
        raise ProjectError(
            f"The backup {chosen.path.name} is of another project than {layout.folder.name}.", "Name a backup of this one."
        )


def restored_folder(layout: Layout) -> Path:
    """Return a folder beside a project that is not there yet: joplin-restored.pugeo, joplin-restored-2.pugeo, ..."""
    number, folder = 1, layout.folder.with_name(f"{layout.folder.stem}-restored{SUFFIX}")
    while folder.exists():
        number += 1
        folder = layout.folder.with_name(f"{layout.folder.stem}-restored-{number}{SUFFIX}")
    return folder


def restore(layout: Layout, named: str | None = None, *, to: str | None = None) -> Restored:
    """Make a project in a new folder from a backup and what is newer and can be read; the old one stays as it is.

    What was removed since the backup stays removed, and can be brought back as in the old one. Where the log of removals, or what a
    removal or replacement of scenes, footprints or chips left, cannot be read as a whole, these are as in the backup, files included.

    Chips, runs and quicklooks, which never change, become hard links where the file system has these.

    Args:
        named: name or path of the backup; the newest if None.
        to: folder to make, ending in ".pugeo"; `restored_folder` if None.

    Raises:
        ProjectError: see `backup_of`; also if the folder is there already, or the disk is full. Nothing was made then.
    """
    folder = Path(to).expanduser().resolve() if to else restored_folder(layout)
    if folder.suffix != SUFFIX or layout.folder in folder.parents:
        raise ProjectError(
            f"{folder} cannot be the restored project: its folder ends in {SUFFIX} and is outside of {layout.folder.name}.",
            f"Call it {restored_folder(layout).name}, for example.",
        )
    if folder.exists():
        raise ProjectError(f"{folder} exists already; nothing was restored.", "Name a folder that is not there yet.")
    swap.finish(layout)
    backup = backup_of(layout, named)
    with writing(folder, ProjectError):
        make_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder.parent) as place:
            made = Layout(Path(place) / "project")
            never_change = (layout.path(name) for name in ("chips", "runs", "quicklooks", "discoveries"))
            copy_files(layout, made, linked=[*never_change])
            source = _source(layout, Path(place))
            rows, found = _build(layout, backup, made, source, named=made)
            removals.settle(made)
            in_use.let_go(made)
            move_path(made.folder, folder)
    return Restored(Layout(folder), backup, rows, found, None)


def restore_in_place(layout: Layout, named: str | None = None) -> Restored:
    """Put a backup, with what is newer and can be read, into the place of the project's database, which is kept beside it.

    Raises:
        ProjectError: see `restore`; of kind "busy" if another process has the project open, or a job of it is active. The
            database is as it was then.
    """
    if active := [job.job_id for job in jobs.all_jobs(layout, with_dismissed=True) if job.is_active]:
        raise ProjectError(
            f"Job {active[0]} works in {layout.folder.name}; its database cannot be replaced now.",
            f"Wait for it, or cancel it: pu-geo jobs {layout.folder} cancel {active[0]}.",
            kind="busy",
        )
    to_change(layout.folder)
    swap.finish(layout)
    with writing(layout.folder, ProjectError), in_use.alone(layout):
        backup = backup_of(layout, named)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=layout.folder) as place:
            made = Layout(Path(place))
            source = layout.gpkg if layout.gpkg.is_file() else None
            rows, found = _build(layout, backup, made, source, named=layout)
            damaged = swap.put(layout, made.gpkg)
    removals.settle(layout)
    return Restored(layout, backup, rows, found, damaged)


def _source(layout: Layout, place: Path) -> Path | None:
    """Return the file to read newer rows from: the database itself, or, where another process writes to it, a whole copy."""
    if not layout.gpkg.is_file():
        return None
    if in_use.is_open_elsewhere(layout):
        with suppress(Exception):  # whatever is wrong with it: what can be read is read from the file itself
            backups.copy_database(layout.gpkg, place / leftovers.NOW)
            if not backups.quick_check(place / leftovers.NOW):
                return place / leftovers.NOW
    return layout.gpkg


def _build(
    layout: Layout, backup: Backup | None, made: Layout, source: Path | None, *, named: Layout
) -> tuple[Recovered, list[str]]:
    """Write the database of `made`.

    Args:
        named: whose folders of runs count.
    """
    if backup is not None:
        shutil.copyfile(backup.path, made.gpkg)
    else:
        store.write_empty(made.gpkg, layout.folder.stem)
    with store.connect(made) as db:
        rows = (
            Recovered()
            if source is None
            else recovered.merge(db, source, is_new=backup is None, trash=removals.buildings_in_trash(layout))
        )
        with store.transaction(db):
            found = runs.register(db, named)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    in_use.let_go(made)
    if backup is None and not rows.events and not rows.others.get("footprints"):
        raise ProjectError(
            f"There is no backup of {layout.folder.name}, and nothing of its database can be read. Nothing was changed.",
            "Is there a copy of the folder on another disk, or an exported label history (.events.csv)? Start a new project with these.",
            kind="corrupt",
        )
    if wrong := backups.quick_check(made.gpkg):
        raise ProjectError(f"The restored database is not whole: {wrong}. Nothing was changed.", "Restore an older backup.")
    return rows, found
