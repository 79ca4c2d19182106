"""Places for pictures that carry none: a world file with a coordinate system, or xBD labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pu_geo.errors import ImageryError
from pu_geo.geo.readers import xbd
from pu_geo.geo.readers.file_kinds import head_of, regular_file
from pu_geo.geo.readers.raw_footprints import known_crs
from pu_geo.records import Affine6

MAX_SIDE_BYTES = 10_000
_SUFFIXES = {".png": (".pgw", ".pngw"), ".jpg": (".jgw", ".jpgw"), ".jpeg": (".jgw", ".jpegw"), ".tif": (".tfw", ".tifw")}


@dataclass(frozen=True)
class Place:
    """Where a picture lies, and how that is known.

    Attributes:
        crs: "EPSG:n" or WKT; None where nothing names it.
        found: in words, such as "world file a.pgw".
        date: ISO 8601 date of acquisition, if what tells the place tells that too.
    """

    crs: str | None
    transform: Affine6
    found: str
    date: str | None = None


def find_place(path: Path, crs: str | None) -> Place | None:
    """Look for a world file of the same name, then for xBD labels; None where there is neither.

    Args:
        path: the picture.
        crs: "EPSG:n" or WKT that the world file is in; the .prj file beside it if None.

    Raises:
        ImageryError: kind "geotransform" or "crs" if what is there cannot be used.
    """
    world = _world_file(path)
    if world is not None:
        return Place(crs or _prj(path), _read_world_file(world), f"world file {world.name}")
    labels = xbd.labels_of(path)
    if labels is None:
        return None
    fitted = xbd.place_of(regular_file(labels, ImageryError), path.name)
    told = f"xBD labels ({fitted.n_polygons} buildings, off by {fitted.residual_px:.2g} pixels)"
    return Place(fitted.crs, fitted.transform, told, fitted.date)


def has_world_file(path: Path) -> bool:
    """Say whether a world file lies beside a picture."""
    return _world_file(path) is not None


def _world_file(path: Path) -> Path | None:
    """Return the world file beside a picture: its suffix shortened or lengthened with a w, or .wld."""
    for suffix in (*_SUFFIXES.get(path.suffix.lower(), ()), ".wld"):
        for beside in (path.with_suffix(suffix), path.with_suffix(suffix.upper())):
            if beside.is_file():
                return regular_file(beside, ImageryError, MAX_SIDE_BYTES)
    return None


def _read_world_file(world: Path) -> Affine6:
    """Read the six lines a, d, b, e and the center x, y of the upper left pixel.

    Raises:
        ImageryError: kind "geotransform" if it holds anything but six finite numbers.
    """
    lines = head_of(world, ImageryError, MAX_SIDE_BYTES).decode("ascii", errors="replace").split()
    try:
        a, d, b, e, x, y = (float(line.replace(",", ".")) for line in lines)
        if not all(math.isfinite(number) for number in (a, b, d, e, x, y)):
            raise ValueError("not finite")
    except ValueError as cause:
        raise ImageryError(
            f"{world.name} is not a world file: it does not hold six numbers.",
            "Export the picture again with its world file, or as GeoTIFF.",
            kind="geotransform",
        ) from cause
    return (a, b, x - (a + b) / 2, d, e, y - (d + e) / 2)


def _prj(path: Path) -> str | None:
    """Return the coordinate system in the .prj file beside a picture, None if there is none."""
    beside = path.with_suffix(".prj")
    if not beside.is_file():
        return None
    text = head_of(regular_file(beside, ImageryError, MAX_SIDE_BYTES), ImageryError, MAX_SIDE_BYTES)
    return given_crs(text.decode("utf-8-sig", errors="replace").strip(), beside.name)


def given_crs(text: str, named_by: str) -> str:
    """Return a coordinate system that a person or a side file named, "EPSG:n" or WKT.

    Raises:
        ImageryError: kind "crs" if it is not known.
    """
    try:
        return known_crs(text)
    except ValueError as cause:
        raise ImageryError(
            f"{named_by} names the coordinate system {text[:60]!r}, which is not known.",
            "Give it as EPSG:n, such as EPSG:32633.",
            kind="crs",
        ) from cause
