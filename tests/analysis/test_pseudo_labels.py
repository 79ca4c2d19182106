"""Pseudo labels: three readings of embeddings, and the choice among them by clicks that were held out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff, metrics
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.analysis.pseudo_labels import CHANCE, CLICKS, CLICKS_L2, CLUSTERS, READINGS, TWO_MEANS, Readings, choose
from pu_geo.analysis.pupl import cluster_chances, pupl, small_clusters
from pu_geo.errors import TrainingError

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


# Small clusters


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


# Held-out clicks


def test_chance_is_the_mean_log_place_of_scores_at_random() -> None:
    draw = np.random.default_rng(0)
    found = bakeoff.places(draw.random(20_000), draw.random(20_000))
    assert bakeoff.log_places(found[None]).mean() == pytest.approx(CHANCE, abs=0.02)


def naive_log_places(rows: Embeddings, clicked: Bools, seed: int, reading: str) -> NDArray[np.float64]:
    """The same with loops alone: for each repeat and part, fit without the part's clicks and count."""
    at, n_rows = np.flatnonzero(clicked), len(rows)
    total = np.zeros(len(at))
    for repeat in range(bakeoff.N_REPEATS):
        fold = np.random.default_rng([seed, repeat]).permutation(len(at)) % bakeoff.N_FOLDS
        for number, row in enumerate(at):
            given = clicked.copy()
            given[at[fold == fold[number]]] = False
            assert not given[row]
            weight = np.full(n_rows, 1 / n_rows)
            if reading == TWO_MEANS:
                slope, offset, _ = fit_logistic(rows, pupl(rows, given, seed=seed).labels, 1e-3, weight, tolerance=1e-4)
            elif reading == CLUSTERS:
                chances = cluster_chances(small_clusters(rows, clicked, seed=seed), given)
                slope, offset, _ = fit_logistic(rows, chances, 1e-3, weight, tolerance=1e-4)
            else:
                slope, offset, _ = fit_logistic(rows, given, CLICKS_L2, tolerance=1e-4)
            margins = rows @ slope + offset
            before = sum(margins[other] > margins[row] for other in np.flatnonzero(~clicked))
            total[number] += np.log((before + 1) / ((~clicked).sum() + 1) + bakeoff.FLOOR)
    return total / bakeoff.N_REPEATS


@pytest.mark.parametrize("reading", READINGS)
def test_log_places_equal_a_naive_loop(reading: str) -> None:
    rows, clicked, _ = scene(0.4, n=120, n_clicks=7)
    found = Readings(rows, 5).log_places(clicked)[reading]
    np.testing.assert_allclose(found, naive_log_places(rows, clicked, 5, reading), atol=0.02)
    np.testing.assert_array_equal(found, Readings(rows, 5).log_places(clicked)[reading])
    assert not np.array_equal(found, Readings(rows, 6).log_places(clicked)[reading])


# The choice


def auc_of(reading: str, rows: Embeddings, clicked: Bools, truth: Bools) -> float:
    slope, offset = Readings(rows, 0).classifier(reading, clicked)
    return float(metrics.auc((rows @ slope + offset)[~clicked], truth[~clicked]))


def event(*, roofs: float, damage: float, n: int, n_clicks: int, seed: int) -> tuple[Embeddings, Bools, Bools]:
    """As `scene`, with two fifths damaged, in 48 dimensions, so that a line through few clicks follows noise as well."""
    draw = np.random.default_rng(seed)
    truth = draw.random(n) < 0.4
    rows = draw.normal(scale=0.1, size=(n, 48))
    rows[:, 0] += roofs * draw.integers(0, 2, n)
    rows[:, 1] += damage * truth
    rows[:, 2] += 1
    clicked = np.isin(np.arange(n), draw.choice(np.flatnonzero(truth), n_clicks, replace=False))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), clicked, truth


@pytest.mark.parametrize(
    ("reading", "roofs", "damage", "n", "n_clicks"),
    [(TWO_MEANS, 0, 0.8, 600, 20), (CLUSTERS, 1.5, 0.8, 600, 20), (CLICKS, 1.5, 1.0, 900, 15)],
)
def test_the_reading_that_does_best_is_chosen(reading: str, roofs: float, damage: float, n: int, n_clicks: int) -> None:
    """Two means where damage splits the scene, clusters where roofs do, clicks where their line is as good."""
    rows, clicked, truth = event(roofs=roofs, damage=damage, n=n, n_clicks=n_clicks, seed=1)
    choice = choose(Readings(rows, 0).log_places(clicked))
    assert (choice.reading, choice.doubt) == (reading, "")
    assert auc_of(reading, rows, clicked, truth) > 0.99
    assert reading != CLUSTERS or auc_of(TWO_MEANS, rows, clicked, truth) < 0.7


def test_clicks_at_random_leave_the_choice_in_doubt() -> None:
    rows, clicked, _ = event(roofs=1.5, damage=0.8, n=300, n_clicks=10, seed=0)
    choice = choose(Readings(rows, 0).log_places(np.random.default_rng(0).permutation(clicked)))
    assert choice.doubt.startswith("Held-out clicks do not show")


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
