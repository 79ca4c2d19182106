"""WKB looked at from outside, before GEOS may read it: kinds of geometry, depth and number of parts, from headers alone.

GEOS reads nested geometry by recursion: a blob of two megabytes, nested 200,000 deep, ends the process.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pu_geo.errors import FootprintError

MAX_LEVELS = 4  # a multipolygon in two collections takes three
MAX_PARTS = 10_000_000  # GEOS takes about 200 bytes for a ring of no points, which has four in the file
UNREADABLE = b"\0"  # what no reader accepts
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_MEMBERS = {4: _POINT, 5: _LINE, 6: _POLYGON, _COLLECTION: 0}  # kind of the members of each multi kind; 0 is any
_CURVED = range(8, 15)
_NUMBERS = (struct.Struct(">I"), struct.Struct("<I"))  # by the byte order mark
_Z_BIT, _M_BIT, _SRID_BIT, _NO_BITS = 0x80000000, 0x40000000, 0x20000000, 0x1FFF0000


def checked(blobs: Sequence[bytes | None], name: str) -> list[bytes | None]:
    """Return WKB that GEOS can read without harm; what is broken in its headers comes back as `UNREADABLE`.

    Args:
        blobs: WKB per feature, None where a feature has none.
        name: of the file, for the message.

    Raises:
        FootprintError: kind "parse" for curved geometry, collections nested over 4 levels deep, or over 10 million parts.
    """
    n_parts = 0
    out: list[bytes | None] = []
    for blob in blobs:
        try:
            n_parts += 0 if blob is None else _count_parts(blob, name)
        except (ValueError, IndexError, struct.error):
            blob = UNREADABLE
        out.append(blob)
        if n_parts > MAX_PARTS:
            raise FootprintError(
                f"{name} has over {MAX_PARTS:,} rings and parts of geometry, more than any set of buildings.",
                "Cut the file to the area of the scenes.",
                kind="parse",
            )
    return out


def _count_parts(blob: bytes, name: str) -> int:
    """Walk over the headers of one geometry, without recursion, and count its members and rings up to the limit.

    Raises:
        ValueError, IndexError, struct.error: the blob is cut off or no WKB.
    """
    at, n_parts = 0, 0
    left, kinds = [1], [0]  # per open level: members still to come, and their kind
    while left and n_parts <= MAX_PARTS:
        if left[-1] == 0:
            left.pop()
            kinds.pop()
            continue
        left[-1] -= 1
        kind, point_bytes, number, at = _header(blob, at, name)
        n_parts += 1
        if kinds[-1] not in (0, kind):
            raise ValueError("a member of another kind")
        if kind == _POINT:
            at += point_bytes
            continue
        (n,) = number.unpack_from(blob, at)
        at += 4
        if 4 * n > len(blob) - at:
            raise ValueError("more members than bytes")
        if kind == _LINE:
            at += n * point_bytes
        elif kind == _POLYGON:
            n_parts += n
            walked = min(n, MAX_PARTS) if len(left) > 1 else 0  # nothing comes after a polygon that stands alone
            for _ in range(walked):
                at += 4 + number.unpack_from(blob, at)[0] * point_bytes
        elif len(left) > MAX_LEVELS:
            raise FootprintError(
                f"{name} has geometry collections nested over {MAX_LEVELS} levels deep.",
                "Save the footprints as polygons or multipolygons.",
                kind="parse",
            )
        else:
            left.append(n)
            kinds.append(_MEMBERS[kind])
    return n_parts


def _header(blob: bytes, at: int, name: str) -> tuple[int, int, struct.Struct, int]:
    """Read the header at a byte: kind 1 to 7, bytes per point, reader of numbers, and the byte after it.

    ISO numbers (1003 is a polygon with heights) and the older flag bits are both known.
    """
    number = _NUMBERS[blob[at]]
    (word,) = number.unpack_from(blob, at + 1)
    dimensions, kind = divmod(word & 0xFFFF, 1000)
    if kind in _CURVED and not word & _NO_BITS:
        raise FootprintError(
            f"{name} has curved geometry (WKB type {word & 0xFFFF}); footprints have straight edges.",
            "Convert it first: ogr2ogr -nlt CONVERT_TO_LINEAR straight.gpkg curved.gpkg",
            kind="parse",
        )
    if not _POINT <= kind <= _COLLECTION or dimensions > 3 or word & _NO_BITS:
        raise ValueError("no kind of geometry")
    has_z = bool(word & _Z_BIT) or dimensions in (1, 3)
    has_m = bool(word & _M_BIT) or dimensions in (2, 3)
    return kind, 8 * (2 + has_z + has_m), number, at + (9 if word & _SRID_BIT else 5)
