"""Footprint files as they are: features out of GeoJSON, GeoPackage and others, nothing repaired yet.

Meant for the child process alone; see `in_child`. GDAL, Arrow and GEOS read what others wrote: what ends them ends the
child. They get a copy by a name of ours in a folder of its own, so that they find nothing else beside it. GeoJSON is parsed
here, since GDAL flattens nested attributes. No table passes through pandas, which makes 3.0 of 3 beside an empty cell.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
import shutil
import sqlite3
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson
import shapely
from pyproj import CRS

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import xbd
from pu_geo.geo.readers.file_kinds import delimiter_of, footprint_kind, regular_file, wkt_column
from pu_geo.geo.readers.raw_footprints import RawFootprints, broken, from_values
from pu_geo.geo.vector import crs as systems

if TYPE_CHECKING:
    import pyarrow

MAX_FILE_BYTES = 1_000_000_000
MAX_TEXT_BYTES = 400_000_000  # of JSON and CSV, which take about five times their size in memory
MAX_UNPACKED_BYTES = 2_000_000_000  # of a zip
MAX_RATIO, RATIO_FROM_BYTES = 300, 64_000_000  # tables of blanks shrink to a hundredth, an archive bomb to a thousandth
PARTS, NEEDED_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg"), (".shx", ".dbf")
_DAMAGE = (
    ValueError,
    RuntimeError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,  # RuntimeError: GDAL's, PROJ's, passwords
    csv.Error,
    sqlite3.Error,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_CRS_COLUMNS = ("epsg", "srid", "crs")
_SRID = re.compile(r"\s*SRID=(\d{1,6});", re.IGNORECASE)  # "extended" WKT of PostGIS
_LONG_NUMBER = re.compile(rb"[:\[,]\s*-?\d{19,}\s*[,}\]]")
_NAMES_IDS = re.compile(r"id$|^id|(^|_)(no|nr|num|number|code|key)$")
_SAVE_AGAIN = "Save it again as GeoParquet from QGIS or geopandas."


def load_features(path: Path | str, crs: str | None = None, *, in_pixels: bool = False) -> RawFootprints:
    """Read every feature of a footprint file, of whatever format its content is; it is neither changed nor locked.

    In this very process, into which GDAL or Arrow may be loaded: files of other people go through `in_child`.

    Args:
        path: GeoJSON, xBD labels, GeoPackage, shapefile (zipped, or .shp with its side files), FlatGeobuf, GeoParquet, or
            CSV with WKT.
        crs: "EPSG:n" or WKT, for a file that does not name its own. Without it GeoJSON and CSV are in longitude/latitude.
        in_pixels: a file that names none is in pixels of a picture without a place, and its CRS `crs.LOCAL`.

    Raises:
        FootprintError: kind missing, link, driver, size, parse, coords, crs, layers, view or open; of archives also path,
            symlink, ratio.
    """
    if crs is not None:
        crs = _given_crs(crs)
    elif in_pixels:
        crs = systems.LOCAL
    real = regular_file(path, FootprintError, MAX_FILE_BYTES)
    if any(folder.name.endswith(".pugeo") and real.relative_to(folder).parts[0] != "sources" for folder in real.parents):
        raise FootprintError(
            f"{real.name} belongs to a PU-Geo project ({real.parent.name}), which is in use.",
            "Export the footprints from that project first, then choose the export.",
            kind="open",
        )
    kind = footprint_kind(real)
    if kind in ("json", "csv"):
        regular_file(real, FootprintError, MAX_TEXT_BYTES)
    with tempfile.TemporaryDirectory(prefix="pu-geo-") as folder:
        try:
            return READERS[kind](real, Path(folder), crs)
        except _DAMAGE as cause:
            if isinstance(cause, NotImplementedError) and "Nonlinear" in str(cause):
                hint = "Convert it first: ogr2ogr -nlt CONVERT_TO_LINEAR straight.gpkg curved.gpkg"
                raise broken(real.name, "it has curved geometry; footprints have straight edges", hint) from cause
            why = f"{type(cause).__name__}: {cause}".replace(f"{folder}/", "")[:160]
            hint = "Copy it again, or save its polygons as a new GeoPackage from QGIS."
            raise broken(real.name, f"it is damaged, locked or of another kind ({why})", hint) from cause


def _given_crs(text: str) -> str:
    try:
        return systems.known_crs(text)
    except ValueError as cause:
        raise FootprintError(
            f"{text[:60]!r} is not a known coordinate system.", "Give it as EPSG:n, such as EPSG:32633.", kind="crs"
        ) from cause


def _system(found: str | None, given: str | None, name: str) -> str:
    """Return the CRS that a file names, else the one given for it.

    Raises:
        FootprintError: kind "crs" if there is neither, or the file's own is not known.
    """
    if found is None:
        if given is None:
            why = "it names no known coordinate system"
            raise broken(name, why, "Save it from QGIS with its coordinate system.", "crs")
        return given
    try:
        return systems.known_crs(found)
    except ValueError as cause:
        why = f"its coordinate system {found[:60]!r} is not known"
        raise broken(name, why, "Save it in EPSG:4326.", "crs") from cause


# GeoJSON


def _read_json(path: Path, _: Path, crs: str | None) -> RawFootprints:
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        root = orjson.loads(text)
        if _LONG_NUMBER.search(text):
            root = json.loads(text, parse_int=_whole)
    except orjson.JSONDecodeError as cause:
        near = str(cause.doc)[cause.pos : cause.pos + 9].lstrip("-+")
        if near.startswith(("NaN", "Infinity")) or "infinity" in cause.msg:
            raise broken(path.name, f"a coordinate or value is not a finite number ({cause})", kind="coords") from cause
        raise broken(path.name, f"it is not valid JSON ({cause})", "Export it again, as UTF-8 GeoJSON.") from cause
    if xbd.is_xbd(root):
        return xbd.footprints_of(root, in_pixels=crs == systems.LOCAL)
    features = _features_of(root, path.name)
    shapes = [feature.get("geometry") for feature in features]
    texts = [None if shape is None else orjson.dumps(shape).decode() for shape in shapes]
    rows = [row if isinstance(row := feature.get("properties"), dict) else {} for feature in features]
    member = root.get("crs")  # of older GeoJSON; links are never followed
    properties = member.get("properties") if isinstance(member, dict) else None
    named = properties.get("name") if isinstance(properties, dict) else repr(member)
    system = _system(None if member is None else str(named)[:100], crs or systems.LONLAT, path.name)
    return from_values(shapely.from_geojson, texts, rows, system, [feature.get("id") for feature in features])


def _whole(text: str) -> int | str:
    """Return a whole number; one that 64 bits do not hold stays a text, with all its digits."""
    return int(text) if -(2**63) <= int(text) < 2**63 else text


def _features_of(root: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the features of a FeatureCollection, a single Feature or a bare geometry."""
    kind = root.get("type")
    if kind == "FeatureCollection" and isinstance(root.get("features"), list):
        if all(isinstance(feature, dict) and feature.get("type") == "Feature" for feature in root["features"]):
            return list(root["features"])
        raise broken(name, "its list of features holds something else than features")
    if kind in ("Feature", "Polygon", "MultiPolygon", "GeometryCollection"):
        return [dict(root) if kind == "Feature" else {"geometry": root}]
    raise broken(name, "it is JSON but not GeoJSON (no FeatureCollection)", "Export it as GeoJSON.")


