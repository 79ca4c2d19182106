"""Check a project and this machine: what is damaged, missing or left over, and what to do about it.

Most checks are rules, a row each: what to look for, what it means and what helps. Nothing is changed unless it is asked for,
and then only what can cost nobody anything: temporary files that nobody writes, and a backup where the newest one is old.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from pu_geo import __version__, jobs
from pu_geo.errors import PuGeoError
from pu_geo.files import remove_path
from pu_geo.geo import scene_state
from pu_geo.scenes import scene_pair
from pu_geo.store import (
    backups,
    contents,
    discoveries,
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
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, damage, home
from pu_geo.wording import listed, plural, size

Level = Literal["ok", "note", "problem"]
_LITTLE_BYTES = 500_000_000


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


class Asked(NamedTuple):
    """What is checked: `full` reads every file, `own` is the folder of the job that does this."""

    layout: Layout
    full: bool
    own: Path | None


class Rule(NamedTuple):
    """A check of which one sentence says what it found.

    Attributes:
        look: returns what is odd, files or words; nothing where all is well.
        words, hint: of the finding; {names}, {first} and {size} are of what is odd, {P} is the project's folder.
        mend: does what is safe; None where a person decides.
    """

    about: str
    level: Level
    look: Callable[[Asked], Sequence[Path | str]]
    words: str
    hint: str
    mend: Callable[[Asked], object] | None = None


def doctor(job: Job) -> dict[str, object]:
    """Check a project as a job: see `report_of`."""
    job.report(0.0, "checking the project")
    return report_of(examine(job.layout, own_job=job.folder.name))


def report_of(findings: Sequence[Finding]) -> dict[str, object]:
    """Return findings for machines: {"findings", "n_problems"}."""
    return {"findings": [asdict(one) for one in findings], "n_problems": sum(one.level == "problem" for one in findings)}


def examine(layout: Layout, *, full: bool = False, fix: bool = False, own_job: str = "") -> list[Finding]:
    """Check one project.

    Args:
        full: also read every file of runs, backups and scenes and compare its sha256, and check the database's indexes.
        fix: do what is safe.
        own_job: id of the job that does this.
    """
    asked = Asked(layout, full, layout.jobs / own_job if own_job else None)
    found = [_database(asked)]
    is_readable = found[0].level != "problem"
    if is_readable:
        with suppress(PuGeoError), store.connect_as_is(layout) as db:
            found += [*_finished(asked, db), *_scenes(asked, db)]
    for rule in (*(_OF_DATABASE if is_readable else ()), *_RULES):
        try:
            found += _found_by(rule, asked, fix=fix and is_readable)
        except PuGeoError as error:
            found.append(Finding("project", "problem", error.problem, error.hint))
    return found


def _found_by(rule: Rule, asked: Asked, *, fix: bool) -> Iterator[Finding]:
    if not (found := rule.look(asked)):
        return
    facts = {
        "names": listed([getattr(one, "name", str(one)) for one in found]),
        "first": found[0],
        "size": size(removals.bytes_of(one for one in found if isinstance(one, Path))),
        "P": asked.layout.folder,
    }
    finding = Finding(rule.about, rule.level, rule.words.format(**facts), rule.hint.format(**facts))
    if fix and rule.mend:
        try:
            rule.mend(asked)
            left = rule.look(asked)
            finding = replace(finding, fixed="Mended in part." if left else "Mended.")
            finding = finding if left else replace(finding, level="ok", hint="")
        except PuGeoError as error:
            finding = replace(finding, hint=f"{error.problem} {error.hint}")
    yield finding


def _database(asked: Asked) -> Finding:
    restore = f"Restore it: pu-geo repair restore {asked.layout.folder}"
    if store.state_of_file(asked.layout) == "gone":
        return Finding("database", "problem", "project.gpkg is gone.", restore)
    try:
        with store.connect_as_is(asked.layout) as db:
            found = str(db.execute("PRAGMA integrity_check(1)" if asked.full else "PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return Finding("database", "problem", f"project.gpkg is damaged: {' '.join(found.split())}.", restore)
            n = db.execute("SELECT count(*) FROM label_event").fetchone()[0]
    except PuGeoError as error:
        is_other = error.kind in ("schema", "busy")  # of another version, or held by another program
        return Finding("database", "note" if is_other else "problem", error.problem, error.hint if is_other else restore)
    except (sqlite3.DatabaseError, TypeError, ValueError) as error:
        return Finding("database", "problem", f"project.gpkg is damaged: {error}.", restore)
    return Finding("database", "ok", f"project.gpkg is whole: schema {schema.SCHEMA}, {plural(n, 'label event')}.")


def _finished(asked: Asked, db: sqlite3.Connection) -> Iterator[Finding]:
    """Compare all files of what is finished with the facts that were written with them."""
    layout = asked.layout
    chip_sets = [row[0] for row in db.execute("SELECT chip_set FROM chip_set ORDER BY number")]
    every: dict[str, tuple[list[Path], str, str]] = {
        "chips": ([layout.chip_facts(name) for name in chip_sets], "chip set", "Cut the chips again: pu-geo chip"),
        "features": (
            [path for name in chip_sets for path in sorted(layout.path("chips").glob(f"{name}.*.features.json"))],
            "set of features", "Compute them again: pu-geo features",
        ),
        "runs": (
            [layout.run(facts.run_id) / "manifest.json" for facts in runs.all_runs(db)],
            "run", "Train it again, and choose the new run on the Damage map page.",
        ),
        "exports": (
            [layout.exports / f"v{number}" / versions.FACTS for number in versions.numbers(layout)],
            "version", "Publish the map again; pu-geo remove takes the damaged version away.",
        ),
        "discoveries": (
            sorted(path / discoveries.FACTS for path in layout.path("discoveries").glob("*/")),
            "proposal of groups", "Propose groups again: pu-geo discover",
        ),
    }  # fmt: skip
    for about, (paths, what, hint) in every.items():
        for path in paths:
            if wrong := damage(path, full=asked.full):
                name = path.stem if about in ("chips", "features") else path.parent.name
                words = f"Of the {what} {name} these files are missing or damaged: {listed(wrong)}."
                yield Finding(about, "problem", words, hint)
        if paths:
            how = "sha256 of every file compared" if asked.full else "names of files compared; --full reads them"
            yield Finding(about, "ok", f"{plural(len(paths), what)} checked: {how}.")


def _scenes(asked: Asked, db: sqlite3.Connection) -> Iterator[Finding]:
    found = contents.all_scenes(db)
    for scene in found:
        state = scene_state.state_of(scene, full=asked.full)
        find = f"Find the file with `{scene_state.relink_command([scene], asked.layout.folder)}`"
        if state == "missing":
            words = f"The scene {scene.scene_id} is not at {scene.path}."
            yield Finding("scenes", "note", words, f"Answers and maps stay. {find} before chips are cut again.")
        elif state == "changed":
            words = f"The scene {scene.scene_id}, {scene.path}, is another file than the one that was added."
            yield Finding("scenes", "problem", words, f"Put the former file back. {find} if it is elsewhere.")
    doubts = [words for _, words in scene_pair.doubts(contents.scenes(db), asked.layout.quicklooks)]
    yield from (Finding("doubts", "note", words) for words in (*doubts, *import_log.doubts(db)))
    if found:
        yield Finding("scenes", "ok", f"{plural(len(found), 'scene')} checked.")


def _pictures(asked: Asked) -> list[str]:
    with store.connect_as_is(asked.layout) as db:
        roles = {scene.role for scene in contents.scenes(db)} if contents.latest_chip_set(db) else set()
    tiles = asked.layout.quicklooks
    folders = [*(tiles / role for role in sorted(roles)), *tiles.glob("layers/*")]
    return [f"{tiles.name}/{one.relative_to(tiles)}" for one in folders if not (one / "pyramid.json").is_file()]


def _runs_without_row(asked: Asked) -> list[Path]:
    with store.connect_as_is(asked.layout) as db:
        rows = {row[0] for row in db.execute("SELECT run_id FROM run")}
    return [path for path in sorted(asked.layout.path("runs").glob("[!.]*/")) if path.name not in rows]


def _trash(asked: Asked) -> list[str]:
    with store.connect_as_is(asked.layout) as db:
        n = len(removals.not_ended(db))
    n_bytes = removals.bytes_of([asked.layout.trash])
    return [f"takes {size(n_bytes)}; {plural(n, 'removal')} can be undone"] if n_bytes else []


def _temporaries(asked: Asked) -> list[Path]:
    of_jobs = leftovers.find(asked.layout, own=asked.own)
    return [*(path for path in of_jobs if asked.own not in path.parents), *backups.unfinished(asked.layout)]


def _remove_temporaries(asked: Asked) -> None:
    leftovers.sweep(asked.layout, own=asked.own)
    for path in backups.unfinished(asked.layout):
        remove_path(path)


def _interrupted(asked: Asked) -> list[str]:
    return [job.job_id for job in jobs.all_jobs(asked.layout) if job.state == "interrupted"]


def _closed(asked: Asked) -> list[Path | str]:
    found: list[Path | str] = [
        path for path in (asked.layout.folder, asked.layout.jobs) if path.exists() and not os.access(path, os.W_OK)
    ]
    return [*found, "project.gpkg"] if store.state_of_file(asked.layout) == "read_only" else found


def _full_disk(asked: Asked) -> list[str]:
    free = shutil.disk_usage(asked.layout.folder).free
    return [size(free)] if free < _LITTLE_BYTES else []


def _wrong_backups(asked: Asked) -> list[str]:
    found = backups.all_backups(asked.layout)
    return [f"{one.path.name}: {why}" for one in (found if asked.full else found[:1]) if (why := backups.verify(one))]


def _late_backup(asked: Asked) -> list[str]:
    newest = backups.newest(asked.layout)
    if newest is None:
        return ["There is no backup."]
    return ["The newest backup is more than two days old."] if newest.age > 2 * backups.DAY else []


def _back_up(asked: Asked) -> None:
    backups.make(asked.layout, "asked")


_OF_DATABASE = (
    Rule(
        "chips",
        "note",
        lambda asked: [old] if (old := freshness.of_chips(asked.layout).words) else [],
        "The newest chips are out of date: {first}",
        freshness.CUT_AGAIN,
    ),
    Rule(
        "pictures",
        "problem",
        _pictures,
        "Of what the map shows these are missing: {names}.",
        "Draw the map tiles anew: replace a scene by its file, or add the scenes to a new project.",
    ),
    Rule(
        "trash",
        "ok",
        _trash,
        "What was removed {first}.",
        "pu-geo repair removed {P} lists it; pu-geo repair empty-trash frees the space.",
    ),
    Rule(
        "trash",
        "note",
        lambda asked: removals.not_settled(asked.layout),
        "Folders in the trash that PU-Geo does not know: {names}.",
        "Move them elsewhere, or delete them if nothing in them is needed.",
    ),
    Rule(
        "orphans",
        "note",
        _runs_without_row,
        "Folders of runs that are not in the project: {names}.",
        "They take {size}. `pu-geo repair restore {P} --in-place` takes in those that are whole.",
    ),
)
_RULES = (
    Rule(
        "temporary",
        "note",
        _temporaries,
        "Leftovers of processes that were killed: {names}.",
        "They take {size}. `pu-geo repair doctor --fix` removes those that are not in use.",
        _remove_temporaries,
    ),
    Rule(
        "damaged",
        "note",
        lambda asked: sorted(asked.layout.folder.glob("project.damaged-*.gpkg*")),
        "A restore kept the database that was there before: {names}.",
        "It takes {size}; remove it once nothing in it is missed.",
    ),
    Rule(
        "jobs",
        "note",
        _interrupted,
        "Jobs that were interrupted: {names}.",
        "pu-geo jobs {P} resume {first}, or dismiss in place of resume.",
    ),
    Rule("disk", "problem", _full_disk, "The disk has {first} left.", "Make room now: clicks need some, too."),
    Rule(
        "network",
        "note",
        lambda asked: [kind] if (kind := in_use.network_of(asked.layout.folder)) else [],
        "The project is on a network file system ({first}), where SQLite's locks are not reliable on every server.",
        "Open it on one computer alone, or work on a local disk: `pu-geo project copy` copies it over.",
    ),
    Rule(
        "permissions",
        "note",
        _closed,
        "You may not write to {names}.",
        "Nothing can be stored here; copy the project to where you may write.",
    ),
    Rule(
        "backups",
        "problem",
        _wrong_backups,
        "A backup is damaged: {first}.",
        "Back up now: pu-geo repair backup {P}. Remove the damaged one.",
        _back_up,
    ),
    Rule("backups", "note", _late_backup, "{first}", "Back up now: pu-geo repair backup {P}", _back_up),
)


def examine_machine() -> list[Finding]:
    """Check what PU-Geo runs on."""
    words = (
        f"PU-Geo {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.platform()}."
    )
    found = [Finding("versions", "ok", words)]
    for name, about in (("torch", _torch), ("rasterio", _rasterio)):
        try:
            found.append(Finding(name, "ok", about()))
        except Exception as error:  # whatever a broken installation raises
            found.append(Finding(name, "problem", f"{name} cannot be loaded: {error}.", "Install PU-Geo again."))
    folder = home()
    near = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(near, os.W_OK):
        hint = "Set PU_GEO_HOME to a folder where you may."
        return [*found, Finding("home", "problem", f"You may not write to {near}.", hint)]
    words = f"New projects go into {folder}; its disk has {size(shutil.disk_usage(near).free)} left."
    return [*found, Finding("home", "ok", words)]


def _torch() -> str:
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none; trainings use the processor"
    return f"torch {torch.__version__}. GPU: {gpu}."


def _rasterio() -> str:
    import rasterio

    return f"rasterio {rasterio.__version__} with GDAL {rasterio.__gdal_version__}."
