"""Squares in place of footprints: whole ones, inside the post scenes, with lasting ids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shapely
from pyproj import Geod
from rasterio.transform import Affine

from pu_geo.errors import FootprintError
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.vector.grid import grid_table
from pu_geo.records import Affine6, Scene


def scene(transform: Affine6, width: int = 400, height: int = 400, crs: str = "EPSG:32633", name: str = "post-1") -> Scene:
    return Scene(name, "post", "/nowhere/x.tif", crs, transform, width, height, 3, "uint8", 0.5)


NORTH_UP = scene((0.5, 0.0, 500_005.0, 0.0, -0.5, 4_594_400.0))  # x 500,005 to 500,205, y 4,594,200 to 4,594,400


def cells(*scenes: Scene, size_m: float = 20.0) -> tuple[list[str], list[shapely.Geometry]]:
    table = grid_table(project_grid(scenes), scenes, size_m)
    return list(table.building_ids), list(shapely.from_wkb(list(table.wkb)))


def test_whole_squares_inside_the_scene_come_row_by_row_from_the_north() -> None:
    table = grid_table(project_grid([NORTH_UP]), [NORTH_UP], 20.0)
    # Whole multiples of 20 m: x 500,020 to 500,200 is 9 columns, y 4,594,200 to 4,594,400 is 10 rows.
    assert len(table.wkb) == 90
    shapes = shapely.from_wkb(list(table.wkb))
    assert shapely.bounds(shapes[0]).tolist() == [500_020, 4_594_380, 500_040, 4_594_400]
    assert shapely.bounds(shapes[-1]).tolist() == [500_180, 4_594_200, 500_200, 4_594_220]
    assert table.building_ids[0] == "20mN229719E25001"
    assert (table.n_in, table.n_dropped, table.n_repaired, table.source) == (110, 20, 0, "grid")
    assert len(set(table.building_ids)) == 90
    np.testing.assert_allclose(table.area_m2, 400.0, rtol=2e-3)
    assert "20 squares" in table.notes[0]


@pytest.mark.parametrize("slit_m", [0.0, 0.004])  # rounding leaves slits between scenes that adjoin
def test_a_square_over_the_seam_of_two_scenes_is_kept(slit_m: float) -> None:
    east = replace(NORTH_UP, scene_id="post-2", transform=(0.5, 0.0, 500_205.0 + slit_m, 0.0, -0.5, 4_594_400.0))
    ids, shapes = cells(NORTH_UP, east)
    assert len(ids) == 190  # x 500,020 to 500,400
    assert any(shape.contains(shapely.Point(500_205, 4_594_310)) for shape in shapes)


def test_a_cell_keeps_its_id_and_outline_when_a_scene_is_added_before_it() -> None:
    west = replace(NORTH_UP, scene_id="post-2", transform=(0.5, 0.0, 499_700.0, 0.0, -0.5, 4_594_700.0))
    alone, together = (dict(zip(*cells(*scenes), strict=True)) for scenes in ([NORTH_UP], [NORTH_UP, west]))
    assert len(together) > len(alone)
    assert all(together[name].equals_exact(shape, 0.0) for name, shape in alone.items())


def test_squares_fit_rotated_scenes_and_degrees() -> None:
    a, b, c, d, e, f = tuple(Affine.translation(500_000, 4_594_400) @ Affine.rotation(-30) @ Affine.scale(0.5, -0.5))[:6]
    turned = scene((a, b, c, d, e, f))
    corners = [(a * x + b * y + c, d * x + e * y + f) for x, y in ((0, 0), (400, 0), (400, 400), (0, 400))]
    _, shapes = cells(turned)
    assert 50 < len(shapes) < 100
    assert shapely.Polygon(corners).buffer(0.1).contains(shapely.union_all(shapes))
    _, shapes = cells(scene((5e-6, 0.0, 15.0, 0.0, -5e-6, 60.0), crs="EPSG:4326"))
    x0, y0, x1, y1 = shapes[0].bounds
    geod = Geod(ellps="WGS84")
    sides = [geod.inv(x0, y0, x1, y0)[2], geod.inv(x0, y0, x0, y1)[2]]
    assert sides == pytest.approx([20, 20], rel=0.01)


@pytest.mark.parametrize("size_m", [3.9, float("nan"), float("inf"), 250.0])
def test_sizes_that_show_nothing_or_fit_nowhere_are_refused(size_m: float) -> None:
    with pytest.raises(FootprintError) as refused:
        cells(NORTH_UP, size_m=size_m)
    assert refused.value.kind == "size"


def test_too_many_squares_are_refused_with_the_least_size_that_works() -> None:
    wide = replace(NORTH_UP, width=40_000, height=40_000)  # 20 x 20 km
    with pytest.raises(FootprintError, match="at least 29 m"):  # sqrt(4e8 / 5e5) = 28.3
        cells(wide, size_m=10.0)
