"""Damage maps as GeoPackage, written by Python's sqlite3 alone, with the style QGIS opens them in."""

from __future__ import annotations

import errno
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from pu_geo.atomic_write import export_file
from pu_geo.geo.export.codebook import Field, fields_of
from pu_geo.geo.export.geometry import Extent
from pu_geo.geo.export.pieces import Piece, as_text, caption, flat_cells, pieces_of
from pu_geo.geo.export.styles import qml, sld
from pu_geo.geo.vector.crs import is_local
from pu_geo.records import DamageMap

LAYER = "damage_map"
GEOMETRY = "geom"
_TREE = f"rtree_{LAYER}_{GEOMETRY}"
_SRS_ID = 4326
_UNDEFINED_CARTESIAN = -1  # GeoPackage's own number for coordinates without a place on the Earth
_MULTIPOLYGON = 6
_SQL_TYPES = {"bool": "BOOLEAN", "int": "INTEGER", "float": "REAL"}
_HEAD = struct.Struct("<2sBBi4d")
_WITH_ENVELOPE = 0b011  # little-endian, envelope of four numbers
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}

# Source: OGC GeoPackage 1.3, tables and the extensions for R-trees and metadata; `layer_styles` as QGIS reads and writes it.
_TABLES = f"""
PRAGMA application_id = 1196444487;
PRAGMA user_version = 10300;
CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, organization TEXT NOT NULL,
  organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT);
INSERT INTO gpkg_spatial_ref_sys VALUES
  ('Undefined Cartesian SRS', -1, 'NONE', -1, 'undefined', NULL), ('Undefined geographic SRS', 0, 'NONE', 0, 'undefined', NULL);
CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE,
  description TEXT DEFAULT '', last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
  FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_geometry_columns (table_name TEXT NOT NULL UNIQUE, column_name TEXT NOT NULL,
  geometry_type_name TEXT NOT NULL, srs_id INTEGER NOT NULL, z TINYINT NOT NULL, m TINYINT NOT NULL,
  PRIMARY KEY (table_name, column_name), FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name),
  FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_extensions (table_name TEXT, column_name TEXT, extension_name TEXT NOT NULL, definition TEXT NOT NULL,
  scope TEXT NOT NULL, UNIQUE (table_name, column_name, extension_name));
CREATE TABLE gpkg_metadata (id INTEGER PRIMARY KEY, md_scope TEXT NOT NULL DEFAULT 'dataset', md_standard_uri TEXT NOT NULL,
  mime_type TEXT NOT NULL DEFAULT 'text/xml', metadata TEXT NOT NULL DEFAULT '');
CREATE TABLE gpkg_metadata_reference (reference_scope TEXT NOT NULL, table_name TEXT, column_name TEXT,
  row_id_value INTEGER, timestamp DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  md_file_id INTEGER NOT NULL, md_parent_id INTEGER, FOREIGN KEY (md_file_id) REFERENCES gpkg_metadata(id));
INSERT INTO gpkg_extensions VALUES
  ('{LAYER}', '{GEOMETRY}', 'gpkg_rtree_index', 'http://www.geopackage.org/spec120/#extension_rtree', 'write-only'),
  ('gpkg_metadata', NULL, 'gpkg_metadata', 'http://www.geopackage.org/spec120/#extension_metadata', 'read-write'),
  ('gpkg_metadata_reference', NULL, 'gpkg_metadata', 'http://www.geopackage.org/spec120/#extension_metadata', 'read-write');
CREATE TABLE layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, f_table_catalog TEXT(256),
  f_table_schema TEXT(256), f_table_name TEXT(256), f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT,
  styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30),
  update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')));
CREATE VIRTUAL TABLE {_TREE} USING rtree(id, minx, maxx, miny, maxy);
"""

# The index's triggers call functions that GDAL and QGIS bring along; sqlite3 alone has none, so they come last.
_BOX = f"ST_MinX(NEW.{GEOMETRY}), ST_MaxX(NEW.{GEOMETRY}), ST_MinY(NEW.{GEOMETRY}), ST_MaxY(NEW.{GEOMETRY})"
_ADD = f"INSERT OR REPLACE INTO {_TREE} VALUES (NEW.fid, {_BOX});"
_DROP = f"DELETE FROM {_TREE} WHERE id IN (OLD.fid, NEW.fid);"
_HAS = f"(NEW.{GEOMETRY} NOT NULL AND NOT ST_IsEmpty(NEW.{GEOMETRY}))"
_TRIGGERS = f"""
CREATE TRIGGER {_TREE}_insert AFTER INSERT ON {LAYER} WHEN {_HAS} BEGIN {_ADD} END;
CREATE TRIGGER {_TREE}_update1 AFTER UPDATE OF {GEOMETRY} ON {LAYER} WHEN OLD.fid = NEW.fid AND {_HAS} BEGIN {_ADD} END;
CREATE TRIGGER {_TREE}_update2 AFTER UPDATE OF {GEOMETRY} ON {LAYER} WHEN OLD.fid = NEW.fid AND NOT {_HAS} BEGIN {_DROP} END;
CREATE TRIGGER {_TREE}_update3 AFTER UPDATE ON {LAYER} WHEN OLD.fid != NEW.fid AND {_HAS} BEGIN {_DROP} {_ADD} END;
CREATE TRIGGER {_TREE}_update4 AFTER UPDATE ON {LAYER} WHEN OLD.fid != NEW.fid AND NOT {_HAS} BEGIN {_DROP} END;
CREATE TRIGGER {_TREE}_delete AFTER DELETE ON {LAYER} WHEN OLD.{GEOMETRY} NOT NULL
  BEGIN DELETE FROM {_TREE} WHERE id = OLD.fid; END;
"""


