"""The scale by which analysts grade damaged buildings, and what an export calls each grade.

A row of the label log holds the id of a grade, which never changes: renamed or moved, a grade keeps the buildings it was
given to. One that is taken off the scale is offered no more, and stays known for the buildings that have it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pu_geo.errors import UNSEEN, ProjectError
from pu_geo.records import DAMAGE_CLASSES, MAX_GRADE, MAX_GRADES, DamageClass, is_text
from pu_geo.store import choices
from pu_geo.store.store import transaction

CHOICE = "grades"  # of the choice that holds the scale


@dataclass(frozen=True)
class Grade:
    """One grade of a project.

    Attributes:
        id: what rows of the label log hold; never changes.
        name: shown to people.
        damage_class: what it is in exports.
        is_offered: whether it is on the scale; one that is not stays known for the buildings that have it.
    """

    id: str
    name: str
    damage_class: DamageClass
    is_offered: bool = True


USUAL = (Grade("destroyed", "Destroyed", "destroyed"), Grade("major", "Major", "major"), Grade("minor", "Minor", "minor"))
"""The scale until somebody chooses another one, the worst first."""
_OF_EXPORTS = (
    *USUAL,
    Grade("possible", "Possible", "possible", is_offered=False),
)  # known everywhere: damage maps have them


def known(db: sqlite3.Connection, *, at_choice: int | None = None) -> list[Grade]:
    """Return the scale in its order, as it stood after a choice (now, if None), then the grades that are not offered any
    more.
    """
    stored = [Grade(**one) for one in choices.get(db, CHOICE, [asdict(one) for one in USUAL], at=at_choice)]
    named = {one.id for one in stored} | {one.name.casefold() for one in stored}
    rest = [Grade(one.id, one.name, one.damage_class, is_offered=False) for one in _OF_EXPORTS]
    everything = [*stored, *(one for one in rest if one.id not in named and one.name.casefold() not in named)]
    return sorted(everything, key=lambda one: not one.is_offered)


def scale(db: sqlite3.Connection) -> list[Grade]:
    """Return the grades that are offered, in their order."""
    return [one for one in known(db) if one.is_offered]


def find(known_grades: Sequence[Grade], text: str) -> Grade | None:
    """Return the grade with an id, else the one with a name; None if there is none."""
    wanted = text.strip().casefold()
    kinds = (lambda one: one.id == text, lambda one: one.name.casefold() == wanted, lambda one: one.id == wanted)
    return next((one for matches in kinds for one in known_grades if matches(one)), None)


def unknown_words(db: sqlite3.Connection, text: str) -> str:
    """Return that a project has no such grade, in words."""
    return f"grade {text!r} is not one of this project's: {', '.join(one.name for one in scale(db))}."


def put(db: sqlite3.Connection, wanted: Sequence[Grade]) -> list[Grade]:
    """Store another scale; return it. Grades that are missing in it are not offered any more.

    Args:
        wanted: in its order; a grade with an empty id is new, and gets one.

    Raises:
        ProjectError: if it has no grade or too many, or a name or class cannot be.
    """
    if not 1 <= len(wanted) <= MAX_GRADES:
        raise ProjectError(
            f"The scale would have {len(wanted)} grades; a scale has 1 to {MAX_GRADES}, one for each key from 4 to 9.",
            "Remove some, or add one.",
        )
    names = [one.name.strip() for one in wanted]
    for name, one in zip(names, wanted, strict=True):
        if (
            not is_text(name, 1, MAX_GRADE)
            or UNSEEN.search(name)
            or [each.casefold() for each in names].count(name.casefold()) > 1
        ):
            raise ProjectError(
                f"{name!r} cannot be the name of a grade: names have 1 to {MAX_GRADE} characters, and each occurs once.",
                "Choose another name.",
            )
        if one.damage_class not in DAMAGE_CLASSES:
            raise ProjectError(
                f"The class {one.damage_class!r} of the grade {name} is not one that exports have.",
                f"Choose one of {', '.join(DAMAGE_CLASSES)}.",
            )
    with transaction(db):
        before = known(db)
        kept = {one.id for one in wanted}
        again = {
            one.name.casefold(): one.id for one in before if one.id not in kept
        }  # a name that comes back is the same grade
        ids: list[str] = []
        for one, name in zip(wanted, names, strict=True):
            taken = {each.id for each in before} | kept | set(ids)
            ids.append(one.id or again.get(name.casefold()) or _new_id(name, taken))
        made = [Grade(own, name, one.damage_class) for own, name, one in zip(ids, names, wanted, strict=True)]
        gone = [Grade(one.id, one.name, one.damage_class, is_offered=False) for one in before if one.id not in ids]
        choices.put(db, CHOICE, [asdict(one) for one in (*made, *gone)])
    return made


def _new_id(name: str, taken: set[str]) -> str:
    """Return an id that can be read, such as "roof-gone"."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[: MAX_GRADE - 4] or "grade"
    return next(one for one in (plain, *(f"{plain}-{k}" for k in range(2, 1000))) if one not in taken)


def of_class(known_grades: Sequence[Grade], damage_class: str) -> str:
    """Return the id of the first grade with a class of exports; "" if there is none."""
    return next((one.id for one in known_grades if one.damage_class == damage_class), "")


def class_of(known_grades: Sequence[Grade], grade: str) -> DamageClass | None:
    """Return what an export calls a grade; None for one that this project does not know."""
    return next((one.damage_class for one in known_grades if one.id == grade), None)


def name_of(known_grades: Sequence[Grade], grade: str) -> str:
    """Return the name of a grade; its id for one that this project does not know."""
    return next((one.name for one in known_grades if one.id == grade), grade)
