"""Clusters: k-means, agreement of sortings, and what is told of one."""

from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest

from pu_geo.analysis import clustering, inspecting
from pu_geo.errors import ShapeError


def test_estimate_equals_the_numbers_worked_out_by_hand() -> None:
    # 5 of 10 clicks lie in the first cluster, so 5/10 of 40 damaged: 20 of 50. 4/10 -> 16 of 20. 1/10 -> 4 of 100. None -> 0.
    clicks, sizes = np.array([5, 4, 1, 0]), np.array([50, 20, 100, 30])
    found = inspecting.damaged_share(clicks, sizes, n_damaged=40)
    np.testing.assert_allclose(found.share, [0.4, 0.8, 0.04, 0.0])
    assert ((found.low <= found.share) & (found.share <= found.high)).all()
    assert found.low[3] == 0 < found.high[3]
    # Nothing is below the clicks themselves, and nothing above all of a cluster.
    tight = inspecting.damaged_share(np.array([9, 1]), np.array([9, 100]), n_damaged=12)
    assert tight.low[0] == tight.share[0] == tight.high[0] == 1
    # What is known to be undamaged is not damaged: 40 of 50 in the first cluster leave 10.
    known = inspecting.damaged_share(clicks, sizes, n_damaged=40, n_not_damaged=np.array([40, 0, 0, 30]))
    np.testing.assert_allclose(known.share, [0.2, 0.8, 0.04, 0.0])
    np.testing.assert_allclose([known.high[0], known.high[3]], [0.2, 0.0])
    with pytest.raises(ValueError, match="at least one positive"):
        inspecting.damaged_share(0 * clicks, sizes, n_damaged=1)
    with pytest.raises(ShapeError):
        inspecting.damaged_share(clicks, sizes[:3], n_damaged=1)


def test_interval_holds_the_truth_where_clicks_are_an_even_draw() -> None:
    rng = np.random.default_rng(0)
    sizes, truth = np.full(20, 100), rng.integers(0, 60, 20)
    held = []
    for _ in range(40):
        clicks = rng.multivariate_hypergeometric(truth, 40)
        found = inspecting.damaged_share(clicks, sizes, n_damaged=float(truth.sum()))
        held.append((found.low <= truth / 100) & (truth / 100 <= found.high))
    assert np.mean(held) > 0.9


def test_gaps_equal_a_loop_over_clusters() -> None:
    rng = np.random.default_rng(0)
    rows, part = rng.normal(size=(50, 6)).astype(np.float32), rng.integers(0, 3, 50)
    gaps = inspecting.cosine_gaps(rows, inspecting.directions(rows, part, 3))
    for k in range(3):
        mean = rows[part == k].mean(axis=0)
        expected = 1 - rows @ mean / np.linalg.norm(rows, axis=1) / np.linalg.norm(mean)
        np.testing.assert_allclose(gaps[:, k], expected, atol=1e-5)


def test_examples_by_hand() -> None:
    # Rows 0, 2, 3 are of cluster 0, at gaps .1, .3, .2; to the other cluster .9, .4, .25: margins .8, .1, .05.
    gaps = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4], [0.2, 0.25]], np.float32)
    part, scores = np.array([0, 1, 0, 0]), np.array([0.2, 0.9, 0.8, 0.5], np.float32)
    found = inspecting.examples(gaps, part, 0, scores, 2)
    assert [rows.tolist() for rows in astuple(found)] == [[0, 3], [3, 2], [2, 3]]
    alone = inspecting.examples(gaps[:, :1], np.zeros(4, np.int64), 0, scores, 1)
    assert [rows.tolist() for rows in astuple(alone)] == [[0], [1], [1]]


@pytest.mark.parametrize("most_rows", [100, inspecting.MOST_ROWS])
def test_split_parts_two_groups_and_leaves_equal_rows_together(most_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(500, 5)) + 9 * np.eye(5)[i] for i in (0, 3)]).astype(np.float32)
    monkeypatch.setattr(inspecting, "MOST_ROWS", most_rows)
    side = inspecting.split_in_two(rows)
    assert abs(side[:500].mean() - side[500:].mean()) == 1
    assert len(np.unique(inspecting.split_in_two(np.ones((9, 4), np.float32)))) == 1


def test_matching_is_the_best_of_all_permutations() -> None:
    draw = np.random.default_rng(0)
    one = draw.integers(0, 4, 60)
    other = np.where(draw.random(60) < 0.6, (one + 1) % 4, draw.integers(0, 5, 60))
    found = clustering.matching(one, other, 5)
    assert sorted(found) == list(range(5))
    best = max((np.array(order)[other] == one).sum() for order in permutations(range(5)))
    assert (found[other] == one).sum() == best


def test_agreement_and_stability_need_two_sortings_and_no_names() -> None:
    same, parted = np.zeros(6, np.int64), np.array([0, 0, 0, 1, 1, 1])
    assert clustering.adjusted_rand([same, same]) == clustering.adjusted_rand([parted, 1 - parted]) == 1.0
    assert clustering.adjusted_rand([same, parted]) == pytest.approx(0.0)
    assert clustering.adjusted_rand([same]) is None
    # Another training moves one building of group 0 to group 1, under other names.
    groups, other = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 0, 0])
    np.testing.assert_allclose(clustering.stability(groups, [groups, other], 3), [(1 + 3 / 4) / 2, (1 + 2 / 3) / 2, 0])


def test_coinciding_rows_leave_clusters_empty_without_a_warning_and_a_seed_repeats() -> None:
    assert set(clustering.k_means(np.ones((6, 2)), 3, seed=0).labels_.tolist()) == {0}
    rows = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    first, again = (clustering.k_means(rows, 7, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
