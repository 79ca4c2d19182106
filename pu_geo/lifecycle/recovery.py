"""Restore a project: the newest good backup of its database, and all newer labels of the journal beside it."""

from __future__ import annotations

import csv
import io
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from pu_geo import jobs
from pu_geo.errors import LabelError, ProjectError, writing
from pu_geo.files import atomic_write, make_folder, move_path, to_change
from pu_geo.lifecycle.copying import copy_files, folder_to_make, free_folder
from pu_geo.spreadsheets import guarded
from pu_geo.store import backups, contents, history, in_use, journal, labels, removals, runs, schema, store, swap
from pu_geo.store.backups import Backup
from pu_geo.store.layout import JOURNAL, SUFFIX, Layout, find_project, writable_target
from pu_geo.wording import listed, plural, when


@dataclass(frozen=True)
class Restored:
    """What a restore did.

    Attributes:
        backup: it was made from.
        n_events: label events that the backup lacked, put in from the journal.
        n_missing: label events that came between these and are not in the journal, or make no sense.
        n_unreadable: lines of the journal that cannot be read, or are of another project.
        runs: ids of runs that the backup lacked and that were known again by their folders.
        damaged: the database that was there before, where another one took its place.
    """

    layout: Layout
    backup: Backup
    n_events: int
    n_missing: int
    n_unreadable: int
    runs: list[str]
    damaged: Path | None = None

    @property
    def notes(self) -> list[str]:
        """What a person should know of it, a sentence each."""
        made_at, missing = (
            when(self.backup.made_at),
            plural(self.n_missing, "more is", "more are") if self.n_missing else "none is",
        )
        newer = plural(self.n_events, "newer label event was", "newer label events were")
        notes = [
            f"{self.layout.folder} holds the backup of {made_at}.",
            f"{newer} taken from the journal; {missing} missing there.",
            f"{plural(self.n_unreadable, 'line')} of the journal cannot be read." if self.n_unreadable else "",
            ""
            if self.layout.journal.is_file()
            else f"There is no journal ({JOURNAL}): labels since then, if any, are lost.",
            f"{plural(len(self.runs), 'run')} known again by the folder: {', '.join(self.runs)}." if self.runs else "",
            f"What else changed after {made_at} was not restored: scenes, footprints, chips, decisions, thresholds and "
            "other choices are as "
            "they were then, and what was removed since is back.",
            f"The database that was there before is kept as {self.damaged.name}." if self.damaged else "",
        ]
        return [note for note in notes if note]

    def facts(self) -> dict[str, object]:
        """Return the same for machines."""
        return {
            "project": str(self.layout.folder),
            "backup": str(self.backup.path),
            "newer_events": self.n_events,
            "missing_events": self.n_missing,
            "unreadable_lines": self.n_unreadable,
            "runs": self.runs,
            "damaged": str(self.damaged) if self.damaged else None,
        }


def find(path: str) -> Layout:
    """Return the layout of a project, also of one whose database is gone. Raises ProjectError if `path` is none."""
    layout = Layout(Path(path).expanduser().resolve())
    return layout if layout.folder.suffix == SUFFIX and backups.newest(layout) else find_project(path)


def backup_of(layout: Layout, named: str | None) -> Backup:
    """Return the backup of a name or path, verified; the newest that is whole if None.

    Raises:
        ProjectError: if there is no such backup, it is damaged, or it is of another project.
    """
    found = backups.all_backups(layout)
    if named is None:
        if (whole := next((one for one in found if not backups.verify(one)), None)) is None:
            raise ProjectError(
                f"There is no backup of {layout.folder.name}{' that is whole' if found else ''}, so nothing was restored.",
                f"`pu-geo export-labels {layout.folder.name} --out labels.csv` saves the labels of its journal; in a new "
                "project with the same footprints, `pu-geo label NEW.pugeo --import labels.events.csv --rebuild "
                "--same-footprints` stores them again.",
                kind="corrupt",
            )
        return whole
    paths = (Path(named).expanduser().resolve(), layout.backups / named, layout.backups / f"{named}.gpkg")
    path = next((path for path in paths if path.is_file()), None)
    chosen = backups.read(path) if path else None
    if chosen is None:
        known = listed([one.path.name for one in found]) or "none"
        raise ProjectError(
            f"{named} is no backup of {layout.folder.name}, or the JSON file that belongs beside it is missing. "
            f"Its backups are: {known}.",
            f"Name one of them, or leave it out to take the newest: pu-geo repair restore {layout.folder}.",
        )
    if wrong := backups.verify(chosen):
        raise ProjectError(
            f"The backup {chosen.path.name} cannot be used: {wrong}.",
            f"Take the newest one that is whole: pu-geo repair restore {layout.folder}.",
            kind="corrupt",
        )
    if found and found[0].project_id != chosen.project_id:
        raise ProjectError(
            f"The backup {chosen.path.name} is of another project than {layout.folder.name}.", "Name a backup of this one."
        )
    return chosen


