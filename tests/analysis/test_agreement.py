"""Agreement of two rankings, and figures of merit of one, ties included: numbers worked out by hand."""

import numpy as np
import pytest
from golden_parts import require_refusals

from pu_geo.analysis import agreement, metrics
from pu_geo.errors import ShapeError


def test_ties_share_the_mean_of_their_places() -> None:
    # 0.1 has nobody below: 0. The two 0.4 have one below and one tie: 1.5 of 4 others. 0.7: 3 of 4. 0.9: 4 of 4.
    found = agreement.rank_share(np.array([0.4, 0.9, 0.1, 0.4, 0.7]))
    np.testing.assert_allclose(found, [0.375, 1.0, 0.0, 0.375, 0.75])
    assert agreement.places(np.array([0.4, 0.9, 0.1, 0.4, 0.7])).tolist() == [3, 1, 5, 3, 2]
    assert agreement.rank_share(np.array([0.3])).tolist() == [0.5]
    assert agreement.rank_share(np.zeros(0)).shape == (0,)


def test_spearman_by_hand_with_a_tie() -> None:
    # Ranks of one: 1, 2.5, 2.5, 4; of other: 1, 3, 2, 4; both have mean 2.5.
    # Products: 2.25 + 0 + 0 + 2.25 = 4.5; squares 4.5 and 5: 4.5 / sqrt(4.5 * 5) = 0.9487.
    one, other = np.array([1.0, 2.0, 2.0, 9.0]), np.array([0.1, 0.3, 0.2, 0.4])
    assert agreement.spearman(one, other) == pytest.approx(4.5 / np.sqrt(22.5))
    assert agreement.spearman(np.exp(one), -other) == pytest.approx(-4.5 / np.sqrt(22.5))
    assert np.isnan(agreement.spearman(np.ones(5), np.arange(5.0))), "there is no order"


def test_overlap_counts_common_places_and_shares_tied_ones() -> None:
    one, other = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([5.0, 1.0, 4.0, 3.0, 2.0])
    assert agreement.top_overlap(one, other, 1) == 1  # row 0 in both
    assert agreement.top_overlap(one, other, 2) == 0.5  # rows 0, 1 and rows 0, 2
    assert agreement.top_overlap(one, other, 5) == 1
    # Rows 1, 2 tie for the second place of `tied`, half a place each: 1 + 0.5 * 1 of 2 places.
    assert agreement.top_overlap(np.array([5.0, 4.0, 4.0, 2.0]), np.array([5.0, 4.0, 3.0, 2.0]), 2) == pytest.approx(0.75)
    # Nothing but ties is no better than chance.
    assert agreement.top_overlap(np.ones(10), np.ones(10), 3) == pytest.approx(0.3)


def test_it_finds_where_two_rankings_disagree_in_both_directions() -> None:
    one, other = np.array([9.0, 8.0, 7.0, 1.0, 2.0]), np.array([9.0, 1.0, 7.0, 8.0, 2.0])
    # Shares of one: 1, .75, .5, 0, .25; of other: 1, 0, .5, .75, .25.
    found = agreement.disagreement(one, other)
    np.testing.assert_allclose(found, [0, 0.75, 0, -0.75, 0])
    differences = np.array([0.1, -0.5, 0.4, -0.2, 0.4])
    for difference, most, expected in (
        (found, 3, ([1], [3])),
        (differences, 2, ([2, 4], [1, 3])),
        (differences, 0, ([], [])),
    ):
        higher, lower = agreement.largest_differences(difference, most)
        assert (higher.tolist(), lower.tolist()) == expected


def test_what_cannot_be_compared_is_refused() -> None:
    require_refusals(
        (ShapeError, "same buildings", lambda: agreement.spearman(np.zeros(3), np.zeros(4))),
        (ShapeError, r"must be \[N\]", lambda: agreement.rank_share(np.zeros((2, 2)))),
        (ValueError, "finite", lambda: agreement.rank_share(np.array([0.1, np.nan]))),
        (ShapeError, r"\(3,\)", lambda: metrics.auc(np.zeros(3), np.zeros(4, np.bool_))),
        (ValueError, "finite", lambda: metrics.auc(np.array([0.0, np.nan]), np.array([True, False]))),
        (ValueError, "between 1 and 5", lambda: agreement.top_overlap(np.arange(5.0), np.arange(5.0), 0)),
        (ValueError, "between 1 and 5", lambda: agreement.top_overlap(np.arange(5.0), np.arange(5.0), 6)),
    )


def test_ties_count_half_and_enter_together() -> None:
    assert metrics.auc(np.array([0.9, 0.5, 0.5]), np.array([True, True, False])) == pytest.approx(0.75)
    # order: damaged, not, damaged -> (1/1 + 2/3) / 2 = 0.8333
    truth = np.array([True, False, True])
    assert metrics.average_precision(np.array([0.9, 0.5, 0.1]), truth) == pytest.approx(5 / 6)
    # all tie: one step with precision 2/3
    assert metrics.average_precision(np.ones(3), truth) == pytest.approx(2 / 3)
    none = np.zeros(3, np.bool_)
    of_one_class = [
        metrics.auc(np.ones(3), none),
        metrics.auc(np.ones(3), ~none),
        metrics.average_precision(np.ones(3), none),
    ]
    assert np.isnan(of_one_class).all()


def test_precision_at_k_shares_the_tied_places() -> None:
    # one sure place (damaged) and one place for two tied buildings of which one is damaged: (1 + 0.5) / 2
    scores, truth = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])
    assert metrics.precision_at_k(scores, truth, 2) == pytest.approx(0.75)
    assert metrics.precision_at_k(scores, truth, 99) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="k = 0"):
        metrics.precision_at_k(scores, truth, 0)
