"""Scores that travel between neighbors, against a dense solution and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import neighbor_graph as graph
from pu_geo.analysis.neighbor_graph import NeighborGraph, label_propagation
from pu_geo.errors import JobCancelled
from pu_geo.training.run import Run

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


def test_fewer_anchors_than_neighbors_are_no_matter() -> None:
    found = NeighborGraph.of(unit(3, 4), 50)
    assert found.weights(unit(3, 4)).shape == (3, 3)
    assert (found.ties(unit(2, 4, 9)).toarray() > 0).all()


def test_blocks_cut_rows_without_a_gap() -> None:
    found = list(graph.blocks(2 * graph.BLOCK + 3))
    assert [part.stop - part.start for part in found] == [graph.BLOCK, graph.BLOCK, 3]
    assert list(graph.blocks(0)) == []
    assert [part.stop for part in graph.blocks(5, 2)] == [2, 4, 5]


def test_first_of_rows_that_are_the_same_stay() -> None:
    rows = unit(6, 4)
    again = np.concatenate([rows, rows[2:4] + 1e-6, unit(1, 4, 7)])
    assert graph.distinct(again).tolist() == [0, 1, 2, 3, 4, 5, 8]


def test_cancelling_is_asked_for_while_scores_travel() -> None:
    links = NeighborGraph.of(unit(30, 4), 3).links()
    with pytest.raises(JobCancelled):
        label_propagation(np.ones((30, 1)), links, 0.9, Run(is_cancelled=lambda: True).stop_if_cancelled)
