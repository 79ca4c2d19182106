"""Every format written, read back by another program, and compared with what went in."""

import csv
import json
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import geopandas
import numpy as np
import pyarrow
import pyarrow.parquet
import pyogrio
import pytest
import shapely
from pyproj import CRS
from small_parts import in_tiers

from pu_geo.errors import PuGeoError
from pu_geo.geo.export import layers
from pu_geo.geo.export.codebook import known_fields
from pu_geo.geo.export.exporters import EXPORTERS, export_kml
from pu_geo.geo.export.geometry import to_crs84
from pu_geo.geo.export.layers import export_gpkg
from pu_geo.geo.readers.footprint_files import load_features
from pu_geo.geo.vector.crs import LOCAL as NOWHERE
from pu_geo.records import DamageMap

Columns = dict[str, list[object]]
TABLES = [name for name in EXPORTERS if name not in ("heat", "geojson")]  # the short GeoJSON has a test of its own
WITH_LISTS = ("geojson-full", "parquet")
SCRIPTS = ["Ελλάδα", "日本語", "עברית", "العربية", "हिन्दी", "ไทย", "🏚️ é", "a;b,\"c\"\n'd'\t<&>"]
LONG = "long " * 200_000 + "end"


def square(x: float, y: float, size: float = 10.0) -> shapely.Polygon:
    return shapely.box(x, y, x + size, y + size)


def make(shapes: list[shapely.Geometry], crs: str = "EPSG:32633", **columns: list[object]) -> DamageMap:
    """A damage map with every kind of column, some of it null."""
    n = len(shapes)
    fields: Columns = {
        "building_id": [f"b{i}" for i in range(n)],
        "assessed": [i % 2 == 0 for i in range(n)],
        "triage": [("confirmed", "flagged", "below", "not_assessed")[i % 4] for i in range(n)],
        "score": [math.nan if i == 0 else None if i == 1 else i / 8 for i in range(n)],
        "rank": [None if i == 1 else i + 1 for i in range(n)],
        "p_low": [None] * n,
        "damage_types": [([], ["roof", "wall"], None)[i % 3] for i in range(n)],
        "label": [None if i % 2 else "damaged" for i in range(n)],
        "source_attributes": [{"name": "x", "floors": i, "none": None} for i in range(n)],
        **columns,
    }
    ids = [str(name) for name in fields["building_id"]]
    return DamageMap(
        ids, [shapely.to_wkb(s) for s in shapes], fields, crs, {"title": "Made up", "disclaimer": "preliminary"}
    )


ROW = [square(500_000 + 30 * i, 4_594_200) for i in range(8)]
HOLED = shapely.Polygon(
    square(0, 0, 30).exterior.coords[::-1], [square(5, 5, 5).exterior.coords, square(15, 15, 9).exterior.coords]
)
EAST = shapely.transform(HOLED, lambda xy: xy + np.array([500_500, 4_594_300]))
BOW_TIE = shapely.Polygon([(500_000, 4_594_000), (500_020, 4_594_020), (500_020, 4_594_000), (500_000, 4_594_020)])
LOCAL = CRS.from_proj4("+proj=tmerc +lat_0=41 +lon_0=15 +k=1 +x_0=0 +y_0=0 +ellps=WGS84 +units=m +type=crs").to_wkt()
REGULAR = {
    "usual": make(
        [*ROW[:5], EAST, shapely.MultiPolygon([ROW[5], EAST]), shapely.MultiPolygon([ROW[6]])],
        building_id=SCRIPTS, label=[*SCRIPTS[1:], LONG],
    ),
    "arctic": make([square(-100_000 + 40 * i, -500_000) for i in range(4)], "EPSG:3413"),
    "own system": make([square(40 * i, 55_000) for i in range(3)], LOCAL),
    "none": make([]),
    "numpy": make(ROW[:3], score=np.array([0.25, np.nan, 1.0]), rank=[np.int64(3), None, np.int64(1)]),  # type: ignore[arg-type]
    "unknown columns": make(ROW[:2], label=[5, "x"], height=[2**31 - 1, 1], ok=[True, None], Score=[1, None], fid=[7, 8]),
}  # fmt: skip
SPECIAL = {
    "antimeridian": make([shapely.box(819_000, 8_117_900, 820_000, 8_118_000), square(819_000, 8_110_000)], "EPSG:32760"),
    "bow tie": make([BOW_TIE, ROW[0]]),
    "vanishing": make([square(500_000, 4_594_200, 0.001), ROW[1], ROW[2]]),
}
CASES = {**REGULAR, **SPECIAL}


