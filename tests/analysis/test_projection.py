"""PCA and UMAP pictures of embeddings."""

from __future__ import annotations

from collections.abc import Mapping

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


@pytest.mark.parametrize("seed", range(3))
def test_pca_equals_scikit_learn_but_for_signs(seed: int) -> None:
    from sklearn.decomposition import PCA

    rows, _ = groups(200, seed=seed)
    theirs = PCA(2, svd_solver="full").fit_transform(rows.astype(np.float64))
    ours = pca_2d(rows)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-4)


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


def test_identical_rows_lie_on_one_point_in_pca() -> None:
    np.testing.assert_allclose(pca_2d(np.ones((9, 4))), 0, atol=1e-6)


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
def test_cosine_knows_no_lengths() -> None:
    rows = groups(60)[0]
    longer = rows * 2.0 ** np.random.default_rng(1).integers(-2, 3, (60, 1)).astype(np.float32)  # rounded alike
    one, other = (umap_2d(each, seed=0, metric="cosine") for each in (rows, longer))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, umap_2d(longer, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 6, 16, 17])
def test_umap_takes_sets_no_larger_than_its_neighborhood(n: int) -> None:
    positions = umap_2d(groups(n)[0], seed=0)
    assert positions.shape == (n, 2)
    assert positions.dtype == np.float32
    assert np.isfinite(positions).all()
    assert len(np.unique(positions, axis=0)) == n


@pytest.mark.slow
def test_umap_keeps_groups_apart_and_reports_its_stages() -> None:
    rows, which = groups(300, d=64)
    told: list[tuple[object, object]] = []
    positions = umap_2d(rows, seed=0, report=lambda facts: told.append((facts["stage"], facts["share"])))
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    nearest = np.argsort(distances, axis=1)[:, 1:6]
    assert (which[nearest] == which[:, None]).mean() > 0.99
    assert told[:3] == [("axes", 0.0), ("neighbors", 0.05), ("layout", 0.2)]
    assert told[-1] == ("layout", 1.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert len(told) > 10


@pytest.mark.slow
def test_least_distance_and_neighborhood_shape_the_picture() -> None:
    rows, _ = groups(300)

    def gap(**settings: float) -> float:
        """Median distance of a dot to the nearest one, in parts of the picture's width."""
        xy = umap_2d(rows, seed=0, **settings)
        distances = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.eye(len(xy)) * 1e9
        return float(np.median(distances.min(axis=1)) / xy.std())

    assert gap(min_dist=0.99) > 1.5 * gap(min_dist=0.0)
    assert gap(n_neighbors=100) != gap(n_neighbors=5)


@pytest.mark.slow
def test_densmap_keeps_a_loose_group_loose() -> None:
    rng = np.random.default_rng(0)
    rows, which = rng.normal(size=(400, 8)), np.arange(400) % 2
    rows[which == 1] = 8 * rows[which == 1] + 200  # eight times as far from each other

    def ratio(*, densmap: bool) -> float:
        xy = umap_2d(rows, seed=0, densmap=densmap)
        spreads = [np.linalg.norm(xy[which == group] - np.median(xy[which == group], axis=0), axis=1) for group in (0, 1)]
        return float(np.median(spreads[1]) / np.median(spreads[0]))

    assert ratio(densmap=True) > 1.5 * ratio(densmap=False)


@pytest.mark.slow
def test_labels_draw_a_class_together_that_the_embeddings_do_not_show() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 4))
    classes = np.where(np.arange(300) % 3 == 0, 1, np.where(np.arange(300) % 3 == 1, 0, -1))

    def purity(labels: NDArray[np.int64] | None) -> float:
        """Share of the marked dots whose nearest marked dot is of the same class."""
        xy, own = umap_2d(rows, seed=0, labels=labels)[classes >= 0], classes[classes >= 0]
        distances = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.eye(len(xy)) * 1e9
        return float((own[distances.argmin(axis=1)] == own).mean())

    assert purity(None) < 0.65
    assert purity(classes) > 0.75
    assert not np.array_equal(umap_2d(rows, seed=0, labels=np.minimum(classes, 1)), umap_2d(rows, seed=0))


@pytest.mark.slow
def test_umap_ends_where_its_report_raises() -> None:
    def stop(facts: Mapping[str, object]) -> None:
        if facts["stage"] == "layout":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        umap_2d(groups(50)[0], seed=0, report=stop)


@pytest.mark.slow
def test_umap_draws_the_same_picture_for_the_same_seed_only() -> None:
    rows, _ = groups(200)
    first = umap_2d(rows, seed=1)
    np.testing.assert_array_equal(first, umap_2d(rows, seed=1))
    assert not np.array_equal(first, umap_2d(rows, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["equal", "islands", "line"])
def test_umap_takes_equal_rows_islands_and_a_line(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows = {
        "equal": np.ones((40, 6)),
        "islands": np.concatenate([rng.normal(size=(12, 6)) + 1000 * i for i in range(4)]),
        "line": np.linspace(0, 1, 50)[:, None],
    }[kind]
    assert np.isfinite(umap_2d(rows, seed=0, n_neighbors=5)).all()
