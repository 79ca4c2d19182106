"""What is asked of two runs: how far they agree, where they do not, and which one is judged better; in values and in words.

Scores of two methods have no common scale, so ranks are compared. Both are judged on the same clicks: those that neither
learned from.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.analysis import agreement
from pu_geo.analysis.audit.design import AtThreshold
from pu_geo.analysis.estimates import without_guesses
from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, Judgement, above_words, is_unlabeled, pu_criterion
from pu_geo.answers import random_checks
from pu_geo.answers.random_checks import Check
from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import PuGeoError
from pu_geo.records import Bools, Facts, Floats, Ints, RunFacts, Singles, rows_of
from pu_geo.store import contents, labels, population, pseudo_positives, runs, store
from pu_geo.store.labels import Moment
from pu_geo.store.layout import Layout

TOP_SHARES = (0.01, 0.05, 0.1)
SMALLEST_TOP = 20
N_SHOWN, N_LISTED = 6, 20  # buildings on which two runs disagree: on the screen, and as values
_LEAST_SPAN = 0.1
_MAX_CURVE = 1 << 24
_FACTS = ("run_id", "method", "preset", "seed", "at_event", "n_positive", "seconds", "threshold")


@dataclass(frozen=True)
class Top:
    """How many of the k highest of one run are among the k highest of the other, and how many would be by chance, 0..1."""

    k: int
    overlap: float
    chance: float


@dataclass(frozen=True)
class Side:
    """One of two runs.

    Attributes:
        judgement: by the clicks that neither run learned from; None where nothing is unlabeled.
        audited: precision and recall at the run's own threshold; None where no audit fits.
    """

    facts: RunFacts
    judgement: Judgement | None
    audited: AtThreshold | None


@dataclass(frozen=True)
class Ranked:
    """Two rankings of their common buildings; those that cannot be assessed are left out.

    Attributes:
        rows: row of each building in the arrays of the two runs, int64 [n] each.
        places: 1 for the highest score, int64 [n] each.
        difference: how much higher the first run ranks a building, float64 [n], -1..1, in shares of all buildings.
        n_left_out: common buildings that cannot be assessed.
        spearman: -1..1; nan where a run gives all buildings one score.
    """

    ids: Sequence[str]
    rows: tuple[Ints, Ints]
    places: tuple[Ints, Ints]
    difference: Floats
    n_left_out: int
    spearman: float
    tops: tuple[Top, ...]


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
        return self.n_held_out + self.n_later

    @property
    def n_held_out(self) -> int:
        return int(self.is_held_out.sum())

    @property
    def n_later(self) -> int:
        return int(self.is_later.sum())

    @property
    def words(self) -> str:
        """How many these are, what they are worth, and what to do where they are too few."""
        if self.n < FEWEST_HELD_OUT:
            return (
                f"Not enough to judge: {self.n} clicks that neither run learned from; {FEWEST_HELD_OUT} are needed. "
                "Train both with held-out clicks and the same seed, or go on clicking."
            )
        words = f"Judged on the same {self.n} clicks, which neither run learned from: {self.n_held_out} held out by both"
        if not self.n_later:
            return f"{words}."
        return (
            f"{words}, {self.n_later} clicked after one or both began. Later clicks are a choice of whoever clicked, not "
            "an even draw of the damage, and a run that had started did not know them."
        )


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side; `check` is the audit that judges both, None without one."""

    sides: tuple[Side, Side]
    ranked: Ranked
    clicks: Clicks
    check: Check | None


def compare(layout: Layout, one: str, other: str) -> Comparison:
    """Compare two runs, given by id or as "latest", on the buildings that both scored.

    Raises:
        ProjectError: if there is no such run.
        PuGeoError: if both are the same, or fewer than two buildings are in both.
    """
    with store.connect(layout) as db:
        first, second = runs.find(db, one), runs.find(db, other)
        newest = (labels.moment(db), contents.geometry_v(db))
    if first.run_id == second.run_id:
        raise PuGeoError(f"Run {first.run_id} was named twice.", "Name two runs.", kind="twice")
    check = _common_audit(layout, first, second)
    n_drawn = check.sample.n_drawn if check else 0
    return _compare(layout, first.run_id, second.run_id, newest, check.id if check else None, n_drawn)


@lru_cache(maxsize=4)
def _compare(
    layout: Layout, one: str, other: str, newest: tuple[Moment, str], check_id: str | None, n_drawn: int
) -> Comparison:
    """Compare anew where labels, footprints or the audit changed; runs never do."""
    with store.connect(layout) as db:
        pair = runs.find(db, one), runs.find(db, other)
    ranked, scores = _ranked(layout, *pair)
    clicks = unused_clicks(layout, pair, ranked.ids, ranked.rows)
    check = random_checks.load(layout, check_id) if check_id else None
    sides = []
    for facts, values in zip(pair, scores, strict=True):
        audited = auditing.at_by(layout, facts.run_id, check, [facts.threshold])[0] if check else None
        sides.append(Side(facts, judge(values, clicks, facts.threshold), audited))
    return Comparison((sides[0], sides[1]), ranked, clicks, check)


