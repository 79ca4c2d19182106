"""The verbs `discover` and `types`: look for further kinds of damage, and say what they are."""

from __future__ import annotations

import argparse
from typing import Any

from pu_geo.cli.run import run_job, say
from pu_geo.errors import PuGeoError
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.explore import discovering
from pu_geo.services.explore.discovering import Group
from pu_geo.services.project import projects


def _discover(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    asked = discovering.arguments(n_groups=options.groups, n_seeds=options.seeds, seed=options.seed)
    result = run_job(layout, "discover", {**asked, "preset": options.preset}, options)
    found = discovering.proposal(layout, str(result["discovery"]))
    known = ", ".join(f"{n} {name}" for name, n in found.facts["known"].items())
    lines = [
        f"{found.id}: {result['n_buildings']} buildings in {result['n_groups']} groups, by {known}, in {result['seconds']} s.",
        discovering.number_words(found),
        discovering.reading_words(found),
        *_lines(found.groups),
        f"Look at them on the Explore page; name one with `pu-geo types {options.project} --name GROUP=NAME`.",
    ]
    say(options, {**result, "groups": [_told(group) for group in found.groups]}, "\n".join(lines))


def _types(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    _act(layout, options)
    found = discovering.proposal(layout, options.of)
    named = {name: len(each.facts["building_ids"]) for name, each in discovering.types(layout).items()}
    lines = [f"{found.id}, {len(found.shown)} groups:", *_lines(found.groups)]
    if named:
        lines.append("Named types: " + ", ".join(f"{name} ({n} buildings)" for name, n in named.items()))
    say(
        options,
        {"discovery": found.id, "groups": [_told(group) for group in found.groups], "types": named},
        "\n".join(lines),
    )


def _act(layout: Layout, options: argparse.Namespace) -> None:
    who: dict[str, Any] = {"analyst": options.analyst or labeling.default_analyst()}
    for pair in options.name:
        number, _, name = pair.partition("=")
        if not (number.strip().isdigit() and "=" in pair):
            raise PuGeoError(f"--name {pair!r} is not of the form GROUP=NAME.", "Write, for example, --name 3=tarps.")
        if name.strip():
            discovering.name_group(layout, options.of, int(number) - 1, name, **who)
        else:
            discovering.unname_group(layout, options.of, int(number) - 1, **who)
    if options.merge:
        numbers = options.merge.split(",")
        if not all(number.strip().isdigit() for number in numbers):
            raise PuGeoError(f"--merge {options.merge!r} names no groups.", "Write, for example, --merge 2,5.")
        discovering.merge_groups(layout, options.of, [int(number) - 1 for number in numbers], **who)
    acts = {"split": discovering.split_group, "drop": discovering.drop_group, "put_back": discovering.put_back}
    for option, act in acts.items():
        if number := getattr(options, option):
            act(layout, options.of, number - 1, **who)
    if options.undo and not discovering.undo(layout, options.of, **who):
        raise PuGeoError(
            "Nothing was named, merged or dropped that could be taken back.", "`pu-geo types` lists the groups."
        )


def _lines(groups: Any) -> list[str]:
    return [_line(group) for group in groups]


def _line(group: Group) -> str:
    types = "".join(f", {name} {n}" for name, n in group.types.items())
    size = discovering.counted(len(group.building_ids), "building")
    state = f" · {group.name}" if group.name else " · dropped" if group.is_dropped else ""
    return f"{group.title:>6}  {size}, {discovering.counted(group.n_positive, 'positive')}{types}{state}; {group.stability_words}"


def _told(group: Group) -> dict[str, object]:
    return {
        "groups": [number + 1 for number in group.numbers], "name": group.name or None, "size": len(group.building_ids),
        "n_positive": group.n_positive, "n_not_damaged": group.n_not_damaged, "types": dict(group.types),
        "stability": group.stability, "is_dropped": group.is_dropped, "central": list(group.central[:8]),
    }  # fmt: skip


COMMANDS = {"discover": _discover, "types": _types}