# GeoPackage, shapefile and FlatGeobuf, through GDAL


def _read_layer(path: Path, folder: Path, crs: str | None) -> RawFootprints:
    """Read the one layer of a file that GDAL knows, out of a folder that holds nothing else."""
    copy = _copied(path, folder)
    if systems.names_a_file(_crs_text(copy, path.name)):
        # GDAL would open that file, wherever it is, to find out which system this is.
        raise broken(path.name, "its coordinate system asks for a file with a grid", "Save it in EPSG:4326.", "crs")
    gdal = importlib.import_module("pyogrio")
    layers = [str(layer) for layer, kind in gdal.list_layers(copy) if kind is not None]
    if len(layers) != 1:
        raise broken(
            path.name,
            f"it has {len(layers)} feature layers ({', '.join(layer[:40] for layer in layers[:8])}), where one is needed",
            "Save the layer with the footprints in a file of its own.",
            "layers" if layers else "parse",
        )
    ids = None
    if copy.suffix == ".gpkg":
        meta, table = gdal.raw.read_arrow(copy, layer=layers[0], return_fids=True, datetime_as_string=True)
        geometry, ids = meta["geometry_name"], meta["fid_column"] or "OGC_FID"
        quoted = layers[0].replace('"', '""')
        ((n_rows,),) = _query(copy, f'SELECT count(*) FROM "{quoted}" NOT INDEXED')
        if table.num_rows != n_rows:  # GDAL ends at a damaged page without a word
            raise ValueError(f"{table.num_rows:,} of {n_rows:,} rows can be read")
        _check_numbers(copy, quoted, table, path.name)
    else:  # not as Arrow, which with GDAL 3.12 ends at a damaged feature without a word
        meta, _, shapes, columns = gdal.raw.read(copy, layer=layers[0], force_2d=True)
        geometry = "wkb_geometry"
        while geometry in meta["fields"]:
            geometry += "_"
        table = importlib.import_module("pyarrow").table([shapes, *columns], names=[geometry, *meta["fields"]])
    found = None if '["Undefined ' in str(meta["crs"]) else meta["crs"]  # as GeoPackage names what nobody stated
    return _of_table(table, geometry, {ids}, _system(found, crs, path.name), ids)


