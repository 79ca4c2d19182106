"""Held-out places against a loop, and the choice by them of one of three readings for pseudo labels."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff, metrics
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.analysis.pseudo_labels import CLICKS, CLICKS_L2, CLUSTERS, READINGS, TWO_MEANS, Readings, choose
from pu_geo.analysis.pupl import cluster_chances, pupl, small_clusters
from pu_geo.errors import TrainingError


def test_places_by_hand_and_repeats_are_averaged_before_clicks() -> None:
    # 0.9: none before, (0 + 1) / 4. 0.5: 0.7 before and half of its equal, (1.5 + 1) / 4. 0.1: all before, (3 + 1) / 4.
    found = bakeoff.places(np.array([0.9, 0.5, 0.1]), np.array([0.2, 0.5, 0.7]))
    np.testing.assert_allclose(found, [0.25, 0.625, 1.0], atol=1e-12)
    # ln(.1 + .2) = -1.20397, ln(.4 + .2) = -.51083: mean -.85740; ln(.2 + .2) = -.91629
    found = bakeoff.log_places(np.array([[0.1, 0.2], [0.4, 0.2]]))
    np.testing.assert_allclose(found, [-0.85740, -0.91629], atol=1e-5)
    assert bakeoff.typical(bakeoff.Interval(float(found[1]), float(found[1]), float(found[1]))).mean == pytest.approx(0.2)


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


def test_the_interval_is_about_that_of_a_bell_curve() -> None:
    values = np.random.default_rng(0).normal(1.0, 2.0, 400)
    found = bakeoff.bootstrap(values, 0.9)
    expected = values.mean() + 1.645 * values.std() / 20 * np.array([-1, 0, 1])
    np.testing.assert_allclose([found.low, found.mean, found.high], expected, atol=0.03)


Embeddings = NDArray[np.float32]
Bools = NDArray[np.bool_]


def scene(share: float, n: int = 1500, *, n_clicks: int = 30) -> tuple[Embeddings, Bools, Bools]:
    """Unit embeddings in which two kinds of roof are 1 apart and damage half as far along another axis; clicks; truth."""
    draw = np.random.default_rng(0)
    truth = draw.random(n) < share
    rows = draw.normal(scale=0.1, size=(n, 8))
    rows[:, 0] += draw.integers(0, 2, n)
    rows[:, 1] += 0.5 * truth
    rows[:, 2] += 1
    clicked = np.zeros(n, np.bool_)
    clicked[draw.choice(np.flatnonzero(truth), n_clicks, replace=False)] = True
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), clicked, truth


@pytest.mark.parametrize(("share", "n_clicks"), [(0.05, 30), (0.6, 200)])
def test_small_clusters_find_damage_where_roofs_split_the_scene(share: float, n_clicks: int) -> None:
    rows, clicked, truth = scene(share, n_clicks=n_clicks)
    chances = cluster_chances(small_clusters(rows, clicked, seed=0), clicked)
    rest = ~clicked
    assert chances.dtype == np.float32
    assert (chances[clicked] == 1).all()
    assert ((chances >= 0) & (chances <= 1)).all()
    assert metrics.auc(chances[rest], truth[rest]) > 0.9
    assert metrics.auc(pupl(rows, clicked, seed=0).labels[rest].astype(np.float32), truth[rest]) < 0.7


def test_clicks_have_no_part_in_small_clusters_and_few_rows_work() -> None:
    rows, clicked, _ = scene(0.3)
    found = small_clusters(rows, clicked, seed=3)
    np.testing.assert_array_equal(found, small_clusters(rows, ~clicked, seed=3))
    assert not np.array_equal(found, small_clusters(rows, clicked, seed=4))
    first = np.array([True, False, False])
    assert np.isfinite(cluster_chances(small_clusters(rows[:3], first, seed=0), first)).all()
    for reading in (TWO_MEANS, CLICKS):
        assert np.isfinite(Readings(rows[:3], 0).classifier(reading, first)[0]).all()
    with pytest.raises(TrainingError):
        Readings(rows, 0).labels(TWO_MEANS, np.zeros(len(rows), np.bool_))


def test_chances_of_one_clustering_are_shares_by_what_a_click_meets() -> None:
    # Ten rows, base .3. Clusters of 4 rows with 2 clicks, and 6 rows with 1 click. A click meets (1 + .3) / 4 = .325 twice
    # and (0 + .3) / 6 = .05 once: c = (.325 + .325 + .05) / 3 = .7 / 3. Chances: (2.3 / 5) / c and (1.3 / 7) / c.
    clusters, clicked = np.array([[0, 0, 0, 0, 1, 1, 1, 1, 1, 1]]), np.isin(np.arange(10), [0, 1, 4])
    chances = cluster_chances(clusters, clicked)
    c = 0.7 / 3
    assert chances[[0, 1, 4]].tolist() == [1, 1, 1]
    np.testing.assert_allclose(chances[[2, 5]], [min(2.3 / 5 / c, 1), 1.3 / 7 / c], rtol=1e-6)


def line_of(rows: Embeddings, clicked: Bools, given: Bools, seed: int, reading: str) -> tuple[NDArray[np.float64], float]:
    """Slope and offset of a reading, fitted to these of the clicks."""
    weight = np.full(len(rows), 1 / len(rows))
    if reading == CLICKS:
        slope, offset, _ = fit_logistic(rows, given, CLICKS_L2, tolerance=1e-4)
    elif reading == TWO_MEANS:
        slope, offset, _ = fit_logistic(rows, pupl(rows, given, seed=seed).labels, 1e-3, weight, tolerance=1e-4)
    else:
        chances = cluster_chances(small_clusters(rows, clicked, seed=seed), given)
        slope, offset, _ = fit_logistic(rows, chances, 1e-3, weight, tolerance=1e-4)
    return slope, offset


def naive_log_places(rows: Embeddings, clicked: Bools, seed: int, reading: str) -> NDArray[np.float64]:
    """The same with loops alone: for each repeat and part, fit without the part's clicks and count."""
    at = np.flatnonzero(clicked)
    total = np.zeros(len(at))
    for repeat in range(bakeoff.N_REPEATS):
        fold = np.random.default_rng([seed, repeat]).permutation(len(at)) % bakeoff.N_FOLDS
        for number, row in enumerate(at):
            given = clicked.copy()
            given[at[fold == fold[number]]] = False
            assert not given[row]
            slope, offset = line_of(rows, clicked, given, seed, reading)
            margins = rows @ slope + offset
            before = sum(margins[other] > margins[row] for other in np.flatnonzero(~clicked))
            total[number] += np.log((before + 1) / ((~clicked).sum() + 1) + bakeoff.FLOOR)
    return total / bakeoff.N_REPEATS


