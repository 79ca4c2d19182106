"""The criterion of Lee and Liu and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pu_geo.analysis.pu_criterion import Judgement, is_unlabeled, pu_criterion, wilson, words_of


def judged(n_found: int, n: int, n_called: int, n_unlabeled: int) -> Judgement:
    held_out = np.where(np.arange(n) < n_found, 0.9, 0.1)
    unlabeled = np.where(np.arange(n_unlabeled) < n_called, 0.8, 0.2)
    return pu_criterion(held_out, unlabeled, 0.5)


def test_a_case_worked_out_by_hand() -> None:
    # r = 8/10, Pr = 20/100: 0.64 / 0.2 = 3.2. Wilson with z = 1.959964, z2 = 3.841459: center (8 + 1.920730) / 13.841459 =
    # 0.716740, half sqrt(3.841459 * 8 * 2 / 10 + 3.689202) / 13.841459 = 0.226578; squared, over 0.2.
    found = judged(8, 10, 20, 100)
    assert found.recall == 0.8
    assert found.share_called == 0.2
    assert found.criterion == pytest.approx(3.2)
    assert found.low == pytest.approx(0.490162**2 / 0.2, abs=1e-4)
    assert found.high == pytest.approx(0.943318**2 / 0.2, abs=1e-4)
    assert "80% of 10 held-out clicks" in found.words


@pytest.mark.parametrize("n", [0, 1, 9])
def test_few_clicks_judge_nothing(n: int) -> None:
    found = judged(n, n, 5, 50)
    assert not found.is_enough
    assert (found.criterion, found.low, found.high) == (None, None, None)
    assert found.recall == (1.0 if n else None)
    assert found.words.startswith("Not enough to judge")
    assert words_of(found.as_mapping()) == found.words


def test_calling_all_gets_one_and_nothing_gets_nothing() -> None:
    assert judged(20, 20, 100, 100).criterion == 1
    assert judged(10, 20, 50, 100).criterion == pytest.approx(0.5)
    found = judged(0, 12, 0, 50)
    assert (found.criterion, found.low, found.high) == (0, 0, 0)
    odd = judged(3, 12, 0, 50)
    assert all(math.isfinite(value) for value in (odd.criterion, odd.low, odd.high) if value is not None)
    at_threshold = pu_criterion(np.full(10, 0.5), np.array([0.5, 0.4]), 0.5)
    assert (at_threshold.recall, at_threshold.share_called) == (1.0, 0.5)


def test_a_sampled_share_widens_the_interval_as_far_as_it_is_off() -> None:
    is_called, held_out = np.arange(200_000) < 800, np.arange(50) < 30
    true = pu_criterion(held_out * 1.0, is_called * 1.0, 0.5)
    inside = 0
    for seed in range(60):
        drawn = np.random.default_rng(seed).choice(is_called, 4000, replace=False)
        found = pu_criterion(held_out * 1.0, drawn * 1.0, 0.5, is_sampled=True)
        known = pu_criterion(held_out * 1.0, drawn * 1.0, 0.5)
        assert (found.criterion, found.recall, found.share_called) == (known.criterion, known.recall, known.share_called)
        assert found.low < known.low < known.high < found.high
        # r is the truth here: what is left is how far Pr alone is off
        low, high = wilson(int(drawn.sum()), 4000)
        assert found.low == pytest.approx(wilson(30, 50)[0] ** 2 / high)
        assert found.high == pytest.approx(wilson(30, 50)[1] ** 2 / low)
        inside += low <= 800 / 200_000 <= high
        assert found.low < true.criterion < found.high
    assert inside >= 54
    none = pu_criterion(np.arange(12) < 3, np.zeros(4000), 0.5, is_sampled=True)
    assert 0 < none.low < none.criterion < none.high < math.inf


def test_hidden_buildings_and_clicks_are_not_unlabeled() -> None:
    is_clicked, is_hidden = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert is_unlabeled(is_clicked, is_hidden).tolist() == [False, False, False, True]


@pytest.mark.parametrize(("n_hits", "n"), [(0, 10), (10, 10), (3, 7), (50, 100)])
def test_wilson_solves_its_equation_and_stays_inside(n_hits: int, n: int) -> None:
    low, high = wilson(n_hits, n)
    assert 0 <= low <= n_hits / n <= high <= 1
    assert low < high
    for bound in (low, high):  # |p_hat - p| = z sqrt(p (1 - p) / n)
        if 0 < bound < 1:
            assert abs(n_hits / n - bound) == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / n), abs=1e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        pu_criterion(np.array([np.nan]), np.ones(3), 0.5)
    with pytest.raises(ValueError, match="got 0 unlabeled"):
        pu_criterion(np.ones(10), np.zeros(0), 0.5)
