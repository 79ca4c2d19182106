"""Open, make and list projects; say how far one is and what comes next."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pu_geo
from pu_geo import jobs
from pu_geo.errors import OutOfReach, ProjectError, PuGeoError, printable, writing
from pu_geo.files import sign
from pu_geo.lifecycle.copying import free_folder
from pu_geo.records import RunFacts, Units
from pu_geo.store import chosen, contents, labels, removals, runs, store, swap
from pu_geo.store.layout import HOME_VARIABLE, SUFFIX, Layout, find_project, write_json
from pu_geo.store.layout import home as home
from pu_geo.wording import listed, plural

SAMPLE_NAME = "Sample event"
ENOUGH_CLICKS = 5  # damaged buildings; methods refuse to train with fewer
_RECENT_MOST = 20
State = Literal["read", "schema", "busy", "unreadable"]
_STATES: Mapping[str, State] = {"schema": "schema", "busy": "busy"}  # kind of error -> state
_LONGEST_STEM = 60
_LETTERS = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "þ": "th", "’": "", "'": ""}
_SPELLED = re.compile("|".join(_LETTERS))


@dataclass(frozen=True)
class Summary:
    """How far a project is. Counts are of buildings unless they say otherwise."""

    name: str
    folder: Path
    token: str
    n_pre: int
    n_post: int
    n_buildings: int
    units: Units
    n_chips: int
    n_positive: int
    n_not_damaged: int
    n_not_assessable: int
    n_runs: int
    last_run: RunFacts | None
    is_exported: bool = False

    @property
    def next_step(self) -> str:
        """Name of the screen to go to next."""
        if not (self.n_post and self.n_buildings and self.n_chips):
            return "imagery"
        if self.n_positive < ENOUGH_CLICKS:
            return "annotate"
        return "damage_map" if self.last_run else "train"

    def state(self, screen: str) -> Literal["done", "next", "open", "blocked"]:
        """Return how far the step of a screen is; a blocked one needs an earlier one first."""
        if screen == self.next_step and not (screen == "damage_map" and self.is_exported):
            return "next"
        has_chips = bool(self.n_post and self.n_buildings and self.n_chips)
        has_clicks = has_chips and self.n_positive >= ENOUGH_CLICKS
        is_done = {
            "project": True,
            "imagery": has_chips,
            "annotate": has_clicks,
            "train": self.last_run is not None,
            "damage_map": self.is_exported,
        }
        if is_done.get(screen, False):
            return "done"
        is_ready = {"annotate": bool(self.n_post and self.n_buildings), "train": has_clicks}
        return "open" if is_ready.get(screen, self.last_run is not None) else "blocked"


@dataclass(frozen=True)
class Recent:
    """A project opened lately, as a card shows it.

    Attributes:
        name: the folder's, where the project was not read.
        used_at: when it was opened last, RFC 3339 UTC.
        state: "schema" where another version of PU-Geo made it, which this one cannot read; "busy" where another program
            holds it; "unreadable" where it cannot be read.
    """

    layout: Layout
    name: str
    used_at: str
    units: Units = field(default_factory=lambda: Units(0))
    n_damaged: int = 0
    state: State = "read"


def token_of(layout: Layout) -> str:
    """Return the opaque id under which the browser asks for a project's map tiles."""
    return hashlib.sha256(str(layout.folder).encode()).hexdigest()[:16]


def _recent_file() -> Path:
    return home() / "recent.json"


