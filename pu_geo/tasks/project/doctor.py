"""Check a project and this machine: what is damaged, missing or left over, and what to do about it.

Nothing is changed unless it is asked for, and then only what can cost nobody anything: temporary files that nobody writes, and
a backup where the newest one is old.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pu_geo import __version__, jobs, scene_state
from pu_geo.errors import PuGeoError
from pu_geo.files import remove_path
from pu_geo.project import (
    backups,
    contents,
    discoveries,
    feature_sets,
    freshness,
    import_log,
    in_use,
    leftovers,
    removals,
    runs,
    schema,
    store,
    versions,
)
from pu_geo.project.layout import RCF, Layout, damage, home, read_json
from pu_geo.services.imagery import scene_files, scene_pair
from pu_geo.tasks.job import Job
from pu_geo.wording import duration, plural, size, when

Level = Literal["ok", "note", "problem"]
PORT = 8501
_LITTLE_BYTES, _FEW_BYTES = 500_000_000, 5_000_000_000
_MOST_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes:
        about: one word for machines, such as "database".
        words: what was found; whole sentences.
        hint: what to do; "" where nothing is.
        fixed: what was done about it; "" where nothing was.
    """

    about: str
    level: Level
    words: str
    hint: str = ""
    fixed: str = ""


def doctor(job: Job, full: bool = False, fix: bool = False) -> dict[str, object]:
    """Check a project as a job: {"findings", "n_problems", "n_notes"}."""
    job.report(0.0, "checking the project")
    return report_of(examine(job.layout, full=full, fix=fix, own_job=job.folder.name))


def report_of(findings: list[Finding]) -> dict[str, object]:
    """Return findings for machines."""
    levels = [one.level for one in findings]
    return {
        "findings": [asdict(one) for one in findings],
        "n_problems": levels.count("problem"),
        "n_notes": levels.count("note"),
    }


def examine(layout: Layout, *, full: bool = False, fix: bool = False, own_job: str = "") -> list[Finding]:
    """Check one project.

    Args:
        full: also read every file of runs, backups and scenes and compare its sha256, and check the database's indexes.
        fix: do what is safe.
        own_job: id of the job that does this.
    """
    found = [_database(layout, full)]
    is_readable = found[0].level != "problem"
    if is_readable:
        with suppress(PuGeoError), store.connect_as_is(layout) as db:
            found.append(_log(db))
            for findings in (
                _finished(layout, db, full),
                _dates(layout),
                _pictures(layout, db),
                _scenes(layout, db, full),
                _orphans(layout, db),
            ):
                try:
                    found.extend(findings)
                except PuGeoError as error:
                    found.append(Finding("project", "problem", error.problem, error.hint))
    found += [_temporaries(layout, fix, own_job), *_damaged_copies(layout), *_jobs(layout, own_job), _disk(layout)]
    found += [*_network(layout), _permissions(layout), _backups(layout, full, fix=fix and is_readable)]
    return found


# The database


def _database(layout: Layout, full: bool) -> Finding:
    restore = f"Restore it: pu-geo restore {layout.folder}"
    if store.state_of_file(layout) == "gone":
        return Finding("database", "problem", "project.gpkg is gone.", restore)
    try:
        with store.connect_as_is(layout) as db:
            rows = db.execute("PRAGMA integrity_check(3)" if full else "PRAGMA quick_check(3)").fetchall()
            wrong = [str(row[0]) for row in rows if row[0] != "ok"]
            if wrong:
                return Finding("database", "problem", f"project.gpkg is damaged: {' '.join(wrong[0].split())}.", restore)
            n = db.execute("SELECT count(*) FROM label_event").fetchone()[0]
    except PuGeoError as error:
        if error.kind == "schema":
            return Finding("database", "note", error.problem, error.hint)
        if error.kind == "busy":
            return Finding("database", "note", error.problem, "Another program holds it; check again in a moment.")
        return Finding("database", "problem", error.problem, restore)
    except (sqlite3.DatabaseError, TypeError, ValueError) as error:
        return Finding("database", "problem", f"project.gpkg is damaged: {error}.", restore)
    return Finding("database", "ok", f"project.gpkg is whole: schema {schema.SCHEMA}, {plural(n, 'label event')}.")


def _log(db: sqlite3.Connection) -> Finding:
    pointing = "SELECT count(*) FROM label_event e WHERE {0} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM label_event x WHERE x.event = e.{0})"
    n = sum(db.execute(pointing.format(name)).fetchone()[0] for name in ("undoes", "answer"))
    if n:
        words = f"{plural(n, 'label event points', 'label events point')} at one that is not there."
        return Finding(
            "labels", "problem", words, "Restore the project from a backup, which puts the events of the journal in again."
        )
    return Finding("labels", "ok", "Every label event that points at another one finds it.")


