"""Damage maps as GeoJSON, read back by another program."""

from __future__ import annotations

import json
import math
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.geo.export.geojson import export_geojson
from pu_geo.geo.export.geometry import lonlat, to_crs84
from pu_geo.records import DamageMap


def damage_map(shapes: list[shapely.Geometry], crs: str = "EPSG:32633", **columns: object) -> DamageMap:
    ids = [f"b{i}" for i in range(len(shapes))]
    return DamageMap(ids, [shapely.to_wkb(s) for s in shapes], columns, crs, {"title": "Made up", "estimate": {"N": 2}})


def export(tmp_path: Path, *args: object, **kwargs: object) -> dict[str, object]:
    out = tmp_path / "map.geojson"
    EXPORTERS["geojson"](damage_map(*args, **kwargs), out)
    assert [p.name for p in tmp_path.iterdir()] == ["map.geojson"]
    return json.loads(out.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def square(x: float, y: float, size: float = 10.0) -> shapely.Polygon:
    return shapely.box(500_000 + x, 4_594_200 + y, 500_000 + x + size, 4_594_200 + y + size)


def coordinates(found: dict[str, object]) -> np.ndarray:
    geometries = [json.dumps(f["geometry"]) for f in found["features"] if f["geometry"]]  # type: ignore[attr-defined]
    return shapely.get_coordinates(shapely.from_geojson(geometries))


def test_another_program_finds_the_footprints_in_their_place(tmp_path: Path) -> None:
    shapes = [square(0, 0), square(100, 50, 20)]
    export(tmp_path, shapes, score=np.array([0.25, math.nan]), label=["damaged", None])
    table = geopandas.read_file(tmp_path / "map.geojson")
    assert table.crs.to_epsg() == 4326
    back = table.to_crs(32633).geometry
    assert max(a.hausdorff_distance(b) for a, b in zip(back, shapes, strict=True)) < 0.02  # 7 decimals: 1.1 cm
    assert table["building_id"].tolist() == ["b0", "b1"]


def test_the_file_follows_rfc_7946(tmp_path: Path) -> None:
    holed = shapely.Polygon(square(0, 0, 30).exterior.coords[::-1], [square(5, 5, 5).exterior.coords])
    two = shapely.MultiPolygon([square(100, 0), square(120, 0)])
    high = shapely.force_3d(square(200, 0), 9.0)
    found = export(tmp_path, [holed, two, high], score=[0.5, math.nan, math.inf], damage_types=[["roof"], [], None])
    assert set(found) == {"type", "features", "bbox", "pu_geo"}
    assert found["pu_geo"] == {"title": "Made up", "estimate": {"N": 2}}
    features = found["features"]
    assert [f["id"] for f in features] == [f["properties"]["building_id"] for f in features] == ["b0", "b1", "b2"]
    assert [f["properties"]["score"] for f in features] == [0.5, None, None]
    assert features[0]["properties"]["damage_types"] == ["roof"]
    assert [f["geometry"]["type"] for f in features] == ["Polygon", "MultiPolygon", "Polygon"]
    outer, inner = (shapely.LinearRing(ring) for ring in features[0]["geometry"]["coordinates"])
    assert outer.is_ccw
    assert not inner.is_ccw
    xy = coordinates(found)
    np.testing.assert_array_equal(xy, np.round(xy, 7))
    np.testing.assert_allclose(found["bbox"], [*xy.min(axis=0), *xy.max(axis=0)])
    assert all(len(point) == 2 for point in features[2]["geometry"]["coordinates"][0])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_geometry_is_valid_after_rounding_even_where_it_is_thin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = []
    for _ in range(300):
        angle, n = rng.uniform(0, 6.3), rng.integers(4, 9)
        stretch = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag(
            [5, rng.uniform(0.003, 0.05)]
        )
        turn = np.sort(rng.uniform(0, 2 * np.pi, n))
        points = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ stretch.T + [500_000, 4_594_200] + rng.uniform(0, 50, 2)
        shapes.append(shapely.Polygon(points))
    out = to_crs84([shapely.to_wkb(s) for s in shapes], "EPSG:32633")
    kept = np.array([s for s in out if s is not None])
    assert len(kept) > 100
    assert shapely.is_valid(kept).all()
    assert not shapely.is_empty(kept).any()
    xy = shapely.get_coordinates(kept)
    np.testing.assert_array_equal(xy, np.round(xy, 7))


def test_a_footprint_smaller_than_rounding_has_a_null_geometry(tmp_path: Path) -> None:
    found = export(tmp_path, [square(0, 0, 0.001), square(10, 10)])
    assert found["features"][0]["geometry"] is None
    assert found["features"][1]["geometry"]["type"] == "Polygon"


def test_a_footprint_across_the_antimeridian_is_split(tmp_path: Path) -> None:
    # Zone 60 south: easting 500,000 is 177 degrees; 180 degrees at 17 south lies near easting 819,500.
    crossing = shapely.box(819_000, 8_117_900, 820_000, 8_118_000)
    found = export(tmp_path, [crossing], crs="EPSG:32760")
    geometry = found["features"][0]["geometry"]
    assert geometry["type"] == "MultiPolygon"
    west, east = sorted(shapely.get_parts(shapely.from_geojson(json.dumps(geometry))), key=lambda p: p.bounds[0])
    assert west.bounds[0] == -180
    assert east.bounds[2] == 180
    assert west.bounds[2] < -179.9
    assert found["bbox"][0] > 179.9
    assert found["bbox"][2] < -179.9
    lon, lat = lonlat([shapely.to_wkb(crossing)], "EPSG:32760")
    assert abs(lon[0]) > 179.99
    assert lat[0] == pytest.approx(-17, abs=0.05)


def test_longitudes_beyond_180_come_home(tmp_path: Path) -> None:
    found = export(
        tmp_path, [shapely.box(180.1, -17.1, 180.2, -17.0), shapely.box(179.99, -17.1, 180.01, -17.0)], crs="EPSG:4326"
    )
    first, second = (shapely.from_geojson(json.dumps(f["geometry"])) for f in found["features"])
    np.testing.assert_allclose(first.bounds, (-179.9, -17.1, -179.8, -17.0))
    assert second.geom_type == "MultiPolygon"
    assert second.area == pytest.approx(0.002)


def test_lonlat_is_the_centroid_in_six_decimals() -> None:
    lon, lat = lonlat([shapely.to_wkb(shapely.box(499_990, 4_594_190, 500_010, 4_594_210))], "EPSG:32633")
    assert lon[0] == 15.0
    assert lat[0] == pytest.approx(41.499, abs=0.001)
    assert lat[0] == round(lat[0], 6)


def test_an_empty_map_is_still_a_collection(tmp_path: Path) -> None:
    found = export(tmp_path, [])
    assert found["features"] == []
    assert "bbox" not in found


def test_strings_that_look_like_json_do_no_harm(tmp_path: Path) -> None:
    text = '"},{"type":"Feature"\u2028<script>'
    assert export(tmp_path, [square(0, 0)], note=[text])["features"][0]["properties"]["note"] == text


def test_a_failed_export_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    export(tmp_path, [square(0, 0)])
    before = (tmp_path / "map.geojson").read_bytes()
    broken = damage_map([square(0, 0)], note=[object()])
    with pytest.raises(TypeError):
        export_geojson(broken, tmp_path / "map.geojson")
    assert (tmp_path / "map.geojson").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.geojson"]


def test_columns_of_another_length_are_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 values for 2 buildings"):
        export_geojson(damage_map([square(0, 0), square(20, 20)], score=[0.1]), tmp_path / "x.geojson")
