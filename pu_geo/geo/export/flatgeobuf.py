"""Damage maps as FlatGeobuf, which web maps read in parts: its bytes, and the export.

Source: FlatGeobuf specification 3.0.1 (header.fbs, feature.fbs, packed Hilbert R-tree) and FlatBuffers' binary layout: a
table starts with the distance back to its vtable, which lists at which byte of the table each field lies, 0 where it is absent.
All distances to other objects point forward. All numbers are little-endian; positions count from the size prefix, and arrays
of doubles start at multiples of 8.

Written here because the library at hand (pyogrio's Arrow writer) ended the whole process on some of our test maps, and could
not promise that a full disk is noticed.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.atomic_write import write_export
from pu_geo.geo.export.codebook import Field, fields_of
from pu_geo.geo.export.geometry import Extent, rings_of
from pu_geo.geo.export.pieces import Cell, Piece, as_text, caption, flat_cells, pieces_of
from pu_geo.records import DamageMap

MAGIC = b"fgb\x03fgb\x01"
NODE_SIZE = 16
MULTIPOLYGON, POLYGON = 6, 3
BOOL, LONG, DOUBLE, STRING = 2, 7, 10, 11  # column types
_NODE = np.dtype([("x0", "<f8"), ("y0", "<f8"), ("x1", "<f8"), ("y1", "<f8"), ("offset", "<u8")])
_HILBERT_ORDER = 16
_TYPES = {"bool": BOOL, "int": LONG, "float": DOUBLE}
_FEATURES_PER_WRITE = 2000


@dataclass
class Table:
    """A FlatBuffers table to be written: field number -> number with its struct code, bytes of a vector, table or tables."""

    scalars: dict[int, tuple[str, int]] = field(default_factory=dict)
    children: dict[int, Vector | Table | list[Table]] = field(default_factory=dict)


@dataclass(frozen=True)
class Vector:
    """A FlatBuffers vector of `n` numbers of `item_bytes` each; `ends` is what follows them: a zero after strings."""

    data: bytes
    n: int
    item_bytes: int
    ends: bytes = b""


def text(value: str) -> Vector:
    """Return a FlatBuffers string."""
    data = value.encode()
    return Vector(data, len(data), 1, b"\0")


def doubles(values: NDArray[np.float64]) -> Vector:
    """Return a vector of doubles."""
    return Vector(np.ascontiguousarray(values, dtype="<f8").tobytes(), values.size, 8)


def sized(root: Table) -> bytes:
    """Return a table as a buffer with its size in front."""
    out = bytearray(8)
    _point(out, 4, _put_table(out, root))
    out += bytes(-len(out) % 8)
    struct.pack_into("<I", out, 0, len(out) - 4)
    return bytes(out)


def _point(out: bytearray, at: int, to: int) -> None:
    struct.pack_into("<I", out, at, to - at)


def _put_table(out: bytearray, table: Table) -> int:
    """Append a table with all it holds; return where it starts."""
    n_fields = max([*table.scalars, *table.children], default=-1) + 1
    places, size = [0] * n_fields, 4
    inline = {**table.scalars, **dict.fromkeys(table.children, ("<I", 0))}
    for number, (code, _) in sorted(inline.items(), key=lambda item: -struct.calcsize(item[1][0])):
        width = struct.calcsize(code)
        size += (-size - 4 * (width == 8)) % width  # the table itself starts 4 before a multiple of 8
        places[number] = size
        size += width
    vtable = struct.pack(f"<HH{n_fields}H", 4 + 2 * n_fields, size, *places)
    out += bytes((4 - len(out) - len(vtable)) % 8)
    start = len(out) + len(vtable)
    out += vtable + bytes(size)
    struct.pack_into("<i", out, start, len(vtable))
    for number, (code, value) in table.scalars.items():
        struct.pack_into(code, out, start + places[number], value)
    for number, child in table.children.items():
        _point(out, start + places[number], _put_child(out, child))
    return start


def _put_child(out: bytearray, child: Vector | Table | list[Table]) -> int:
    if isinstance(child, Table):
        return _put_table(out, child)
    if isinstance(child, list):
        out += bytes(-len(out) % 4)
        start = len(out)
        out += struct.pack("<I", len(child)) + bytes(4 * len(child))
        for i, table in enumerate(child):
            _point(out, start + 4 + 4 * i, _put_table(out, table))
        return start
    out += bytes((-len(out) - 4) % max(4, child.item_bytes))
    start = len(out)
    out += struct.pack("<I", child.n) + child.data + child.ends
    return start


def header(
    name: str, columns: Sequence[tuple[str, int]], n: int, box: Sequence[float] | None, title: str, description: str, metadata: str,
    *, has_index: bool,
) -> bytes:  # fmt: skip
    """Return magic bytes and header of a layer of multipolygons in EPSG:4326 (longitude first, as FlatGeobuf always has it).

    Args:
        columns: name and column type each.
        box: [west, south, east, north], degrees.
        metadata: JSON text.
    """
    crs = Table({1: ("<i", 4326)}, {0: text("EPSG")})
    listed = [Table({1: ("<B", kind)}, {0: text(column)}) for column, kind in columns]
    children: dict[int, Vector | Table | list[Table]] = {0: text(name), 7: listed, 10: crs, 13: text(metadata)}
    children |= {11: text(title), 12: text(description)}
    if box is not None:
        children[1] = doubles(np.array(box))
    scalars = {2: ("<B", MULTIPOLYGON), 8: ("<Q", n), 9: ("<H", NODE_SIZE if has_index else 0)}
    return MAGIC + sized(Table(scalars, children))


def feature(polygons: Sequence[Sequence[NDArray[np.float64]]], properties: bytes) -> bytes:
    """Return one feature with its size in front.

    Args:
        polygons: rings, float64 [points, 2], by polygon; none for a feature without geometry.
        properties: for each value that is not null, the column's number (uint16) and the value.
    """
    if len(polygons) != 1 or len(polygons[0]) != 1:
        return any_feature(polygons, properties)
    ring = polygons[0][0]  # one ring alone, nine of ten buildings, this way five times faster
    body = b"".join([_before_coordinates(len(ring)), ring.tobytes(), struct.pack("<I", len(properties)), properties])
    padding = bytes((-len(body) - 4) % 8)
    return struct.pack("<I", len(body) + len(padding)) + body + padding


def any_feature(polygons: Sequence[Sequence[NDArray[np.float64]]], properties: bytes) -> bytes:
    """Return a feature of any shape; see `feature`."""
    root = Table({}, {1: Vector(properties, len(properties), 1)})
    if polygons:
        geometry = Table({6: ("<B", MULTIPOLYGON)}, {7: [_polygon(rings) for rings in polygons]})
        root.children = {0: geometry, **root.children}
    return sized(root)


@lru_cache(maxsize=1000)
def _before_coordinates(n_points: int) -> bytes:
    """Return a one-ring feature from after its size to its first coordinate; all of it follows from the number of points."""
    return any_feature([[np.zeros((n_points, 2))]], b"")[4 : -16 * n_points - 8]  # 8: no properties and padding


def _polygon(rings: Sequence[NDArray[np.float64]]) -> Table:
    table = Table({6: ("<B", POLYGON)}, {1: doubles(np.concatenate(rings) if len(rings) > 1 else rings[0])})
    if len(rings) > 1:
        ends = np.cumsum([len(ring) for ring in rings])
        table.children[0] = Vector(ends.astype("<u4").tobytes(), len(ends), 4)
    return table


def hilbert_order(bounds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of boxes [N, 4] (x0, y0, x1, y1) along a Hilbert curve through their centers, int64 [N]."""
    centers = (bounds[:, :2] + bounds[:, 2:]) / 2
    low, spread = centers.min(axis=0), np.maximum(np.ptp(centers, axis=0), 1e-12)
    x, y = ((centers - low) / spread * (2**_HILBERT_ORDER - 1)).astype(np.int64).T
    place = np.zeros(len(bounds), dtype=np.int64)
    for bit in range(_HILBERT_ORDER - 1, -1, -1):
        right, upper = (x >> bit) & 1, (y >> bit) & 1
        place += ((3 * right) ^ upper) << (2 * bit)
        turned = 2**_HILBERT_ORDER - 1
        x, y = np.where((upper == 0) & (right == 1), turned - x, x), np.where((upper == 0) & (right == 1), turned - y, y)
        x, y = np.where(upper == 0, y, x), np.where(upper == 0, x, y)
    return np.argsort(place, kind="stable")


