"""How a scene is read belongs to the scene: bands, stretch, no data and system outlive a replacement; warps and blur are told apart."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import rasterio
from layer_parts import speckle, town_layer
from numpy.typing import NDArray
from PIL import Image
from rasterio.enums import Resampling
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.warp import reproject, transform_bounds
from small_parts import job_of

from pu_geo.errors import ImageryError
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.lifecycle.remove_job import replace_layer, replace_scene
from pu_geo.lifecycle.rounds_job import next_round
from pu_geo.records import Scene
from pu_geo.scenes import scene_pair
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.scenes.layers_job import add_layer
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

Pixels = NDArray[Any]
BGRN = (3, 2, 1)
ONE_GRAY = 2.0  # mean difference of chips that are called the same


def pixels_of(town: Path, role: str) -> tuple[Pixels, Affine, Any]:
    with rasterio.open(town / f"{role}.tif") as scene:
        return scene.read(), scene.transform, scene.crs


def write(path: Path, pixels: Pixels, transform: Affine, crs: Any, **options: Any) -> str:
    path.parent.mkdir(exist_ok=True, parents=True)
    count, height, width = pixels.shape
    size = {"count": count, "height": height, "width": width, "dtype": pixels.dtype}
    with rasterio.open(path, "w", driver="GTiff", transform=transform, crs=crs, **size, **options) as target:
        target.write(pixels)
    return str(path)


def bgrn(town: Path, path: Path, role: str, *, gain: int = 10) -> str:
    """Write a scene of the town as 16 bits of blue, green, red and near infrared, whose bands have no names."""
    pixels, transform, crs = pixels_of(town, role)
    return write(path, (pixels[[2, 1, 0, 0]].astype(np.uint16)) * gain + 300, transform, crs)


def scenes_of(layout: Layout) -> dict[str, Scene]:
    return {scene.scene_id: scene for scene in store.call(layout, contents.scenes)}


def chips_of(layout: Layout, town: Path) -> Pixels:
    """Add the town's footprints, cut chips, and return them, int [N, 6, S, S]."""
    if not store.call(layout, contents.count_footprints):
        add_footprints(job_of(layout, "houses"), paths=[str(town / "footprints.geojson")])
    made = chip(job_of(layout, "chips"), size_px=32)
    return contents.optical_chips(layout, str(made["chip_set"])).astype(int)


def of_bgrn(town: Path, folder: Path) -> Layout:
    layout = store.create(folder / "bgrn.pugeo", "BGRN")
    pre, post = (bgrn(town, folder / f"{role}.tif", role) for role in ("pre", "post"))
    add_scenes(job_of(layout, "add"), pre=[pre], post=[post], bands=BGRN)
    return layout


def by_replacement(layout: Layout, town: Path, folder: Path) -> tuple[Layout, Any]:
    path = bgrn(town, folder / "later.tif", "post", gain=11)
    return layout, replace_scene(job_of(layout, "replace"), name="post", path=path, analyst="ann")


def by_addition(layout: Layout, town: Path, folder: Path) -> tuple[Layout, Any]:
    path = bgrn(town, folder / "more.tif", "post", gain=11)
    return layout, add_scenes(job_of(layout, "more"), pre=[], post=[path])


def by_a_round(layout: Layout, town: Path, folder: Path) -> tuple[Layout, Any]:
    add_footprints(job_of(layout, "houses"), paths=[str(town / "footprints.geojson")])
    second = store.create(folder / "second.pugeo", "Second")
    post = [bgrn(town, folder / "later.tif", "post", gain=11)]
    return second, next_round(job_of(second, "round"), previous=str(layout.folder), post=post, size_px=32)


@pytest.mark.parametrize("change", [by_replacement, by_addition, by_a_round])
def test_bands_stay_those_that_were_stated(change: Callable[..., Any], town: Path, tmp_path: Path) -> None:
    before = of_bgrn(town, tmp_path)
    pre = scenes_of(before)["pre"]
    layout, result = change(before, town, tmp_path)
    found = scenes_of(layout)
    assert {name: scene.rgb for name, scene in found.items()} == dict.fromkeys(found, BGRN)
    assert found["pre"].stretch == pre.stretch
    assert any("the bands have no names; 3, 2, 1 are red, green, blue as in" in note for note in result["notes"])
    chips = chips_of(layout, town)
    red, blue = (chips[:, [band, band + 3]].mean(axis=(0, 2, 3)) for band in (0, 2))
    truth = [pixels_of(town, role)[0].mean(axis=(1, 2)) for role in ("pre", "post")]
    assert ((red > blue) == [one[0] > one[2] for one in truth]).all(), "red and blue were exchanged"


