"""What every reader of footprint files returns, and WKB checked from its headers alone before GEOS may read it.

GEOS reads nested geometry by recursion: a blob of two megabytes, nested 200,000 deep, ends the process.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.vector import crs as systems

OUTSIDE_SCENES = "outside the scenes"  # why a footprint was left out, as accounts of files name it
MAX_LEVELS = 4  # a multipolygon in two collections takes three
MAX_PARTS = 10_000_000  # GEOS takes about 200 bytes for a ring of no points, which has four in the file
UNREADABLE = b"\0"  # what no reader accepts
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_MEMBERS = {4: _POINT, 5: _LINE, 6: _POLYGON, _COLLECTION: 0}  # kind of the members of each multi kind; 0 is any
_CURVED = range(8, 15)
_NUMBERS = (struct.Struct(">I"), struct.Struct("<I"))  # by the byte order mark
_Z_BIT, _M_BIT, _SRID_BIT, _NO_BITS = 0x80000000, 0x40000000, 0x20000000, 0x1FFF0000


@dataclass(frozen=True)
class RawFootprints:
    """Features of one file in its own CRS.

    Attributes:
        geometries: shapely geometries [N]; None where a feature has none.
        is_unreadable: bool [N]; the feature has a geometry that is not valid GeoJSON, WKT or WKB.
        attributes: as in the file, one dict each.
        feature_ids: the file's own feature ids, None where absent.
        crs: "EPSG:n", "OGC:CRS84" or WKT.
    """

    geometries: NDArray[np.object_]
    is_unreadable: NDArray[np.bool_]
    attributes: Sequence[Mapping[str, object]]
    feature_ids: Sequence[object]
    crs: str


def from_blobs(
    blobs: Sequence[bytes | None],
    attributes: Sequence[Mapping[str, object]],
    feature_ids: Sequence[object],
    crs: str,
    name: str,
) -> RawFootprints:
    """Read the WKB of features, None where one has no geometry, after its headers were checked; see `checked_wkb`."""
    checked = np.array(checked_wkb(blobs, name), dtype=object)
    with np.errstate(invalid="ignore"):  # a signaling NaN; coordinates that are not finite are dropped and counted later
        geometries = np.asarray(shapely.from_wkb(checked, on_invalid="ignore"))
    has_blob = np.array([blob is not None for blob in blobs], dtype=bool)
    return RawFootprints(geometries, has_blob & shapely.is_missing(geometries), attributes, feature_ids, crs)


def joined(parts: Sequence[RawFootprints]) -> RawFootprints:
    """Join the features of several files of one coordinate system, at least one."""
    return RawFootprints(
        np.concatenate([part.geometries for part in parts]),
        np.concatenate([part.is_unreadable for part in parts]),
        [row for part in parts for row in part.attributes],
        [number for part in parts for number in part.feature_ids],
        parts[0].crs,
    )


def broken(name: str, why: str, hint: str = "Export the file again.", kind: str = "parse") -> FootprintError:
    """Return the error for a footprint file that cannot be read."""
    return FootprintError(f"{name} cannot be read as footprints: {why}.", hint, kind=kind)


def known_crs(text: str) -> str:
    """Return a coordinate system's name, "EPSG:n" or WKT.

    Raises:
        ValueError: if it is not known, or has no place on the Earth.
    """
    crs = systems.load_crs(text)
    crs = crs.sub_crs_list[0] if crs.is_compound else crs
    name = systems.name_of(crs)
    if not (crs.is_geographic or crs.is_projected) or not systems.is_on_earth(name):
        raise ValueError(f"{text[:60]!r} has no place on the Earth.")
    return name


# WKB, checked from its headers alone


def checked_wkb(blobs: Sequence[bytes | None], name: str) -> list[bytes | None]:
    """Return WKB that GEOS can read without harm; what is broken in its headers comes back as `UNREADABLE`.

    Args:
        blobs: WKB per feature, None where a feature has none.

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