def packed_index(bounds: NDArray[np.float64], offsets: NDArray[np.int64]) -> bytes:
    """Return the packed R-tree over features in file order: root first, leaves last; 40 bytes a node.

    Args:
        bounds: [N, 4] (x0, y0, x1, y1), N > 0.
        offsets: int64 [N], each feature's first byte after the index.
    """
    level = np.zeros(len(bounds), dtype=_NODE)
    for number, side in enumerate(("x0", "y0", "x1", "y1")):
        level[side] = bounds[:, number]
    level["offset"] = offsets
    levels = [level]
    while len(levels[-1]) > 1 or len(levels) == 1:
        below, starts = levels[-1], np.arange(0, len(levels[-1]), NODE_SIZE)
        above = np.zeros(len(starts), dtype=_NODE)
        for side, join in (("x0", np.minimum), ("y0", np.minimum), ("x1", np.maximum), ("y1", np.maximum)):
            above[side] = join.reduceat(below[side], starts)
        above["offset"] = starts  # from the first node of the level below; made absolute where all levels are known
        levels.append(above)
    levels.reverse()
    first = 0
    for above in levels[:-1]:
        first += len(above)
        above["offset"] += np.uint64(first)
    return b"".join(nodes.tobytes() for nodes in levels)


# The export


def export_fgb(damage_map: DamageMap, out: Path) -> None:
    """Write a damage map as FlatGeobuf: multipolygons in EPSG:4326 with a spatial index.

    With the index, buildings lie along a Hilbert curve and not in their own order. FlatGeobuf cannot index a feature without
    geometry: where rounding leaves nothing of a footprint, the file has no index. Lists are joined by ";", dicts are JSON text.
    """
    write_export(out, _pieces(damage_map, out.parent))


