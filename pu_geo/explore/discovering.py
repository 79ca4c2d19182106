"""Further kinds of damage: search for them, read what is proposed, and name, merge and drop the proposed groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from pu_geo import wording
from pu_geo.errors import ProjectError
from pu_geo.records import DAMAGE_CLASSES, Facts
from pu_geo.runs import training
from pu_geo.store import chosen, discoveries, grades, labels, population, store
from pu_geo.store.decisions import checked_name
from pu_geo.store.discoveries import Discovery, Review
from pu_geo.store.layout import Layout

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
        facts: see `explore.discover_job`.
        n_new_answers: label events since it was made.
    """

    id: str
    facts: Facts
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
    words += f", yet {wording.listed(list(map(str, close)))} would separate them as clearly" if close else ""
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


def why_not(layout: Layout) -> str | None:
    """Return why no discovery can start yet, in words, or None."""
    return training.why_not(layout, "ncl")


def titles(layout: Layout) -> dict[str, str]:
    """Return all discoveries, newest first: id -> what people read."""
    found = discoveries.all_facts(layout)
    return {
        str(facts["discovery"]): f"{facts['n_groups']} groups, {wording.day_and_time(facts['made_at'])}" for facts in found
    }


def proposal(layout: Layout, discovery_id: str = "latest", run_id: str | None = None) -> Proposal:
    """Return the groups of a discovery with the answers of people on their buildings until now.

    Args:
        run_id: of the run whose mean score each group gets.

    Raises:
        ProjectError: if there is no such discovery.
    """
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db:
        answers, review, newest = labels.current(db), discoveries.review_of(db, found.id), labels.last_event(db)
    scores: dict[str, float] = {}
    if run_id is not None:
        scores = population.of_run(layout, chosen.run(layout, run_id)).score_of()
    groups = [_group(found, numbers, answers, review, scores) for numbers in review.joined(found.facts["n_groups"])]
    return Proposal(found.id, found.facts, groups, newest - int(found.facts["at_event"]))


def _group(found: Discovery, numbers: tuple[int, ...], answers: Facts, review: Review, scores: Mapping[str, float]) -> Group:
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
        _name_of(review, numbers),
        ids,
        n_positive=sum(event.label == "positive" for event in events),
        n_not_damaged=sum(event.label == "not_damaged" for event in events),
        types=dict(types.most_common()),
        stability=stability,
        score=float(np.mean(own)) if own else None,
        central=[building for building in interleaved if building is not None],
        is_dropped=set(numbers) <= review.dropped,
    )


def _name_of(review: Review, numbers: Iterable[int]) -> str:
    return next((review.names[number] for number in numbers if number in review.names), "")


def types(layout: Layout) -> dict[str, Facts]:
    """Return the named types by name: {"discovery", "groups", "building_ids"} each."""
    return store.call(layout, discoveries.types)


GRADES = (*DAMAGE_CLASSES, "no visible damage", "not assessed")
"""Words that grade damage, which only people do, building by building."""


@contextmanager
def _changing(layout: Layout, discovery_id: str, analyst: str) -> Iterator[tuple[Discovery, Review]]:
    """Yield a discovery, and what people made of it; what that is changed to is one act at the end."""
    found = discoveries.load(layout, discovery_id)
    with store.connect(layout) as db, store.transaction(db):
        yield found, (review := discoveries.review_of(db, found.id))
        discoveries.decide(db, found, review, analyst=analyst)


def name_group(layout: Layout, discovery_id: str, number: int, name: str, *, analyst: str) -> None:
    """Name a group, with those merged with it. A name that other groups of the discovery have is for all of them then.

    Of another discovery, a name moves over to this group. A group that had another name loses it; an empty name only does
    that.

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
    with _changing(layout, discovery_id, analyst) as (found, review):
        _rename(review, _whole(found, review, number), text)


def _rename(review: Review, numbers: Iterable[int], name: str) -> None:
    for number in numbers:
        review.names.pop(number, None)
        if name:
            review.names[number] = name


def merge_groups(layout: Layout, discovery_id: str, numbers: Sequence[int], *, analyst: str) -> None:
    """Merge groups into one. A name that one of them has is for all; of several the first one's is.

    Raises:
        ProjectError: if they are not two or more groups of the discovery.
    """
    with _changing(layout, discovery_id, analyst) as (found, review):
        parts = {_whole(found, review, number) for number in numbers}
        if len(parts) < 2:
            raise ProjectError("Fewer than two groups were chosen.", "Choose two or more that are one kind.")
        every = sorted(number for part in parts for number in part)
        review.merged = [*(each for each in review.merged if not set(each) & set(every)), every]
        review.dropped.difference_update(every)
        _rename(review, every, _name_of(review, numbers))


def split_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Separate the groups of a merged one; they keep its name.

    Raises:
        ProjectError: if there is no such group, or it is not merged.
    """
    with _changing(layout, discovery_id, analyst) as (found, review):
        if len(_whole(found, review, number)) < 2:
            raise ProjectError(f"Group {number + 1} is not merged.", "There is nothing to split.")
        review.merged = [each for each in review.merged if number not in each]


def drop_group(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Drop a group and its name."""
    with _changing(layout, discovery_id, analyst) as (found, review):
        numbers = _whole(found, review, number)
        _rename(review, numbers, "")
        review.dropped.update(numbers)


def put_back(layout: Layout, discovery_id: str, number: int, *, analyst: str) -> None:
    """Show a dropped group again."""
    with _changing(layout, discovery_id, analyst) as (found, review):
        review.dropped.difference_update(_whole(found, review, number))


def last_act(layout: Layout, discovery_id: str) -> int | None:
    """Return the number of the last act about a discovery that counts; None if there is none."""
    act = store.call(layout, discoveries.last_act, discovery_id)
    return None if act is None else act.decision


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
