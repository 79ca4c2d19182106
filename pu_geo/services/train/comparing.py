"""What is asked of two runs: how far they agree, where they do not, which one is judged better, and what both say together.

Scores of two methods have no common scale, so ranks are compared. Judged are both on the same clicks: those that neither
learned from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.analysis import agreement, assessability
from pu_geo.analysis.audit.design import AtThreshold
from pu_geo.analysis.pu_criterion import Judgement
from pu_geo.errors import PuGeoError
from pu_geo.project import labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.damage_map import auditing, random_audits
from pu_geo.services.damage_map.random_audits import Check
from pu_geo.services.project import choices
from pu_geo.services.train import judging
from pu_geo.services.train.judging import Clicks

_MAX_CURVE = 1 << 24
TOP_SHARES = (0.01, 0.05, 0.1)
SMALLEST_TOP = 20
Bools = NDArray[np.bool_]


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
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    difference: NDArray[np.float64]
    n_left_out: int
    spearman: float
    tops: tuple[Top, ...]


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side; `check` is the audit that judges both, None without one."""

    sides: tuple[Side, Side]
    ranked: Ranked
    clicks: Clicks
    check: Check | None


def compare(layout: Layout, one: str, other: str) -> Comparison:
    """Compare two runs on the buildings that both scored.

    Args:
        one, other: ids of runs; "latest" is the newest.

    Raises:
        ProjectError: if there is no such run.
        PuGeoError: if both are the same, or fewer than two buildings are in both.
    """
    with store.connect(layout) as db:
        first, second = runs.find(db, one), runs.find(db, other)
        newest = labels.last_event(db)
    if first.run_id == second.run_id:
        raise PuGeoError(f"Run {first.run_id} was named twice.", "Name two runs.", kind="twice")
    check = _common_audit(layout, first, second)
    n_drawn = check.sample.n_drawn if check else 0
    return _compare(layout, first.run_id, second.run_id, newest, check.id if check else None, n_drawn)


@lru_cache(maxsize=4)
def _compare(layout: Layout, one: str, other: str, newest: int, check_id: str | None, n_drawn: int) -> Comparison:
    """Compare anew where labels or the audit changed; runs never do."""
    with store.connect(layout) as db:
        pair = runs.find(db, one), runs.find(db, other)
    ranked, scores = _ranked(layout, *pair)
    clicks = judging.unseen_clicks(layout, pair, ranked.ids, ranked.rows)
    check = random_audits.load(layout, check_id) if check_id else None
    sides = [
        Side(
            facts,
            judging.judge(values, clicks, facts.threshold),
            auditing.at_by(layout, facts.run_id, check, facts.threshold) if check else None,
        )
        for facts, values in zip(pair, scores, strict=True)
    ]
    return Comparison((sides[0], sides[1]), ranked, clicks, check)


def _ranked(layout: Layout, one: RunFacts, other: RunFacts) -> tuple[Ranked, list[NDArray[np.float64]]]:
    """Rank the common buildings by both runs; return the scores of the two, float64 [n] each, too."""
    ids, others = (runs.building_ids_of(layout, facts.run_id) for facts in (one, other))
    rows, theirs = _common_rows(ids, others)
    is_open = ~_is_hidden(layout, one, ids)[rows] & ~_is_hidden(layout, other, others)[theirs]
    n_left_out = int((~is_open).sum())
    rows, theirs = rows[is_open], theirs[is_open]
    n = len(rows)
    if n < 2:
        raise PuGeoError(
            f"Runs {one.run_id} and {other.run_id} have {n} assessable buildings in common; a comparison needs two.",
            "Compare runs of the same chips.",
            kind="nothing_common",
        )
    scores = [
        np.asarray(runs.array(layout, facts.run_id, "scores"), np.float64)[own]
        for facts, own in ((one, rows), (other, theirs))
    ]
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


def _common_rows(ids: Sequence[str], others: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if ids == others:
        return np.arange(len(ids)), np.arange(len(ids))
    place = {building: row for row, building in enumerate(others)}
    theirs = np.array([place.get(building, -1) for building in ids], np.int64)
    return np.flatnonzero(theirs >= 0), theirs[theirs >= 0]


def _is_hidden(layout: Layout, run: RunFacts, ids: Sequence[str]) -> Bools:
    """Return which buildings, [N] of a run, it does not assess, or a person called not assessable, bool [N]."""
    hidden = choices.reasons_of(layout, run) or {}
    why = np.array([hidden.get(building, "") for building in ids], np.str_)
    with store.connect(layout) as db:
        said = labels.current_labels(db)
    return assessability.is_hidden(ids, said, why)


def _common_audit(layout: Layout, one: RunFacts, other: RunFacts) -> Check | None:
    """Return the newest audit that either run had, if both scored the chips that it drew from."""
    if one.chip_set != other.chip_set:
        return None
    found = [check for facts in (one, other) if (check := random_audits.newest_audit(layout, facts.run_id))]
    return max(found, key=lambda check: check.begun_at, default=None)


def curve(layout: Layout, run_id: str) -> list[Mapping[str, Any]]:
    """Return the reports of a run's training, an epoch each: those that the run kept, else those of its job, else none.

    A file of anything else is passed over, and so are rows in it that tell of no epoch.
    """
    kept, points = layout.run(run_id) / "curve.json", None
    if kept.is_file() and kept.stat().st_size <= _MAX_CURVE:
        with suppress(ValueError):
            points = json.loads(kept.read_text(encoding="utf-8"))
    if not isinstance(points, list) or not points:
        points = next((job.curve for job in jobs.all_jobs(layout) if job.result.get("run_id") == run_id), ())
    rows = [point for point in points if isinstance(point, Mapping) and isinstance(point.get("epoch"), int | float)]
    return [{key: value for key, value in row.items() if key not in ("at", "event")} for row in rows]
