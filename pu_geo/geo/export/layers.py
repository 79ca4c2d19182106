"""Damage maps as a table: GeoParquet, and what GDAL makes of it, GeoPackage and FlatGeobuf, in the child process.

In a process of its own because GDAL brings a second SQLite library, which must not share one with an open project.
"""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from pu_geo.files import export_file, not_written
from pu_geo.geo.child_process import Answer, Limits, ReaderEnded, ask
from pu_geo.geo.export.codebook import fields_of
from pu_geo.geo.export.geometry import extent, part_bounds
from pu_geo.geo.export.pieces import as_text, caption, pieces_of
from pu_geo.geo.export.styles import TYPE_STYLES, qml
from pu_geo.geo.vector.crs import is_local
from pu_geo.records import DamageMap

if TYPE_CHECKING:
    import geopandas

LAYER, GEOMETRY = "damage_map", "geom"
DRIVERS = {"gpkg": "GPKG", "fgb": "FlatGeobuf"}
GIB = 1024**3
WRITING = Limits(seconds=900.0, cpu_seconds=600, memory_bytes=12 * GIB, file_bytes=8 * GIB, answer_bytes=100_000)
_UNDEFINED_CARTESIAN = "-1"  # GeoPackage's own number for coordinates without a place on the Earth
ROWS_PER_GROUP = 20_000
_ARROW = {
    "text": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "json": pa.string(),
    "list": pa.list_(pa.string()),
}  # fmt: skip
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = pa.struct([(side, pa.float64()) for side in _SIDES])
_REFUSALS = (RuntimeError, ValueError, OSError, sqlite3.Error)  # all errors of pyogrio are RuntimeErrors
_STYLE_NAME = 30  # characters
# As QGIS reads and writes it.
_STYLES = """
CREATE TABLE layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, f_table_catalog TEXT(256),
  f_table_schema TEXT(256), f_table_name TEXT(256), f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT,
  styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30),
  update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')));
INSERT INTO gpkg_contents (table_name, data_type, identifier) VALUES ('layer_styles', 'attributes', 'layer_styles');
"""


