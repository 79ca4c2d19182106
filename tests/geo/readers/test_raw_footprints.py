"""Geometry that was made to harm: nested without end, cut off, curved, or of countless rings."""

from __future__ import annotations

import sqlite3
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import shapely

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import in_child
from pu_geo.geo.readers.raw_footprints import from_values

SQUARE = shapely.box(0, 0, 1, 1)


def nested(levels: int, kind: int = 7, inner: bytes | None = None) -> bytes:
    """A square inside `levels` collections of one member each."""
    return struct.pack("<BII", 1, kind, 1) * levels + (inner or shapely.to_wkb(SQUARE))


def write_gpkg(path: Path, blobs: list[bytes]) -> Path:
    """Write WKB of any content as the one layer of a GeoPackage."""
    database = sqlite3.connect(path)
    database.executescript(
        """PRAGMA application_id = 0x47504B47;
        PRAGMA user_version = 10300;
        CREATE TABLE gpkg_spatial_ref_sys (srs_name, srs_id, organization, organization_coordsys_id, definition);
        INSERT INTO gpkg_spatial_ref_sys VALUES ('x', 4326, 'EPSG', 4326, '');
        CREATE TABLE gpkg_contents (table_name, data_type, identifier, description, last_change,
          min_x, min_y, max_x, max_y, srs_id);
        INSERT INTO gpkg_contents (table_name, data_type, srs_id) VALUES ('b', 'features', 4326);
        CREATE TABLE gpkg_geometry_columns (table_name, column_name, geometry_type_name, srs_id, z, m);
        INSERT INTO gpkg_geometry_columns VALUES ('b', 'geom', 'GEOMETRY', 4326, 2, 2);
        CREATE TABLE b (fid INTEGER PRIMARY KEY, geom BLOB);"""
    )
    header = b"GP\0\1" + struct.pack("<i", 4326)
    database.executemany("INSERT INTO b (geom) VALUES (?)", [(header + blob,) for blob in blobs])
    database.commit()
    database.close()
    return path


def described(path: Path) -> str:
    try:
        return in_child.describe_footprints(path)
    except FootprintError as refusal:
        return f"{refusal.kind}: {refusal.problem}"


def test_a_geometry_nested_200_000_deep_ends_the_child_alone(tmp_path: Path) -> None:
    found = described(write_gpkg(tmp_path / "deep.gpkg", [shapely.to_wkb(SQUARE), nested(200_000)]))
    assert found.startswith("parse: deep.gpkg cannot be read as footprints: it is damaged (the reader stopped")


def test_every_cut_off_and_every_wrong_kind_is_unreadable() -> None:
    whole = shapely.to_wkb(shapely.multipolygons([SQUARE, SQUARE]))
    broken = [*(whole[:n] for n in range(9)), struct.pack("<BII", 1, 99, 0)]
    broken += [struct.pack("<BII", 1, 3, 2**32 - 1), struct.pack("<BII", 1, 7, 2**32 - 1), nested(1, 6, nested(1, 6))]
    found = from_values(shapely.from_wkb, [*broken, None, whole], [{}] * len(broken), "EPSG:4326")
    assert found.is_unreadable.tolist() == [True] * len(broken) + [False, False]


@pytest.mark.parametrize("kind", [8, 1012])
def test_curved_geometry_is_refused(tmp_path: Path, kind: int) -> None:
    found = described(write_gpkg(tmp_path / "curved.gpkg", [shapely.to_wkb(SQUARE), struct.pack("<BII", 1, kind, 0)]))
    assert found.startswith("parse: curved.gpkg")
    assert "curved geometry" in found


def test_rings_without_end_stay_within_the_memory_of_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_child, "FOOTPRINTS", replace(in_child.FOOTPRINTS, memory_bytes=in_child.GIB))
    blob = struct.pack("<BII", 1, 3, 12_000_000) + bytes(4 * 12_000_000)  # 200 bytes each in GEOS
    assert described(write_gpkg(tmp_path / "rings.gpkg", [blob])).startswith("parse: rings.gpkg")