def restored_folder(layout: Layout) -> Path:
    """Return a folder beside a project that is not there yet: joplin-restored.pugeo, joplin-restored-2.pugeo, ..."""
    return free_folder(layout.folder.with_name(f"{layout.folder.stem}-restored{SUFFIX}"))


def restore(layout: Layout, named: str | None = None, *, to: str | None = None) -> Restored:
    """Make a project in a new folder from a backup and the newer labels of the journal; the old one stays as it is.

    What else changed since the backup is as it was then; files of what was removed since are in their places again.

    Chips, runs and quicklooks, which never change, become hard links where the file system has these.

    Args:
        named: name or path of the backup; the newest that is whole if None.
        to: folder to make, ending in ".pugeo"; `restored_folder` if None.

    Raises:
        ProjectError: see `backup_of`; also if the journal is of another history than the backup, the folder is there
            already, or the disk is full. Nothing was made then.
    """
    free = restored_folder(layout)
    folder = folder_to_make(layout, to or str(free), free.name)
    swap.finish(layout)
    backup = backup_of(layout, named)
    journal.check(layout)
    with writing(folder, ProjectError):
        make_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder.parent) as place:
            made = Layout(Path(place) / "project")
            never_change = (layout.path(name) for name in ("chips", "runs", "quicklooks", "discoveries"))
            copy_files(layout, made, linked=[*never_change])
            done = _build(made, backup, made)
            removals.settle(made)
            in_use.let_go(made)
            move_path(made.folder, folder)
    return replace(done, layout=Layout(folder))


def restore_in_place(layout: Layout, named: str | None = None) -> Restored:
    """Put a backup with the newer labels of the journal into the place of the project's database, which is kept beside it.

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
            done = _build(made, backup, layout)
            damaged = swap.put(layout, made.gpkg)
    removals.settle(layout)
    return replace(done, damaged=damaged)


def _build(made: Layout, backup: Backup, layout: Layout) -> Restored:
    """Write the database of `made`, with the newer labels and the runs of `layout`."""
    shutil.copyfile(backup.path, made.gpkg)
    found = journal.read(layout, backup.project_id)
    with closing(sqlite3.connect(made.gpkg)) as db, db:  # not by `store.transaction`: they are in the journal already
        n_events = history.complete(db, found.rows)
    if n_events is None:
        raise ProjectError(
            f"{layout.journal.name} of {layout.folder.name} is the journal of another history than that of the backup "
            f"{backup.path.name}. "
            "Nothing was restored.",
            f"Name another backup, or move {layout.journal.name} elsewhere to restore the backup alone.",
            kind="corrupt",
        )
    with store.connect(made) as db:
        with store.transaction(db):
            known_again = runs.register(db, layout)
            contents.note_restored(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    in_use.let_go(made)
    if wrong := backups.quick_check(made.gpkg):
        raise ProjectError(f"The restored database is not whole: {wrong}. Nothing was changed.", "Restore an older backup.")
    last = max([backup.at_event, *(row["event"] for row in found.rows)])
    return Restored(layout, backup, n_events, last - backup.at_event - n_events, found.n_unreadable, known_again)


def labels_of_journal(layout: Layout) -> tuple[str, int, int]:
    """Return the journal as CSV, as `pu-geo export-labels` writes a history, its events, and its lines and events that are
    left out.
    """
    found, text = journal.read(layout), io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(history.COLUMNS)
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.CREATE)
        n = history.complete(db, found.rows) or 0
        for row in history.rows(db, at=labels.NEWEST):
            table.writerow([guarded(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue(), n, found.n_unreadable + len(found.rows) - n


def save_labels(layout: Layout, path: str) -> dict[str, object]:
    """Write the journal of a damaged project as `<stem>.events.csv`, beside where its labels would go.

    Returns:
        {"events_out": file, "n_events", "n_unreadable": lines and events of the journal that are left out}

    Raises:
        LabelError: if the place cannot be used.
        ProjectError: if the journal cannot be read.
    """
    target = Path(path)
    out = writable_target(str(target.with_name(f"{target.stem.removesuffix('.events')}.events.csv")), LabelError)
    content, n, n_unreadable = labels_of_journal(layout)
    with writing(out, LabelError), atomic_write(out) as temporary:
        temporary.write_text(content, encoding="utf-8", newline="")
    return {"events_out": str(out), "n_events": n, "n_unreadable": n_unreadable}
