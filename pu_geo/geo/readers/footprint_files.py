"""Footprint files as they are: features out of GeoJSON, GeoPackage and others, nothing repaired yet.

GeoPackages are copied and read with Python's sqlite3 alone. GDAL never opens one: it would bring a second SQLite library
into the process, and it cannot be stopped when a view of the file never ends. Other formats are read by `ogr_files` and
`table_files`. All of this is meant for the child process alone; see `in_child`.
"""

from __future__ import annotations

import importlib
import math
import shutil
import sqlite3
import struct
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
import shapely

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import raw_footprints, xbd
from pu_geo.geo.readers.file_kinds import check_footprint_magic, regular_file
from pu_geo.geo.readers.raw_footprints import RawFootprints, broken, from_blobs, known_crs
from pu_geo.geo.vector import crs as systems

MAX_GPKG_BYTES = 1_000_000_000
MAX_JSON_BYTES = 400_000_000  # parsed JSON takes about five times its size in memory
MAX_TABLE_BYTES = 400_000_000  # CSV, about as JSON
MAX_SQL_SECONDS = 60.0
_UNDEFINED_SRS = (-1, 0, 99999)  # the last one is what GDAL and QGIS write
_ENVELOPE_BYTES = (0, 32, 48, 48, 64)
READERS = {"zip": "ogr_files", "shp": "ogr_files", "fgb": "ogr_files", "parquet": "table_files", "csv": "table_files"}


def load_features(path: Path | str, crs: str | None = None, *, in_pixels: bool = False) -> RawFootprints:
    """Read every feature of a footprint file, of whatever format its content is; it is neither changed nor locked.

    In this very process, into which GDAL or Arrow may be loaded: files of other people go through `in_child`.

    Args:
        path: GeoJSON, xBD labels, GeoPackage, shapefile (zipped, or .shp with its side files), FlatGeobuf, GeoParquet, or
            CSV with WKT.
        crs: "EPSG:n" or WKT, for a file that does not name its own. Without it GeoJSON and CSV are in longitude/latitude.

        in_pixels: a file that names none is in pixels of a picture without a place, and its CRS `crs.LOCAL`.

    Raises:
        FootprintError: kind missing, link, driver, size, parse, coords, crs, layers, view, open or timeout; of archives
            also path, symlink, ratio.
    """
    if crs is not None:
        crs = _given_crs(crs)
    elif in_pixels:
        crs = systems.LOCAL
    real = regular_file(path, FootprintError, MAX_GPKG_BYTES)
    if any(folder.name.endswith(".pugeo") and real.relative_to(folder).parts[0] != "sources" for folder in real.parents):
        raise FootprintError(
            f"{real.name} belongs to a PU-Geo project ({real.parent.name}), which is in use.",
            "Export the footprints from that project first, then choose the export.",
            kind="open",
        )
    kind = check_footprint_magic(real)
    if kind == "gpkg":
        return _load_gpkg(real, crs)
    if kind == "json":
        return _load_json(regular_file(real, FootprintError, MAX_JSON_BYTES), crs)
    return _load_foreign(regular_file(real, FootprintError, MAX_TABLE_BYTES) if kind == "csv" else real, kind, crs)


def _given_crs(text: str) -> str:
    try:
        return known_crs(text)
    except ValueError as cause:
        raise FootprintError(
            f"{text[:60]!r} is not a known coordinate system.", "Give it as EPSG:n, such as EPSG:32633.", kind="crs"
        ) from cause


def _load_foreign(path: Path, kind: str, crs: str | None) -> RawFootprints:
    """Read a format that needs GDAL or Arrow, neither of which is loaded for the other, or for formats that need none."""
    reader = importlib.import_module(f"pu_geo.geo.readers.{READERS[kind]}")
    with tempfile.TemporaryDirectory(prefix="pu-geo-") as folder:
        blobs, attributes, found = reader.read(kind, path, Path(folder), crs)
    try:
        system = found if found == crs else known_crs(found)
    except ValueError as cause:
        raise broken(
            path.name, f"its coordinate system {found[:60]!r} is not known", "Save it in EPSG:4326.", "crs"
        ) from cause
    plain = orjson.loads(orjson.dumps(attributes, default=_plain, option=orjson.OPT_NON_STR_KEYS))
    return from_blobs(blobs, plain, [None] * len(blobs), system, path.name)


