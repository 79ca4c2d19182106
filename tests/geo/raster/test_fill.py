"""Large parts in one constant color hold no data, whatever window is read, and nothing that only looks alike does."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
import rasterio
from geo_parts import NORTH_UP, joined, pattern
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.geo.raster import samples
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.records import Scene

Make = Callable[..., Scene]
SIDE = 240


def slanted() -> NDArray[np.bool_]:
    """A region with a slanted border that meets no cell's corners, as the wedges of satellite scenes are."""
    region = np.zeros((SIDE, SIDE), dtype=np.uint8)
    cv2.fillPoly(region, [np.array([[70, 0], [239, 0], [239, 239], [113, 239]])], 1)
    return region > 0


def wedged(color: float = 0, dtype: str = "uint8") -> NDArray[np.generic]:
    """A picture in one color in the slanted region."""
    data = pattern(SIDE, SIDE).astype(dtype)
    data[:, slanted()] = color
    return data


def valid_of(scene: Scene) -> NDArray[np.bool_]:
    with Mosaic([scene], grid := project_grid([scene])) as mosaic:
        return mosaic.read(0, 0, grid.width, grid.height)[1]


@pytest.mark.parametrize(
    ("dtype", "color"),
    [("uint8", 0), ("uint8", 255), ("uint8", 128), ("uint16", 65535), ("int16", -32768), ("float32", -9999.0)],
)
def test_a_region_in_one_color_holds_no_data_and_all_else_does(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch, dtype: str, color: float
) -> None:
    np.testing.assert_array_equal(valid_of(make_scene("a", wedged(color, dtype))), ~slanted())
    monkeypatch.setattr("pu_geo.geo.raster.fill.READ_BYTES", 20_000)  # in strips of an odd height
    np.testing.assert_array_equal(valid_of(make_scene("b", wedged(color, dtype), blockysize=7)), ~slanted())


def test_what_is_fill_does_not_depend_on_the_window(make_scene: Make) -> None:
    data = wedged()
    data[:, 5:9, 5:40] = 0  # a shadow: black, but small
    data[:, 100:140, 20:60] = 255  # a roof: constant, but small
    whole = valid_of(scene := make_scene("a", data))
    np.testing.assert_array_equal(whole, ~slanted())
    with joined(scene) as mosaic:
        for col in range(0, SIDE, 37):
            for row in range(0, SIDE, 23):
                part = mosaic.read(col, row, 37, 23)[1]
                inside = whole[row : row + 23, col : col + 37]
                np.testing.assert_array_equal(part[: inside.shape[0], : inside.shape[1]], inside)


def test_fill_that_was_compressed_is_found(make_scene: Make) -> None:
    data = cv2.GaussianBlur(pattern(SIDE, SIDE).transpose(1, 2, 0), (0, 0), 2).transpose(2, 0, 1).copy()
    data[:, slanted()] = 255
    scene = make_scene(
        "a", data, compress="jpeg", jpeg_quality=75, photometric="YCBCR", tiled=True, blockxsize=64, blockysize=64
    )
    with rasterio.open(scene.path) as source:
        assert (source.read() != data)[:, slanted()].mean() > 0  # else this shows nothing
    valid = valid_of(scene)
    away = cv2.distanceTransform(slanted().astype(np.uint8), cv2.DIST_L2, 5)
    assert valid[away > 16].mean() < 0.001
    assert valid[~slanted()].mean() > 0.98


def test_fill_of_a_warped_scene_is_found(make_scene: Make) -> None:
    data = pattern(SIDE, SIDE, 1)
    data[:, :120] = 0
    moved = make_scene("moved", data, NORTH_UP @ Affine.translation(0.3, 0.4))
    with Mosaic([moved], project_grid([make_scene("post", pattern(SIDE, SIDE))])) as mosaic:
        valid = mosaic.read(0, 0, SIDE, SIDE)[1]
    assert not valid[:118].any()
    assert valid[122:, 2:-2].all()


def test_fill_of_the_first_scene_covers_nothing_of_the_second(make_scene: Make) -> None:
    first, second = wedged(), pattern(SIDE, SIDE, 1)
    scenes = [make_scene("first", first), make_scene("second", second)]
    with joined(*scenes) as mosaic:
        picture, valid = mosaic.read(0, 0, SIDE, SIDE)
        shown = mosaic.read_into(np.empty((SIDE, SIDE, 3), dtype=np.uint8), 0, 0)
    assert valid.all()
    np.testing.assert_array_equal(picture, np.where(slanted(), second, first))
    np.testing.assert_array_equal(shown, np.where(slanted(), 2, 1))


def test_the_stretch_leaves_out_fill() -> None:
    data = np.random.default_rng(0).integers(200, 900, (3, 100, 100)).astype(np.uint16)
    valid = np.ones((100, 100), dtype=bool)
    plain = samples.find_stretch(data, valid)
    data[:, :30], data[:, 90:] = 0, 65535
    np.testing.assert_allclose(samples.find_stretch(data, valid), plain, rtol=0.02)
