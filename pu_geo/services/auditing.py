"""What the audit of a run's map says: number damaged, precision and recall, thresholds, and chances of damage.

The map that is judged is the one that leaves the house: what people confirmed before the audit counts as flagged, what they
called not damaged as not flagged, and only the rest by its score.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import audit, calibration
from pu_geo.analysis.audit import AtThreshold, Choice
from pu_geo.analysis.audit import Estimate as Estimate
from pu_geo.analysis.calibration import Calibration
from pu_geo.errors import PuGeoError
from pu_geo.project import analysts, labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services import checking
from pu_geo.services.checking import Check, Done

N_THRESHOLDS = 60
CONFIDENCE = 0.95
USUAL_HALF_WIDTH = 0.3
BAND = 0.9


@dataclass(frozen=True)
class AuditView:
    """An audit as it stands.

    Attributes:
        n: assessable buildings of the map.
        total: number damaged.
        rows: precision and recall from the lowest threshold to the highest.
        calibration: None, and the reason in `no_calibration`, where there are too few answers.
        agreement: of two readers on the audit's buildings; None where nobody read them twice.
    """

    check: Check
    done: Done
    n: int
    total: Estimate
    rows: tuple[AtThreshold, ...]
    calibration: Calibration | None
    no_calibration: str
    agreement: analysts.Agreement | None


@dataclass(frozen=True)
class _Judged:
    check: Check
    answers: NDArray[np.int8]
    scores: NDArray[np.float64]


def view(layout: Layout, run_id: str) -> AuditView | None:
    """Judge a run by its newest audit; None where there was none."""
    check = checking.newest_audit(layout, run_id)
    if check is None:
        return None
    with store.connect(layout) as db:
        newest = labels.last_event(db)
    return _view(layout, run_id, check.id, check.sample.n_drawn, newest)


@lru_cache(maxsize=8)
def _view(layout: Layout, run_id: str, check_id: str, n_drawn: int, newest_event: int) -> AuditView:
    """Judge anew where the sample or the labels changed."""
    judged = _judged(layout, run_id, checking.load(layout, check_id))
    fitted, reason = None, ""
    try:
        fitted = calibration.calibrate(_raw_scores(layout, run_id), judged.check.sample, judged.answers, seed=0)
    except PuGeoError as error:
        reason = error.problem
    spread = np.quantile(judged.scores[judged.check.sample.rows], 1 - np.geomspace(0.0005, 1, N_THRESHOLDS))
    thresholds = np.unique(spread.round(4))
    with store.connect(layout) as db:
        ids = runs.building_ids_of(layout, run_id)
        agreed = analysts.agreement(db, {ids[row] for row in judged.check.sample.rows[:n_drawn]})
    return AuditView(
        check=judged.check,
        done=checking.done_of(judged.check, judged.answers),
        n=int((judged.answers != audit.NOT_ASSESSABLE).sum()),
        total=audit.estimate_total(judged.check.sample, judged.answers, confidence=CONFIDENCE),
        rows=tuple(
            audit.at_thresholds(judged.check.sample, judged.answers, judged.scores, thresholds, confidence=CONFIDENCE)
        ),
        calibration=fitted,
        no_calibration=reason,
        agreement=agreed if agreed.n else None,
    )


def latest(layout: Layout) -> Estimate | None:
    """Return the number damaged by the newest audit of any run; None without one that is enough."""
    check = checking.newest_audit(layout)
    if check is None:
        return None
    total = audit.estimate_total(check.sample, checking.answers_of(layout, check.chip_set, check), confidence=CONFIDENCE)
    return total if total.is_enough else None


def at(layout: Layout, run_id: str, threshold: float) -> AtThreshold | None:
    """Estimate precision and recall at one threshold; None without an audit."""
    check = checking.newest_audit(layout, run_id)
    return None if check is None else at_by(layout, run_id, check, threshold)


def at_by(layout: Layout, run_id: str, check: Check, threshold: float) -> AtThreshold:
    """Estimate precision and recall of a run by any audit of the same chips, also one that another run's scores drew."""
    judged = _judged(layout, run_id, check)
    return audit.at_thresholds(check.sample, judged.answers, judged.scores, [threshold], confidence=CONFIDENCE)[0]