def test_a_file_that_names_its_bands_is_read_by_their_names(town: Path, tmp_path: Path) -> None:
    layout = of_bgrn(town, tmp_path)
    path = Path(bgrn(town, tmp_path / "named.tif", "post"))
    with rasterio.open(path, "r+") as scene:
        scene.descriptions = ("Red", "Green", "Blue", "NIR")
    replace_scene(job_of(layout, "replace"), name="post", path=str(path), analyst="ann")
    assert [scene.rgb for scene in scenes_of(layout).values()] == [BGRN, (1, 2, 3)]


def test_a_picture_without_a_place_is_replaced_by_one_of_other_pixels(town: Path, tmp_path: Path) -> None:
    pixels = np.moveaxis(pixels_of(town, "post")[0], 0, -1)
    for name, image in (("one", pixels), ("two", pixels[::2, ::2])):
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    layout = store.create(tmp_path / "local.pugeo", "Local")
    add_scenes(job_of(layout, "add"), pre=[], post=[str(tmp_path / "one.png")], pixel_m=0.5)
    replace_scene(job_of(layout, "replace"), name="one", path=str(tmp_path / "two.png"), analyst="ann")
    assert [scene.gsd_m for scene in scenes_of(layout).values()] == [1.0]


def test_a_broken_system_is_not_overridden(town: Path, tmp_path: Path) -> None:
    layout = of_bgrn(town, tmp_path)
    pixels, transform, _ = pixels_of(town, "post")
    Image.fromarray(np.moveaxis(pixels, 0, -1)).save(tmp_path / "odd.png")
    a, b, c, d, e, f = tuple(transform)[:6]
    (tmp_path / "odd.pgw").write_text("\n".join(map(str, (a, d, b, e, c, f))))
    (tmp_path / "odd.prj").write_text("NO SYSTEM")
    with pytest.raises(ImageryError, match="not known"):
        replace_scene(job_of(layout, "replace"), name="post", path=str(tmp_path / "odd.png"), analyst="ann")


