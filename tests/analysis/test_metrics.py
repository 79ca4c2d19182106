"""Figures of merit against numbers by hand and loops, ties included."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pu_geo.analysis import metrics
from pu_geo.errors import ShapeError


def test_ties_count_half_and_enter_together() -> None:
    assert metrics.auc(np.array([0.9, 0.5, 0.5]), np.array([True, True, False])) == pytest.approx(0.75)
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


def test_missing_class_gives_nan_without_warning() -> None:
    none, scores = np.zeros(3, np.bool_), np.arange(3.0)
    assert math.isnan(metrics.auc(scores, none))
    assert math.isnan(metrics.auc(scores, ~none))
    assert math.isnan(metrics.average_precision(scores, none))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        metrics.auc(np.zeros(3), np.zeros(4, np.bool_))
    with pytest.raises(ValueError, match="finite"):
        metrics.auc(np.array([0.0, np.nan]), np.array([True, False]))
