"""Rounds of one event: what a project of the next image has from the one before, in `round.json`.

Answers on an older image are no labels of the newer one: they wait here until somebody answers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pu_geo.records import Label
from pu_geo.store.layout import Layout, read_json, write_json

_FILE = "round.json"


@dataclass(frozen=True)
class PastAnswer:
    """What was known of a building in an earlier round.

    Attributes:
        damage_binary: "damaged", "not_flagged" or "not_assessed", as the map had it that was published last in that round.
        label: a person's answer, or None where only a score spoke.
        score: of the run that the map showed; None where there was none.
        grade: name of the grade that a person gave; "" where nobody did.
    """

    round: int
    building_id: str
    damage_binary: str
    label: Label | None
    labeller: str | None
    labelled_at: str | None
    score: float | None
    post_date: str | None
    grade: str = ""


@dataclass(frozen=True)
class Round:
    """The round of a project, and all rounds before it, oldest first.

    Attributes:
        compared_with: the map of the round before that the newest of `past` is from: a version such as "v2", or "run " and
            the id of a run where none was published; "" where there was no map.
    """

    number: int
    previous: str
    past: Sequence[PastAnswer]
    compared_with: str = ""


def write(layout: Layout, found: Round) -> None:
    """Write the round of a project."""
    write_json(layout.path(_FILE), {**asdict(found), "past": [list(asdict(one).values()) for one in found.past]})


def read(layout: Layout) -> Round:
    """Return the round of a project; the first one where the project has no such file."""
    path = layout.path(_FILE)
    if not path.is_file():
        return Round(1, "", ())
    stored: dict[str, Any] = read_json(path)
    past = [PastAnswer(*one) for one in stored["past"]]
    return Round(stored["number"], stored["previous"], past, stored.get("compared_with", ""))


def last_of_each(found: Round) -> dict[str, PastAnswer]:
    """Return building id -> what the round just before knew of it."""
    return {one.building_id: one for one in found.past if one.round == found.number - 1}
