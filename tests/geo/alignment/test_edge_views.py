"""Mosaics as edges, read strip by strip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from geo_parts import pattern

from pu_geo.geo.alignment.edge_matching import edge_field
from pu_geo.geo.alignment.edge_views import EdgeView, HeldEdges
from pu_geo.geo.raster import Mosaic, project_grid
from pu_geo.records import Scene

Make = Callable[..., Scene]


def test_worked_pixels_are_means_of_red_and_green_and_need_all_their_pixels(make_scene: Make) -> None:
    data = np.full((3, 40, 40), 200, np.uint8)
    data[0, :, :20], data[1, :, :20], data[2] = 40, 80, 7  # gray 60 on the left; blue does not count
    data[:, 11, 31] = 0  # one pixel without data
    scene = make_scene("a", data, nodata=0)
    with Mosaic([scene], project_grid([scene])) as mosaic:
        gray, valid = EdgeView(mosaic, 2).read(0, 0, 20, 20)
    assert gray[:, :10].min() == gray[:, :10].max() == 60
    assert gray[0, 15] == 200
    assert np.argwhere(~valid).tolist() == [[5, 15]]


@pytest.mark.parametrize("shrink", [1, 2, 4])
def test_strips_hold_the_edges_of_the_whole_but_for_the_last_row(make_scene: Make, shrink: int) -> None:
    scene = make_scene("a", pattern(96, 64))
    with Mosaic([scene], project_grid([scene])) as mosaic:
        view = EdgeView(mosaic, shrink, noise=20.0, col=1, width=64 // shrink - 2)
        whole = edge_field(*view.read(1, 0, 64 // shrink - 2, 96 // shrink), 20.0)
        step = 32 // shrink
        for k, keep_from in enumerate((0, 0, step + 3)):
            view.advance(keep_from, k * step, (k + 1) * step)
            held = view.held()
            assert (held.row, len(held.edges)) == (keep_from, (k + 1) * step - keep_from)
            np.testing.assert_array_equal(held.edges[:-1], whole[keep_from : (k + 1) * step - 1])
            assert held.valid.shape == held.edges.shape[:2]


def test_rows_left_out_make_a_fresh_start(make_scene: Make) -> None:
    scene = make_scene("a", pattern(96, 64))
    with Mosaic([scene], project_grid([scene])) as mosaic:
        view = EdgeView(mosaic, 1, col=0, width=64)
        view.advance(0, 0, 16)
        first = view.held()
        copy = first.edges.copy()
        view.advance(64, 64, 80)
        assert (view.held().row, len(view.held().edges)) == (64, 16)
        np.testing.assert_array_equal(first.edges, copy)


def test_a_cut_beyond_what_is_held_is_zero_there() -> None:
    edges = np.arange(1, 10 * 8 * 2 + 1, dtype=np.uint8).astype(np.int8).reshape(10, 8, 2)
    held = HeldEdges(100, 50, edges, np.ones((10, 8), dtype=bool))
    np.testing.assert_array_equal(held.cut(102, 51, 4), edges[1:5, 2:6])
    padded = np.zeros((40, 40, 2), np.int8)
    padded[15:25, 15:23] = edges
    for x, y in ((97, 48), (106, 58), (99, 40), (85, 35), (130, 50), (100, 80)):
        np.testing.assert_array_equal(held.cut(x, y, 6), padded[y - 35 :, x - 85 :][:6, :6] if x < 120 and y < 70 else 0)


def test_covered_are_pixels_with_data_alone() -> None:
    valid = np.ones((10, 8), dtype=bool)
    valid[3, 2] = False
    held = HeldEdges(100, 50, np.zeros((10, 8, 2), np.int8), valid)
    assert held.covers(100, 50)
    assert held.covers(107, 59)
    assert not any(held.covers(x, y) for x, y in ((102, 53), (99, 50), (108, 50), (100, 49), (100, 60)))
