"""Figures of merit against numbers by hand and loops, ties included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import metrics
from pu_geo.errors import ShapeError


def _case(seed: int, n: int = 40) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 8, n) / 7, draw.random(n) < 0.3


@pytest.mark.parametrize("seed", range(5))
def test_auc_equals_count_over_all_pairs(seed: int) -> None:
    scores, truth = _case(seed)
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in scores[truth] for b in scores[~truth]]
    assert metrics.auc(scores, truth) == pytest.approx(np.mean(wins), abs=1e-12)
    assert metrics.auc(-scores, truth) == pytest.approx(1 - float(np.mean(wins)), abs=1e-12)


def test_average_precision_by_hand() -> None:
    # order: damaged, not, damaged -> (1/1 + 2/3) / 2 = 0.8333
    truth = np.array([True, False, True])
    assert metrics.average_precision(np.array([0.9, 0.5, 0.1]), truth) == pytest.approx(5 / 6)
    # all tie: one step with precision 2/3
    assert metrics.average_precision(np.ones(3), truth) == pytest.approx(2 / 3)


def test_precision_at_k_shares_the_tied_places() -> None:
    # one sure place (damaged) and one place for two tied buildings of which one is damaged: (1 + 0.5) / 2
    scores, truth = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])
    assert metrics.precision_at_k(scores, truth, 2) == pytest.approx(0.75)
    assert metrics.precision_at_k(scores, truth, 99) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="k = 0"):
        metrics.precision_at_k(scores, truth, 0)


def test_accuracy_and_f1_by_hand() -> None:
    called, truth = np.array([True, True, False, False]), np.array([True, False, True, False])
    # one hit, one false alarm, one miss, one right no: accuracy 2/4, F1 2 / (2 + 1 + 1)
    assert metrics.overall_accuracy(called, truth) == pytest.approx(0.5)
    assert metrics.f1(called, truth) == pytest.approx(0.5)
    assert metrics.f1(~truth, truth) == pytest.approx(0.0)


def test_missing_class_gives_nan_without_warning() -> None:
    none, scores = np.zeros(3, np.bool_), np.arange(3.0)
    assert math.isnan(metrics.auc(scores, none))
    assert math.isnan(metrics.auc(scores, ~none))
    assert math.isnan(metrics.average_precision(scores, none))
    assert math.isnan(metrics.f1(none, none))
    assert math.isnan(metrics.overall_accuracy(none[:0], none[:0]))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        metrics.auc(np.zeros(3), np.zeros(4, np.bool_))
    with pytest.raises(ValueError, match="finite"):
        metrics.auc(np.array([0.0, np.nan]), np.array([True, False]))
