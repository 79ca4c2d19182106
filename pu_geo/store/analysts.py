"""Several analysts on one project: each one's answers, where they differ, and how far they agree.

An analyst's own answer on a building is the last one of theirs that stands, whoever decided the building's label since.
Cleared is the absence of an answer: who cleared a building last has none. Answers of audits count.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from pu_geo.records import Label, LabelEvent
from pu_geo.store.labels import COLUMNS, all_undone, event_of

_EVENT, _BUILDING, _LABEL, _ANALYST, _AT = 0, 2, 3, 4, 5  # places in a row of `COLUMNS`


@dataclass(frozen=True)
class AnalystFacts:
    """What an analyst did: buildings with a standing answer of theirs, and the time of their last event (RFC 3339 UTC)."""

    n_standing: int
    last_at: str


class OwnAnswer(NamedTuple):
    """One analyst's answer on a building, and since when (RFC 3339 UTC)."""

    analyst: str
    label: Label
    at: str


@dataclass(frozen=True)
class Agreement:
    """How far analysts agree on the buildings that two or more of them answered.

    Attributes:
        n: number of those buildings.
        share: of them on which all give the same label, 0..1; None if there are none.
        kappa: Fleiss' kappa, -1..1; None if there are none, or everybody gave one and the same label throughout.
    """

    n: int
    share: float | None
    kappa: float | None


def _own_rows(db: sqlite3.Connection) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return (building id, analyst) -> the row of their answer, in the order in which the answers were stored."""
    gone = all_undone(db)
    last: dict[tuple[str, str], tuple[Any, ...]] = {}
    for row in db.execute(f"SELECT {COLUMNS} FROM label_event a WHERE a.undoes IS NULL ORDER BY a.event"):
        if row[_EVENT] not in gone:
            key = row[_BUILDING], row[_ANALYST]
            last.pop(key, None)
            last[key] = row
    return {key: row for key, row in last.items() if row[_LABEL] != "cleared"}


def own_answers(db: sqlite3.Connection) -> dict[tuple[str, str], LabelEvent]:
    """Return (building id, analyst) -> their answer, in the order in which the answers were stored."""
    return {key: event_of(row) for key, row in _own_rows(db).items()}


def by_analyst(db: sqlite3.Connection) -> dict[str, AnalystFacts]:
    """Return what each analyst did, in the order in which they began, also those without a standing answer."""
    standing = Counter(analyst for _, analyst in _own_rows(db))
    last = "SELECT analyst, max(ifnull(origin_at, at)) FROM label_event GROUP BY analyst ORDER BY min(event)"
    rows = db.execute(last).fetchall()
    return {analyst: AnalystFacts(standing[analyst], at) for analyst, at in rows}


def _shared(db: sqlite3.Connection) -> dict[str, list[OwnAnswer]]:
    """Return the own answers on every building that two or more analysts answered."""
    found: dict[str, list[OwnAnswer]] = {}
    for (building, analyst), row in _own_rows(db).items():
        found.setdefault(building, []).append(OwnAnswer(analyst, row[_LABEL], row[_AT]))
    return {building: answers for building, answers in found.items() if len(answers) > 1}


def conflicts(db: sqlite3.Connection) -> list[tuple[str, list[OwnAnswer]]]:
    """Return the buildings on which analysts' answers differ, each with all of them, oldest first."""
    shared = _shared(db)
    return [(building, answers) for building, answers in shared.items() if len({answer.label for answer in answers}) > 1]


def agreement(db: sqlite3.Connection, among: Collection[str] | None = None) -> Agreement:
    """Measure agreement on the buildings that two or more analysts answered.

    Args:
        among: ids of the buildings that count; all if None.

    Source: Fleiss (1971), Measuring nominal scale agreement among many raters, Eq. 1 to 7.

    Departs from the source: the number of analysts may differ between buildings, as it does in the field; labels' overall
    shares then weigh each answer, and pair agreement weighs each building, equally.
    """
    shared = [answers for building, answers in _shared(db).items() if among is None or building in among]
    counts = [Counter(answer.label for answer in answers) for answers in shared]
    if not counts:
        return Agreement(0, None, None)
    alike = [sum(k * (k - 1) for k in count.values()) / (count.total() * (count.total() - 1)) for count in counts]
    overall = Counter(answer.label for answers in shared for answer in answers)
    by_chance = sum((k / overall.total()) ** 2 for k in overall.values())
    observed = sum(alike) / len(alike)
    kappa = (observed - by_chance) / (1 - by_chance) if len(overall) > 1 else None
    return Agreement(len(counts), sum(len(count) == 1 for count in counts) / len(counts), kappa)
