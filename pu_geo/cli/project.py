"""Verbs of the Project screen: projects, rounds, background jobs, the app, and the demo."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pu_geo import jobs, wording
from pu_geo.answers import labeling
from pu_geo.cli.run import Analyst, Bands, FileCrs, Json, Project, Screen, absolute, in_json, repeated, run_job, show
from pu_geo.errors import PuGeoError
from pu_geo.files import elsewhere, is_ours, make_folder
from pu_geo.lifecycle import projects, recovery, removing
from pu_geo.lifecycle.copying import copy_project
from pu_geo.maps.actions import Export
from pu_geo.methods.catalog import DEFAULT_METHOD
from pu_geo.runs.actions import Rank, Train
from pu_geo.scenes.actions import bands_in
from pu_geo.store import backups, events, removals, store
from pu_geo.store.layout import Layout, find_project
from pu_geo.wording import plural, size

screen = Screen("Project")
N_CLICKS = 30
DAMAGED = ("destroyed", "major-damage")
DEMO_STEPS = (Rank(), Train(), Train("ncpu"), Train("pucl"))


@screen.verb("app", "joplin.pugeo", "--sample --port 8600")
def open_app(
    project: Annotated[str | None, typer.Argument(metavar="P.pugeo", help="open this project first")] = None,
    *,
    sample: Annotated[bool, typer.Option("--sample", help="open the sample event first")] = False,
    port: Annotated[int, typer.Option(min=1, help="port on this machine")] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="do not open a browser window")] = False,
) -> None:
    """Open the app in the browser."""
    from pu_geo.lifecycle import access
    from pu_geo.lifecycle.launch import launch_app

    def ready(address: str) -> None:
        print(access.READY.format(url=address), flush=True)

    raise typer.Exit(launch_app(project, port=port, sample=sample, browser=not no_browser, ready=ready))


@screen.verb("open", "joplin.pugeo", "joplin.pugeo --from-elsewhere")
def open_project(
    project: Project,
    *,
    from_elsewhere: Annotated[
        bool, typer.Option("--from-elsewhere", help="you trust where it comes from: work in it from now on")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look at a project that another installation made: it can be viewed and exported, and changed once you trust it."""
    layout = find_project(project)
    odd = projects.oddities(layout)
    if from_elsewhere:
        projects.trust(layout)
        projects.find(project)
    is_own, closed = is_ours(layout.folder), elsewhere(layout.folder)
    words = [f"{layout.folder.name} is open for work.", *odd] if is_own else [closed.problem, *odd, closed.hint]
    show({"project": str(layout.folder), "is_ours": is_own, "odd": odd}, "\n".join(words), as_json)


@screen.verb("init", "joplin.pugeo --name 'Joplin 2011'")
def init(
    project: Project,
    *,
    name: Annotated[str | None, typer.Option(help="name shown to people (default: the folder's)")] = None,
    as_json: Json = False,
) -> None:
    """Make a new, empty project."""
    name = (name or Path(project).stem).strip()
    layout = store.create(project, name)
    show({"project": str(layout.folder), "name": name}, f"Made {layout.folder}.", as_json)


group = Screen("Project", group="project ")
screen.add_typer(group, name="project", rich_help_panel="Project", help="Copy a project.")


@group.verb("copy", "joplin.pugeo joplin-gpu.pugeo")
def copy(
    project: Project,
    target: Annotated[str, typer.Argument(metavar="OTHER.pugeo", help="folder to make", show_default=False)],
    *,
    without_exports: Annotated[bool, typer.Option("--without-exports", help="leave exports and published maps out")] = False,
    as_json: Json = False,
) -> None:
    """Copy a project while people click in it: as a backup, or to train on another machine."""
    result = copy_project(projects.find(project), absolute(target), with_exports=not without_exports)
    words = (
        f"Copied the project to {result['out']} ({result['bytes']:,} bytes), with its labels up to event "
        f"{result['at_event']}.\n"
        "To train on another machine, copy that folder there; then `pu-geo open COPY --from-elsewhere` and `pu-geo train "
        "COPY`, or, with torch, torchvision, numpy, scipy, "
        "scikit-learn and safetensors alone, `python -m pu_geo.runs COPY --from-elsewhere`. Back here: `pu-geo model "
        f"apply {project} COPY`."
    )
    show(result, words, as_json)