def written(name: str, damage_map: DamageMap, folder: Path) -> Path:
    out = folder / f"map.{name}"
    EXPORTERS[name](damage_map, out)
    assert [path.name for path in folder.iterdir()] == [out.name]
    return out


def read(path: Path) -> tuple[Columns, list[shapely.Geometry | None]]:
    """Read with GDAL or Arrow: columns without the driver's own, and shapes."""
    if path.suffix == ".parquet":
        table, geometry = pyarrow.parquet.read_table(path), "geometry"
    else:
        options = {"layer": "damage_map"} if path.suffix == ".gpkg" else {}
        meta, table = pyogrio.read_arrow(path, **options)
        geometry = meta["geometry_name"] or "wkb_geometry"
    columns = table.to_pydict()
    blobs = columns.pop(geometry)
    return columns, [shapely.from_wkb(blob) if blob else None for blob in blobs]


def expected(damage_map: DamageMap, path: Path) -> Columns:
    """What a reader must find, by column name."""
    found: Columns = {}
    for name, column in damage_map.columns.items():
        values = [value.item() if isinstance(value, np.generic) else value for value in column]
        values = [None if isinstance(value, float) and not math.isfinite(value) else value for value in values]
        if name == "damage_types" and path.suffix.lstrip(".") not in WITH_LISTS:
            values = [None if value is None else ";".join(value) for value in values]  # type: ignore[arg-type]
        found[name] = values
    return found


def same(name: str, value: object, wanted: object) -> bool:
    if isinstance(wanted, list | dict) and isinstance(value, str):
        value = json.loads(value)  # dicts are text outside GeoJSON; GDAL shows lists in it as text too where one is empty
    if isinstance(wanted, float | int) and not isinstance(wanted, bool) and isinstance(value, float | int):
        return math.isclose(value, wanted, rel_tol=1e-12)
    return value == wanted or (name == "label" and str(value) == str(wanted))


@pytest.mark.parametrize(
    ("name", "case"),  # of a KML document without placemarks GDAL shows no layer; its own test looks at it as XML
    in_tiers(
        [(name, case) for name in TABLES for case in CASES if name != "csv" and (name, case) != ("kml", "none")],
        "slow",
        quick=[("geojson-full", case) for case in CASES]
        + [("parquet", case) for case in CASES]
        + [(name, case) for name in ("gpkg", "fgb", "kml") for case in ("usual", "unknown columns", "vanishing")],
    ),
)
def test_another_program_finds_every_value_and_outline(name: str, case: str, tmp_path: Path) -> None:
    damage_map = CASES[case]
    path = written(name, damage_map, tmp_path)
    columns, shapes = read(path)
    assert len(shapes) == len(damage_map.building_ids)
    wanted = expected(damage_map, path)
    order = [columns["building_id"].index(building) for building in wanted["building_id"]]
    for field, values in wanted.items():
        if case == "unknown columns" and (name, field) in (("fgb", "fid"), ("kml", "fid"), ("kml", "Score")):
            continue  # GDAL takes a column named fid for the feature's own number, and names in KML in any case
        spelled = f"{field}_" if name == "gpkg" and field in ("fid", "Score") else field
        found = [columns[spelled][row] for row in order]
        bad = [(v, w) for v, w in zip(found, values, strict=True) if not same(field, v, w)]
        assert not bad, f"{field}: {str(bad[0])[:300]}"
    truth = to_crs84(damage_map.wkb, damage_map.grid_crs)  # across the antimeridian; this has tests of its own
    if case in REGULAR:
        truth = np.array(geopandas.GeoSeries.from_wkb(damage_map.wkb, crs=damage_map.grid_crs).to_crs(4326), dtype=object)
    for shape, true in zip([shapes[row] for row in order], truth, strict=True):
        if true is None or shape is None or shape.is_empty:
            assert true is None
            assert shape is None or shape.is_empty
            continue
        assert shape.is_valid
        assert shapely.hausdorff_distance(shape, true) < 1e-6
        assert shape.symmetric_difference(true).area < 1e-6 * true.length


