"""Agreement of sortings: hand-worked numbers, scikit-learn's, and that names of groups do not matter."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pu_geo.analysis import clustering_metrics
from pu_geo.errors import ShapeError


def drawn(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    one = draw.integers(0, 4, n)
    return one, np.where(draw.random(n) < 0.6, (one + 1) % 4, draw.integers(0, 5, n))


def test_a_table_counts_meetings() -> None:
    one, other = np.array([0, 0, 1, 2]), np.array([1, 1, 0, 1])
    np.testing.assert_array_equal(clustering_metrics.table(one, other), [[0, 2], [1, 0], [0, 1]])
    assert clustering_metrics.table(one, other, 4, 3).shape == (4, 3)
    assert clustering_metrics.table(one[:0], other[:0]).shape == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_adjusted_rand_equals_that_of_sklearn(seed: int) -> None:
    one, other = drawn(seed)
    assert clustering_metrics.adjusted_rand(one, other) == pytest.approx(adjusted_rand_score(one, other), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_matching_is_the_best_of_all_permutations(seed: int) -> None:
    one, other = drawn(seed)
    found = clustering_metrics.matching(one, other, 5)
    assert sorted(found) == list(range(5))
    best = max((np.array(order)[other] == one).sum() for order in permutations(range(5)))
    assert (found[other] == one).sum() == best


def test_one_group_says_nothing_yet_agrees_with_itself() -> None:
    same, parted = np.zeros(6, np.int64), np.array([0, 0, 0, 1, 1, 1])
    assert clustering_metrics.adjusted_rand(same, same) == 1.0
    assert clustering_metrics.adjusted_rand(same, parted) == pytest.approx(0.0)


def test_stability_by_hand() -> None:
    # Another training moves one building of group 0 to group 1, under other names.
    groups, other = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 0, 0])
    found = clustering_metrics.stability(groups, [groups, other], 3)
    np.testing.assert_allclose(found.membership, [1, 1, 1, 0.5, 1, 1])
    np.testing.assert_allclose(found.jaccard[:2], [(1 + 3 / 4) / 2, (1 + 2 / 3) / 2])
    assert np.isnan(found.jaccard[2])
    assert found.adjusted_rand == pytest.approx(adjusted_rand_score(groups, other))
    assert clustering_metrics.stability(groups, [groups], 2).adjusted_rand is None


def test_refuses_what_is_no_sorting_of_the_same_buildings() -> None:
    with pytest.raises(ShapeError, match="same buildings"):
        clustering_metrics.adjusted_rand(np.zeros(3, np.int64), np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="from 0"):
        clustering_metrics.table(np.array([-1, 0]), np.array([0, 0]))
    with pytest.raises(ValueError, match="at least one"):
        clustering_metrics.stability(np.zeros(3, np.int64), [], 1)
