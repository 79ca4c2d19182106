"""Verbs of the Damage map screen: choose what the map is, audit it, sum it up, and write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from pu_geo.answers import labeling
from pu_geo.assessment import auditing, random_audits
from pu_geo.cli.drawn import draw
from pu_geo.cli.run import Analyst, Json, Project, RunId, Screen, show
from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.maps import damage_map, thresholds
from pu_geo.maps.actions import AddAreas, Export, Publish
from pu_geo.store import chosen
from pu_geo.store.layout import Layout

screen = Screen("Damage map")
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", help="flag buildings with at least this score (default: the one chosen for the run, else its own)"
    ),
]
Top = Annotated[
    int | None, typer.Option("--top", metavar="K", help="flag the K highest-ranked buildings, in place of a threshold")
]


@screen.verb(
    "choose",
    "joplin.pugeo",
    "joplin.pugeo --run ncpu-0520-1130-12ab --threshold 0.42",
    "joplin.pugeo --top 200",
    "joplin.pugeo --type roof --threshold 0.4",
)
def choose(
    project: Project,
    *,
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="a run's id, latest, or auto: the one published, assessed or recommended"),
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="flag buildings with at least this score")] = None,
    top: Top = None,
    damage_type: Annotated[
        str | None,
        typer.Option("--type", metavar="NAME", help="the threshold is that of a damage type, of what is flagged as damaged"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Store which run is shown and exported where none is named, and its threshold or a damage type's; or print which they
    are.
    """
    layout = projects.find(project)
    found = thresholds.choose(layout, run, threshold=threshold, top=top, damage_type=damage_type)
    shown = damage_map.of_run(layout, found.run_id)
    limit = shown.limit
    check, why = random_audits.newest_audit(layout, found.run_id), chosen.why_chosen(layout) or "newest"
    facts = {
        "run_id": found.run_id, "method": found.method, "why": why, "threshold": limit.value,
        "threshold_origin": limit.origin, "audit_id": check.id if check else chosen.NOT_AUDITED,
    }  # fmt: skip
    lines = [
        f"{thresholds.which_words(facts)} It is {chosen.WHY_WORDS[why]}.",
        *thresholds.newer_words(layout, found.run_id),
    ]
    types = shown.type_facts
    if types:
        facts["types"] = types
    show(facts, "\n".join([*lines, *map(_type_words, types)]), as_json)


def _type_words(one: Mapping[str, Any]) -> str:
    """Return one damage type of a map in a line or three."""
    lines = [
        f"{one['name']}: {one['by_people']:,} by people, {one['by_score']:,} by score, {one['unknown']:,} unknown. "
        f"{one['words']}"
    ]
    if audit := one["audit"]:
        lines += [f"  {line}" for line in _share_lines(audit)]
    return "\n".join(lines)


def _share_lines(shares: Mapping[str, Any]) -> list[str]:
    """Return precision and recall with their intervals, a line each."""
    lines = []
    for name in ("precision", "recall"):
        one = shares[name]
        value = "" if one["value"] is None else f"{one['value']:.4g} ({one['low']:.4g} to {one['high']:.4g}): "
        lines.append(f"{name:10} {value}{one['words']}")
    return lines


