"""GeoJSON against RFC 7946, by a checker of our own that knows nothing of the writer."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import shapely

from pu_geo.geo.export.geojson import export_geojson, geometry_texts
from pu_geo.records import DamageMap

_NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?")


class Decimal(float):
    """A number that remembers how many decimals its text had."""

    decimals: int

    def __new__(cls, text: str) -> Decimal:
        number = super().__new__(cls, text)
        match = _NUMBER.fullmatch(text)
        assert match, text
        number.decimals = len(match[1] or "") - int(match[2] or 0)
        return number


def breaches(text: str) -> list[str]:
    """Return each rule of RFC 7946 (and of our own export contract) that a text breaks; [] for a good file."""
    not_numbers: list[str] = []
    root = json.loads(text, parse_float=Decimal, parse_constant=lambda name: not_numbers.append(name) or 0.0)
    found = [f"{name} is no JSON" for name in not_numbers]
    if root.get("type") != "FeatureCollection" or not isinstance(root.get("features"), list):
        return [*found, "no FeatureCollection"]
    if "crs" in root:
        found.append("crs member (4)")
    places: list[tuple[float, float]] = []
    ids = [feature.get("id") for feature in root["features"]]
    if len(set(ids)) != len(ids) or None in ids:
        found.append("ids missing or double")
    for feature in root["features"]:
        if feature.get("type") != "Feature" or not {"geometry", "properties"} <= set(feature):
            found.append("no Feature (3.2)")
            continue
        found += _of_geometry(feature["geometry"], places)
    return found + _of_box(root, places)


def _of_geometry(geometry: dict[str, object] | None, places: list[tuple[float, float]]) -> list[str]:
    if geometry is None:
        return []
    if geometry["type"] not in ("Polygon", "MultiPolygon") or not geometry["coordinates"]:
        return [f"geometry {geometry['type']} or empty"]
    polygons = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    found = [breach for polygon in polygons for i, ring in enumerate(polygon) for breach in _of_ring(ring, is_outer=i == 0)]
    places += [tuple(position[:2]) for polygon in polygons for ring in polygon for position in ring]
    if not found and not shapely.is_valid(shapely.from_geojson(json.dumps(geometry))):
        found.append("not simple")
    return found


def _of_ring(ring: list[list[float]], *, is_outer: bool) -> list[str]:
    found = []
    if len(ring) < 4 or ring[0] != ring[-1]:
        return ["ring open or under four positions (3.1.6)"]
    for position in ring:
        if len(position) != 2:
            found.append("not two numbers")
        elif not (-180 <= position[0] <= 180 and -90 <= position[1] <= 90):
            found.append("outside -180..180, -90..90")
        found += ["over 7 decimals" for value in position if isinstance(value, Decimal) and value.decimals > 7]
    corners = list(pairwise(ring))
    x0, y0 = ring[0]
    turn = sum((a[0] - x0) * (b[1] - y0) - (b[0] - x0) * (a[1] - y0) for a, b in corners)
    if (turn > 0) != is_outer:
        found.append("ring turns the wrong way (3.1.6)")
    if max(p[0] for p in ring) - min(p[0] for p in ring) > 180:
        found.append("crosses the antimeridian (3.1.9)")
    return found


def _of_box(root: dict[str, object], places: list[tuple[float, float]]) -> list[str]:
    box = root.get("bbox")
    if box is None:
        return ["no bbox"] if places else []
    west, south, east, north = box  # type: ignore[misc]
    x, y = np.array(places).T
    inside = (x >= west) & (x <= east) if west <= east else (x >= west) | (x <= east)
    return [] if inside.all() and y.min() == south and y.max() == north else ["bbox does not hold all (5)"]


GOOD = {
    "type": "FeatureCollection",
    "bbox": [0.0, 0.0, 2.0, 2.0],
    "features": [
        {
            "type": "Feature", "id": "a", "properties": {},
            "geometry": {"type": "Polygon", "coordinates": [
                [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [0.0, 0.0]],
                [[0.5, 0.5], [0.5, 1.0], [1.0, 1.0], [0.5, 0.5]],
            ]},
        }
    ],
}  # fmt: skip


def test_the_checker_likes_a_good_file() -> None:
    assert breaches(json.dumps(GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "breach"),
    [
        ("[2.0, 0.0], [2.0, 2.0]", "[2.0, 0.0], [200.0, 2.0]", "outside -180..180, -90..90"),
        ("[2.0, 0.0], [2.0, 2.0], [0.0, 2.0]", "[0.0, 2.0], [2.0, 2.0], [2.0, 0.0]", "ring turns the wrong way (3.1.6)"),
        ("[0.5, 1.0], [1.0, 1.0]", "[1.0, 1.0], [0.5, 1.0]", "ring turns the wrong way (3.1.6)"),
        ("[0.0, 2.0], [0.0, 0.0]", "[0.0, 2.0]", "ring open or under four positions (3.1.6)"),
        ("[0.5, 1.0]", "[0.5, 1.00000001]", "over 7 decimals"),
        ("[0.5, 1.0]", "[0.5, 1.0, 3.0]", "not two numbers"),
        ("[1.0, 1.0]", "[NaN, 1.0]", "NaN is no JSON"),
        ("[1.0, 1.0]", "[-1.0, 1.0]", "bbox does not hold all (5)"),
        ('"id": "a", ', "", "ids missing or double"),
        ('"type": "FeatureCollection"', '"type": "FeatureCollection", "crs": {}', "crs member (4)"),
    ],
)
def test_the_checker_sees_each_breach(old: str, new: str, breach: str) -> None:
    text = json.dumps(GOOD)
    assert old in text
    assert breach in breaches(text.replace(old, new))


def made(shapes: list[shapely.Geometry], crs: str, **columns: list[object]) -> DamageMap:
    ids = [f"b{i}" for i in range(len(shapes))]
    return DamageMap(ids, [shapely.to_wkb(s) for s in shapes], {"building_id": ids, **columns}, crs, {})


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


@pytest.mark.parametrize("seed", [0, 1, 2])
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
    seed: int, crs: str, middle: tuple[float, float], spread: float, size: float, tmp_path: Path
) -> None:
    shapes = polygons(seed, 120, middle, spread, size)
    export_geojson(made(shapes, crs, score=[math.nan] * 120), tmp_path / "map.geojson")
    text = (tmp_path / "map.geojson").read_text(encoding="utf-8")
    assert breaches(text) == []
    features = json.loads(text)["features"]
    assert len(features) == 120
    assert sum(feature["geometry"] is not None for feature in features) > 90
    assert {feature["properties"]["score"] for feature in features} == {None}


def test_pieces_are_joined_without_a_seam(tmp_path: Path) -> None:
    n = 4001  # two whole pieces and one building
    x = 500_000 + 20.0 * np.arange(n)
    export_geojson(made(list(shapely.box(x, 4_594_200, x + 10, 4_594_210)), "EPSG:32633"), tmp_path / "map.geojson")
    text = (tmp_path / "map.geojson").read_text(encoding="utf-8")
    assert breaches(text) == []
    assert [feature["id"] for feature in json.loads(text)["features"]] == [f"b{i}" for i in range(n)]
    assert len(text.splitlines()) == n + 2


def test_geometries_are_the_same_in_bulk_and_one_by_one() -> None:
    shapes = np.array([*polygons(3, 60, (10, 50), 1, 0.01)], dtype=object)
    shapes = shapely.make_valid(shapes)
    shapes = np.array([s for s in shapes if s.geom_type in ("Polygon", "MultiPolygon")] + [None], dtype=object)
    bulk = geometry_texts(shapes)
    alone = [geometry_texts(shapes[i : i + 1])[0] for i in range(len(shapes))]
    assert bulk == alone
    assert bulk[-1] == b"null"
    for text, shape in zip(bulk[:-1], shapes[:-1], strict=True):
        assert shapely.equals(shapely.from_geojson(text.decode()), shape)
