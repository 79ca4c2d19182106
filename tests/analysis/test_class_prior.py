"""Best Bin Estimation against loops, a number by hand, and the figures that its module states."""

from __future__ import annotations

import numpy as np
import pytest
from golden_parts import require_refusals
from numpy.typing import NDArray
from small_parts import in_tiers

from pu_geo.analysis.class_prior import best_bin_share
from pu_geo.errors import ShapeError, TrainingError

Scores = NDArray[np.float64]
PRIORS = (0.005, 0.05, 0.3, 0.6)
MEASURED = {  # separation, held-out positives: mean estimate by class prior, as stated in the module
    (2, 10): (0.137, 0.171, 0.364, 0.578),
    (2, 30): (0.114, 0.152, 0.362, 0.600),
    (2, 300): (0.071, 0.113, 0.344, 0.616),
    (4, 10): (0.016, 0.057, 0.277, 0.528),
    (4, 30): (0.014, 0.058, 0.291, 0.562),
    (4, 300): (0.010, 0.055, 0.299, 0.588),
}


def two_normals(seed: int, separation: float, prior: float, n_positive: int, n_unlabeled: int) -> tuple[Scores, Scores]:
    draw = np.random.default_rng(seed)
    unlabeled = draw.normal(size=n_unlabeled) + separation * (draw.random(n_unlabeled) < prior)
    return draw.normal(size=n_positive) + separation, unlabeled


def by_loops(positive: Scores, unlabeled: Scores, delta: float, gamma: float) -> float:
    """Try every score as the end of a bin, the highest last."""
    width_p, width_u = (np.sqrt(np.log(4 / delta) / 2 / len(scores)) for scores in (positive, unlabeled))
    smallest, share = np.inf, np.nan
    for end in sorted([*positive, *unlabeled]):
        q_p, q_u = (sum(score >= end for score in scores) / len(scores) for scores in (positive, unlabeled))
        if q_p <= width_p and q_p < 1:
            continue
        bound = q_u / q_p + (1 + gamma) / q_p * (width_p + width_u)
        if bound < smallest - 1e-12:
            smallest, share = bound, q_u / q_p
    return share


@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize(("n_positive", "n_unlabeled"), [(1, 30), (2, 3), (12, 80)])
def test_equals_the_naive_loop_with_and_without_ties(n_positive: int, n_unlabeled: int, is_rounded: bool) -> None:
    positive, unlabeled = two_normals(0, 2.0, 0.3, n_positive, n_unlabeled)
    if is_rounded:
        positive, unlabeled = positive.round(), unlabeled.round()
    for delta, gamma in ((0.1, 0.01), (0.5, 1.0)):
        found = best_bin_share(positive, unlabeled, delta=delta, gamma=gamma)
        assert found == pytest.approx(by_loops(positive, unlabeled, delta, gamma), abs=1e-12)


def test_equals_the_value_worked_out_by_hand() -> None:
    # 800 of 1,000 positives score 3, the others 1; of 2,000 unlabeled 400 score 3, 600 score 2, 1,000 score 0.
    # w = sqrt(log 40 / 2 n) = 0.04295 and 0.03037, times 1.01: 0.07405. Bin from 3: (0.2 + 0.07405) / 0.8 = 0.343;
    # bin from 1: (0.5 + 0.07405) / 1 = 0.574. So 0.2 / 0.8.
    positive, unlabeled = np.repeat([3.0, 1.0], [800, 200]), np.repeat([3.0, 2.0, 0.0], [400, 600, 1000])
    assert best_bin_share(positive, unlabeled) == pytest.approx(0.25, abs=1e-12)
    # With 10 and 20 chips of the same shares, w = 0.4295 and 0.3037, together 0.7405 with 1.01: 1.176 against 1.241.
    assert best_bin_share(positive[::100], unlabeled[::100]) == pytest.approx(0.25, abs=1e-12)
    # gamma 1 doubles the widths to 1.4664: 2.083 against 1.966, and the bin of all positives wins.
    assert best_bin_share(positive[::100], unlabeled[::100], gamma=1.0) == pytest.approx(0.5, abs=1e-12)
    # Few scores stay within bounds.
    for one, other, share in (
        ([1.0], [0.0], 0.0),
        ([0.0], [1.0], 1.0),
        ([0.5, 0.5], [0.5] * 3, 1.0),
        ([1.0, 2.0], [1.5, 0.0], 0.5),
    ):
        assert best_bin_share(np.array(one), np.array(other)) == pytest.approx(share, abs=1e-12)


def test_bin_that_could_hold_no_damage_is_left_out() -> None:
    # 4 of 10 positives are above all unlabeled: q_p 0.4, below w_p = 0.4295. Its bound, 0.438 / 0.4, would win over
    # (0.9 + 0.438) / 1 of the bin of all positives.
    positive, unlabeled = np.repeat([3.0, 0.0], [4, 6]), np.repeat([1.0, -1.0], [90_000, 10_000])
    assert best_bin_share(positive, unlabeled) == pytest.approx(0.9, abs=1e-12)


@pytest.mark.parametrize(("separation", "n_positive"), in_tiers(MEASURED, "slow", quick=[(4, 30)]))
def test_mean_estimates_are_those_that_the_module_states(separation: int, n_positive: int) -> None:
    for prior, stated in zip(PRIORS, MEASURED[separation, n_positive], strict=True):
        draws = (two_normals(seed, separation, prior, n_positive, 5000) for seed in range(200))
        assert np.mean([best_bin_share(*scores) for scores in draws]) == pytest.approx(stated, abs=0.001)


def test_refuses_missing_groups_and_wrong_input() -> None:
    some = np.array([0.2, 0.7])
    for positive, unlabeled, counts in ((some[:0], some, "0 and 2"), (some, some[:0], "2 and 0")):
        with pytest.raises(TrainingError, match=counts) as caught:
            best_bin_share(positive, unlabeled)
        assert caught.value.kind == "positives"
    require_refusals(
        (ShapeError, r"\(2, 1\) and \(2,\)", lambda: best_bin_share(some[:, None], some)),
        (ValueError, "NaN", lambda: best_bin_share(some, some * np.nan)),
        (ValueError, "NaN", lambda: best_bin_share(some * np.nan, some)),
        (ValueError, "delta must lie", lambda: best_bin_share(some, some, delta=0.0)),
        (ValueError, "delta must lie", lambda: best_bin_share(some, some, delta=1.0)),
        (ValueError, "delta must lie", lambda: best_bin_share(some, some, gamma=-0.1)),
    )
