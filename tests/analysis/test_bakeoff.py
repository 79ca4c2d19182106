"""Held-out places against a loop, and the rule in its three verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff

CLICKS = 60  # enough for the rule to pick


def test_places_by_hand() -> None:
    # 0.9: none before, (0 + 1) / 4. 0.5: 0.7 before and half of its equal, (1.5 + 1) / 4. 0.1: all before, (3 + 1) / 4.
    found = bakeoff.places(np.array([0.9, 0.5, 0.1]), np.array([0.2, 0.5, 0.7]))
    np.testing.assert_allclose(found, [0.25, 0.625, 1.0], atol=1e-12)


def test_held_out_places_are_those_of_a_loop() -> None:
    """Every click is held out once a repeat and never learned from meanwhile; rows 40 and 41 are neither and stay in."""
    rng = np.random.default_rng(0)
    features, own, unlabeled = rng.normal(size=(42, 3)), np.arange(9), np.arange(9, 40)
    is_positive, asked = np.arange(42) < 9, []

    def score(is_out: NDArray[np.bool_]) -> NDArray[np.float64]:
        asked.append(is_out)
        return features @ (features[is_positive & ~is_out].mean(0) - features[~is_positive & ~is_out].mean(0))

    found = bakeoff.held_out_places(score, own, unlabeled, 42, n_folds=3, n_repeats=2, seed=4)
    np.testing.assert_array_equal(np.sum(asked, axis=0), [2] * 40 + [0] * 2)
    for repeat in range(2):
        draw = np.random.default_rng([4, repeat])
        fold, other = draw.permutation(9) % 3, draw.permutation(31) % 3
        for click in range(9):
            out_u = [int(u) for u, part in zip(unlabeled, other, strict=True) if part == fold[click]]
            scores = score(np.isin(np.arange(42), [*np.flatnonzero(fold == fold[click]), *out_u]))
            before = sum(scores[u] > scores[click] for u in out_u)
            assert found[repeat, click] == pytest.approx((before + 1) / (len(out_u) + 1), abs=1e-12)


def test_repeats_are_averaged_before_clicks() -> None:
    # ln(.1 + .2) = -1.20397, ln(.4 + .2) = -.51083: mean -.85740; ln(.2 + .2) = -.91629
    found = bakeoff.log_places(np.array([[0.1, 0.2], [0.4, 0.2]]))
    np.testing.assert_allclose(found, [-0.85740, -0.91629], atol=1e-5)
    assert bakeoff.typical(bakeoff.Interval(float(found[1]), float(found[1]), float(found[1]))).mean == pytest.approx(0.2)


def test_the_interval_is_about_that_of_a_bell_curve() -> None:
    values = np.random.default_rng(0).normal(1.0, 2.0, 400)
    found = bakeoff.bootstrap(values, 0.9)
    half = 1.645 * values.std() / 20
    assert found.mean == pytest.approx(values.mean())
    assert (found.low, found.high) == (
        pytest.approx(values.mean() - half, abs=0.03),
        pytest.approx(values.mean() + half, abs=0.03),
    )


def noise(seed: int, n: int = CLICKS) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 0.3, n)


def test_a_better_candidate_is_picked_though_all_clicks_are_noisy() -> None:
    base = np.random.default_rng(9).normal(-2, 1, CLICKS)
    found = bakeoff.judge({"rcf": base, "a": base - 0.2 + noise(0), "b": base - 0.5 + noise(1)}, "rcf")
    assert (found.kind, found.name) == ("better", "b")
    assert found.differences["b"].high < 0


def test_the_incumbent_stays_where_nothing_is_better() -> None:
    base = np.random.default_rng(9).normal(-2, 1, CLICKS)
    for shift in (0.0, 0.5):
        found = bakeoff.judge({"a": base + shift + noise(2) - noise(2).mean(), "rcf": base}, "rcf")
        assert (found.kind, found.name, list(found.differences)) == ("same", "rcf", ["a"])
    assert bakeoff.judge({"rcf": base}, "rcf") == bakeoff.Verdict("same", "rcf", {})


def test_too_few_clicks_pick_nothing_however_clear_they_are() -> None:
    n = bakeoff.LEAST_TO_PICK - 1
    found = bakeoff.judge({"rcf": np.zeros(n), "a": np.full(n, -3.0)}, "rcf")
    assert (found.kind, found.name) == ("few", "rcf")
    assert found.differences["a"].mean == pytest.approx(-3)
    assert bakeoff.judge({"rcf": np.zeros(n + 1), "a": np.full(n + 1, -3.0)}, "rcf").kind == "better"


def test_average_precision_of_places_by_hand() -> None:
    """Places .01, .5, .5 among 100 unlabeled: 1/(1+1), and twice 3/(3+50), as clicks at one place come together."""
    found = bakeoff.average_precision(np.array([0.5, 0.01, 0.5]), 100)
    assert found.tolist() == pytest.approx([(1 / 2 + 2 * 3 / 53) / 3])
    twice = bakeoff.average_precision(np.array([0.5, 0.01]), 100, np.array([[2.0, 1.0], [0.0, 3.0]]))
    assert twice.tolist() == pytest.approx([(1 / 2 + 2 * 3 / 53) / 3, 3 / 4])


def test_a_gain_is_paired_and_its_interval_follows_the_clicks() -> None:
    rng = np.random.default_rng(1)
    worse = rng.random((3, 30)) * 0.5 + 0.01
    better = worse * 0.5
    found = bakeoff.gain(better, worse, 100)
    assert 0 < found.low < found.mean < found.high
    assert bakeoff.gain(worse, worse, 100) == bakeoff.Interval(0.0, 0.0, 0.0)  # the same draws for both
    other_way = bakeoff.gain(worse, better, 100)
    assert other_way.mean == pytest.approx(-found.mean)
    assert (other_way.low, other_way.high) == pytest.approx((-found.high, -found.low))
    few = bakeoff.gain(better[:, :6], worse[:, :6], 100)
    assert few.high - few.low > found.high - found.low