def _recent_times() -> dict[str, str]:
    """Return the folders of projects opened lately, newest first, and when each was opened last."""
    try:
        rows = json.loads(_recent_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    rows = rows if isinstance(rows, list) else []
    return {
        str(row["path"]): str(row["used_at"]) for row in rows if isinstance(row, dict) and {"path", "used_at"} <= row.keys()
    }


def recent() -> list[Layout]:
    """Return projects opened lately that still exist, newest first."""
    return [Layout(Path(path)) for path in _recent_times() if (Path(path) / "project.gpkg").is_file()]


def recent_cards() -> list[Recent]:
    """Return the same with name, last use and how far each is; no file is changed by it."""
    times = _recent_times()
    return [card(layout, times[str(layout.folder)]) for layout in recent()]


def card(layout: Layout, used_at: str = "") -> Recent:
    """Return how far a project is, without changing its file; kept until the file changes."""
    try:
        return replace(_read_card(layout, _stamp(layout)), used_at=used_at)
    except ProjectError as error:
        return Recent(layout, layout.folder.stem, used_at, state=_STATES.get(error.kind, "unreadable"))


def _stamp(layout: Layout) -> tuple[tuple[int, int, int], ...]:
    """Return what changes whenever a project's file does, which may be in the log beside it."""
    found = []
    for path in (layout.gpkg, layout.gpkg.with_name(f"{layout.gpkg.name}-wal")):
        with suppress(OSError):
            facts = path.stat()
            found.append((facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=2 * _RECENT_MOST)
def _read_card(layout: Layout, stamp: object) -> Recent:
    """Read a card; cards are drawn anew with each letter of a new project's name, and each counts all labels."""
    with store.connect_as_is(layout) as db:
        n_damaged = labels.counts(labels.current_labels(db))["positive"]
        return Recent(layout, store.project_name(db), "", contents.units(db), n_damaged)


def _remember(layout: Layout) -> None:
    times = {path: at for path, at in _recent_times().items() if path != str(layout.folder)}
    rows = [{"path": path, "used_at": at} for path, at in {str(layout.folder): store.now(), **times}.items()]
    try:
        write_json(_recent_file(), rows[:_RECENT_MOST])
    except OSError as error:
        raise ProjectError(
            f"The list of recent projects cannot be written to {home()}: {error.strerror}.",
            f"Make that folder writable, or set {HOME_VARIABLE} to one that is.",
        ) from error


def resolve(token: str) -> Layout | None:
    """Return the project that a token stands for, if it was opened on this machine."""
    return next((layout for layout in recent() if token_of(layout) == token), None)


def with_ending(path: str | Path) -> Path:
    """Return the path of a project's folder, with the ending of one where it has another."""
    given = Path(path).expanduser()
    return given if given.suffix == SUFFIX else given.with_name(given.name + SUFFIX)


def project_near(path: str | Path) -> Path | None:
    """Return the folder of the project that a path means: itself, the folder of a file in it, or its name with the
    ending.
    """
    given = Path(path).expanduser().resolve()
    return next((one for one in (given, given.parent, with_ending(given)) if (one / "project.gpkg").is_file()), None)


def suggested_folder(name: str) -> Path | None:
    """Return a folder that is not there yet for a project of this name, in `home()`; None for a name without a letter or
    digit.

    Letters lose their accents, others become hyphens: "Türkiye 2023" goes into `turkiye-2023.pugeo`.
    """
    letters = unicodedata.normalize("NFKD", _SPELLED.sub(lambda found: _LETTERS[found[0]], name.lower()))
    stem = re.sub(r"[^a-z0-9]+", "-", letters.encode("ascii", "ignore").decode()).strip("-")[:_LONGEST_STEM].strip("-")
    if not stem and not name.strip():
        return None
    return free_folder(home() / f"{stem or 'event'}{SUFFIX}")


def create_named(name: str, path: str = "") -> Layout:
    """Make a new project of a name; its folder follows from the name where none is given.

    Raises:
        ProjectError: if the name is empty, or the folder holds something already.
    """
    folder = suggested_folder(name)
    if not name.strip() or folder is None:
        raise ProjectError("The project has no name yet.", "Write one, such as the place and the year of the event.")
    return create(path.strip() or str(folder), name.strip())


def create(path: str, name: str) -> Layout:
    """Make a new project; a bare name without a folder goes into `home()`."""
    given = with_ending(path)
    layout = store.create(given if given.parent != Path() else home() / given, name)
    _remember(layout)
    return layout


def next_folder(layout: Layout) -> str:
    """Propose a folder beside a project for its next round: joplin.pugeo, joplin-2.pugeo, ..."""
    stem, _, number = layout.folder.stem.rpartition("-")
    base, last = (stem, int(number)) if stem and number.isdigit() else (layout.folder.stem, 1)
    return str(layout.folder.with_name(f"{base}-{last + 1}{SUFFIX}"))


def begin_round(layout: Layout, path: str, post: Sequence[str]) -> Layout:
    """Make the project of the next round and start the job that fills it; return the new project.

    Raises:
        ProjectError: if no scene is named, or the folder is taken.
    """
    if not post:
        raise ProjectError("No scene was named.", "Write the path of at least one post-event GeoTIFF file.")
    name = store.call(layout, store.project_name)
    made = create(path, name)
    jobs.start(made, "next_round", {"previous": str(layout.folder), "post": list(post)})
    return made


def open_project(path: str) -> Layout:
    """Open a project and put it on top of the recent ones."""
    layout = store.open_project(path)
    removals.settle(layout)
    chosen.chosen_run(layout)  # its folder may have been taken away
    _remember(layout)
    return layout


def oddities(layout: Layout) -> list[str]:
    """Return what a person should know of a project that another installation made, a sentence each, before she trusts
    it.
    """
    found = []
    paths = []
    for place, folders, names in os.walk(layout.folder):
        paths += [Path(place, name) for name in [*names, *folders] if name in names or Path(place, name).is_symlink()]
        folders[:] = [name for name in folders if name != layout.quicklooks.name]  # of many pictures
    links = [path for path in paths if path.is_symlink() or not path.is_file()]
    twice = [path for path in paths if path not in links and path.lstat().st_nlink > 1]
    for those, what in ((links, "link"), (twice, "hard link")):
        if those:
            named = listed([printable(path.relative_to(layout.folder)) for path in those])
            found.append(f"{plural(len(those), what)} in the folder, not followed and not written to: {named}.")
    with suppress(OutOfReach):
        jobs_left = [job for job in jobs.all_jobs(layout, with_dismissed=True) if job.state != "done"]
        if jobs_left:
            tasks = ", ".join(sorted({printable(job.task) for job in jobs_left}))
            found.append(f"{plural(len(jobs_left), 'job')} did not end well ({tasks}); none of them is started again here.")
        if swap.waits(layout):
            found.append("A restore was interrupted; opening the project for work ends it.")
    try:
        with store.connect(layout) as db:
            outside = [scene.path for scene in contents.all_scenes(db) if not Path(scene.path).is_relative_to(layout.folder)]
    except PuGeoError as error:
        return [*found, error.problem]
    if outside:
        found.append(
            f"{plural(len(outside), 'scene')} outside of the folder, to be read as pictures: "
            f"{printable(', '.join(outside), 200)}."
        )
    return found


def trust(layout: Layout) -> None:
    """Store that a person trusts where a project comes from: from now on it is as if it had been made here.

    Raises:
        PuGeoError: if the folder cannot be written to, or the user's key cannot be made.
    """
    with writing(layout.folder, ProjectError):
        sign(layout.folder)


def sample_folder() -> Path:
    """Return the folder of the sample event: beside the package in a clone, inside it in an installed wheel.

    Raises:
        ProjectError: if it is in neither place.
    """
    package = Path(pu_geo.__file__).parent
    for folder in (package / "_app" / "sample_data", package.parent / "sample_data"):
        if (folder / "footprints.geojson").is_file():
            return folder
    raise ProjectError(
        "The sample event is not part of this installation.",
        "Install PU-Geo again, or run `python sample_data/make_sample.py` in a clone.",
    )


def sample_arguments() -> dict[str, object]:
    """Return what the task "prepare" needs to load the sample event."""
    folder = sample_folder()
    return {
        "pre": [str(folder / "pre.tif")],
        "post": [str(folder / "post.tif")],
        "layers": [{"name": "sar-post", "paths": [str(folder / "sar-post.tif")], "when": "post", "kind": "sar-db"}],
        "footprints": [str(folder / "footprints.geojson")],
        "copy_sources": True,
    }


def sample_project(path: str | Path | None = None) -> Layout:
    """Return a copy of the sample event, the user's own if None, made where there is none; its chips may not be cut yet.

    Raises:
        ProjectError: if another project is there.
    """
    folder = home() / f"sample-event{SUFFIX}" if path is None else with_ending(path).resolve()
    if not (folder / "project.gpkg").is_file():
        return create(str(folder), SAMPLE_NAME)
    if (name := store.call(store.open_project(folder), store.project_name)) != SAMPLE_NAME:
        raise ProjectError(
            f"{folder} is the project {name!r}, not the sample event.",
            "Name another folder for the sample event; `Project.open` opens this project.",
        )
    return open_project(str(folder))


def open_sample() -> tuple[Layout, str | None]:
    """Open the user's copy of the sample event; make it, and start the job that fills it, where there is none.

    Returns:
        the project, and the id of the job that is preparing it (None if it is ready).
    """
    layout = sample_project()
    if summary(layout).n_chips:
        return layout, None
    running = [job for job in jobs.all_jobs(layout) if job.task == "prepare" and job.is_active]
    return layout, running[0].job_id if running else jobs.start(layout, "prepare", sample_arguments())


def summary(layout: Layout) -> Summary:
    """Work out how far a project is."""
    with store.connect(layout) as db:
        roles = [scene.role for scene in contents.scenes(db)]
        counts = labels.counts(labels.current_labels(db))
        found = runs.all_runs(db)
        chip_set = contents.latest_chip_set(db)
        n_chips = contents.chip_count(db, chip_set) if chip_set else 0
        return Summary(
            name=store.project_name(db),
            folder=layout.folder,
            token=token_of(layout),
            n_pre=roles.count("pre"),
            n_post=roles.count("post"),
            n_buildings=contents.count_footprints(db),
            units=contents.units(db),
            n_chips=n_chips,
            n_positive=counts["positive"],
            n_not_damaged=counts["not_damaged"],
            n_not_assessable=counts["not_assessable"],
            n_runs=len(found),
            last_run=found[0] if found else None,
            is_exported=any(layout.exports.glob("v*/version.json")),
        )


def last_export(layout: Layout) -> str | None:
    """Return the path of the newest export, or None."""
    done = [job for job in jobs.all_jobs(layout) if job.task in ("export", "publish") and job.state == "done"]
    return str(done[0].result["out"]) if done else None


def find(path: str | Path) -> Layout:
    """Return the layout of an existing project, without remembering it; a removal that was killed is ended first."""
    layout = find_project(path)
    removals.settle(layout)
    return layout
