"""The sample event is made up, the same each time, and fit for the app's first hour."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import rasterio
from pyproj import Transformer
from shapely.geometry import shape

FOLDER = Path(__file__).resolve().parents[2] / "sample_data"
SCENES = ("pre.tif", "post.tif", "sar-post.tif")
TINY_PX = (256, 208)
TO_MAP = Transformer.from_crs("EPSG:4326", "EPSG:32615", always_xy=True)
pytestmark = pytest.mark.skipif(
    not all((FOLDER / name).is_file() for name in (*SCENES, "footprints.geojson")),
    reason="the sample event has not been made; run python sample_data/make_sample.py",
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", FOLDER / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def features_of(folder: Path) -> list[dict]:
    return json.loads((folder / "footprints.geojson").read_text(encoding="utf-8"))["features"]


def pixels_of(path: Path) -> np.ndarray:
    with rasterio.open(path) as scene:
        return scene.read()


def test_the_same_seed_gives_the_same_event(script: ModuleType, tmp_path: Path) -> None:
    for name in ("tiny", "same"):
        script.make_sample(tmp_path / name, seed=3, size_px=TINY_PX, n_buildings=40)
    assert features_of(tmp_path / "same") == features_of(tmp_path / "tiny")
    for name in SCENES:
        np.testing.assert_array_equal(pixels_of(tmp_path / "same" / name), pixels_of(tmp_path / "tiny" / name))
    with rasterio.open(tmp_path / "tiny/pre.tif") as pre, rasterio.open(tmp_path / "tiny/post.tif") as post:
        assert (pre.width, pre.height, pre.dtypes) == (*TINY_PX, ("uint8",) * 3)
        assert (pre.crs, pre.transform, pre.shape) == (post.crs, post.transform, post.shape)
        assert (pre.crs, pre.res) == (rasterio.CRS.from_epsg(32615), (0.5, 0.5))
        assert_footprints_are_valid_and_inside(features_of(tmp_path / "tiny"), pre.bounds)


def assert_footprints_are_valid_and_inside(features: list[dict], bounds: rasterio.coords.BoundingBox) -> None:
    assert len({f["properties"]["uid"] for f in features}) == len(features)
    for feature in features:
        outline = shape(feature["geometry"])
        assert (outline.is_valid, outline.geom_type, outline.exterior.is_ccw) == (True, "Polygon", True)
        ring = np.array(outline.exterior.coords)
        np.testing.assert_allclose(ring, ring.round(7), rtol=0, atol=1e-12)
        x, y = TO_MAP.transform(*ring.T)
        assert bounds.left <= x.min() <= x.max() <= bounds.right
        assert bounds.bottom <= y.min() <= y.max() <= bounds.top


def test_the_committed_event_is_small_and_complete() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir() if p.is_file()) < 15_000_000
    assert "crs" not in json.loads((FOLDER / "footprints.geojson").read_text(encoding="utf-8"))
    features = features_of(FOLDER)
    assert len(features) == 1600
    with rasterio.open(FOLDER / "pre.tif") as pre, rasterio.open(FOLDER / "post.tif") as post:
        assert (pre.crs, pre.transform, pre.shape) == (post.crs, post.transform, post.shape)
        assert_footprints_are_valid_and_inside(features[::50], pre.bounds)
    share = sum(f["properties"]["damage"] in ("destroyed", "major-damage") for f in features) / len(features)
    assert share == pytest.approx(0.054, abs=0.001)  # 80 by the wind, and 6 that stand in water alone
    with rasterio.open(FOLDER / "sar-post.tif") as radar:
        assert (radar.count, radar.dtypes, radar.units, radar.res) == (1, ("float32",), ("dB",), (1.25, 1.25))
        assert np.isnan(radar.nodata)


def test_committed_footprints_are_those_the_program_makes(script: ModuleType, tmp_path: Path) -> None:
    size_m = tuple(n * script.GSD_M for n in script.SIZE_PX)
    town, *_ = script.plan_event(size_m, script.N_BUILDINGS, 7)
    script.write_footprints(tmp_path / "footprints.geojson", town, np.random.default_rng([7, 4]))
    made = {f["properties"]["uid"]: f for f in features_of(tmp_path)}
    for feature in features_of(FOLDER):
        other = made.pop(feature["properties"]["uid"])
        assert feature["properties"] == other["properties"]
        assert shape(feature["geometry"]).centroid.distance(shape(other["geometry"]).centroid) < 1e-6
    assert not made
