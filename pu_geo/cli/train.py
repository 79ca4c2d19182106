"""Verbs of the Train screen: methods and trainings, what judges and describes runs, models as files, and benchmarks."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pu_geo import jobs, wording
from pu_geo.cli import federation
from pu_geo.cli.drawn import draw, with_options
from pu_geo.cli.run import Json, Project, RunId, Screen, absolute, in_brackets, in_json, repeated, run_job, show
from pu_geo.errors import DatasetError, PuGeoError, writing
from pu_geo.files import atomic_write, write_export
from pu_geo.lifecycle import projects
from pu_geo.maps import damage_map, run_card
from pu_geo.methods import catalog
from pu_geo.runs import comparing, layer_comparison, models, results, training
from pu_geo.runs.actions import ApplyModel, CompareLayers, Rank, Train
from pu_geo.store import chosen as choices
from pu_geo.store import population, run_names, training_times
from pu_geo.store.layout import Layout, writable_target

if TYPE_CHECKING:
    from pu_geo.runs.tables_job import Table

screen = Screen("Train")
NOTICE_FROM_S = 60.0  # trainings that take longer print how long before they start
N_SHOWN = 5
PROJECT_TABLE = "project"


def _run_words(layout: Layout, result: Mapping[str, Any]) -> str:
    """Return what a finished run learned from, and in which scenes its result is doubtful."""
    took, name = wording.duration(float(result["seconds"])), run_names.name(layout, result["run_id"])
    words = f"Run {result['run_id']} ({name}): learned from {result['n_positive']} damaged buildings, {took}."
    run = choices.run(layout, result["run_id"])
    limit, seen = run.threshold, training.evidence_words(run)
    silent = filter(None, [population.silent_sites(layout)])
    return "\n".join([words, seen, *silent, *damage_map.of_run(layout, result["run_id"], limit).doubts])


draw(screen, "rank", Rank, "joplin.pugeo")(_run_words)


@screen.verb("methods", "", "--json")
def list_methods(*, as_json: Json = False) -> None:
    """List the methods, what they need, and how long presets took on this machine."""
    found, lines = [], []
    for group, heading in catalog.GROUPS.items():
        for card in training.cards_of(group):
            is_default = card.name == catalog.DEFAULT_METHOD
            past = {preset: training_times.past(card.name, preset) for preset in card.presets}
            found.append({
                "name": card.name, "title": card.title, "group": heading, "is_default": is_default,
                "presets": list(card.presets), "needs": card.needs, "figures": training.figures_of(card.name),
                "took_here": {preset: [asdict(one) for one in times] for preset, times in past.items()},
            })  # fmt: skip
            lines.append(f"{card.name:15} {card.title}{' (default)' if is_default else ''}. {card.needs}")
            for preset, times in past.items():
                usual = training.expected_time(card, preset, 1000).words
                lines.append(f"{'':15} {preset:9}{times[-1].words + ' here' if times else f'{usual}, for 1,000 chips'}")
    show({"methods": found}, "\n".join(lines), as_json)


def _train(project: str, as_json: bool, detach: bool, **given: Any) -> None:
    layout, request = projects.find(project), Train(**given)
    training.require(layout, request)
    if request.types_from and not as_json:
        counts = next(one.counts for one in training.type_sources(layout) if one.name == request.types_from)
        print(f"Damage types: {counts}.", file=sys.stderr, flush=True)
    if not (as_json or request.overrides):
        n_chips = training.data_summary(layout).n_chips
        expected = training.expected_time(request.card, request.preset, n_chips)
        if expected.most > NOTICE_FROM_S:
            more = "" if detach else f" Ctrl-C stops it; `pu-geo jobs {project}` names it, `... resume ID` goes on."
            print(f"Takes {expected.words}.{more}", file=sys.stderr, flush=True)
    if detach:
        job_id = jobs.start(layout, request)
        show({"job_id": job_id}, f"Started job {job_id}. Follow it with `pu-geo jobs {project}`.", as_json)
        return
    result = run_job(layout, request, as_json)
    show(result, _run_words(layout, result), as_json)


_DETACH = typer.Option("--detach", help="train in the background and return at once")
screen.verb("train", "joplin.pugeo", "joplin.pugeo --method ncpu --preset standard --set epochs=80 --detach")(
    with_options(_train, Train, detach=Annotated[bool, _DETACH])
)


run_group = Screen("Train", group="runs ")
screen.add_typer(run_group, name="runs", rich_help_panel="Train", help="List runs, or rename one.")


@run_group.verb("list", "joplin.pugeo", "joplin.pugeo --json")
def list_runs(project: Project, *, as_json: Json = False) -> None:
    """List the finished runs: name, id, how each was made and is judged."""
    layout = projects.find(project)
    rows = results.table(layout, training.all_runs(layout))
    lines = [
        f"{row.name} ({row.run_id}){': shown' if row.is_shown else ''}\n"
        f"  took {row.took}, {'learned elsewhere' if row.n_damaged is None else f'{row.n_damaged} damaged labels'}; "
        f"recall on held-out clicks: {row.judged}; accuracy assessment: {row.audited}"
        for row in rows
    ]
    words = "\n".join(lines) or f"There is no run yet. Make one: pu-geo train {project}"
    show({"runs": [asdict(row) for row in rows]}, words, as_json)


@run_group.verb("rename", 'joplin.pugeo latest "second opinion"', 'joplin.pugeo latest ""')
def rename_run(
    project: Project,
    run: Annotated[str, typer.Argument(metavar="RUN", help="id of a run, chosen or latest", show_default=False)],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help='what people call it; "" for the usual name', show_default=False)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Change what a run is called on all screens; its id and files stay."""
    layout = projects.find(project)
    run_id = choices.run(layout, run).run_id
    run_names.rename(layout, run_id, name)
    found = run_names.name(layout, run_id)
    show({"run_id": run_id, "name": found}, f"Run {run_id} is called {found}.", as_json)


