"""Where scenes lie, and how much of windows they cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from geo_parts import ORIGIN, pattern
from rasterio.transform import Affine

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.placement import check_overlap, outside_shares, project_grid
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


def test_grid_of_adjoining_scenes_covers_both(make_scene: Make) -> None:
    left = make_scene("left", pattern(40, 48))
    right = make_scene("right", pattern(40, 32), Affine(0.5, 0, ORIGIN[0] + 24, 0, -0.5, ORIGIN[1] + 5))
    grid = project_grid([left, right])
    assert (grid.width, grid.height) == (80, 50)
    assert grid.transform == (0.5, 0.0, ORIGIN[0], 0.0, -0.5, ORIGIN[1] + 5)
    assert (grid.crs, grid.x_unit_m, grid.y_unit_m) == ("EPSG:32633", 1.0, 1.0)


def test_grid_does_not_grow_for_a_hundredth_of_a_pixel(make_scene: Make) -> None:
    left = make_scene("left", pattern(40, 48))
    right = make_scene("right", pattern(40, 32), Affine(0.5, 0, ORIGIN[0] + 24.005, 0, -0.5, ORIGIN[1] + 0.005))
    assert (project_grid([left, right]).width, project_grid([left, right]).height) == (80, 40)


def test_grid_of_a_south_up_scene_is_north_up(make_scene: Make) -> None:
    scene = make_scene("s", pattern(40, 48), Affine(0.5, 0, ORIGIN[0], 0, 0.5, ORIGIN[1]))
    grid = project_grid([scene])
    assert grid.transform == (0.5, 0.0, ORIGIN[0], 0.0, -0.5, ORIGIN[1] + 20)
    assert (grid.width, grid.height) == (48, 40)


def test_grid_of_a_rotated_scene_covers_its_corners(make_scene: Make) -> None:
    turned = Affine.translation(*ORIGIN) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5)
    grid = project_grid([make_scene("r", pattern(40, 40), turned)])
    # A 20 m square turned by 30 degrees is 20 (cos 30 + sin 30) = 27.3 m wide: 54.6 pixels, so 55.
    assert (grid.width, grid.height) == (55, 55)
    assert grid.gsd_m == pytest.approx(0.5)


def test_grid_in_degrees_knows_its_metres(make_scene: Make) -> None:
    grid = project_grid([make_scene("d", pattern(32, 32), Affine(1e-5, 0, 15.0, 0, -1e-5, 41.5), "EPSG:4326")])
    assert grid.y_unit_m == pytest.approx(111_070, rel=1e-3)
    assert grid.x_unit_m == pytest.approx(111_320 * np.cos(np.deg2rad(41.5)), rel=3e-3)


def test_scenes_on_two_continents_are_refused(make_scene: Make) -> None:
    near = make_scene("near", pattern(32, 32))
    far = replace(near, transform=(0.5, 0.0, ORIGIN[0] + 60_000, 0.0, -0.5, ORIGIN[1] - 60_000))
    with pytest.raises(ImageryError, match="far apart") as refused:
        project_grid([near, far])
    assert refused.value.kind == "size"


def test_overlap_share_is_a_quarter_for_a_quarter(make_scene: Make) -> None:
    post = make_scene("post", pattern(40, 40))
    pre = make_scene("pre", pattern(40, 40), Affine(0.5, 0, ORIGIN[0] + 10, 0, -0.5, ORIGIN[1] - 10), role="pre")
    assert check_overlap([pre], [post], project_grid([post])) == pytest.approx(0.25)


def test_two_complete_pairs_far_from_each_other_are_covered_in_full(make_scene: Make) -> None:
    """ "Pre scenes cover only 0 %" was printed of two complete scenes 16 km apart: the grid between them counted."""
    away = Affine(0.5, 0, ORIGIN[0] + 16_000, 0, -0.5, ORIGIN[1])
    post = [make_scene("post", pattern(40, 40)), make_scene("far", pattern(40, 40), away)]
    pre = [make_scene("pre", pattern(40, 40), role="pre"), make_scene("farpre", pattern(40, 40), away, role="pre")]
    assert check_overlap(pre, post, project_grid(post)) == pytest.approx(1.0)


def test_no_overlap_is_refused_with_the_distance(make_scene: Make) -> None:
    post = make_scene("post", pattern(40, 40))
    pre = make_scene("pre", pattern(40, 40), Affine(0.5, 0, ORIGIN[0] + 10_020, 0, -0.5, ORIGIN[1]), role="pre")
    with pytest.raises(ImageryError, match=r"10\.0 km apart") as refused:
        check_overlap([pre], [post], project_grid([post]))
    assert refused.value.kind == "overlap"
