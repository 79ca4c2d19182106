"""Types of damage that a run may learn: those given on Annotate, the project's grades, or an attribute of the footprints.

A building may have several types. Of each type a person answered that a damaged building has it, that it has not, or
nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import TrainingError
from pu_geo.records import LabelEvent, PUSet
from pu_geo.store import grades, labels
from pu_geo.store.grades import Grade
from pu_geo.wording import plural

ANSWERS, GRADES = "answers", "grades"
"""Where types come from; any other name is that of an attribute of the footprints."""
FEWEST = 2
"""A type that fewer of the buildings learned from have is not learned: one building shows nothing that types share."""
HAS, HAS_NOT, NOBODY_SAID = 1, 0, -1
Types = NDArray[np.int8]


@dataclass(frozen=True)
class DamageTypes:
    """The types that a run learns, of N buildings.

    Attributes:
        source: `ANSWERS`, `GRADES`, or the name of an attribute.
        labels: int8 [N, c]: 1 the building has the type, 0 it was answered and has not, -1 nobody said. Undamaged buildings
            have 0 in all columns; unlabeled ones, those left out, and damaged ones without a type -1. Of an attribute each
            building has the one type in `kinds`, and none of the others.
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
    labels: Types | None = None
    names: tuple[str, ...] = ()
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


def read(db: sqlite3.Connection, pu: PUSet, source: str, *, at_choice: int | None = None) -> DamageTypes:
    """Return the types of the buildings that a run learns from.

    Answers of audits give no types, and neither do clicks that are held out: they are no positives of `pu`.

    Args:
        source: see `DamageTypes`.
        at_choice: the choice up to which the scale of grades counts; all if None.

    Raises:
        TrainingError: if no clicked building has such an attribute, or no type is left to learn.
    """
    if source == ANSWERS:
        return _of_answers(db, pu)
    if source == GRADES:
        return _of_grades(db, pu, at_choice)
    return _of_attribute(db, pu, source)


def tally(db: sqlite3.Connection, pu: PUSet) -> dict[str, list[Tally]]:
    """Return source -> the types that damaged buildings were given there, rare ones too: of answers and grades, then of
    attributes.

    The most frequent type is first, of a scale the mildest. Attributes are those with texts; one that is called as answers
    or grades are is left out, since these words name the other two.
    """
    found = {source: tally_of(db, pu, source) for source in (ANSWERS, GRADES)}
    named: dict[str, Counter[str]] = {}
    for own in _attributes_of_positives(db, pu).values():
        for field, value in own.items():
            if isinstance(value, str) and field not in found:
                named.setdefault(field, Counter())[value] += 1
    return found | {
        field: [Tally(name, n, 0) for name, n in sorted(named[field].items(), key=lambda item: (-item[1], item[0]))]
        for field in sorted(named)
    }


def kinds_of(db: sqlite3.Connection, pu: PUSet) -> dict[str, Counter[str]]:
    """Return source -> how many damaged buildings count as each type, where each building counts as one: see
    `DamageTypes.kinds`.

    A building of several types counts as the rarest of them, and one with a grade as that grade, not as "at least" it.
    """
    found: dict[str, Counter[str]] = {}
    for source in tally(db, pu):
        with suppress(TrainingError):  # nothing is to be learned from there
            found[source] = Counter(read(db, pu, source).kinds.values())
    return found


def tally_of(db: sqlite3.Connection, pu: PUSet, source: str) -> list[Tally]:
    """Return the types that damaged buildings were given by answers, or as grades, in the order of `tally`."""
    if source == ANSWERS:
        has, has_not = (Counter(name for names in each.values() for name in names) for each in answered(db, pu))
        return [
            Tally(name, has[name], has_not[name]) for name in sorted({*has, *has_not}, key=lambda name: (-has[name], name))
        ]
    given, scale, _ = _graded(db, pu, None)
    if not given:
        return []
    names = [f"at least {one.name}" for one in scale]
    columns = zip(names, at_least(pu, given, len(names)).T, strict=True)
    return [Tally(name, int((own == HAS).sum()), int((own[pu.is_positive] == HAS_NOT).sum())) for name, own in columns]


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


