"""Types of damage that a run may learn: those given on Annotate, or the project's grades.

A building may have several types. Of each type a person answered that a damaged building has it, that it has not, or
nothing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import TrainingError
from pu_geo.records import LabelEvent, PUSet
from pu_geo.store import grades, labels
from pu_geo.wording import plural

ANSWERS, GRADES = "answers", "grades"
"""Where types come from."""
FEWEST = 2
"""A type that fewer of the buildings learned from have is not learned: one building shows nothing that types share."""
HAS, HAS_NOT, NOBODY_SAID = 1, 0, -1
Types = NDArray[np.int8]


@dataclass(frozen=True)
class DamageTypes:
    """The types that a run learns, of N buildings.

    Attributes:
        source: `ANSWERS` or `GRADES`.
        labels: int8 [N, c]: 1 the building has the type, 0 it was answered and has not, -1 nobody said. Undamaged buildings
            have 0 in all columns; unlabeled ones, those left out, and damaged ones without a type -1.
        names: of the c types, the most frequent first; of a scale the mildest first.
        is_ordinal: whether the types are a scale: "at least Minor", "at least Major", ...
        grades: ids of the grades that the types of a scale are; () else.
        kinds: row -> one kind, for methods that take one, see `rarest_of_each`; of damaged buildings with a type that is
            learned.
        n_several: buildings with several types.
        notes: what to know of them, a sentence each.
    """

    source: str
    kinds: Mapping[int, str]
    labels: Types
    names: tuple[str, ...]
    is_ordinal: bool = False
    grades: tuple[str, ...] = ()
    n_several: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tally:
    """How many damaged buildings have a type, and of how many somebody answered that they have not."""

    name: str
    n_has: int
    n_has_not: int


class _Given(NamedTuple):
    """What damaged buildings were given by one source.

    Attributes:
        names: of the c types, rare ones too, in the order of `DamageTypes`.
        labels: int8 [N, c], as in `DamageTypes`.
        own: row -> the types that it has; of a scale its grade alone.
        grades: ids of the c grades of a scale.
        notes: what to know of them, a sentence each.
    """

    names: Sequence[str]
    labels: Types
    own: Mapping[int, Sequence[str]]
    grades: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def read(db: sqlite3.Connection, pu: PUSet, source: str, *, at_choice: int | None = None) -> DamageTypes:
    """Return the types of the buildings that a run learns from.

    Answers of audits give no types, and neither do clicks that are held out: they are no positives of `pu`.

    Args:
        source: see `DamageTypes`.
        at_choice: the choice up to which the scale of grades counts; all if None.

    Raises:
        TrainingError: if there is no such source, or no type is left to learn.
    """
    given = _given(db, pu, source, at_choice)
    n_has = (given.labels == HAS).sum(axis=0)
    is_kept = n_has >= FEWEST
    rare = ", ".join(f"{name} ({n})" for name, n in zip(given.names, n_has, strict=True) if n < FEWEST)
    if not is_kept.any():
        what = "damage type" if source == ANSWERS else "grade of the scale"
        raise TrainingError(
            f"No {what} was given to {FEWEST} or more of the damaged buildings that would be learned from"
            f"{'; given were ' * bool(rare)}{rare}.",
            "Give more of them on the Annotate page, or train without types.",
            kind="types",
        )
    words = f"Damage types that fewer than {FEWEST} of the buildings learned from have were not learned: {rare}."
    found, is_ordinal = given.labels[:, is_kept], source == GRADES
    return DamageTypes(
        source, rarest_of_each(given.own, FEWEST), found, tuple(compress(given.names, is_kept)), is_ordinal,
        tuple(compress(given.grades, is_kept)), 0 if is_ordinal else int(((found == HAS).sum(axis=1) > 1).sum()),
        (*[words] * bool(rare), *given.notes),
    )  # fmt: skip


def tally(db: sqlite3.Connection, pu: PUSet) -> dict[str, list[Tally]]:
    """Return source -> the types that damaged buildings were given there, rare ones too.

    The most frequent type is first, of a scale the mildest.
    """
    return {source: tally_of(db, pu, source) for source in (ANSWERS, GRADES)}


def kinds_of(db: sqlite3.Connection, pu: PUSet) -> dict[str, Counter[str]]:
    """Return source -> how many damaged buildings count as each type, where each building counts as one: see
    `DamageTypes.kinds`.

    A building of several types counts as the rarest of them, and one with a grade as that grade, not as "at least" it.
    """
    found: dict[str, Counter[str]] = {}
    for source in (ANSWERS, GRADES):
        with suppress(TrainingError):  # nothing is to be learned from there
            found[source] = Counter(read(db, pu, source).kinds.values())
    return found


def tally_of(db: sqlite3.Connection, pu: PUSet, source: str) -> list[Tally]:
    """Return the types that damaged buildings were given by one source, in the order of `tally`."""
    given = _given(db, pu, source)
    n_has, n_has_not = ((given.labels[pu.is_positive] == code).sum(axis=0).tolist() for code in (HAS, HAS_NOT))
    return [Tally(*one) for one in zip(given.names, n_has, n_has_not, strict=True)]


def rarest_of_each(types: Mapping[int, Sequence[str]], fewest: int) -> dict[int, str]:
    """Return one type of each building that has any: the rarest of its own, so that rare types keep their buildings.

    Types that would be left with fewer than `fewest` buildings are dropped, the rarest first: their buildings take another
    one.

    >>> rarest_of_each({0: ["roof"], 1: ["roof"], 2: ["roof", "flooded"], 3: ["roof", "flooded"]}, fewest=2)
    {0: 'roof', 1: 'roof', 2: 'flooded', 3: 'flooded'}
    """
    counts = Counter(name for names in types.values() for name in set(names))
    kept = sorted((name for name, n in counts.items() if n >= fewest), key=lambda name: (counts[name], name))
    while True:
        chosen = {row: one for row, names in types.items() if (one := next((each for each in kept if each in names), None))}
        left = Counter(chosen.values())
        rare = next((name for name in kept if left[name] < fewest), None)
        if rare is None:
            return chosen
        kept.remove(rare)


def answered(db: sqlite3.Connection, pu: PUSet) -> dict[int, tuple[str, ...]]:
    """Return row -> types that it has by the answer that is learned from, of every damaged building."""
    return {row: tuple(dict.fromkeys(event.damage_types)) for row, event in _events(db, pu).items()}


def _given(db: sqlite3.Connection, pu: PUSet, source: str, at_choice: int | None = None) -> _Given:
    if source == ANSWERS:
        has, absent = answered(db, pu), {row: event.absent_types for row, event in _events(db, pu).items()}
        names = _most_frequent_first(has, (name for own in absent.values() for name in own))
        return _Given(names, _labels(pu, names, has, absent), has)
    if source == GRADES:
        return _graded(db, pu, at_choice)
    raise TrainingError(f"Damage types cannot come from {source!r}.", f"Name {ANSWERS} or {GRADES}.", kind="types")


def _most_frequent_first(has: Mapping[int, Sequence[str]], also: Iterable[str] = ()) -> list[str]:
    counts = Counter(name for own in has.values() for name in own)
    return sorted({*counts, *also}, key=lambda name: (-counts[name], name))


def _labels(
    pu: PUSet, names: Sequence[str], has: Mapping[int, Sequence[str]], has_not: Mapping[int, Sequence[str]]
) -> Types:
    found, column = _nothing_said(pu, len(names)), {name: at for at, name in enumerate(names)}
    for value, given in ((HAS_NOT, has_not), (HAS, has)):
        for row, own in given.items():
            found[row, [column[name] for name in own]] = value
    return found


def _events(db: sqlite3.Connection, pu: PUSet) -> dict[int, LabelEvent]:
    """Return row -> the answer that is learned from, of every damaged building; no audit's is."""
    taught = labels.taught(db, pu.at_event)
    found = {row: taught[pu.building_ids[row]] for row in np.flatnonzero(pu.is_positive).tolist()}
    return {row: event for row, event in found.items() if event is not None}


