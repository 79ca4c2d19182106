"""PCA and UMAP pictures of embeddings."""

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import projection
from pu_geo.analysis.projection import pca_2d, umap_2d
from pu_geo.errors import ShapeError


def groups(n: int, d: int = 16, n_groups: int = 3, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    which = rng.integers(0, n_groups, size=n)
    return (rng.normal(size=(n, d)) + 12 * np.eye(d)[which]).astype(np.float32), which


def test_pca_equals_the_result_worked_out_by_hand() -> None:
    # Mean (1, 1, 0). Along (1, 1, 0) / sqrt 2 the rows lie at -s2, s2, 0, 0; along the third axis at 0, 0, 1, -1.
    rows = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, -1.0]])
    s2 = np.sqrt(2)
    np.testing.assert_allclose(pca_2d(rows), [[-s2, 0], [s2, 0], [0, 1], [0, -1]], atol=1e-6)
    np.testing.assert_allclose(pca_2d(np.ones((9, 4))), 0, atol=1e-6)


def test_pca_of_many_rows_takes_axes_from_some_and_places_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = groups(5000)
    full = pca_2d(rows)
    monkeypatch.setattr(projection, "_ROWS_FOR_AXES", 1000)
    some = pca_2d(rows)
    assert some.shape == (5000, 2)
    np.testing.assert_allclose(some.mean(axis=0), 0, atol=1e-4)
    # The plane is the same; within it the axes may turn, as the three groups lie in a regular triangle.
    np.testing.assert_allclose(np.linalg.norm(some, axis=1), np.linalg.norm(full, axis=1), rtol=0.05, atol=0.5)


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (2, 8), (7, 1), (4, 0)])
def test_small_sets_have_a_place(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    for positions in (pca_2d(rows), umap_2d(rows[:4], seed=0)):
        assert positions.shape[1] == 2
        assert np.isfinite(positions).all()
    assert len(pca_2d(rows)) == shape[0]


def test_refuses_what_has_no_place() -> None:
    rows, _ = groups(20)
    with pytest.raises(ShapeError, match=r"\(16,\)"):
        pca_2d(rows[0])
    rows[4, 1] = np.inf
    with pytest.raises(ShapeError, match="1 of 20"):
        umap_2d(rows, seed=0)
    with pytest.raises(ValueError, match="n_neighbors"):
        umap_2d(rows, seed=0, n_neighbors=1)
    with pytest.raises(ValueError, match="hamming"):
        umap_2d(rows, seed=0, metric="hamming")


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
        assert np.isfinite(umap_2d(hard, seed=0, n_neighbors=5)).all()


def test_settings_labels_and_reports_go_through_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they do to a picture is for umap-learn to test."""
    given: dict[str, Any] = {}

    class Recorder:
        def __init__(self, **settings: Any) -> None:
            given.update(settings)

        def fit(self, rows: NDArray[np.float32], labels: object) -> SimpleNamespace:
            given.update(shape=rows.shape, labels=labels)
            for bar in ("0/200", "50/200", " done "):
                given["tqdm_kwds"]["file"].write(bar)
            return SimpleNamespace(embedding_=np.zeros((len(rows), 2)))

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Recorder))
    rows, labels, told = groups(60, d=100)[0], np.arange(60) % 3 - 1, []
    settings = {"n_neighbors": 7, "min_dist": 0.3, "densmap": True}
    report = lambda facts: told.append((facts["stage"], facts["share"]))  # noqa: E731
    assert umap_2d(rows, seed=3, labels=labels, report=report, **settings).dtype == np.float32
    assert settings.items() <= given.items()
    assert (given["random_state"], given["shape"]) == (3, (60, 50))
    assert given["labels"] is labels
    assert told == [
        ("axes", 0.0), ("neighbors", 0.05), ("layout", 0.2), ("layout", 0.2), ("layout", pytest.approx(0.4)), ("layout", 1.0),
    ]  # fmt: skip
    neighbors, distances = given["precomputed_knn"]
    assert (neighbors.shape, distances.shape) == ((60, 7), (60, 7))
    np.testing.assert_allclose(given["init"].std(), 1, atol=0.01)
    umap_2d(rows[:6], seed=3, n_neighbors=7)
    assert given["n_neighbors"] == 5
