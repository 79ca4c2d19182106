"""What people make of proposed groups: name, merge and drop them. Every act is stored beside the ones before, and undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pu_geo.errors import ProjectError
from pu_geo.project import discoveries, store
from pu_geo.project.decisions import Decision, checked_name
from pu_geo.project.discoveries import Discovery, Review
from pu_geo.project.layout import Layout
from pu_geo.services.explore.discovering import names_of

GRADES = ("destroyed", "major", "minor", "possible", "no visible damage", "not assessed")
"""Words that grade damage, which only people do, building by building."""
Changes = dict[str | None, Mapping[str, Any] | None]


def name_group(layout: Layout, discovery_id: str, number: int, name: str, *, analyst: str) -> None:
    """Name a group, with those merged with it. A name that other groups of the discovery have is for all of them then.

    Of another discovery, a name moves over to this group. A group that had another name loses it.

    Raises:
        ProjectError: if the name cannot be, or there is no such group.
    """
    text = checked_name(name)
    if text.lower().replace("_", " ") in GRADES:
        raise ProjectError(
            f"{text!r} is a grade of damage; grades are given by people, building by building.",
            "Name what the buildings of the group have in common, such as tarps or silted roofs.",
            kind="name",
        )
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        numbers = _whole(found, discoveries.review_of(db, found.id), number)
        changes = _without(found, discoveries.types(db), numbers)
        before = changes.get(text) or next((each.facts for n, each in discoveries.types(db).items() if n == text), None)
        others = before["groups"] if before and before["discovery"] == found.id else ()
        changes[text] = _type_facts(found, {*numbers, *others})
        discoveries.decide(db, found.id, changes, analyst=analyst)


def unname_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Take a group's name away."""
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        numbers = _whole(found, discoveries.review_of(db, found.id), number)
        changes = _without(found, discoveries.types(db), numbers)
        if changes:
            discoveries.decide(db, found.id, changes, analyst=analyst)


def merge_groups(layout: Layout, discovery_id: str, numbers: Sequence[int], *, analyst: str) -> None:
    """Let groups count as one. A name that one of them has is for all; of several the first one's is.

    Raises:
        ProjectError: if they are not two or more groups of the discovery.
    """
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        review = discoveries.review_of(db, found.id)
        every = sorted({each for number in numbers for each in _whole(found, review, number)})
        if len(every) < 2 or len({_whole(found, review, number) for number in numbers}) < 2:
            raise ProjectError("Fewer than two groups were chosen.", "Choose two or more that are one kind.")
        others = [each for each in review.merged if not set(each) & set(every)]
        changes: Changes = {None: _review_facts([*others, every], set(review.dropped) - set(every))}
        named = discoveries.types(db)
        names = names_of(found, named)
        if name := next((names[number] for number in numbers if number in names), ""):
            changes |= _without(found, named, every)
            kept = set(named[name].facts["groups"]) | set(every)
            changes[name] = _type_facts(found, kept)
        discoveries.decide(db, found.id, changes, analyst=analyst)


def split_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Take a merged group apart again; its parts keep its name.

    Raises:
        ProjectError: if there is no such group, or it is not merged.
    """
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        review = discoveries.review_of(db, found.id)
        if len(_whole(found, review, number)) < 2:
            raise ProjectError(f"Group {number + 1} is not merged.", "There is nothing to split.")
        merged = [each for each in review.merged if number not in each]
        discoveries.decide(db, found.id, {None: _review_facts(merged, review.dropped)}, analyst=analyst)


def drop_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Put a group aside; a name that it has is taken away."""
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        review = discoveries.review_of(db, found.id)
        numbers = _whole(found, review, number)
        changes = _without(found, discoveries.types(db), numbers)
        changes[None] = _review_facts(review.merged, {*review.dropped, *numbers})
        discoveries.decide(db, found.id, changes, analyst=analyst)


def put_back(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Show a dropped group again."""
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        review = discoveries.review_of(db, found.id)
        left = set(review.dropped) - set(_whole(found, review, number))
        discoveries.decide(db, found.id, {None: _review_facts(review.merged, left)}, analyst=analyst)


def last_act(layout: Layout, discovery_id: str) -> int | None:
    """Return the number of the last act about a discovery that stands; None if there is none."""
    with store.connect(layout) as db:
        return discoveries.last_act(db, discovery_id)


def undo(layout: Layout, discovery_id: str, *, analyst: str, decision: int | None = None) -> bool:
    """Take back the last act about a discovery; say whether there was one.

    Args:
        decision: its number, as `last_act` gave it; None for whichever is the last one by now.

    Raises:
        ProjectError: if another act is the last one by now, or one of its names was given to something else since.
    """
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        return discoveries.undo(db, found.id, analyst=analyst, decision=decision)


def _whole(found: Discovery, review: Review, number: int) -> tuple[int, ...]:
    """Return a group's number with those merged with it."""
    joined = review.joined(found.facts["n_groups"])
    numbers = next((each for each in joined if number in each), None)
    if numbers is None:
        raise ProjectError(
            f"There is no group {number + 1}; {found.id} has groups 1 to {found.facts['n_groups']}.", "Name one of them."
        )
    return numbers


def _without(found: Discovery, named: Mapping[str, Decision], numbers: Sequence[int]) -> Changes:
    """Return the changes that take groups of a discovery out of every named type."""
    changes: Changes = {}
    for name, each in named.items():
        if each.facts["discovery"] == found.id and set(each.facts["groups"]) & set(numbers):
            left = set(each.facts["groups"]) - set(numbers)
            changes[name] = _type_facts(found, left) if left else None
    return changes


def _type_facts(found: Discovery, numbers: Iterable[int]) -> dict[str, Any]:
    groups = sorted(numbers)
    return {"discovery": found.id, "groups": groups, "building_ids": found.members(groups)}


def _review_facts(merged: Sequence[Sequence[int]], dropped: Iterable[int]) -> dict[str, Any]:
    return {"merged": [list(each) for each in merged], "dropped": sorted(dropped)}