@pytest.mark.parametrize("reading", READINGS)
def test_log_places_equal_a_naive_loop_and_all_clicks_make_the_classifier(reading: str) -> None:
    rows, clicked, _ = scene(0.4, n=120, n_clicks=7)
    found = Readings(rows, 5).log_places(clicked)[reading]
    np.testing.assert_allclose(found, naive_log_places(rows, clicked, 5, reading), atol=0.02)
    np.testing.assert_array_equal(found, Readings(rows, 5).log_places(clicked)[reading])
    assert not np.array_equal(found, Readings(rows, 6).log_places(clicked)[reading])
    slope, offset = Readings(rows, 5).classifier(reading, clicked)
    own_slope, own_offset = line_of(rows, clicked, clicked, 5, reading)
    np.testing.assert_allclose(rows @ slope + offset, rows @ own_slope + own_offset, atol=0.05)


def test_what_is_in_doubt() -> None:
    draw = np.random.default_rng(0)
    noise = draw.normal(scale=0.2, size=(2, 20))
    early, alike, late = -1.2 + noise[0], -1.19 + noise[1], np.full(20, -0.6)
    clear = choose({TWO_MEANS: late, CLUSTERS: early, CLICKS: alike})
    assert (clear.reading, clear.doubt) == (CLUSTERS, ""), "the runner-up is as good, so that nothing is in doubt"
    assert clear.log_places == pytest.approx({TWO_MEANS: -0.6, CLUSTERS: early.mean(), CLICKS: alike.mean()})
    tie = choose({TWO_MEANS: early, CLUSTERS: early + 0.01 * noise[1], CLICKS: alike})
    assert tie.doubt.startswith("Held-out clicks do not show which of three kinds")
    chance = choose({TWO_MEANS: early + 0.75, CLUSTERS: alike + 1.2, CLICKS: alike + 1.2})
    assert chance.doubt.startswith("Held-out clicks do not show that these scores follow")
