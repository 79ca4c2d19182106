"""Chances of damage from an audit: monotone, inside their bounds, adding up, and refused where answers are too few."""

from functools import partial

import numpy as np
import pytest
from golden_parts import require_refusals
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pu_geo.analysis.audit import calibration
from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit.bounds import DAMAGED, NOT_ASSESSABLE, OPEN, UNDAMAGED
from pu_geo.analysis.audit.progress import Audit
from pu_geo.errors import ProjectError, ShapeError

Answers = NDArray[np.int8]
Case = tuple[NDArray[np.float64], Audit, Answers, NDArray[np.int8]]


def case(n: int = 5000, share: float = 0.05, checks: int = 300, seed: int = 0, shift: float = 2.0) -> Case:
    """Scores in (0, 1), the audit, its answers, and the truth."""
    truth = (np.arange(n) < round(n * share)).astype(np.int8)
    scores = 1 / (1 + np.exp(-np.random.default_rng(seed).normal(size=n) - shift * truth))
    sample = audit.design(scores, np.zeros(n, np.bool_), n=checks, seed=seed)
    answers = np.full(n, OPEN, np.int8)
    drawn = sample.rows[: sample.n_drawn]
    answers[drawn] = truth[drawn]
    return scores, sample, answers, truth


@pytest.mark.parametrize("shift", [-1.0, 2.0])
def test_chances_never_fall_lie_inside_their_bounds_and_add_up_to_the_estimated_total(shift: float) -> None:
    scores, sample, answers, _ = case(share=0.2, shift=shift)
    p, low, high = calibration.calibrate(scores, sample, answers, seed=1, n_rounds=60).at(scores)
    by_score = np.argsort(scores, kind="stable")
    for curve in (p, low, high):
        assert (np.diff(curve[by_score]) >= -1e-12).all()
    assert ((low >= 0) & (low <= p) & (p <= high) & (high <= 1)).all()
    assert (high - low).min() > 0
    assert p.sum() == pytest.approx(audit.estimate_total(sample, answers).value, rel=0.08)


def test_curve_equals_another_optimizer() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    y = (rng.random(80) < 1 / (1 + np.exp(2 - 2 * x))).astype(np.float64)
    weight = rng.uniform(0.2, 5, 80)
    weight *= 80 / weight.sum()
    at = np.linspace(-2, 2, 9)
    ends = [-9.0, *calibration.BENDS, 9.0]

    def margin(curve: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.full_like(z, curve[0])
        for slope, low, high in zip(curve[1:], ends[:-1], ends[1:], strict=True):
            total += slope * (np.clip(z, low, high) - np.clip(0, low, high))
        return total

    def surprise(curve: NDArray[np.float64]) -> float:
        m = margin(curve, x)
        bent = calibration.STIFFNESS / 2 * (np.diff(curve[1:]) ** 2).sum()
        return float((weight * (np.logaddexp(0, m) - y * m)).sum() + bent + 5e-7 * (curve**2).sum())

    n_slopes = len(ends) - 1
    best = minimize(surprise, np.r_[0.0, np.ones(n_slopes)], bounds=[(None, None)] + [(0, None)] * n_slopes, tol=1e-12)
    ours = calibration._curves(x, (weight * y)[None], (weight * (1 - y))[None], at)[0]
    np.testing.assert_allclose(ours, 1 / (1 + np.exp(-margin(best.x, at))), atol=2e-4)


def test_same_seed_gives_the_same_and_the_state_brings_it_back() -> None:
    scores, sample, answers, _ = case()
    first, again, other = (calibration.calibrate(scores, sample, answers, seed=seed, n_rounds=30) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.p_high, again.p_high)
    assert (first.p_high != other.p_high).any()
    np.testing.assert_array_equal(first.p, other.p)
    for one, two in zip(first.at(scores), calibration.Calibration(**first.state()).at(scores), strict=True):
        np.testing.assert_array_equal(one, two)
    assert (np.diff(first.score) > 0).all()
    assert len(first.score) <= calibration.N_KNOTS
    assert np.isnan(first.at(np.array([np.nan, 0.5]))[0]).tolist() == [True, False]


def test_few_answers_missing_scores_and_wrong_shapes_are_refused() -> None:
    scores, sample, answers, _ = case()
    ask = partial(calibration.calibrate, sample=sample, seed=0)
    drawn = sample.rows[: sample.n_drawn]

    def answers_with(n_damaged: int, n_undamaged: int) -> Answers:
        few = np.where(answers == OPEN, OPEN, NOT_ASSESSABLE).astype(np.int8)
        few[drawn[:n_damaged]] = DAMAGED
        few[drawn[n_damaged : n_damaged + n_undamaged]] = UNDAMAGED
        return few

    require_refusals(
        (ProjectError, "it has 4 and 100", lambda: ask(scores, answers=answers_with(4, 100))),
        (ProjectError, "it has 100 and 4", lambda: ask(scores, answers=answers_with(100, 4))),
        (ProjectError, "it has 0 and 0", lambda: ask(scores, answers=answers_with(0, 0))),
        (ShapeError, r"\[N\]", lambda: ask(scores[:10], answers=answers)),
        (ValueError, "finite", lambda: ask(np.where(np.arange(5000) == 3, np.inf, scores), answers=answers)),
    )


@pytest.mark.slow
@pytest.mark.ci
def test_bounds_hold_the_chance_at_most_scores() -> None:
    quantiles, holds = (0.3, 0.6, 0.9, 0.97), []
    for seed in range(60):
        scores, sample, answers, _ = case(n=8000, seed=seed, checks=400)
        at = np.quantile(scores, quantiles)
        z = np.log(at / (1 - at))
        odds = 0.05 / 0.95 * np.exp(2 * z - 2)  # two normals, 2 apart
        _, low, high = calibration.calibrate(scores, sample, answers, seed=0, n_rounds=150).at(at)
        holds.append((low <= odds / (1 + odds)) & (odds / (1 + odds) <= high))
    assert np.mean(holds) > 0.9
    assert np.mean(holds, axis=0).min() > 0.8


def test_moved_chances_add_up_to_what_is_left() -> None:
    score = np.linspace(0, 1, 101)
    p = expit(6 * score - 4)
    fitted = calibration.Calibration(score, p, 0.7 * p, np.minimum(1.3 * p, 1))
    draw = np.random.default_rng(0)
    scores = draw.random(500)
    moved = calibration.moved(fitted, scores, (20.0, 40.0, 90.0))
    middle, low, high = (chances.sum() for chances in moved.at(scores))
    assert middle == pytest.approx(40, abs=0.1)
    assert low <= 20.1
    assert high >= 89.9
    assert (np.diff(moved.p) > 0).all()
    assert ((moved.p_low <= moved.p) & (moved.p <= moved.p_high)).all()
    none = calibration.moved(fitted, scores, (0.0, 0.0, 5.0))
    assert none.p.max() == none.p_low.max() == 0 < none.p_high.max()
