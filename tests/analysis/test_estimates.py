"""The estimate of the damaged share on scenes where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import estimates, ranker
from pu_geo.errors import TrainingError


def test_share_is_near_the_truth_where_classes_are_apart_and_ignores_left_out_chips() -> None:
    for share in (0.1, 0.6):
        draw = np.random.default_rng(0)
        truth = draw.random(1500) < share
        features = draw.normal(size=(1500, 6))
        features[truth, :2] += 3
        clicks = np.zeros(1500, np.bool_)
        clicks[draw.choice(np.flatnonzero(truth), 60, replace=False)] = True
        found = estimates.elkan_noto_share(features, clicks)
        assert found == pytest.approx(truth[~clicks].mean(), rel=0.25)
        assert estimates.elkan_noto_share(features, clicks) == pytest.approx(found, abs=1e-12)
        assert estimates.elkan_noto_share(features, clicks, is_excluded=~clicks & truth) < 0.7 * found


def event(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """400 buildings of which the classes overlap, 45 % damaged, 30 of them clicked, none among the last five."""
    draw = np.random.default_rng(seed)
    truth = draw.random(400) < 0.45
    features = draw.normal(size=(400, 128))
    features[truth, :3] += 1.0
    return features, np.isin(np.arange(400), draw.choice(np.flatnonzero(truth[:395]), 30, replace=False))


def test_five_more_footprints_hardly_move_the_share_to_start_from() -> None:
    moved, moved_before = [], []
    for seed in range(4):
        features, clicks = event(seed)
        for found, share in ((moved, estimates.share_to_start_from), (moved_before, estimates.elkan_noto_share)):
            fewer, more = share(features[:395], clicks[:395]), share(features, clicks)
            assert fewer is not None
            assert more is not None
            found.append(abs(more - fewer))
    assert max(moved) < 0.025
    assert max(moved_before) > 0.15  # one split, drawn anew for another number of buildings


def test_the_share_to_start_from_is_that_of_elkan_and_noto() -> None:
    features, clicks = event(0)
    splits = [estimates.elkan_noto_share(features, clicks, seed=seed) for seed in range(10)]
    assert min(splits) < (estimates.share_to_start_from(features, clicks) or 0) < max(splits)
    few = clicks & (np.cumsum(clicks) <= 3)
    assert estimates.share_to_start_from(features, few) is None
    assert estimates.share_to_start_from(features, clicks, is_excluded=~clicks) is None
    with pytest.raises(TrainingError, match="at least 4 damaged buildings"):
        estimates.elkan_noto_share(features, few)


def test_the_ranker_takes_the_penalty_of_the_estimated_share_and_the_middle_one_without_it() -> None:
    features, clicks = event(0)
    prepared = ranker.prepare(features)
    few = clicks & (np.cumsum(clicks) <= 3)
    assert estimates.estimated_share(prepared, few) is None
    assert estimates.estimated_share(prepared, clicks) == pytest.approx(estimates.elkan_noto_share(prepared, clicks))
    for marked, n_folds in ((few, 0), (clicks, estimates.N_FOLDS_LIVE)):
        share = estimates.elkan_noto_share(prepared, marked, n_folds=n_folds) if n_folds else None
        l2 = estimates.L2 if share is None else ranker.l2_for_share(share)
        ranking, found = estimates.fit_with_estimate(prepared, marked)
        assert found == (share if share is None else pytest.approx(share))
        expected = ranker.rank_positives(prepared, marked, l2=l2)
        np.testing.assert_allclose(ranking.scores(prepared.values), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "share", "k"),
    [
        (1000, 0.1, 100),
        (1000, 0.0001, 30),  # 30 at least
        (20_000, 0.0001, 100),  # .5 %
        (358, 0.97, 179),  # half at most: Joplin, 10 clicks
        (20_000, 0.35, 2828),  # 20 roots of the number, where 10 were damaged and 7,000 would have been flagged
        (50_000, 1.0, 4472),
        (2000, None, 100),  # one in 20 where there are too few clicks
        (40, 0.9, 20), (40, 0.0, 20), (3, 0.1, 2), (1, None, 1), (0, 0.5, 0),
    ],
)  # fmt: skip
def test_how_many_are_flagged_at_first_is_bounded(n: int, share: float | None, k: int) -> None:
    assert estimates.start_k(n, share) == k


def test_a_report_loses_what_was_guessed_and_nothing_else() -> None:
    assert estimates.without_guesses({"share": 0.2, "loss": 1.0, "share_called": 0.1}) == {"loss": 1.0, "share_called": 0.1}


def test_the_first_threshold_is_the_score_of_the_kth_highest() -> None:
    """By hand: the third highest of 0, .1, ... .9 is .7; scores all below .5 make no difference."""
    scores = np.arange(10)[::-1] / 10
    assert estimates.first_threshold(scores, 3) == 0.7
    assert estimates.first_threshold(scores / 10, 6) == pytest.approx(0.04)
    assert estimates.first_threshold(scores[:0], 3) == 0.5
    # Two groups of scores with a gap around 0.5: as many are flagged as are asked for.
    apart = np.concatenate([np.linspace(0, 0.4, 190), np.linspace(0.5, 1, 190)]).astype(np.float32)
    for k in range(38, 229):
        assert (estimates.written(apart) >= estimates.first_threshold(apart, k)).sum() == k
    assert (estimates.first_threshold(scores, 0), estimates.first_threshold(scores, 11)) == (0.9, 0.1), "never 0"


@pytest.mark.parametrize(
    ("scores", "k", "threshold", "n_flagged"),
    [
        ([0.9999] * 20 + [1.0] * 10, 12, 1.0, 10),  # 30 would be flagged from .9999 on
        ([0.9999] * 20 + [1.0] * 10, 28, 0.9999, 30),
        ([0.00001 * i for i in range(30)], 20, 0.0001, 24),  # six are written as 0
        ([0.0] * 30, 10, 0.0001, 0),
        ([1.0] * 30, 10, 1.0, 30),
    ],
)
def test_the_first_threshold_counts_scores_as_they_are_written(
    scores: list[float], k: int, threshold: float, n_flagged: int
) -> None:
    found = estimates.first_threshold(np.array(scores, np.float32), k)
    assert found == pytest.approx(threshold, abs=1e-12)
    assert (estimates.written(np.array(scores)) >= found).sum() == n_flagged
