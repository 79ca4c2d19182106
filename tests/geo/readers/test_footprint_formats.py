"""Footprints out of shapefiles, FlatGeobuf, GeoParquet and CSV: the same table as from GeoJSON, or one clear refusal."""

import json
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from geo_parts import GRID

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import in_child
from pu_geo.geo.readers.in_child import read_footprints
from pu_geo.geo.readers.raw_footprints import from_values
from pu_geo.records import FootprintTable

SQUARES = [shapely.box(500_010 + 30 * i, 4_594_220, 500_020 + 30 * i, 4_594_235) for i in range(3)]
BOWTIE = shapely.Polygon([(500_110, 4_594_210), (500_130, 4_594_230), (500_130, 4_594_210), (500_110, 4_594_230)])
FAR = shapely.box(600_000, 4_594_220, 600_010, 4_594_235)


def frame(*more: shapely.Geometry | None, crs: str | None = "EPSG:32633") -> geopandas.GeoDataFrame:
    shapes = [*SQUARES, *more]
    rows = {"uid": [f"u{i}" for i in range(len(shapes))], "storeys": range(len(shapes)), "name": "Häuser"}
    return geopandas.GeoDataFrame(rows, geometry=shapes, crs=crs)


def zipped(folder: Path, *names: str, into: str = "f.zip", inside: str = "") -> Path:
    with zipfile.ZipFile(folder / into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            for part in folder.glob(f"{name}.*"):
                if part.suffix in (".shp", ".shx", ".dbf", ".prj", ".cpg"):
                    archive.write(part, inside + part.name)
    return folder / into


def write_shapefile(table: geopandas.GeoDataFrame, folder: Path) -> Path:
    table.to_file(folder / "a.shp")
    return zipped(folder, "a", inside="a folder/")


def write_plain_shapefile(table: geopandas.GeoDataFrame, folder: Path) -> Path:
    table.to_file(folder / "a.shp")
    return folder / "a.shp"


def write_flatgeobuf(table: geopandas.GeoDataFrame, folder: Path) -> Path:
    table.to_file(folder / "a.fgb", SPATIAL_INDEX="NO")
    return folder / "a.fgb"


def write_parquet(table: geopandas.GeoDataFrame, folder: Path) -> Path:
    table.to_parquet(folder / "a.parquet", write_covering_bbox=True)
    return folder / "a.parquet"


def write_csv(table: geopandas.GeoDataFrame, folder: Path) -> Path:
    epsg = table.crs.to_epsg() if table.crs else ""
    table.to_wkt().rename(columns={"geometry": "WKT"}).assign(epsg=epsg).to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


Write = Callable[[geopandas.GeoDataFrame, Path], Path]
every_format = pytest.mark.parametrize("write", [write_shapefile, write_flatgeobuf, write_parquet, write_csv])


def refusal(path: Path, crs: str | None = None) -> FootprintError:
    with pytest.raises(FootprintError) as refused:
        read_footprints(path, GRID, crs=crs)
    assert crs or path.name in refused.value.problem
    return refused.value


def outlines(table: FootprintTable) -> list[shapely.Geometry]:
    return list(shapely.from_wkb(list(table.wkb)))


@every_format
def test_each_format_is_moved_out_of_its_own_system_and_counts_what_it_repairs_and_drops(
    write: Write, tmp_path: Path
) -> None:
    table = read_footprints(write(frame(BOWTIE, FAR, None).to_crs(3857), tmp_path), GRID)
    assert list(table.building_ids) == ["u0", "u1", "u2", "u3"]
    assert [row["storeys"] for row in table.attributes] == [0, 1, 2, 3]
    assert {row["name"] for row in table.attributes} == {"Häuser"}
    assert (table.n_in, table.n_repaired, table.n_dropped, len(table.notes)) == (6, 1, 2, 3)
    for outline, square in zip(outlines(table)[:3], SQUARES, strict=True):
        assert shapely.hausdorff_distance(outline, square) < 0.01
    np.testing.assert_allclose(table.area_m2[:3], 150.0, rtol=2e-3)


@every_format
def test_points_and_a_file_cut_in_two_are_refused_in_each_format(write: Write, tmp_path: Path) -> None:
    points = frame()
    points.geometry = points.centroid
    assert refusal(write(points, tmp_path)).kind == "type"
    path = write(frame(), tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(path).kind == "parse"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'crs' was not provided")  # that is the point
@pytest.mark.parametrize("write", [write_plain_shapefile, write_flatgeobuf, write_parquet])
def test_a_file_without_coordinate_system_takes_the_given_one_or_is_refused(write: Write, tmp_path: Path) -> None:
    path = write(frame(crs=None), tmp_path)
    assert refusal(path).kind == "crs"
    assert refusal(path, "http://127.0.0.1:9/crs").kind == "crs"
    assert shapely.equals(outlines(read_footprints(path, GRID, crs="EPSG:32633"))[0], SQUARES[0])
    if path.suffix == ".shp":
        path.with_suffix(".prj").write_text('LOCAL_CS["Factory floor",UNIT["Meter",1]]')
        assert refusal(path).kind == "crs"


def test_the_given_coordinate_system_serves_geojson_but_does_not_overrule_a_file(tmp_path: Path) -> None:
    path = tmp_path / "f.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": json.loads(frame().to_json())["features"]}))
    assert refusal(path).kind == "bounds"
    assert len(read_footprints(path, GRID, crs="EPSG:32633").wkb) == 3
    assert len(read_footprints(write_flatgeobuf(frame(), tmp_path), GRID, crs="EPSG:4326").wkb) == 3


