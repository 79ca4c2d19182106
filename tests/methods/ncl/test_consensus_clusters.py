"""Several trainings read together; shares of clusters, the chips that stand for them, and how many there may be."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from golden_parts import seeded
from method_parts import CPU

from pu_geo.errors import JobCancelled
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl import consensus_clusters, ncl
from pu_geo.methods.ncl.discovery import central_chips, cluster_shares, suggested_number
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

SHORT = NclSettings(epochs=2, max_steps=4, n_new=3, width=16, embedding_dim=8, batch_size=20)


def said(truth: np.ndarray, seed: int, sure: float = 3.0) -> np.ndarray:
    """Soft memberships of a made-up training: by the truth, under names of its own, with noise."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(len(truth), 3)) + sure * np.eye(3)[draw.permutation(3)[truth]]
    return (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).astype(np.float32)


def test_side_by_side_has_unit_rows_and_hellinger_distances() -> None:
    one, other = said(np.arange(12) % 3, 0), said(np.arange(12) % 3, 1)
    found = consensus_clusters.concatenated([np.sqrt(one), np.sqrt(other)])
    assert found.shape == (12, 6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    # The squared distance is the mean over trainings of 2 - 2 sum sqrt(p q), by hand for chips 0 and 1.
    by_hand = np.mean([2 - 2 * np.sqrt(each[0] * each[1]).sum() for each in (one, other)])
    assert ((found[0] - found[1]) ** 2).sum() == pytest.approx(by_hand, rel=1e-4)


def test_groups_come_by_size_and_the_draw_is_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    points = np.concatenate([draw.normal(at, 0.1, (n, 2)) for at, n in ((0, 5), (5, 30), (9, 12))])
    before = torch.get_rng_state()
    groups = consensus_clusters.sort_into_groups(points, 3, seeded())
    assert np.bincount(groups).tolist() == [30, 12, 5]
    np.testing.assert_array_equal(groups, consensus_clusters.sort_into_groups(points, 3, seeded()))
    assert torch.equal(before, torch.get_rng_state())
    assert set(consensus_clusters.sort_into_groups(np.ones((6, 2)), 3, seeded()).tolist()) == {0}
    assert sorted(consensus_clusters.sort_into_groups(np.eye(5), 6, seeded()).tolist()) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(consensus_clusters, "MOST_ROWS", 40)  # many rows are sorted by some of them
    points = np.concatenate([np.full((60, 2), 0.0), np.full((40, 2), 4.0)])
    assert consensus_clusters.sort_into_groups(points, 2, seeded()).tolist() == [0] * 60 + [1] * 40


def test_memberships_and_embeddings_are_those_of_the_trained_model() -> None:
    draw = np.random.default_rng(0)
    views = draw.normal(size=(3, 40, 12)).astype(np.float32)
    is_positive = np.arange(40) < 6
    data = PUData(FeatureViews(views), is_positive, np.zeros(40, np.bool_))
    model = ncl.fit(data, SHORT, Run(device=CPU))
    found = model.findings["memberships"]
    assert found.shape == (40, 3)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(found.argmax(1), model.findings["clusters"])
    np.testing.assert_array_equal(model.embed(views), model.findings["embeddings"])
    views[:, :, 0] = 1  # principal axes stand constant features
    found = consensus_clusters.principal_axes(FeatureViews(views.astype(np.float16)))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-4)


def test_clicks_of_each_class_are_dealt_out_evenly() -> None:
    classes = np.array([-1] * 5 + [0] * 7 + [1] * 2 + [2] * 3)
    part = consensus_clusters.held_out_parts(classes, 3, seeded())
    assert (part[classes == -1] == -1).all()
    assert sorted(np.bincount(part[classes == 0])) == [2, 2, 3]
    assert (part[classes == 1] == -1).all()  # of two clicks, one part of three would be empty
    assert sorted(part[classes == 2]) == [0, 1, 2]
    assert (consensus_clusters.held_out_parts(classes, 1, seeded()) == -1).all()