# Files that rows name


def _finished(layout: Layout, db: sqlite3.Connection, full: bool) -> Iterator[Finding]:
    """Compare all files of what is finished with the facts that were written with them."""
    chip_sets = [row[0] for row in db.execute("SELECT chip_set FROM chip_set ORDER BY number")]
    features = [path for name in chip_sets for path in sorted(layout.path("chips").glob(f"{name}.*.features.json"))]
    of_runs = [layout.run(facts.run_id) / "manifest.json" for facts in runs.all_runs(db)]
    of_versions = [layout.exports / f"v{number}" / versions.FACTS for number in versions.numbers(layout)]
    of_groups = sorted(path / discoveries.FACTS for path in layout.path("discoveries").glob("*/"))
    every: dict[str, tuple[list[Path], str, str]] = {
        "chips": ([layout.chip_facts(name) for name in chip_sets], "chip set", "Cut the chips again: pu-geo chip"),
        "features": (features, "set of features", "Compute them again: pu-geo features"),
        "runs": (of_runs, "run", "Train it again, and choose the new run on the Damage map page."),
        "exports": (of_versions, "version", "Publish the map again; pu-geo remove takes the damaged version away."),
        "discoveries": (of_groups, "proposal of groups", "Propose groups again: pu-geo discover"),
    }
    for about, (paths, what, hint) in every.items():
        for path in paths:
            if wrong := damage(path, full=full):
                name = path.stem if about in ("chips", "features") else path.parent.name
                yield Finding(
                    about, "problem", f"Of the {what} {name} these files are missing or damaged: {_named(wrong)}.", hint
                )
        if paths:
            how = "sha256 of every file compared" if full else "names of files compared; --full reads them"
            yield Finding(about, "ok", f"{plural(len(paths), what)} checked: {how}.")


def _dates(layout: Layout) -> Iterator[Finding]:
    if old := freshness.of_chips(layout).words:
        yield Finding("chips", "note", f"The newest chips are out of date: {old}", freshness.CUT_AGAIN)


def _pictures(layout: Layout, db: sqlite3.Connection) -> Iterator[Finding]:
    if contents.latest_chip_set(db) is None:
        return
    wrong = [] if layout.quicklooks.exists() else [layout.quicklooks.name]
    drawn = [layout.quicklooks / role for role in {scene.role for scene in contents.scenes(db)}]
    for folder in [*drawn, *layout.quicklooks.glob("layers/*")] if not wrong else []:
        try:
            n_tiles = read_json(folder / "pyramid.json")["n_tiles"]
            is_whole = n_tiles == sum(1 for tile in folder.glob("*/*/*.jpg") if tile.stat().st_size)
        except (PuGeoError, KeyError, TypeError):
            is_whole = False
        wrong += [] if is_whole else [folder.relative_to(layout.folder).as_posix()]
    if wrong:
        yield Finding(
            "pictures",
            "problem",
            f"Of what the map shows these are missing or damaged: {_named(wrong)}.",
            "Draw the map tiles anew: replace a scene by its file, or add the scenes to a new project.",
        )


def _scenes(layout: Layout, db: sqlite3.Connection, full: bool) -> Iterator[Finding]:
    found = contents.all_scenes(db)
    for scene in found:
        state = scene_files.verify(scene, full=full)
        find = f"Find the file with `{scene_state.relink_command([scene], layout.folder)}`"
        if state == "missing":
            words = f"The scene {scene.scene_id} is not at {scene.path}."
            yield Finding("scenes", "note", words, f"Answers and maps stay. {find} before chips are cut again.")
        elif state == "changed":
            words = f"The scene {scene.scene_id}, {scene.path}, is another file than the one that was added."
            yield Finding("scenes", "problem", words, f"Put the former file back. {find} if it is elsewhere.")
    for words in [
        *(words for _, words in scene_pair.doubts(contents.scenes(db), layout.quicklooks)),
        *import_log.doubts(db),
    ]:
        yield Finding("doubts", "note", words)
    if found:
        yield Finding("scenes", "ok", f"{plural(len(found), 'scene')} checked.")


# What is left over


