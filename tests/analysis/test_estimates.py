"""The estimate of the damaged share on scenes where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import estimates
from pu_geo.errors import TrainingError


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_share_is_near_the_truth_where_classes_are_apart(share: float) -> None:
    found, right = [], []
    for seed in range(3):
        draw = np.random.default_rng(seed)
        truth = draw.random(1500) < share
        features = draw.normal(size=(1500, 6))
        features[truth, :2] += 3
        clicks = np.zeros(1500, np.bool_)
        clicks[draw.choice(np.flatnonzero(truth), 60, replace=False)] = True
        found.append(estimates.elkan_noto_share(features, clicks, seed=seed))
        right.append(truth[~clicks].mean())
    assert np.mean(found) == pytest.approx(np.mean(right), rel=0.2)


def test_share_is_repeatable_and_ignores_left_out_chips() -> None:
    draw = np.random.default_rng(0)
    truth = draw.random(400) < 0.4
    features = draw.normal(size=(400, 4)) + 2 * truth[:, None]
    clicks = truth & (draw.random(400) < 0.2)
    share = estimates.elkan_noto_share(features, clicks)
    assert estimates.elkan_noto_share(features, clicks) == pytest.approx(share, abs=1e-12)
    left_out = ~clicks & truth
    fewer = estimates.elkan_noto_share(features, clicks, is_left_out=left_out)
    assert fewer < 0.7 * share


@pytest.mark.parametrize("l2", [0.01, 0.3, 10.0])
def test_penalty_hardly_moves_the_estimate(l2: float) -> None:
    draw = np.random.default_rng(1)
    truth = draw.random(1000) < 0.4
    features = draw.normal(size=(1000, 8)) + 2 * truth[:, None]
    clicks = truth & (draw.random(1000) < 0.1)
    assert estimates.elkan_noto_share(features, clicks, l2=l2) == pytest.approx(truth[~clicks].mean(), abs=0.08)


def test_too_few_positives_are_refused() -> None:
    clicks = np.arange(20) < 3
    with pytest.raises(TrainingError, match="at least 4 positives"):
        estimates.elkan_noto_share(np.random.default_rng(0).normal(size=(20, 3)), clicks)