def _pieces(damage_map: DamageMap, folder: Path) -> Iterator[bytes]:
    """Write features to a nameless file first: the index, which comes before them, needs to know how long they are."""
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
        columns = [(field.name, _TYPES.get(field.kind, STRING)) for field in fields]
        about = (*caption(damage_map), as_text(dict(damage_map.metadata)))
        box = extent.box(may_cross=False)
        yield header("damage_map", columns, len(bounds), box, *about, has_index=has_index)
        if not len(bounds):
            return
        sizes = np.array(lengths)
        starts = np.cumsum(sizes) - sizes
        order = hilbert_order(bounds) if has_index else np.arange(len(sizes))
        if has_index:
            yield packed_index(bounds[order], np.cumsum(sizes[order]) - sizes[order])
        with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as written:
            for at in range(0, len(order), _FEATURES_PER_WRITE):
                rows = order[at : at + _FEATURES_PER_WRITE]
                yield b"".join(written[starts[row] : starts[row] + sizes[row]] for row in rows)


def _features(piece: Piece, fields: Sequence[Field]) -> Iterator[bytes]:
    rows = zip(*flat_cells(piece, fields), strict=True)
    shapes = rings_of(piece.shapes).nested(len(piece.shapes))
    for polygons, row in zip(shapes, rows, strict=True):
        yield feature(polygons, b"".join(_property(i, cell, fields[i]) for i, cell in enumerate(row)))


def _property(number: int, cell: Cell, field: Field) -> bytes:
    if cell is None:
        return b""
    if isinstance(cell, str):
        data = cell.encode()
        return struct.pack("<HI", number, len(data)) + data
    return struct.pack({"bool": "<H?", "int": "<Hq"}.get(field.kind, "<Hd"), number, cell)
