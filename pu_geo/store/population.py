"""The buildings of a project as they are now: what maps, thresholds, audits and reports count.

A removed building is in no count. A building that stands elsewhere than where a run looked has no score of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.records import NOT_IN_RUN, Ints, RunFacts
from pu_geo.store import chosen, contents, labels, runs, store
from pu_geo.store.layout import Layout
from pu_geo.wording import listed

Bools = NDArray[np.bool_]
Class = Literal["confirmed", "flagged", "not_flagged", "not_assessed"]
CLASSES: tuple[Class, ...] = ("confirmed", "flagged", "not_flagged", "not_assessed")
REMOVED = assessability.REMOVED
_WHY = "<U24"


@dataclass(frozen=True)
class Sites:
    """The site of each of some buildings.

    Attributes:
        names: of the sites of the event in their order; none in a project of one site.
        of: int64 [N], the number of each building's site; -1 of one that is gone or far from all sites, and 0 of all in a
            project of one site.
    """

    names: Sequence[str]
    of: Ints

    @property
    def named(self) -> list[str]:
        """Return the name of each building's site, [N]; "" of one that has none, and of all in a project of one site."""
        names = [*self.names, ""]  # the last one of -1
        return [names[site] for site in self.of.tolist()]

    @property
    def or_none(self) -> Ints | None:
        """Return `of` where there are several sites; None where there is one."""
        return np.maximum(self.of, 0) if self.names else None

    def silent_words(self, has_answer: Bools) -> str:
        """Return in a sentence which sites have buildings and, by bool [N], no answers; "" where all have some."""
        silent = set(self.of.tolist()).difference(self.of[has_answer].tolist())
        names = [name for site, name in enumerate(self.names) if site in silent]
        return f"No answers yet in {listed(names)}: the ranking there rests on other sites." if names else ""


def sites(db: sqlite3.Connection, ids: Sequence[str]) -> Sites:
    """Return the site of each of some buildings, [N]; in a project of one site no outline is read."""
    grid = contents.any_grid(db)
    if grid is None or not grid.sites:
        return Sites((), np.zeros(len(ids), np.int64))
    of = dict(zip(contents.building_ids(db), contents.sites(db).tolist(), strict=True))
    return Sites([one.name for one in grid.sites], np.fromiter(map(of.get, ids, repeat(-1)), np.int64, len(ids)))


def silent_sites(layout: Layout) -> str:
    """Return in a sentence which sites have no answers that a ranking learns from; "" where all have some."""
    with store.connect(layout) as db:
        found = sites(db, contents.building_ids(db))
        if not found.names:
            return ""
        pu = labels.pu_set(db)
    return found.silent_words(pu.is_positive | pu.is_not_damaged)


@dataclass(frozen=True)
class Population:
    """Buildings, and what each of them is now.

    Attributes:
        ids: [N], all that are there in the order of the map, unless others were asked for.
        answers: [N], labels of this moment; None without one, and of a removed building.
        why: str [N], why a building without an answer is not assessed: one of `assessability.Why`, `NOT_IN_RUN` or
            `REMOVED`; "" where it is.
        exact: float32 [N], scores in 0..1 as the run gave them, by which ranks are; NaN where none counts.
        sites: where each of them is.
    """

    ids: Sequence[str]
    answers: Sequence[str | None]
    why: NDArray[np.str_]
    exact: NDArray[np.float32]
    sites: Sites

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Return the scores with the decimals that every file has, float64 [N]; NaN where none counts."""
        return runs.written(self.exact)

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
        has_score = np.isfinite(self.exact)
        found = runs.ranks(np.where(has_score, self.exact, np.float32(-1)))
        return np.where(has_score, found, 0)

    def score_of(self) -> dict[str, float]:
        """Return building id -> score of those that have one."""
        return {each: score for each, score in zip(self.ids, self.scores.tolist(), strict=True) if score == score}

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
    wanted = store.call(layout, contents.building_ids) if ids is None else ids
    own, scores = runs.building_ids_of(layout, run.run_id), np.array(runs.array(layout, run.run_id, "scores"), np.float32)
    return of_scores(layout, wanted, own, scores, chosen.reasons_of(layout, run) or {})


def shown(layout: Layout) -> Population:
    """Return what each building is now: in the map of the run that is shown, before there is one as the newest chips let it
    be assessed, without scores.
    """
    if (run := chosen.chosen_run(layout)) is not None:
        return of_run(layout, run)
    with store.connect(layout) as db:
        ids, chip_set = contents.building_ids(db), contents.latest_chip_set(db)
    facts = contents.chip_facts(layout, chip_set) if chip_set else {}
    own: Sequence[str] = facts.get("building_ids", ())
    hidden = assessability.by_building(own, assessability.reasons(facts)) if own else {}
    return of_scores(layout, ids, own, np.full(len(own), np.nan, np.float32), hidden)


def of_scores(
    layout: Layout, ids: Sequence[str], own: Sequence[str], scores: NDArray[np.float32], hidden: Mapping[str, str]
) -> Population:
    """Return what each building is by scores of the buildings `own`, [M]; `hidden` has why some of these are not
    assessed.
    """
    why = np.fromiter(map(hidden.get, ids, repeat("")), _WHY, len(ids))
    if ids != own:
        row = {building: at for at, building in enumerate(own)}
        at = np.fromiter(map(row.get, ids, repeat(-1)), np.int64, len(ids))
        scores, why[at < 0] = np.append(scores, np.float32(np.nan))[at], NOT_IN_RUN
    return _standing(layout, ids, why, scores)


def of(layout: Layout, chip_set: str, run_id: str | None) -> Population:
    """Return what each building of a chip set is, without scores: no file of a run is read.

    Args:
        run_id: in the map of this run of the chip set; if None for the search, where the picture after the event alone may
            hide it.
    """
    facts = contents.chip_facts(layout, chip_set)
    ids: Sequence[str] = facts["building_ids"]
    scores = np.full(len(ids), np.nan, np.float32)
    if run_id is not None:
        return of_scores(layout, ids, ids, scores, chosen.reasons_of(layout, chosen.run(layout, run_id)) or {})
    return _standing(layout, ids, assessability.hidden_after(facts).astype(_WHY), scores)


def is_gone(layout: Layout, chip_set: str, run_id: str | None) -> Bools:
    """Return which buildings of a chip set nothing speaks for any more, bool [N]: removed, or not where the run, if any, saw
    them.
    """
    ids: Sequence[str] = contents.chip_facts(layout, chip_set)["building_ids"]
    with store.connect(layout) as db:
        if not contents.any_removed(db):
            return np.zeros(len(ids), np.bool_)
        moved = set() if run_id is None else runs.moved(db, runs.find(db, run_id).run_id)
        left = set(contents.building_ids(db)) - moved
    return np.fromiter((one not in left for one in ids), np.bool_, len(ids))


def _standing(layout: Layout, ids: Sequence[str], why: NDArray[np.str_], scores: NDArray[np.float32]) -> Population:
    """Add the answers, and take away what was removed."""
    with store.connect(layout) as db:
        answers, there, where = labels.current_labels(db), set(contents.building_ids(db)), sites(db, ids)
    why[np.fromiter((one not in there for one in ids), np.bool_, len(ids))] = REMOVED
    scores[np.isin(why, (NOT_IN_RUN, REMOVED))] = np.nan
    return Population(ids, list(map(answers.get, ids)), why, scores, where)
