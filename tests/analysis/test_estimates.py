"""Estimates of the damaged share: where the truth is known, and by hand."""

import numpy as np
import pytest

from pu_geo.analysis import estimates, ranker
from pu_geo.analysis.class_prior import best_bin_share
from pu_geo.analysis.ranking_evidence import RankingEvidence
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


def test_the_share_to_start_from_is_that_of_elkan_and_noto() -> None:
    features, clicks = event(0)
    splits = [estimates.elkan_noto_share(features, clicks, seed=seed) for seed in range(10)]
    evidence = estimates.evidence_to_start_from(features, clicks)
    assert evidence is not None
    assert min(splits) < evidence.share < max(splits)
    assert estimates.without_guesses({"share": 0.2, "loss": 1.0, "share_called": 0.1}) == {"loss": 1.0, "share_called": 0.1}
    few = clicks & (np.cumsum(clicks) <= 3)
    assert estimates.evidence_to_start_from(features, few) is None
    assert estimates.evidence_to_start_from(features, clicks, is_excluded=~clicks) is None
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
        expected = ranker.fit_ranking(prepared, marked, l2=l2).scores(prepared.values)
        np.testing.assert_allclose(ranking.scores(prepared.values), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "n_clicks", "share", "lowest", "k"),
    [
        (1000, 10, 0.1, 0.3, 90),  # 100 less its root
        (1000, 30, 0.0001, 0.3, 6),  # one for every 5 clicks at least
        (358, 10, 0.97, 0.3, 179),  # half at most: Joplin
        (20_000, 30, 0.35, 0.3, 2828),  # 20 roots of the number
        (2958, 10, 0.37, 0.7, 80), (2958, 40, 0.37, 0.7, 320),  # 8 a click where these do not stand high
        (2958, 10, 0.01, 0.7, 24),  # and fewer where they suggest fewer: 29.6 less its root
        (600, 2, None, 0, 25), (5000, 2, None, 0, 40),  # one in 20, less the root, where there are too few clicks
        (40, 10, 0.9, 0.3, 20), (3, 4, 0.1, 0.3, 1), (1, 2, None, 0, 1), (0, 4, 0.5, 0.3, 0),
    ],
)  # fmt: skip
def test_how_many_are_flagged_at_first_is_bounded(n: int, n_clicks: int, share: float | None, lowest: float, k: int) -> None:
    evidence = None if share is None else RankingEvidence(n_clicks, 0, 0, 0, lowest, share)
    assert estimates.start_k(n, n_clicks, evidence) == k


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
        ([0.9999] * 20 + [1.0] * 10, 28, 0.9999, 30), ([0.0] * 30, 10, 0.0001, 0), ([1.0] * 30, 10, 1.0, 30),
        ([0.00001 * i for i in range(30)], 20, 0.0001, 24),  # six are written as 0
    ],
)  # fmt: skip
def test_the_first_threshold_counts_scores_as_they_are_written(
    scores: list[float], k: int, threshold: float, n_flagged: int
) -> None:
    found = estimates.first_threshold(np.array(scores, np.float32), k)
    assert found == pytest.approx(threshold, abs=1e-12)
    assert (estimates.written(np.array(scores)) >= found).sum() == n_flagged


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
    # gamma .75 gives 1.854 against 1.783; delta .5 narrows w to .3224 and .2280, together .9632: 1.454 against 1.463.
    for delta, share in ((0.1, 0.5), (0.5, 0.25)):
        found = best_bin_share(positive[::100], unlabeled[::100], delta=delta, gamma=0.75)
        assert found == pytest.approx(share, abs=1e-12)
    # Few scores stay within bounds.
    few = (([1.0], [0.0], 0.0), ([0.0], [1.0], 1.0), ([0.5, 0.5], [0.5] * 3, 1.0), ([1.0, 2.0], [1.5, 0.0], 0.5))
    for one, other, share in few:
        assert best_bin_share(np.array(one), np.array(other)) == pytest.approx(share, abs=1e-12)
    # 4 of 10 positives are above all unlabeled: q_p 0.4, below w_p = 0.4295. Its bound, 0.438 / 0.4, would win over
    # (0.9 + 0.438) / 1 of the bin of all positives.
    positive, unlabeled = np.repeat([3.0, 0.0], [4, 6]), np.repeat([1.0, -1.0], [90_000, 10_000])
    assert best_bin_share(positive, unlabeled) == pytest.approx(0.9, abs=1e-12)
