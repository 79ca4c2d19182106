"""Describing scenes, and the grid that joins them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from geo_parts import ORIGIN, pattern
from pyproj import Geod
from rasterio.enums import ColorInterp
from rasterio.transform import Affine

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import check_overlap, project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.records import BandTriple, Scene

Make = Callable[..., Scene]


def test_describe_tells_place_size_and_hash(write_tif: Callable[..., Path]) -> None:
    path = write_tif("a", pattern(40, 48))
    scene = describe(path, "pre", "pre-1", "2011-05-29")
    assert (scene.crs, scene.width, scene.height, scene.bands, scene.dtype) == ("EPSG:32633", 48, 40, 3, "uint8")
    assert scene.transform == (0.5, 0.0, *ORIGIN[:1], 0.0, -0.5, ORIGIN[1])
    assert scene.gsd_m == pytest.approx(0.5)
    assert scene.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (scene.role, scene.date, scene.stretch, scene.path) == ("pre", "2011-05-29", None, str(path))


def test_pixel_size_is_measured_on_the_ground_in_web_mercator(make_scene: Make) -> None:
    # At 60 degrees north one Web Mercator metre is cos(60) = 0.5 m on the sphere, 0.5016 m on the ellipsoid along x.
    x, y = 1_000_000.0, 8_399_737.89
    scene = make_scene("m", pattern(32, 32), Affine(1, 0, x, 0, -1, y), "EPSG:3857")
    assert scene.gsd_m == pytest.approx(0.501, abs=0.002)


def test_pixel_size_is_measured_on_the_ground_in_degrees(make_scene: Make) -> None:
    step = 1e-5
    scene = make_scene("d", pattern(32, 32), Affine(step, 0, 15.0, 0, -step, 41.5), "EPSG:4326")
    geod = Geod(ellps="WGS84")
    along_x = geod.inv(15.0, 41.49984, 15.0 + step, 41.49984)[2]
    along_y = geod.inv(15.0, 41.49984, 15.0, 41.49984 + step)[2]
    assert scene.gsd_m == pytest.approx((along_x * along_y) ** 0.5, rel=1e-4)


def test_stretch_of_16_bit_ignores_nodata_and_outliers(make_scene: Make) -> None:
    data = np.tile(np.arange(1000, 1100, dtype=np.uint16).repeat(10), (3, 40, 1))
    data[:, :, 0], data[:, 0, 5] = 0, 65535
    scene = make_scene("u", data, nodata=0)
    assert scene.stretch is not None
    for low, high in scene.stretch:
        assert 1000 <= low <= 1004
        assert 1095 <= high <= 1099


def test_stretch_of_a_constant_band_is_not_empty(make_scene: Make) -> None:
    scene = make_scene("c", np.full((3, 20, 20), 7, dtype=np.float32))
    assert all(high > low for low, high in scene.stretch or ())


def test_a_scene_with_one_valid_corner_is_not_called_empty(make_scene: Make) -> None:
    data = np.zeros((3, 2100, 2100), dtype=np.uint8)
    data[:, 1, 1] = 9  # the decimated look takes every second pixel and misses it
    assert make_scene("corner", data, nodata=0, compress="deflate").width == 2100


@pytest.mark.parametrize(
    ("data", "options", "kind"),
    [
        (np.zeros((3, 32, 32), np.uint8), {"nodata": 0}, "empty"),
        (pattern(32, 32, bands=2), {}, "bands"),
        (pattern(8, 32), {}, "small"),
        (pattern(32, 32).astype(np.complex64), {}, "dtype"),
        (pattern(32, 32), {"crs": None}, "crs"),
        (pattern(32, 32), {"transform": Affine(500, 0, ORIGIN[0], 0, -500, ORIGIN[1])}, "geotransform"),
        (pattern(32, 32), {"transform": Affine(0.5, 0, 5e9, 0, -0.5, 1e9)}, "bounds"),
        (pattern(32, 32), {"transform": Affine(1e-5, 0, 41.0, 0, -1e-5, 139.0), "crs": "EPSG:4326"}, "bounds"),
        (np.ones((3, 5000, 5000), np.uint8), {"sparse_ok": True, "compress": "zstd", "tiled": True}, "size"),
    ],
)
def test_unusable_scenes_are_refused_with_their_kind(
    make_scene: Make, data: np.ndarray, options: dict[str, object], kind: str
) -> None:
    with pytest.raises(ImageryError) as refused:
        make_scene("bad", data, **options)
    assert refused.value.kind == kind
    assert refused.value.hint


@pytest.mark.parametrize(
    ("names", "colors", "wanted", "expected"),
    [
        ((), "rgb", None, (1, 2, 3)),
        ((), "bgr", None, (3, 2, 1)),
        ((), "bgr", (1, 1, 2), (1, 1, 2)),
        ((), "????", None, (1, 2, 3)),
        (("NIR", "Red ", "green", "blue"), "????", None, (2, 3, 4)),
        (("blue", "green", "nir", "red"), "????", None, (4, 2, 1)),
        ((), "g", None, (1, 1, 1)),
        ((), "ga", None, (1, 1, 1)),
        ((), "argb", None, (2, 3, 4)),
        ((), "rgb?????", (8, 4, 3), (8, 4, 3)),
    ],
)
def test_bands_are_those_that_a_person_or_the_file_calls_red_green_blue(
    write_tif: Callable[..., Path], names: tuple[str, ...], colors: str, wanted: BandTriple | None, expected: BandTriple
) -> None:
    data = np.stack([np.full((20, 20), 10 * (i + 1), np.uint8) for i in range(len(colors))])
    path = write_tif("b", data, photometric="MINISBLACK", **({"alpha": "NO"} if len(colors) == 4 else {}))
    kinds = {"r": "red", "g": "green" if len(colors) > 2 else "gray", "b": "blue", "a": "alpha", "?": "undefined"}
    with rasterio.open(path, "r+") as file:
        file.colorinterp = [ColorInterp[kinds[color]] for color in colors]
        if names:
            file.descriptions = names
    scene = describe(path, "post", "s", bands=wanted)
    assert scene.rgb == expected
    with Mosaic([scene], project_grid([scene])) as mosaic:
        pixels, valid = mosaic.read(0, 0, 20, 20)
    assert valid.all()
    assert pixels[:, 9, 9].tolist() == [10 * band for band in expected]


@pytest.mark.parametrize("wanted", [(0, 1, 2), (1, 2, 5), (1, 2, 4), (1, 2)])
def test_bands_that_are_not_there_or_transparency_are_refused(write_tif: Callable[..., Path], wanted: BandTriple) -> None:
    path = write_tif("rgba", pattern(20, 20, bands=4))
    with pytest.raises(ImageryError, match=r"^Bands .* it has bands 1, 2, 3") as refused:
        describe(path, "post", "s", bands=wanted)
    assert refused.value.kind == "bands"


def test_grid_of_adjoining_scenes_covers_both(make_scene: Make) -> None:
    left = make_scene("left", pattern(40, 48))
    right = make_scene("right", pattern(40, 32), Affine(0.5, 0, ORIGIN[0] + 24, 0, -0.5, ORIGIN[1] + 5))
    grid = project_grid([left, right])
    assert (grid.width, grid.height) == (80, 50)
    assert grid.transform == (0.5, 0.0, ORIGIN[0], 0.0, -0.5, ORIGIN[1] + 5)
    assert (grid.crs, grid.x_unit_m, grid.y_unit_m) == ("EPSG:32633", 1.0, 1.0)


def test_grid_does_not_grow_for_a_hundredth_of_a_pixel(make_scene: Make) -> None:
    left = make_scene("left", pattern(40, 48))
    right = make_scene("right", pattern(40, 32), Affine(0.5, 0, ORIGIN[0] + 24.005, 0, -0.5, ORIGIN[1] + 0.005))
    assert (project_grid([left, right]).width, project_grid([left, right]).height) == (80, 40)


def test_grid_of_a_south_up_scene_is_north_up(make_scene: Make) -> None:
    scene = make_scene("s", pattern(40, 48), Affine(0.5, 0, ORIGIN[0], 0, 0.5, ORIGIN[1]))
    grid = project_grid([scene])
    assert grid.transform == (0.5, 0.0, ORIGIN[0], 0.0, -0.5, ORIGIN[1] + 20)
    assert (grid.width, grid.height) == (48, 40)


def test_grid_of_a_rotated_scene_covers_its_corners(make_scene: Make) -> None:
    turned = Affine.translation(*ORIGIN) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5)
    grid = project_grid([make_scene("r", pattern(40, 40), turned)])
    # A 20 m square turned by 30 degrees is 20 (cos 30 + sin 30) = 27.3 m wide: 54.6 pixels, so 55.
    assert (grid.width, grid.height) == (55, 55)
    assert grid.gsd_m == pytest.approx(0.5)


def test_grid_in_degrees_knows_its_metres(make_scene: Make) -> None:
    grid = project_grid([make_scene("d", pattern(32, 32), Affine(1e-5, 0, 15.0, 0, -1e-5, 41.5), "EPSG:4326")])
    assert grid.y_unit_m == pytest.approx(111_070, rel=1e-3)
    assert grid.x_unit_m == pytest.approx(111_320 * np.cos(np.deg2rad(41.5)), rel=3e-3)


def test_scenes_on_two_continents_are_refused(make_scene: Make) -> None:
    near = make_scene("near", pattern(32, 32))
    far = replace(near, transform=(0.5, 0.0, ORIGIN[0] + 60_000, 0.0, -0.5, ORIGIN[1] - 60_000))
    with pytest.raises(ImageryError, match="far apart") as refused:
        project_grid([near, far])
    assert refused.value.kind == "size"


def test_overlap_share_is_a_quarter_for_a_quarter(make_scene: Make) -> None:
    post = make_scene("post", pattern(40, 40))
    pre = make_scene("pre", pattern(40, 40), Affine(0.5, 0, ORIGIN[0] + 10, 0, -0.5, ORIGIN[1] - 10), role="pre")
    assert check_overlap([pre], [post], project_grid([post])) == pytest.approx(0.25)


def test_two_complete_pairs_far_from_each_other_are_covered_in_full(make_scene: Make) -> None:
    """ "Pre scenes cover only 0 %" was printed of two complete scenes 16 km apart: the grid between them counted."""
    away = Affine(0.5, 0, ORIGIN[0] + 16_000, 0, -0.5, ORIGIN[1])
    post = [make_scene("post", pattern(40, 40)), make_scene("far", pattern(40, 40), away)]
    pre = [make_scene("pre", pattern(40, 40), role="pre"), make_scene("farpre", pattern(40, 40), away, role="pre")]
    assert check_overlap(pre, post, project_grid(post)) == pytest.approx(1.0)


def test_no_overlap_is_refused_with_the_distance(make_scene: Make) -> None:
    post = make_scene("post", pattern(40, 40))
    pre = make_scene("pre", pattern(40, 40), Affine(0.5, 0, ORIGIN[0] + 10_020, 0, -0.5, ORIGIN[1]), role="pre")
    with pytest.raises(ImageryError, match=r"10\.0 km apart") as refused:
        check_overlap([pre], [post], project_grid([post]))
    assert refused.value.kind == "overlap"


@pytest.mark.parametrize(
    ("tag", "expected"), [("2031:05:29 17:00:00", "2031-05-29"), ("0000:00:00 00:00:00", None), ("last summer", None)]
)
def test_date_comes_from_the_files_own_tag_if_it_is_one(tmp_path: Path, tag: str, expected: str | None) -> None:
    path = tmp_path / "dated.tif"
    picture = np.random.default_rng(0).integers(1, 255, (3, 64, 64)).astype(np.uint8)
    transform = Affine(0.5, 0.0, 500_000.0, 0.0, -0.5, 4_000_000.0)
    with rasterio.open(
        path, "w", driver="GTiff", width=64, height=64, count=3, dtype="uint8", crs="EPSG:32615", transform=transform
    ) as target:
        target.write(picture)
        target.update_tags(TIFFTAG_DATETIME=tag)
    assert describe(path, "post", "post-1").date == expected
    assert describe(path, "post", "post-1", "2020-01-02").date == "2020-01-02"