def _plain(value: object) -> str | None:
    """Turn a value that JSON does not have into text; binary becomes null."""
    return None if isinstance(value, bytes | memoryview) else str(value)


# GeoJSON


def _load_json(path: Path, crs: str | None) -> RawFootprints:
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        root = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        near = str(cause.doc)[cause.pos : cause.pos + 9].lstrip("-+")
        if near.startswith(("NaN", "Infinity")) or "infinity" in cause.msg:
            raise broken(path.name, f"a coordinate or value is not a finite number ({cause})", kind="coords") from cause
        raise broken(path.name, f"it is not valid JSON ({cause})", "Export it again, as UTF-8 GeoJSON.") from cause
    if xbd.is_xbd(root):
        return xbd.footprints_of(root, in_pixels=crs == systems.LOCAL)
    features = _features_of(root, path.name)
    shapes = [feature.get("geometry") for feature in features]
    texts = np.array([None if shape is None else orjson.dumps(shape).decode() for shape in shapes], dtype=object)
    geometries = np.asarray(shapely.from_geojson(texts, on_invalid="ignore"))
    has_shape = np.array([shape is not None for shape in shapes], dtype=bool)
    return RawFootprints(
        geometries,
        has_shape & shapely.is_missing(geometries),
        [p if isinstance(p := feature.get("properties"), dict) else {} for feature in features],
        [feature.get("id") for feature in features],
        _json_crs(root, path.name, crs),
    )


def _features_of(root: object, name: str) -> list[dict[str, object]]:
    """Return the features of a FeatureCollection, a single Feature or a bare geometry."""
    if isinstance(root, dict) and root.get("type") == "FeatureCollection" and isinstance(root.get("features"), list):
        features = root["features"]
        if all(isinstance(f, dict) and f.get("type") == "Feature" for f in features):
            return list(features)
        raise broken(name, "its list of features holds something else than features")
    if isinstance(root, dict) and root.get("type") == "Feature":
        return [root]
    if isinstance(root, dict) and root.get("type") in ("Polygon", "MultiPolygon", "GeometryCollection"):
        return [{"type": "Feature", "geometry": root, "properties": {}}]
    raise broken(name, "it is JSON but not GeoJSON (no FeatureCollection)", "Export it as GeoJSON.")


def _json_crs(root: Mapping[str, object], name: str, given: str | None) -> str:
    """Return the CRS named by the old `crs` member, else the given one or longitude/latitude; links are never followed."""
    member = root.get("crs")
    if member is None:
        return given or systems.LONLAT
    properties = member.get("properties") if isinstance(member, dict) else None
    text = properties.get("name") if isinstance(properties, dict) else None
    try:
        if not isinstance(text, str) or len(text) > 100:
            raise ValueError("no name")
        return known_crs(text)
    except ValueError as cause:
        raise broken(
            name, f"its crs member {orjson.dumps(member)[:80].decode()} is not known", "Export it in EPSG:4326.", "crs"
        ) from cause


# GeoPackage


def _load_gpkg(path: Path, crs: str | None) -> RawFootprints:
    for side in ("-wal", "-journal"):
        beside = path.with_name(path.name + side)
        if beside.is_file() and beside.stat().st_size > 0:
            raise FootprintError(
                f"{path.name} has unsaved changes in {beside.name}.",
                "Close the program that has it open, such as QGIS, then add it again.",
                kind="open",
            )
    with tempfile.TemporaryDirectory(prefix="pu-geo-") as folder:
        copy = Path(folder) / "copy.gpkg"
        shutil.copyfile(path, copy)
        database = sqlite3.connect(f"file:{copy}?mode=ro&immutable=1", uri=True)
        try:
            return _read_gpkg(database, path.name, crs)
        except sqlite3.OperationalError as cause:
            if "interrupted" in str(cause):
                raise broken(path.name, f"reading took over {MAX_SQL_SECONDS:.0f} s", kind="timeout") from cause
            raise broken(path.name, f"the database is damaged ({cause})") from cause
        except (sqlite3.Error, UnicodeDecodeError, struct.error) as cause:
            raise broken(path.name, f"the database is damaged ({cause})") from cause
        finally:
            database.close()


