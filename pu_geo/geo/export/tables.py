"""Damage maps as tables: CSV for spreadsheets, GeoParquet for analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from pu_geo.atomic_write import export_file, write_export
from pu_geo.geo.export.codebook import Field, fields_of
from pu_geo.geo.export.geometry import Extent
from pu_geo.geo.export.pieces import Cell, Piece, as_text, csv_lines, flat_cells, flat_column, guarded, pieces_of
from pu_geo.geo.local_space import centroid_places, place_names
from pu_geo.records import DamageMap

ROWS_PER_GROUP = 20_000
_ARROW = {"text": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "json": pa.string()}

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = pa.struct([(side, pa.float64()) for side in _SIDES])


def export_csv(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as CSV for spreadsheets: no outlines, `lon` and `lat` of each centroid in degrees WGS 84.

    Of a map without a place on the Earth, `x_m` and `y_m` in local meters.

    UTF-8 with a byte order mark, which Excel needs; RFC 4180 otherwise. A text that a spreadsheet could take for a formula
    (after any apostrophes, = + - @ tab or a line break) gets an apostrophe in front, here and in no other format. Null is an
    empty cell, true and false are written out, lists are joined by ";".
    """
    write_export(out, _csv_pieces(damage_map))


def _csv_pieces(damage_map: DamageMap) -> Iterator[bytes]:
    fields = fields_of(damage_map)
    names = place_names(damage_map.grid_crs)
    missing = [name for name in names if name not in damage_map.columns]
    yield "\ufeff".encode() + csv_lines([[guarded(field.name) for field in fields] + missing])
    for piece in pieces_of(damage_map, "csv"):
        columns = [_csv_column(piece, field) for field in fields]
        if missing:
            stop = piece.start + len(piece.ids)
            found = centroid_places(damage_map.wkb[piece.start : stop], damage_map.grid_crs)
            place = dict(zip(names, found, strict=True))
            columns += [place[name].tolist() for name in missing]
        yield csv_lines(zip(*columns, strict=True))


def _csv_column(piece: Piece, field: Field) -> list[Cell]:
    values = piece.columns[field.name]
    if field.kind == "list":  # each item by itself: where ";" parts the cells, the second one has a cell of its own
        items = [None if value is None else [guarded(str(item)) for item in value] for value in values]  # type: ignore[attr-defined]
        return flat_column(items, "list")
    cells = flat_column(values, field.kind)
    if field.kind == "bool":
        return [None if cell is None else str(cell).lower() for cell in cells]
    return [guarded(cell) if isinstance(cell, str) else cell for cell in cells]


def export_parquet(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as GeoParquet 1.1: WKB polygons in longitude and latitude of WGS 84 (OGC:CRS84), with their boxes.

    Rows in the order of the buildings, lists as lists, `source_attributes` as JSON text, the metadata under the key `pu_geo`.

    By pyarrow and not `GeoDataFrame.to_parquet`, which has no place for the metadata and no type for a list that is null
    in all rows.
    """
    fields = fields_of(damage_map)
    kinds_of = [pa.list_(pa.string()) if field.kind == "list" else _ARROW[field.kind] for field in fields]
    covering = "bbox" if "bbox" not in damage_map.columns else "geometry_bbox"
    schema = pa.schema([
        *((field.name, kind) for field, kind in zip(fields, kinds_of, strict=True)), ("geometry", pa.binary()), (covering, _BOX)
    ])  # fmt: skip
    extent, kinds = Extent(), set[int]()
    with export_file(out) as beside, beside.open("wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for piece in pieces_of(damage_map, "parquet", ROWS_PER_GROUP):
            extent.add(piece.shapes)
            kinds |= set(shapely.get_type_id(piece.shapes).tolist()) - {-1}
            writer.write_table(_table(piece, fields, schema))
        box, types = extent.box(), [{3: "Polygon", 6: "MultiPolygon"}[kind] for kind in sorted(kinds)]
        boxes = {"bbox": {side: [covering, side] for side in _SIDES}}
        column = {
            "encoding": "WKB",
            "geometry_types": types,
            "covering": boxes,
            **({"bbox": box} if box else {}),
        }  # OGC:CRS84
        geo = orjson.dumps({"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}})
        writer.add_key_value_metadata({"geo": geo, "pu_geo": as_text(dict(damage_map.metadata))})


def _table(piece: Piece, fields: Sequence[Field], schema: pa.Schema) -> pa.Table:
    columns: list[object] = list(flat_cells(piece, fields))
    for i, field in enumerate(fields):
        if field.kind == "list":
            columns[i] = [None if value is None else list(map(str, value)) for value in piece.columns[field.name]]  # type: ignore[call-overload]
    columns.append(np.asarray(shapely.to_wkb(piece.shapes, byte_order=1)).tolist())
    sides = [pa.array(side) for side in shapely.bounds(piece.shapes).T]
    columns.append(pa.StructArray.from_arrays(sides, _SIDES, mask=pa.array(shapely.is_missing(piece.shapes))))
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)