def _of_table(
    table: pyarrow.Table, geometry: str, others: Collection[str | None], crs: str, ids: str | None = None
) -> RawFootprints:
    """Make features of a table with a column of WKB; `others` are columns that are no attributes."""
    blobs = table.column(geometry).to_pylist()
    _check_digits(table)
    kept = [i for i, name in enumerate(table.column_names) if name not in {geometry, *others}]
    rows = table.select(kept).to_pylist()
    plain = orjson.loads(orjson.dumps(rows or [{} for _ in blobs], default=_plain, option=orjson.OPT_NON_STR_KEYS))
    return from_values(shapely.from_wkb, blobs, plain, crs, table.column(ids).to_pylist() if ids else None)


def _check_digits(table: pyarrow.Table) -> None:
    """Refuse a column of ids that are whole numbers of which the last digits are lost, such as those of 20 digits in a
    shapefile.
    """
    for name in table.column_names:
        values = table.column(name)
        if not _NAMES_IDS.search(name.lower()) or str(values.type) not in ("float", "double"):
            continue
        known = [value for value in values.to_pylist() if value is not None and math.isfinite(value) and abs(value) < 1e25]
        if any(value >= 2**53 for value in known) and all(value.is_integer() for value in known):
            raise FootprintError(
                f"The column {name[:40]!r} holds whole numbers such as {max(known):.6g}, of which its format keeps 15 "
                "digits and no more.",
                "Make it a column of texts, then export the file again.",
                kind="digits",
            )


def _plain(value: object) -> str | None:
    """Turn a value that JSON does not have into text; binary becomes null."""
    return None if isinstance(value, bytes | memoryview) else str(value)


def _copied(path: Path, folder: Path) -> Path:
    """Copy a file into a folder as `layer` with the suffix of its kind, a shapefile with its parts."""
    kind = footprint_kind(path)
    if kind == "zip":
        _unpack(path, folder)
    elif kind == "shp":
        for beside in path.parent.iterdir():
            suffix = beside.suffix.lower()
            if beside.stem == path.stem and suffix in PARTS and beside.is_file() and not beside.is_symlink():
                shutil.copyfile(beside, folder / f"layer{suffix}")
    else:
        for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
            if kind == "gpkg" and beside.is_file() and beside.stat().st_size > 0:
                raise FootprintError(
                    f"{path.name} has unsaved changes in {beside.name}.",
                    "Close the program that has it open, such as QGIS, then add it again.",
                    kind="open",
                )
        return Path(shutil.copyfile(path, folder / f"layer.{kind}"))
    missing = [suffix for suffix in NEEDED_PARTS if not (folder / f"layer{suffix}").is_file()]
    if missing:
        why = f"the shapefile has no {' and no '.join(missing)} file"
        raise broken(path.name, why, "Put .shp, .shx, .dbf and .prj together.")
    _check_whole(folder / "layer.shp", path.name)
    return folder / "layer.shp"


def _crs_text(copy: Path, name: str) -> str:
    """Return the part of a file that names its coordinate system, without GDAL."""
    if copy.suffix == ".fgb":
        with copy.open("rb") as file:
            return file.read(12 + int.from_bytes(file.read(12)[8:], "little")).decode("latin-1")
    if copy.suffix == ".shp":
        return copy.with_suffix(".prj").read_text("latin-1") if copy.with_suffix(".prj").is_file() else ""
    views = _query(
        copy,
        "SELECT name FROM sqlite_master WHERE type = 'view' AND (lower(name) = 'gpkg_spatial_ref_sys' "
        "OR lower(name) IN (SELECT lower(table_name) FROM gpkg_geometry_columns))",
    )
    if views:
        why = f"its layer {views[0][0][:40].decode(errors='replace')!r} is a view, and only plain tables are read"
        raise broken(name, why, "Save the layer from QGIS as a new GeoPackage.", "view")
    values = [value for row in _query(copy, "SELECT * FROM gpkg_spatial_ref_sys") for value in row]
    return " ".join(value.decode("latin-1") for value in values if isinstance(value, bytes))


