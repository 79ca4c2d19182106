"""The area of interest: typed as a box or WKT in any system, refused with the numbers, and what it leaves out."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from small_parts import small_grid, square_table

from pu_geo.errors import FootprintError
from pu_geo.geo.vector.aoi import OUTSIDE, area_km2, limited, typed_aoi
from pu_geo.geo.vector.crs import LONLAT, convert
from pu_geo.records import Grid

GRID = small_grid()  # x 499,990 to 500,390, y 3,999,980 to 4,000,020 in UTM 15N
BOX = shapely.box(499_900, 3_999_900, 500_070, 4_000_100)  # touches squares 0 to 4 of `square_table`
DEGREES = shapely.transform(BOX, lambda xy: convert(xy, GRID.crs, LONLAT))


def typed() -> list[str]:
    west, south, east, north = DEGREES.bounds
    return [
        f"{west}, {south}, {east}, {north}",
        f"srid=4326;{shapely.MultiPolygon([DEGREES]).wkt}",
        "EPSG:32615; 499900, 3999900, 500070, 4000100",
        "EPSG:\u206032615; 499900, 3999900, 500070, 4000100",  # as copied from the page
        f"SRID=32615;{BOX.wkt}",
    ]


@pytest.mark.parametrize("text", typed())
def test_the_same_area_comes_of_every_way_to_type_it(text: str) -> None:
    found = shapely.from_wkb(typed_aoi(text, GRID))
    assert found.symmetric_difference(BOX).area / BOX.area < 1e-3
    assert area_km2(shapely.to_wkb(found), GRID) == pytest.approx(0.034, rel=5e-3)  # 170 m x 200 m


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("1, 2, 3", "parse", "no area"),
        ("POINT (0 0)", "parse", "no area"),
        ("POLYGON ((0 0, 1 1, 0 0))", "empty", "no usable area"),
        ("POLYGON ((0 0, nan 1, 1 1, 0 0))", "parse", "no area"),
        ("GEOMETRYCOLLECTION (" * 1000, "parse", "no area"),
        ("1, 2, 1, 3", "empty", "no usable area"),
        ("EPSG:999999; 1, 2, 3, 4", "crs", "EPSG:999999"),
        ("499900, 3999900, 500070, 4000100", "bounds", "EPSG:32615;499900"),
        ("36.14, -93.01, 36.15, -92.99", "bounds", "longitude first"),
        ("10, 50, 11, 51", "outside", "longitude -92.9979"),
        ("1 " * 60_000, "size", "as a file"),
        ("EPSG:32615;-1e9,-1e9,1e9,1e9", "parse", "on the Earth"),
    ],
)
def test_what_is_no_area_is_refused_with_what_to_write(text: str, kind: str, word: str) -> None:
    with pytest.raises(FootprintError) as caught:
        typed_aoi(text, GRID)
    assert caught.value.kind == kind
    assert word in f"{caught.value.problem} {caught.value.hint}"


@pytest.mark.parametrize("text", ["-98, 30, -88, 42", "-130, 20, -60, 50", "EPSG:3857;-12e6,3e6,-8e6,6e6"])
def test_a_box_as_large_as_a_country_holds_what_lies_in_it(text: str) -> None:
    assert shapely.from_wkb(typed_aoi(text, GRID)).contains(BOX)


def test_a_box_over_the_antimeridian_finds_a_grid_there() -> None:
    grid = Grid("EPSG:4326", "", (1e-5, 0.0, 179.999, 0.0, -1e-5, -17.0), 200, 200, 1.0, 106_000.0, 110_600.0)
    found = shapely.from_wkb(typed_aoi("179.9995, -17.001, -179.9995, -17.0005", grid))
    np.testing.assert_allclose(found.bounds, (179.9995, -17.001, 180.0005, -17.0005), atol=1e-9)


def test_footprints_that_do_not_touch_it_are_left_out_and_counted() -> None:
    table = replace(square_table(20), n_in=22, n_dropped=2, dropped={"empty": 2}, is_repaired=np.arange(20) % 2 == 1)
    found = limited(table, shapely.to_wkb(BOX))
    assert list(found.building_ids) == ["b0", "b1", "b2", "b3", "b4"]  # b4 reaches from 500,064 to 500,072, over the border
    assert (found.n_in, found.n_dropped, found.dropped) == (22, 17, {"empty": 2, OUTSIDE: 15})
    assert (found.n_repaired, len(found.area_m2), len(found.attributes)) == (2, 5, 5)
    assert found.notes[-1].startswith("15 footprint(s) lie outside")
    assert limited(found, shapely.to_wkb(BOX)) is found
    with pytest.raises(FootprintError, match=r"None of the 20 footprints of b\.gpkg touches"):
        limited(square_table(20), shapely.to_wkb(shapely.box(0, 0, 1, 1)), "b.gpkg")
