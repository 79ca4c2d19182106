"""Reading scenes by window of the project grid, and the map tiles made of them."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
import shapely
from geo_parts import NORTH_UP, ORIGIN, joined, pattern
from numpy.typing import NDArray
from rasterio.transform import Affine
from rasterio.warp import Resampling, reproject

from pu_geo.errors import ImageryError, JobCancelled
from pu_geo.geo import ground
from pu_geo.geo.ground import read_level
from pu_geo.geo.raster import mosaic as mosaics
from pu_geo.geo.raster import quicklooks
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import check_overlap, project_grid, shares_outside
from pu_geo.geo.raster.quicklooks import NO_DATA_GREY, build_pyramid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.scene_state import ends_sha256
from pu_geo.records import Scene

Make = Callable[..., Scene]


def read_all(scenes: list[Scene], grid_of: list[Scene] | None = None) -> tuple[np.ndarray, np.ndarray]:
    grid = project_grid(grid_of or scenes)
    with Mosaic(scenes, grid) as mosaic:
        return mosaic.read(0, 0, grid.width, grid.height)


def test_a_window_over_the_border_is_zero_and_not_valid_there(make_scene: Make) -> None:
    data = pattern(40, 48)
    with joined(make_scene("a", data)) as mosaic:
        picture, valid = mosaic.read(-3, 35, 10, 8)
        np.testing.assert_array_equal(picture[:, :5, 3:], data[:, 35:, :7])
        assert picture[:, 5:].max() == picture[:, :, :3].max() == 0
        assert valid.sum() == 5 * 7
        assert not mosaic.read(100, 100, 4, 4)[1].any()


@pytest.mark.parametrize("options", [{}, {"nodata": 0}, {"mask": np.tri(40, 100, 20, dtype=np.uint8) * 255}])
def test_reading_into_an_array_gives_the_same_with_bands_last(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    monkeypatch.setattr("pu_geo.geo.raster.mosaic.PIECE_COLUMNS", 16)
    data = pattern(40, 100)
    data[:, 10:20, 30:60] = 0
    with joined(make_scene("a", data, tiled=True, blockxsize=16, blockysize=16, **options)) as mosaic:
        for col, row, width, height in ((0, 0, 100, 40), (7, 3, 60, 30), (-5, 30, 120, 20)):
            picture, valid = mosaic.read(col, row, width, height)
            into = np.full((height + 2, width + 3, 3), 7, dtype=np.uint8)
            shown = mosaic.read_into(into[1:-1, 2:-1], col, row)
            np.testing.assert_array_equal(into[1:-1, 2:-1].transpose(2, 0, 1), picture)
            np.testing.assert_array_equal(shown, valid)
            assert (into[[0, -1]] == 7).all()
            assert (into[:, [0, 1, -1]] == 7).all()


def test_the_second_scene_fills_only_the_holes_of_the_first_and_its_own_hide_nothing(make_scene: Make) -> None:
    first, second = pattern(40, 40, 1), pattern(40, 40, 2)
    first[:, 10:20], second[:, 15:30] = 0, 0
    picture, valid = read_all([make_scene("a", first, nodata=0), make_scene("b", second, nodata=0)])
    np.testing.assert_array_equal(picture, np.where(first > 0, first, second))
    assert np.flatnonzero(~valid.any(axis=1)).tolist() == [15, 16, 17, 18, 19]
    assert valid[20:].all()


def test_alpha_and_internal_masks_are_respected_and_masks_in_files_beside_are_not(make_scene: Make) -> None:
    shown = np.full((64, 64), 255, dtype=np.uint8)
    shown[:, :16] = 0
    data = pattern(64, 64)
    jpeg = {"compress": "jpeg", "photometric": "YCBCR", "jpeg_quality": 95}
    rgba = np.concatenate([data, shown[None]])
    scenes = [make_scene("rgba", rgba), make_scene("masked", data, mask=shown), make_scene("jpeg", data, mask=shown, **jpeg)]
    for scene in scenes:
        picture, valid = read_all([scene])
        np.testing.assert_array_equal(valid, shown > 0)
        assert picture[:, :, :16].max() == 0
        assert abs(picture[:, :, 20:].astype(int) - data[:, :, 20:]).mean() < (5 if scene.scene_id == "jpeg" else 1e-9)
    plain = make_scene("plain", data)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="NO"), rasterio.open(plain.path, "r+") as file:
        file.write_mask(np.zeros((64, 64), np.uint8))
    assert read_all([plain])[1].all()
    rgba[:3, :10] = 0  # with both nodata and alpha, as it is and warped
    for name, transform in (("both", NORTH_UP), ("warped", NORTH_UP @ Affine.translation(0.3, 0.4))):
        valid = read_all([make_scene(name, rgba, transform, nodata=0, role="pre")], [plain])[1]
        assert valid[15:60, 22:60].all()
        assert not valid[15, :14].any()
        assert not valid[:8, 30].any()


def test_no_number_and_no_data_of_all_bands_are_masked_and_huge_numbers_are_data(make_scene: Make) -> None:
    numbers = pattern(20, 20).astype(np.float64)
    numbers[1, 2, 3], numbers[0, 4, 5], numbers[:, 0, 0] = np.nan, np.inf, 1e300
    picture, valid = read_all([make_scene("f", numbers)])
    assert np.argwhere(~valid).tolist() == [[2, 3], [4, 5]]
    assert (picture[:, ~valid].max(), picture[0, 0, 0]) == (0, 255)
    data = pattern(20, 20)
    data[0, 3, 3] = data[:, 5, 5] = 0
    south_up = Affine(0.5, 0, ORIGIN[0], 0, 0.5, ORIGIN[1])
    picture, valid = read_all([make_scene("n", data, south_up, nodata=0)])
    assert np.argwhere(~valid).tolist() == [[14, 5]]  # turned over
    np.testing.assert_array_equal(picture, data[:, ::-1])


def test_16_bit_samples_are_stretched_linearly(make_scene: Make) -> None:
    data = np.tile(np.linspace(1000, 2000, 101).astype(np.uint16), (3, 20, 1))
    scene = make_scene("u", data)
    picture, _ = read_all([scene])
    low, high = scene.stretch[0]  # type: ignore[index]
    assert (low, high) == (1020, 1980)
    # By hand: (1500 - 1020) / (1980 - 1020) * 255 = 127.5, rounded to even 128.
    assert picture[0, 0, [0, 50, 100]].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    ("transform", "crs"),
    [
        (Affine.translation(ORIGIN[0] + 3, ORIGIN[1] - 4) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5), "EPSG:32633"),
        (Affine(0.7, 0, ORIGIN[0] + 1.3, 0, -0.7, ORIGIN[1] - 2.2), "EPSG:32633"),
        (Affine(0.5, 0, ORIGIN[0] + 0.2, 0, -0.5, ORIGIN[1] + 0.1), "EPSG:32633"),
        (Affine(0.66, 0, 1_669_795.0, 0, -0.66, 5_094_052.0), "EPSG:3857"),
    ],
    ids=["rotated", "other pixel size", "shifted by a part of a pixel", "other CRS"],
)
def test_an_unaligned_scene_lands_where_gdal_puts_it(make_scene: Make, transform: Affine, crs: str) -> None:
    post = make_scene("post", pattern(64, 64))
    data = pattern(48, 48, 3)
    pre = make_scene("pre", data, transform, crs, role="pre")
    picture, valid = read_all([pre], [post])
    expected, mask = np.zeros((3, 64, 64), np.uint8), np.zeros((64, 64), np.uint8)
    way = {"src_transform": transform, "src_crs": crs, "dst_transform": NORTH_UP, "dst_crs": "EPSG:32633"}
    reproject(data, expected, **way, resampling=Resampling.bilinear)
    reproject(np.full((48, 48), 255, np.uint8), mask, **way, resampling=Resampling.nearest)
    inner = (mask > 0) & valid
    assert inner.sum() > 300
    assert abs(int((mask > 0).sum()) - int(valid.sum())) < 0.1 * valid.sum()
    assert np.abs(picture[:, inner].astype(int) - expected[:, inner]).max() <= 6
    assert picture[:, ~valid].max(initial=0) == 0


COARSE = Affine(0.6, 0, ORIGIN[0], 0, -0.6, ORIGIN[1])


@pytest.mark.parametrize("marked", ["tag", "mask", "nan"])
def test_nodata_does_not_bleed_into_a_warped_scene(make_scene: Make, marked: str) -> None:
    data = np.full((3, 48, 48), 200, dtype=np.float32 if marked == "nan" else np.uint8)
    data[:, :24] = np.nan if marked == "nan" else 0
    shown = np.repeat([0, 255], 24).astype(np.uint8)[:, None] * np.ones((1, 48), np.uint8)
    options = {"tag": {"nodata": 0}, "mask": {"mask": shown}, "nan": {}}[marked]
    post = make_scene("post", pattern(64, 64))
    picture, valid = read_all([make_scene("pre", data, COARSE, role="pre", **options)], [post])
    assert not valid[:27].any()
    assert valid[31:55, 2:55].all()
    if marked == "nan":  # which is no uint8, so it is stretched
        return
    assert picture[:, valid].min() >= 199
    data[:, :24], data[0] = 200, 0  # one band at nodata is kept
    picture, valid = read_all([make_scene("blue", data, COARSE, role="pre", nodata=0)], [post])
    assert valid[2:55, 2:55].all()
    assert (picture[0, 2:55, 2:55].max(), picture[1, 2:55, 2:55].min()) == (0, 200)


def test_another_picture_of_the_same_size_under_the_same_path_is_refused(write_tif: Callable[..., Path]) -> None:
    path = write_tif("a", pattern(300, 300))
    scene, before = describe(path, "post", "a"), path.stat()
    os.utime(path, ns=(1, 1))
    read_all([scene])  # it was only copied anew
    other = pattern(300, 300)
    other[1, 140:160, 140:160] = 7  # in the middle of the file: its first and last 64 kB are the same
    write_tif("a", other)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns + 10**9))
    with pytest.raises(ImageryError, match="has changed") as refused:
        joined(scene).__enter__()
    assert refused.value.kind == "changed"


def test_a_block_broken_later_is_told_as_corrupt(write_tif: Callable[..., Path]) -> None:
    path = write_tif("a", pattern(64, 64), compress="deflate", tiled=True, blockxsize=16, blockysize=16)
    scene = describe(path, "post", "a")
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : 2 * len(content) // 3] = bytes(2 * len(content) // 3 - len(content) // 3)
    path.write_bytes(content)
    scene = replace(
        scene, mtime_ns=path.stat().st_mtime_ns, ends_sha256=ends_sha256(path)
    )  # as if it had been broken when it was added
    with joined(scene) as mosaic, pytest.raises(ImageryError) as refused:
        mosaic.read(0, 0, 64, 64)
    assert refused.value.kind == "corrupt"


@pytest.mark.parametrize("gsd_m", [0.5, 0.7], ids=["as it is", "warped"])
def test_scenes_outside_of_what_is_read_are_not_opened_and_keep_their_numbers(
    make_scene: Make, gsd_m: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(mosaics, "allow_files", asked.append)
    places = [Affine(gsd_m, 0, ORIGIN[0] + 100 * k, 0, -gsd_m, ORIGIN[1]) for k in range(3)]
    scenes = [make_scene(f"s{k}", pattern(40, 40), place) for k, place in enumerate(places)]
    grid = project_grid([replace(scenes[0], transform=tuple(NORTH_UP)[:6], width=600, height=60)])
    box = (410, 5, 420, 20)
    with Mosaic(scenes, grid) as every, Mosaic(scenes, grid, within=box) as near:
        assert len(near._layers) == 1
        assert asked == [3, 1]  # of open files the system has few
        found, wanted = (np.zeros((15, 10, 3), np.uint8) for _ in range(2))
        shown = near.read_into(found, *box[:2])
        np.testing.assert_array_equal(shown, every.read_into(wanted, *box[:2]))
    np.testing.assert_array_equal(found, wanted)
    assert (shown == 3).all()
    assert found.any()


# Map tiles


def test_the_finest_tiles_are_the_scene_and_coarser_ones_its_averages(
    make_scene: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quicklooks, "TILE_PX", 32)
    monkeypatch.setattr(quicklooks, "QUALITY", 98)
    monkeypatch.setattr(ground, "TILE_PX", 32)
    data = np.repeat(pattern(150, 203, bands=1), 3, axis=0)  # grey, because JPEG halves the resolution of colour
    scene = make_scene("post", data)
    folder = tmp_path / "tiles"
    with joined(scene) as mosaic:
        info = build_pyramid(mosaic, folder)
    assert info == json.loads((folder / "pyramid.json").read_text())
    size = {"tile_px": 32, "max_zoom": 3, "width": 203, "height": 150}
    assert info == {**size, "resolutions": [8, 4, 2, 1], "n_tiles": 35 + 12 + 4 + 1}
    picture = data.transpose(1, 2, 0)
    padded = np.full((256, 256, 3), NO_DATA_GREY, np.uint8)
    padded[:150, :203] = picture
    for zoom in range(4):
        shrink = 2 ** (3 - zoom)
        height, width = -(-150 // shrink), -(-203 // shrink)
        level = padded.reshape(256 // shrink, shrink, 256 // shrink, shrink, 3).mean(axis=(1, 3))[:height, :width]
        found, holds = read_level(folder / str(zoom), 0, 0, width, height)
        assert holds.all()
        assert np.abs(found - level).mean() < 3, zoom
    assert not (folder / "3" / "7").exists()


def test_a_small_scene_is_one_tile_and_cancelling_leaves_no_description(make_scene: Make, tmp_path: Path) -> None:
    with joined(make_scene("post", pattern(20, 30))) as mosaic:
        info = build_pyramid(mosaic, tmp_path / "t")
        with pytest.raises(JobCancelled):
            build_pyramid(mosaic, tmp_path / "cancelled", is_cancelled=lambda: True)
    assert (info["max_zoom"], info["resolutions"], info["n_tiles"]) == (0, [1], 1)
    tile = cv2.imread(str(tmp_path / "t" / "0" / "0" / "0.jpg"))
    assert tile.shape == (256, 256, 3)
    assert abs(int(tile[200, 200, 0]) - NO_DATA_GREY) < 3
    assert not (tmp_path / "cancelled" / "pyramid.json").exists()


def test_tiles_without_data_are_not_written(make_scene: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quicklooks, "TILE_PX", 32)
    near = make_scene("near", pattern(32, 32))
    far = make_scene("far", pattern(32, 32), Affine(0.5, 0, ORIGIN[0] + 48, 0, -0.5, ORIGIN[1] - 48))
    with joined(near, far) as mosaic:
        info = build_pyramid(mosaic, tmp_path / "t")
    assert info["max_zoom"] == 2
    finest = sorted(str(p.relative_to(tmp_path / "t" / "2")) for p in (tmp_path / "t" / "2").rglob("*.jpg"))
    assert finest == ["0/0.jpg", "3/3.jpg"]
    assert info["n_tiles"] == 2 + 2 + 1


# Where scenes lie


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