def _ranked(layout: Layout, one: RunFacts, other: RunFacts) -> tuple[Ranked, list[Floats]]:
    """Rank the common buildings by both runs; return the scores of the two, float64 [n] each, too."""
    ids, others = (runs.building_ids_of(layout, facts.run_id) for facts in (one, other))
    theirs = rows_of(ids, others)
    rows = np.flatnonzero(theirs >= 0)
    theirs = theirs[rows]
    is_own, is_theirs = (population.of_run(layout, run, of_run).is_assessed for run, of_run in ((one, ids), (other, others)))
    is_open = is_own[rows] & is_theirs[theirs]
    n_left_out = int((~is_open).sum())
    rows, theirs = rows[is_open], theirs[is_open]
    n = len(rows)
    if n < 2:
        raise PuGeoError(
            f"Runs {one.run_id} and {other.run_id} have {n} assessable buildings in common; a comparison needs two.",
            "Compare runs of the same chips.",
            kind="nothing_common",
        )
    pairs = ((one, rows), (other, theirs))
    scores = [np.asarray(runs.array(layout, facts.run_id, "scores"), np.float64)[own] for facts, own in pairs]
    sizes = sorted({min(max(SMALLEST_TOP, round(share * n)), n) for share in TOP_SHARES})
    ranked = Ranked(
        ids=[ids[row] for row in rows.tolist()],
        rows=(rows, theirs),
        places=(agreement.places(scores[0]), agreement.places(scores[1])),
        difference=agreement.disagreement(*scores),
        n_left_out=n_left_out,
        spearman=agreement.spearman(*scores),
        tops=tuple(Top(k, agreement.top_overlap(scores[0], scores[1], k), k / n) for k in sizes),
    )
    return ranked, scores


def _common_audit(layout: Layout, one: RunFacts, other: RunFacts) -> Check | None:
    """Return the newest audit that either run had, if both scored the chips that it drew from."""
    if one.chip_set != other.chip_set:
        return None
    found = [facts for facts in random_audits.audits_of(layout) if facts["run_id"] in (one.run_id, other.run_id)]
    return random_checks.load(layout, found[-1]["id"]) if found else None


def curve(layout: Layout, run_id: str) -> list[Facts]:
    """Return the reports of a run's training, an epoch each; none where it kept none, or its file holds anything else."""
    kept = layout.run(run_id) / "curve.json"
    if not kept.is_file() or kept.stat().st_size > _MAX_CURVE:
        return []
    with suppress(ValueError, TypeError):
        points = json.loads(kept.read_text(encoding="utf-8"))
        rows = [point for point in points if isinstance(point, Mapping) and isinstance(point.get("epoch"), int | float)]
        return [{key: value for key, value in without_guesses(row).items() if key not in ("at", "event")} for row in rows]
    return []


# Clicks that neither learned from


def unused_clicks(layout: Layout, found: Sequence[RunFacts], ids: Sequence[str], rows: Sequence[Ints]) -> Clicks:
    """Return the clicks that none of some runs learned from.

    Args:
        ids: the buildings that count, [n]; without those that cannot be assessed.
        rows: of each run, the rows of these buildings in its arrays, int64 [n].
    """
    held_out = [runs.held_out(layout, facts.run_id)[own] for facts, own in zip(found, rows, strict=True)]
    with store.connect(layout) as db:
        is_positive = labels.pu_set(db, ids=ids).is_positive
        learned = [_learned(db, layout, facts, ids, own) for facts, own in zip(found, rows, strict=True)]
    is_held_out = is_positive & np.all(held_out, axis=0)
    is_later = is_positive & ~is_held_out & ~np.any(learned, axis=0)
    return Clicks(is_held_out, is_later, is_unlabeled(is_positive, np.zeros(len(ids), np.bool_)))


def _learned(db: sqlite3.Connection, layout: Layout, facts: RunFacts, ids: Sequence[str], rows: Ints) -> Bools:
    """Return the buildings that a run learned an answer of, bool [n].

    Which accepted clusters it learned from is not kept, so all that were accepted before it ended count.
    """
    pu = labels.pu_set(db, at=facts.at_event, ids=ids)
    learned: Bools = (pu.is_positive | pu.is_not_damaged) & ~runs.held_out(layout, facts.run_id)[rows]
    if facts.n_accepted:
        accepted = pseudo_positives.ever_accepted_ids(db, facts.created_at)
        learned |= np.fromiter((building in accepted for building in ids), np.bool_, len(ids))
    return learned


