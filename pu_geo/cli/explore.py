"""Verbs of the Explore screen: the look, its two questions, and further kinds of damage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from pu_geo.answers import labeling
from pu_geo.cli.drawn import draw
from pu_geo.cli.run import Analyst, Json, Project, Screen, repeated, run_job, show
from pu_geo.errors import PuGeoError
from pu_geo.explore import discovering, looks, questions
from pu_geo.explore.actions import Discover, Look
from pu_geo.explore.discovering import Group
from pu_geo.lifecycle import projects
from pu_geo.store.layout import Layout
from pu_geo.wording import plural

screen = Screen("Explore")


@screen.verb("similar", "joplin.pugeo --building b000012 --count 20")
def similar(
    project: Project,
    *,
    building: Annotated[list[str], repeated("ID...", "one building or several; without one all that are damaged")],
    count: Annotated[int, typer.Option(min=1, help="how many to list")] = questions.MOST_ALIKE,
    run: Annotated[str, typer.Option(metavar="ID", help="whose scores count; without one the live ranking's")] = "",
    as_json: Json = False,
) -> None:
    """List where else it looks like some buildings: those that nobody answered, by look and score together."""
    layout = _with_look(project, as_json)
    _show_asked(questions.elsewhere(layout, building, run=run, count=count), as_json)


@screen.verb("label-errors", "joplin.pugeo --json")
def label_errors(
    project: Project,
    *,
    count: Annotated[int, typer.Option(min=1, help="how many to list")] = questions.MOST_DOUBTED,
    as_json: Json = False,
) -> None:
    """List the answers that may be wrong, the most doubtful first."""
    _show_asked(questions.wrong(_with_look(project, as_json), count=count), as_json)


def _with_look(project: str, as_json: bool) -> Layout:
    layout = projects.find(project)
    if looks.feature_set_of(layout) and not looks.is_drawn(layout, looks.LOOK):
        run_job(layout, Look(), as_json)
    return layout


def _show_asked(asked: questions.Asked, as_json: bool) -> None:
    rows = [{"building_id": one, "note": note} for one, note in zip(asked.ids, asked.notes, strict=True)]
    lines = [asked.title, *(f"{one}: {note}" for one, note in zip(asked.ids, asked.notes, strict=True))]
    show({"question": asked.title, "buildings": rows}, "\n".join(lines if rows else ["Nothing is left to answer."]), as_json)


@draw(screen, "look", Look, "joplin.pugeo")
def _look_words(layout: Layout, result: Mapping[str, Any]) -> str:
    return f"{plural(result['n'], 'building')}. {looks.words_of(layout, str(result['source']))}"


def _discovered(layout: Layout, result: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**result, "groups": _group_rows(discovering.proposal(layout, str(result["discovery"])).groups)}


@draw(screen, "discover", Discover, "joplin.pugeo --groups 6", facts=_discovered)
def _discovery_words(layout: Layout, result: Mapping[str, Any]) -> str:
    found = discovering.proposal(layout, str(result["discovery"]))
    known = ", ".join(f"{n} {name}" for name, n in found.facts["known"].items())
    lines = [
        f"{found.id}: {result['n_buildings']} buildings in {result['n_groups']} groups, by {known}, in "
        f"{result['seconds']} s.",
        discovering.number_words(found),
        discovering.reading_words(found),
        *map(_group_line, found.groups),
        f"Look at them on the Explore page; name one with `pu-geo types {layout.folder} --name GROUP=NAME`.",
    ]
    return "\n".join(lines)


@screen.verb("types", "joplin.pugeo", "joplin.pugeo --name 3=tarps", "joplin.pugeo --merge 2,5")
def types(
    project: Project,
    *,
    of: Annotated[str, typer.Option(metavar="ID", help="the discovery; latest is the newest")] = "latest",
    name: Annotated[list[str], repeated("GROUP=NAME", "name a group; GROUP= takes the name away")],
    merge: Annotated[str | None, typer.Option(metavar="G,G", help="let groups count as one")] = None,
    split: Annotated[int | None, typer.Option(min=1, metavar="GROUP", help="undo the merging of a group")] = None,
    drop: Annotated[int | None, typer.Option(min=1, metavar="GROUP", help="put a group aside")] = None,
    put_back: Annotated[int | None, typer.Option(min=1, metavar="GROUP", help="show a dropped group again")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="take back the last of these")] = False,
    analyst: Analyst = None,
    as_json: Json = False,
) -> None:
    """List the proposed groups, and name, merge or drop them."""
    if [bool(name), merge is not None, split is not None, drop is not None, put_back is not None, undo].count(True) > 1:
        raise PuGeoError("One thing is done at a time: --name, --merge, --split, --drop, --put-back or --undo.", "Name one.")
    layout = projects.find(project)
    who: dict[str, Any] = {"analyst": analyst or labeling.default_analyst()}
    for pair in name:
        number, _, words = pair.partition("=")
        if not (number.strip().isdigit() and "=" in pair):
            raise PuGeoError(f"--name {pair!r} is not of the form GROUP=NAME.", "Write, for example, --name 3=tarps.")
        discovering.name_group(layout, of, int(number) - 1, words, **who)
    if merge:
        numbers = merge.split(",")
        if not all(number.strip().isdigit() for number in numbers):
            raise PuGeoError(f"--merge {merge!r} names no groups.", "Write, for example, --merge 2,5.")
        discovering.merge_groups(layout, of, [int(number) - 1 for number in numbers], **who)
    for act, group in ((discovering.split_group, split), (discovering.drop_group, drop), (discovering.put_back, put_back)):
        if group:
            act(layout, of, group - 1, **who)
    if undo and not discovering.undo(layout, of, **who):
        raise PuGeoError(
            "Nothing was named, merged or dropped that could be taken back.", "`pu-geo types` lists the groups."
        )
    _list_types(layout, of, as_json)


def _list_types(layout: Layout, of: str, as_json: bool) -> None:
    found = discovering.proposal(layout, of)
    named = {name: len(each["building_ids"]) for name, each in discovering.types(layout).items()}
    lines = [f"{found.id}, {len(found.shown)} groups:", *map(_group_line, found.groups)]
    if named:
        lines.append("Named types: " + ", ".join(f"{name} ({n} buildings)" for name, n in named.items()))
    show({"discovery": found.id, "groups": _group_rows(found.groups), "types": named}, "\n".join(lines), as_json)


def _group_line(group: Group) -> str:
    types = "".join(f", {name} {n}" for name, n in group.types.items())
    size = plural(len(group.building_ids), "building")
    state = f" · {group.name}" if group.name else " · dropped" if group.is_dropped else ""
    return f"{group.title:>6}  {size}, {group.n_positive:,} damaged{types}{state}; {group.stability_words}"


def _group_rows(groups: Sequence[Group]) -> list[dict[str, object]]:
    return [
        {
            "groups": [number + 1 for number in group.numbers], "name": group.name or None, "size": len(group.building_ids),
            "n_positive": group.n_positive, "n_not_damaged": group.n_not_damaged, "types": dict(group.types),
            "stability": group.stability, "is_dropped": group.is_dropped, "central": list(group.central[:8]),
        }
        for group in groups
    ]  # fmt: skip
