"""Agreement of sortings: hand-worked numbers, and that names of groups do not matter; k-means where scikit-learn's has no promise."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from pu_geo.analysis import clustering


def test_matching_is_the_best_of_all_permutations() -> None:
    draw = np.random.default_rng(0)
    one = draw.integers(0, 4, 60)
    other = np.where(draw.random(60) < 0.6, (one + 1) % 4, draw.integers(0, 5, 60))
    found = clustering.matching(one, other, 5)
    assert sorted(found) == list(range(5))
    best = max((np.array(order)[other] == one).sum() for order in permutations(range(5)))
    assert (found[other] == one).sum() == best


def test_agreement_needs_two_sortings_and_no_names() -> None:
    same, parted = np.zeros(6, np.int64), np.array([0, 0, 0, 1, 1, 1])
    assert clustering.adjusted_rand([same, same]) == clustering.adjusted_rand([parted, 1 - parted]) == 1.0
    assert clustering.adjusted_rand([same, parted]) == pytest.approx(0.0)
    assert clustering.adjusted_rand([same]) is None


def test_stability_by_hand() -> None:
    # Another training moves one building of group 0 to group 1, under other names.
    groups, other = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 0, 0])
    np.testing.assert_allclose(clustering.membership(groups, [groups, other], 3), [1, 1, 1, 0.5, 1, 1])
    np.testing.assert_allclose(clustering.stability(groups, [groups, other], 3), [(1 + 3 / 4) / 2, (1 + 2 / 3) / 2, 0])


def test_coinciding_rows_leave_clusters_empty_without_a_warning_and_a_seed_repeats() -> None:
    assert set(clustering.k_means(np.ones((6, 2)), 3, seed=0).labels_.tolist()) == {0}
    rows = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    first, again = (clustering.k_means(rows, 7, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
