"""The sample event is made up, the same each time, and fit for the app's first hour."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import rasterio
from pyproj import Transformer
from shapely.geometry import Point, shape

FOLDER = Path(__file__).resolve().parents[2] / "sample_data"
SCENES = ("pre.tif", "post.tif", "sar-post.tif")
TINY_PX = (256, 208)
CLASSES = ("no-damage", "minor-damage", "major-damage", "destroyed")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", FOLDER / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tiny(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiny")
    script.make_sample(out, seed=3, size_px=TINY_PX, n_buildings=40)
    return out


@pytest.fixture(scope="module")
def full_plan(script: ModuleType):
    """Town, tornado and flood of the committed event; nothing is drawn."""
    size_m = tuple(n * script.GSD_M for n in script.SIZE_PX)
    return script.plan_event(size_m, script.N_BUILDINGS, 7)


def features_of(folder: Path) -> list[dict]:
    return json.loads((folder / "footprints.geojson").read_text(encoding="utf-8"))["features"]


def pixels_of(path: Path) -> np.ndarray:
    with rasterio.open(path) as scene:
        return scene.read()


def committed() -> Path:
    if not all((FOLDER / name).is_file() for name in (*SCENES, "footprints.geojson")):
        pytest.skip("the sample event has not been made; run python sample_data/make_sample.py")
    return FOLDER


def pixel_of(feature: dict, gsd_m: float) -> tuple[int, int]:
    """Return column and row of a footprint's middle, in pixels from the scene's corner."""
    centroid = shape(feature["geometry"]).centroid
    x, y = Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True).transform(centroid.x, centroid.y)
    return int((x - 540_000.0) / gsd_m), int((2_990_000.0 - y) / gsd_m)


def test_the_same_seed_gives_the_same_event_and_another_one_another_town(
    script: ModuleType, tiny: Path, tmp_path: Path
) -> None:
    script.make_sample(tmp_path / "same", seed=3, size_px=TINY_PX, n_buildings=40)
    assert (tmp_path / "same/footprints.geojson").read_bytes() == (tiny / "footprints.geojson").read_bytes()
    for name in SCENES:
        np.testing.assert_array_equal(pixels_of(tmp_path / "same" / name), pixels_of(tiny / name))
    script.make_sample(tmp_path / "other", seed=4, size_px=(64, 64), n_buildings=5)
    assert (pixels_of(tmp_path / "other/pre.tif") != pixels_of(tiny / "pre.tif")[:, :64, :64]).mean() > 0.5


def test_footprints_are_valid_rfc_7946_and_lie_inside_scenes_of_the_size_asked_for(tiny: Path) -> None:
    with rasterio.open(tiny / "pre.tif") as pre, rasterio.open(tiny / "post.tif") as post:
        assert (pre.width, pre.height, pre.dtypes) == (*TINY_PX, ("uint8",) * 3)
        assert (pre.crs, pre.transform, pre.shape) == (post.crs, post.transform, post.shape)
        assert (pre.crs, pre.res) == (rasterio.CRS.from_epsg(32615), (0.5, 0.5))
        bounds = pre.bounds
    assert "crs" not in json.loads((tiny / "footprints.geojson").read_text(encoding="utf-8"))
    features = features_of(tiny)
    assert len({f["properties"]["uid"] for f in features}) == len(features)
    assert 10 <= len(features) <= 40
    assert {f["properties"]["damage"] for f in features} <= set(CLASSES)
    to_map = Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True)
    for feature in features:
        outline = shape(feature["geometry"])
        assert (outline.is_valid, outline.geom_type, outline.exterior.is_ccw) == (True, "Polygon", True)
        ring = np.array(outline.exterior.coords)
        np.testing.assert_allclose(ring, ring.round(7), rtol=0, atol=1e-12)
        x, y = to_map.transform(*ring.T)
        assert bounds.left <= x.min() <= x.max() <= bounds.right
        assert bounds.bottom <= y.min() <= y.max() <= bounds.top


def test_five_in_a_hundred_of_the_buildings_asked_for_are_damaged_along_the_track_and_none_at_the_border(
    script: ModuleType, full_plan
) -> None:
    town, tornado, _ = full_plan
    listed = [b for b in town.buildings if b.is_listed]
    # by the wind: 1,600 x (3 %, 2 %, 3 %) = 48, 32, 48; the rest is 1,472
    counts = Counter(b.damage for b in listed)
    assert counts == {"destroyed": 48, "major-damage": 32, "minor-damage": 48, "no-damage": 1472}
    assert {b.damage for b in town.buildings if not b.is_listed} == {"no-damage"}
    wind = tornado.strength(np.array([b.x for b in listed]), np.array([b.y for b in listed]))
    is_damaged = np.array([b.damage in ("destroyed", "major-damage") for b in listed])
    assert np.median(wind[is_damaged]) > 0.3
    assert np.median(wind[~is_damaged]) < 0.01
    small, *_ = script.plan_event((128.0, 128.0), 9, 3)
    assert sum(b.is_listed for b in small.buildings) == 9
    assert not any(b.is_flooded for b in small.buildings)


def test_committed_event_is_small_and_complete() -> None:
    folder = committed()
    features = features_of(folder)
    assert len(features) >= 1500
    assert sum(p.stat().st_size for p in folder.iterdir() if p.is_file()) < 15_000_000
    with rasterio.open(folder / "pre.tif") as pre, rasterio.open(folder / "post.tif") as post:
        assert (pre.crs, pre.transform, pre.shape) == (post.crs, post.transform, post.shape)
        assert pre.block_shapes == [(256, 256)] * 3
        assert pre.overviews(1) == [2, 4, 8]
    share = sum(f["properties"]["damage"] in ("destroyed", "major-damage") for f in features) / len(features)
    assert share == pytest.approx(0.054, abs=0.001)  # 80 by the wind, and 6 that stand in water alone
    with rasterio.open(folder / "sar-post.tif") as radar:
        assert (radar.count, radar.dtypes, radar.units) == (1, ("float32",), ("dB",))
        assert np.isnan(radar.nodata)
        assert radar.res == (1.25, 1.25)


def test_committed_footprints_are_those_the_program_makes(script: ModuleType, full_plan, tmp_path: Path) -> None:
    folder = committed()
    town, *_ = full_plan
    script.write_footprints(tmp_path / "footprints.geojson", town, np.random.default_rng([7, 4]))
    made = {f["properties"]["uid"]: f for f in features_of(tmp_path)}
    for feature in features_of(folder):
        other = made.pop(feature["properties"]["uid"])
        assert feature["properties"] == other["properties"]
        ours, theirs = (Point(shape(f["geometry"]).centroid) for f in (feature, other))
        assert ours.distance(theirs) < 1e-6
    assert not made


def test_some_damaged_buildings_are_flooded_and_roofless_and_types_are_of_damaged_ones_alone(full_plan) -> None:
    town, _, flood = full_plan
    listed = [b for b in town.buildings if b.is_listed]
    counts = Counter(b.types for b in listed)
    assert counts == {
        (): 1514, ("collapsed",): 37, ("roof",): 24, ("collapsed", "flooded"): 11, ("roof", "flooded"): 8, ("flooded",): 6,
    }  # fmt: skip
    assert all((b.grade in ("destroyed", "major-damage")) == bool(b.types) for b in listed)
    # those in water alone have a sound roof, and are damaged all the same
    assert {b.damage for b in listed if b.types == ("flooded",)} == {"no-damage", "minor-damage"}
    in_water = flood.level([b.x for b in listed], [b.y for b in listed]) > 0
    assert (in_water != [b.is_flooded for b in listed]).sum() <= 6  # a middle may be dry where the walls are not


def test_water_is_in_the_post_scene_alone() -> None:
    """The ground around flooded buildings is brown in the post scene, and like everywhere in the pre scene."""
    folder = committed()
    features = features_of(folder)
    dry = [one for one in features if "flooded" not in one["properties"]["types"]]
    middle = {}
    for name in ("pre", "post"):
        pixels = pixels_of(folder / f"{name}.tif")
        for is_wet, group in ((True, [one for one in features if one not in dry]), (False, dry[::10])):
            shares = []
            for column, row in (pixel_of(one, 0.5) for one in group):
                part = pixels[:, max(0, row - 16) : row + 16, max(0, column - 16) : column + 16]
                red, green, blue = part.astype(int)
                shares.append(((red - green > 6) & (green - blue > 6) & (abs(red - 118) < 35)).mean())
            middle[name, is_wet] = np.median(shares)
    assert middle["post", True] > max(0.4, 4 * middle["post", False])
    assert middle["pre", True] < 2 * middle["pre", False] + 0.05


def test_double_bounce_is_lost_where_a_building_collapsed_and_a_part_has_no_radar() -> None:
    folder = committed()
    (radar,) = pixels_of(folder / "sar-post.tif")
    brightest: dict[bool, list[float]] = {True: [], False: []}
    missing: Counter[str] = Counter()
    for one in features_of(folder):
        column, row = pixel_of(one, 1.25)
        part = radar[max(0, row - 5) : row + 6, max(0, column - 5) : column + 8]  # the radar is in the east
        if np.isnan(part).mean() > 0.5:
            missing[one["properties"]["damage"]] += 1
        else:
            brightest["collapsed" in one["properties"]["types"]].append(float(np.nanmax(part)))
    assert 0.15 < missing.total() / 1600 < 0.35
    assert missing["destroyed"] >= 4
    assert missing["major-damage"] >= 3
    collapsed, standing = (np.array(brightest[key]) for key in (True, False))
    ahead = (standing[:, None] > collapsed).mean()
    assert 0.85 < ahead < 0.99  # AUC of one number: it helps, and it is not the answer