@screen.verb("audit", "joplin.pugeo begin --checks 200", "joplin.pugeo")
def audit(
    project: Project,
    action: Annotated[Literal["begin", "status"], typer.Argument()] = "status",
    *,
    run: RunId = "chosen",
    checks: Annotated[int | None, typer.Option(min=1, help="checks, at least 30 (default: 60)")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="where precision and recall are judged (default: the one chosen for the run, else its own)"),
    ] = None,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """Start the accuracy assessment (audit) of a run's map, or print its result."""
    layout = projects.find(project)
    facts = chosen.run(layout, run)
    run_id = facts.run_id
    if action == "begin":
        n = checks or auditing.plan(layout, run_id).n
        random_audits.begin_audit(layout, run_id, n, analyst or labeling.default_analyst())
    shown = damage_map.of_run(layout, run_id, threshold)
    found, limit = shown.audit, shown.limit
    if found is None:
        raise PuGeoError(
            f"There is no accuracy assessment of {run_id} yet.", f"Start one: pu-geo audit {project} begin --run {run_id}"
        )
    judged: Mapping[str, Any] = auditing.facts(layout, run_id, limit.value) or {}
    damaged = auditing.how_many(layout)
    which = {
        "run_id": run_id, "method": facts.method, "audit_id": judged["check_id"],
        "threshold": limit.value, "threshold_origin": limit.origin,
    }  # fmt: skip
    names = (
        "check_id",
        "n",
        "n_drawn",
        "n_answered",
        "n_counted",
        "n_damaged",
        "state",
        "words",
        "total",
        "at_threshold",
        "bands",
    )
    result = {**which, **{name: judged[name] for name in names}, "how_many": damaged.as_mapping()}
    waiting = f"; {found.done.n_open} wait on the Annotate page" if found.done.n_open else ""
    lines = [thresholds.which_words(which), f"{judged['n_answered']} of {judged['n_drawn']} checks answered{waiting}."]
    if judged["words"] not in damaged.words:
        lines.append(judged["words"])
    lines.append(damaged.words_beside(run_id))
    if shown.type_facts:
        result["types"] = shown.type_facts
    lines += _share_lines(judged["at_threshold"])
    if sites := judged.get("sites"):
        result["sites"] = sites
        lines += [one["words"] for one in sites]
    lines += [_type_words(one) for one in result.get("types", ())]
    if offer := thresholds.offer(damage_map.of_run(layout, run_id)):
        result["offer"] = {"threshold": offer.threshold.value, "n_flagged": offer.n_flagged, "words": offer.words}
        of_run = "" if chosen.run(layout, "chosen").run_id == run_id else f" --run {run_id}"
        lines.append(f"{offer.words} To take it: pu-geo choose {project}{of_run} --threshold {offer.threshold.value:.4f}")
    show(result, "\n".join(lines), as_json)


@draw(screen, "add-areas", AddAreas, "joplin.pugeo adm2.geojson --layer adm2")
def _area_words(layout: Layout, result: Mapping[str, Any]) -> str:
    words = f"{result['n_areas']} areas are in the layer {result['layer']}; {result['replaced']} were replaced."
    return "\n".join([words, *result["notes"]])


@draw(screen, "export", Export, "joplin.pugeo --out map.geojson")
def _export_words(layout: Layout, result: Mapping[str, Any]) -> str:
    words = f"Wrote {result['n']} {result['units']} to {result['out']}: {_counts(result)}"
    return "\n".join([words, *_site_words(result), *_origin(layout, result)])


@draw(screen, "publish", Publish, "joplin.pugeo --formats geojson gpkg csv")
def _version_words(layout: Layout, result: Mapping[str, Any]) -> str:
    changed = "" if result["n_changes"] is None else f" {result['n_changes']:,} of them changed since the version before."
    written = f"{result['version']} with {result['n']} {result['units']} into {result['out']}"
    return "\n".join([f"Wrote {written}: {_counts(result)}{changed}", *_site_words(result), *_origin(layout, result)])


def _counts(result: Mapping[str, Any]) -> str:
    hidden = f", {result['not_assessed']:,} not assessed" if result["not_assessed"] else ""
    types = "".join(f", {one['name']}: {one['by_people'] + one['by_score']:,}" for one in result.get("types", ()))
    return f"{result['confirmed']:,} confirmed damaged; {result['flagged']:,} flagged, to look at{hidden}{types}."


def _site_words(result: Mapping[str, Any]) -> list[str]:
    """Return what a map counts in each site, a line each; nothing where there is one."""
    return [f"{one['name']}: {one['buildings']:,} {result['units']}, {_counts(one)}" for one in result.get("sites", ())]


def _origin(layout: Layout, result: Mapping[str, Any]) -> list[str]:
    """Return which run and threshold an export rests on, and what is doubtful in it."""
    return [thresholds.which_words(result), *thresholds.newer_words(layout, str(result["run_id"])), *result["doubts"]]