# Archives


def test_an_archive_with_a_false_size_unpacks_no_more_than_it_declares(tmp_path: Path) -> None:
    path = tmp_path / "f.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for suffix in ("shp", "shx", "dbf"):
            archive.writestr(f"a.{suffix}", bytes(5_000_000))
    data = bytearray(path.read_bytes())
    at = -1
    while (at := data.find(b"PK\1\2", at + 1)) >= 0:
        struct.pack_into("<I", data, at + 24, 1000)  # uncompressed size in the central directory
    path.write_bytes(data)
    assert refusal(path).kind == "parse"


def test_of_archives_mac_leftovers_are_passed_over_and_two_shapefiles_or_a_password_refused(tmp_path: Path) -> None:
    path = write_shapefile(frame(), tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/a folder/._a.shp", b"\0\5\26\7")
    assert len(read_footprints(path, GRID).wkb) == 3
    data = bytearray(path.read_bytes())
    for mark, at_flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + at_flags] |= 1
    path.write_bytes(data)
    assert "encrypted" in refusal(path).problem
    frame().to_file(tmp_path / "roads.shp")
    error = refusal(zipped(tmp_path, "a", "roads"))
    assert (error.kind, "roads.shp" in error.problem) == ("layers", True)


# GeoParquet


def rewritten(path: Path, change: Callable[[dict[str, object]], object]) -> Path:
    table = pq.read_table(path)
    geo = json.loads(table.schema.metadata[b"geo"])
    change(geo["columns"]["geometry"])
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo)}), path)
    return path


def test_geoparquet_is_read_by_its_metadata_and_without_them_or_with_odd_ones_refused(tmp_path: Path) -> None:
    table = frame().assign(seen=np.datetime64("2024-05-06", "ms"), parts=[[1], [2, 3], None], share=[0.5, np.nan, 1.0])
    rows = read_footprints(write_parquet(table, tmp_path), GRID).attributes
    assert set(rows[0]) == {"uid", "storeys", "name", "seen", "parts", "share"}  # without the boxes
    assert (rows[0]["seen"], rows[1]["parts"], rows[1]["share"]) == ("2024-05-06T00:00:00", [2, 3], None)
    in_degrees = rewritten(write_parquet(frame().to_crs(4326), tmp_path), lambda column: column.pop("crs"))
    assert shapely.hausdorff_distance(outlines(read_footprints(in_degrees, GRID))[0], SQUARES[0]) < 0.01
    for change, kind in (({"encoding": "polygon"}, "parse"), ({"crs": "http://x"}, "crs"), ({"covering": [1]}, "parse")):
        odd = rewritten(write_parquet(frame(), tmp_path), lambda column, change=change: column.update(change))
        assert refusal(odd).kind == kind
    pq.write_table(pa.table({"geometry": [b"\1"]}), tmp_path / "t.parquet")
    assert "GeoParquet" in refusal(tmp_path / "t.parquet").problem


# CSV


