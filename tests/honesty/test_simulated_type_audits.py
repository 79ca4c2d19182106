"""Audits of a damage type, hundreds of times each: intervals hold the truth, also where people name what they see and skip the rest."""

import numpy as np
import pytest
from numpy.typing import NDArray
from small_parts import in_tiers

from pu_geo.analysis.audit import design as audit
from pu_geo.assessment.random_audits import Answered
from pu_geo.maps.damage_types import NO, SILENT, YES, TypeAudit, TypeOnMap, _audit_of
from pu_geo.store.choices import Threshold

N, N_CHECKS, N_ROUNDS = 3000, 300, 300
LEAST_COVERAGE = 0.93


def simulated(prevalence: float, silence: tuple[float, float], seed: int) -> tuple[TypeAudit, float, float]:
    """Audit one made-up map; return what the audit says of its type, and the true precision and recall.

    Args:
        silence: shares of the damaged with the type, and without it, of which an answer says nothing of the type.
    """
    draw = np.random.default_rng(seed)
    is_damaged = draw.random(N) < prevalence
    has_it = is_damaged & (draw.random(N) < 0.4)
    damage, kind = draw.normal(size=N) + 2 * is_damaged, draw.normal(size=N) + 2 * has_it
    is_above = (damage >= np.quantile(damage, 1 - 1.5 * prevalence)) & (kind >= 0.8)
    answers, given = np.full(N, audit.OPEN, np.int8), np.full(N, SILENT, np.int8)

    def answer(rows: NDArray[np.int64]) -> None:
        answers[rows] = is_damaged[rows]
        says = draw.random(len(rows)) >= np.where(has_it[rows], *silence)
        given[rows] = np.where(is_damaged[rows] & says, np.where(has_it[rows], YES, NO), SILENT)

    clicked = np.flatnonzero(is_damaged)[:: max(int(is_damaged.sum()) // 20, 1)]
    answer(clicked)
    sample = audit.design(damage, answers != audit.OPEN, n=N_CHECKS, seed=seed)
    answer(sample.rows[: sample.n_drawn])
    done = Answered(sample, answers, np.zeros(N, np.bool_), N_CHECKS, N_CHECKS, 0, 0, "finished", "")
    one = TypeOnMap("roof", "type_roof", Threshold(0.5, "person"), kind, given, (), is_above, is_above, 20, 0, 20)
    is_open, is_judged = answers == audit.OPEN, np.ones(N, np.bool_)
    is_judged[clicked[given[clicked] == SILENT]] = False
    missed = (has_it & is_judged & is_open & ~is_above).sum()
    flagged = is_above & is_open
    precision, recall = (flagged & has_it).sum() / flagged.sum(), 1 - missed / (has_it & is_judged).sum()
    return _audit_of(one, done, given, is_above), precision, recall


CASES = [(share, silence) for share in (0.05, 0.2) for silence in ((0.0, 0.0), (0.3, 0.3), (0.1, 0.6), (0.6, 0.1))]


@pytest.mark.slow
@pytest.mark.parametrize(("prevalence", "silence"), in_tiers(CASES, "audits", ci=[(0.2, (0.1, 0.6))]))
def test_the_intervals_of_a_type_hold_the_truth(prevalence: float, silence: tuple[float, float]) -> None:
    hits: dict[str, list[bool]] = {"precision": [], "recall": []}
    for seed in range(N_ROUNDS):
        judged, *truths = simulated(prevalence, silence, seed)
        for (name, found), truth in zip(hits.items(), truths, strict=True):
            share = getattr(judged, name)
            if share.value is not None:
                assert share.low <= share.value <= share.high
                found.append(share.low - 1e-9 <= truth <= share.high + 1e-9)
    for name, found in hits.items():
        if len(found) > 30:
            assert np.mean(found) >= LEAST_COVERAGE, name
    assert any(len(found) > 30 for found in hits.values())
