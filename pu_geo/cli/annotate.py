"""Verbs of the Annotate screen: labels in, and labels out."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from pu_geo.answers import labeling
from pu_geo.cli.run import Analyst, Json, Project, Screen, in_json, repeated, show
from pu_geo.errors import LabelError, ProjectError, PuGeoError
from pu_geo.lifecycle import projects, recovery
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout

screen = Screen("Annotate")


@screen.verb(
    "label",
    "joplin.pugeo --from-field damage --is destroyed --grade Destroyed --count 30 --seed 0",
    "joplin.pugeo --import labels.csv",
    "joplin.pugeo --stdin < clicks.jsonl",
)
def label(
    project: Project,
    *,
    from_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="simulate clicks from this attribute of the footprints")
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin",
            help='read {"op": unique text, "building_id", "label"} a line; of a damaged building '
            '"grade", "damage_types": ["roof", ...] and "absent_types" (looked for and not found), too',
        ),
    ] = False,
    import_file: Annotated[
        str | None,
        typer.Option(
            "--import", metavar="FILE", help="CSV with building_id and label, or GeoJSON, as export-labels writes them"
        ),
    ] = None,
    values: Annotated[list[str], repeated("VALUE", "value that shall be clicked", "--is")],
    meaning: Annotated[
        Literal["positive", "not_damaged"], typer.Option("--as", help="the label that those clicks store")
    ] = "positive",
    grade: Annotated[
        str, typer.Option("--grade", metavar="NAME", help="with --from-field: how badly those buildings are damaged")
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="how many clicks to simulate")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="of all random numbers")] = 0,
    field: Annotated[
        str,
        typer.Option("--field", metavar="COLUMN", help="with --import, of a file not made with PU-Geo: what tells damage"),
    ] = "",
    damaged: Annotated[list[str], repeated("VALUE", "with --import: a value of it that means damaged", "--damaged")],
    not_damaged: Annotated[list[str], repeated("VALUE", "the same for not damaged; others are skipped", "--not-damaged")],
    all_damaged: Annotated[
        bool, typer.Option("--all-damaged", help="with --import: each row of the file is a damaged building")
    ] = False,
    same_footprints: Annotated[
        bool,
        typer.Option(
            "--same-footprints",
            help="with --import, of a file without lon and lat: it was made of these very footprints, so its ids hold",
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="with --import of a history (.events.csv), into a project without answers: everything as it was, with "
            "everybody's undo and the decisions in the file beside it",
        ),
    ] = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Add labels: simulated clicks, a stream, or a file."""
    if [bool(from_field), stdin, bool(import_file)].count(True) != 1:
        raise PuGeoError("Labels are added in one way: --from-field, --stdin or --import.", "Name one of the three.")
    layout = projects.find(project)
    analyst = analyst or labeling.default_analyst()
    if stdin:
        _answer_stream(layout, analyst)
    elif import_file:
        from pu_geo.answers.import_labels_job import Meaning, import_labels

        means = Meaning(field, tuple(damaged), tuple(not_damaged), all_damaged)
        result = import_labels(
            layout, import_file, analyst=analyst, meaning=means, same_footprints=same_footprints, rebuild=rebuild
        )
        counts = f"{result['stored']} stored, {result['unchanged']} as before, {result['skipped']} skipped"
        show(result, "\n".join([f"{result['rows']} rows: {counts}.", *result.get("notes", ())]), as_json)  # type: ignore[misc]
    elif from_field:
        clicked = labeling.simulate(
            layout, field=from_field, values=values, count=count, seed=seed, analyst=analyst, label=meaning, grade=grade,
        )  # fmt: skip
        show(clicked, f"Clicked {clicked['stored']} buildings; {clicked['positives']} damaged now.", as_json)


def _answer_stream(layout: Layout, analyst: str) -> None:
    """Answer each line on stdin as soon as it is on disk."""
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            operation = labeling.parse_line(line, json.loads(line))
            ack = labeling.apply_operations(layout, [operation], analyst=analyst, screen="cli")[0]
            answer: dict[str, object] = {"ack": ack.op, "event": ack.event}
            if ack.error:
                answer = {"error": ack.error, "op": ack.op}
        except (ValueError, RecursionError):
            answer = {"error": f"The line {line.strip()[:80]!r} is not JSON."}
        except LabelError as error:
            answer = {"error": f"{error.problem} {error.hint}"}
        print(in_json(answer), flush=True)


@screen.verb("grades", "joplin.pugeo", 'joplin.pugeo --set Destroyed=destroyed "Roof gone=major" Minor=minor')
def grades(
    project: Project,
    *,
    wanted: Annotated[
        list[str],
        repeated("NAME=CLASS...", "another scale, the worst first; a name that is there keeps its buildings", "--set"),
    ],
    as_json: Json = False,
) -> None:
    """Show the grades of damaged buildings, or store another scale of them."""
    layout = projects.find(project)
    if wanted:
        if wrong := next((text for text in wanted if "=" not in text), None):
            raise PuGeoError(
                f"--set {wrong!r} is not of the form NAME=CLASS.", 'Write, for example, --set "Roof gone=major".'
            )
        pairs = [(name.strip(), given.strip()) for name, _, given in (text.rpartition("=") for text in wanted)]
        labeling.choose_grades(layout, [Grade("", name, given) for name, given in pairs])  # type: ignore[arg-type]  # checked there
    found = [one for one in labeling.known_grades(layout) if one.is_offered]
    words = "\n".join(f"{4 + row}  {one.name} (in exports: {one.damage_class})" for row, one in enumerate(found))
    show({"grades": [asdict(one) for one in found]}, words, as_json)


@screen.verb("export-labels", "joplin.pugeo --out labels.csv")
def write_labels(
    project: Project,
    *,
    out: Annotated[
        str, typer.Option(metavar="FILE.csv|.geojson", help="the history goes to FILE.events.csv and FILE.decisions.json")
    ],
    as_json: Json = False,
) -> None:
    """Write the current labels and their history; of a damaged project, the history from its journal."""
    from pu_geo.answers.export_labels_job import export_labels

    layout = projects.find(project)
    try:
        result = export_labels(layout, out)
    except ProjectError as error:
        if error.kind != "corrupt":
            raise
        _save_journal(layout, out, error, as_json)
        return
    words = (
        f"Wrote {result['n']} labels to {result['out']}, and {result['n_events']} events to {result['events_out']}.\n"
        f"With {result['decisions_out']} beside it a project can be rebuilt: pu-geo label NEW.pugeo --import "
        f"{result['events_out']} --rebuild"
    )
    show(result, words, as_json)


def _save_journal(layout: Layout, out: str, damage: ProjectError, as_json: bool) -> None:
    """Write the labels of a damaged project from its journal; exit code 2 where a part of that cannot be read."""
    facts = recovery.save_labels(layout, out)
    print(damage.problem, file=sys.stderr)
    words = (
        f"Wrote the {facts['n_events']:,} label events of its journal to {facts['events_out']}; {facts['n_unreadable']:,} "
        f"cannot be read. Restore the project with `pu-geo repair restore {layout.folder.name}`, or store them in a new "
        f"project with the same footprints: `pu-geo label NEW.pugeo --import {facts['events_out']} --rebuild "
        "--same-footprints`."
    )
    show({**facts, "damage": damage.problem}, words, as_json)
    if facts["n_unreadable"]:
        raise typer.Exit(2)