@pytest.mark.parametrize("name", ["gpkg", "fgb", "parquet", "geojson-full"])
def test_files_say_that_they_are_in_wgs_84_preliminary_and_where(name: str, tmp_path: Path) -> None:
    path = written(name, SPECIAL["antimeridian"], tmp_path)
    options = {"layer": "damage_map"} if name == "gpkg" else {}
    table = geopandas.read_parquet(path) if name == "parquet" else geopandas.read_file(path, **options)
    assert table.crs.equals("EPSG:4326", ignore_axis_order=True)
    assert b"preliminary" in path.read_bytes() or name == "geojson-full"
    if name in ("gpkg", "fgb"):
        info = pyogrio.read_info(path, layer="damage_map", force_total_bounds=True)
        west, south, east, north = info["total_bounds"]
        assert (west, east) == (-180, 180)
        assert -18 < south < north < -16


def test_parquet_says_what_its_geometry_is_and_has_the_box_of_each_outline(tmp_path: Path) -> None:
    path = written("parquet", REGULAR["usual"], tmp_path)
    metadata = pyarrow.parquet.read_metadata(path).metadata
    geo = json.loads(metadata[b"geo"])
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    column = geo["columns"]["geometry"]
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Polygon", "MultiPolygon"])
    np.testing.assert_allclose(column["bbox"], geopandas.read_parquet(path).total_bounds, atol=1e-9)
    assert json.loads(metadata[b"pu_geo"])["title"] == "Made up"
    path.unlink()
    path = written("parquet", SPECIAL["vanishing"], tmp_path)
    boxes = pyarrow.parquet.read_table(path).column("bbox").to_pylist()
    shapes = geopandas.read_parquet(path).geometry
    assert [box and tuple(box.values()) for box in boxes] == [None, *(shape.bounds for shape in shapes[1:])]
    assert list(geopandas.read_parquet(path, bbox=shapes[2].bounds)["building_id"]) == ["b2"]


# CSV


def rows_of(path: Path) -> list[dict[str, str]]:
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with path.open(encoding="utf-8-sig", newline="") as file:
        limit = csv.field_size_limit(2_000_000)
        try:
            return list(csv.DictReader(file))
        finally:
            csv.field_size_limit(limit)


@pytest.mark.parametrize("case", CASES)
def test_csv_holds_the_same_values(case: str, tmp_path: Path) -> None:
    damage_map = CASES[case]
    rows = rows_of(written("csv", damage_map, tmp_path))
    assert len(rows) == len(damage_map.building_ids)
    for field, values in expected(damage_map, tmp_path / "map.csv").items():
        for found, value in zip((row[field] for row in rows), values, strict=True):
            if isinstance(value, dict):
                assert json.loads(found) == value
            elif isinstance(value, float | int) and not isinstance(value, bool):
                assert float(found) == value
            else:
                assert found == (str(value).lower() if isinstance(value, bool) else value or "")
    centers = shapely.centroid(to_crs84(damage_map.wkb, damage_map.grid_crs))
    for row, center in zip(rows, centers, strict=True):
        if case in REGULAR and center is not None:
            assert (float(row["lon"]), float(row["lat"])) == pytest.approx((center.x, center.y), abs=2e-6)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx", "\n=x", "'=x"])
