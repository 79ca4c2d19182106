"""Pictures of embeddings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis.projection import umap_2d
from pu_geo.errors import ShapeError


def groups(n: int, d: int = 16, n_groups: int = 3, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    which = rng.integers(0, n_groups, size=n)
    return (rng.normal(size=(n, d)) + 12 * np.eye(d)[which]).astype(np.float32), which


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (2, 8), (4, 1), (4, 0)])
def test_few_have_a_place_on_their_widest_axes(shape: tuple[int, int]) -> None:
    positions = umap_2d(np.random.default_rng(0).normal(size=shape))
    assert positions.shape == (shape[0], 2)
    assert np.isfinite(positions).all()
    # By hand: mean (1, 1, 0). Along (1, 1, 0) / sqrt 2 the rows lie at -s2, s2, 0, 0; along the third axis at 0, 0, 1, -1.
    rows, s2 = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, -1.0]]), np.sqrt(2)
    np.testing.assert_allclose(umap_2d(rows), [[-s2, 0], [s2, 0], [0, 1], [0, -1]], atol=1e-6)


def test_refuses_what_has_no_place() -> None:
    rows, _ = groups(20)
    with pytest.raises(ShapeError, match=r"\(16,\)"):
        umap_2d(rows[0])
    rows[4, 1] = np.inf
    with pytest.raises(ShapeError, match="1 of 20"):
        umap_2d(rows)


@pytest.mark.slow
@pytest.mark.ci
def test_umap_keeps_groups_apart_can_be_stopped_and_takes_few_rows_equal_ones_islands_and_a_line() -> None:
    rows, which = groups(300, d=64)
    shares: list[Any] = []
    positions = umap_2d(rows, seed=0, report=lambda facts: shares.append(facts["share"]))
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    nearest = np.argsort(distances, axis=1)[:, 1:6]
    assert (which[nearest] == which[:, None]).mean() > 0.99
    assert shares == sorted(shares)
    assert len(shares) > 10

    def stop(facts: Mapping[str, object]) -> None:
        if facts["stage"] == "layout":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        umap_2d(rows, seed=0, report=stop)
    rng = np.random.default_rng(0)
    for n in (5, 16):
        positions = umap_2d(groups(n)[0], seed=0)
        assert (positions.shape, positions.dtype) == ((n, 2), np.float32)
        assert len(np.unique(positions, axis=0)) == n
    islands = np.concatenate([rng.normal(size=(12, 6)) + 1000 * i for i in range(4)])
    for hard in (np.ones((40, 6)), islands, np.linspace(0, 1, 50)[:, None]):
        assert np.isfinite(umap_2d(hard)).all()
