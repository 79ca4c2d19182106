"""Scores that travel between neighbors, against a dense solution and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pu_geo.errors import JobCancelled
from pu_geo.methods.propagation import neighbor_graph as graph
from pu_geo.training.run import Run


def unit(rows: int, dim: int, seed: int = 0) -> Tensor:
    values = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(values, dim=1)


def dense(anchors: Tensor, n_neighbors: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ties, degrees, and D^-1/2 W D^-1/2, worked out plainly."""
    alike = anchors @ anchors.T
    nearest = torch.zeros_like(alike, dtype=torch.bool)
    nearest.scatter_(1, alike.argsort(dim=1, descending=True)[:, : n_neighbors + 1], True)
    weights = torch.where(nearest | nearest.T, alike.clamp_min(1e-3) ** 3, 0.0)
    degree = weights.sum(1)
    return weights, degree, weights / (degree[:, None] * degree[None]).sqrt()


@pytest.mark.parametrize("n_neighbors", [1, 4, 10])
def test_ties_are_those_of_nearest_neighbors_of_either(n_neighbors: int) -> None:
    anchors = unit(60, 8)
    weights, degree, _ = dense(anchors, n_neighbors)
    reaches = graph.reach(anchors, n_neighbors)
    torch.testing.assert_close(graph.ties(anchors, anchors, reaches, n_neighbors), weights)
    torch.testing.assert_close(graph.degrees(anchors, reaches, n_neighbors), degree)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.98])
def test_scores_rest_where_the_dense_solution_says(alpha: float) -> None:
    anchors, k = unit(80, 6), 5
    _, degree, links = dense(anchors, k)
    own = torch.randn(80, generator=torch.Generator().manual_seed(1))
    expected = np.linalg.solve(np.eye(80) - alpha * links.double().numpy(), own.double().numpy())
    built = graph.links(anchors, graph.reach(anchors, k), degree, k)
    found = [graph.label_propagation(each, built, alpha) for each in (own, 2 * own)]
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1].numpy(), 2 * expected, rtol=1e-4, atol=1e-4)


def test_what_an_anchor_takes_is_what_it_holds() -> None:
    """The formula for any chip gives an anchor its own resting score back."""
    anchors, k, alpha = unit(70, 6), 6, 0.9
    reaches = graph.reach(anchors, k)
    degree = graph.degrees(anchors, reaches, k)
    own = torch.randn(70, generator=torch.Generator().manual_seed(2))
    values = graph.label_propagation(own, graph.links(anchors, reaches, degree, k), alpha)
    taken = graph.sum_over_ties(graph.ties(anchors, anchors, reaches, k), degree, values)
    torch.testing.assert_close(alpha * taken + own, values, rtol=1e-4, atol=1e-4)


def test_fewer_anchors_than_neighbors_are_no_matter() -> None:
    anchors = unit(3, 4)
    reaches = graph.reach(anchors, 50)
    assert graph.ties(anchors, anchors, reaches, 50).shape == (3, 3)
    assert (graph.ties(unit(2, 4, 9), anchors, reaches, 50) > 0).all()


def test_blocks_cut_rows_without_a_gap() -> None:
    found = list(graph.blocks(2 * graph.BLOCK + 3))
    assert [part.stop - part.start for part in found] == [graph.BLOCK, graph.BLOCK, 3]
    assert list(graph.blocks(0)) == []
    assert [part.stop for part in graph.blocks(5, 2)] == [2, 4, 5]


def test_first_of_rows_that_are_the_same_stay() -> None:
    rows = unit(6, 4)
    again = torch.cat([rows, rows[2:4] + 1e-6, unit(1, 4, 7)])
    assert graph.distinct(again).tolist() == [0, 1, 2, 3, 4, 5, 8]


def test_cancelling_is_asked_for_while_scores_travel() -> None:
    anchors, k = unit(30, 4), 3
    reaches = graph.reach(anchors, k)
    built = graph.links(anchors, reaches, graph.degrees(anchors, reaches, k), k)
    with pytest.raises(JobCancelled):
        graph.label_propagation(torch.ones(30), built, 0.9, Run(is_cancelled=lambda: True).stop_if_cancelled)