@pytest.mark.parametrize("better", [consensus_clusters.EMBEDDINGS, consensus_clusters.MEMBERSHIPS])
def test_the_steadier_reading_is_taken(better: str, monkeypatch: pytest.MonkeyPatch) -> None:
    truth, held_out = np.arange(40) % 3, []  # type: ignore[var-annotated]
    views = np.random.default_rng(0).normal(size=(2, 40, 6)).astype(np.float32)
    data = PUData(FeatureViews(views), np.arange(40) < 9, np.arange(40) == 39)
    steady = np.eye(3, dtype=np.float32)[truth]
    moving = steady[np.random.default_rng(0).permutation(40)]

    def fit(data: PUData, *_: object) -> SimpleNamespace:
        held_out.append(9 - int((data.classes >= 1).sum()))
        pair = steady, (steady, moving, steady, steady)[len(held_out) - 1]
        embedding, said = pair if better == consensus_clusters.EMBEDDINGS else pair[::-1]
        return SimpleNamespace(findings={"memberships": said[:39], "embeddings": embedding[:39]})

    monkeypatch.setattr(ncl, "fit", fit)
    found = consensus_clusters.find_consensus(data, SHORT, [Run(device=CPU, seed=seed) for seed in range(2)])
    assert found.reading == better
    assert found.agreement[better] == 1.0 > min(found.agreement.values())
    assert found.groups.shape == (39,)
    assert len(np.unique(truth[:39][found.groups == 0])) == 1
    assert consensus_clusters.find_consensus(data, SHORT, [Run(device=CPU)]).reading == consensus_clusters.MEMBERSHIPS
    assert (sorted(held_out[:2]), held_out[2]) == ([4, 5], 0)
    with pytest.raises(JobCancelled):
        consensus_clusters.find_consensus(data, SHORT, [Run(device=CPU, is_cancelled=lambda: True)])


# What is said of clusters


def blobs(n_blobs: int) -> np.ndarray:
    truth = np.repeat(np.arange(n_blobs), 25)
    return np.eye(8)[truth] + 0.15 * np.random.default_rng(0).normal(size=(len(truth), 8))


def test_shares_by_hand_and_central_chips_are_the_nearest_members() -> None:
    # 4 chips, 1 positive: the average is 1/4. Cluster 0 holds the positive and half of another chip: (1 + 2/4) / (1.5 + 2).
    # Cluster 1 holds 2.5 others: (0 + 2/4) / (2.5 + 2). Cluster 2 is empty and gets the average.
    members = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 1, 0]])
    shares = cluster_shares(members, np.array([True, False, False, False]), 2.0)
    np.testing.assert_allclose(shares, [1.5 / 3.5, 0.5 / 4.5, 0.25], rtol=1e-12)
    angles = np.array([0.0, 0.1, 0.5, 3.0, 3.1, 1.0])
    embeddings = np.stack([np.cos(angles), np.sin(angles)], 1)
    found = central_chips(embeddings, np.array([0, 0, 0, 1, 1, -1]), 3, most=2)
    assert [each.tolist() for each in found[:1]] == [[1, 0]]  # the mean direction lies at 0.2
    assert sorted(found[1].tolist()) == [3, 4]
    assert len(found[2]) == 0


@pytest.mark.parametrize("n_blobs", [2, 6])
def test_counts_clusters_that_are_there(n_blobs: int) -> None:
    found = suggested_number(blobs(n_blobs), range(2, 9), seeded())
    assert found.number == n_blobs
    assert list(found.silhouettes) == list(range(2, 9))
    assert found.silhouettes[n_blobs] == max(found.silhouettes.values()) > 0.5
    coinciding = suggested_number(np.ones((6, 3)), (2, 3), seeded())
    assert (coinciding.number, coinciding.silhouettes) == (2, {2: 0.0, 3: 0.0})
