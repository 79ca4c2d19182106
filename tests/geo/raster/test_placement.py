"""Where scenes lie, and how much of windows they cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from geo_parts import ORIGIN, pattern
from rasterio.transform import Affine

from pu_geo.geo.raster.placement import outside_shares, project_grid
from pu_geo.records import Scene

Make = Callable[..., Scene]


def test_a_window_over_the_border_counts_what_lies_beyond(make_scene: Make) -> None:
    scene = make_scene("post", pattern(100, 200))
    windows = np.array([[50, 50, 20, 20], [-10, 50, 20, 20], [195, 95, 10, 10], [300, 0, 10, 10], [0, 0, 200, 100]], float)
    # by hand: inside; the left half; three quarters; all; exactly the scene
    np.testing.assert_allclose(outside_shares(windows, [scene], project_grid([scene])), [0, 0.5, 0.75, 1, 0], atol=1e-6)


def test_neighbors_join_and_a_gap_between_them_is_outside(make_scene: Make) -> None:
    x, y = ORIGIN
    left = make_scene("post", pattern(100, 100), transform=Affine(0.5, 0, x, 0, -0.5, y))
    right = make_scene("post", pattern(100, 100), transform=Affine(0.5, 0, x + 60, 0, -0.5, y))  # after 20 pixels of gap
    windows = np.array([[90, 40, 40, 20], [80, 40, 20, 20], [110, 40, 20, 20]], float)
    # by hand: 20 of 40 columns; none; 10 of 20
    np.testing.assert_allclose(outside_shares(windows, [left, right], project_grid([left, right])), [0.5, 0, 0.5], atol=1e-6)
