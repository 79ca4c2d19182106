"""Outlines of all footprints as the map gets them: facts of every building at once, and outlines by map tile, fetched where
somebody zooms in.

A map tile of outlines is no square. It is a run of `PER_TILE` buildings that lie near each other, so that no tile is large
and each building is in one, however long it is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import orjson
import shapely
from numpy.typing import NDArray

from pu_geo.geo.vector.sites import in_px
from pu_geo.records import Grid

SIMPLIFY_PX, ROUND_DECIMALS = 0.3, 1
PER_TILE = 2048  # buildings; about 80 kB of them are sent at once
HEADER = np.dtype([("n", "<u4"), ("per_tile", "<u4"), ("n_tiles", "<u4"), ("ids_bytes", "<u4"), ("name", "S32")])


@dataclass(frozen=True)
class MapOutlines:
    """Outlines of N buildings in grid pixels from the upper left corner, one building after the other.

    Attributes:
        n_rings: rings of each building, holes after their outer ring, to be filled by the even-odd rule, uint32 [N].
        n_points: points of each ring, the first one not repeated at its end, uint32 [R].
        xy: points of all rings, float32 [P, 2].
        boxes: min x, min y, max x, max y of each building, float32 [N, 4].
        areas: of its largest ring, square pixels, float32 [N].
    """

    n_rings: NDArray[np.uint32]
    n_points: NDArray[np.uint32]
    xy: NDArray[np.float32]
    boxes: NDArray[np.float32]
    areas: NDArray[np.float32]


def outlines_px(wkb: Sequence[bytes], grid: Grid) -> MapOutlines:
    """Return outlines in grid pixels, rounded to 0.1 and without points that move a line by less than 0.3.

    Args:
        wkb: polygons or multipolygons in the project CRS, [N]; none is empty.
    """
    polygons = shapely.from_wkb(np.array(list(wkb), dtype=object))
    placed = shapely.simplify(in_px(polygons, grid), SIMPLIFY_PX)
    parts, of_building = shapely.get_parts(placed, return_index=True)
    rings, of_part = shapely.get_rings(parts, return_index=True)
    closed = shapely.get_num_coordinates(rings)
    is_last = np.zeros(closed.sum(), np.bool_)
    is_last[np.cumsum(closed) - 1] = True
    xy = np.round(shapely.get_coordinates(rings), ROUND_DECIMALS)[~is_last]
    n_points = closed - 1
    n_rings = np.bincount(of_building[of_part], minlength=len(polygons))
    ring_starts, first_ring = _starts(n_points), _starts(n_rings)
    first_point = ring_starts[first_ring]
    boxes = np.hstack([np.minimum.reduceat(xy, first_point), np.maximum.reduceat(xy, first_point)])
    following = np.arange(1, len(xy) + 1)
    following[ring_starts + n_points - 1] = ring_starts
    doubled = np.abs(np.add.reduceat(xy[:, 0] * xy[following, 1] - xy[following, 0] * xy[:, 1], ring_starts))
    areas = np.maximum.reduceat(doubled, first_ring) / 2
    return MapOutlines(
        n_rings.astype(np.uint32), n_points.astype(np.uint32), xy.astype(np.float32), boxes.astype(np.float32),
        areas.astype(np.float32),
    )  # fmt: skip


def joined(pieces: Iterable[MapOutlines]) -> MapOutlines:
    """Return the outlines of all pieces, one after the other; at least one is needed."""
    found = list(pieces)
    return MapOutlines(*(np.concatenate([getattr(piece, each.name) for piece in found]) for each in fields(MapOutlines)))


def tile_order(boxes: NDArray[np.float32], per_tile: int = PER_TILE) -> NDArray[np.uint32]:
    """Return building numbers tile by tile, uint32 [N]: tile t holds places t * per_tile to (t + 1) * per_tile.

    Source: sort-tile-recursive packing (Leutenegger, Lopez & Edgington 1997, STR: A simple and efficient algorithm for
    R-tree packing): slices of equal number from west to east, each cut into tiles of equal number from north to south.
    """
    n = len(boxes)
    n_tiles = math.ceil(n / per_tile)
    per_slice = per_tile * math.ceil(n_tiles / max(1, math.ceil(math.sqrt(n_tiles))))
    x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
    slices = np.empty(n, np.int64)
    slices[np.argsort(x, kind="stable")] = np.arange(n) // max(per_slice, 1)
    return np.lexsort((y, slices)).astype(np.uint32)  # of equals the first building first: the sort is stable


def pack(building_ids: Sequence[str], outlines: MapOutlines, per_tile: int = PER_TILE) -> tuple[bytes, list[bytes]]:
    """Return what the browser gets first, and each map tile of outlines, little-endian.

    The first: a header (`HEADER`), the `tile_order`, boxes, areas, then the building ids as JSON. `name` in the header is a
    hash of all that is sent, so that a tile's address names its content.
    A tile: rings of each of its buildings, uint32 [M]; points of each ring, uint32 [R]; the points, float32 [P, 2].
    """
    order = tile_order(outlines.boxes, per_tile)
    rings = _runs(_starts(outlines.n_rings), outlines.n_rings, order)
    points = _runs(_starts(outlines.n_points), outlines.n_points, rings)
    n_rings, n_points, xy = outlines.n_rings[order], outlines.n_points[rings], outlines.xy[points]
    ring_ends, point_ends = np.cumsum(n_rings, dtype=np.int64), np.cumsum(n_points, dtype=np.int64)
    tiles, ring, point = [], 0, 0
    for start in range(0, len(order), per_tile):
        end = min(start + per_tile, len(order))
        ring_end = int(ring_ends[end - 1])
        point_end = int(point_ends[ring_end - 1])
        arrays = (n_rings[start:end], n_points[ring:ring_end], xy[point:point_end])
        tiles.append(b"".join(array.tobytes() for array in arrays))
        ring, point = ring_end, point_end
    ids = orjson.dumps(list(building_ids))
    facts = order.tobytes() + outlines.boxes.tobytes() + outlines.areas.tobytes() + ids
    name = hashlib.sha256(facts)
    for tile in tiles:
        name.update(hashlib.sha256(tile).digest())
    header = np.array([(len(order), per_tile, len(tiles), len(ids), name.hexdigest()[:32].encode())], HEADER)
    return header.tobytes() + facts, tiles


def _starts(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.cumsum(lengths, dtype=np.int64) - lengths


def _runs(starts: NDArray[np.int64], lengths: NDArray[np.uint32], wanted: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places of some runs one after the other: run k goes from `starts[k]` over `lengths[k]` places."""
    chosen = lengths[wanted].astype(np.int64)
    return np.repeat(starts[wanted] - _starts(chosen), chosen) + np.arange(chosen.sum())