def export_gpkg(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoPackage: layer `damage_map`, spatial index, metadata, and a style by `triage` for QGIS.

    Multipolygons in EPSG:4326, not in the project CRS: then each format holds the same numbers, and a project CRS without a
    code needs no definition that another program may not know. A map without a place on the Earth is in local meters, in
    GeoPackage's undefined Cartesian system (-1), which its description states. Lists are joined by ";", dicts are JSON text.

    Raises:
        PuGeoError: kind "disk", see `export_file`.
    """
    with export_file(out) as beside:
        beside.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(beside, isolation_level=None)) as db:
                _fill(db, damage_map)
        except sqlite3.OperationalError as cause:
            if cause.sqlite_errorcode & 0xFF not in _NO_ROOM:
                raise
            raise OSError(errno.ENOSPC, str(cause)) from cause


def _fill(db: sqlite3.Connection, damage_map: DamageMap) -> None:
    fields = fields_of(damage_map)
    names = _column_names(fields)
    db.execute("PRAGMA journal_mode = OFF")  # no other process opens the file before it has its name
    db.execute("PRAGMA synchronous = OFF")
    db.executescript(_TABLES)
    columns = ", ".join(f"{_quoted(name)} {_SQL_TYPES.get(f.kind, 'TEXT')}" for name, f in zip(names, fields, strict=True))
    db.execute(f"CREATE TABLE {LAYER} (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, {GEOMETRY} MULTIPOLYGON, {columns})")
    db.execute("BEGIN")
    extent = Extent()
    for piece in pieces_of(damage_map, "gpkg"):
        extent.add(piece.shapes)
        marks = ", ".join("?" * (len(fields) + 2))
        db.executemany(f"INSERT INTO {LAYER} VALUES ({marks})", _rows(piece, fields, _srs_id(damage_map)))
        db.executemany(f"INSERT INTO {_TREE} VALUES (?, ?, ?, ?, ?)", _boxes(piece))
    _describe(db, damage_map, extent.box(may_cross=False) or [None] * 4)
    db.execute("COMMIT")
    db.executescript(_TRIGGERS)


def _srs_id(damage_map: DamageMap) -> int:
    return _UNDEFINED_CARTESIAN if is_local(damage_map.grid_crs) else _SRS_ID


def _column_names(fields: Sequence[Field]) -> list[str]:
    """Return column names that differ by more than case, which SQL does not see, and are not our own two."""
    taken, names = {"fid", GEOMETRY}, []
    for field in fields:
        name = field.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names.append(name)
    return names


def _rows(piece: Piece, fields: Sequence[Field], srs_id: int) -> Iterator[tuple[object, ...]]:
    fids = range(piece.start + 1, piece.start + 1 + len(piece.ids))
    return zip(fids, _blobs(piece.shapes, srs_id), *flat_cells(piece, fields), strict=True)


def _blobs(shapes: NDArray[np.object_], srs_id: int) -> Iterator[bytes | None]:
    multi = shapes.copy()
    rows = np.flatnonzero((shapely.get_type_id(shapes) != _MULTIPOLYGON) & ~shapely.is_missing(shapes))
    multi[rows] = shapely.multipolygons(shapes[rows], indices=np.arange(len(rows)))
    for wkb, (x0, y0, x1, y1) in zip(shapely.to_wkb(multi, byte_order=1), shapely.bounds(shapes), strict=True):
        yield None if wkb is None else _HEAD.pack(b"GP", 0, _WITH_ENVELOPE, srs_id, x0, x1, y0, y1) + wkb


def _boxes(piece: Piece) -> Iterator[tuple[object, ...]]:
    x0, y0, x1, y1 = shapely.bounds(piece.shapes).T
    rows = np.flatnonzero(~shapely.is_missing(piece.shapes))
    fids = (rows + piece.start + 1).tolist()
    return zip(fids, *(side[rows].tolist() for side in (x0, x1, y0, y1)), strict=True)


def _describe(db: sqlite3.Connection, damage_map: DamageMap, box: Sequence[float | None]) -> None:
    srs_id, (title, disclaimer) = _srs_id(damage_map), caption(damage_map)
    about = [title, disclaimer.rstrip("."), str(damage_map.metadata.get("coordinates", ""))]
    wkt = CRS.from_epsg(_SRS_ID).to_wkt("WKT1_GDAL")
    db.execute("INSERT INTO gpkg_spatial_ref_sys VALUES ('WGS 84 geodetic', ?, 'EPSG', ?, ?, NULL)", (_SRS_ID, _SRS_ID, wkt))
    db.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, min_x, min_y, max_x, max_y, srs_id) "
        "VALUES (?, 'features', ?, ?, ?, ?, ?, ?, ?)",
        (LAYER, LAYER, ". ".join(part for part in about if part), *box, srs_id),
    )
    db.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier) VALUES ('layer_styles', 'attributes', 'layer_styles')"
    )
    db.execute("INSERT INTO gpkg_geometry_columns VALUES (?, ?, 'MULTIPOLYGON', ?, 0, 0)", (LAYER, GEOMETRY, srs_id))
    db.execute(
        "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "
        "styleSLD, useAsDefault, description, owner, update_time) VALUES ('', '', ?, ?, 'triage', ?, ?, 1, ?, '', ?)",
        (LAYER, GEOMETRY, qml(), sld(LAYER), "Buildings by triage", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}"),
    )
    text = as_text(dict(damage_map.metadata))
    db.execute(
        "INSERT INTO gpkg_metadata VALUES (1, 'dataset', 'https://www.rfc-editor.org/rfc/rfc8259', 'application/json', ?)",
        (text,),
    )
    db.execute(
        "INSERT INTO gpkg_metadata_reference (reference_scope, table_name, md_file_id) VALUES ('table', ?, 1)", (LAYER,)
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
