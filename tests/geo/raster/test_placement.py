"""Where scenes lie, and how much of windows they cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import shapely
from geo_parts import NORTH_UP, ORIGIN, pattern
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.placement import MAX_SIDE_PX, check_overlap, project_grid, shares_outside
from pu_geo.records import Scene

Make = Callable[..., Scene]


def at(x: float, y: float) -> Affine:
    """The place of a scene so many metres east and north of the origin."""
    return Affine(0.5, 0, ORIGIN[0] + x, 0, -0.5, ORIGIN[1] + y)


def boxes(windows: NDArray[np.float64]) -> NDArray[np.object_]:
    """Windows, float64 [N, 4]: column, row, width, height; as shapes."""
    return np.asarray(shapely.box(*windows[:, :2].T, *(windows[:, :2] + windows[:, 2:]).T))


def test_a_window_over_the_border_or_a_gap_counts_what_lies_beyond(make_scene: Make) -> None:
    scene = make_scene("post", pattern(100, 200))
    windows = np.array([[50, 50, 20, 20], [-10, 50, 20, 20], [195, 95, 10, 10], [300, 0, 10, 10], [0, 0, 200, 100]], float)
    # by hand: inside; the left half; three quarters; all; exactly the scene
    outside = shares_outside(boxes(windows), [scene], project_grid([scene]))
    np.testing.assert_allclose(outside, [0, 0.5, 0.75, 1, 0], atol=1e-6)
    both = [make_scene("left", pattern(100, 100)), make_scene("right", pattern(100, 100), at(60, 0))]  # a gap of 20 pixels
    windows = np.array([[90, 40, 40, 20], [80, 40, 20, 20], [110, 40, 20, 20]], float)
    # by hand: 20 of 40 columns; none; 10 of 20
    np.testing.assert_allclose(shares_outside(boxes(windows), both, project_grid(both)), [0.5, 0, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("places", "north_m", "size"),
    [
        ([(NORTH_UP, 48), (at(24, 5), 32)], 5, (80, 50)),
        ([(NORTH_UP, 48), (at(24.005, 0.005), 32)], 0, (80, 40)),  # it does not grow for a hundredth of a pixel
        ([(Affine(0.5, 0, ORIGIN[0], 0, 0.5, ORIGIN[1]), 48)], 20, (48, 40)),
        # A 20 m square turned by 30 degrees is 20 (cos 30 + sin 30) = 27.3 m wide: 54.6 pixels, so 55.
        ([(Affine.translation(*ORIGIN) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5), 40)], None, (55, 55)),
    ],
    ids=["adjoining", "a hundredth off", "south up", "rotated"],
)
def test_grid_covers_its_scenes_and_is_north_up(
    make_scene: Make, places: list[tuple[Affine, int]], north_m: float | None, size: tuple[int, int]
) -> None:
    grid = project_grid([make_scene(f"s{i}", pattern(40, width), place) for i, (place, width) in enumerate(places)])
    assert (grid.width, grid.height) == size
    assert (grid.crs, grid.x_unit_m, grid.y_unit_m) == ("EPSG:32633", 1.0, 1.0)
    assert grid.gsd_m == pytest.approx(0.5)
    if north_m is not None:
        assert grid.transform == pytest.approx((0.5, 0.0, ORIGIN[0], 0.0, -0.5, ORIGIN[1] + north_m), abs=0.01)


def test_grid_in_degrees_knows_its_metres(make_scene: Make) -> None:
    grid = project_grid([make_scene("d", pattern(32, 32), Affine(1e-5, 0, 15.0, 0, -1e-5, 41.5), "EPSG:4326")])
    assert grid.y_unit_m == pytest.approx(111_070, rel=1e-3)
    assert grid.x_unit_m == pytest.approx(111_320 * np.cos(np.deg2rad(41.5)), rel=3e-3)


@pytest.mark.parametrize(("east_px", "south_px"), [(120_000, 120_000), (MAX_SIDE_PX, 0)])
def test_scenes_on_two_continents_are_refused(make_scene: Make, east_px: int, south_px: int) -> None:
    near = make_scene("near", pattern(32, 32))
    far = replace(near, transform=(0.5, 0.0, ORIGIN[0] + east_px / 2, 0.0, -0.5, ORIGIN[1] - south_px / 2))
    with pytest.raises(ImageryError) as refused:
        project_grid([near, far])
    assert refused.value.kind == "size"


def test_overlap_is_a_share_of_the_post_scenes_or_refused_with_the_distance(make_scene: Make) -> None:
    post, pre = make_scene("post", pattern(40, 40)), make_scene("pre", pattern(40, 40), at(10, -10), role="pre")
    assert check_overlap([pre], [post], project_grid([post])) == pytest.approx(0.25)
    pair = [make_scene(f"s{x}", pattern(40, 40), at(x, 0)) for x in (0, 16_000)]  # the grid between them does not count
    assert check_overlap(pair, pair, project_grid(pair)) == pytest.approx(1.0)
    post = make_scene("post", pattern(40, 40))
    pre = make_scene("pre", pattern(40, 40), at(10_020, 0), role="pre")
    with pytest.raises(ImageryError, match=r"10\.0 km apart") as refused:
        check_overlap([pre], [post], project_grid([post]))
    assert refused.value.kind == "overlap"