repair = Screen("Project", group="repair ")
screen.add_typer(
    repair,
    name="repair",
    rich_help_panel="Project",
    help="Check a project, back it up and restore it, find moved files, bring back what was removed.",
)


@repair.verb("backup", "joplin.pugeo", "joplin.pugeo --to /media/stick")
def backup(
    project: Project,
    *,
    to: Annotated[str | None, typer.Option(metavar="DIR", help="another folder (default: backups/ in the project)")] = None,
    as_json: Json = False,
) -> None:
    """Back up the labels and all else in the project's database, also while people click in it; the copy is checked."""
    made = backups.make(projects.find(project), "asked", Path(absolute(to)) if to else None)
    facts = {**asdict(made), "path": str(made.path)}
    words = (
        f"Wrote {made.path} ({made.n_bytes:,} bytes), with the labels up to event {made.at_event}.\n"
        f"It was read back and checked. sha256 {made.sha256}\n"
        f"`pu-geo repair restore {project}` restores it; scenes, chips and runs are not in it: they stay in their folders."
    )
    show(facts, words, as_json)


@repair.verb(
    "restore", "joplin.pugeo", "joplin.pugeo 20261123-191329-123-daily --to joplin-2.pugeo", "joplin.pugeo --in-place"
)
def restore(
    project: Project,
    backup: Annotated[
        str | None, typer.Argument(metavar="BACKUP", help="its name or path (default: the newest that is whole)")
    ] = None,
    *,
    to: Annotated[str | None, typer.Option(metavar="NEW.pugeo", help="folder to make (default: P-restored.pugeo)")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="replace the project's database; the old one is kept beside it")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a project from its newest good backup, with every newer label from its journal."""
    if to and in_place:
        raise PuGeoError("--to and --in-place exclude each other.", "Name one of the two.")
    layout = recovery.find(project)
    done = recovery.restore_in_place(layout, backup) if in_place else recovery.restore(layout, backup, to=to)
    show(done.facts(), "\n".join(done.notes), as_json)


@repair.verb("doctor", "", "joplin.pugeo", "joplin.pugeo --full --fix")
def doctor(
    project: Annotated[
        str | None, typer.Argument(metavar="P.pugeo", help="the project folder (default: this machine)")
    ] = None,
    *,
    full: Annotated[bool, typer.Option("--full", help="also read every file and compare its sha256")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="remove temporary files that nobody writes; back up if that is due")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a project, or this machine: what is damaged, missing or left over. Exit code 2 if a problem remains."""
    from pu_geo.lifecycle.doctor_job import examine, examine_machine, report_of

    found = examine(recovery.find(project), full=full, fix=fix) if project else examine_machine()
    report = report_of(found)
    marks = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
    lines = [" ".join(filter(None, (marks[one.level], one.words, one.fixed, one.hint))) for one in found]
    end = (
        "No problem was found."
        if not report["n_problems"]
        else f"{plural(int(str(report['n_problems'])), 'problem')} found."
    )
    show(report, "\n".join([*lines, end]), as_json)
    if report["n_problems"]:
        raise typer.Exit(2)


@screen.verb("next-round", "joplin.pugeo --new joplin-2.pugeo --post 20110530.tif")
def next_round(
    project: Project,
    *,
    new: Annotated[str, typer.Option(metavar="P.pugeo", help="the project to make")],
    post: Annotated[list[str], typer.Option(metavar="TIF", help="a new post-event scene; may be repeated")],
    pre: Annotated[list[str], repeated("TIF", "pre-event scenes, if others than before")],
    bands: Bands = "",
    name: Annotated[str | None, typer.Option(help="name shown to people (default: the old one's)")] = None,
    as_json: Json = False,
) -> None:
    """Start the next round: a new post image over the same buildings."""
    before = projects.find(project)
    layout = projects.create(absolute(new), name or projects.summary(before).name)
    args = {"previous": str(before.folder), "post": [*map(absolute, post)], "pre": [*map(absolute, pre)]}
    result = run_job(layout, "next_round", as_json, {**args, "bands": bands_in(bands)})
    words = (
        f"Round {result['round']} is in {layout.folder}: {result['n']} buildings, {result['carried']} answers to be "
        "confirmed."
    )
    if result["compared_with"]:
        words += f"\nExports will list changes since {result['compared_with']} of {before.folder.name}."
    if result["layers"]:
        words += f"\nLayers that came along: {', '.join(result['layers'])}."
    words = "\n".join([words, *result["notes"]])
    show({**result, "project": str(layout.folder)}, words, as_json)


Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would happen, and change nothing")]


@screen.verb(
    "remove",
    "joplin.pugeo run ranker-20260101-120000 --dry-run",
    "joplin.pugeo export v2 --yes",
    "joplin.pugeo chips prepost-64-1a2b3c4d",
    "joplin.pugeo footprints outside-aoi",
)
def remove(
    project: Project,
    kind: Annotated[
        Literal["scene", "layer", "footprints", "chips", "features", "run", "export"], typer.Argument(show_default=False)
    ],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="a scene, layer, chips, features, run or version; of footprints: all, outside-aoi, file:NAME, or "
            "building ids",
            show_default=False,
        ),
    ],
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Remove a scene, layer, footprints, chips, features, a run or an export, until its space is reclaimed. Labels stay."""
    layout, who = projects.find(project), analyst or labeling.default_analyst()
    if len(names) > 1 and kind != "footprints":
        raise PuGeoError(f"`remove {kind}` takes one name; {len(names)} were given.", "Remove them one after the other.")
    found = removing.plan(layout, kind, names[0] if len(names) == 1 else json.dumps(names))
    if dry_run:
        show(found.as_row(), "\n".join(found.lines), as_json)
        return
    _confirm(found.lines, yes, as_json)
    if found.task:
        run_job(layout, found.task, as_json, {**found.args, "analyst": who})
    else:
        removing.start(layout, found, who)
    show(found.as_row(), f"Removed {found.title}. `pu-geo repair undo-removal {project}` brings it back.", as_json)


@screen.verb(
    "replace",
    "joplin.pugeo footprints houses-2026.geojson",
    "joplin.pugeo scene 20110529 20110530.tif --yes",
    "joplin.pugeo layer sar-post vv_vh.tif --yes",
)
def replace(
    project: Project,
    kind: Annotated[Literal["scene", "layer", "footprints"], typer.Argument(show_default=False)],
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] FILE...",
            help="the scene to replace, and its new file; the layer, and its new files; of footprints the file alone",
            show_default=False,
        ),
    ],
    *,
    crs: FileCrs = None,
    bands: Bands = "",
    nodata: Annotated[
        float | None, typer.Option(metavar="VALUE", help="layers: sample value for no data, if not as before")
    ] = None,
    shift: Annotated[bool, typer.Option("--shift", help="footprints: all of them are moved as the plan says")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Put another file in the place of a scene, of a layer, or of all footprints. Labels stay with the building at a
    place.
    """
    layout, who = projects.find(project), analyst or labeling.default_analyst()
    if len(names) != {"scene": 2, "layer": max(len(names), 2), "footprints": 1}[kind]:
        wanted = {"scene": "a scene and a file", "layer": "the name of a layer and its files", "footprints": "one file"}
        raise PuGeoError(
            f"`replace {kind}` takes {wanted[kind]}; {len(names)} were named.", "`pu-geo replace --help` shows examples."
        )
    given = {"bands": (bands_in(bands), "scene"), "nodata": (nodata, "layer"), "shift": (shift or None, "footprints")}
    args: dict[str, Any] = {"crs": crs, "analyst": who}
    for option, (value, of_kind) in given.items():
        if value is not None and kind != of_kind:
            raise PuGeoError(f"--{option} says nothing of a {kind}.", "Leave it away.")
        args |= {option: value} if value is not None else {}
    paths = [*map(absolute, names[kind != "footprints" :])]
    if kind == "footprints":
        task, args["path"] = "replace_footprints", paths[0]
        row = dict(run_job(layout, task, as_json, args))
        title, lines = str(row["title"]), [str(line) for line in row["plan"]]
        args["confirmed"] = lines
    else:
        found = removing.plan(layout, kind, names[0], paths)
        task, title, lines, row = found.task, found.title, [*found.lines], found.as_row()
        args |= found.args
    if dry_run:
        show(row, "\n".join(lines), as_json)
        return
    _confirm(lines, yes, as_json)
    result = run_job(layout, task, as_json, args)
    words = f"Changed {title}. `pu-geo repair undo-removal {project}` brings back what was there."
    show(result, "\n".join([words, *result.get("notes", [])]), as_json)