def test_a_system_and_a_value_for_no_data_stay_those_that_were_stated(town: Path, tmp_path: Path) -> None:
    pixels, transform, crs = pixels_of(town, "post")
    a, b, c, d, e, f = tuple(transform)[:6]
    paths = [tmp_path / "first.png", tmp_path / "second.png"]
    for path, gray in zip(paths, (0, 7), strict=True):
        Image.fromarray(np.moveaxis(pixels // 2 + np.uint8(gray), 0, -1)).save(path)
        path.with_suffix(".pgw").write_text("\n".join(map(str, (a, d, b, e, c + 0.5 * a, f + 0.5 * e))))
    layout = store.create(tmp_path / "png.pugeo", "PNG")
    add_scenes(job_of(layout, "add"), pre=[], post=[str(paths[0])], crs=crs.to_string())
    done = replace_scene(job_of(layout, "replace"), name="first", path=str(paths[1]), analyst="ann")
    assert done["notes"] == [f"second.png: no coordinate system is named; {crs} is taken, as in first.png before."]
    files = []
    for seed in (1, 2):
        data = speckle(256, 320, 1, seed=seed)
        data[:, :40] = -9999
        files.append(str(town_layer(town, tmp_path / f"dsm-{seed}.tif", data)))
    add_layer(job_of(layout, "layer"), name="dsm", paths=files[:1], nodata=-9999)
    made = replace_layer(job_of(layout, "dsm"), name="dsm", paths=files[1:], analyst="ann")
    (layer,) = store.call(layout, contents.layers)
    assert layer.scenes[0].nodata == -9999
    assert layer.scaling[0][0] > -100
    assert "dsm-2.tif: no value for no data is named; -9999 is taken, as in dsm-1.tif before." in made["notes"]


def take(town: Path) -> tuple[Pixels, Affine, Any]:
    """A 16-bit scene with a lake in the east, which is dark."""
    pixels, transform, crs = pixels_of(town, "post")
    pixels[:, :, pixels.shape[2] // 2 :] = pixels[:, :, pixels.shape[2] // 2 :] // 12 + 3
    return pixels.astype(np.uint16) * 8 + 200, transform, crs


def halves(folder: Path, pixels: Pixels, transform: Affine, crs: Any) -> list[str]:
    """Write the western and the eastern half of a scene."""
    half = pixels.shape[2] // 2
    parts = (pixels[:, :, :half], transform), (pixels[:, :, half:], transform @ Affine.translation(half, 0))
    return [write(folder / f"tile{i}.tif", *part, crs) for i, part in enumerate(parts)]


def test_a_scene_in_tiles_gives_the_chips_of_the_whole(town: Path, tmp_path: Path) -> None:
    pixels, transform, crs = take(town)
    whole = write(tmp_path / "whole.tif", pixels, transform, crs)
    tiles = halves(tmp_path, pixels, transform, crs)
    cut = []
    for name, paths in (("whole", [whole]), ("tiles", tiles)):
        layout = store.create(tmp_path / f"{name}.pugeo", name)
        add_scenes(job_of(layout, "add"), pre=[], post=paths)
        cut.append(chips_of(layout, town))
    assert np.abs(cut[0] - cut[1]).mean() < ONE_GRAY
    facts = contents.chip_facts(layout, store.call(layout, contents.latest_chip_set) or "")
    assert set(facts["sensor_group"]) == {0}


@pytest.mark.parametrize(
    ("factors", "odd", "is_anew"),
    [((8, 9), [], False), ((8, 80), [], True), ((80, 1), ["b"], False), ((1, 80), ["a"], True)],
    ids=["alike", "brighter", "nearly black", "the one here was"],
)
def test_a_file_that_comes_later_joins_its_take_and_what_shows_nothing_is_said(
    factors: tuple[int, int], odd: list[str], is_anew: bool, town: Path, tmp_path: Path
) -> None:
    pixels, transform, crs = take(town)
    layouts = [store.create(tmp_path / f"{name}.pugeo", name) for name in ("in-turn", "at-once")]
    places = (transform, transform @ Affine.translation(pixels.shape[2], 0))
    files = zip("ab", factors, places, strict=True)
    paths = [write(tmp_path / f"{name}.tif", pixels // 8 * np.uint16(by), place, crs) for name, by, place in files]
    add_scenes(job_of(layouts[0], "first"), pre=[], post=paths[:1])
    before = scenes_of(layouts[0])["a"].stretch
    each = zip(layouts, (paths[1:], paths), strict=True)
    done: Any = [add_scenes(job_of(layout, "then"), pre=[], post=post) for layout, post in each]
    for layout, result in zip(layouts, done, strict=True):
        assert [note.split(" ")[0] for note in result["notes"] if "has samples of" in note] == odd
        assert len({scene.stretch for scene in scenes_of(layout).values()}) == 1
    assert (scenes_of(layouts[0])["a"].stretch != before) == is_anew
    assert any("a: stretched anew together with b" in note for note in done[0]["notes"]) == is_anew


def test_a_replaced_tile_has_its_date_and_the_stretch_of_its_take(town: Path, tmp_path: Path) -> None:
    pixels, transform, crs = take(town)
    layout = store.create(tmp_path / "p.pugeo", "P")
    half = pixels.shape[2] // 2
    add_scenes(job_of(layout, "add"), pre=[], post=halves(tmp_path, pixels, transform, crs))
    scene_pair.set_dates(layout, {name: date(2011, 5, 29) for name in ("tile0", "tile1")})
    before = [scene.stretch for scene in scenes_of(layout).values()]
    again = write(tmp_path / "again.tif", pixels[:, :, :half], transform, crs, compress="deflate")
    replace_scene(job_of(layout, "again"), name="tile0", path=again, analyst="ann")
    found = scenes_of(layout)
    assert [scene.stretch for scene in found.values()] == before
    assert {scene.date for scene in found.values()} == {"2011-05-29"}


def turned(transform: Affine, shape: tuple[int, ...], degrees: float) -> Affine:
    x, y = transform @ (shape[2] / 2, shape[1] / 2)
    return Affine.translation(x, y) @ Affine.rotation(degrees) @ Affine.translation(-x, -y) @ transform


def in_system(pixels: Pixels, transform: Affine, crs: Any, system: str) -> tuple[Pixels, Affine]:
    height, width = pixels.shape[1:]
    west, south, east, north = transform_bounds(crs, system, *rasterio.transform.array_bounds(height, width, transform))
    side = ((east - west) * (north - south) / (width * height)) ** 0.5
    rows, columns = round((north - south) / side), round((east - west) / side)
    target = Affine(side, 0, west, 0, -side, north)
    found = np.zeros((3, rows, columns), np.uint8)
    way = {"src_transform": transform, "src_crs": crs, "dst_transform": target, "dst_crs": system}
    reproject(pixels, found, **way, resampling=Resampling.nearest)
    return found, target


@pytest.mark.parametrize(
    "way", [1, 30, 45, 90, 137, 180, 271, 359, *map("EPSG:{}".format, (32616, 32614, 4326, 3857, 2818))]
)
def test_a_warp_keeps_what_its_kernel_can_keep(way: float | str, town: Path, tmp_path: Path) -> None:
    """Sharpness within 10 % of the best of three scales: GDAL's own, 1, and the true ratio."""
    pixels, transform, crs = pixels_of(town, "pre")
    if isinstance(way, str):
        data, own = in_system(pixels, transform, crs, way)
        path = write(tmp_path / "pre.tif", data, own, way, nodata=0)
    else:
        path = write(tmp_path / "pre.tif", pixels, turned(transform, pixels.shape, way), crs, nodata=0)
    pre = describe(path, "pre", "pre-1")
    grid = project_grid([describe(town / "post.tif", "post", "post-1")])
    inner = np.s_[grid.height // 4 : -grid.height // 4, grid.width // 4 : -grid.width // 4]

    def sharp(bands: Pixels) -> float:
        return float(cv2.Laplacian(bands.mean(axis=0)[inner], cv2.CV_64F).var())

    with Mosaic([pre], grid) as mosaic:
        found = sharp(mosaic.read(0, 0, grid.width, grid.height)[0])
    ratio = str(pre.gsd_m / grid.gsd_m)
    size = {"transform": Affine(*grid.transform), "width": grid.width, "height": grid.height, "crs": grid.crs}
    best = 0.0
    for scale in ({}, {"XSCALE": "1", "YSCALE": "1"}, {"XSCALE": ratio, "YSCALE": ratio}):
        how = {"resampling": Resampling.bilinear, "add_alpha": True, **size, **scale}
        with rasterio.open(path) as source, WarpedVRT(source, **how) as view:
            best = max(best, sharp(view.read([1, 2, 3])))
    assert found > 0.9 * best


@pytest.mark.parametrize(
    ("role", "alone", "off_px"), [("pre", False, 0), ("post", False, 0), ("post", True, 0), ("", False, 0), ("", False, 0.5)]
)
def test_a_blurred_date_is_said_at_intake(role: str, alone: bool, off_px: float, town: Path, tmp_path: Path) -> None:
    paths = {}
    for one in ("pre", "post"):
        pixels, transform, crs = pixels_of(town, one)
        if one == role:
            pixels = np.stack([cv2.GaussianBlur(band, (0, 0), 1.2) for band in pixels])
        place = transform @ Affine.translation(off_px, off_px) if one == "pre" else transform
        paths[one] = write(tmp_path / f"{one}.tif", pixels, place, crs, photometric="RGB")
    layout = store.create(tmp_path / "p.pugeo", "P")
    done: Any = add_scenes(job_of(layout, "add"), pre=[] if alone else [paths["pre"]], post=[paths["post"]])
    worries = [issue.worry for issue in scene_pair.judge(layout, None).checks if issue.name == "Sharpness"]
    said = [note for note in done["notes"] if "blur" in note]
    assert said == worries
    if role:
        assert said[0].startswith(f"Scene {role} is {'blurred' if alone else 'much blurrier'}")
    else:
        assert said == []
