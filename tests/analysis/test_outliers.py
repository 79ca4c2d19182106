"""Wrong clicks come first, lonely chips stand out."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import outliers, ranker
from pu_geo.errors import ShapeError, TrainingError


def planted(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """500 rows, of which 100 are damaged; 27 right and 3 wrong clicks."""
    rng = np.random.default_rng(seed)
    is_damaged = np.arange(500) < 100
    values = rng.normal(size=(500, 20)) + 2.5 * is_damaged[:, None] * (np.arange(20) < 4)
    clicked = [*rng.choice(100, 27, replace=False), *(100 + rng.choice(400, 3, replace=False))]
    is_positive = np.zeros(500, np.bool_)
    is_positive[clicked] = True
    return values.astype(np.float32), is_positive, is_damaged


@pytest.mark.parametrize("seed", range(2))
def test_planted_wrong_clicks_have_the_lowest_places(seed: int) -> None:
    values, is_positive, is_damaged = planted(seed)
    rows, places = outliers.places_held_out(ranker.prepare(values), is_positive, l2=1.0)
    np.testing.assert_array_equal(rows, np.flatnonzero(is_positive))
    first = rows[np.argsort(places)[:6]]
    assert (~is_damaged[first]).sum() == 3
    assert np.median(places) > 0.8
    assert 0 <= places.min() <= places.max() <= 1


def test_a_positive_is_judged_by_what_did_not_learn_from_it() -> None:
    # One click far from all others: a ranker that learned from it would put it first.
    values = np.random.default_rng(0).normal(size=(300, 40)).astype(np.float32)
    is_positive = np.arange(300) < 12
    values[1:12, 0] += 6
    values[0, 5] = 30
    rows, places = outliers.places_held_out(ranker.prepare(values), is_positive, l2=0.1)
    assert rows[places.argmin()] == 0


@pytest.mark.parametrize(("share", "bound"), [(0.0, 0.8), (0.01, 0.8), (0.3, 0.7), (0.5, 0.5), (0.81, 0.5), (1.0, 0.5)])
def test_clicks_are_doubted_that_end_below_where_the_damaged_begin(share: float, bound: float) -> None:
    assert outliers.doubtful_below(share) == pytest.approx(bound)


def test_left_out_chips_are_not_looked_at_and_too_few_clicks_are_refused() -> None:
    values, is_positive, _ = planted(0)
    prepared, left_out = ranker.prepare(values), np.zeros(500, np.bool_)
    left_out[np.flatnonzero(is_positive)[:4]] = True
    rows, _ = outliers.places_held_out(prepared, is_positive, l2=1.0, is_excluded=left_out)
    assert not set(rows.tolist()) & set(np.flatnonzero(left_out).tolist())
    with pytest.raises(TrainingError, match="at least 6"):
        outliers.places_held_out(prepared, np.arange(500) < 5, l2=1.0)
    with pytest.raises(ShapeError):
        outliers.places_held_out(prepared, np.ones(4, np.bool_), l2=1.0)


def test_loneliness_by_hand() -> None:
    # Means 1, 2, 3, 10: median 2.5, deviations 1.5 .5 .5 7.5, their median 1 -> (10 - 2.5) / 1.4826.
    found = outliers.loneliness(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [10.0, 10.0]]))
    np.testing.assert_allclose(found[3], 7.5 / 1.4826)
    assert outliers.loneliness(np.ones((5, 2))).tolist() == [0] * 5