def _read_gpkg(database: sqlite3.Connection, name: str, given: str | None) -> RawFootprints:
    stop_at = time.monotonic() + MAX_SQL_SECONDS
    database.set_progress_handler(lambda: int(time.monotonic() > stop_at), 10_000)
    database.execute("PRAGMA trusted_schema = OFF")
    table, column, srs_id = _only_layer(database, name)
    crs = systems.LOCAL if srs_id in _UNDEFINED_SRS and given == systems.LOCAL else _gpkg_crs(database, srs_id, name)
    found = database.execute(f"SELECT rowid, * FROM {_quoted(table)}")
    fields = [field[0] for field in found.description][1:]
    if column not in fields:
        raise broken(name, f"layer {table!r} has no column {column!r}")
    at = fields.index(column)
    # The integer primary key is the feature id, not an attribute.
    keys = {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})") if row[5]}
    blobs, attributes, ids = [], [], []
    for rowid, *values in found:
        blobs.append(_wkb_of(values[at]))
        ids.append(rowid)
        attributes.append({k: v for i, (k, v) in enumerate(zip(fields, values, strict=True)) if i != at and k not in keys})
    return from_blobs(blobs, attributes, ids, crs, name)


def _only_layer(database: sqlite3.Connection, name: str) -> tuple[str, str, int]:
    """Return (table, geometry column, srs_id) of the one feature layer, a true table; refuse views and several layers."""
    layers = database.execute(
        "SELECT c.table_name, g.column_name, g.srs_id FROM gpkg_contents c JOIN gpkg_geometry_columns g "
        "ON lower(c.table_name) = lower(g.table_name) WHERE c.data_type = 'features'"
    ).fetchall()
    if len(layers) != 1:
        names = ", ".join(str(layer[0])[:40] for layer in layers[:8])
        raise broken(
            name,
            f"it has {len(layers)} feature layers ({names}), where one is needed",
            "Save the layer with the footprints as a GeoPackage of its own.",
            "layers",
        )
    table, column, srs_id = layers[0]
    kind = database.execute("SELECT type, sql FROM sqlite_master WHERE lower(name) = lower(?)", (table,)).fetchone()
    if kind is None or kind[0] != "table" or str(kind[1]).upper().lstrip().startswith("CREATE VIRTUAL"):
        raise broken(
            name,
            f"its layer {table!r} is a {kind[0] if kind else 'name without a table'}, and only plain tables are read",
            "Save the layer from QGIS as a new GeoPackage.",
            "view",
        )
    return str(table), str(column), int(srs_id)


def _gpkg_crs(database: sqlite3.Connection, srs_id: int, name: str) -> str:
    row = database.execute(
        "SELECT organization, organization_coordsys_id, definition FROM gpkg_spatial_ref_sys WHERE srs_id = ?", (srs_id,)
    ).fetchone()
    for text in (f"{row[0]}:{row[1]}", str(row[2])) if row else ():
        try:
            return known_crs(text)
        except ValueError:
            continue
    raise broken(name, "its layer has no known coordinate system", "Set the layer's coordinate system in QGIS.", "crs")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wkb_of(blob: object) -> bytes | None:
    """Cut the WKB out of a GeoPackage geometry; what is none comes back as bytes that no reader accepts."""
    if blob is None:
        return None
    if not isinstance(blob, bytes) or len(blob) < 8 or blob[:2] != b"GP":
        return raw_footprints.UNREADABLE
    size = (blob[3] >> 1) & 7
    return blob[8 + _ENVELOPE_BYTES[size] :] if size < len(_ENVELOPE_BYTES) else raw_footprints.UNREADABLE


def is_number(value: object) -> bool:
    """Return whether an attribute is a finite number (booleans are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
