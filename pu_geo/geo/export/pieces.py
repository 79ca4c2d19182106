"""A damage map in pieces of some thousand buildings, so that an export of any size takes the same memory; and its cells as text."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from pu_geo.geo.export.codebook import Field, Kind
from pu_geo.geo.local_space import check_format, export_shapes
from pu_geo.records import DamageMap

BUILDINGS_PER_PIECE = 2000  # more is not faster; the lists of one piece stay below what wakes the garbage collector for long
Cell = str | int | float | bool | None
# With leading apostrophes: so that one more can be taken off again.
_MAY_BE_A_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")


@dataclass(frozen=True)
class Piece:
    """Some consecutive buildings.

    Attributes:
        start: number of the first one.
        ids: [n].
        shapes: shapely [n] as `export_shapes` returns them; None where rounding leaves nothing.
        columns: plain Python values [n] by field name, `building_id` first.
    """

    start: int
    ids: Sequence[str]
    shapes: NDArray[np.object_]
    columns: dict[str, list[object]]


def pieces_of(damage_map: DamageMap, format: str, size: int = BUILDINGS_PER_PIECE) -> Iterator[Piece]:
    """Cut a damage map into pieces, in the order of its buildings.

    Args:
        format: the key of `EXPORTERS` that they are for.

    Raises:
        ImageryError: kind "local" if the map has no place on the Earth and the format cannot state that.
        ValueError: if a column is longer or shorter than the list of buildings.
    """
    check_format(damage_map.grid_crs, format)
    n = len(damage_map.building_ids)
    for name, column in {"wkb": damage_map.wkb, **damage_map.columns}.items():
        if len(column) != n:
            raise ValueError(f"column {name!r} has {len(column)} values for {n} buildings")
    names = [name for name in damage_map.columns if name != "building_id"]
    for start in range(0, n, size):
        here = slice(start, start + size)
        ids = list(damage_map.building_ids[here])
        columns = {"building_id": list[object](ids), **{name: _plain(damage_map.columns[name][here]) for name in names}}
        yield Piece(start, ids, export_shapes(damage_map.wkb[here], damage_map.grid_crs), columns)


def _plain(column: Sequence[object]) -> list[object]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def flat_cells(piece: Piece, fields: Sequence[Field]) -> list[list[Cell]]:
    """Return a piece's columns for formats without lists: lists joined by ";", dicts as JSON text, not a number as null."""
    return [flat_column(piece.columns[field.name], field.kind) for field in fields]


def flat_column(values: Sequence[object], kind: Kind) -> list[Cell]:
    """Return values as texts, numbers or bools; None stays, and a number that is not finite becomes None."""
    if kind in ("bool", "int"):
        return list(values)  # type: ignore[arg-type]
    if kind == "float":
        return [None if value is None or not math.isfinite(value) else float(value) for value in values]  # type: ignore[arg-type]
    if kind == "list":
        return [None if value is None else ";".join(map(str, value)) for value in values]  # type: ignore[call-overload]
    return [value if value is None or isinstance(value, str) else _json(value) for value in values]


def _json(value: object) -> str | None:
    text = orjson.dumps(value).decode()
    return None if text == "null" else text


def as_text(metadata: object) -> str:
    """Return the metadata as JSON text, for formats that have one place for it."""
    return orjson.dumps(metadata, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def caption(damage_map: DamageMap) -> tuple[str, str]:
    """Return title and disclaimer, "" where there is none."""
    return str(damage_map.metadata.get("title", "")), str(damage_map.metadata.get("disclaimer", ""))


def csv_lines(rows: Iterable[Iterable[object]]) -> bytes:
    """Return rows as CSV after RFC 4180, UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


# Cells of CSV that a spreadsheet shall not take for formulas


def guarded(text: str) -> str:
    """Prefix a text that a spreadsheet could take for a formula with an apostrophe; `unguarded` removes it."""
    return f"'{text}" if _MAY_BE_A_FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """Return a cell as it was before `guarded`."""
    return text[1:] if _GUARDED.match(text) else text