def _orphans(layout: Layout, db: sqlite3.Connection) -> Iterator[Finding]:
    known = {row[0] for row in db.execute("SELECT chip_set FROM chip_set")}
    listed = sorted(layout.path("chips").glob("*")) if layout.path("chips").is_dir() else []
    left = {one.path for one in leftovers.find(layout)}
    chips = [path for path in listed if not path.name.startswith(".") and path.name.split(".")[0] not in known]
    removed = {name for one in removals.all_removals(db) for name in one.facts.get("chip_sets", [])}
    facts = {layout.chip_facts(name) for name in removed}  # stay for the maps of their runs
    chips = [path for path in chips if path not in left and path not in facts]
    if chips:
        words = (
            f"{plural(len(chips), 'file')} of chips that are not in the project: {_named([path.name for path in chips])}."
        )
        yield Finding(
            "orphans", "note", words, f"They take {_size(chips)}; a job that failed left them, and they can be removed."
        )
    if n_bytes := removals.trash_bytes(layout):
        n = sum(one.state == "removed" for one in removals.all_removals(db))
        words = f"What was removed takes {size(n_bytes)}; {plural(n, 'removal')} can be undone."
        yield Finding(
            "trash", "ok", words, f"pu-geo removed {layout.folder} lists them; pu-geo empty-trash frees the space."
        )
    if strange := removals.not_settled(layout):
        words = f"{plural(len(strange), 'folder')} in {layout.trash} that PU-Geo does not know: {_named([path.name for path in strange])}."
        yield Finding(
            "trash",
            "note",
            words,
            "They are left as they are. Move them elsewhere, or delete them if nothing in them is needed.",
        )
    rows = {row[0] for row in db.execute("SELECT run_id FROM run")}
    folders = [path for path in sorted(layout.path("runs").glob("*")) if path.is_dir() and path.name not in rows]
    folders = [path for path in folders if not path.name.startswith(".")]
    if folders:
        words = f"{plural(len(folders), 'folder')} of runs that are not in the project: {_named([path.name for path in folders])}."
        hint = f"They take {_size(folders)}. `pu-geo restore {layout.folder} --in-place` takes in those that are whole."
        yield Finding("orphans", "note", words, hint)
    for name in known:
        parts = {
            path.name.split(".")[1] for path in listed if path.name.startswith(f"{name}.") and path.name.count(".") == 3
        }
        if half := [part for part in sorted(parts) if part != RCF and not feature_sets.is_there(layout, name, part)]:
            words = f"Features of {name} that were not finished: {_named(half)}."
            yield Finding("orphans", "note", words, "Compute them again with `pu-geo features`, which replaces these files.")


def _temporaries(layout: Layout, fix: bool, own_job: str) -> Finding:
    """Find what killed processes left; with `fix` remove what nobody works on."""
    own = layout.jobs / own_job if own_job else None
    of_jobs = [one.path for one in leftovers.find(layout, own=own) if own not in one.path.parents]
    found = [*of_jobs, *backups.unfinished(layout)]
    if not found:
        return Finding("temporary", "ok", "No temporary file was left behind.")
    words = f"{plural(len(found), 'leftover')} of processes that were killed: {_named([path.name for path in found])}."
    if not fix:
        return Finding("temporary", "note", words, f"They take {_size(found)}. `pu-geo doctor --fix` removes them.")
    leftovers.sweep(layout, own=own)
    for path in backups.unfinished(layout):
        remove_path(path)
    left = sum(path.exists() for path in found)
    done = f"Removed {len(found) - left} of {len(found)}."
    if not left:
        return Finding("temporary", "ok", words, fixed=done)
    return Finding("temporary", "note", words, "The others are in use, or you may not remove them.", fixed=done)


def _damaged_copies(layout: Layout) -> Iterator[Finding]:
    if kept := sorted(layout.folder.glob("project.damaged-*.gpkg*")):
        words = f"A restore kept the database that was there before: {_named([path.name for path in kept])}."
        yield Finding("damaged", "note", words, f"It takes {_size(kept)}; remove it once nothing in it is missed.")


def _jobs(layout: Layout, own_job: str) -> Iterator[Finding]:
    stopped = [job.job_id for job in jobs.all_jobs(layout) if job.state == "interrupted" and job.job_id != own_job]
    if stopped:
        words = f"{plural(len(stopped), 'job was', 'jobs were')} interrupted: {_named(stopped)}."
        yield Finding(
            "jobs", "note", words, f"pu-geo jobs {layout.folder} resume {stopped[0]}, or dismiss in place of resume."
        )


# Disk, rights, backups