def _nothing_said(pu: PUSet, n_types: int) -> Types:
    """Return labels with what is known without any type, int8 [N, c]: undamaged buildings have none."""
    found = np.full((len(pu.building_ids), n_types), NOBODY_SAID, np.int8)
    found[pu.is_not_damaged] = HAS_NOT
    return found


def _graded(db: sqlite3.Connection, pu: PUSet, at_choice: int | None) -> _Given:
    """Return the project's grades, which are a scale; nothing where no building has one of it."""
    scale = [one for one in reversed(grades.known(db, at_choice=at_choice)) if one.is_offered]
    place = {one.id: at for at, one in enumerate(scale)}
    every = {row: event.grade for row, event in _events(db, pu).items() if event.grade}
    given = {row: place[grade] for row, grade in every.items() if grade in place}
    if not given:
        return _Given((), _nothing_said(pu, 0), {})
    notes: tuple[str, ...] = ()
    names = [f"at least {one.name}" for one in scale]
    if n_ungraded := int(pu.is_positive.sum()) - len(given):
        n_off = len(every) - len(given)
        were = plural(n_ungraded, "damaged building was", "damaged buildings were")
        off = f" ({n_off:,} of them graded by a grade that is not on the scale)" if n_off else ""
        notes = (f"{were} learned without a grade{off}: as {names[0]}, and as unknown beyond.",)
    exact = {row: (scale[at].name,) for row, at in given.items()}
    return _Given(names, at_least(pu, given, len(names)), exact, [one.id for one in scale], notes)


def at_least(pu: PUSet, given: Mapping[int, int], n_types: int) -> Types:
    """Return the columns "at least X", int8 [N, c]; a damaged building without a grade is at least the mildest, more nobody
    said.
    """
    found = _nothing_said(pu, n_types)
    found[pu.is_positive, 0] = HAS
    for row, place in given.items():
        found[row] = np.where(np.arange(n_types) <= place, HAS, HAS_NOT)
    return found
