"""The sample event is made up, the same each time, and fit for the app's first hour."""

from __future__ import annotations

import hashlib
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
    """Town and tornado of the committed event; nothing is drawn."""
    size_m = tuple(n * script.GSD_M for n in script.SIZE_PX)
    return script.plan_event(size_m, script.N_BUILDINGS, 7)


def features_of(folder: Path) -> list[dict]:
    return json.loads((folder / "footprints.geojson").read_text(encoding="utf-8"))["features"]


def pixels_of(path: Path) -> np.ndarray:
    with rasterio.open(path) as scene:
        return scene.read()


def digest(folder: Path) -> str:
    found = hashlib.sha256((folder / "footprints.geojson").read_bytes())
    for name in ("pre.tif", "post.tif"):
        found.update(pixels_of(folder / name).tobytes())
    return found.hexdigest()


def committed() -> Path:
    if not all((FOLDER / name).is_file() for name in ("pre.tif", "post.tif", "footprints.geojson")):
        pytest.skip("the sample event has not been made; run python sample_data/make_sample.py")
    return FOLDER


def test_same_seed_gives_the_same_arrays(script: ModuleType, tiny: Path, tmp_path: Path) -> None:
    script.make_sample(tmp_path, seed=3, size_px=TINY_PX, n_buildings=40)
    assert digest(tmp_path) == digest(tiny)


def test_other_seed_gives_another_town(script: ModuleType, tiny: Path, tmp_path: Path) -> None:
    script.make_sample(tmp_path, seed=4, size_px=(64, 64), n_buildings=5)
    assert (pixels_of(tmp_path / "pre.tif") != pixels_of(tiny / "pre.tif")[:, :64, :64]).mean() > 0.5


def test_scenes_share_grid_and_have_the_size_asked_for(tiny: Path) -> None:
    with rasterio.open(tiny / "pre.tif") as pre, rasterio.open(tiny / "post.tif") as post:
        assert (pre.width, pre.height) == (post.width, post.height) == TINY_PX
        assert pre.crs == post.crs == rasterio.CRS.from_epsg(32615)
        assert pre.transform == post.transform
        assert pre.dtypes == post.dtypes == ("uint8",) * 3
        assert (pre.transform.a, pre.transform.e) == (0.5, -0.5)


def test_footprints_lie_inside_the_scene_and_are_valid_rfc_7946(tiny: Path) -> None:
    document = json.loads((tiny / "footprints.geojson").read_text(encoding="utf-8"))
    assert "crs" not in document
    assert len({f["properties"]["uid"] for f in document["features"]}) == len(document["features"])
    assert 10 <= len(document["features"]) <= 40
    to_map = Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True)
    with rasterio.open(tiny / "pre.tif") as scene:
        bounds = scene.bounds
    for feature in document["features"]:
        outline = shape(feature["geometry"])
        assert outline.is_valid
        assert outline.geom_type == "Polygon"
        assert outline.exterior.is_ccw
        ring = np.array(outline.exterior.coords)
        np.testing.assert_allclose(ring, ring.round(7), rtol=0, atol=1e-12)
        x, y = to_map.transform(*ring.T)
        assert x.min() >= bounds.left
        assert x.max() <= bounds.right
        assert y.min() >= bounds.bottom
        assert y.max() <= bounds.top
        assert feature["properties"]["damage"] in CLASSES


def test_five_in_a_hundred_of_the_buildings_asked_for_are_damaged_and_none_at_the_border(
    script: ModuleType, full_plan
) -> None:
    town, _ = full_plan
    counts = Counter(b.damage for b in town.buildings if b.is_listed)
    # 1,600 x (3 %, 2 %, 3 %) = 48, 32, 48; the rest is 1,472
    assert counts == {"destroyed": 48, "major-damage": 32, "minor-damage": 48, "no-damage": 1472}
    assert {b.damage for b in town.buildings if not b.is_listed} == {"no-damage"}
    small, _ = script.plan_event((128.0, 128.0), 9, 3)
    assert sum(b.is_listed for b in small.buildings) == 9


def test_damage_follows_the_track_but_spares_some_and_strays(full_plan) -> None:
    town, tornado = full_plan
    listed = [b for b in town.buildings if b.is_listed]
    wind = tornado.strength(np.array([b.x for b in listed]), np.array([b.y for b in listed]))
    is_damaged = np.array([b.damage in ("destroyed", "major-damage") for b in listed])
    assert np.median(wind[is_damaged]) > 0.3
    assert np.median(wind[~is_damaged]) < 0.01
    assert (wind[~is_damaged] > np.median(wind[is_damaged])).any()  # survivors in the core
    assert (wind[is_damaged] < 0.2).any()  # damage away from it


def test_destroyed_buildings_change_more_than_most(script: ModuleType, tmp_path: Path) -> None:
    script.make_sample(tmp_path, seed=5, size_px=(320, 320), n_buildings=60)
    change = np.abs(pixels_of(tmp_path / "pre.tif").astype(int) - pixels_of(tmp_path / "post.tif")).mean(0)
    found: dict[str, list[float]] = {name: [] for name in CLASSES}
    for feature in features_of(tmp_path):
        lon, lat = shape(feature["geometry"]).centroid.coords[0]
        x, y = Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True).transform(lon, lat)
        column, row = int((x - script.ORIGIN[0]) / 0.5), int((script.ORIGIN[1] - y) / 0.5)
        part = change[max(0, row - 8) : row + 8, max(0, column - 8) : column + 8]
        found[feature["properties"]["damage"]].append(float(part.mean()))
    assert found["destroyed"]
    assert min(found["destroyed"]) > np.median(found["no-damage"])


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
    assert share == pytest.approx(0.05, abs=0.005)


def test_committed_footprints_are_those_the_program_makes(script: ModuleType, full_plan, tmp_path: Path) -> None:
    folder = committed()
    town, _ = full_plan
    script.write_footprints(tmp_path / "footprints.geojson", town, np.random.default_rng([7, 4]))
    made = {f["properties"]["uid"]: f for f in features_of(tmp_path)}
    for feature in features_of(folder):
        other = made.pop(feature["properties"]["uid"])
        assert feature["properties"] == other["properties"]
        ours, theirs = (Point(shape(f["geometry"]).centroid) for f in (feature, other))
        assert ours.distance(theirs) < 1e-6
    assert not made
