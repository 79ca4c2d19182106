"""Areas out of polygon files, regular cells, which building lies where, and the files with the figures."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely
from geo_parts import CRS_MEMBER, GRID, box
from pyproj import Geod, Transformer
from rasterio.transform import Affine

from pu_geo.errors import FootprintError, PuGeoError
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.vector.areas import assign, centroids, grid_cells, read_areas
from pu_geo.geo.vector.grid import grid_table
from pu_geo.records import Affine6, Grid, Scene

Write = Callable[..., Path]


def as_json(shape: shapely.Geometry) -> dict[str, object]:
    return json.loads(shapely.to_geojson(shape))


@pytest.fixture
def write_areas(write_json: Write) -> Write:
    """Write one box an area with its attributes, in the grid's CRS."""

    def write(*rows: dict[str, object], name: str = "areas.geojson") -> Path:
        features = [(as_json(box(20 * i, 0, 20, 500)), row) for i, row in enumerate(rows)]
        return write_json(features, name, crs=CRS_MEMBER)

    return write


def test_areas_keep_their_whole_shape_in_the_project_crs(write_json: Write) -> None:
    to_degrees = Transformer.from_crs(32633, 4326, always_xy=True)
    reaching = shapely.transform(box(-5000, -5000, 5100, 9000), lambda xy: np.stack(to_degrees.transform(*xy.T), axis=-1))
    far = shapely.box(3, 3, 4, 4)
    areas = read_areas(write_json([(as_json(reaching), {"name": "West"}), (as_json(far), {"name": "Far"})]), GRID, layer="d")
    assert list(areas.names) == ["West"]
    np.testing.assert_allclose(shapely.from_wkb(areas.wkb[0]).bounds, box(-5000, -5000, 5100, 9000).bounds, atol=5)
    assert "1 area(s) lie outside the post scenes and were left out." in areas.notes
    assert not any("footprint" in note for note in areas.notes)


@pytest.mark.parametrize(
    ("fields", "name", "code"),
    [
        ({"adm2_name": "Town", "adm2_pcode": "L0102", "adm1_name": "North", "lang": "en"}, "Town", "L0102"),
        ({"admin1Name_ar": "حلب", "admin1Pcod": "SY02", "admin0Name_en": "Syria"}, "حلب", "SY02"),
        ({"NAME_1": "North", "NAME_2": "Town", "GID_2": "L.1.2_1", "GID_1": "L.1_1"}, "Town", "L.1.2_1"),
        ({"shapeName": "Town", "shapeISO": "L-1", "shapeID": "123B", "shapeType": "ADM2"}, "Town", "123B"),
        ({"NAME": "Bezirk", "NAMELSAD": "Bezirk County", "GEOID": "48201"}, "Bezirk County", "48201"),
        ({"name": "a\u202eb\x00"}, "ab", None),  # marks that turn the reading direction
        ({"name": " Мар'їн \t ка ", "code": 13.0}, "Мар'їн ка", "13"),
        ({"ADM2_EN": "Town", "ADM2_PCODE": None, "ADM1_PCODE": "L01"}, "Town", None),  # no code of another level
        ({"ADM1_EN": "North", "ADM2_EN": None, "ADM1_PCODE": "L01"}, "North", "L01"),
    ],
)
def test_usual_attributes_are_found(write_areas: Write, fields: dict[str, object], name: str, code: str | None) -> None:
    areas = read_areas(write_areas(fields, fields), GRID, layer="adm")
    assert (areas.names[1], areas.pcodes[1]) == (name, code)


def test_named_attributes_win_and_without_a_name_areas_go_by_code_or_number(write_areas: Write) -> None:
    path = write_areas({"ADM2_EN": "Town", "ADM2_AR": "حلب", "kod": "X1", "ADM2_PCODE": "L1"})
    areas = read_areas(path, GRID, layer="adm2", name_field="adm2_ar", code_field="kod")
    assert (areas.names, areas.pcodes) == (["حلب"], ["X1"])
    with pytest.raises(FootprintError, match=r"no attribute 'nom'; it has: ADM2_EN, ADM2_AR, kod") as refused:
        read_areas(path, GRID, layer="adm2", name_field="nom")
    assert refused.value.kind == "field"
    areas = read_areas(
        write_areas({"район": "a", "pcode": "P1"}, {"район": "b", "pcode": "P2"}, {"район": "c"}), GRID, layer="z"
    )
    assert (list(areas.names), list(areas.pcodes)) == (["P1", "P2", "z 3"], ["P1", "P2", None])
    assert areas.notes == ("No attribute looks like a name, so areas go by code or number. The file has: pcode, район.",)


def test_a_layer_that_names_a_level_has_its_codes_and_no_others(write_areas: Write) -> None:
    rows = [{"ADM2_PCODE": "L1", "ADM3_PCODE": f"L10{i}", "ADM3_EN": f"Ward {i}"} for i in (1, 2)]
    areas = read_areas(write_areas(*rows), GRID, layer="adm2")
    assert (list(areas.names), list(areas.pcodes)) == (["L1"], ["L1"])
    assert "2 areas of the file have 1 codes and names of level 2; those of one were joined." in areas.notes
    other = read_areas(write_areas(*({"ADM2_EN": name, "code": "CO"} for name in "AB")), GRID, layer="adm2 2023")
    assert list(other.names) == ["A", "B"]
    assert list(read_areas(write_areas(*rows), GRID, layer="adm3").pcodes) == ["L101", "L102"]
    with pytest.raises(FootprintError, match="no name and no code of administrative level 1"):
        read_areas(write_areas(*rows), GRID, layer="adm1")