def at_top(layout: Layout, run_id: str, k: int) -> AtThreshold | None:
    """Estimate the precision of the k highest places; None without an audit."""
    check = checking.newest_audit(layout, run_id)
    if check is None:
        return None
    judged = _judged(layout, run_id, check)
    return audit.precision_at_k(check.sample, judged.answers, judged.scores, k, confidence=CONFIDENCE)


def choose(found: AuditView, *, precision: float | None = None, recall: float | None = None) -> Choice:
    """Choose a threshold for a wanted precision or recall."""
    return audit.threshold_for(found.rows, precision=precision, recall=recall)


def facts(layout: Layout, run_id: str, threshold: float) -> dict[str, Any] | None:
    """Write an audit in plain values, for exports and the report; None without an audit.

    Returns:
        {"check_id", "n", "n_drawn", "n_answered", "n_damaged", "total", "at_threshold", "curve", "agreement", "calibration",
        "bands"}; bands are the thresholds of 90 % precision and recall, by the estimates: lower bounds of recall from few checks
        would put nearly every building into the second band. None where most buildings would be in it.
    """
    found = view(layout, run_id)
    if found is None:
        return None
    scores = _raw_scores(layout, run_id).round(4)
    wishes = {"high_precision": choose(found, precision=BAND), "high_recall": choose(found, recall=BAND)}
    here = at(layout, run_id, threshold)
    curve = found.calibration
    return {
        "check_id": found.check.id,
        "n": found.n,
        "n_drawn": found.done.n_drawn,
        "n_answered": found.done.n_answered,
        "n_damaged": found.done.n_damaged,
        "total": asdict(found.total),
        "at_threshold": None if here is None else asdict(here),
        "curve": [asdict(row) for row in found.rows],
        "agreement": None if found.agreement is None else asdict(found.agreement),
        "calibration": None if curve is None else {key: values.tolist() for key, values in curve.state().items()},
        "bands": {name: _useful(wish.estimated, scores) for name, wish in wishes.items()},
    }


def _useful(threshold: float | None, scores: NDArray[np.float64]) -> float | None:
    """Return a band's threshold unless most buildings are above it; such a band tells nobody where to look."""
    return None if threshold is None or (scores >= threshold).mean() > 0.5 else threshold


def suggested_size(layout: Layout, run_id: str, relative_half_width: float = USUAL_HALF_WIDTH) -> int:
    """Say how many checks tell the number damaged to about so much of itself, by what the ranker guesses of it now."""
    with store.connect(layout) as db:
        facts = runs.find(db, run_id)
    is_known = checking.answers_of(layout, facts.chip_set) != audit.OPEN
    if is_known.all():
        return 0
    scores = _raw_scores(layout, facts.run_id)
    share = facts.estimated_share if facts.estimated_share is not None else 0.01
    return audit.size_for(
        scores, is_known, guess=_guess(scores, max(share, 1 / len(scores))), relative_half_width=relative_half_width
    )


def _guess(scores: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Guess chances of damage: a curve over the rank that falls from the top and has the wanted mean, float64 [N].

    Ours: as many as `share` are expected, three quarters of them within twice that share from the top.
    """
    place = (np.argsort(np.argsort(-scores, kind="stable"), kind="stable") + 0.5) / len(scores)
    top = min(2 * share, 1.0)
    inside = 0.75 * share / top
    return np.clip(np.where(place <= top, inside, 0.25 * share / max(1 - top, share)), 0.0, 1.0)


def _raw_scores(layout: Layout, run_id: str) -> NDArray[np.float64]:
    return np.asarray(runs.array(layout, run_id, "scores"), np.float64)


def _judged(layout: Layout, run_id: str, check: Check) -> _Judged:
    """Put answers and scores together; what was known before the audit stands above or below every threshold."""
    answers = checking.answers_of(layout, check.chip_set, check)
    scores = _raw_scores(layout, run_id).round(4)
    is_census = np.ones(len(scores), np.bool_)
    is_census[check.sample.rows] = False
    scores[is_census & (answers == audit.DAMAGED)] = 2.0
    scores[is_census & (answers == audit.UNDAMAGED)] = -1.0
    return _Judged(check, answers, scores)