def test_csv_alone_disarms_formulas_and_leaves_negative_numbers_alone(text: str, tmp_path: Path) -> None:
    columns = {"label": [text, "a=b"], "damage_types": [["roof", text], [text]], "shift_dx_m": [-1.5, 0.0]}
    damage_map = make([shapely.box(-70.1, -33.1, -70.0, -33.0)] * 2, "EPSG:4326", **columns)
    first, second = rows_of(written("csv", damage_map, tmp_path))
    assert (first["label"], first["damage_types"]) == ("'" + text, f"roof;'{text}")
    assert (second["label"], second["damage_types"]) == ("a=b", "'" + text)
    assert (first["lon"], first["shift_dx_m"]) == ("-70.05", "-1.5")
    (tmp_path / "map.csv").unlink()
    assert read(written("geojson-full", damage_map, tmp_path))[0]["label"] == [text, "a=b"]


# GeoPackage and FlatGeobuf as the child writes them


def squares(n: int) -> DamageMap:
    x, y = np.random.default_rng(n).random((2, n))
    shapes = shapely.box(x, y, x + 0.002, y + 0.002)
    return DamageMap([f"b{i}" for i in range(n)], list(shapely.to_wkb(shapes)), {"rank": list(range(n))}, "EPSG:4326", {})


@pytest.mark.parametrize("name", layers.DRIVERS)
@pytest.mark.parametrize("n", [0, 2001])
def test_a_map_of_any_size_arrives_whole(name: str, n: int, tmp_path: Path) -> None:
    EXPORTERS[name](squares(n), tmp_path / f"map.{name}")
    found = pyogrio.read_dataframe(tmp_path / f"map.{name}", layer="damage_map")
    assert sorted(found["rank"]) == list(range(n))


