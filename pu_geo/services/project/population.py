"""The buildings of a project as they are now: what maps, thresholds, audits and reports count.

A removed building is in no count. A building that stands elsewhere than where a run looked has no score of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.project import contents, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import NOT_IN_RUN, RunFacts
from pu_geo.services.project import choices

Bools = NDArray[np.bool_]
Class = Literal["confirmed", "flagged", "not_flagged", "not_assessed"]
CLASSES: tuple[Class, ...] = ("confirmed", "flagged", "not_flagged", "not_assessed")
REMOVED = assessability.REMOVED


@dataclass(frozen=True)
class Population:
    """Buildings, and what each of them is now.

    Attributes:
        ids: [N], all that are there in the order of the map, unless others were asked for.
        answers: [N], labels of this moment; None without one, and of a removed building.
        why: str [N], why a building without an answer is not assessed: one of `assessability.Why`, `NOT_IN_RUN` or `REMOVED`; "" where
            it is.
        scores: float64 [N] in 0..1 with the decimals that every file has; NaN where none counts.
    """

    ids: Sequence[str]
    answers: Sequence[str | None]
    why: NDArray[np.str_]
    scores: NDArray[np.float64]

    @property
    def is_open(self) -> Bools:
        """Return which are assessed and have no answer, bool [N]: those that a threshold may flag."""
        is_shown: Bools = self.why == ""
        return self.given("") & is_shown

    @property
    def is_assessed(self) -> Bools:
        """Return which are damaged or not by an answer, or may be flagged, bool [N]."""
        return self.given("positive", "not_damaged") | self.is_open

    def given(self, *labels: str) -> Bools:
        """Return which have one of these labels, bool [N]; "" is none."""
        return np.fromiter(((one or "") in labels for one in self.answers), np.bool_, len(self.answers))

    def ranks(self) -> NDArray[np.int64]:
        """Return the place of each score among those that count, int64 [N], 1 for the highest; 0 without one."""
        has_score = np.isfinite(self.scores)
        found = runs.ranks(np.where(has_score, self.scores, -1.0))
        return np.where(has_score, found, 0)

    def classes(self, threshold: float) -> list[Class]:
        """Return the class that the map gives each building at a threshold, [N]."""
        of_answer: dict[str | None, Class] = {
            "positive": "confirmed", "not_damaged": "not_flagged", "not_assessable": "not_assessed",
        }  # fmt: skip
        by_score = np.where(self.scores >= round(threshold, 4), "flagged", "not_flagged")
        rest: list[Class] = np.where(self.why == "", by_score, "not_assessed").tolist()
        return list(map(of_answer.get, self.answers, rest))


def of_run(layout: Layout, run: RunFacts, ids: Sequence[str] | None = None) -> Population:
    """Return what each building is in the map of a run.

    Args:
        ids: of the wanted buildings, [N]; all that are there if None.
    """
    with store.connect(layout) as db:
        there, answers = contents.building_ids(db), labels.current_labels(db)
    wanted, own = there if ids is None else ids, runs.building_ids_of(layout, run.run_id)
    hidden = choices.reasons_of(layout, run) or {}
    why = np.fromiter(map(hidden.get, wanted, repeat("")), "<U24", len(wanted))
    scores = runs.written(runs.array(layout, run.run_id, "scores"))
    if wanted != own:
        row = {building: at for at, building in enumerate(own)}
        at = np.fromiter(map(row.get, wanted, repeat(-1)), np.int64, len(wanted))
        scores, why[at < 0] = np.append(scores, np.nan)[at], NOT_IN_RUN
    if wanted != there:
        why[_is_missing(wanted, there)] = REMOVED
    scores[np.isin(why, (NOT_IN_RUN, REMOVED))] = np.nan
    return Population(wanted, list(map(answers.get, wanted)), why, scores)


def of_chips(layout: Layout, chip_set: str) -> Population:
    """Return what each building of a chip set is where no run is asked: the picture after the event alone may hide it. No scores."""
    facts = contents.chip_facts(layout, chip_set)
    ids: Sequence[str] = facts["building_ids"]
    with store.connect(layout) as db:
        there, answers = contents.building_ids(db), labels.current_labels(db)
    why = assessability.hidden_after(facts).astype("<U24")
    if ids != there:
        why[_is_missing(ids, there)] = REMOVED
    return Population(ids, list(map(answers.get, ids)), why, np.full(len(ids), np.nan))


def of(layout: Layout, chip_set: str, run_id: str | None) -> Population:
    """Return what each building of a chip set is, in the map of a run of it, or for the search if None. No scores, and no file of the run."""
    if run_id is None:
        return of_chips(layout, chip_set)
    ids: Sequence[str] = contents.chip_facts(layout, chip_set)["building_ids"]
    with store.connect(layout) as db:
        there, answers, run = contents.building_ids(db), labels.current_labels(db), runs.find(db, run_id)
    hidden = choices.reasons_of(layout, run) or {}
    why = np.fromiter(map(hidden.get, ids, repeat("")), "<U24", len(ids))
    why[_is_missing(ids, there)] = REMOVED
    return Population(ids, list(map(answers.get, ids)), why, np.full(len(ids), np.nan))


def _is_missing(some: Sequence[str], there: Sequence[str]) -> Bools:
    known = set(there)
    return np.fromiter((one not in known for one in some), np.bool_, len(some))
