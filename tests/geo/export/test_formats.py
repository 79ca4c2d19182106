"""Every format written, read back by another program, and compared with what went in."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import geopandas
import numpy as np
import pyarrow
import pyarrow.parquet
import pyogrio
import pytest
import shapely
from pyproj import CRS
from small_parts import in_tiers

from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.geo.export.geometry import to_crs84
from pu_geo.records import DamageMap

Columns = dict[str, list[object]]
TABLES = [name for name in EXPORTERS if name != "heat"]
WITH_LISTS = ("geojson", "parquet")
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
        quick=[("geojson", case) for case in CASES]
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
        if case == "unknown columns" and field in ("fid", "Score"):
            continue  # each driver renames these in its own way; see the next test
        found = [columns[field][row] for row in order]
        bad = [(v, w) for v, w in zip(found, values, strict=True) if not same(field, v, w)]
        assert not bad, f"{field}: {str(bad[0])[:300]}"
    compare_shapes([shapes[row] for row in order], damage_map, is_regular=case in REGULAR)


def compare_shapes(shapes: list[shapely.Geometry | None], damage_map: DamageMap, *, is_regular: bool) -> None:
    """Within 1e-6 degrees of what GeoPandas makes of them; across the antimeridian, of `to_crs84`, which has its own tests."""
    truth = to_crs84(damage_map.wkb, damage_map.grid_crs)
    if is_regular:
        truth = np.array(geopandas.GeoSeries.from_wkb(damage_map.wkb, crs=damage_map.grid_crs).to_crs(4326), dtype=object)
    for shape, true in zip(shapes, truth, strict=True):
        if true is None or shape is None or shape.is_empty:
            assert true is None
            assert shape is None or shape.is_empty
            continue
        assert shape.is_valid
        assert shapely.hausdorff_distance(shape, true) < 1e-6
        assert shape.symmetric_difference(true).area < 1e-6 * true.length


@pytest.mark.parametrize("name", ["gpkg", "parquet", "fgb"])
def test_odd_column_names_and_numbers_arrive(name: str, tmp_path: Path) -> None:
    columns, _ = read(written(name, CASES["unknown columns"], tmp_path))
    order = [columns["building_id"].index(building) for building in ("b0", "b1")]
    spelled = {"gpkg": ("fid_", "Score_"), "parquet": ("fid", "Score"), "fgb": ("fid", "Score")}[name]
    if name != "fgb":  # GDAL takes a column named fid for the feature's own number here
        assert [columns[spelled[0]][row] for row in order] == [7, 8]
    assert [columns[spelled[1]][row] for row in order] == [1, None]
    assert columns["score"][order[1]] is None
    assert [columns["height"][row] for row in order] == [2**31 - 1, 1]


@pytest.mark.parametrize("name", ["gpkg", "fgb", "parquet", "geojson"])
def test_files_say_that_they_are_in_wgs_84_preliminary_and_where(name: str, tmp_path: Path) -> None:
    path = written(name, SPECIAL["antimeridian"], tmp_path)
    options = {"layer": "damage_map"} if name == "gpkg" else {}
    table = geopandas.read_parquet(path) if name == "parquet" else geopandas.read_file(path, **options)
    assert table.crs.equals("EPSG:4326", ignore_axis_order=True)
    assert b"preliminary" in path.read_bytes() or name == "geojson"
    if name in ("gpkg", "fgb"):
        info = pyogrio.read_info(path, layer="damage_map", force_total_bounds=True)
        west, south, east, north = info["total_bounds"]
        assert (west, east) == (-180, 180)
        assert -18 < south < north < -16


@pytest.mark.parametrize("name", ["gpkg", "fgb"])
def test_a_window_finds_its_buildings_through_the_index(name: str, tmp_path: Path) -> None:
    corners = np.random.default_rng(4).uniform(0, 5000, (700, 2))
    damage_map = make([square(500_000 + x, 4_594_200 + y) for x, y in corners])
    path = written(name, damage_map, tmp_path)
    assert pyogrio.read_info(path, layer="damage_map")["capabilities"]["fast_spatial_filter"]
    window = (15.01, 41.51, 15.03, 41.52)
    found = pyogrio.read_dataframe(path, layer="damage_map", bbox=window)
    inside = shapely.intersects(to_crs84(damage_map.wkb, damage_map.grid_crs), shapely.box(*window))
    assert set(found["building_id"]) == {f"b{i}" for i in np.flatnonzero(inside)}
    assert 10 < len(found) < 690


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


def test_parquet_keeps_a_column_that_is_called_as_its_boxes(tmp_path: Path) -> None:
    path = written("parquet", make(ROW[:2], bbox=["mine", None]), tmp_path)
    assert pyarrow.parquet.read_table(path).column("bbox").to_pylist() == ["mine", None]
    assert len(geopandas.read_parquet(path, bbox=tuple(geopandas.read_parquet(path).total_bounds))) == 2


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
    turn: dict[type, Callable[[object], object]] = {
        bool: lambda v: str(v).lower(),
        dict: lambda v: v,
        float: float,
        int: str,
    }
    for field, values in expected(damage_map, tmp_path / "map.csv").items():
        for row, value in zip(rows, values, strict=True):
            wanted = "" if value is None else turn.get(type(value), str)(value)
            found: object = row[field]
            if isinstance(value, dict):
                found = json.loads(str(found))
            elif isinstance(value, float):
                found = float(str(found))
            assert found == wanted or (isinstance(value, int) and float(str(found)) == value)
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
    assert read(written("geojson", damage_map, tmp_path))[0]["label"] == [text, "a=b"]
