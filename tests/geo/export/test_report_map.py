"""The map of a report: marks in their place and color, a scene under them, and what matters where buildings are many."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pyproj
import pytest
import shapely
from geo_parts import joined
from numpy.typing import NDArray

from pu_geo.geo.export import report_map
from pu_geo.geo.export.report_map import MapPicture, draw_map, hot_spots, outlines, round_length
from pu_geo.geo.raster.quicklooks import NO_DATA_GREY, build_pyramid
from pu_geo.records import DamageMap, Grid, Scene

X, Y = 500_000.0, 4_600_000.0  # upper left corner; on the central meridian of zone 33
GRID = Grid("EPSG:32633", "", (0.5, 0.0, X, 0.0, -0.5, Y), 800, 400, 0.5)  # 400 m x 200 m: 0.25 m per pixel of the map
CONFIRMED, FLAGGED, WHITE = (0xD5, 0x5E, 0x00), (0xE6, 0x9F, 0x00), (255, 255, 255)


def box(x: float, y: float, side: float = 20.0) -> shapely.Geometry:
    """A square with its upper left corner `x` m right of and `y` m below that of the grid."""
    return shapely.box(X + x, Y - y - side, X + x + side, Y - y)


def draw(buildings: list[tuple[shapely.Geometry, str]], grid: Grid = GRID, background: Path | None = None) -> MapPicture:
    wkb = [shapely.to_wkb(shape) for shape, _ in buildings]
    columns = {"triage": [triage for _, triage in buildings]}
    damage_map = DamageMap([f"b{i}" for i in range(len(wkb))], wkb, columns, grid.crs, {})
    return draw_map(damage_map, outlines(damage_map, grid), grid, background)


def pixels(found: MapPicture) -> NDArray[np.uint8]:
    """The picture as a reader sees it, RGB."""
    return cv2.imdecode(np.frombuffer(found.data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]


def test_a_building_is_drawn_where_it_stands(tmp_path: Path) -> None:
    found = draw([(box(100, 60), "confirmed")])
    assert (found.width, found.height, found.m_per_px) == (1600, 800, pytest.approx(0.25))
    assert (found.media_type, found.has_scene) == ("image/png", False)
    colored = (pixels(found) < 128).any(axis=2)
    rows, columns = np.nonzero(colored)
    # 100 to 120 m right and 60 to 80 m down at 0.25 m: columns 400 to 479, rows 240 to 319, and half a line around
    assert [columns.min(), columns.max(), rows.min(), rows.max()] == pytest.approx([400, 479, 240, 319], abs=1)
    assert tuple(pixels(found)[280, 440]) == CONFIRMED
    without_quicklooks = draw([(box(100, 60), "confirmed")], background=tmp_path / "missing")
    np.testing.assert_array_equal(pixels(without_quicklooks), pixels(found))


def test_what_a_person_confirmed_is_never_hidden_and_what_was_not_assessed_is_hatched() -> None:
    others = ("not_assessed", "high_recall", "flagged", "below", "high_precision")
    found = draw([(box(100, 60), "confirmed"), *((box(100, 60, 24), other) for other in others)])
    assert tuple(pixels(found)[280, 440]) == CONFIRMED
    picture = pixels(draw([(box(100, 60), "not_assessed"), (box(200, 60), "below")]))
    inside = picture[250:310, 410:470].reshape(-1, 3)
    assert len(np.unique(inside, axis=0)) == 2
    assert 0.1 < (inside != WHITE).any(axis=1).mean() < 0.3
    assert (picture[250:310, 810:870] == WHITE).all()


def test_yards_stay_open_and_parts_small_ones_and_those_that_reach_far_out_are_drawn() -> None:
    ring = shapely.difference(box(100, 60, 40), box(110, 70, 20))
    far = shapely.box(X - 1e6, Y - 180, X + 1e6, Y - 150)
    picture = pixels(
        draw([(shapely.union(ring, box(200, 60)), "flagged"), (far, "flagged"), (box(300, 60, 0.4), "confirmed")])
    )
    assert tuple(picture[320, 480]) == WHITE
    for row, column in ((320, 420), (280, 840), (660, 3), (660, 1597)):
        assert tuple(picture[row, column]) == FLAGGED
    assert 36 <= (picture == CONFIRMED).all(axis=2).sum() <= 81  # a square of about seven pixels


def test_shapes_off_the_map_are_left_out_and_of_many_buildings_only_what_matters_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far, nothing = box(1e7, 0), shapely.Polygon()
    broken = shapely.transform(box(0, 0), lambda xy: xy * math.inf)
    found = draw([(far, "flagged"), (nothing, "flagged"), (broken, "flagged")])
    assert (pixels(found) == WHITE).all()
    assert [row.words for row in found.legend] == ["Flagged by score: 3"]
    monkeypatch.setattr(report_map, "MOST_OUTLINES", 2)
    found = draw([(box(100, 60), "confirmed"), (box(200, 60), "below"), (box(300, 60), "not_assessed")])
    picture = pixels(found)
    assert tuple(picture[280, 440]) == CONFIRMED
    assert (picture[230:330, 790:890] == WHITE).all()
    assert (picture[250:310, 1210:1270] != WHITE).any()
    assert ["not drawn" in row.words for row in found.legend] == [False, False, True]


def test_the_map_is_square_on_the_ground_and_its_arrow_points_to_true_north() -> None:
    """At 60 degrees north a degree of longitude is half as long."""
    grid = Grid(
        "EPSG:4326", "", (0.001, 0.0, 15.0, 0.0, -0.001, 60.1), 200, 100, 55.0, x_unit_m=55_800.0, y_unit_m=111_400.0
    )
    found = draw([], grid)
    assert (found.width, found.height) == (1600, round(1600 * (100 * 111.4) / (200 * 55.8)))
    assert found.corners[0] == pytest.approx((15.0, 60.1))
    assert found.corners[3] == pytest.approx((15.2, 60.0))
    east = replace(GRID, transform=(10.0, 0.0, 740_000.0, 0.0, -10.0, Y))
    found = draw([], east)
    lon, lat = np.mean(found.corners, axis=0)
    convergence = pyproj.Proj("EPSG:32633").get_factors(lon, lat).meridian_convergence  # of grid north from true north
    assert abs(convergence) > 1.5
    assert found.north_deg == pytest.approx(-convergence, abs=0.02)
    south_polar = Grid("EPSG:3031", "", (10.0, 0.0, 500_000.0, 0.0, -10.0, 500.0), 100, 100, 10.0)
    assert abs(draw([], south_polar).north_deg) == pytest.approx(90, abs=0.2)  # at 90 degrees east, north is to the right


@pytest.fixture
def tiles(make_scene: Callable[..., Scene], tmp_path: Path) -> Callable[..., Path]:
    """Write a picture [h, w, 3] as map tiles; it holds no data where it is 0."""

    def write(picture: NDArray[np.uint8]) -> Path:
        with joined(make_scene("post", picture.transpose(2, 0, 1), nodata=0)) as mosaic:
            build_pyramid(mosaic, folder := tmp_path / f"{len(picture)}")
        return folder

    return write


def ground(gray: int) -> NDArray[np.uint8]:
    """Ground of 400 x 800 pixels that is nearly even; what is wholly so would count as without data."""
    return np.random.default_rng(0).integers(gray - 2, gray + 3, (400, 800, 1), dtype=np.uint8).repeat(3, axis=2)


def test_the_scene_lies_under_the_buildings_in_grey(tiles: Callable[..., Path]) -> None:
    scene = ground(90)
    scene[120:160, 200:240] = (200, 90, 40)  # where a building of 20 m stands
    scene[:, 400:] = np.random.default_rng(0).integers(100, 200, (400, 400, 1))
    found = draw([], background=tiles(scene))
    picture = pixels(found).astype(int)
    assert (found.media_type, found.has_scene, picture.shape) == ("image/jpeg", True, (800, 1600, 3))
    assert np.ptp(picture, axis=2).max() <= 6
    assert picture[280, 440, 0] - picture[280, 300, 0] > 5  # twice as many pixels as the grid: columns 400 to 480
    assert abs(picture[280, 395, 0] - picture[280, 300, 0]) < 5
    with pytest.raises(ValueError, match="800 x 399"):  # it is of another grid
        draw([], background=tiles(scene[:399]))


def test_the_map_is_white_where_there_is_no_scene(tiles: Callable[..., Path]) -> None:
    scene = ground(120)
    scene[:, 100:200] = scene[:256, 256:512] = 0  # of the second a whole tile, which is not written
    scene[5, 5] = NO_DATA_GREY  # a dark pixel is no gap
    picture = pixels(draw([], background=tiles(scene)))
    assert picture[300, 300].min() > 250
    assert picture[300, 800].min() > 250
    assert picture[300, 150].max() < 245
    assert picture[10, 10].max() < 245


@pytest.mark.parametrize(
    ("length", "expected"), [(1, 1), (1.01, 2), (2.5, 5), (5.0, 5), (84.4, 100), (0.03, 0.05), (20.0000000001, 20)]
)
def test_lengths_are_rounded_up_to_what_people_read(length: float, expected: float) -> None:
    assert round_length(length) == pytest.approx(expected)


def test_each_crowd_of_marked_buildings_in_a_large_site_has_a_map_of_its_own() -> None:
    grid = replace(GRID, width=20_000, height=12_000)
    corner = np.array([grid.transform[2], grid.transform[5]])
    crowds = [(500.0, 400.0), (9_000.0, 500.0), (1_000.0, 5_000.0), (8_000.0, 5_200.0)]  # m to the east and south
    places = [corner + np.array([east + 20 * k, -south - 15 * k]) for east, south in crowds for k in range(6)]
    wkb = [shapely.to_wkb(shapely.box(x, y, x + 8, y + 8)) for x, y in places]
    columns = {"triage": ["flagged"] * 23 + ["below"]}
    damage_map = DamageMap([f"b{k}" for k in range(24)], wkb, columns, grid.crs, {})
    shapes = outlines(damage_map, grid)
    drawn = [draw_map(damage_map, shapes, grid, None, 0, spot) for spot in hot_spots(damage_map, shapes, grid)]
    assert sorted(list(one.rows) for one in drawn) == [list(range(k, k + 6)) for k in (0, 6, 12, 18)]
    assert sorted(one.legend[0].words for one in drawn) == ["Flagged by score: 5", *["Flagged by score: 6"] * 3]
    assert {one.m_per_px * one.width for one in drawn} == {300.0}, "small crowds are drawn with what lies around them"
    assert hot_spots(damage_map, shapes, GRID) == [], "a small site has one map"
