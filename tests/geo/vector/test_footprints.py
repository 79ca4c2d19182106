"""Footprints out of GeoJSON and GeoPackage files, onto the project grid."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from geo_parts import CRS_MEMBER, GRID
from geo_parts import box as square
from numpy.typing import NDArray
from pyproj import Geod, Transformer
from small_parts import square_table

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import footprint_files
from pu_geo.geo.vector.duplicates import twins, without_known
from pu_geo.geo.vector.footprints import clean_attributes, read_footprints
from pu_geo.records import FootprintTable, Grid

Write = Callable[..., Path]
DEGREES = Transformer.from_crs(32633, 4326, always_xy=True)


def lonlat_json(shape: shapely.Geometry) -> dict[str, object]:
    moved = shapely.transform(shape, lambda xy: np.stack(DEGREES.transform(*xy.T), axis=-1))
    return json.loads(shapely.to_geojson(moved))


def features(shapes: list[shapely.Geometry], key: str | None = "building_id") -> list[tuple[object, dict[str, object]]]:
    return [(lonlat_json(shape), {key: f"b{i}"} if key else {}) for i, shape in enumerate(shapes)]


def refusal(path: Path, words: str | None = None) -> str:
    """Return the kind of the refusal of a file, in which these words are."""
    with pytest.raises(FootprintError, match=words) as refused:
        read_footprints(path, GRID)
    return refused.value.kind


def test_footprints_arrive_in_the_project_crs_with_their_area(write_json: Write) -> None:
    table = read_footprints(write_json(features([square(10, 20), square(50, 60, 20)])), GRID)
    shapes = shapely.from_wkb(list(table.wkb))
    np.testing.assert_allclose(shapely.bounds(shapes)[0], square(10, 20).bounds, atol=0.01)
    lon, lat = np.array(lonlat_json(square(10, 20))["coordinates"][0]).T
    by_geodesic = abs(Geod(ellps="WGS84").polygon_area_perimeter(lon, lat)[0])
    assert table.area_m2[0] == pytest.approx(by_geodesic, rel=1e-5)
    assert (table.building_ids, table.n_in, table.n_repaired, table.n_dropped) == (["b0", "b1"], 2, 0, 0)
    assert (table.notes, table.wkb[0][0]) == ((), 1)  # little-endian


def test_a_tagged_crs_is_followed_and_a_link_or_a_large_file_is_not(
    write_json: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = [(json.loads(shapely.to_geojson(square(10, 10))), {})]
    table = read_footprints(write_json(inside, crs=CRS_MEMBER), GRID)
    assert shapely.from_wkb(table.wkb[0]).equals(square(10, 10))
    for crs in ({"type": "link", "properties": {"href": "http://127.0.0.1:9/"}}, "EPSG:4326"):
        assert refusal(write_json(inside, crs=crs)) == "crs"
    monkeypatch.setattr(footprint_files, "MAX_TEXT_BYTES", 100)
    assert refusal(write_json(features([square(1, 1)]))) == "size"


def test_every_drop_and_repair_is_counted(write_json: Write) -> None:
    bowtie = shapely.Polygon([(500_010, 4_594_210), (500_030, 4_594_230), (500_030, 4_594_210), (500_010, 4_594_230)])
    both = shapely.GeometryCollection([square(100, 100), shapely.Point(500_100, 4_594_300)])
    given = [square(10, 20), bowtie, both, square(900, 900), shapely.Point(500_010, 4_594_220), shapely.Polygon()]
    rows = [*features(given), (None, {"building_id": "none"}), ({"type": "Polygon", "coordinates": [[[1, 2]]]}, {})]
    table = read_footprints(write_json(rows), GRID)
    assert list(table.building_ids) == ["b0", "b1", "b2"]
    assert (table.n_in, table.n_repaired, table.n_dropped) == (8, 2, 5)
    assert table.dropped == {"empty": 2, "unreadable": 1, "not a polygon": 1, "outside the scenes": 1}
    assert table.is_repaired.tolist() == [False, True, True]
    assert len(table.notes) == 6
    shapes = shapely.from_wkb(list(table.wkb))
    assert shapely.is_valid(shapes).all()
    assert shapely.area(shapes)[1] == pytest.approx(200, rel=1e-3)  # two triangles of 20 x 10 / 2 m


def test_multipolygons_of_distant_houses_become_buildings_with_ids_of_their_own(write_json: Write) -> None:
    far = shapely.MultiPolygon([square(10, 10), square(120, 10)])  # 100 m of other ground between them
    yard = shapely.MultiPolygon(
        [square(10, 60), square(20.4, 60), square(30.8, 60)]
    )  # gaps of 0.4 m; huts stand as far apart
    pair = shapely.MultiPolygon([square(80, 60), square(90.3, 60), square(101.5, 60, 5)])
    table = read_footprints(write_json(features([far, yard, pair, square(10, 120)])), GRID)
    assert list(table.building_ids) == ["b0-1", "b0-2", "b1", "b2-1", "b2-2", "b3"]
    assert shapely.get_num_geometries(shapely.from_wkb(list(table.wkb))).tolist() == [1, 1, 3, 2, 1, 1]
    np.testing.assert_allclose(table.area_m2, [100, 100, 300, 200, 25, 100], rtol=2e-3)
    assert (table.n_in, table.n_repaired, table.n_dropped, table.dropped) == (4, 2, 0, {})
    assert table.feature.tolist() == [0, 0, 1, 2, 2, 3]
    assert any("2 multipolygon(s)" in note and "4 buildings" in note for note in table.notes)
    assert [doubt[:9] for doubt in table.doubts] == ["3 part(s)"]
    far = shapely.MultiPolygon([square(10, 10), square(120, 10), square(900, 900)])
    rows = [(lonlat_json(far), {"id": "a"}), (lonlat_json(square(10, 60)), {"id": "a-2"}), (lonlat_json(far), {})]
    table = read_footprints(write_json(rows), GRID)
    assert list(table.building_ids) == ["a--1", "a--2", "a-2"]  # the last feature repeats the first one
    assert (table.n_in, len(np.unique(table.feature_of)) + table.n_dropped) == (3, 3)
    assert table.dropped == {"duplicates": 1}
    assert any("2 more parts lie outside" in note for note in table.notes)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"building_id": "x", "id": 1}, {"building_id": "y", "id": 2}], ["x", "y"]),
        ([{"building_id": "x", "id": 1}, {"building_id": "x", "id": 7}], ["1", "7"]),
        ([{"id": 1}, {"id": 2}], ["", ""]),  # rows, counted
        (
            [{"OSM_ID": 31415926535897932301}, {"OSM_ID": 31415926535897932388}],
            ["31415926535897932301", "31415926535897932388"],
        ),
        ([{"id": 7}, {"id": 7}], ["", ""]),
        ([{"id": 7.0}, {"id": None}], ["7", ""]),
        ([{"id": True}, {"id": {"a": 1}}], ["", ""]),
        ([{"id": " a\x00\u202e "}, {"id": "b"}], ["a", "b"]),
    ],
)
def test_ids_are_taken_where_they_are_unique(write_json: Write, rows: list[dict[str, object]], expected: list[str]) -> None:
    shapes = [square(10, 20), square(50, 60)]
    path = write_json([(lonlat_json(s), p) for s, p in zip(shapes, rows, strict=True)])
    table = read_footprints(path, GRID)
    assert list(table.building_ids) == expected
    assert bool(table.notes) == ("" in expected)


def test_attributes_are_cleaned_for_json_and_refused_where_they_are_nested_too_deep(write_json: Write) -> None:
    dirty = {"a\x00b\u202e": "x\x07y", "n": float("nan"), "b": b"\1", "l": [1, float("inf"), {"k": "\x00"}], "t": True}
    assert clean_attributes(dirty, "f") == {"ab": "xy", "n": None, "b": None, "l": [1, None, {"k": ""}], "t": True}
    deep: object = 1
    for _ in range(30):
        deep = [deep]
    assert refusal(write_json([(lonlat_json(square(1, 1)), {"a": deep})]), "nested") == "parse"


def test_footprints_with_next_to_no_area_are_counted_apart_and_refused_alone(write_json: Write) -> None:
    flat = shapely.Polygon([(500_010, 4_594_210), (500_030, 4_594_210), (500_020, 4_594_210)])
    table = read_footprints(write_json(features([square(10, 20), flat, square(900, 900)])), GRID)
    assert (table.n_in, len(table.wkb), table.dropped) == (3, 1, {"too small": 1, "outside the scenes": 1})
    assert table.n_dropped == sum(table.dropped.values())
    assert refusal(write_json(features([flat])), "1 are smaller") == "type"
    swapped = shapely.transform(shapely.from_geojson(json.dumps(lonlat_json(square(10, 10)))), lambda xy: xy[:, ::-1])
    assert refusal(write_json([(json.loads(shapely.to_geojson(swapped)), {})]), "swapped") == "outside"


def test_footprints_on_the_border_and_across_the_antimeridian_stay(write_json: Write) -> None:
    rows = [(json.loads(shapely.to_geojson(shapely.force_3d(square(x, y), 12.5))), {}) for x, y in ((-5, 10), (-10, 50))]
    table = read_footprints(write_json(rows, crs=CRS_MEMBER), GRID)
    assert (len(table.wkb), table.n_dropped) == (1, 1)
    assert not shapely.from_wkb(table.wkb[0]).has_z  # heights are dropped
    grid = Grid("EPSG:4326", "", (1e-5, 0.0, 179.999, 0.0, -1e-5, -17.0), 200, 200, 1.0, 106_000.0, 110_600.0)
    shape = shapely.box(-179.9995, -17.0015, -179.9993, -17.0013)
    table = read_footprints(write_json([(json.loads(shapely.to_geojson(shape)), {})]), grid)
    np.testing.assert_allclose(shapely.from_wkb(table.wkb[0]).bounds, (180.0005, -17.0015, 180.0007, -17.0013), atol=1e-9)
    assert table.area_m2[0] == pytest.approx(0.0002 * 106_466 * 0.0002 * 110_670, rel=2e-3)


@pytest.fixture
def gpkg(tmp_path: Path) -> Path:
    """A GeoPackage with two footprints, written by another program (GDAL)."""
    table = geopandas.GeoDataFrame({"uid": ["x", "y"]}, geometry=[square(10, 20), square(50, 60)], crs=32633)
    path = tmp_path / "b.gpkg"
    table.to_file(path, driver="GPKG", layer="buildings")
    return path


def test_geopackage_and_flatgeobuf_are_read_with_their_attributes_and_left_as_they_are(tmp_path: Path) -> None:
    columns = {"n": pd.array([3, None], dtype="Int64"), "is_house": pd.array([True, None], dtype="boolean")}
    days = {"day": pd.to_datetime(["2024-05-06T01:02:03.250", None]), "x": [1.5, None]}
    table = geopandas.GeoDataFrame({**columns, **days}, geometry=[square(10, 20), square(50, 60)], crs=32633)
    table.to_file(tmp_path / "b.gpkg")
    content = (tmp_path / "b.gpkg").read_bytes()
    found = read_footprints(tmp_path / "b.gpkg", GRID)
    assert shapely.from_wkb(found.wkb[1]).equals(square(50, 60))
    first, second = found.attributes
    assert [(type(value), value) for value in first.values()] == [
        (int, 3), (bool, True), (str, "2024-05-06T01:02:03.250"), (float, 1.5),
    ]  # fmt: skip
    assert list(second.values()) == [None] * 4
    assert (tmp_path / "b.gpkg").read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["b.gpkg"]
    table = geopandas.GeoDataFrame({"wkb_geometry": ["x"], "n": [1]}, geometry=[square(10, 20)], crs=32633)
    table.to_file(tmp_path / "b.fgb")
    assert read_footprints(tmp_path / "b.fgb", GRID).attributes[0] == {"wkb_geometry": "x", "n": 1}


@pytest.mark.parametrize(("values", "odd"), [([1, 2], 3.7), ([1.5, 2.5], "A-12"), ([True, False], "yes")])
def test_a_geopackage_with_a_cell_that_gdal_would_make_a_number_of_is_refused(
    tmp_path: Path, values: list[float], odd: str | float
) -> None:
    table = geopandas.GeoDataFrame({"n": values}, geometry=[square(10, 20), square(50, 60)], crs=32633)
    table.to_file(tmp_path / "b.gpkg")
    read_footprints(tmp_path / "b.gpkg", GRID)
    with closing(sqlite3.connect(tmp_path / "b.gpkg")) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE b SET n = ? WHERE rowid = 2", (odd,))
    with pytest.raises(FootprintError, match=f"'n' is declared as one of numbers that .?{odd}") as caught:
        read_footprints(tmp_path / "b.gpkg", GRID)
    assert caught.value.kind == "parse"


def test_a_geopackage_with_a_damaged_page_or_without_a_coordinate_system_is_refused(tmp_path: Path) -> None:
    table = geopandas.GeoDataFrame({"n": [1]}, geometry=[square(10, 20)], crs=32633)
    table.to_file(tmp_path / "b.gpkg")
    for undefined in (-1, 0):
        with closing(sqlite3.connect(tmp_path / "b.gpkg")) as database, database:
            database.execute("UPDATE gpkg_geometry_columns SET srs_id = ?", (undefined,))
        assert refusal(tmp_path / "b.gpkg") == "crs"
        assert len(read_footprints(tmp_path / "b.gpkg", GRID, crs="EPSG:32633").wkb) == 1
    shapes = [square(x, y) for x in range(0, 100, 2) for y in range(0, 100, 2)]
    geopandas.GeoDataFrame({"n": range(len(shapes))}, geometry=shapes, crs=32633).to_file(tmp_path / "b.gpkg")
    data = bytearray((tmp_path / "b.gpkg").read_bytes())
    at = data.index(shapely.to_wkb(shapes[1000], byte_order=1)) // 4096 * 4096
    data[at : at + 4096] = bytes(4096)
    (tmp_path / "b.gpkg").write_bytes(data)
    assert refusal(tmp_path / "b.gpkg") == "parse"


def test_a_view_unsaved_changes_and_our_own_project_database_are_never_opened(gpkg: Path) -> None:
    gpkg.with_name("b.gpkg-wal").write_bytes(b"x")
    assert refusal(gpkg, "unsaved") == "open"
    gpkg.with_name("b.gpkg-wal").unlink()
    with closing(sqlite3.connect(gpkg)) as database:
        database.executescript(
            """CREATE VIEW v AS SELECT * FROM buildings;
            UPDATE gpkg_contents SET table_name = 'v';
            UPDATE gpkg_geometry_columns SET table_name = 'v';"""
        )
    assert refusal(gpkg) == "view"
    inside = gpkg.parent / "event.pugeo"
    inside.mkdir()
    gpkg.rename(inside / "project.gpkg")
    assert refusal(inside / "project.gpkg") == "open"


# One building that comes twice counts once


def shifted(table: FootprintTable, dx: float, dy: float, prefix: str = "n") -> FootprintTable:
    shapes = shapely.transform(shapely.from_wkb(list(table.wkb)), lambda xy: xy + np.array([dx, dy]))
    ids = [f"{prefix}{building}" for building in table.building_ids]
    return replace(table, building_ids=ids, wkb=list(shapely.to_wkb(shapes)))


def as_array(table: FootprintTable) -> NDArray[np.object_]:
    return np.array(list(table.wkb), dtype=object)


def test_the_same_houses_one_meter_off_are_left_out_and_counted() -> None:
    table, apart = square_table(20), shifted(square_table(3, prefix="far"), 0.0, 60.0)
    new = shifted(table, 1.0, 0.0)
    both = replace(
        new, building_ids=[*new.building_ids, *apart.building_ids], wkb=[*new.wkb, *apart.wkb], n_in=23,
        area_m2=np.full(23, 64.0), attributes=[*new.attributes, *apart.attributes], notes=("first",),
    )  # fmt: skip
    found = without_known(both, as_array(table))
    assert list(found.building_ids) == ["nfar0", "nfar1", "nfar2"]
    assert (found.n_in, found.n_dropped, found.dropped) == (23, 20, {"duplicates": 20})
    assert found.notes[0] == "first"
    assert found.notes[1].startswith("20 footprint(s) are buildings that are in the project already")


def test_row_houses_that_touch_are_no_twins_and_of_a_chain_every_second_one_stays() -> None:
    row = np.array([shapely.box(5 * i, 0, 5 * i + 5.2, 10) for i in range(30)])
    assert not twins(row).any()
    wkb = list(shapely.to_wkb(row))
    table = FootprintTable([f"a{i}" for i in range(30)], wkb, np.full(30, 52.0), [{}] * 30, "user", 30, 0, 0)
    other_side = shifted(table, 0.0, 10.0)
    found = without_known(other_side, as_array(table))
    assert found is other_side
    # Each overlaps the next by 6 of 14 m, .43, and the one after next by 2 of 18 m, .11.
    chain = np.array([shapely.box(4 * i, 0, 4 * i + 10, 10) for i in range(4)])
    assert twins(chain).tolist() == [False, True, False, True]


def test_split_features_and_a_house_within_a_block_are_counted_right() -> None:
    table = square_table(2)
    block = shapely.to_wkb(np.array([shapely.box(499_990, 3_999_990, 500_100, 4_000_050)], dtype=object))
    found = without_known(table, block)
    assert len(found.wkb) == 2
    assert found.notes[0].startswith("2 footprint(s) overlap one that is in the project, but were kept")
    table = replace(
        square_table(4), feature=np.array([0, 0, 1, 1]), n_in=2, is_repaired=np.ones(4, dtype=bool), n_repaired=2
    )
    found = table.without(np.array([True, False, True, True]), "duplicates", "note")
    assert (found.n_dropped, found.dropped, found.n_repaired, list(found.building_ids)) == (1, {"duplicates": 1}, 1, ["b1"])
    assert len(np.unique(found.feature_of)) + found.n_dropped == found.n_in
