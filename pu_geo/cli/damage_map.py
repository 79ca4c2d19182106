"""Verbs that judge the damage map, choose what it is, and write it: audit, choose, export, publish, export-labels."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from pu_geo.cli.run import absolute, run_job, say
from pu_geo.errors import PuGeoError
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.damage_map import auditing, mapping, random_audits
from pu_geo.services.project import choices, projects


def _choose(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    if options.run == "auto":
        choices.choose_automatically(layout)
    elif options.run:
        choices.choose_run(layout, choices.run(layout, options.run).run_id)
    found = choices.run(layout, "chosen")
    if options.threshold is not None:
        choices.choose_threshold(layout, found.run_id, options.threshold)
    limit = choices.threshold(layout, found.run_id)
    check, why = random_audits.newest_audit(layout, found.run_id), choices.why_chosen(layout) or "newest"
    told = {
        "run_id": found.run_id, "method": found.method, "why": why, "threshold": limit.value,
        "threshold_origin": limit.origin, "audit_id": check.id if check else "not audited",
    }  # fmt: skip
    lines = [f"{mapping.which_words(told)} It is {choices.WHY_WORDS[why]}.", *mapping.newer_words(layout, found.run_id)]
    say(options, told, "\n".join(lines))


def _export(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    args = mapping.map_arguments(layout, options.run, options.threshold)
    result = run_job(layout, "export", {**args, "format": options.format, "out": absolute([options.out])[0],
                                         "local": options.local_coordinates}, options)  # fmt: skip
    words = f"Wrote {result['n']} {result['units']} to {result['out']}: {_counts_words(result)}"
    say(options, result, "\n".join([words, *_about(layout, result)]))


def _counts_words(result: Mapping[str, Any]) -> str:
    hidden = f", {result['not_assessed']:,} not assessed" if result["not_assessed"] else ""
    return f"{result['flagged']:,} flagged or confirmed damaged{hidden}."


def _about(layout: Layout, result: Mapping[str, Any]) -> list[str]:
    """Return which run and threshold an export rests on, and what is doubtful in it."""
    return [mapping.which_words(result), *mapping.newer_words(layout, str(result["run_id"])), *result["doubts"]]


def _publish(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    args = mapping.publish_arguments(layout, options.run, options.threshold, options.formats, options.profile,
                                     local=options.local_coordinates)  # fmt: skip
    result = run_job(layout, "publish", args, options)
    changed = "" if result["n_changes"] is None else f" {result['n_changes']} changes since the version before."
    words = f"Wrote {result['version']} with {result['n']} {result['units']} into {result['out']}: {_counts_words(result)}"
    say(options, result, "\n".join([words + changed, *_about(layout, result)]))


def _audit(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    run = mapping.run(layout, options.run)
    run_id = run.run_id
    if options.action == "begin":
        _begin(layout, run_id, options)
    found = auditing.view(layout, run_id)
    if found is None:
        raise PuGeoError(
            f"There is no audit of {run_id} yet.", f"Begin one: pu-geo audit {options.project} begin --run {run_id}"
        )
    args = mapping.map_arguments(layout, run_id, options.threshold)
    facts: Mapping[str, Any] = auditing.facts(layout, run_id, float(str(args["threshold"]))) or {}
    told = {
        name: facts[name]
        for name in (
            "check_id", "n", "n_drawn", "n_answered", "n_counted", "n_damaged", "state", "words", "total", "at_threshold", "bands",
        )
    }  # fmt: skip
    left = found.done.n_open
    waiting = f"; {left} wait on the Annotate page" if left else ""
    which = {"run_id": run_id, "method": run.method, "audit_id": facts["check_id"]}
    which |= {name: args[name] for name in ("threshold", "threshold_origin")}
    damaged = auditing.how_many(layout)
    told["how_many"] = damaged.as_mapping()
    lines = [
        mapping.which_words(which),
        f"{facts['n_answered']} of {facts['n_drawn']} checks answered{waiting}.",
        damaged.words_beside(run_id),
    ]
    if facts["words"] not in damaged.words:
        lines.insert(2, facts["words"])
    for name in ("precision", "recall"):
        one = facts["at_threshold"][name]
        value = "" if one["value"] is None else f"{one['value']:.4g} ({one['low']:.4g} to {one['high']:.4g}): "
        lines.append(f"{name:10} {value}{one['words']}")
    say(options, {**which, **told}, "\n".join(lines))


def _begin(layout: Layout, run_id: str, options: argparse.Namespace) -> None:
    n = options.checks or auditing.suggested_size(layout, run_id)
    random_audits.begin_audit(layout, run_id, n, options.analyst or labeling.default_analyst())


def _add_areas(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    args = {"path": absolute([options.file])[0], "layer": options.layer}
    args |= {"name_field": options.name_field, "code_field": options.code_field}
    result = run_job(layout, "add_areas", args, options)
    words = f"{result['n_areas']} areas are in the layer {result['layer']}; {result['replaced']} were replaced."
    say(options, result, "\n".join([words, *result["notes"]]))


def _next_round(options: argparse.Namespace) -> None:
    before = projects.find(options.project)
    layout = projects.create(absolute([options.new])[0], options.name or projects.summary(before).name)
    args = {"previous": str(before.folder), "post": absolute(options.post), "pre": absolute(options.pre)}
    result = run_job(layout, "next_round", args, options)
    words = f"Round {result['round']} is in {layout.folder}: {result['n']} buildings, {result['carried']} answers to be confirmed."
    words += (
        f"\nChanges will be told from {result['compared_with']} of {before.folder.name}." if result["compared_with"] else ""
    )
    say(options, {**result, "project": str(layout.folder)}, words)


def _export_labels(options: argparse.Namespace) -> None:
    from pu_geo.tasks.annotate.export_labels import export_labels

    result = export_labels(projects.find(options.project), options.out)
    words = f"Wrote {result['n']} labels to {result['out']}, and {result['n_events']} events to {result['events_out']}."
    say(options, result, words)


COMMANDS = {
    "add-areas": _add_areas,
    "audit": _audit,
    "choose": _choose,
    "export": _export,
    "publish": _publish,
    "export-labels": _export_labels,
    "next-round": _next_round,
}
