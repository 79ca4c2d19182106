"""Damage maps as GeoJSON: they follow RFC 7946."""

import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import shapely

from pu_geo.geo.export.exporters import export_geojson
from pu_geo.geo.local_space import centroid_places
from pu_geo.records import DamageMap


def assert_follows_rfc_7946(text: str) -> None:
    root = json.loads(text, parse_float=Decimal, parse_constant=pytest.fail)
    assert "crs" not in root  # 4
    features, places = root["features"], []
    assert len({feature["id"] for feature in features}) == len(features)
    for feature in features:
        assert {feature["type"], root["type"]} == {"Feature", "FeatureCollection"}
        if (geometry := feature["geometry"]) is None:
            continue
        assert shapely.is_valid(shapely.from_geojson(json.dumps(geometry, default=float)))
        parts = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
        for i, ring in ((i, ring) for polygon in parts for i, ring in enumerate(polygon)):
            assert (len(ring) >= 4, ring[0] == ring[-1]) == (True, True)  # 3.1.6
            assert all(Decimal(value).as_tuple().exponent >= -7 for position in ring for value in position)
            xy = np.array(ring, dtype=np.float64)
            assert (np.abs(xy) <= [180, 90]).all()
            assert shapely.is_ccw(shapely.linearrings(xy)) == (i == 0)  # 3.1.6
            assert np.ptp(xy[:, 0]) <= 180  # 3.1.9: none crosses the antimeridian
            places.append(xy)
    assert ("bbox" in root) == bool(places)
    if places:
        (west, south, east, north), (x, y) = map(float, root["bbox"]), np.concatenate(places).T
        assert ((x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)).all()  # 5
        assert (y.min(), y.max()) == (south, north)


def made(shapes: list[shapely.Geometry], crs: str = "EPSG:32633", **columns: object) -> DamageMap:
    ids = [f"b{i}" for i in range(len(shapes))]
    wkb = [shapely.to_wkb(s) for s in shapes]
    return DamageMap(ids, wkb, {"building_id": ids, **columns}, crs, {"title": "Made up", "estimate": {"N": 2}})


def exported(folder: Path, *args: object, **kwargs: object) -> dict[str, object]:
    """Write a map; return what the file holds, once nothing in it breaks a rule."""
    export_geojson(made(*args, **kwargs), folder / "map.geojson")
    text = (folder / "map.geojson").read_text(encoding="utf-8")
    assert_follows_rfc_7946(text)
    return json.loads(text)


def polygons(seed: int, n: int, middle: tuple[float, float], spread: float, size: float) -> list[shapely.Geometry]:
    """Every kind of outline: any number of corners, holes, several parts, crossing themselves, thin, turned either way."""
    rng = np.random.default_rng(seed)
    out: list[shapely.Geometry] = []
    for i in range(n):
        at, angle = rng.uniform(-spread, spread, 2) + middle, np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 12)))
        if i % 5 == 0:
            rng.shuffle(angle)  # crosses itself
        ring = np.stack([np.cos(angle), np.sin(angle) * (0.001 if i % 7 == 0 else 1)], axis=-1) * size
        holes = [ring[::-1] * 0.2] if i % 4 == 1 else []
        shape = shapely.Polygon(ring * (1 if i % 2 else -1) + at, [hole + at for hole in holes])
        out.append(shapely.MultiPolygon([shape, shapely.box(*(at + 2 * size), *(at + 3 * size))]) if i % 6 == 2 else shape)
    return out


@pytest.mark.parametrize(
    ("crs", "middle", "spread", "size"),
    [
        ("EPSG:32633", (500_000, 4_594_200), 3000, 8),
        ("EPSG:32760", (819_500, 8_118_000), 3000, 8),  # 180 degrees runs through it
        ("EPSG:3413", (-90_000, -110_000), 3000, 8),
        ("EPSG:4326", (180, -17), 0.01, 1e-4),
        ("EPSG:4326", (0, 0), 0.01, 1e-6),  # a decimeter: rounding changes every one
        ("EPSG:3857", (20_037_508, 5_000_000), 3000, 8),
    ],
)
def test_any_outline_anywhere_follows_rfc_7946(
    crs: str, middle: tuple[float, float], spread: float, size: float, tmp_path: Path
) -> None:
    shapes = polygons(0, 120, middle, spread, size)
    features = exported(tmp_path, shapes, crs, score=[math.nan] * 120)["features"]
    assert len(features) == 120
    assert sum(feature["geometry"] is not None for feature in features) > 90
    assert {feature["properties"]["score"] for feature in features} == {None}


def test_pieces_are_joined_without_a_seam(tmp_path: Path) -> None:
    n = 4001  # two whole pieces and one building
    x = 500_000 + 20.0 * np.arange(n)
    found = exported(tmp_path, list(shapely.box(x, 4_594_200, x + 10, 4_594_210)))
    assert [feature["id"] for feature in found["features"]] == [f"b{i}" for i in range(n)]
    assert len((tmp_path / "map.geojson").read_text().splitlines()) == n + 2


def test_ids_values_and_metadata_are_in_their_places(tmp_path: Path) -> None:
    box = shapely.box(500_000, 4_594_200, 500_010, 4_594_210)
    columns = {"score": [0.5, math.nan, math.inf], "damage_types": [["roof"], [], None]}
    found = exported(tmp_path, [box, shapely.force_3d(box, 9.0), box], **columns)
    assert set(found) == {"type", "features", "bbox", "pu_geo"}
    assert found["pu_geo"] == {"title": "Made up", "estimate": {"N": 2}}
    features = found["features"]
    assert [f["id"] for f in features] == [f["properties"]["building_id"] for f in features] == ["b0", "b1", "b2"]
    assert [f["properties"]["score"] for f in features] == [0.5, None, None]
    assert [f["properties"]["damage_types"] for f in features] == [["roof"], [], None]
    empty = exported(tmp_path, [])
    assert (empty["features"], "bbox" in empty) == ([], False)
    with pytest.raises(ValueError, match="1 values for 2 buildings"):
        exported(tmp_path, [box, box], score=[0.1])


def test_what_lies_across_the_antimeridian_is_split_and_comes_home(tmp_path: Path) -> None:
    # Zone 60 south: easting 500,000 is 177 degrees; 180 degrees at 17 south lies near easting 819,500.
    crossing = shapely.box(819_000, 8_117_900, 820_000, 8_118_000)
    found = exported(tmp_path, [crossing], crs="EPSG:32760")
    geometry = found["features"][0]["geometry"]
    assert geometry["type"] == "MultiPolygon"
    west, east = sorted(part.bounds for part in shapely.get_parts(shapely.from_geojson(json.dumps(geometry))))
    assert (west[0], east[2]) == (-180, 180)
    assert west[2] < -179.9
    assert found["bbox"][0] > 179.9
    assert found["bbox"][2] < -179.9
    lon, lat = centroid_places([shapely.to_wkb(crossing)], "EPSG:32760")
    assert abs(lon[0]) > 179.99
    assert lat[0] == pytest.approx(-17, abs=0.05)
    lon, lat = centroid_places([shapely.to_wkb(shapely.box(499_990, 4_594_190, 500_010, 4_594_210))], "EPSG:32633")
    assert (lon[0], lat[0]) == (15.0, pytest.approx(41.499, abs=0.001))
    assert lat[0] == round(lat[0], 6)