@pytest.mark.parametrize("n_bytes", in_tiers([20_000, 200_000, 400_000], "disk", quick=[200_000]))
@pytest.mark.parametrize("name", layers.DRIVERS)
def test_a_full_disk_is_refused_and_leaves_the_older_map(
    name: str, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"map.{name}"
    out.write_bytes(b"older")
    monkeypatch.setattr(layers, "WRITING", replace(layers.WRITING, file_bytes=n_bytes))
    with pytest.raises(PuGeoError) as caught:
        EXPORTERS[name](squares(5000), out)
    assert caught.value.kind == "disk"
    assert out.read_bytes() == b"older"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_map_is_a_table_of_geopandas_on_demand() -> None:
    plain = squares(3)
    columns = {"rank": [2, None, 1], "assessed": [True, None, False], "damage_types": [["roof", "wall"], [], None]}
    frame = layers.to_geodataframe(replace(plain, columns=columns))
    assert list(frame.columns) == ["building_id", "rank", "assessed", "damage_types", "geometry"]
    assert [str(frame[name].dtype) for name in ("rank", "assessed")] == ["Int64", "boolean"]
    assert frame["damage_types"].iloc[:2].tolist() == ["roof;wall", ""]
    assert frame["damage_types"].isna().tolist() == [False, False, True]
    assert frame.crs == "EPSG:4326"
    local = layers.to_geodataframe(replace(plain, grid_crs=NOWHERE))
    assert local.crs is None
    assert shapely.to_wkb(local.geometry.to_numpy()).tolist() == list(plain.wkb)


# The GeoPackage around its layer, and the style of KML

TRIAGE = ["confirmed", "flagged", "high_precision", "high_recall", "below", "not_assessed"]


def exported(folder: Path, n: int = 6) -> Path:
    x = [15 + 0.001 * i for i in range(n)]
    shapes = [shapely.box(at, 41.5, at + 0.0002, 41.5002) for at in x]
    columns = {"triage": TRIAGE[:n]}
    ids = [f"b{i}" for i in range(n)]
    meta = {"title": "Quake", "disclaimer": "preliminary", "run_id": "r1"}
    export_gpkg(DamageMap(ids, [shapely.to_wkb(s) for s in shapes], columns, "EPSG:4326", meta), folder / "map.gpkg")
    return folder / "map.gpkg"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_the_database_is_sound_readable_and_styled_for_qgis(tmp_path: Path) -> None:
    path = exported(tmp_path)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert rows(path, "PRAGMA application_id") == [(int.from_bytes(b"GPKG", "big"),)]
    assert rows(path, "SELECT count(*) FROM rtree_damage_map_geom") == [(6,)]
    assert rows(path, "SELECT rtreecheck('rtree_damage_map_geom')") == [("ok",)]
    assert [tuple(layer) for layer in pyogrio.list_layers(path)] == [("damage_map", "MultiPolygon"), ("layer_styles", None)]
    assert pyogrio.read_info(path, layer="damage_map")["layer_metadata"]["DESCRIPTION"] == "Quake. preliminary"
    assert '"run_id":"r1"' in str(rows(path, "SELECT metadata FROM gpkg_metadata"))
    raw = load_features(path)
    assert [row["building_id"] for row in raw.attributes] == [f"b{i}" for i in range(6)]
    assert raw.crs == "EPSG:4326"
    assert shapely.is_valid(raw.geometries).all()
    names = "f_table_name, f_geometry_column, useAsDefault, styleQML"
    ((table, column, is_default, qml),) = rows(path, f"SELECT {names} FROM layer_styles")
    assert (table, column, is_default) == ("damage_map", "geom", 1)
    renderer = ElementTree.fromstring(str(qml)).find("renderer-v2")
    assert (renderer.get("type"), renderer.get("attr")) == ("categorizedSymbol", "triage")
    fills = {}
    for category in renderer.iter("category"):
        symbol = renderer.find(f"symbols/symbol[@name='{category.get('symbol')}']")
        options = {option.get("name"): option.get("value") for option in symbol.iter("Option") if option.get("name")}
        fills[category.get("value")] = (options["color"], options["style"])
    assert list(fills) == TRIAGE == known_fields()["triage"].allowed.split("; ")
    assert fills["confirmed"] == ("213,94,0,217", "solid")
    assert fills["not_assessed"][1] == "b_diagonal"
    red, green, blue, _ = map(int, str(fills["below"][0]).split(","))
    assert red == green == blue


@pytest.mark.parametrize("n", [0, 6])
def test_kml_is_colored_too_and_is_xml_whatever_the_texts_hold(n: int, tmp_path: Path) -> None:
    ids = [f"b{i}\x00\x0b\ufffe<&\r" for i in range(n)]
    wkb = [shapely.to_wkb(shapely.box(15, 41, 15.1, 41.1))] * n
    export_kml(DamageMap(ids, wkb, {"triage": TRIAGE[:n]}, "EPSG:4326", {"title": "A & B"}), tmp_path / "map.kml")
    name = "{http://www.opengis.net/kml/2.2}"
    root = ElementTree.fromstring((tmp_path / "map.kml").read_bytes())
    assert [node.text for node in root.iter(f"{name}styleUrl")] == [f"#{value}" for value in TRIAGE[:n]]
    assert {f"#{node.get('id')}" for node in root.iter(f"{name}Style")} >= {f"#{value}" for value in TRIAGE}
    found = [node.findtext(f"{name}name") for node in root.iter(f"{name}Placemark")]
    assert found == [f"b{i}\ufffd\ufffd\ufffd<&\r" for i in range(n)]
    style = next(root.iter(f"{name}Style"))
    assert style.findtext(f"{name}PolyStyle/{name}color") == "d9005ed5"  # alpha, blue, green, red