def judge(scores: NDArray[np.floating], clicks: Clicks, threshold: float) -> Judgement | None:
    """Judge a run's scores, float [n], by clicks that it did not learn from; too few give no criterion.

    Returns:
        None where nothing is unlabeled. From `threshold` on a building is called damaged.
    """
    if not clicks.is_unlabeled.any():
        return None
    return pu_criterion(scores[clicks.is_held_out | clicks.is_later], scores[clicks.is_unlabeled], threshold)


# Where two runs disagree most


@dataclass(frozen=True)
class Disagreement:
    """A building on which two runs disagree: its places in both, and its label, "" where it has none."""

    building_id: str
    places: tuple[int, int]
    label: str


@dataclass(frozen=True)
class MapPoints:
    """Buildings as dots, those on which two runs disagree last, so that they are on top.

    Attributes:
        x, y: pixels of the project grid, y down, float32 [n].
        difference: as in `Ranked`, float32 [n].
        most: the largest difference, for the ends of a color scale; at least 0.1.
    """

    x: Singles
    y: Singles
    difference: Singles
    most: float


def most_disagreeing(layout: Layout, found: Comparison, n: int = N_SHOWN) -> tuple[list[Disagreement], list[Disagreement]]:
    """Return the buildings that the first run ranks far higher than the second, and the other way, largest first."""
    answers = store.call(layout, labels.current_labels)
    ranked = found.ranked
    higher, lower = agreement.largest_differences(ranked.difference, n)
    first, second = ranked.places

    def described(rows: Ints) -> list[Disagreement]:
        ids = [(ranked.ids[row], row) for row in rows.tolist()]
        return [Disagreement(one, (int(first[row]), int(second[row])), answers.get(one, "")) for one, row in ids]

    return described(higher), described(lower)


def map_points(layout: Layout, found: Comparison) -> MapPoints:
    """Return where two runs disagree, building by building."""
    difference = found.ranked.difference
    order = np.argsort(np.abs(difference), kind="stable")
    xy = store.call(layout, contents.centers_px, found.ranked.ids)[order]
    most = max(float(np.abs(difference).max()), _LEAST_SPAN)
    return MapPoints(xy[:, 0], xy[:, 1], difference[order].astype(np.float32), most)


# In words


def agreement_words(found: Comparison) -> list[str]:
    """Return in plain sentences how far two runs, called A and B, agree."""
    ranked = found.ranked
    left_out = f"; {ranked.n_left_out:,} that cannot be assessed are left out" if ranked.n_left_out else ""
    common = f"{len(ranked.ids):,} common buildings{left_out}"
    return [
        f"Rank correlation (Spearman) {_rho_words(ranked.spearman)}, over {common}.",
        *(
            f"Of the {top.k:,} highest of A, {top.overlap:.0%} are among the {top.k:,} highest of B (by chance "
            f"{top.chance:.0%})."
            for top in ranked.tops
        ),
    ]


def _rho_words(rho: float) -> str:
    if np.isnan(rho):
        return "unknown, since one run gives all buildings the same score"
    kinds = {
        0.9: "nearly the same order", 0.7: "much the same order", 0.4: "partly the same order", 0.1: "little in common",
        -0.0999: "nothing in common", -1.0: "opposite orders",
    }  # fmt: skip
    return f"{rho:.2f}: {next(words for low, words in kinds.items() if round(rho, 9) >= low)}"


def criterion_words(side: Side) -> str:
    """Write the PU criterion of a run with its interval, or that there is not enough to judge by."""
    known = side.judgement
    if known is None or known.criterion is None or known.recall is None:
        return "not enough to judge"
    return (
        f"{known.criterion:.2f} ({known.low:.2f} to {known.high:.2f}); {wording.percent(known.recall)} of "
        f"{known.n_held_out} clicks "
        f"{above_words(known.n_called)}"
    )


def as_json(layout: Layout, found: Comparison) -> Facts:
    """Write a comparison in plain values.

    Returns:
        {"runs": two of {facts, "judgement", "audit"}, "n", "n_left_out", "spearman", "tops", "clicks", "check_id",
        "apart": [higher in the first, higher in the second]}
    """
    ranked = found.ranked
    return {
        "runs": [
            {
                **{name: getattr(side.facts, name) for name in _FACTS},
                "judgement": None if side.judgement is None else asdict(side.judgement),
                "audit": None if side.audited is None else asdict(side.audited),
            }
            for side in found.sides
        ],
        "n": len(ranked.ids),
        "n_left_out": ranked.n_left_out,
        "spearman": None if np.isnan(ranked.spearman) else round(ranked.spearman, 4),
        "tops": [asdict(top) for top in ranked.tops],
        "clicks": {name: getattr(found.clicks, name) for name in ("n", "n_held_out", "n_later", "words")},
        "check_id": None if found.check is None else found.check.id,
        "apart": [[asdict(one) for one in rows] for rows in most_disagreeing(layout, found, N_LISTED)],
    }
