"""Thick clouds are found, and nothing that only looks like one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from cloud_parts import Picture, disc, town, under_clouds
from geo_parts import joined

from pu_geo.geo.raster import clouds
from pu_geo.geo.raster.clouds import CloudCells, Usual, cloud_cells, darkness, least_veil, may_be_veiled, usual_rise, veil
from pu_geo.geo.raster.quicklooks import build_pyramid
from pu_geo.records import Grid, Scene

SIDE, GSD_M = 1024, 0.5  # 512 m; a cell of 8 m is 16 pixels
MIDDLE = (512.0, 512.0)
Make = Callable[..., Scene]
Look = Callable[..., CloudCells]


@pytest.fixture
def look(make_scene: Make, tmp_path: Path) -> Look:
    def look(picture: Picture, valid: np.ndarray | None = None) -> CloudCells:
        data = picture if valid is None else np.where(valid[..., None], picture, 0)
        with joined(make_scene("post", data.transpose(2, 0, 1), nodata=None if valid is None else 0)) as mosaic:
            build_pyramid(mosaic, tmp_path / "tiles")
        found = cloud_cells(tmp_path / "tiles", mosaic.grid)
        assert found is not None
        return found

    return look


def share_of_cells(thick: np.ndarray) -> np.ndarray:
    return np.asarray(cv2.resize(thick, (SIDE // 16, SIDE // 16), interpolation=cv2.INTER_AREA))


def test_a_thick_cloud_is_found_where_it_is_thick_and_nowhere_else(look: Look, tmp_path: Path) -> None:
    thick = disc(SIDE, MIDDLE, 220, 120)
    found = look(under_clouds(town(SIDE), thick))
    share = share_of_cells(thick)
    assert found.cell_px == 16
    assert found.is_cloud[share > 0.97].mean() > 0.95
    assert not found.is_cloud[share < 0.6].any()
    assert look(under_clouds(town(SIDE), np.full((SIDE, SIDE), 0.98))).is_cloud.all()
    assert not look(under_clouds(town(SIDE), disc(SIDE, MIDDLE, 300, 60, 0.7))).is_cloud.any()
    assert not look(town(SIDE, 1, white_roofs=0.8)).is_cloud.any()
    look(town(SIDE))
    grid = Grid("EPSG:32633", "", (GSD_M, 0.0, 0.0, 0.0, -GSD_M, 0.0), SIDE, SIDE, GSD_M)
    assert cloud_cells(tmp_path / "tiles", replace(grid, gsd_m=clouds.COARSEST_M + 0.1)) is None
    assert cloud_cells(tmp_path / "nowhere", grid) is None


@pytest.mark.parametrize(("width_m", "height_m", "turned"), [(60, 60, 0), (250, 180, 40)])
def test_a_huge_white_roof_is_no_cloud_for_it_ends_at_its_edge(look: Look, width_m: int, height_m: int, turned: int) -> None:
    corners = cv2.boxPoints((MIDDLE, (width_m / GSD_M, height_m / GSD_M), turned)).astype(int)
    roof = np.zeros((SIDE, SIDE))
    cv2.fillPoly(roof, [corners], 1.0)
    assert not look(under_clouds(town(SIDE), cv2.GaussianBlur(roof, (0, 0), 1.0))).is_cloud.any()


def test_a_box_that_reaches_into_a_cell_touches_its_cloud_and_points_are_under_it() -> None:
    cells = np.zeros((4, 4), dtype=bool)
    cells[1, 2] = True  # grid pixels 20..30 across, 10..20 down
    boxes = np.array(
        [[20, 10, 30, 20], [15, 10, 21, 20], [0, 0, 40, 40], [30, 10, 40, 20], [-30, 0, -10, 20], [35, 35, 55, 55]]
    )
    assert CloudCells(cells, 10).touched(boxes.astype(float)).tolist() == [True, True, True, False, False, False]
    at = CloudCells(cells, 10).at(np.array([-1.0, 15.0, 20.0, 29.9, 99.0]), np.array([-5.0, 12.0, 25.0]))
    np.testing.assert_array_equal(at, [[False] * 5, [False, False, True, True, False], [False] * 5])


S = 64
HOUSE = np.zeros((S, S), dtype=bool)
HOUSE[20:44, 20:44] = True


def house(seed: int, roof: float = 120.0) -> np.ndarray:
    """A chip of a house on town ground, uint8 [3, S, S], at 0.5 m."""
    picture = town(256, seed, white_roofs=0)[100 : 100 + S, 100 : 100 + S].copy()
    cv2.rectangle(picture, (20, 20), (43, 43), [roof] * 3, -1)
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


def covered(chip: np.ndarray, thick: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.ascontiguousarray(under_clouds(chip.transpose(1, 2, 0), thick, seed=seed).transpose(2, 0, 1))


def share_under_veil(chip: np.ndarray, other: np.ndarray | None) -> float:
    return float(veil(chip, other, HOUSE, 0.5, 0.5, Usual())[HOUSE].mean())


@pytest.mark.parametrize("seed", range(2))
def test_a_cloud_over_all_of_a_chip_hides_its_house_however_transparent(seed: int) -> None:
    for thick in (0.6, 0.8, 1.0):
        chip = covered(house(seed), np.full((S, S), thick))
        for other in (None, house(seed), covered(house(seed), np.full((S, S), 0.9))):
            assert share_under_veil(chip, other) == 1


@pytest.mark.parametrize("seed", range(2))
def test_a_cloud_little_larger_than_a_house_hides_it(seed: int) -> None:
    chip = covered(house(seed), disc(S, (33, 30), 28, 18))  # 28 m across, of which 9 m at each side fade
    assert share_under_veil(chip, house(seed)) > 0.8
    assert share_under_veil(chip, np.zeros_like(chip)) == share_under_veil(chip, None) > 0.8  # the other date is not there


def test_what_hides_nothing_has_no_veil() -> None:
    chip = house(1, 240.0)
    for before in (None, house(1), chip):
        assert share_under_veil(chip, before) == 0
    chip = covered(house(0), np.full((S, S), 0.3))
    assert share_under_veil(chip, house(0)) == share_under_veil(chip, None) == 0
    chips = np.stack([house(0) // 2, covered(house(0), np.full((S, S), 0.9)), covered(house(0), disc(S, (33, 30), 28, 18))])
    assert may_be_veiled(chips, np.full(3, clouds.LEAST_DARK)).tolist() == [False, True, True]


def test_in_a_hazy_scene_more_is_asked_of_a_veil() -> None:
    haze = np.stack([covered(house(seed), np.full((S, S), 0.35)) for seed in range(4)])
    clear = np.stack([house(seed) for seed in range(4)])
    dark = darkness(clear)
    assert least_veil(dark) == pytest.approx(max(clouds.LEAST_DARK, np.percentile(dark, 10) + clouds.DARK_RISE))
    assert least_veil(darkness(haze)) > least_veil(dark)
    assert least_veil(np.full(5, 250, np.float32)) == clouds.MOST_DARK  # all under cloud: that must be found all the same
    assert least_veil(np.zeros(3, np.float32)) == clouds.LEAST_DARK  # no data
    assert usual_rise(haze, clear) > 20
    assert usual_rise(clear, haze) == 0