# Types given on Annotate


def answered(db: sqlite3.Connection, pu: PUSet) -> tuple[dict[int, tuple[str, ...]], dict[int, tuple[str, ...]]]:
    """Return row -> types that it has, and row -> types that it has not, of every damaged building that is learned from."""
    events = _events(db, pu)
    has = {row: tuple(dict.fromkeys(event.damage_types)) for row, event in events.items()}
    return has, {row: tuple(dict.fromkeys(event.absent_types)) for row, event in events.items()}


def _events(db: sqlite3.Connection, pu: PUSet) -> dict[int, LabelEvent]:
    """Return row -> the answer that is learned from, of every damaged building; no audit's is."""
    taught = labels.taught(db, pu.at_event)
    found = {row: taught[pu.building_ids[row]] for row in np.flatnonzero(pu.is_positive).tolist()}
    return {row: event for row, event in found.items() if event is not None}


def _of_answers(db: sqlite3.Connection, pu: PUSet) -> DamageTypes:
    has, has_not = answered(db, pu)
    counts = Counter(name for own in has.values() for name in own)
    named = {name for given in (has, has_not) for own in given.values() for name in own}
    ordered = sorted(named, key=lambda name: (-counts[name], name))
    names = tuple(name for name in ordered if counts[name] >= FEWEST)
    rare = [(name, counts[name]) for name in ordered if counts[name] < FEWEST]
    if not names:
        raise _nothing_to_learn("damage type", rare)
    column = {name: at for at, name in enumerate(names)}
    found = _nothing_said(pu, len(names))
    for value, given in ((HAS, has), (HAS_NOT, has_not)):
        for row, own in given.items():
            found[row, [column[name] for name in own if name in column]] = value
    kinds = rarest_of_each(has, FEWEST)
    n_several = int(((found == HAS).sum(axis=1) > 1).sum())
    return DamageTypes(ANSWERS, kinds, found, names, n_several=n_several, notes=_of_rare(rare))


def _nothing_said(pu: PUSet, n_types: int) -> Types:
    """Return labels with what is known without any type, int8 [N, c]: undamaged buildings have none."""
    found = np.full((len(pu.building_ids), n_types), NOBODY_SAID, np.int8)
    found[pu.is_not_damaged] = HAS_NOT
    return found


