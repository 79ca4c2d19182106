"""A damage map in pieces of some thousand buildings, so that text formats of any size take the same memory; and its cells as
text.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.files import write_export
from pu_geo.geo.export.codebook import Field, Kind
from pu_geo.geo.export.geometry import extent, geojson_of, part_bounds
from pu_geo.geo.local_space import check_format, export_shapes
from pu_geo.records import DamageMap
from pu_geo.spreadsheets import guarded

BUILDINGS_PER_PIECE = 2000  # more is not faster; the lists of one piece stay below what wakes the garbage collector for long
ROWS_PER_WRITE = 5000
BYTE_ORDER_MARK = "\ufeff".encode()  # Excel needs it to read UTF-8
Cell = str | int | float | bool | list[str] | None


@dataclass(frozen=True)
class Piece:
    """Some consecutive buildings.

    Attributes:
        wkb: [n], in the CRS of the map.
        shapes: shapely [n] as `export_shapes` returns them; None where rounding leaves nothing.
        columns: plain Python values [n] by field name, `building_id` first.
    """

    wkb: Sequence[bytes]
    shapes: NDArray[np.object_]
    columns: dict[str, list[Any]]

    def cells(self, fields: Sequence[Field], *, joins: bool = True) -> list[list[Cell]]:
        """Return the columns for tables: dicts as JSON text, NaN as null, and, if `joins`, lists as text joined by ";"."""
        return [_cells(self.columns[field.name], field.kind, joins=joins) for field in fields]


def pieces_of(damage_map: DamageMap, format: str, size: int = BUILDINGS_PER_PIECE) -> Iterator[Piece]:
    """Cut a damage map into pieces, in the order of its buildings.

    Args:
        format: the key of `EXPORTERS` that they are for.

    Raises:
        ImageryError: kind "local" if the map has no place on the Earth and the format cannot state that.
        ValueError: if a column is longer or shorter than the list of buildings.
    """
    check_format(damage_map.grid_crs, format)
    columns = {"building_id": damage_map.building_ids, **damage_map.columns}
    for name, column in {"wkb": damage_map.wkb, **columns}.items():
        if len(column) != len(damage_map.building_ids):
            raise ValueError(f"column {name!r} has {len(column)} values for {len(damage_map.building_ids)} buildings")
    for start in range(0, len(damage_map.building_ids), size):
        here = slice(start, start + size)
        wkb = damage_map.wkb[here]
        plain = {name: _plain(column[here]) for name, column in columns.items()}
        yield Piece(wkb, export_shapes(wkb, damage_map.grid_crs), plain)


def _plain(column: Sequence[object]) -> list[object]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _cells(values: Sequence[Any], kind: Kind, *, joins: bool) -> list[Cell]:
    if kind in ("bool", "int"):
        return list(values)
    if kind == "float":
        return [None if value is None or not math.isfinite(value) else float(value) for value in values]
    if kind == "list":
        texts = (None if value is None else list(map(str, value)) for value in values)
        return [";".join(text) if joins and text is not None else text for text in texts]
    return [value if value is None or isinstance(value, str) else _json(value) for value in values]


def _json(value: object) -> str | None:
    text = as_text(value)
    return None if text == "null" else text


def as_text(value: object) -> str:
    """Return a value as JSON text, for formats that have one place for it."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def caption(damage_map: DamageMap) -> tuple[str, str]:
    """Return title and disclaimer, "" where there is none."""
    return str(damage_map.metadata.get("title", "")), str(damage_map.metadata.get("disclaimer", ""))


# Files that more than damage maps are written as


def geojson_lines(
    metadata: Mapping[str, object],
    pieces: Iterable[tuple[Sequence[object], NDArray[np.object_], Iterable[Mapping[str, object]]]],
    *,
    has_box: bool = True,
) -> Iterator[bytes]:
    """Write a collection as GeoJSON after RFC 7946, one feature a line.

    Args:
        metadata: the foreign member `pu_geo`.
        pieces: of each its ids, its shapes in degrees (valid, at most 7 decimals, None for no geometry) and their
            properties.
        has_box: whether `bbox` stands at the end, where it is known.
    """
    head = {"type": "FeatureCollection", "pu_geo": dict(metadata)}
    yield orjson.dumps(head, option=orjson.OPT_SERIALIZE_NUMPY)[:-1] + b',"features":['
    bounds, before = list[NDArray[np.float64]](), b"\n"
    for ids, shapes, rows in pieces:
        bounds.append(part_bounds(shapes))
        yield before + b",\n".join(
            orjson.dumps({"type": "Feature", "id": name, "geometry": geometry, "properties": row})
            for name, geometry, row in zip(ids, geojson_of(shapes), rows, strict=True)
        )
        before = b",\n"
    box = extent(bounds) if has_box else None
    yield b"\n]" + (b',"bbox":' + orjson.dumps(box) if box else b"") + b"}\n"


def write_csv(out: Path, header: Sequence[str], rows: Iterable[Iterable[object]], *, has_mark: bool = True) -> None:
    """Write a table as CSV after RFC 4180, null an empty cell, texts that could be formulas guarded.

    Args:
        has_mark: whether a byte order mark says that it is UTF-8.
    """
    lines = itertools.chain([header], rows)
    guards = ([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in lines)
    parts = iter(lambda: list(itertools.islice(guards, ROWS_PER_WRITE)), [])
    write_export(out, itertools.chain([BYTE_ORDER_MARK] if has_mark else [], map(csv_lines, parts)))


def csv_lines(rows: Iterable[Iterable[object]]) -> bytes:
    """Return rows as CSV after RFC 4180, UTF-8, as they are."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
