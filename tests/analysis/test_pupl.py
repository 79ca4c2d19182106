"""PUPL: two means anchored by the positives, and many clusters ranked by them."""

import tracemalloc

import numpy as np
import pytest
from golden_parts import GOLDEN, require_refusals
from numpy.typing import NDArray

from pu_geo.analysis import pupl as module
from pu_geo.analysis.pupl import measure, over_cluster, pupl, seeding_chances, squared_distances, two_means
from pu_geo.errors import ShapeError, TrainingError

CASES = ("pupl_onepos.npz", "pupl_outlier_pos.npz", "pupl_overlap.npz", "pupl_separable.npz")


def two_groups(
    seed: int, n: int = 200, n_positive: int = 10, d: int = 8, gap: float = 4.0
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows of which a third is damaged, the positives among them, and the truth."""
    rng = np.random.default_rng(seed)
    is_damaged = rng.random(n) < 1 / 3
    rows = rng.normal(size=(n, d)) + np.where(is_damaged, gap, -gap)[:, None] * np.eye(d)[0]
    is_positive = np.zeros(n, dtype=bool)
    is_positive[rng.choice(np.flatnonzero(is_damaged), n_positive, replace=False)] = True
    return rows, is_positive, is_damaged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spherical_means_by_hand(dtype: type[np.floating]) -> None:
    # Two pinned rows at right angles have their mean at 45 degrees: each is at squared distance 2 - 2 cos 45 = 2 - sqrt 2.
    rows = np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]], dtype)
    start = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    ends = two_means(measure(rows, spherical=True), np.array([True, True, False]), start, spherical=True)
    assert ends.labels[:, 0].tolist() == [1, 1, 0]
    np.testing.assert_allclose(ends.centroids[0], [[-1, 0], [0.5**0.5, 0.5**0.5]], rtol=0, atol=1e-6)
    assert (ends.potentials[0], ends.iterations[0]) == (pytest.approx(4 - 2 * 2**0.5, abs=1e-6), 2)
    cut = two_means(measure(rows, spherical=True), np.array([True, True, False]), start, spherical=True, max_iterations=1)
    assert (cut.potentials[0], cut.iterations[0]) == (pytest.approx(0 + 2 + 2, abs=1e-6), 1)


@pytest.mark.parametrize("spherical", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_squared_distances_equal_brute_force(spherical: bool, dtype: type[np.floating]) -> None:
    rows = np.random.default_rng(0).normal(size=(700, 9)).astype(dtype)
    points = rows.astype(np.float64)
    points = points / np.linalg.norm(points, axis=1, keepdims=True) if spherical else points
    found = squared_distances(measure(rows, spherical=spherical), points[5])
    exact = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, ((points - points[5]) ** 2).sum(axis=1), rtol=0, atol=exact)
    assert found[5] < 1e-12


def test_ties_but_for_rounding_go_to_the_last_cluster() -> None:
    rng = np.random.default_rng(0)
    axis = rng.normal(size=6)
    rows = rng.normal(size=(50, 6))
    rows -= np.outer(rows @ axis, axis) / (axis @ axis)
    margins = rows @ axis
    assert (margins < 0).any()  # that is, rounding alone would send some of them to cluster 0
    start, nobody = np.stack([-axis, axis])[None], np.zeros(50, dtype=bool)
    ends = two_means(measure(rows, spherical=False), nobody, start, spherical=False, max_iterations=1)
    assert (ends.labels == 1).all()


def test_sides_are_those_of_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.analysis.pupl._CHUNK_ROWS", 100)
    rng = np.random.default_rng(0)
    normal, rows = rng.normal(size=40), rng.normal(size=(500, 40))
    rows = (rows - np.outer(rows @ normal, normal) / (normal @ normal)).astype(np.float32)  # but for rounding on the plane
    start, nobody = np.stack([-normal, normal])[None], np.zeros(500, np.bool_)
    ends = two_means(measure(rows, spherical=False), nobody, start, spherical=False, max_iterations=1)
    np.testing.assert_array_equal(ends.labels[:, 0], rows.astype(np.float64) @ normal >= 0)


def test_an_empty_cluster_keeps_its_centroid() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    start = np.stack([np.full(3, 50.0), np.zeros(3)])[None]
    ends = two_means(measure(rows, spherical=False), np.zeros(20, dtype=bool), start, spherical=False)
    np.testing.assert_array_equal(ends.centroids[0, 0], start[0, 0])
    np.testing.assert_allclose(ends.centroids[0, 1], rows.mean(axis=0), rtol=0, atol=1e-12)
    assert ends.iterations[0] == 2


def golden_of(case: str) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64], NDArray[np.bool_]]:
    """A golden file, its rows with the positives first, and which these are."""
    golden = dict(np.load(GOLDEN / case))
    rows = np.concatenate([golden["in_ZP"], golden["in_ZU"]])
    return golden, rows, np.arange(len(rows)) < len(golden["in_ZP"])


@pytest.mark.parametrize("case", CASES)
def test_equals_the_golden_trajectory_for_each_fixed_seed_row(case: str) -> None:
    golden, rows, pinned = golden_of(case)
    start = np.stack([np.stack([rows[~pinned][i], golden["muP0"]]) for i in golden["in_seed_idx"]])
    # all seed rows at once: they must not disturb each other
    ends = two_means(measure(rows, spherical=False), pinned, start, spherical=False)
    for s, i in enumerate(golden["in_seed_idx"]):
        np.testing.assert_array_equal(ends.labels[~pinned, s], golden[f"lab_U_seed{i}"])
        np.testing.assert_allclose(ends.centroids[s, 0], golden[f"muN_seed{i}"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(ends.centroids[s, 1], golden[f"muP_seed{i}"], rtol=0, atol=1e-10)
        assert ends.iterations[s] == golden[f"iters_seed{i}"]
        assert ends.potentials[s] == pytest.approx(float(golden[f"phi_seed{i}"]), abs=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("is_pinned", "key"), [(True, "meanU_pinned"), (False, "pseudo")])
def test_mean_u_equals_the_printed_listing(case: str, is_pinned: bool, key: str) -> None:
    golden, rows, is_positive = golden_of(case)
    found = pupl(rows, is_positive, seed=0, seeding="mean_u", spherical=False, is_pinned=is_pinned)
    np.testing.assert_array_equal(found.labels[~is_positive], golden[f"{key}_lab_U"])
    np.testing.assert_allclose(found.centroids[0], golden[f"{key}_muN"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.centroids[1], golden[f"{key}_muP"], rtol=0, atol=1e-10)
    assert found.potential == pytest.approx(float(golden[f"{key}_phi"]), abs=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_draws_with_the_golden_chances_and_keeps_the_lowest_potential(case: str) -> None:
    golden, rows, is_positive = golden_of(case)
    distances = ((golden["in_ZU"] - golden["muP0"]) ** 2).sum(axis=1)
    np.testing.assert_allclose(seeding_chances(distances), golden["seed_prob"], rtol=0, atol=1e-12)
    found = pupl(rows, is_positive, seed=0, spherical=False, n_seedings=32)
    assert found.potential <= min(float(golden[f"phi_seed{i}"]) for i in golden["in_seed_idx"]) + 1e-10


def test_equals_the_result_worked_out_by_hand() -> None:
    # On a line: positives at 0 and 2 (mean 1); unlabeled at 1, 9, 11. Started at any of 9 or 11 (or 1: distance 0, never
    # drawn): 1 -> P; 9, 11 -> N. Means 1 and 10; potential 1 + 1 + 0 + 1 + 1 = 4.
    rows = np.array([[9.0], [0.0], [1.0], [11.0], [2.0]])
    found = pupl(rows, np.array([False, True, False, False, True]), seed=3, spherical=False)
    np.testing.assert_array_equal(found.labels, [0, 1, 1, 0, 1])
    np.testing.assert_allclose(found.centroids, [[10.0], [1.0]], atol=1e-12)
    assert found.potential == pytest.approx(4, abs=1e-12)
    np.testing.assert_array_equal(found.sizes, [2, 3])
    np.testing.assert_array_equal(found.positive_counts, [0, 2])
    np.testing.assert_allclose(found.positive_share, [0, 2 / 3], atol=1e-12)
    np.testing.assert_array_equal(found.ranking, [1, 0])
    assert found.oriented


@pytest.mark.parametrize("is_alone", [True, False])
def test_an_inverted_end_loses_to_an_oriented_one_and_is_turned_round_alone(
    is_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, is_positive, is_damaged = two_groups(1)
    inverted = np.stack([rows[is_damaged].mean(axis=0), rows[~is_damaged].mean(axis=0)])
    monkeypatch.setattr(module, "_starts", lambda *args: np.stack([inverted] if is_alone else [inverted, inverted[::-1]]))
    found = pupl(rows, is_positive, seed=0, spherical=False)
    assert found.oriented
    assert (found.labels == is_damaged).mean() > 0.97


def test_same_seed_same_result_and_row_order_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, is_positive, _ = two_groups(0, gap=0.7)
    first, by_mean = pupl(rows, is_positive, seed=0), pupl(rows, is_positive, seed=0, seeding="mean_u")
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = pupl(rows[order], is_positive[order], seed=0, seeding="mean_u")
    np.testing.assert_array_equal(shuffled.labels, by_mean.labels[order])
    monkeypatch.setattr(module, "_CHUNK_ROWS", 7)  # reading in other blocks must not change anything
    again = pupl(rows, is_positive, seed=0)
    np.testing.assert_array_equal(again.labels, first.labels)
    assert again.potential == pytest.approx(first.potential, abs=1e-9)


def test_makes_no_second_copy_of_the_embeddings() -> None:
    rows, is_positive, _ = two_groups(0, n=20_000, d=256)
    tracemalloc.start()
    pupl(rows, is_positive, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.8 * rows.nbytes


def test_one_unlabeled_row_is_the_other_centroid() -> None:
    rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.1]])
    for seeding in ("d2", "mean_u"):
        found = pupl(rows, np.array([True, True, False, True]), seed=0, seeding=seeding)
        np.testing.assert_array_equal(found.labels, [1, 1, 0, 1])
        np.testing.assert_allclose(found.centroids[0], [0, 1], rtol=0, atol=1e-12)
        assert found.oriented
    assert pupl(rows[1:3], np.array([True, False]), seed=0).labels.tolist() == [1, 0]


@pytest.mark.parametrize("spherical", [True, False])
def test_identical_and_zero_rows_are_settled(spherical: bool) -> None:
    for rows in (np.ones((6, 3)), np.zeros((6, 3))):
        found = pupl(rows, np.arange(6) == 2, seed=0, spherical=spherical)
        assert found.labels.all()  # ties go to the damaged cluster
        assert not found.oriented
        assert np.isfinite(found.centroids).all()
        assert found.potential == pytest.approx(0, abs=1e-12)


def test_over_clustering_ranks_the_damaged_cluster_first() -> None:
    # 1 % damaged beside four roof types that are much farther apart than damage is from its own roof type.
    rng = np.random.default_rng(0)
    roof = rng.integers(0, 4, size=1000)
    is_damaged = np.arange(1000) < 12
    rows = 0.1 * rng.normal(size=(1000, 6)) + 4 * np.eye(6)[roof] + 1.5 * np.where(is_damaged, 1, 0)[:, None] * np.eye(6)[5]
    is_positive = np.arange(1000) < 6
    two = pupl(rows, is_positive, seed=0)
    many = over_cluster(rows, is_positive, k=20, seed=0)
    assert (two.labels == 1)[~is_damaged].mean() > 0.1  # two means follow roofs
    assert many.sizes.sum() == 1000
    assert many.positive_counts.sum() == 6
    top = np.isin(many.labels, many.ranking[many.positive_share[many.ranking] > 0])
    assert is_damaged[top].mean() > 0.9
    assert (np.diff(many.positive_share[many.ranking]) <= 0).all()
    np.testing.assert_array_equal(many.labels, over_cluster(rows, is_positive, k=20, seed=0).labels)


def test_refuses_what_cannot_be_clustered() -> None:
    rows, is_positive, _ = two_groups(0, n=40)
    require_refusals(
        (TrainingError, "this set has 0 positives among 40 chips", lambda: pupl(rows, np.zeros(40, dtype=bool), seed=0)),
        (TrainingError, "40 positives", lambda: pupl(rows, np.ones(40, dtype=bool), seed=0)),
        (ShapeError, r"\(40, 8\) and \(39,\)", lambda: pupl(rows, is_positive[:39], seed=0)),
    )
    rows[3, 0] = np.nan
    with pytest.raises(TrainingError, match="1 of 40 embeddings"):
        pupl(rows, is_positive, seed=0)
    rows[4, 1] = 1e30
    with pytest.raises(TrainingError, match="2 of 40 embeddings"):  # its square is beyond float32
        over_cluster(rows.astype(np.float32), is_positive, k=3, seed=0)
