"""More like this, for one chip and for several; the nearest of every chip."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import neighbors
from pu_geo.errors import ShapeError


def test_hidden_and_chosen_rows_do_not_come_back() -> None:
    unit = neighbors.unit_rows(np.random.default_rng(0).normal(size=(10, 4)))
    hidden = np.arange(10) > 4
    found, _ = neighbors.nearest(unit, np.array([0]), 20, is_hidden=hidden)
    assert sorted(found.tolist()) == [1, 2, 3, 4]
    nothing, _ = neighbors.nearest(unit, np.array([0]), 3, is_hidden=np.ones(10, np.bool_))
    assert len(nothing) == 0


def test_equal_rows_come_in_their_order_and_zero_rows_have_a_place() -> None:
    unit = neighbors.unit_rows(np.concatenate([np.ones((4, 3)), np.zeros((1, 3))]))
    found, cosines = neighbors.nearest(unit, np.array([1]), 4)
    assert found.tolist() == [0, 2, 3, 4]
    np.testing.assert_allclose(cosines, [1, 1, 1, 0], atol=1e-6)


@pytest.mark.parametrize(("n_chosen", "n_hidden"), [(1, 0), (200, 300), (700, 0)])
def test_equals_sorting_all_cosines(n_chosen: int, n_hidden: int) -> None:
    rng = np.random.default_rng(0)
    unit = neighbors.unit_rows(rng.normal(size=(1000, 16)))
    order = rng.permutation(1000)
    chosen, hidden = order[:n_chosen], np.isin(np.arange(1000), order[n_chosen : n_chosen + n_hidden])
    alike = (unit @ unit[chosen].T).max(axis=1)
    alike[chosen], alike[hidden] = -2, -2
    expected = np.argsort(-alike, kind="stable")[:24]
    found, cosines = neighbors.nearest(unit, chosen, 24, is_hidden=hidden)
    assert found.tolist() == expected.tolist()
    np.testing.assert_allclose(cosines, alike[expected], rtol=1e-5)


def test_refuses_an_empty_choice() -> None:
    unit = neighbors.unit_rows(np.ones((3, 2)))
    with pytest.raises(ShapeError):
        neighbors.nearest(unit, np.zeros(0, np.int64), 3)
    with pytest.raises(ValueError, match="at least 1"):
        neighbors.nearest(unit, np.array([0]), 0)
    with pytest.raises(ShapeError):
        neighbors.unit_rows(np.ones(3))


@pytest.mark.parametrize("metric", neighbors.METRICS)
def test_nearest_of_each_equal_the_naive_search_and_start_with_the_row_itself(metric: str) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    if metric == "cosine":
        rows = neighbors.unit_rows(rows)
    apart = rows[:, None] - rows[None]
    ways = {"euclidean": np.linalg.norm(apart, axis=2), "manhattan": np.abs(apart).sum(axis=2), "cosine": 1 - rows @ rows.T}
    found, distances = neighbors.nearest_of_each(rows, 6, metric)
    np.testing.assert_array_equal(found, np.argsort(ways[metric], axis=1)[:, :6])
    np.testing.assert_array_equal(found[:, 0], np.arange(60))
    np.testing.assert_allclose(distances, np.sort(ways[metric], axis=1)[:, :6], atol=1e-4)


def test_equal_rows_each_keep_themselves_first() -> None:
    found, distances = neighbors.nearest_of_each(np.ones((30, 3), dtype=np.float32), 4)
    np.testing.assert_array_equal(found[:, 0], np.arange(30))
    np.testing.assert_array_equal(distances, 0)
    assert all(len(set(row)) == 4 for row in found.tolist())


@pytest.mark.slow
def test_many_rows_find_nearly_all_their_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(12_000, 8)).astype(np.float32)
    monkeypatch.setattr(neighbors, "_EXACT_UP_TO", len(rows))
    exact, _ = neighbors.nearest_of_each(rows, 10)
    monkeypatch.setattr(neighbors, "_EXACT_UP_TO", 1000)
    found, _ = neighbors.nearest_of_each(rows, 10)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]) > 9