def _confirm(lines: Sequence[str], yes: bool, as_json: bool) -> None:
    """Ask a person at a terminal whether to go on; refuse where there is nobody to ask.

    Raises:
        PuGeoError: where nobody can be asked, or the answer is not yes.
    """
    if yes:
        return
    print("\n".join(lines), file=sys.stderr)
    if as_json or not sys.stdin.isatty():
        raise PuGeoError(
            "Nothing was changed: nobody is here to confirm it.", "Add --yes to do it, or --dry-run to see the plan."
        )
    if not typer.confirm("Go on?", err=True):
        raise PuGeoError("Nothing was changed.", "Run the command again, and answer y, to do it.")


@repair.verb("removed", "joplin.pugeo")
def removed(project: Project, *, as_json: Json = False) -> None:
    """List what was removed and is still there, the newest first: that one can be brought back."""
    layout = projects.find(project)
    found = removing.removed(layout)
    for one in found:
        row = removing.removed_row(layout, one)
        show(row, f"{row['at']}  {row['size']:>8}  {row['title']}  ({row['analyst']})", as_json)
    if not found and not as_json:
        print("Nothing was removed, or all of it was brought back or its space reclaimed.")


@repair.verb("undo-removal", "joplin.pugeo")
def undo_removal(project: Project, *, analyst: Analyst = None, as_json: Json = False) -> None:
    """Bring back what was removed or replaced last; again, what was removed before that."""
    one = removing.undo(projects.find(project), analyst or labeling.default_analyst())
    show({"kind": one.kind, "name": one.name}, f"Brought back {one.facts['title']}.", as_json)


