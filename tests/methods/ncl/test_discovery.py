"""What is said of clusters: shares, the chips that stand for them, and how many there may be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pu_geo.errors import ShapeError
from pu_geo.methods.ncl.discovery import central_chips, cluster_shares, suggested_number


def blobs(n_blobs: int) -> np.ndarray:
    truth = np.repeat(np.arange(n_blobs), 25)
    return np.eye(8)[truth] + 0.15 * np.random.default_rng(0).normal(size=(len(truth), 8))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_shares_by_hand() -> None:
    # 4 chips, 1 positive: the average is 1/4. Cluster 0 holds the positive and half of another chip: (1 + 2/4) / (1.5 + 2).
    # Cluster 1 holds 2.5 others: (0 + 2/4) / (2.5 + 2). Cluster 2 is empty and gets the average.
    members = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 1, 0]])
    shares = cluster_shares(members, np.array([True, False, False, False]), 2.0)
    np.testing.assert_allclose(shares, [1.5 / 3.5, 0.5 / 4.5, 0.25], rtol=1e-12)


def test_central_chips_are_the_nearest_members() -> None:
    angles = np.array([0.0, 0.1, 0.5, 3.0, 3.1, 1.0])
    embeddings = np.stack([np.cos(angles), np.sin(angles)], 1)
    found = central_chips(embeddings, np.array([0, 0, 0, 1, 1, -1]), 3, most=2)
    assert [each.tolist() for each in found[:1]] == [[1, 0]]  # the mean direction lies at 0.2
    assert sorted(found[1].tolist()) == [3, 4]
    assert len(found[2]) == 0


@pytest.mark.parametrize("n_blobs", [2, 6])
def test_counts_clusters_that_are_there(n_blobs: int) -> None:
    found = suggested_number(blobs(n_blobs), range(2, 9), generator())
    assert found.number == n_blobs
    assert list(found.silhouettes) == list(range(2, 9))
    assert found.silhouettes[n_blobs] == max(found.silhouettes.values()) > 0.5
    coinciding = suggested_number(np.ones((6, 3)), (2, 3), generator())
    assert (coinciding.number, coinciding.silhouettes) == (2, {2: 0.0, 3: 0.0})


def test_looks_at_some_of_many_rows_and_draws_from_its_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.methods.ncl.discovery.MAX_ROWS", 60)
    points = blobs(3)
    before = torch.get_rng_state()
    first, again = (suggested_number(points, (2, 3, 4), generator(1)) for _ in range(2))
    assert first == again
    assert first.number == 3
    assert first != suggested_number(points, (2, 3, 4), generator(2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("candidates", [(), (1, 2), (2, 6), (0,)])
def test_refuses_numbers_that_cannot_be(candidates: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"2\.\.5"):
        suggested_number(np.eye(6), candidates, generator())
    with pytest.raises(ShapeError, match="M, D"):
        suggested_number(np.ones(6), (2,), generator())