def test_geopackages_are_read_borders_repaired_islands_joined_and_areas_inside_others_kept(tmp_path: Path) -> None:
    """Footprints are split and searched for doubles; districts are not."""
    bowtie = shapely.Polygon([(500_010, 4_594_210), (500_030, 4_594_230), (500_030, 4_594_210), (500_010, 4_594_230)])
    islands = shapely.MultiPolygon([box(50, 50, 10), box(90, 90, 20)])
    shapes = {"bow tie": bowtie, "islands": islands, "city": box(140, 40, 20), "old town": box(141, 41, 18)}
    path = tmp_path / "a.gpkg"
    table = geopandas.GeoDataFrame({"NAME_1": list(shapes)}, geometry=list(shapes.values()), crs=32633)
    table.to_file(path, driver="GPKG", layer="adm1")
    areas = read_areas(path, GRID, layer="adm1")
    assert list(areas.names) == list(shapes)
    found = shapely.from_wkb(list(areas.wkb))
    assert shapely.is_valid(found).all()
    np.testing.assert_allclose(shapely.area(found), [200, 500, 400, 324])
    assert "1 area(s) crossed themselves and were repaired." in areas.notes


def test_points_get_the_first_area_that_holds_them_once() -> None:
    rng = np.random.default_rng(0)
    shapes = [shapely.Point(rng.uniform(0, 100, 2)).buffer(rng.uniform(2, 25)) for _ in range(20)]
    shapes.append(shapely.box(0, 0, 10, 10).difference(shapely.box(4, 4, 6, 6)))  # with a hole
    points = np.concatenate([rng.uniform(-10, 110, (500, 2)), [[5.0, 5.0], [2.0, 2.0]]])
    index, n_several = assign(points, shapely.to_wkb(shapes).tolist())
    assert n_several == int((shapely.intersects(shapely.points(points)[:, None], shapes).sum(axis=1) > 1).sum()) > 0
    naive = [next((i for i, shape in enumerate(shapes) if shape.intersects(shapely.Point(xy))), -1) for xy in points]
    assert index.dtype == np.int64
    assert index.tolist() == naive
    assert {-1} < set(naive)
    halves = [shapely.to_wkb(box(0, 0, 10, 10)), shapely.to_wkb(box(10, 0, 10, 10))]
    middle = centroids([shapely.to_wkb(box(8, 4, 4, 2)), shapely.to_wkb(box(1, 1, 2, 2))])
    np.testing.assert_allclose(middle, [[500_010, 4_594_205], [500_002, 4_594_202]])
    assert assign(middle, halves)[0].tolist() == [0, 0]
    assert assign(middle, halves[::-1])[0].tolist() == [0, 1]
    assert assign(np.zeros((0, 2)), halves)[0].tolist() == []


def test_cells_lie_on_whole_multiples_and_measure_metres_on_the_ground() -> None:
    points, size_m = np.random.default_rng(0).uniform([-3000, 4_000_000], [3000, 4_003_000], (40, 2)), 62.5
    cells, index = grid_cells(points, GRID, size_m)
    bounds = shapely.bounds(shapely.from_wkb(list(cells.wkb)))
    np.testing.assert_allclose(bounds / size_m, np.round(bounds / size_m), atol=1e-9)
    np.testing.assert_allclose(bounds[:, 2:] - bounds[:, :2], size_m)
    assert set(index.tolist()) == set(range(len(cells.wkb)))
    assert ((bounds[index, :2] <= points) & (points < bounds[index, 2:])).all()
    assert len(set(cells.pcodes)) == len(cells.pcodes)
    assert (np.diff(bounds[:, 1]) <= 0).all()  # north first
    cells, index = grid_cells(np.array([[500_250.0, 4_000_250.0], [-1.0, 499.0]]), GRID)
    assert (list(cells.pcodes), index.tolist()) == (["500mN8000E1000", "500mN0E-1"], [0, 1])
    grid = Grid("EPSG:4326", "", (1e-5, 0.0, 13.0, 0.0, -1e-5, 52.0), 2000, 2000, 1.0, 68_677.6, 111_265.0)
    cells, _ = grid_cells(np.array([[13.005, 51.995]]), grid)
    west, south, east, north = shapely.from_wkb(cells.wkb[0]).bounds
    geod = Geod(ellps="WGS84")
    sides = [geod.inv(west, south, east, south)[2], geod.inv(west, south, west, north)[2]]
    assert sides == pytest.approx([500, 500], rel=2e-3)


@pytest.mark.parametrize("size_m", [9.9, 100_001.0, float("nan")])
def test_impossible_cells_are_refused(size_m: float) -> None:
    with pytest.raises(PuGeoError, match="from 10 to 100,000 m"):
        grid_cells(np.zeros((1, 2)), GRID, size_m)


# Squares in place of footprints


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