@screen.verb("evaluate", "joplin.pugeo --field damage --positive destroyed --exclude un-classified --json")
def evaluate_run(
    project: Project,
    *,
    run: RunId = "chosen",
    field: Annotated[str, typer.Option(help="attribute of the footprints that holds the truth")],
    positive: Annotated[list[str], typer.Option(metavar="VALUE", help="value that means damaged")],
    exclude: Annotated[list[str], repeated("VALUE", "value to leave out")],
    as_json: Json = False,
) -> None:
    """Compare a run with truth that came with the footprints."""
    from pu_geo.runs.evaluate_job import evaluate

    result = evaluate(projects.find(project), run, field=field, positive=positive, exclude=exclude)
    show(result, "\n".join(f"{key:15} {value}" for key, value in result.items()), as_json)


@screen.verb("card", "joplin.pugeo --out card.html", "joplin.pugeo --run latest")
def write_card(
    project: Project,
    *,
    run: RunId = "chosen",
    out: Annotated[
        str | None, typer.Option(metavar="FILE.html|.md|.json", help="file to write (default: print Markdown)")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the model card of a run: data, labels, settings, training, accuracy, limits."""
    card = run_card.card(projects.find(project), run)
    if not out:
        print(in_json(card, indent=1) if as_json else run_card.as_markdown(card))
        return
    path = writable_target(absolute(out))
    write = run_card.WRITERS.get(path.suffix.removeprefix("."))
    if write is None:
        raise PuGeoError(
            f"{path.name} ends in {path.suffix!r}; a model card is written as .html, .md or .json.",
            "Give the file such a name.",
        )
    with writing(path), atomic_write(path) as temporary:
        temporary.write_text(write(card), encoding="utf-8")
    run_id = card["run"]["run_id"]
    show({"run_id": run_id, "out": str(path)}, f"Wrote the model card of {run_id} to {path}.", as_json)


@screen.verb("compare", "joplin.pugeo --runs latest ranker-0520-1130-12ab")
def compare(
    project: Project,
    *,
    runs: Annotated[
        tuple[str, str],
        typer.Option(metavar="RUN RUN", help="ids of two runs; chosen is the one that is shown, latest the newest"),
    ],
    as_json: Json = False,
) -> None:
    """Compare two runs: where they agree, where they do not, and which is better."""
    layout = projects.find(project)
    found = comparing.compare(layout, *runs)
    lines = [f"{name} = {side.facts.run_id}" for name, side in zip("AB", found.sides, strict=True)]
    lines += [*comparing.agreement_words(found), found.clicks.words]
    if found.check is not None:
        lines.append(f"Judged by one accuracy assessment of {found.check.sample.n_drawn} checks ({found.check.id}).")
    for name, side in zip("AB", found.sides, strict=True):
        lines.append(f"{name}: PU criterion {comparing.criterion_words(side)}.")
        if side.audited is not None:
            precision, recall = (wording.interval_of(vars(one)) for one in (side.audited.precision, side.audited.recall))
            lines.append(f"{name}: precision {precision}, recall {recall} at its threshold {side.facts.threshold:.3f}.")
    titles = ("A high, B low", "B high, A low")
    for title, rows in zip(titles, comparing.most_disagreeing(layout, found, N_SHOWN), strict=True):
        lines.append(f"{title}:")
        for row in rows:
            lines.append(f"  {row.building_id}: {row.places[0]:,} in A, {row.places[1]:,} in B{in_brackets(row.label)}")
        if not rows:
            lines.append("  none")
    show(comparing.as_json(layout, found), "\n".join(lines), as_json)


@draw(screen, "compare-layers", CompareLayers, "joplin.pugeo", "joplin.pugeo --json")
def _compared_words(layout: Layout, result: Mapping[str, Any]) -> str:
    found = layer_comparison.Comparison.from_json(result)
    return "\n".join(
        [*_columns(layer_comparison.table(found)), *layer_comparison.verdict_words(found), layer_comparison.how_made(found)]
    )


def _columns(rows: list[dict[str, str]]) -> list[str]:
    """Return rows of a table as lines, below one with the names of its columns."""
    columns = [[name, *(row[name] for row in rows)] for name in rows[0]]
    padded = [[text.ljust(max(map(len, column))) for text in column] for column in columns]
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


model = Screen("Train", group="model ")
screen.add_typer(
    model, name="model", rich_help_panel="Train",
    help="Export a trained model, or score all buildings by one that came.",
)  # fmt: skip


screen.add_typer(
    federation.federate, name="federate", rich_help_panel="Train",
    help="Train one model with other agencies, without showing each other a chip.",
)  # fmt: skip


@model.verb("export", "joplin.pugeo latest --out joplin.pugeo-model.zip")
def export_model(
    project: Project,
    run: Annotated[str, typer.Argument(metavar="RUN", help="id of a run, or latest", show_default=False)],
    *,
    out: Annotated[str, typer.Option(metavar="FILE.pugeo-model.zip", help="a file, or a folder to put it in")],
    as_json: Json = False,
) -> None:
    """Write the model of a run into one file."""
    result = models.export(projects.find(project), run, out)
    show(result, f"Wrote the model of {result['run_id']} to {result['out']} ({result['bytes']:,} bytes).", as_json)


@draw(model, "apply", ApplyModel, "moore.pugeo joplin.pugeo-model.zip", "joplin.pugeo joplin-gpu.pugeo")
def _applied_words(layout: Layout, result: Mapping[str, Any]) -> str:
    return f"Run {result['run_id']}: all buildings were scored by the model, in {result['seconds']} s."


@screen.verb("benchmark", "list", "fmnist --data fashion_mnist --seeds 5 --keep fmnist.jsonl --out fmnist.md")
def benchmark(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="fmnist, cifar10, cifar100, stl10, abcd, xbd, harvey, project, or list", show_default=False
        ),
    ],
    *,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="the data set's files")] = None,
    methods: Annotated[str, typer.Option(metavar="A,B", help="short names of methods, and ranker (default: all)")] = "",
    preset: Annotated[str, typer.Option(help="preset of the methods")] = "quick",
    settings: Annotated[list[str], repeated("NAME=VALUE", "a setting, where a method has it", "--set")],
    seeds: Annotated[int, typer.Option(min=1, help="random draws of the labels")] = 5,
    only: Annotated[str, typer.Option(metavar="NAME", help="rows whose name holds this")] = "",
    field: Annotated[str, typer.Option(help="of a project: attribute of the footprints that holds the truth")] = "",
    positive: Annotated[list[str], repeated("VALUE", "of a project: value that means damaged")],
    exclude: Annotated[list[str], repeated("VALUE", "of a project: value to leave out")],
    clicks: Annotated[str, typer.Option(metavar="N,M", help="of a project: clicked buildings")] = "10,30",
    keep: Annotated[
        str | None, typer.Option(metavar="FILE", help="file of finished outcomes: they are not done again")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE.md", help="write the table here, too")] = None,
    as_json: Json = False,
) -> None:
    """Reproduce rows of papers' tables on their data sets; `list` names the tables."""
    from pu_geo.runs import benchmark_job as benchmark
    from pu_geo.runs import tables_job

    if table == "list":
        wants = {name: (each.title, each.wants) for name, each in tables_job.TABLES.items()}
        wants[PROJECT_TABLE] = (
            "Buildings of your own project, where the truth came with the footprints",
            "a project with chips, and --field and --positive",
        )
        lines = [f"{name}: {title}; --data {files}" for name, (title, files) in wants.items()]
        show({name: {"title": title, "data": files} for name, (title, files) in wants.items()}, "\n".join(lines), as_json)
        return
    chosen = _table(table, Path(data or PROJECT_TABLE).expanduser().stem, field, positive, exclude, clicks)
    if not data:
        raise DatasetError(f"The table {table} needs files.", f"Name {chosen.wants} with --data.")
    overrides = dict(pair.partition("=")[::2] for pair in settings)
    outcomes = benchmark.run_table(
        chosen, Path(data).expanduser(), methods=[name for name in methods.split(",") if name], preset=preset, seeds=seeds,
        only=only, overrides=overrides, kept=Path(keep) if keep else None,
        echo=lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    given = {"--seeds": [str(seeds)], "--preset": [preset], "--methods": [methods], "--only": [only], "--set": settings}
    if table == PROJECT_TABLE:
        given |= {"--field": [field], "--clicks": [clicks], "--positive": positive, "--exclude": exclude}
    command = ["pu-geo", "benchmark", table, "--data", "FILES"]  # files differ
    command += [word for flag, values in given.items() for value in values if value for word in (flag, value)]
    text = benchmark.as_markdown(chosen, outcomes, shlex.join(command), not overrides)
    if out:
        write_export(Path(out), [text.encode()])
    show({"outcomes": [asdict(each) for each in outcomes], "hardware": benchmark.hardware()}, text.rstrip(), as_json)


def _table(table: str, name: str, field: str, positive: list[str], exclude: list[str], clicks: str) -> Table:
    """Return a published table, or that of a project, which the command's options describe."""
    from pu_geo.runs import tables_job

    if table in tables_job.TABLES:
        return tables_job.TABLES[table]
    if table != PROJECT_TABLE:
        known = f"{', '.join(tables_job.TABLES)} and {PROJECT_TABLE}"
        raise DatasetError(f"There is no table {table!r}; there are {known}.", "Choose one of these.")
    try:
        counts = [int(text) for text in clicks.split(",")]
    except ValueError as cause:
        raise DatasetError(f"--clicks is {clicks!r}.", "Write whole numbers, as in 10,30.") from cause
    return tables_job.project_table(name, field=field, positive=positive, exclude=exclude, clicks=counts)
