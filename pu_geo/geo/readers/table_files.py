"""Footprints in tables: GeoParquet, and CSV with a column of WKT. Loaded by `footprint_files` alone, in the child."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj import CRS
from pyproj.exceptions import CRSError

from pu_geo.geo.readers import raw_footprints
from pu_geo.geo.readers.file_kinds import delimiter_of, wkt_column
from pu_geo.geo.readers.raw_footprints import broken

Read = tuple[list[bytes | None], list[dict[str, object]], str]
MAX_UNPACKED_BYTES = 3_000_000_000
_CRS_COLUMNS = ("epsg", "srid", "crs")
_PREFIX = re.compile(r"\s*SRID=(\d{1,6});", re.IGNORECASE)  # "extended" WKT of PostGIS
_SAVE_AGAIN = "Save it again as GeoParquet from QGIS or geopandas."


def read(kind: str, path: Path, folder: Path, crs: str | None) -> Read:
    """Read a GeoParquet ("parquet") or CSV ("csv") file; see `ogr_files.read`, of which this is the twin for tables.

    Raises:
        FootprintError: kind parse, size, crs or layers.
    """
    return _read_parquet(path, crs) if kind == "parquet" else _read_csv(path, crs)


# GeoParquet. Source: GeoParquet specification 1.1.0


def _read_parquet(path: Path, crs: str | None) -> Read:
    try:
        # Not memory-mapped: a file that shrinks while it is read would end the process.
        with pq.ParquetFile(path, memory_map=False) as file:
            column, system, skipped = _geo_of(file, path.name)
            groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
            if sum(groups) > MAX_UNPACKED_BYTES:
                raise broken(
                    path.name, f"it would unpack to {sum(groups) / 1e6:,.0f} MB", "Cut it to the area of the scenes.", "size"
                )
            table = file.read(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowTypeError, OSError) as cause:
        raise broken(path.name, f"it is damaged ({str(cause).splitlines()[0][:160]})") from cause
    if column not in table.column_names:
        raise broken(path.name, f"its geometry column {column!r} is missing", _SAVE_AGAIN)
    kind = table.schema.field(column).type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise broken(path.name, f"its geometry is stored as {str(kind)[:40]}, not as WKB", _SAVE_AGAIN)
    blobs = table.column(column).to_pylist()
    rows = table.drop_columns([name for name in (column, *skipped) if name in table.column_names]).to_pylist()
    if system is None and crs is None:
        raise broken(
            path.name, "it says that its coordinate system is not known", "Save it in EPSG:4326 or name its system.", "crs"
        )
    return blobs, rows or [{} for _ in blobs], system or crs or ""


def _geo_of(file: pq.ParquetFile, name: str) -> tuple[str, str | None, list[str]]:
    """Return the geometry column, its CRS (None: not known), and the columns of other geometries and bounding boxes."""
    text = (file.metadata.metadata or {}).get(b"geo")
    if text is None:
        raise broken(name, "it is a Parquet table without the `geo` metadata of GeoParquet", _SAVE_AGAIN)
    try:
        geo = orjson.loads(text)
        primary = geo["primary_column"]
        column = geo["columns"][primary]
        encoding = column["encoding"]
        boxes = [path[0] for path in column.get("covering", {}).get("bbox", {}).values()]
        skipped = [str(other) for other in (*geo["columns"], *boxes) if other != primary]
        system = _projjson(column, name)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError) as cause:
        raise broken(name, f"its `geo` metadata is damaged ({cause!r:.80})", _SAVE_AGAIN) from cause
    if encoding != "WKB":
        raise broken(name, f"its geometry is encoded as {str(encoding)[:30]!r}, not as WKB", _SAVE_AGAIN)
    return str(primary), system, list(dict.fromkeys(skipped))


def _projjson(column: Mapping[str, object], name: str) -> str | None:
    """Return the CRS of a column as text: longitude/latitude where the key is absent, None where it is null."""
    if "crs" not in column:
        return "OGC:CRS84"
    member = column["crs"]
    if member is None:
        return None
    try:
        if not isinstance(member, dict):
            raise CRSError("no PROJJSON object")
        return str(CRS.from_json_dict(member).to_wkt())
    except CRSError as cause:
        raise broken(name, "its coordinate system is not known", "Save it in EPSG:4326.", "crs") from cause


# CSV


def _read_csv(path: Path, crs: str | None) -> Read:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise broken(path.name, f"it is not UTF-8 text ({cause.reason})", "Save it as CSV in UTF-8.") from cause
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # one outline may be the whole file
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text.partition("\n")[0]), strict=True)
    try:
        header = [field.strip() for field in next(rows)]
        table = [row for row in rows if row]
    except csv.Error as cause:
        raise broken(path.name, f"line {rows.line_num} is not valid CSV ({cause})") from cause
    at = wkt_column(header)
    if at is None:
        raise broken(
            path.name,
            f"none of its columns ({', '.join(header)[:200]}) holds outlines",
            "Put them as WKT, such as POLYGON ((15.1 41.2, ...)), into a column named wkt.",
        )
    odd = next((i for i, row in enumerate(table) if len(row) != len(header)), None)
    if odd is not None:
        raise broken(path.name, f"row {odd + 2} has {len(table[odd])} fields, the header {len(header)}")
    srids = Counter(match[1] for row in table if (match := _PREFIX.match(row[at])))
    system = _csv_crs(header, table, srids, path.name) or crs or "EPSG:4326"
    attributes: list[dict[str, object]] = [
        {name: _value(value) for i, (name, value) in enumerate(zip(header, row, strict=True)) if i != at} for row in table
    ]
    return _wkb_of([_PREFIX.sub("", row[at], count=1).strip() for row in table]), attributes, system


def _csv_crs(header: list[str], table: list[list[str]], srids: Counter[str], name: str) -> str | None:
    """Return the CRS that the outlines or a column name, None if nothing does; refuse a file in several."""
    lower = [column.lower() for column in header]
    at = next((lower.index(column) for column in _CRS_COLUMNS if column in lower), None)
    named = set(srids) if srids else {row[at].strip() for row in table} - {""} if at is not None else set()
    if len(named) > 1:
        shown = ", ".join(sorted(named)[:5])[:80]
        raise broken(name, f"it is in several coordinate systems ({shown})", "Save each in a file of its own.", "crs")
    text = named.pop() if named else None
    return f"EPSG:{text}" if text and text.isdigit() else text


def _wkb_of(texts: list[str]) -> list[bytes | None]:
    """Turn WKT into WKB; None where there is no text, `raw_footprints.UNREADABLE` where it is none."""
    shapes = shapely.from_wkt(np.array([text or None for text in texts], dtype=object), on_invalid="ignore")
    blobs = shapely.to_wkb(shapely.force_2d(shapes)).tolist()
    return [
        blob if blob is not None or not text else raw_footprints.UNREADABLE for blob, text in zip(blobs, texts, strict=True)
    ]


def _value(text: str) -> object:
    """Return a field as a number where it is plainly one; a leading zero or plus makes it a text, such as a house number."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)\.\d+([eE][-+]?\d{1,2})?", text):
        return float(text)
    return text or None