def _of_rare(rare: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    if not rare:
        return ()
    words = f"Damage types that fewer than {FEWEST} of the buildings learned from have were not learned: {_listed(rare)}."
    return (words,)


def _listed(rare: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in rare)


def _nothing_to_learn(what: str, rare: Sequence[tuple[str, int]]) -> TrainingError:
    given = f"; given were {_listed(rare)}" if rare else ""
    return TrainingError(
        f"No {what} was given to {FEWEST} or more of the damaged buildings that would be learned from{given}.",
        "Give more of them on the Annotate page, or train without types.",
        kind="types",
    )


# The project's grades, which are a scale


def _graded(db: sqlite3.Connection, pu: PUSet, at_choice: int | None) -> tuple[dict[int, int], list[Grade], int]:
    """Return row -> place of its grade on the scale, from 0, the mildest; the scale; and how many have a grade off it."""
    scale = [one for one in reversed(grades.known(db, at_choice=at_choice)) if one.is_offered]
    place = {one.id: at for at, one in enumerate(scale)}
    given = {row: event.grade for row, event in _events(db, pu).items() if event.grade}
    on_it = {row: place[grade] for row, grade in given.items() if grade in place}
    return on_it, scale, len(given) - len(on_it)


def at_least(pu: PUSet, given: Mapping[int, int], n_types: int) -> Types:
    """Return the columns "at least X", int8 [N, c]; a damaged building without a grade is at least the mildest, more nobody
    said.
    """
    found = _nothing_said(pu, n_types)
    found[pu.is_positive, 0] = HAS
    for row, place in given.items():
        found[row] = np.where(np.arange(n_types) <= place, HAS, HAS_NOT)
    return found


def _of_grades(db: sqlite3.Connection, pu: PUSet, at_choice: int | None) -> DamageTypes:
    given, scale, n_off = _graded(db, pu, at_choice)
    names = tuple(f"at least {one.name}" for one in scale)
    if not given:
        raise _nothing_to_learn("grade of the scale", ())
    found = at_least(pu, given, len(names))
    n_has = (found == HAS).sum(axis=0)
    is_kept = n_has >= FEWEST
    if not is_kept.any():
        raise _nothing_to_learn("grade of the scale", [(name, int(n)) for name, n in zip(names, n_has, strict=True)])
    rare = [(name, int(n)) for name, n, kept in zip(names, n_has, is_kept, strict=True) if not kept]
    notes = list(_of_rare(rare))
    n_ungraded = int(pu.is_positive.sum()) - len(given)
    if n_ungraded:
        were = plural(n_ungraded, "damaged building was", "damaged buildings were")
        off = f" ({n_off:,} of them graded by a grade that is not on the scale)" if n_off else ""
        notes.append(f"{were} learned without a grade{off}: as {names[0]}, and as unknown beyond.")
    exact = {row: (scale[place].name,) for row, place in given.items()}
    kinds = rarest_of_each(exact, FEWEST)
    kept_names = tuple(name for name, kept in zip(names, is_kept, strict=True) if kept)
    kept = tuple(one.id for one, kept in zip(scale, is_kept, strict=True) if kept)
    return DamageTypes(GRADES, kinds, found[:, is_kept], kept_names, is_ordinal=True, grades=kept, notes=tuple(notes))


# An attribute of the footprints


def _attributes_of_positives(db: sqlite3.Connection, pu: PUSet) -> dict[int, Mapping[str, Any]]:
    """Return row -> attributes of the footprint, of damaged buildings; no other one is read."""
    row_of = {pu.building_ids[row]: row for row in np.flatnonzero(pu.is_positive).tolist()}
    rows = db.execute(
        "SELECT building_id, attributes FROM footprints WHERE building_id IN (SELECT value FROM json_each(?)) ORDER BY fid",
        (json.dumps(list(row_of)),),
    )
    return {row_of[building]: json.loads(text) for building, text in rows}


def _of_attribute(db: sqlite3.Connection, pu: PUSet, field: str) -> DamageTypes:
    found = _attributes_of_positives(db, pu)
    if not any(field in own for own in found.values()):
        there = ", ".join(sorted({name for own in found.values() for name in own})) or "none"
        raise TrainingError(
            f"No clicked footprint has the attribute {field!r}; they have: {there}.",
            f"Name one of them, or {ANSWERS} or {GRADES}.",
            kind="types",
        )
    given = {row: str(own[field]) for row, own in found.items() if str(own.get(field) or "").strip()}
    if not given:
        raise TrainingError(
            f"The attribute {field!r} is empty for all {len(found):,} damaged buildings that would be learned from.",
            f"Name another one, or {ANSWERS} or {GRADES}, or train without types.",
            kind="types",
        )
    counts = Counter(given.values())
    names = tuple(sorted(counts, key=lambda name: (-counts[name], name)))
    labels_of = _nothing_said(pu, len(names))
    for row, name in given.items():
        labels_of[row] = [HAS if one == name else HAS_NOT for one in names]
    notes: tuple[str, ...] = ()
    if empty := len(found) - len(given):
        have = plural(empty, "damaged building has", "damaged buildings have")
        notes = (f"{have} no value of the attribute {field}: nothing was learned of their damage types.",)
    return DamageTypes(field, given, labels_of, names, notes=notes)
