"""WKB is looked at before GEOS may read it."""

from __future__ import annotations

import sqlite3
import struct
import time
from pathlib import Path

import pytest
import shapely

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import raw_footprints
from pu_geo.geo.readers.footprint_files import load_features

SQUARE = shapely.box(0, 0, 1, 1)
HOLED = shapely.Polygon(shapely.box(0, 0, 9, 9).exterior, [shapely.box(1, 1, 2, 2).exterior])
SEVERAL = shapely.multipolygons([shapely.box(20, 20, 21, 21), HOLED, shapely.Polygon(), SQUARE])
COLLECTION = shapely.GeometryCollection([shapely.Point(1, 2), shapely.LineString([(0, 0), (1, 1)]), SEVERAL])
GOOD = [
    SQUARE,
    HOLED,
    SEVERAL,
    COLLECTION,
    shapely.GeometryCollection([COLLECTION, SQUARE, shapely.MultiPoint([(0, 0), (1, 1)])]),
    shapely.MultiLineString([[(0, 0), (1, 1)], [(2, 2), (3, 3)]]),
    shapely.Point(),
    shapely.GeometryCollection(),
]


def nested(levels: int, kind: int = 7, inner: bytes | None = None) -> bytes:
    """A square inside `levels` collections of one member each."""
    return struct.pack("<BII", 1, kind, 1) * levels + (inner or shapely.to_wkb(SQUARE))


def write_gpkg(path: Path, blobs: list[bytes]) -> Path:
    """Write WKB of any content as the one layer of a GeoPackage."""
    database = sqlite3.connect(path)
    database.executescript(
        """PRAGMA application_id = 0x47504B47;
        CREATE TABLE gpkg_spatial_ref_sys (srs_id, organization, organization_coordsys_id, definition);
        INSERT INTO gpkg_spatial_ref_sys VALUES (4326, 'EPSG', 4326, '');
        CREATE TABLE gpkg_contents (table_name, data_type);
        INSERT INTO gpkg_contents VALUES ('b', 'features');
        CREATE TABLE gpkg_geometry_columns (table_name, column_name, srs_id);
        INSERT INTO gpkg_geometry_columns VALUES ('b', 'geom', 4326);
        CREATE TABLE b (fid INTEGER PRIMARY KEY, geom BLOB);"""
    )
    header = b"GP\0\1" + struct.pack("<i", 4326)
    database.executemany("INSERT INTO b (geom) VALUES (?)", [(header + blob,) for blob in blobs])
    database.commit()
    database.close()
    return path


def test_a_geometry_nested_200_000_deep_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    path = write_gpkg(tmp_path / "deep.gpkg", [shapely.to_wkb(SQUARE), nested(200_000)])
    with pytest.raises(FootprintError, match="nested over 4 levels") as refused:
        load_features(path)
    assert refused.value.kind == "parse"


@pytest.mark.parametrize("kind", [4, 5, 6])
def test_multi_kinds_nested_in_themselves_are_unreadable(tmp_path: Path, kind: int) -> None:
    raw = load_features(write_gpkg(tmp_path / "deep.gpkg", [nested(200_000, kind), shapely.to_wkb(SQUARE)]))
    assert raw.is_unreadable.tolist() == [True, False]


def test_depth_behind_other_members_is_found() -> None:
    first = struct.pack("<BII", 1, 7, 2) + shapely.to_wkb(SEVERAL, flavor="iso") + nested(5)
    with pytest.raises(FootprintError, match="nested"):
        raw_footprints.checked_wkb([first], "f")


def test_four_levels_are_read_and_five_are_not(tmp_path: Path) -> None:
    assert shapely.area(load_features(write_gpkg(tmp_path / "four.gpkg", [nested(4)])).geometries).tolist() == [1.0]
    with pytest.raises(FootprintError):
        raw_footprints.checked_wkb([nested(5)], "f")


@pytest.mark.parametrize("flavor", ["iso", "extended"])
@pytest.mark.parametrize("byte_order", [0, 1])
@pytest.mark.parametrize("has_z", [False, True])
def test_what_geos_writes_passes_unchanged(flavor: str, byte_order: int, has_z: bool) -> None:
    shapes = [shapely.force_3d(shape, 7.0) if has_z else shape for shape in GOOD]
    blobs = [shapely.to_wkb(s, flavor=flavor, byte_order=byte_order, output_dimension=3) for s in shapes]
    tagged = [shapely.to_wkb(shapely.set_srid(s, 4326), byte_order=byte_order, include_srid=True) for s in shapes]
    assert raw_footprints.checked_wkb([*blobs, None, *tagged], "f") == [*blobs, None, *tagged]


def test_measures_are_skipped() -> None:
    for flavor in ("iso", "extended"):
        for text in ("MULTIPOLYGON M", "MULTIPOLYGON ZM"):
            point = " 5" * (1 + text.count("Z") + text.count("M", 12))
            ring = f"((1{point}, 2{point}, 3 7{point[2:]}, 1{point}))"
            blob = shapely.to_wkb(shapely.from_wkt(f"{text} ({ring}, {ring})"), flavor=flavor, output_dimension=4)
            assert raw_footprints.checked_wkb([blob], "f") == [blob]


def test_every_cut_off_and_every_wrong_kind_is_unreadable() -> None:
    whole = shapely.to_wkb(SEVERAL)
    broken = [whole[:n] for n in range(9)] + [
        b"\2" + whole[1:],
        struct.pack("<BII", 1, 99, 0),
        struct.pack("<BII", 1, 4003, 0),
    ]
    broken += [struct.pack("<BII", 1, 3, 2**32 - 1), struct.pack("<BII", 1, 7, 2**32 - 1), nested(1, 6, nested(1, 6))]
    assert raw_footprints.checked_wkb(broken, "f") == [raw_footprints.UNREADABLE] * len(broken)


@pytest.mark.parametrize("kind", range(8, 13))
def test_curved_geometry_is_refused_with_its_number(tmp_path: Path, kind: int) -> None:
    for blob in (struct.pack("<BII", 1, kind, 0), struct.pack("<BII", 1, 1000 + kind, 0), nested(1, inner=nested(9, kind))):
        with pytest.raises(FootprintError, match=rf"type 1?0*{kind}\b") as refused:
            load_features(write_gpkg(tmp_path / f"{len(blob)}{blob[2]}.gpkg", [blob]))
        assert refused.value.kind == "parse"


@pytest.mark.parametrize("inside", [False, True])
def test_rings_without_end_are_refused(monkeypatch: pytest.MonkeyPatch, inside: bool) -> None:
    monkeypatch.setattr(raw_footprints, "MAX_PARTS", 1000)
    blob = nested(int(inside), 6, struct.pack("<BII", 1, 3, 600) + bytes(4 * 600))
    assert raw_footprints.checked_wkb([blob], "f") == [blob]
    with pytest.raises(FootprintError, match="over 1,000 rings"):
        raw_footprints.checked_wkb([blob, blob], "f")


def test_150_000_multipolygons_are_looked_at_in_a_moment() -> None:
    blobs = [shapely.to_wkb(shapely.multipolygons([SQUARE]))] * 150_000
    started = time.process_time()
    raw_footprints.checked_wkb(blobs, "f")
    assert time.process_time() - started < 1.5  # 0.3 s when measured
