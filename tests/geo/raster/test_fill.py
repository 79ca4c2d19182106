"""Large parts in one constant color hold no data, whatever window is read, and nothing that only looks alike does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
from geo_parts import ORIGIN, joined, pattern
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


def wedged(seed: int = 0, color: float = 0, dtype: str = "uint8") -> NDArray[np.generic]:
    """A picture in one color in the slanted region."""
    data = pattern(SIDE, SIDE, seed).astype(dtype)
    data[:, slanted()] = color
    return data


def valid_of(scene: Scene, **options: object) -> NDArray[np.bool_]:
    with Mosaic([scene], grid := project_grid([scene]), **options) as mosaic:  # type: ignore[arg-type]
        return mosaic.read(0, 0, grid.width, grid.height)[1]


@pytest.mark.parametrize(
    ("dtype", "color"),
    [("uint8", 0), ("uint8", 255), ("uint8", 128), ("uint16", 65535), ("int16", -32768), ("float32", -9999.0)],
)
def test_a_region_in_one_color_holds_no_data_and_all_else_does(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch, dtype: str, color: float
) -> None:
    np.testing.assert_array_equal(valid_of(make_scene("a", wedged(0, color, dtype))), ~slanted())
    monkeypatch.setattr("pu_geo.geo.raster.fill.READ_BYTES", 20_000)  # in strips of an odd height
    np.testing.assert_array_equal(valid_of(make_scene("b", wedged(0, color, dtype), blockysize=7)), ~slanted())


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
    first = make_scene("first", pattern(16, 16))
    data = pattern(SIDE, SIDE, 1)
    data[:, :120] = 0
    transform = Affine(0.7, 0, ORIGIN[0] + 0.2, 0, -0.7, ORIGIN[1]) @ Affine.rotation(20.0)
    second = make_scene("second", data, transform)
    grid = project_grid([first, second])
    with Mosaic([second], grid) as mosaic:
        valid = mosaic.read(0, 0, grid.width, grid.height)[1]
    col, row = np.meshgrid(np.arange(grid.width) + 0.5, np.arange(grid.height) + 0.5)
    a, _, c, _, e, f = grid.transform
    x, y = ~transform @ np.stack([(c + a * col).ravel(), (f + e * row).ravel()])
    x, y = x.reshape(col.shape), y.reshape(row.shape)
    inside = (x > 3) & (x < SIDE - 3) & (y > 3) & (y < SIDE - 3)
    assert not valid[inside & (y < 118)].any()
    assert valid[inside & (y > 122)].all()


def test_fill_of_the_first_scene_covers_nothing_of_the_second(make_scene: Make) -> None:
    first, second = wedged(), pattern(SIDE, SIDE, 1)
    scenes = [make_scene("first", first), make_scene("second", second)]
    with joined(*scenes) as mosaic:
        picture, valid = mosaic.read(0, 0, SIDE, SIDE)
        shown = mosaic.read_into(np.empty((SIDE, SIDE, 3), dtype=np.uint8), 0, 0)
    assert valid.all()
    np.testing.assert_array_equal(picture, np.where(slanted(), second, first))
    np.testing.assert_array_equal(shown, np.where(slanted(), 2, 1))


def test_a_scene_is_searched_once_and_what_was_found_is_kept(
    make_scene: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled, clear = make_scene("filled", wedged()), make_scene("clear", pattern(SIDE, SIDE))
    before = [valid_of(scene, fills=tmp_path / "fill") for scene in (filled, clear)]
    monkeypatch.setattr("pu_geo.geo.raster.fill.find_fill", lambda *_: pytest.fail("searched again"))
    for scene, valid in zip((filled, clear), before, strict=True):
        np.testing.assert_array_equal(valid_of(scene, fills=tmp_path / "fill"), valid)
    assert len(list((tmp_path / "fill").iterdir())) == 2


def test_the_stretch_leaves_out_fill() -> None:
    data = np.random.default_rng(0).integers(200, 900, (3, 100, 100)).astype(np.uint16)
    valid = np.ones((100, 100), dtype=bool)
    plain = samples.find_stretch(data, valid)
    data[:, :30], data[:, 90:] = 0, 65535
    np.testing.assert_allclose(samples.find_stretch(data, valid), plain, rtol=0.02)


def test_real_scenes_have_no_fill_but_their_black_wedges(shared: Path) -> None:
    from pu_geo.geo.raster.fill import find_fill

    found = {}
    folders = [shared / "data" / "joplin_xbd", shared / "data" / "xbd_events" / "harvey_flood"]
    for path in sorted(path for folder in folders for path in folder.glob("*/p*.tif")):
        with rasterio.open(path) as source:
            values = source.read([1, 2, 3])
            is_fill = find_fill(source, (1, 2, 3)).covers(values, 0, 0)
        is_black = (values == 0).all(axis=0)
        assert is_black[is_fill].all(), path
        assert (is_black & ~is_fill).sum() < 300, path
        found[path.parent.name] = int(is_fill.sum())
    assert found["joplin-tornado_00000000"] == found["hurricane-harvey_00000137"] == 0
    assert found["hurricane-harvey_00000235"] > 200_000
