"""More like this, the nearest of every chip, and scores that travel between neighbors."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import neighbor_graph as graph
from pu_geo.analysis import neighbors
from pu_geo.analysis.neighbor_graph import NeighborGraph, label_propagation
from pu_geo.errors import JobCancelled, ShapeError
from pu_geo.training.run import Run


def test_hidden_and_chosen_rows_do_not_come_back_and_an_empty_choice_is_refused() -> None:
    unit = neighbors.unit_rows(np.random.default_rng(0).normal(size=(10, 4)))
    hidden = np.arange(10) > 4
    found, _ = neighbors.nearest(unit, np.array([0]), 20, is_hidden=hidden)
    assert sorted(found.tolist()) == [1, 2, 3, 4]
    nothing, _ = neighbors.nearest(unit, np.array([0]), 3, is_hidden=np.ones(10, np.bool_))
    assert len(nothing) == 0
    unit = neighbors.unit_rows(np.ones((3, 2)))
    with pytest.raises(ShapeError):
        neighbors.nearest(unit, np.zeros(0, np.int64), 3)
    with pytest.raises(ValueError, match="at least 1"):
        neighbors.nearest(unit, np.array([0]), 0)
    with pytest.raises(ShapeError):
        neighbors.unit_rows(np.ones(3))


def test_equal_rows_come_in_their_order_and_zero_rows_have_a_place() -> None:
    unit = neighbors.unit_rows(np.concatenate([np.ones((4, 3)), np.zeros((1, 3))]))
    found, cosines = neighbors.nearest(unit, np.array([1]), 4)
    assert found.tolist() == [0, 2, 3, 4]
    np.testing.assert_allclose(cosines, [1, 1, 1, 0], atol=1e-6)
    found, distances = neighbors.nearest_of_each(np.ones((30, 3), dtype=np.float32), 4)
    np.testing.assert_array_equal(found[:, 0], np.arange(30))
    np.testing.assert_array_equal(distances, 0)
    assert all(len(set(row)) == 4 for row in found.tolist())


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


def test_nearest_of_each_equal_the_naive_search_and_start_with_the_row_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    found, distances = neighbors.nearest_of_each(rows, 6)
    np.testing.assert_array_equal(found, np.argsort(apart, axis=1)[:, :6])
    np.testing.assert_array_equal(found[:, 0], np.arange(60))
    np.testing.assert_allclose(distances, np.sort(apart, axis=1)[:, :6], atol=1e-4)


@pytest.mark.slow
def test_many_rows_find_nearly_all_their_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(12_000, 8)).astype(np.float32)
    monkeypatch.setattr(neighbors, "_EXACT_UP_TO", len(rows))
    exact, _ = neighbors.nearest_of_each(rows, 10)
    monkeypatch.setattr(neighbors, "_EXACT_UP_TO", 1000)
    found, _ = neighbors.nearest_of_each(rows, 10)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]) > 9


Floats = NDArray[np.float32]


def unit(rows: int, dim: int, seed: int = 0) -> Floats:
    values = np.random.default_rng(seed).normal(size=(rows, dim))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def dense(anchors: Floats, n_neighbors: int) -> tuple[Floats, Floats, Floats]:
    """Ties, degrees, and D^-1/2 W D^-1/2, worked out plainly."""
    alike = anchors @ anchors.T
    nearest = np.zeros(alike.shape, np.bool_)
    np.put_along_axis(nearest, np.argsort(-alike, axis=1)[:, : n_neighbors + 1], True, axis=1)
    weights = np.where(nearest | nearest.T, np.maximum(alike, 1e-3) ** 3, 0.0)
    degree = weights.sum(1)
    return weights, degree, weights / np.sqrt(degree[:, None] * degree[None])


@pytest.mark.parametrize("n_neighbors", [1, 10])
def test_ties_are_those_of_nearest_neighbors_of_either(n_neighbors: int) -> None:
    anchors = unit(60, 8)
    weights, degree, links = dense(anchors, n_neighbors)
    found = NeighborGraph.of(anchors, n_neighbors)
    np.testing.assert_allclose(found.weights(anchors).toarray(), weights, rtol=1e-5)
    np.testing.assert_allclose(found.degree, degree, rtol=1e-5)
    np.testing.assert_allclose(found.links().toarray(), links, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.98])
def test_scores_rest_where_the_dense_solution_is(alpha: float) -> None:
    """The formula for any chip gives an anchor its own resting score back, and a column of zeros rests at zero."""
    anchors = unit(80, 6)
    own = np.random.default_rng(1).normal(size=(80, 3)) * [1, 1, 0]
    expected = np.linalg.solve(np.eye(80) - alpha * dense(anchors, 5)[2].astype(np.float64), own)
    graph_ = NeighborGraph.of(anchors, 5)
    found = label_propagation(own, graph_.links(), alpha)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(alpha * (graph_.ties(anchors) @ found) + own, found, rtol=1e-3, atol=1e-3)
    assert (found[:, 2] == 0).all()


def test_blocks_cut_rows_without_a_gap_and_the_first_of_equal_rows_stay() -> None:
    found = list(graph.blocks(2 * graph.BLOCK + 3))
    assert [part.stop - part.start for part in found] == [graph.BLOCK, graph.BLOCK, 3]
    assert list(graph.blocks(0)) == []
    assert [part.stop for part in graph.blocks(5, 2)] == [2, 4, 5]
    rows = unit(6, 4)
    again = np.concatenate([rows, rows[2:4] + 1e-6, unit(1, 4, 7)])
    assert graph.distinct(again).tolist() == [0, 1, 2, 3, 4, 5, 8]


def test_cancelling_is_asked_for_while_scores_travel_and_few_anchors_are_no_matter() -> None:
    links = NeighborGraph.of(unit(30, 4), 3).links()
    with pytest.raises(JobCancelled):
        label_propagation(np.ones((30, 1)), links, 0.9, Run(is_cancelled=lambda: True).stop_if_cancelled)
    found = NeighborGraph.of(unit(3, 4), 50)
    assert found.weights(unit(3, 4)).shape == (3, 3)
    assert (found.ties(unit(2, 4, 9)).toarray() > 0).all()
