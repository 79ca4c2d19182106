"""Positive-unlabeled splits: sizes, shares, and that nothing is in two places."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.datasets import classified
from pu_geo.errors import DatasetError

TRUTH = np.arange(2000) % 5 == 0  # 20 % positive
POOL, TEST = np.arange(1500), np.arange(1500, 2000)


@pytest.mark.parametrize(("prior", "n"), [(None, 400), (0.5, 300), (0.5, 0)])
def test_case_control_draws_apart_at_the_asked_share(prior: float | None, n: int) -> None:
    made = classified.case_control(TRUTH, POOL, TEST, 100, n, prior, np.random.default_rng(0))
    assert TRUTH[made.positive].all()
    assert len(made.positive) == 100
    everything = np.concatenate([made.positive, made.unlabeled, made.test])
    assert len(set(everything.tolist())) == len(everything)
    assert n in (0, len(made.unlabeled))
    share = 200 / 1400 if prior is None else prior
    assert TRUTH[made.unlabeled].mean() == pytest.approx(share, abs=1 / len(made.unlabeled))
    if n == 0:
        assert len(made.unlabeled) == 400, "all 200 positives that are left, and as many others"


def test_draws_differ_by_seed_alone() -> None:
    draws = (np.random.default_rng(seed) for seed in (1, 1, 2))
    first, again, other = (classified.case_control(TRUTH, POOL, TEST, 100, 400, 0.3, draw) for draw in draws)
    np.testing.assert_array_equal(first.unlabeled, again.unlabeled)
    assert not np.array_equal(first.unlabeled, other.unlabeled)


@pytest.mark.parametrize("prior", [None, 0.05, 0.5])
def test_single_set_hides_the_rest_of_the_positives(prior: float | None) -> None:
    made = classified.single_set(TRUTH, POOL, None, 10, prior, np.random.default_rng(0))
    np.testing.assert_array_equal(made.test, made.unlabeled)
    everything = np.concatenate([made.positive, made.unlabeled])
    assert len(set(everything.tolist())) == len(everything)
    assert TRUTH[everything].mean() == pytest.approx(0.2 if prior is None else prior, abs=0.002)
    assert len(made.positive) == 10


def test_too_few_are_refused() -> None:
    rng = np.random.default_rng(0)
    for n_positive, n_unlabeled, prior in ((400, 100, 0.1), (10, 1000, 0.9), (10, 5000, None)):
        with pytest.raises(DatasetError):
            classified.case_control(TRUTH, POOL, TEST, n_positive, n_unlabeled, prior, rng)
    with pytest.raises(DatasetError):
        classified.single_set(TRUTH, POOL, None, 63, 0.05, rng)


def test_places_are_set_aside_whole_and_something_is_left_to_learn_from() -> None:
    place = np.repeat(np.arange(40), np.arange(1, 41))
    is_test = classified.held_out_places(place, 0.3, np.random.default_rng(0))
    assert 0.3 <= is_test.mean() < 0.36
    assert all(len(set(is_test[place == each].tolist())) == 1 for each in range(40))
    for seed in range(6):
        is_test = classified.held_out_places(np.array([0] * 95 + [1] * 5), 0.3, np.random.default_rng(seed))
        assert 0 < is_test.sum() < 100


@pytest.mark.parametrize("prior", [0.05, 0.7])
def test_thinned_rows_have_the_asked_share_and_are_the_same_each_time(prior: float) -> None:
    truth = np.arange(1000) % 2 == 0
    rows = np.arange(100, 900)
    first, second = (classified.thinned(truth, rows, prior, np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert abs(truth[first].mean() - prior) < 0.005
    assert set(first.tolist()) <= set(rows.tolist())
    assert (truth[first].sum() == 400) == (prior > 0.5)