@repair.verb("empty-trash", "joplin.pugeo --older-than 30")
def empty_trash(
    project: Project,
    *,
    older_than: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="only what was removed before that many days")
    ] = 0,
    yes: Yes = False,
    dry_run: DryRun = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Delete what was removed for good, and free its space."""
    layout = projects.find(project)
    found, n_bytes = removing.reclaimable(layout, older_than)
    numbers = [one.number for one in found]
    result = {"removals": len(found), "bytes": n_bytes}
    lines = [*(str(one.facts["title"]) for one in found), removing.reclaim_words(len(found), n_bytes)]
    if dry_run or not found:
        show(result, "\n".join(lines), as_json)
        return
    _confirm(lines, yes, as_json)
    freed = removals.reclaim(layout, numbers, analyst=analyst or labeling.default_analyst())
    show(
        {**result, "bytes": freed},
        f"Freed {size(freed)}; {wording.plural(len(found), 'removal')} cannot be undone any more.",
        as_json,
    )


@screen.verb("jobs", "joplin.pugeo", "joplin.pugeo resume 20260101-120000-123456-abc123")
def control_jobs(
    project: Project,
    action: Annotated[Literal["cancel", "pause", "resume", "retry", "dismiss", "log"] | None, typer.Argument()] = None,
    job_id: Annotated[str | None, typer.Argument(metavar="ID")] = None,
    *,
    with_dismissed: Annotated[bool, typer.Option("--all", help="list those that were dismissed, too")] = False,
    as_json: Json = False,
) -> None:
    """List background jobs; cancel, pause, resume, retry or dismiss one, or print its log."""
    layout = projects.find(project)
    if action is None:
        _list_jobs(layout, with_dismissed, as_json)
        return
    if not job_id:
        raise PuGeoError(f"`jobs {action}` needs the id of a job.", "`pu-geo jobs P.pugeo` lists them.")
    match action:
        case "cancel":
            jobs.cancel(layout, job_id, wait=True)
            state = jobs.view(jobs.folder_of(layout, job_id)).state
            words = "has stopped" if state == "cancelled" else "was asked to stop, and will soon"
            show({"cancelled": job_id, "state": state}, f"Job {job_id} {words}.", as_json)
        case "pause":
            jobs.pause(layout, job_id)
            words = f"Job {job_id} pauses after this epoch. `pu-geo jobs {project} resume {job_id}` goes on."
            show({"paused": job_id}, words, as_json)
        case "resume":
            jobs.resume(layout, job_id)
            show({"resumed": job_id}, f"Started job {job_id} again.", as_json)
        case "retry":
            fresh = jobs.retry(layout, job_id)
            show({"job_id": fresh}, f"Started job {fresh}, which does the same from the start.", as_json)
        case "dismiss":
            jobs.dismiss(layout, job_id)
            show({"dismissed": job_id}, f"Job {job_id} is listed with --all alone from now on.", as_json)
        case "log":
            _print_log(jobs.folder_of(layout, job_id))


def _print_log(folder: Path) -> None:
    for event in events.read(folder):
        print(in_json(event))
    log = folder / "log.txt"
    print(log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "", end="")


def _list_jobs(layout: Layout, with_dismissed: bool, as_json: bool) -> None:
    for job in jobs.all_jobs(layout, with_dismissed=with_dismissed):
        if job.is_asked_to == "cancel":
            jobs.end_overdue(jobs.folder_of(layout, job.job_id))
        facts = {key: getattr(job, key) for key in ("job_id", "task", "state", "progress", "message", "problem", "hint")}
        share = "" if job.progress is None else f"{job.progress:.0%}"
        line = f"{job.job_id}  {job.task:14} {job.state:12} {share:>4}  {job.problem or job.message}"
        show({**facts, "result": dict(job.result)}, line, as_json)


@screen.verb("demo", "--out demo")
def demo(
    *,
    out: Annotated[str, typer.Option(metavar="DIR", help="folder for the project and the map")] = "pu-geo-demo",
    as_json: Json = False,
) -> None:
    """Run every step on the sample event, from imagery to the damage map of the recommended method, with AUC and AP."""
    from pu_geo.runs.evaluate_job import evaluate

    began = time.monotonic()
    folder = Path(absolute(out))
    if (folder / "sample.pugeo").exists():
        raise PuGeoError(f"{folder} holds a demo already.", "Choose another folder with --out, or remove that one.")
    make_folder(folder)
    layout = store.create(folder / "sample.pugeo", projects.SAMPLE_NAME)
    run_job(layout, "prepare", as_json, projects.sample_arguments())
    labeling.simulate(layout, field="damage", values=DAMAGED, count=N_CLICKS, seed=0, analyst="demo")
    measured = []
    for action in DEMO_STEPS:
        run_id = run_job(layout, action, as_json)["run_id"]
        row = evaluate(layout, run_id, field="damage", positive=DAMAGED)
        measured.append(row)
        if not as_json:
            print(f"{row['method']:11} AUC {row['auc']:.3f}  AP {row['ap']:.3f}")
    path = folder / "damage_map.geojson"
    recommended = next(row for row in measured if row["method"] == DEFAULT_METHOD)
    exported = run_job(layout, Export(path, run=str(recommended["run_id"])), as_json)
    seconds = time.monotonic() - began
    result = {"map": str(path), "project": str(layout.folder), "runs": measured, "seconds": round(seconds, 1)}
    words = f"Damage map of {exported['n']} buildings: {path}\nProject: {layout.folder}\nTook {seconds:.0f} s."
    show(result, words, as_json)
