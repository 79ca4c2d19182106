"""Further kinds of damage: search for them, read what is proposed, and name, merge and drop the proposed groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from pu_geo import jobs
from pu_geo.errors import ProjectError
from pu_geo.methods import catalog
from pu_geo.project import discoveries, grades, labels, store
from pu_geo.project.decisions import Decision, checked_name
from pu_geo.project.discoveries import Discovery, Review
from pu_geo.project.layout import Layout
from pu_geo.records import DAMAGE_CLASSES
from pu_geo.services.project import choices, population
from pu_geo.services.train.training import data_summary
from pu_geo.wording import day_and_time

N_SEEDS = 3
_READINGS = {"memberships": "NCL's head of new clusters", "embeddings": "k-means on NCL's embeddings"}
_CLOSE = 0.02  # of a silhouette
_STABILITIES = {  # from which overlap on, after Hennig 2007
    0.75: "stable", 0.6: "fairly stable", 0.5: "weak: its border moves from training to training",
    0.0: "unstable: check it twice, other trainings separate these buildings",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """One proposed group as people see it; several that were merged count as one.

    Attributes:
        numbers: which groups of the discovery it is made of.
        name: of the type that it was named as, "" without one.
        building_ids: all of its buildings.
        n_positive, n_not_damaged: of them, by people's answers.
        types: kinds of damage that people saw in it, with how often, the most frequent first.
        stability: mean overlap with the group most like it in each training, 0..1; None where nothing tells.
        score: mean score of a run; None without one.
        central: unlabeled buildings that stand for it, the most central first.
        is_dropped: dropped by a person.
    """

    numbers: tuple[int, ...]
    name: str
    building_ids: Sequence[str]
    n_positive: int
    n_not_damaged: int
    types: Mapping[str, int]
    stability: float | None
    score: float | None
    central: Sequence[str]
    is_dropped: bool

    @property
    def title(self) -> str:
        """Its number, as people count: "3", or "2+5"."""
        return "+".join(str(number + 1) for number in self.numbers)

    @property
    def stability_words(self) -> str:
        """How sure it is that other trainings find it, in words."""
        if self.stability is None:
            return "one training alone: nothing tells whether another finds it"
        share = f"{self.stability:.0%} overlap between trainings"
        return next(f"{words} ({share})" for least, words in _STABILITIES.items() if self.stability >= least)


@dataclass(frozen=True)
class Proposal:
    """The groups of a discovery, large ones first, as they are now.

    Attributes:
        facts: see `tasks.explore.discover`.
        n_new_answers: label events since it was made.
    """

    id: str
    facts: Mapping[str, Any]
    groups: Sequence[Group]
    n_new_answers: int

    @property
    def shown(self) -> list[Group]:
        """Groups that were not dropped."""
        return [group for group in self.groups if not group.is_dropped]

    @property
    def dropped(self) -> list[Group]:
        """Groups that were."""
        return [group for group in self.groups if group.is_dropped]

    @property
    def curve(self) -> dict[int, float]:
        """Number of groups -> mean silhouette, before any training; higher parts the buildings more clearly."""
        return {int(k): float(value) for k, value in self.facts["silhouettes"].items()}


def number_words(found: Proposal) -> str:
    """Return how the number of groups was chosen, and how far the trainings agree."""
    facts, curve = found.facts, found.curve
    number, suggested = facts["n_groups"], facts["suggested"]
    if number == suggested:
        words = f"{number} groups are what the embeddings suggest"
    else:
        words = f"{number} groups were asked for; the embeddings suggest {suggested}"
    close = [k for k, value in curve.items() if k != suggested and value > curve[suggested] - _CLOSE]
    words += f", yet {_or(close)} would separate them as clearly" if close else ""
    agree = facts["adjusted_rand"]
    agreement = (
        "" if agree is None else f" Two trainings agree {agree:.0%} beyond chance on which buildings belong together."
    )
    return f"{words}.{agreement}"


def reading_words(found: Proposal) -> str:
    """Return how the trainings were read, and why so."""
    reading, agree = str(found.facts["reading"]), found.facts["agreement"]
    words = f"Groups are read from {_READINGS[reading]}"
    other = next(each for each in _READINGS if each != reading)
    if not agree:
        return f"{words}; one training alone cannot tell whether {_READINGS[other]} would be steadier."
    values = f"{agree[reading]:.2f} against {agree[other]:.2f}, where 1 is the same groups and 0 is chance"
    return f"{words}: they change less from training to training than those from {_READINGS[other]} ({values})."


def counted(n: int, noun: str) -> str:
    """Return "1 building", "1,200 buildings"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _or(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + (" or " if len(numbers) > 1 else "") + str(numbers[-1])


def why_not(layout: Layout) -> str | None:
    """Return why no discovery can start yet, in words, or None."""
    data, fewest = data_summary(layout), catalog.card("ncl").min_positives
    if not data.n_chips:
        return "There are no chips yet: cut them on the Imagery page."
    if data.n_positive < fewest:
        return f"The search for damage types needs at least {fewest} damaged buildings; this project has {data.n_positive}."
    return None


def start(layout: Layout, *, n_groups: int | None = None, n_seeds: int = N_SEEDS, seed: int = 0) -> str:
    """Start the job that proposes groups; return its id. Raises ProjectError if it cannot start."""
    if problem := why_not(layout):
        raise ProjectError(problem, "Do that first.", kind="discovery")
    return jobs.start(layout, "discover", {"seed": seed, "n_seeds": n_seeds, "n_groups": n_groups})


def titles(layout: Layout) -> dict[str, str]:
    """Return all discoveries, newest first: id -> what people read."""
    found = discoveries.all_facts(layout)
    return {str(facts["discovery"]): f"{facts['n_groups']} groups, {day_and_time(facts['made_at'])}" for facts in found}


def proposal(layout: Layout, discovery_id: str = "latest", run_id: str | None = None) -> Proposal:
    """Return the groups of a discovery with the answers of people on their buildings until now.

    Args:
        run_id: of the run whose mean score each group gets.

    Raises:
        ProjectError: if there is no such discovery.
    """
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db:
        answers, review, named = labels.current(db), discoveries.review_of(db, found.id), discoveries.types(db)
        newest = labels.last_event(db)
    scores: dict[str, float] = {}
    if run_id is not None:
        scores = population.of_run(layout, choices.run(layout, run_id)).score_of()
    names = names_of(found, named)
    groups = [_group(found, numbers, answers, review, names, scores) for numbers in review.joined(found.facts["n_groups"])]
    return Proposal(found.id, found.facts, groups, newest - int(found.facts["at_event"]))


def names_of(found: Discovery, named: Mapping[str, Decision]) -> dict[int, str]:
    """Return group -> the name that it has, of the groups of a discovery."""
    own = ((name, each.facts) for name, each in named.items() if each.facts["discovery"] == found.id)
    return {group: name for name, facts in own for group in facts["groups"]}


def _group(
    found: Discovery, numbers: tuple[int, ...], answers: Mapping[str, Any], review: Review, names: Mapping[int, str],
    scores: Mapping[str, float],
) -> Group:  # fmt: skip
    parts = [found.facts["groups"][number] for number in numbers]
    ids = found.members(numbers)
    events = [answers[building] for building in ids if building in answers]
    types = Counter(kind for event in events if event.label == "positive" for kind in event.damage_types)
    known = [(part["jaccard"], part["size"]) for part in parts if part["jaccard"] is not None]
    is_known = known and len(found.facts["seeds"]) > 1
    stability = sum(j * n for j, n in known) / sum(n for _, n in known) if is_known else None
    own = [scores[building] for building in ids if building in scores]
    interleaved = chain.from_iterable(zip_longest(*(part["central"] for part in parts)))
    return Group(
        numbers,
        next((names[number] for number in numbers if number in names), ""),
        ids,
        n_positive=sum(event.label == "positive" for event in events),
        n_not_damaged=sum(event.label == "not_damaged" for event in events),
        types=dict(types.most_common()),
        stability=stability,
        score=float(np.mean(own)) if own else None,
        central=[building for building in interleaved if building is not None],
        is_dropped=set(numbers) <= set(review.dropped),
    )


def types(layout: Layout) -> dict[str, Decision]:
    """Return the named types by name; facts: "discovery", "groups", "building_ids"."""
    return store.call(layout, discoveries.types)


GRADES = (*DAMAGE_CLASSES, "no visible damage", "not assessed")
"""Words that grade damage, which only people do, building by building."""
Changes = dict[str | None, Mapping[str, Any] | None]


@contextmanager
def _changing(
    layout: Layout, discovery_id: str, analyst: str
) -> Iterator[tuple[Discovery, Review, Mapping[str, Decision], Changes]]:
    """Yield a discovery, its review and the named types as they stand, and a mapping; what it is given is one act at the end."""
    found, changes = discoveries.load(layout, discovery_id), Changes()
    with store.connect(layout) as db, store.transaction(db):
        yield found, discoveries.review_of(db, found.id), discoveries.types(db), changes
        discoveries.decide(db, found.id, changes, analyst=analyst)


def name_group(layout: Layout, discovery_id: str, number: int, name: str, *, analyst: str) -> None:
    """Name a group, with those merged with it. A name that other groups of the discovery have is for all of them then.

    Of another discovery, a name moves over to this group. A group that had another name loses it; an empty name only does that.

    Raises:
        ProjectError: if the name cannot be, or there is no such group.
    """
    text = name.strip() and checked_name(name)
    own = {one.name.lower() for one in store.call(layout, grades.known)}
    if text.lower().replace("_", " ") in {*GRADES, *own}:
        raise ProjectError(
            f"{text!r} is a grade of damage; grades are given by people, building by building.",
            "Name what the buildings of the group have in common, such as tarps or silted roofs.",
            kind="name",
        )
    with _changing(layout, discovery_id, analyst) as (found, review, named, changes):
        numbers = _whole(found, review, number)
        changes |= _without(found, named, numbers)
        if not text:
            return
        before = changes.get(text) or (named[text].facts if text in named else None)
        others = before["groups"] if before and before["discovery"] == found.id else ()
        changes[text] = _type_facts(found, {*numbers, *others})


def merge_groups(layout: Layout, discovery_id: str, numbers: Sequence[int], *, analyst: str) -> None:
    """Merge groups into one. A name that one of them has is for all; of several the first one's is.

    Raises:
        ProjectError: if they are not two or more groups of the discovery.
    """
    with _changing(layout, discovery_id, analyst) as (found, review, named, changes):
        every = sorted({each for number in numbers for each in _whole(found, review, number)})
        if len(every) < 2 or len({_whole(found, review, number) for number in numbers}) < 2:
            raise ProjectError("Fewer than two groups were chosen.", "Choose two or more that are one kind.")
        others = [each for each in review.merged if not set(each) & set(every)]
        changes[None] = _review_facts([*others, every], set(review.dropped) - set(every))
        names = names_of(found, named)
        if name := next((names[number] for number in numbers if number in names), ""):
            changes |= _without(found, named, every)
            changes[name] = _type_facts(found, set(named[name].facts["groups"]) | set(every))


def split_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Separate the groups of a merged one; they keep its name.

    Raises:
        ProjectError: if there is no such group, or it is not merged.
    """
    with _changing(layout, discovery_id, analyst) as (found, review, _, changes):
        if len(_whole(found, review, number)) < 2:
            raise ProjectError(f"Group {number + 1} is not merged.", "There is nothing to split.")
        changes[None] = _review_facts([each for each in review.merged if number not in each], review.dropped)


def drop_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Drop a group and its name."""
    with _changing(layout, discovery_id, analyst) as (found, review, named, changes):
        numbers = _whole(found, review, number)
        changes |= _without(found, named, numbers)
        changes[None] = _review_facts(review.merged, {*review.dropped, *numbers})


def put_back(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Show a dropped group again."""
    with _changing(layout, discovery_id, analyst) as (found, review, _, changes):
        left = set(review.dropped) - set(_whole(found, review, number))
        changes[None] = _review_facts(review.merged, left)


def last_act(layout: Layout, discovery_id: str) -> int | None:
    """Return the number of the last act about a discovery that counts; None if there is none."""
    return store.call(layout, discoveries.last_act, discovery_id)


def undo(layout: Layout, discovery_id: str, *, analyst: str, decision: int | None = None) -> bool:
    """Undo the last act about a discovery; return whether there was one. See `discoveries.undo`."""
    found = discoveries.load(layout, discovery_id)
    return store.call(layout, discoveries.undo, found.id, analyst=analyst, decision=decision)


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