def _disk(layout: Layout) -> Finding:
    free = shutil.disk_usage(layout.folder).free
    used = sum(path.lstat().st_size for path in layout.folder.rglob("*") if path.is_file())
    words = f"The disk has {size(free)} left; the project takes {size(used)}."
    if free < _LITTLE_BYTES:
        return Finding("disk", "problem", words, "Make room now: clicks need some, too.")
    return Finding(
        "disk", "note" if free < _FEW_BYTES else "ok", words, "Make room before chips are cut." if free < _FEW_BYTES else ""
    )


def _network(layout: Layout) -> Iterator[Finding]:
    if kind := in_use.network_of(layout.folder):
        words = f"The project is on a network file system ({kind}), where SQLite's locks are not reliable on every server."
        yield Finding(
            "network",
            "note",
            words,
            "Open it on one computer alone, or work on a local disk: `pu-geo project copy` copies it over.",
        )


def _permissions(layout: Layout) -> Finding:
    closed = [path.name for path in (layout.folder, layout.jobs) if path.exists() and not os.access(path, os.W_OK)]
    closed += ["project.gpkg"] if store.state_of_file(layout) == "read_only" else []
    if closed:
        words = f"You may not write to {_named(closed)}."
        return Finding("permissions", "note", words, "Nothing can be stored here; copy the project to where you may write.")
    return Finding("permissions", "ok", "You may write to the project.")


def _backups(layout: Layout, full: bool, *, fix: bool) -> Finding:
    found = backups.all_backups(layout)
    checked = found if full else found[:1]
    wrong = [f"{one.path.name}: {why}" for one in checked if (why := backups.verify(one))]
    if wrong:
        problem = Finding(
            "backups", "problem", f"A backup is damaged: {wrong[0]}.", f"Back up now: pu-geo backup {layout.folder}"
        )
        return _backed_up(layout, problem) if fix else problem
    if not found or found[0].age.total_seconds() > 2 * backups.DAY.total_seconds():
        words = "There is no backup." if not found else f"The newest backup is {duration(found[0].age.total_seconds())} old."
        note = Finding("backups", "note", words, f"Back up now: pu-geo backup {layout.folder}")
        return _backed_up(layout, note) if fix else note
    words = f"{plural(len(found), 'backup')}, the newest of {when(found[0].made_at)}, read back and whole."
    return Finding("backups", "ok", words)


def _backed_up(layout: Layout, finding: Finding) -> Finding:
    try:
        made = backups.make(layout, "asked")
    except PuGeoError as error:
        return replace(finding, hint=f"{error.problem} {error.hint}")
    level: Level = "ok" if finding.level == "note" else "problem"
    hint = "" if level == "ok" else "Remove the damaged backup."
    return replace(finding, level=level, hint=hint, fixed=f"Backed up to {made.path.name}.")


# This machine


def examine_machine() -> list[Finding]:
    """Check what PU-Geo runs on."""
    versions = (
        f"PU-Geo {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.platform()}."
    )
    found = [Finding("versions", "ok", versions)]
    found += [_library("torch", _torch), _library("rasterio", _rasterio), _memory(), _home(), _port()]
    return found


def _library(name: str, words: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "ok", words())
    except Exception as error:  # whatever a broken installation raises
        return Finding(name, "problem", f"{name} cannot be loaded: {error}.", "Install PU-Geo again.")


def _torch() -> str:
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none; trainings use the processor"
    return f"torch {torch.__version__}. GPU: {gpu}."


def _rasterio() -> str:
    import rasterio

    return f"rasterio {rasterio.__version__} with GDAL {rasterio.__gdal_version__}."


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    words = f"{size(memory.available)} of {size(memory.total)} memory are free; {plural(os.cpu_count() or 1, 'processor')}."
    is_little = memory.available < 2_000_000_000
    return Finding(
        "memory", "note" if is_little else "ok", words, "Close other programs before you train." if is_little else ""
    )


def _home() -> Finding:
    folder = home()
    near = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(near, os.W_OK):
        return Finding("home", "problem", f"You may not write to {near}.", "Set PU_GEO_HOME to a folder where you may.")
    return Finding("home", "ok", f"New projects go into {folder}; its disk has {size(shutil.disk_usage(near).free)} left.")


def _port() -> Finding:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        is_taken = probe.connect_ex(("127.0.0.1", PORT)) == 0
    if is_taken:
        return Finding(
            "port", "note", f"Port {PORT} is taken: PU-Geo runs already, or another program.", "Else: pu-geo app --port 8600"
        )
    return Finding("port", "ok", f"Port {PORT} is free for the app.")


def _named(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _size(paths: list[Path]) -> str:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return size(sum(file.lstat().st_size for file in files))
