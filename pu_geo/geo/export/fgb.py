"""Damage maps as FlatGeobuf, which web maps read in parts."""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.geo.export import flatgeobuf
from pu_geo.geo.export.codebook import Field, fields_of
from pu_geo.geo.export.geometry import Extent, take_apart
from pu_geo.geo.export.pieces import Cell, Piece, as_text, caption, flat_cells, pieces_of
from pu_geo.geo.export.whole_files import write_whole
from pu_geo.records import DamageMap

_TYPES = {"bool": flatgeobuf.BOOL, "int": flatgeobuf.LONG, "float": flatgeobuf.DOUBLE}
_FEATURES_PER_WRITE = 2000


def export_fgb(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as FlatGeobuf: multipolygons in EPSG:4326 with a spatial index.

    With the index, buildings lie along a Hilbert curve and not in their own order. FlatGeobuf cannot index a feature without
    geometry: where rounding leaves nothing of a footprint, the file has no index. Lists are joined by ";", dicts are JSON text.

    Args:
        damage_map: its geometry in `grid_crs`.
        out: file to write; replaced if it exists.
    """
    write_whole(out, _pieces(damage_map, out.parent))


def _pieces(damage_map: DamageMap, folder: Path) -> Iterator[bytes]:
    """Put features into a nameless file first: the index, which comes before them, needs to know how long they are."""
    extent, boxes, lengths = Extent(), list[NDArray[np.float64]](), list[int]()
    fields = fields_of(damage_map)
    with tempfile.TemporaryFile(dir=folder) as spool:
        for piece in pieces_of(damage_map, "fgb"):
            extent.add(piece.shapes)
            boxes.append(shapely.bounds(piece.shapes))
            features = list(_features(piece, fields))
            lengths += [len(feature) for feature in features]
            spool.write(b"".join(features))
        spool.flush()
        bounds = np.concatenate([np.zeros((0, 4)), *boxes])
        has_index = len(bounds) > 0 and bool(np.isfinite(bounds).all())
        columns = [(field.name, _TYPES.get(field.kind, flatgeobuf.STRING)) for field in fields]
        about = (*caption(damage_map), as_text(dict(damage_map.metadata)))
        box = extent.box(may_cross=False)
        yield flatgeobuf.header("damage_map", columns, len(bounds), box, *about, has_index=has_index)
        if len(bounds):
            yield from _in_order(spool.fileno(), np.array(lengths), bounds if has_index else None)


def _in_order(spool: int, lengths: NDArray[np.int64], bounds: NDArray[np.float64] | None) -> Iterator[bytes]:
    """Return the index over `bounds` [N, 4] and the features in its order; without bounds, the features as they lie."""
    starts = np.cumsum(lengths) - lengths
    order = np.arange(len(lengths)) if bounds is None else flatgeobuf.hilbert_order(bounds)
    if bounds is not None:
        yield flatgeobuf.packed_index(bounds[order], np.cumsum(lengths[order]) - lengths[order])
    with mmap.mmap(spool, 0, access=mmap.ACCESS_READ) as features:
        for at in range(0, len(order), _FEATURES_PER_WRITE):
            rows = order[at : at + _FEATURES_PER_WRITE]
            yield b"".join(features[starts[row] : starts[row] + lengths[row]] for row in rows)


def _features(piece: Piece, fields: Sequence[Field]) -> Iterator[bytes]:
    rows = zip(*flat_cells(piece, fields), strict=True)
    shapes = take_apart(piece.shapes).nested(len(piece.shapes))
    for polygons, row in zip(shapes, rows, strict=True):
        yield flatgeobuf.feature(polygons, b"".join(_property(i, cell, fields[i]) for i, cell in enumerate(row)))


def _property(number: int, cell: Cell, field: Field) -> bytes:
    if cell is None:
        return b""
    if isinstance(cell, str):
        data = cell.encode()
        return struct.pack("<HI", number, len(data)) + data
    return struct.pack({"bool": "<H?", "int": "<Hq"}.get(field.kind, "<Hd"), number, cell)