def export_parquet(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoParquet 1.1: WKB polygons in longitude and latitude of WGS 84 (OGC:CRS84), with their boxes.

    Rows in the order of the buildings, lists as lists, `source_attributes` as JSON text, the metadata under the key
    `pu_geo`.

    By pyarrow and not `GeoDataFrame.to_parquet`, which has no place for the metadata, writes boxes of NaN where there is no
    outline, and refuses a map with a column of its own that is called as the boxes are.
    """
    with export_file(out) as beside, beside.open("wb") as file:
        _write_table(damage_map, file, "parquet", joins=False)


def _write_table(damage_map: DamageMap, file: IO[bytes], format: str, *, joins: bool) -> None:
    """Write GeoParquet piece by piece; `format` is the one that it is for, `joins` as for `Piece.cells`."""
    fields, bounds, kinds = fields_of(damage_map), [], set[str]()
    covering = "bbox" if "bbox" not in damage_map.columns else "geometry_bbox"
    columns = [(field.name, pa.string() if joins and field.kind == "list" else _ARROW[field.kind]) for field in fields]
    schema = pa.schema([*columns, ("geometry", pa.binary()), (covering, _BOX)])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for piece in pieces_of(damage_map, format, ROWS_PER_GROUP):
            bounds.append(part_bounds(piece.shapes))
            kinds |= {shape.geom_type for shape in piece.shapes if shape is not None}
            sides = list(map(pa.array, shapely.bounds(piece.shapes).T))
            boxes = pa.StructArray.from_arrays(sides, _SIDES, mask=pa.array(shapely.is_missing(piece.shapes)))
            cells = [*piece.cells(fields, joins=joins), shapely.to_wkb(piece.shapes, byte_order=1).tolist(), boxes]
            arrays = [pa.array(column, kind) for column, kind in zip(cells, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))
        box = None if is_local(damage_map.grid_crs) else extent(bounds)
        column: dict[str, object] = {"encoding": "WKB", "geometry_types": sorted(kinds, reverse=True)}
        column |= {"crs": None} if is_local(damage_map.grid_crs) else {}  # without the member it is OGC:CRS84
        column |= {"bbox": box} if box else {}
        column["covering"] = {"bbox": {side: [covering, side] for side in _SIDES}}
        geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
        writer.add_key_value_metadata({"geo": as_text(geo), "pu_geo": as_text(dict(damage_map.metadata))})


def to_geodataframe(damage_map: DamageMap) -> geopandas.GeoDataFrame:
    """Return a damage map as a table: building_id first, null where a number is not finite, lists joined by ";", dicts as
    JSON.

    Outlines are in longitude and latitude of WGS 84, as all exports have them, or in local meters without a CRS.
    The metadata of the map is `attrs["pu_geo"]`.
    """
    file = io.BytesIO()
    _write_table(damage_map, file, "gpkg", joins=True)
    frame = _read_table(file)
    frame.attrs["pu_geo"] = json.loads(as_text(dict(damage_map.metadata)))
    return frame


def _read_table(file: IO[bytes] | Path) -> geopandas.GeoDataFrame:
    """Read what `_write_table` wrote; whole numbers and bools stay what they are where some are null."""
    import geopandas
    import pandas

    dtypes = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    frame = geopandas.read_parquet(file, to_pandas_kwargs={"types_mapper": dtypes.get})
    return frame if frame.crs is None else frame.set_crs("EPSG:4326", allow_override=True)


def export_fgb(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as FlatGeobuf: multipolygons in EPSG:4326 with a spatial index.

    With the index, buildings lie along a Hilbert curve and not in their own order. FlatGeobuf cannot index a feature without
    geometry: where rounding leaves nothing of a footprint, the file has no index. Lists are joined by ";", dicts are JSON
    text.

    Raises:
        PuGeoError: kind "disk" if it could not be written to the end.
    """
    title, disclaimer = caption(damage_map)
    _write(damage_map, out, "fgb", {"TITLE": title, "DESCRIPTION": disclaimer})


def export_gpkg(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoPackage: layer `damage_map`, spatial index, metadata, and a style by `triage` for QGIS.

    Multipolygons in EPSG:4326, not in the project CRS: then each format holds the same numbers, and a project CRS without a
    code needs no definition that another program may not know. A map without a place on the Earth is in local meters, in
    GeoPackage's undefined Cartesian system (-1), and its description says so. Lists are joined by ";", dicts are JSON text.

    Raises:
        PuGeoError: kind "disk" if it could not be written to the end.
    """
    title, disclaimer = caption(damage_map)
    about = [title, disclaimer.rstrip("."), str(damage_map.metadata.get("coordinates", ""))]
    options = {"GEOMETRY_NAME": GEOMETRY, "IDENTIFIER": LAYER, "DESCRIPTION": ". ".join(part for part in about if part)}
    if is_local(damage_map.grid_crs):
        options["SRID"] = _UNDEFINED_CARTESIAN
    _write(damage_map, out, "gpkg", options)


def _write(damage_map: DamageMap, out: Path, format: str, options: Mapping[str, str]) -> None:
    """Have the child write a map, and give the file its name once all of it was read back."""
    arguments = {"name": out.name, "format": format, "options": options, "metadata": as_text(dict(damage_map.metadata))}
    with export_file(out) as beside, tempfile.TemporaryDirectory(".part", ".pu-geo-", out.parent) as folder:
        table = Path(folder) / "table.parquet"
        with table.open("wb") as file:
            _write_table(damage_map, file, format, joins=True)
        try:
            ask("write_layer", table, arguments, WRITING)
        except ReaderEnded as ended:
            raise not_written(out.name, ended.last_words) from ended
        (Path(folder) / f"layer.{format}").replace(beside)


# The child's side


def write_layer(table: Path, arguments: Mapping[str, Any]) -> Answer:
    """Write a table as `layer.<format>` beside it, and read it back to its last feature, since a full disk cuts files off.

    Raises:
        PuGeoError: kind "disk".
    """
    import geopandas

    frame, out, options = _read_table(table), table.with_name(f"layer.{arguments['format']}"), arguments["options"]
    if out.suffix == ".gpkg":
        names = _column_names([str(name) for name in frame.columns[:-1]])
        frame = frame.set_axis([*names, "geometry"], axis=1).set_geometry("geometry")
    else:
        options["SPATIAL_INDEX"] = "YES" if len(frame) > 0 and not frame.geometry.isna().any() else "NO"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided")
            frame.to_file(
                out, driver=DRIVERS[arguments["format"]], engine="pyogrio", layer=LAYER, geometry_type="MultiPolygon",
                promote_to_multi=True, layer_options=options, layer_metadata={"pu_geo": arguments["metadata"]},
            )  # fmt: skip
        if out.suffix == ".gpkg":
            with closing(sqlite3.connect(out)) as db, db:
                _add_style(db, arguments["metadata"])
        n = len(geopandas.read_file(out, engine="pyogrio", layer=LAYER, columns=[]))
        if n != len(frame):
            raise ValueError(f"{n} of {len(frame)} buildings arrived")
    except _REFUSALS as cause:
        raise not_written(arguments["name"], str(cause).replace(str(out), arguments["name"])[:200]) from cause
    return Answer({"n": n}, [])


def _column_names(fields: Sequence[str]) -> list[str]:
    """Return column names that differ by more than case, which SQL does not see, and are not the layer's own two."""
    taken, names = {"fid", GEOMETRY}, []
    for name in fields:
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names.append(name)
    return names


def _add_style(db: sqlite3.Connection, metadata: str) -> None:
    """Add the style that QGIS opens the layer in, one for each damage type, and have the metadata as plain JSON and not in
    GDAL's XML.
    """
    db.executescript(_STYLES)
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.000Z}"
    styles = [("triage", qml(), 1, "Buildings by triage")]
    types = json.loads(metadata).get("types", ())
    for k, one in enumerate(types, start=1):
        column = str(one["column"])
        name, look = column if len(column) <= _STYLE_NAME else f"{column[: _STYLE_NAME - 4]}_{k}", (column, TYPE_STYLES)
        styles.append((name, qml(*look), 0, f"Damage type {one['name']}"))
    db.executemany(
        "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, "
        "styleSLD, useAsDefault, description, owner, update_time) VALUES ('', '', ?, ?, ?, ?, '', ?, ?, '', ?)",
        [(LAYER, GEOMETRY, *style, at) for style in styles],
    )
    standard = "https://www.rfc-editor.org/rfc/rfc8259"
    db.execute(
        "UPDATE gpkg_metadata SET md_standard_uri = ?, mime_type = 'application/json', metadata = ?", (standard, metadata)
    )