def _check_numbers(copy: Path, layer: str, table: pyarrow.Table, name: str) -> None:
    """Refuse a GeoPackage with texts or fractions in a column of numbers: SQLite keeps them, GDAL makes 0 of "A-12"."""
    types = importlib.import_module("pyarrow").types
    fields = [field for field in table.schema if types.is_integer(field.type) or types.is_boolean(field.type)]
    kinds = {field.name: "'null', 'integer'" for field in fields}
    kinds |= {field.name: "'null', 'integer', 'real'" for field in table.schema if types.is_floating(field.type)}
    own = {column.decode() for _, column, *_ in _query(copy, f'PRAGMA table_info("{layer}")')}
    for column in kinds.keys() & own:
        quoted = column.replace('"', '""')
        odd = _query(copy, f'SELECT "{quoted}" FROM "{layer}" WHERE typeof("{quoted}") NOT IN ({kinds[column]}) LIMIT 1')
        if odd:
            shown = odd[0][0].decode(errors="replace")[:40] if isinstance(odd[0][0], bytes) else odd[0][0]
            why = f"its column {column[:40]!r} is declared as one of numbers that {shown!r} does not fit"
            raise broken(name, why, "Make it a column of texts, then export the file again.")


def _query(copy: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask a GeoPackage by Python's sqlite3; texts are bytes."""
    with closing(sqlite3.connect(f"file:{copy}?mode=ro&immutable=1", uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        database.text_factory = bytes
        return database.execute(query).fetchall()


def _unpack(path: Path, folder: Path) -> None:
    """Write the one shapefile of an archive as `layer.shp`, `.shx`, `.dbf`, `.prj`, `.cpg` into a folder.

    No name from the archive is ever used as a path.

    Raises:
        FootprintError: kind path, symlink, ratio, size, layers or driver.
    """
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        _check_entries(entries, path)
        own = [entry for entry in entries if not entry.filename.startswith("__MACOSX/")]
        shapes = [entry.filename for entry in own if entry.filename.lower().endswith(".shp")]
        if not shapes:
            held = ", ".join(repr(entry.filename[:40]) for entry in own[:5]) or "nothing"
            raise FootprintError(
                f"{path.name} is a ZIP archive without a shapefile; it holds {held}.",
                "Unpack it and choose the file with the footprints, or pack .shp, .shx, .dbf and .prj together.",
                kind="driver",
            )
        if len(shapes) > 1:
            names = ", ".join(PurePosixPath(shape).name[:40] for shape in shapes[:8])
            why = f"it has {len(shapes)} shapefiles ({names}), where one is needed"
            raise broken(path.name, why, "Pack the one with the footprints by itself.", "layers")
        for entry in own:
            stem, suffix = entry.filename[:-4], entry.filename[-4:].lower()
            if stem == shapes[0][:-4] and suffix in PARTS:
                with archive.open(entry) as source, (folder / f"layer{suffix}").open("wb") as target:
                    shutil.copyfileobj(source, target)  # stops at the size that the directory declares


def _check_entries(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive that writes outside, links somewhere, or unpacks to far more than it weighs."""
    for entry in entries:
        shown = repr(entry.filename[:60])
        parts = PurePosixPath(entry.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or entry.filename[1:2] == ":":
            raise broken(path.name, f"its entry {shown} points outside the archive", "Pack the shapefile again.", "path")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise broken(path.name, f"its entry {shown} is a link", "Pack the shapefile's own files.", "symlink")
    total = sum(entry.file_size for entry in entries)
    if total > RATIO_FROM_BYTES and total > MAX_RATIO * path.stat().st_size:
        raise FootprintError(
            f"{path.name} would unpack to {total / 1e6:,.0f} MB from {path.stat().st_size / 1e3:,.0f} kB, "
            f"over {MAX_RATIO} times its size. No shapefile of buildings does.",
            "Pack the shapefile again.",
            kind="ratio",
        )
    if total > MAX_UNPACKED_BYTES:
        raise FootprintError(
            f"{path.name} would unpack to {total / 1e6:,.0f} MB; up to {MAX_UNPACKED_BYTES / 1e6:,.0f} MB can be read.",
            "Pack one shapefile, cut to the area of the scenes.",
            kind="size",
        )


def _check_whole(shapes: Path, name: str) -> None:
    """Refuse a shapefile of which a part was cut off; GDAL calls the lost outlines empty and leaves the lost rows out.

    Source: ESRI Shapefile Technical Description, main file header; dBASE III header.
    """
    table = shapes.with_suffix(".dbf")
    with shapes.open("rb") as file, table.open("rb") as rows:
        (words,) = struct.unpack_from(">i", file.read(100), 24)
        n_rows, first, row_bytes = struct.unpack_from("<IHH", rows.read(32), 4)
    for part, declared in ((shapes, 2 * words), (table, first + n_rows * row_bytes)):
        if part.stat().st_size < declared:
            why = f"its {part.suffix} has {part.stat().st_size:,} of {declared:,} bytes; the rest was cut off"
            raise broken(name, why, "Copy or download it again.")


# GeoParquet. Source: GeoParquet specification 1.1.0; what 2.0 adds, geometry types of Parquet itself, Arrow reads as WKB


def _read_parquet(path: Path, _: Path, crs: str | None) -> RawFootprints:
    parquet = importlib.import_module("pyarrow.parquet")
    # Not memory-mapped: a file that shrinks while it is read would end the process.
    with parquet.ParquetFile(path, memory_map=False) as file:
        text = (file.metadata.metadata or {}).get(b"geo")
        if text is None:
            raise broken(path.name, "it is a Parquet table without the `geo` metadata of GeoParquet", _SAVE_AGAIN)
        geo = orjson.loads(text)
        column = geo["columns"][geo["primary_column"]]
        if column["encoding"] != "WKB":
            raise broken(path.name, f"its geometry is encoded as {str(column['encoding'])[:30]!r}, not as WKB", _SAVE_AGAIN)
        member = column.get("crs", systems.LONLAT)  # longitude/latitude where the key is absent, not known where it is null
        found = str(CRS.from_json_dict(member).to_wkt()) if isinstance(member, dict) else member
        boxes = [path[0] for path in column.get("covering", {}).get("bbox", {}).values()]
        table = file.read(use_threads=False)
    return _of_table(table, geo["primary_column"], {*geo["columns"], *boxes}, _system(found, crs, path.name))


# CSV


def _read_csv(path: Path, _: Path, crs: str | None) -> RawFootprints:
    text = path.read_bytes().decode("utf-8-sig")
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # one outline may be the whole file
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text.partition("\n")[0]), strict=True)
    header = [field.strip() for field in next(lines, [])]
    table = [row for row in lines if row]
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
    lower = [name.lower() for name in header]
    beside = [[row[lower.index(name)].strip() for row in table] for name in _CRS_COLUMNS if name in lower]
    systems_named = {match[1] for row in table if (match := _SRID.match(row[at]))} or set(*beside[:1]) - {""}
    if len(systems_named) > 1:
        shown = ", ".join(sorted(systems_named)[:5])[:80]
        raise broken(path.name, f"it is in several coordinate systems ({shown})", "Save each in a file of its own.", "crs")
    found = next((f"EPSG:{text}" if text.isdigit() else text for text in systems_named), None)
    system = _system(found, crs or "EPSG:4326", path.name)
    rows = [
        {name: _value(value) for i, (name, value) in enumerate(zip(header, row, strict=True)) if i != at} for row in table
    ]
    outlines = [_SRID.sub("", row[at], count=1).strip() or None for row in table]
    return from_values(shapely.from_wkt, outlines, rows, system)


def _value(text: str) -> object:
    """Return a field as a number where it is plainly one; a leading zero or plus makes it a text, such as a house number."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)\.\d+([eE][-+]?\d{1,2})?", text):
        return float(text)
    return text or None


READERS: Mapping[str, Callable[[Path, Path, str | None], RawFootprints]] = {
    "json": _read_json,
    "gpkg": _read_layer,
    "shp": _read_layer,
    "zip": _read_layer,
    "fgb": _read_layer,
    "parquet": _read_parquet,
    "csv": _read_csv,
}