def test_csv_knows_its_coordinate_system_and_any_usual_separator(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    frame().to_wkt().to_csv(path, index=False)
    error = refusal(path)  # without a word it is in degrees
    assert (error.kind, "epsg" in error.hint) == ("bounds", True)
    assert len(read_footprints(path, GRID, crs="EPSG:32633").wkb) == 3
    path.write_text("\n".join(["id,geom", *(f'b{i},"SRID=32633;{square.wkt}"' for i, square in enumerate(SQUARES)), ""]))
    assert shapely.equals(outlines(read_footprints(path, GRID))[1], SQUARES[1])
    for separator in (";", "\t"):
        frame().to_crs(4326).to_wkt().to_csv(path, sep=separator, index=False, encoding="utf-8-sig")
        assert list(read_footprints(path, GRID).building_ids) == ["u0", "u1", "u2"]
    shape = frame().to_crs(4326).geometry[0].wkt
    path.write_text(f'wkt,n,x,house,none\n"{shape}",12,-0.5,007,\n')
    (attributes,) = read_footprints(path, GRID).attributes
    assert attributes == {"n": 12, "x": -0.5, "house": "007", "none": None}


def test_unusable_csv_is_refused(tmp_path: Path) -> None:
    for lines, kind in (
        (["id,lat,lon", "1,41.5,15"], "parse"),
        (["id,wkt"], "empty"),
        (["id,wkt", "1,POLYGON 5"], "parse"),
        (["id,wkt", "1,", "2,"], "empty"),
        (["id;wkt;epsg", "1;POLYGON EMPTY;4326", "2;POLYGON EMPTY;3857"], "crs"),
    ):
        (tmp_path / "f.csv").write_text("\n".join(lines))
        assert refusal(tmp_path / "f.csv").kind == kind, lines


# Geometry that was made to harm


def nested(levels: int, kind: int = 7, inner: bytes | None = None) -> bytes:
    """A square inside `levels` collections of one member each."""
    return struct.pack("<BII", 1, kind, 1) * levels + (inner or shapely.to_wkb(SQUARES[0]))


def gpkg_with(folder: Path, blob: bytes) -> Path:
    """Write a GeoPackage whose first outline is WKB of any content."""
    path = folder / "a.gpkg"
    frame().to_file(path, layer="a")
    with closing(sqlite3.connect(path)) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE a SET geom = ? WHERE fid = 1", (b"GP\0\1" + struct.pack("<i", 32633) + blob,))
    return path


@pytest.mark.parametrize(
    ("blob", "words"),
    [(nested(200_000), "the reader stopped"), *((struct.pack("<BII", 1, kind, 0), "curved geometry") for kind in (8, 1012))],
    ids=["nested 200,000 deep", "curved", "curved with height"],
)
def test_geometry_that_ends_the_child_or_is_curved_is_refused(tmp_path: Path, blob: bytes, words: str) -> None:
    found = refusal(gpkg_with(tmp_path, blob))
    assert (found.kind, words in found.problem) == ("parse", True)


def test_rings_without_end_stay_within_the_memory_of_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_child, "FOOTPRINTS", replace(in_child.FOOTPRINTS, memory_bytes=in_child.GIB))
    blob = struct.pack("<BII", 1, 3, 12_000_000) + bytes(4 * 12_000_000)  # 200 bytes each in GEOS
    table = read_footprints(gpkg_with(tmp_path, blob), GRID)
    assert (list(table.building_ids), table.dropped) == (["u1", "u2"], {"unreadable": 1})


def test_every_cut_off_and_every_wrong_kind_is_unreadable_and_a_signaling_nan_no_warning() -> None:
    whole = shapely.to_wkb(shapely.multipolygons(SQUARES))
    broken = [*(whole[:n] for n in range(9)), struct.pack("<BII", 1, 99, 0)]
    broken += [struct.pack("<BII", 1, 3, 2**32 - 1), struct.pack("<BII", 1, 7, 2**32 - 1), nested(1, 6, nested(1, 6))]
    signaling = bytearray(shapely.to_wkb(SQUARES[0], byte_order=1))
    signaling[29:37] = struct.pack("<Q", 0x7FF0000000000001)  # x of the second corner, after the counts
    values = [*broken, None, whole, bytes(signaling)]
    found = from_values(shapely.from_wkb, values, [{}] * len(values), "EPSG:4326")
    assert found.is_unreadable.tolist() == [True] * len(broken) + [False] * 3
    assert not np.isfinite(shapely.get_coordinates(found.geometries[-1])).all()
