"""Mosaics of layers: any number of bands, their own no data, one scaling, and memory that is counted by bands."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from geo_parts import NORTH_UP, pattern
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.errors import ImageryError, ShapeError
from pu_geo.geo import chips as chips_module
from pu_geo.geo.chips import cut_chips
from pu_geo.geo.raster import samples, scaling
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe, describe_layer
from pu_geo.records import Grid, LayerKind, Scene

Make, Write = Callable[..., Scene], Callable[..., Path]
HEIGHT, WIDTH = 96, 128


@pytest.fixture
def grid(write_tif: Write) -> Grid:
    """The grid of a post scene of 128 x 96 pixels."""
    return project_grid([describe(write_tif("post", pattern(HEIGHT, WIDTH)), "post", "post-1")])


@pytest.fixture
def layer(write_tif: Write) -> Callable[..., Scene]:
    """Write an array [bands, H, W] as a file of a layer; its scaling is that of all samples, from least to greatest."""

    def make(name: str, data: NDArray[np.generic], *args: object, kind: LayerKind = "other", **options: object) -> Scene:
        scene = describe_layer(write_tif(name, data, *args, **options), kind)
        pairs = tuple((float(np.nanmin(band)), float(np.nanmax(band))) for band in data)
        return replace(scene, stretch=pairs, layer=name)

    return make


def noise(bands: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 10, (bands, HEIGHT, WIDTH)).astype(np.float32)


def values_of(scene: Scene, grid: Grid) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    with Mosaic([scene], grid) as mosaic:
        values, shown = mosaic.read_values(0, 0, WIDTH, HEIGHT)
        return values, shown > 0


def test_values_are_samples_and_amplitudes_are_decibels(layer: Make, grid: Grid) -> None:
    data = np.abs(noise(2)) + 1
    data[0, 3, 4], data[1, 5, 6], data[0, 7, 8] = 0, -1, np.nan
    values, valid = values_of(layer("plain", data), grid)
    np.testing.assert_array_equal(values[:, valid], data[:, valid])
    assert np.argwhere(~valid).tolist() == [[7, 8]]
    values, valid = values_of(layer("sar", data, kind="sar-amplitude"), grid)
    np.testing.assert_allclose(values[:, valid], 20 * np.log10(data[:, valid]), rtol=1e-5, atol=1e-5)
    assert np.argwhere(~valid).tolist() == [[3, 4], [5, 6], [7, 8]]
    # a pixel lacks data where one band of a measure does, and where all of a picture do
    values = np.array([[[-9999.0, -9999.0, 1.0]], [[-9999.0, 2.0, 3.0]]], np.float32)
    assert samples.holds_data(values, -9999.0).tolist() == [[False, True, True]]
    assert samples.holds_data(values, -9999.0, every=True).tolist() == [[False, False, True]]


@pytest.mark.parametrize("is_warped", [False, True])
@pytest.mark.parametrize(("hole", "named", "written"), [(-9999.0, None, -9999.0), (np.nan, None, None), (0.0, 0.0, None)])
def test_a_band_without_data_leaves_no_number_also_where_the_layer_is_warped(
    write_tif: Write, grid: Grid, is_warped: bool, hole: float, named: float | None, written: float | None
) -> None:
    data = np.abs(noise(2)) + 1
    data[1, :, 40:] = hole
    place = NORTH_UP @ Affine.translation(0.4, 0.4) if is_warped else NORTH_UP
    path = write_tif("odd", data, place, **({} if written is None else {"nodata": written}))
    scene = describe_layer(path, "elevation", nodata=named)
    with Mosaic([replace(scene, stretch=((-40, 40), (-40, 40)))], grid) as mosaic:
        values, _ = mosaic.read_values(0, 0, WIDTH, HEIGHT)
        picture, valid = mosaic.read(0, 0, WIDTH, HEIGHT)
    assert valid[5:-5, 5:38].all()
    assert not valid[:, 42:].any()
    assert values[:, valid].min() >= 1  # nothing is mixed with the hole
    assert values[:, valid].max() < 60
    assert (picture[:, ~valid] == 0).all()


def test_a_height_of_0_and_a_map_that_is_mostly_0_are_data(write_tif: Write, layer: Make, grid: Grid) -> None:
    heights = np.zeros((2, HEIGHT, WIDTH), np.float32)
    heights[1] = 7
    warped = write_tif("flat", heights, NORTH_UP @ Affine.translation(0.4, 0.4), nodata=-9999.0)
    values, valid = values_of(describe_layer(warped, "elevation"), grid)
    assert valid[5:-5, 5:-5].all()
    assert (values[0, valid] == 0).all()
    data = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    data[0, :4, :4] = 200
    with Mosaic([layer("proxy", data)], grid) as mosaic:
        picture, valid = mosaic.read(0, 0, WIDTH, HEIGHT)
    assert valid.all()
    assert picture[0, 0, 0] == 255


def test_scaling_is_that_of_evenly_spaced_samples(layer: Make, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    with Mosaic([layer("a", noise(1))], grid) as mosaic:
        whole = scaling.find_scaling(mosaic)
        monkeypatch.setattr(scaling, "PIECE_ROWS", 8)
        monkeypatch.setattr(scaling, "PIECE_COLUMNS", 48)
        pieces = scaling.find_scaling(mosaic)
        monkeypatch.setattr(scaling, "MOST_READ", HEIGHT * WIDTH // 3)
        monkeypatch.setattr(scaling, "MOST_KEPT", 1000)
        some = scaling.find_scaling(mosaic)
    assert pieces == whole != some
    np.testing.assert_allclose(some.bands, whole.bands, atol=7)  # of a standard deviation of 10, by about 500 samples


def test_data_beside_the_first_strips_is_found(layer: Make, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.full((1, HEIGHT, WIDTH), np.nan, np.float32)
    data[:, :8] = 5
    monkeypatch.setattr(scaling, "PIECE_ROWS", 8)
    monkeypatch.setattr(scaling, "MOST_READ", HEIGHT * WIDTH // 4)
    with Mosaic([layer("a", data)], grid) as mosaic:
        found = scaling.find_scaling(mosaic)
    assert (found.is_constant, found.bands) == ((True,), ((5.0, 6.0),))
    data[:] = np.nan
    data[0, 90, 0] = 1
    with Mosaic([replace(layer("b", data), kind="sar-amplitude", nodata=1.0)], grid) as mosaic:
        assert scaling.find_scaling(mosaic) is None


def test_no_data_that_is_named_holds_beside_that_of_the_file(write_tif: Write, grid: Grid) -> None:
    data = noise(1)
    data[:, :8], data[:, 8:16] = -9999, 0
    path = write_tif("two", data, nodata=-9999)
    scene = replace(describe_layer(path, "sar-db", nodata=0.0), stretch=((-50, 50),), layer="two")
    _, valid = values_of(scene, grid)
    assert not valid[:16].any()
    assert valid[16:].all()
    elsewhere = write_tif("beside", data, transform=NORTH_UP @ Affine.translation(0.5, 0.5), nodata=-9999)
    scene = replace(describe_layer(elsewhere, "sar-db", nodata=0.0), stretch=((-50, 50),), layer="two")
    with pytest.raises(ImageryError, match="beside -9999, which the file names"), Mosaic([scene], grid):
        pass


@pytest.mark.parametrize("share", [0.004, 0.006])
def test_a_map_of_rare_damage_keeps_its_grades(layer: Make, grid: Grid, share: float) -> None:
    data = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    rare = np.random.default_rng(0).choice(data.size, int(share * data.size), replace=False)
    data.reshape(-1)[rare] = np.linspace(10, 254, len(rare)).astype(np.uint8)
    with Mosaic([layer("rare", data)], grid) as mosaic:
        found = scaling.find_scaling(mosaic)
    ((low, high),) = found.bands
    assert low == 0
    assert 245 < high <= 254
    both = np.zeros((1, HEIGHT, WIDTH), np.float32)
    both[0, 0, :8], both[0, 1, :8] = -2, 3  # rare values around a usual one keep their order
    with Mosaic([layer("both", both)], grid) as mosaic:
        assert scaling.find_scaling(mosaic).bands == ((-2.0, 3.0),)


# Chips


def test_chips_of_a_layer_are_those_of_its_bands(
    layer: Make, write_tif: Write, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, scene = describe(write_tif("post", pattern(HEIGHT, WIDTH)), "post", "post-1"), layer("many", noise(6))
    rng = np.random.default_rng(0)
    size = rng.uniform(3, 90, (40, 2))
    windows = np.concatenate([rng.uniform(0, 1, (40, 2)) * [WIDTH, HEIGHT] - size / 2, size], axis=1)

    def cut(*layers: Scene) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        with Mosaic([post], grid) as after, Mosaic(layers, grid) as more:
            out = np.full((40, 3 + (more.n_bands if layers else 0), 16, 16), 7, np.uint8)
            return out, cut_chips(None, after, windows, 16, out, layers=[more] if layers else [])

    for held in (chips_module.MAX_HELD_PX, 30):  # the second cuts many windows by themselves
        monkeypatch.setattr(chips_module, "MAX_HELD_PX", held)
        (out, share), (plain, alone) = cut(scene), cut()
        np.testing.assert_array_equal(out[:, :3], plain)
        np.testing.assert_array_equal(share[:, :1], alone)
        for band in range(6):
            own, _ = cut(replace(scene, rgb=(band + 1,), stretch=(scene.stretch or ())[band : band + 1]))
            np.testing.assert_array_equal(out[:, 3 + band], own[:, 3])


def test_only_pre_moves(layer: Make, write_tif: Write, grid: Grid) -> None:
    picture = pattern(HEIGHT, WIDTH)
    pre, post = (describe(write_tif(role, picture), role, role) for role in ("pre", "post"))
    scene = replace(layer("same", picture), when="pre")
    windows = np.array([[30.0, 20.0, 24.0, 24.0]])
    with Mosaic([pre], grid) as before, Mosaic([post], grid) as after, Mosaic([scene], grid) as third:
        out = np.zeros((1, 9, 24, 24), np.uint8)
        cut_chips(before, after, windows, 24, out, layers=[third], pre_shift_px=np.array([[5.0, 0.0]]))
        with pytest.raises(ShapeError, match=r"\(1, 9, 24, 24\)"):
            cut_chips(before, after, windows, 24, out[:, :6], layers=[third])
    np.testing.assert_array_equal(out[0, :3], picture[:, 20:44, 25:49])
    np.testing.assert_array_equal(out[0, 3:6], picture[:, 20:44, 30:54])
    low, high = np.array(scene.stretch).T[..., None, None]
    expected = np.rint((picture[:, 20:44, 30:54] - low) * (255 / (high - low))).astype(np.uint8)
    np.testing.assert_array_equal(out[0, 6:], expected)


# Memory


def test_memory_is_counted_by_bands(layer: Make, write_tif: Write, grid: Grid) -> None:
    post, one = describe(write_tif("post", pattern(HEIGHT, WIDTH)), "post", "p"), layer("one", noise(1))
    many = layer("many", noise(16))
    costs = [Mosaic([scene], grid).bytes_a_pixel for scene in (post, one, many, replace(many, kind="sar-amplitude"))]
    assert costs == [4 * 1 + 11, 2 * 4 + 2 + 5, 17 * 4 + 32 + 5, 17 * 4 + 32 + 5 + 16 * 4]
    assert Mosaic([many], grid).n_bands == 16
