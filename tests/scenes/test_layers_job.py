"""Layers beside pre and post, from real files: placed, scaled, shown, cut into chips; and files that cannot be one."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import rasterio
from cli_parts import CommandLine
from layer_parts import speckle, town_layer
from small_parts import job_of

from pu_geo import Project
from pu_geo.errors import ImageryError, PuGeoError
from pu_geo.records import LayerKind, View
from pu_geo.scenes import layers as services
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.layers_job import add_layer
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.usefixtures("without_features", "home")
NUMBERS = itertools.count()
WIDTH, HEIGHT = 320, 256  # of the town, pixels
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def add(chipped_town: Layout, town: Path, tmp_path: Path) -> Make:
    """Add samples [bands, H, W] as a layer of the town; options of `add_layer` as keywords, those of the file in `file`."""

    def made(name: str, *data: np.ndarray, file: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        paths = [town_layer(town, tmp_path / f"{name}-{next(NUMBERS)}.tif", one, **(file or {})) for one in data]
        return add_layer(job_of(chipped_town), name=name, paths=[str(path) for path in paths], **options)

    return made


def chips_of(layout: Layout) -> tuple[np.ndarray, dict[str, Any]]:
    """Cut chips; return all their bands and their facts."""
    name = str(chip(job_of(layout), size_px=32)["chip_set"])
    return np.load(layout.chips(name)), dict(contents.chip_facts(layout, name))


def test_scaling_is_by_percentiles_of_valid_samples_of_each_band(add: Make) -> None:
    data = speckle(HEIGHT, WIDTH)
    data[:, :40] = -9999
    data[1, 60, 60] = np.nan
    found = add("sar-post", data, kind="sar-db", file={"nodata": -9999})
    valid = np.isfinite(data).all(axis=0) & (data != -9999).all(axis=0)
    expected = np.percentile(data[:, valid].astype(np.float64), [0.5, 99.5], axis=1).T
    np.testing.assert_allclose(found["scaling"], expected, rtol=1e-6)
    assert (found["when"], found["unit"], found["added"]) == ("post", "dB", [f"sar-post-{next(NUMBERS) - 1}"])
    np.testing.assert_allclose(found["steps"], (expected[:, 1] - expected[:, 0]) / 255, rtol=0.01)


def test_one_scaling_holds_for_all_files_and_for_those_added_later(add: Make, chipped_town: Layout) -> None:
    left, right = (
        np.linspace(low, low + 10, HEIGHT * WIDTH // 2, dtype=np.float32).reshape(1, HEIGHT, -1) for low in (0, 100)
    )
    add("height", left, kind="elevation", when="none", file={"box": (0, 0, 0.5, 1)})
    (before,) = store.call(chipped_town, contents.layers)
    later = add("height", right, file={"box": (0.5, 0, 1, 1)})
    (layer,) = store.call(chipped_town, contents.layers)
    assert (layer.when, layer.kind, len(layer.scenes)) == ("", "elevation", 2)
    assert layer.scaling == before.scaling
    assert {scene.stretch for scene in layer.scenes} == {before.scaling}
    assert later["scaling"] == [[*pair] for pair in before.scaling]
    both = add("both", left, right, file={"box": (0, 0, 1, 1)})  # one over the other: the first has data everywhere
    assert both["scaling"][0][1] < 11


def test_files_side_by_side_are_scaled_together(add: Make, town: Path, tmp_path: Path, chipped_town: Layout) -> None:
    rows = np.zeros((1, HEIGHT, WIDTH // 2), np.uint16) + np.arange(HEIGHT, dtype=np.uint16)[:, None]
    left = town_layer(town, tmp_path / "l.tif", rows, box=(0, 0, 0.5, 1))
    right = town_layer(town, tmp_path / "r.tif", np.full_like(rows, 5000), box=(0.5, 0, 1, 1))
    found = add_layer(job_of(chipped_town), name="wide", paths=[str(left), str(right)])
    assert found["scaling"] == [[pytest.approx(0.5 / 100 * HEIGHT * 2, abs=2), 5000]]


def test_chips_hold_layers_behind_pre_and_post_which_stay_bit_equal(add: Make, chipped_town: Layout) -> None:
    plain, before = chips_of(chipped_town)
    assert "views" not in before
    add("sar-post", speckle(HEIGHT, WIDTH, bands=2), kind="sar-db")
    add("proxy", np.random.default_rng(0).integers(0, 200, (1, HEIGHT, WIDTH), dtype=np.uint8), when="none")
    chips, facts = chips_of(chipped_town)
    np.testing.assert_array_equal(chips[:, :6], plain)
    np.testing.assert_array_equal(contents.optical(chips, facts), plain)
    expected = (
        View("pre", "pre", 0, 3),
        View("post", "post", 3, 6),
        View("sar-post", "post", 6, 8),
        View("proxy", "", 8, 9),
    )
    assert contents.views_of(facts) == expected
    assert facts["chip_set"] != before["chip_set"]
    same = ("pre_outline", "post_outline", "nodata_share", "sensor_group", "look_group", "scenes", "n_moved")
    assert {name: facts[name] for name in same} == {name: before[name] for name in same}
    assert set(facts["scaling"]) == {"sar-post", "proxy"}
    assert facts["scaling"]["sar-post"]["dtype"] == "float32"
    for band in range(6, 9):
        assert len(np.unique(chips[:, band])) > 20


def test_pixels_without_data_take_the_mean(add: Make, chipped_town: Layout) -> None:
    with store.connect(chipped_town) as db:
        middle = int(contents.grid(db).to_px(contents.centers(db)[1])[:, 0].round()[5])  # the layer ends in a building
    data = np.full((1, HEIGHT, WIDTH), 10.0, np.float32)
    data[:, ::2], data[:, :, middle:] = 20.0, -1.0
    add("half", data, kind="elevation", when="none", file={"nodata": -1.0})
    chips, facts = chips_of(chipped_town)
    missing = np.array(facts["view_missing"]["half"])
    is_missing = contents.is_missing(facts)[2]
    np.testing.assert_array_equal(is_missing, missing >= 0.5)
    assert 0 < is_missing.sum() < len(missing)
    (row,) = services.rows(chipped_town)
    assert row["n_missing"] == is_missing.sum()
    assert f"{is_missing.sum()} of {len(missing)} buildings have no half" in row["words"]
    crossing = np.flatnonzero((missing > 0.1) & (missing < 0.9))
    assert len(crossing)
    for one in chips[crossing, 6].astype(float):  # stripes of 0 and 255, and 128 where there is no data
        assert np.abs(one[8:-8, -4:] - 128).max() < 8
        assert np.ptp(one[8:-8, :4]) > 60


def test_coarser_pixels_of_another_system_are_warped_onto_the_grid(add: Make, chipped_town: Layout) -> None:
    rows, columns = HEIGHT // 8, WIDTH // 8
    data = np.tile(np.arange(columns, dtype=np.uint16) * 100, (1, rows, 1))
    found = add("coarse", data, when="pre", file={"crs": "EPSG:3857"})
    notes = " ".join(found["notes"])
    assert "times larger than" in notes
    assert "pixels wide in it" in notes
    assert "is taken as co-registered" in notes
    chips, _ = chips_of(chipped_town)
    with store.connect(chipped_town) as db:
        along = contents.grid(db).to_px(contents.centers(db)[1])[:, 0]
    assert np.corrcoef(along, chips[:, 6].mean(axis=(1, 2)))[0, 1] > 0.99


def test_rounded_decibels_are_not_odd(add: Make) -> None:
    data = np.rint(speckle(HEIGHT, WIDTH, bands=1) * 2) / 2 + 5
    assert 0.001 < (data == 0).mean() < 0.01
    assert not add("rounded", data, kind="sar-db")["notes"]


@pytest.mark.parametrize(
    ("kind", "value", "share", "percent"),
    [("sar-db", 250.0, 0.0005, "0.05%"), ("other", -9999, 0.007, "0.70%"), ("other", 0.0, 0.2, "20%")],
)
def test_what_may_be_no_data_is_said(add: Make, kind: LayerKind, value: float, share: float, percent: str) -> None:
    data = speckle(HEIGHT, WIDTH, bands=1) - 20  # all below 0 dB
    data.reshape(-1)[: int(share * data.size)] = value
    (note,) = add("odd", data, kind=kind)["notes"]
    assert f"{percent} of the samples of band 1 of odd are exactly {value:g}" in note
    assert f"--nodata {value:g}" in note
    assert not add("even", data, kind=kind, nodata=float(value))["notes"]


@pytest.mark.parametrize(("kind", "value"), [("sar-db", -9999.0), ("other", np.finfo(np.float32).max)])
def test_much_that_is_no_measure_is_refused(add: Make, chipped_town: Layout, kind: LayerKind, value: float) -> None:
    data, words = speckle(HEIGHT, WIDTH, bands=1) - 20, f"{value:.9g}"
    data.reshape(-1)[: int(0.009 * data.size)] = value
    with pytest.raises(ImageryError, match="samples of ") as error:
        add("odd", data, kind=kind)
    assert f"--nodata {words}" in error.value.hint
    assert store.call(chipped_town, contents.layers) == ()
    found = add("even", data, kind=kind, nodata=float(words))
    assert not found["notes"]
    assert found["scaling"][0][1] < 10


def test_files_added_to_a_layer_are_compared_with_its_scaling(add: Make) -> None:
    left, right, more = (speckle(HEIGHT, WIDTH // 2, bands=1, seed=seed) for seed in (0, 1, 2))
    first = add("sar", left, kind="sar-db", file={"box": (0, 0, 0.5, 1)})
    box = {"box": (0.5, 0, 1, 1)}
    assert not add("sar", right, file=box)["notes"]
    power = add("sar", 10 ** (more / 10), file=box)
    assert power["scaling"] == first["scaling"]
    assert "Band 1 of the files added to sar spans" in power["notes"][-1]
    with pytest.raises(ImageryError, match="samples of"):
        add("sar", 1000 * np.sqrt(10 ** (more / 10)), file=box)


def test_map_tiles_are_gray_for_one_band_and_colored_for_three(add: Make, chipped_town: Layout) -> None:
    ramp = np.tile(np.linspace(0, 1000, WIDTH).astype(np.uint16), (4, HEIGHT, 1))
    add("one", ramp[:1])
    add("two", ramp[:2])
    ramp[1] = 0
    ramp[1, 0, 0] = 1
    add("four", ramp)
    whole = json.loads((chipped_town.quicklooks / "post" / "pyramid.json").read_text())
    for name, n_channels in (("one", 1), ("two", 1), ("four", 3)):
        folder = chipped_town.quicklooks / "layers" / name
        info = json.loads((folder / "pyramid.json").read_text())
        assert info == {**whole, "n_tiles": info["n_tiles"]}
        picture = cv2.imread(str(folder / "0" / "0" / "0.jpg"), cv2.IMREAD_UNCHANGED)
        assert (1 if picture.ndim == 2 else 3) == n_channels
        row = picture[10].reshape(256, -1)[: WIDTH // 2]  # zoom 0 of 320 x 256 pixels is half of full size
        assert row[:, -1][5] < 20
        assert row[:, -1][-6] > 235


def test_a_new_post_scene_draws_tiles_anew(add: Make, chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    add("one", speckle(HEIGHT, WIDTH, bands=1))
    with rasterio.open(town / "post.tif") as source:
        profile, data = source.profile, source.read()
    profile["transform"] = profile["transform"] @ rasterio.Affine.translation(WIDTH, 0)
    with rasterio.open(tmp_path / "east.tif", "w", **profile) as target:
        target.write(data)
    add_scenes(job_of(chipped_town), pre=[], post=[str(tmp_path / "east.tif")])
    info = json.loads((chipped_town.layer_tiles("one") / "pyramid.json").read_text())
    assert info["width"] == 2 * WIDTH


def test_names_that_cannot_be_used_are_refused(chipped_town: Layout) -> None:
    for name in ("sar/post", "SAR", "", "-sar", "x" * 41, "post", "..", "sär"):
        with pytest.raises(ImageryError, match="called"):
            add_layer(job_of(chipped_town), name=name, paths=["/nowhere.tif"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros((17, 32, 32), np.uint8) + 7, "17 bands; a layer has 1 to 16"),
        (np.zeros((1, 32, 32), np.complex64) + 1j, "complex64"),
        (np.ones((1, 32, 32), np.int16), "int16"),
        (np.full((1, 32, 32), np.nan, np.float32), "holds no data"),
    ],
)
def test_files_of_other_kinds_are_refused_in_words(add: Make, chipped_town: Layout, data: np.ndarray, words: str) -> None:
    with pytest.raises(ImageryError, match=words) as error:
        add("odd", data)
    assert error.value.hint
    assert store.call(chipped_town, contents.layers) == ()
    assert not (chipped_town.quicklooks / "layers").exists()


def test_files_that_do_not_fit_are_refused(add: Make, town: Path, tmp_path: Path, chipped_town: Layout) -> None:
    with pytest.raises(ImageryError, match="does not overlap the post scenes"):
        add("far", speckle(32, 32), file={"box": (5, 5, 6, 6)})
    near = town_layer(town, tmp_path / "near.tif", speckle(32, 32))
    far = town_layer(town, tmp_path / "far.tif", speckle(32, 32), box=(5, 5, 6, 6))
    found = add_layer(job_of(chipped_town), name="some", paths=[str(far), str(near)])
    assert found["added"] == ["near"]
    assert any("far.tif was left out" in note for note in found["notes"])
    add("sar", speckle(32, 32, bands=2), kind="sar-db")
    with pytest.raises(ImageryError, match=r"1 band\(s\) of float32"):
        add("sar", speckle(32, 32, bands=1))
    with pytest.raises(ImageryError, match="kind sar-db"):
        add("sar", speckle(32, 32, bands=2, seed=1), kind="elevation")
    with pytest.raises(ImageryError, match="times smaller"):
        add("fine", speckle(800, 800, bands=1), file={"box": (0.0, 0.0, 0.1, 0.125)})
    with pytest.raises(ImageryError, match="can be -9999"):
        add("odd", np.ones((1, 32, 32), np.uint8), nodata=-9999.0)
    path = town_layer(town, tmp_path / "cut.tif", speckle(512, 512, bands=1))
    path.write_bytes(path.read_bytes()[:200_000])
    with pytest.raises(PuGeoError, match=r"cut\.tif"):
        add_layer(job_of(chipped_town), name="cut", paths=[str(path)])


def test_commands_and_library_add_layers(run: CommandLine, chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "sar.tif", speckle(HEIGHT, WIDTH))
    out = run.text("add-layer", chipped_town.folder, "--name", "sar-post", "--when", "post", "--kind", "sar-db", path)
    assert "2 bands, after the event; it covers 100 % of the post scenes" in out
    (row,) = run.json("layers", chipped_town.folder)["layers"]
    assert (row["name"], row["bands"], row["n_missing"]) == ("sar-post", 2, None)
    assert "was not added" in run.text("add-layer", chipped_town.folder, "--name", "sar-post", path)
    assert "cannot be called 'a/b'" in run.refused("add-layer", chipped_town.folder, "--name", "a/b", path)
    project = Project.open(chipped_town.folder, progress=False)
    other = town_layer(town, tmp_path / "other.tif", speckle(HEIGHT, WIDTH, seed=1))
    assert project.add_layer("other", other, kind="sar-db")["unit"] == "dB"
    assert [layer.name for layer in project.layers()] == ["sar-post", "other"]
    project.chip(size_px=32)
    views, is_missing = project.views()
    assert [view.name for view in views] == ["pre", "post", "sar-post", "other"]
    assert is_missing.shape == (4, len(project.building_ids()))
    assert project.chips().shape[1] == 6
    assert project.chips(with_layers=True).shape[1] == 10


def test_a_project_without_a_place_takes_a_picture_of_the_same_ground(tmp_path: Path) -> None:
    layout = store.create(tmp_path / "odd.pugeo", "Odd")
    for name, shape in (("post", (96, 128, 3)), ("height", (48, 64)), ("other", (48, 48))):
        picture = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
        assert cv2.imwrite(str(tmp_path / f"{name}.png"), picture)
    add_scenes(job_of(layout), pre=[], post=[str(tmp_path / "post.png")], pixel_m=0.5)
    found = add_layer(job_of(layout), name="height", paths=[str(tmp_path / "height.png")], when="none")
    assert (found["gsd_m"], found["share"]) == (1.0, 1.0)
    with pytest.raises(ImageryError, match=r"other\.png has 48 x 48 pixels"):
        add_layer(job_of(layout), name="other", paths=[str(tmp_path / "other.png")])
    with pytest.raises(ImageryError, match="nothing says how they lie"):
        add_layer(job_of(layout), name="height", paths=[str(tmp_path / "other.png")])
