"""Soft pseudo labels from small clusters: right where damage is not what splits the scene most."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import metrics
from pu_geo.analysis.pupl import cluster_labels, pupl, two_means_miss
from pu_geo.errors import TrainingError

Embeddings = NDArray[np.float32]


def scene(
    share: float, n: int = 1500, *, roofs: float = 1.0, n_clicks: int = 30
) -> tuple[Embeddings, NDArray[np.bool_], NDArray[np.bool_]]:
    """Unit embeddings in which two kinds of roof lie `roofs` apart and damage half as far along another axis."""
    draw = np.random.default_rng(0)
    truth = draw.random(n) < share
    rows = draw.normal(scale=0.1, size=(n, 8))
    rows[:, 0] += roofs * draw.integers(0, 2, n)
    rows[:, 1] += 0.5 * truth
    rows[:, 2] += 1
    clicked = np.zeros(n, np.bool_)
    clicked[draw.choice(np.flatnonzero(truth), n_clicks, replace=False)] = True
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), clicked, truth


@pytest.mark.parametrize(("share", "n_clicks"), [(0.05, 30), (0.3, 30), (0.6, 200), (0.8, 300)])
def test_damage_is_found_where_roofs_split_the_scene(share: float, n_clicks: int) -> None:
    rows, clicked, truth = scene(share, n_clicks=n_clicks)
    many = cluster_labels(rows, clicked, seed=0)
    rest = ~clicked
    assert many.labels.dtype == np.float32
    assert (many.labels[clicked] == 1).all()
    assert ((many.labels >= 0) & (many.labels <= 1)).all()
    assert metrics.auc(many.labels[rest], truth[rest]) > 0.9
    assert metrics.auc(pupl(rows, clicked, seed=0).labels[rest].astype(np.float32), truth[rest]) < 0.7
    assert two_means_miss(rows, clicked, many, seed=0)


def test_two_means_stay_where_they_follow_the_damage() -> None:
    rows, clicked, truth = scene(0.4, roofs=0.0)
    many = cluster_labels(rows, clicked, seed=0)
    assert abs(many.share - truth[~clicked].mean()) < 0.15
    assert not two_means_miss(rows, clicked, many, seed=0)


def test_no_positive_speaks_for_itself() -> None:
    """Clicks at random: what a positive would have got is what everybody gets."""
    rows, clicked, _ = scene(0.5)
    clicked = np.random.default_rng(1).permutation(clicked)
    many = cluster_labels(rows, clicked, seed=0)
    assert not two_means_miss(rows, clicked, many, seed=0), "small clusters follow such clicks no better"
    alone = many.labels[~clicked].mean()
    assert abs(many.recall - alone) < 0.15


def test_same_seed_same_labels_and_few_rows_work() -> None:
    rows, clicked, _ = scene(0.3)
    first, second, other = (cluster_labels(rows, clicked, seed=seed).labels for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    tiny = cluster_labels(rows[:3], np.array([True, False, False]), seed=0)
    assert tiny.labels.shape == (3,)
    assert np.isfinite(tiny.labels).all()
    with pytest.raises(TrainingError):
        cluster_labels(rows, np.zeros(len(rows), np.bool_), seed=0)
