"""By which clicks two runs can be judged: those that neither learned from, the same ones for both."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, Judgement, is_unlabeled, pu_criterion
from pu_geo.project import labels, pseudo_positives, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Clicks:
    """The clicks that no run of some learned from, among n buildings.

    Attributes:
        is_held_out: bool [n], held out by all of them.
        is_later: bool [n], the others: clicked after at least one of them began, and never learned from by any.
        is_unlabeled: bool [n], see `pu_criterion.is_unlabeled`: not positive as things stand.
    """

    is_held_out: Bools
    is_later: Bools
    is_unlabeled: Bools

    @property
    def n(self) -> int:
        return int((self.is_held_out | self.is_later).sum())

    @property
    def words(self) -> str:
        """How many these are, what they are worth, and what to do where they are too few."""
        n_held_out, n_later = int(self.is_held_out.sum()), int(self.is_later.sum())
        if self.n < FEWEST_HELD_OUT:
            return (
                f"Not enough to judge: {self.n} clicks that neither run learned from; {FEWEST_HELD_OUT} are needed. "
                "Train both with held-out clicks and the same seed, or go on clicking."
            )
        words = f"Judged on the same {self.n} clicks, which neither run learned from: {n_held_out} held out by both"
        if not n_later:
            return f"{words}."
        return (
            f"{words}, {n_later} clicked after one or both began. Later clicks are a choice of whoever clicked, not an even "
            "draw of the damage, and a run that had begun took them for unlabeled."
        )

    def told(self) -> dict[str, object]:
        """Return {"n", "n_held_out", "n_later", "words"}."""
        n_held_out, n_later = int(self.is_held_out.sum()), int(self.is_later.sum())
        return {"n": self.n, "n_held_out": n_held_out, "n_later": n_later, "words": self.words}


def unseen_clicks(
    layout: Layout, found: Sequence[RunFacts], ids: Sequence[str], rows: Sequence[NDArray[np.int64]]
) -> Clicks:
    """Find the clicks that none of some runs learned from.

    Args:
        found: the runs.
        ids: the buildings to look at, [n]; without those that cannot be assessed.
        rows: of each run, the rows of these buildings in its arrays, int64 [n].
    """
    held_out = [runs.held_out(layout, facts.run_id)[own] for facts, own in zip(found, rows, strict=True)]
    with store.connect(layout) as db:
        is_positive = labels.pu_set(db, ids=ids).is_positive
        learned = [_learned(db, layout, facts, ids, own) for facts, own in zip(found, rows, strict=True)]
    is_held_out = is_positive & np.all(held_out, axis=0)
    is_later = is_positive & ~is_held_out & ~np.any(learned, axis=0)
    return Clicks(is_held_out, is_later, is_unlabeled(is_positive, np.zeros(len(ids), np.bool_)))


def _learned(db: sqlite3.Connection, layout: Layout, facts: RunFacts, ids: Sequence[str], rows: NDArray[np.int64]) -> Bools:
    """Return the buildings of which a run, or one that it is an average of, was told what they are, bool [n].

    Which accepted clusters it learned from is not kept, so all that were accepted before it ended count.
    """
    pu = labels.pu_set(db, at=facts.at_event, ids=ids)
    learned: Bools = (pu.is_positive | pu.is_not_damaged) & ~runs.held_out(layout, facts.run_id)[rows]
    if facts.n_accepted:
        told = pseudo_positives.ever_accepted_ids(db, facts.created_at)
        learned |= np.fromiter((building in told for building in ids), np.bool_, len(ids))
    for member in runs.members_of(db, facts):
        learned |= _learned(db, layout, member, ids, rows)
    return learned


def judge(scores: NDArray[np.floating], clicks: Clicks, threshold: float) -> Judgement | None:
    """Judge a run by clicks that it did not learn from; None where nothing is unlabeled. Too few give no criterion.

    Args:
        scores: float [n], of the buildings of `clicks`.
        threshold: score from which on a building is called damaged.
    """
    if not clicks.is_unlabeled.any():
        return None
    return pu_criterion(scores[clicks.is_held_out | clicks.is_later], scores[clicks.is_unlabeled], threshold)
