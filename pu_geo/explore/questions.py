"""The two questions of the Explore screen, answered from how buildings look and from the ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pu_geo.analysis import assessability
from pu_geo.analysis.neighbors import nearest
from pu_geo.answers import ranking
from pu_geo.errors import ProjectError
from pu_geo.explore import looks
from pu_geo.records import Shown, rows_of
from pu_geo.scenes import preparation
from pu_geo.store import chosen, labels, population, store
from pu_geo.store.layout import Layout
from pu_geo.store.population import Population
from pu_geo.wording import listed, plural

MOST_ALIKE, MOST_DOUBTED = 60, 20
N_ALIKE = 5  # look-alikes that are named as a reason
ELSEWHERE, WRONG = "Where else does it look like this?", "What did I get wrong?"


@dataclass(frozen=True)
class Asked:
    """Buildings that answer a question, best first, with a short reason each.

    Attributes:
        shown: what answers on them were shown for, see `records.LabelOp`: "exploit" where a ranking chose them.
    """

    title: str
    ids: Sequence[str]
    notes: Sequence[str]
    shown: Shown = ""


def elsewhere(layout: Layout, building_ids: Sequence[str] = (), *, run: str = "", count: int = MOST_ALIKE) -> Asked:
    """Answer where else it looks like some buildings: those that nobody answered, by rank of likeness plus rank of score.

    Args:
        building_ids: all that are damaged if there are none.
        run: whose scores count, see `chosen.run`; those of the live ranking if "".

    Raises:
        ProjectError: if none of the buildings has a chip, nothing is damaged yet, there is no look yet or no such run.
    """
    from pu_geo.analysis import looks as formulas  # loads SciPy

    ids, rows = looks.ids_of(layout, looks.LOOK), looks.rows_of(layout, looks.LOOK)
    now = _population(layout, ids, run)
    given = rows_of([*building_ids], ids) if building_ids else np.flatnonzero(now.given("positive"))
    if not len(given := given[given >= 0]):
        wrong = f"None of these buildings has a chip: {listed(building_ids)}." if building_ids else "Nothing is damaged yet."
        raise ProjectError(wrong, "Select buildings with a chip, or mark one damaged.", kind="building")
    scores = now.exact if np.isfinite(now.exact).any() else None
    by_look = formulas.elsewhere(rows, given, None, is_hidden=~now.is_open)
    best = formulas.elsewhere(rows, given, scores, is_hidden=~now.is_open)[:count].tolist()
    place = {row: n for n, row in enumerate(by_look.tolist(), 1)}
    of_score = now.ranks().tolist()
    notes = [
        f"{ordinal(place[row])} by look" + (f", {ordinal(of_score[row])} by score" if of_score[row] else "") for row in best
    ]
    what = plural(len(given), "selected building" if building_ids else "damaged building")
    return Asked(f"{ELSEWHERE} ({what})", [ids[row] for row in best], notes, "exploit")


def wrong(layout: Layout, *, count: int = MOST_DOUBTED) -> Asked:
    """Answer which answers may be wrong: most doubtful first, those that somebody gave twice alike last.

    Raises:
        ProjectError: if nobody called a building damaged, or there is no look yet.
    """
    from pu_geo.analysis import looks as formulas  # loads SciPy

    ids = looks.ids_of(layout, looks.LOOK)
    rows = formulas.with_changes(looks.rows_of(layout, looks.LOOK), looks.traits_of(layout))
    with store.connect(layout) as db:
        pu, confirmed = labels.pu_set(db, ids=ids), labels.given_again(db)
    if not pu.is_positive.any():
        raise ProjectError("Nothing is damaged yet.", "Mark some damaged buildings first.", kind="positives")
    order, _ = formulas.doubts(rows, pu.is_positive, pu.is_not_damaged)
    shown = sorted(order.tolist(), key=lambda row: ids[row] in confirmed)[:count]
    is_both = bool(pu.is_not_damaged.any())
    among = np.flatnonzero(pu.is_positive | pu.is_not_damaged) if is_both else np.arange(len(rows))
    others, rest, notes = rows[among], "" if is_both else ", the others not reviewed", []
    for row in shown:
        alike, _ = nearest(others, np.flatnonzero(among == row), N_ALIKE)
        is_against = is_both and bool(pu.is_positive[row])
        n = int((pu.is_positive[among[alike]] ^ is_against).sum())
        found = f"{n} of {len(alike)} look-alikes {'not ' * is_against}damaged{rest}"
        notes.append("answered twice; " * (ids[row] in confirmed) + found)
    return Asked(WRONG, [ids[row] for row in shown], notes)


def _population(layout: Layout, ids: Sequence[str], run: str) -> Population:
    """Return what each building is, with the scores of a run or of the live ranking."""
    if run:
        return population.of_run(layout, chosen.run(layout, run), ids)
    facts = preparation.chip_set_facts(layout)
    own, live = facts["building_ids"], ranking.scores_now(layout)
    scores = np.full(len(own), np.nan, np.float32) if live is None else live
    hidden = assessability.by_building(own, assessability.reasons(facts))
    return population.of_scores(layout, ids, own, scores, hidden)


def ordinal(n: int) -> str:
    """Write a place.

    >>> [ordinal(n) for n in (1, 2, 3, 11, 112, 1023)]
    ['1st', '2nd', '3rd', '11th', '112th', '1,023rd']
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"
