"""Refusals that come before any library may open a file: whether it is a plain file here, and of what kind by its bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from pu_geo.errors import FootprintError, ImageryError, PuGeoError

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_VECTOR_MAGIC = {b"PK\3\4": "zip", b"PK\5\6": "zip", b"fgb\x03fgb": "fgb", b"PAR1": "parquet", b"\0\0\x27\x0a": "shp"}
_VECTOR_SUFFIXES = (".geojson", ".json", ".gpkg", ".zip", ".kml", ".kmz", ".shp", ".gml", ".fgb", ".parquet", ".csv")
_PICTURES = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"\0\0\0\x0cjP": "JPEG 2000", b"RIFF": "WebP"}
_OTHER_FILES = {b"PK\3\4": "ZIP archive", b"SQLite format 3": "SQLite database", b"%PDF": "PDF", b"\x1f\x8b": "gzip file"}
_MARKUP = {b"<!doctype html": "HTML page", b"<html": "HTML page", b"<": "XML file"}
WKT_COLUMNS = ("wkt", "geometry", "geom", "the_geom", "wkt_geom", "geometry_wkt", "polygon", "footprint")


def regular_file(path: Path | str, error: type[PuGeoError], max_bytes: int | None = None) -> Path:
    """Return the absolute path of a plain local file, or refuse it.

    Args:
        error: the error to raise, ImageryError or FootprintError.
    """
    text = os.fspath(path)
    if text.startswith("/vsi") or "://" in text or "\0" in text:
        raise error(
            f"{text[:80]!r} is an address, not a file on this computer.",
            "Download the file first, then choose the copy on your disk.",
            kind="driver",
        )
    given = Path(text).absolute()
    if not str(given).isprintable() and str(given).encode(errors="ignore") != os.fsencode(given):
        shown = str(given).encode(errors="backslashreplace").decode()
        raise error(f"{shown[-80:]} is no name in UTF-8.", "Rename the file or its folder.", kind="missing")
    try:
        found, real = given.stat(), given.resolve(strict=True)
    except OSError as cause:
        raise error(
            f"{given.name} cannot be read: {cause.strerror or cause}.",
            "Check the path and that you may read the file.",
            kind="missing",
        ) from cause
    if given.is_symlink() and real.parent != given.parent.resolve():
        raise error(f"{given.name} is a link to {real}, in another folder.", f"Choose {real} itself.", kind="link")
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"{given.name} is not a regular file (it is a folder, a pipe or a device).", "Choose a file.", kind="missing"
        )
    if max_bytes is not None and found.st_size > max_bytes:
        raise error(
            f"{given.name} has {found.st_size / 1e6:,.0f} MB; up to {max_bytes / 1e6:,.0f} MB can be read.",
            "Cut the file to the area of the scenes, or save it as GeoPackage.",
            kind="size",
        )
    return real


def head_of(path: Path, error: type[PuGeoError], n: int = 512) -> bytes:
    """Read the first `n` bytes of a file."""
    try:
        with path.open("rb") as file:
            return file.read(n)
    except OSError as cause:
        raise error(
            f"{path.name} cannot be read: {cause.strerror or cause}.", "Check that you may read the file.", kind="missing"
        ) from cause


def name_content(head: bytes) -> str | None:
    """Return what the first bytes show a file to be, in words, or None where they show nothing."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    binary = (name for magic, name in {**_PICTURES, **_OTHER_FILES}.items() if head.startswith(magic))
    return next(binary, None) or next((name for magic, name in _MARKUP.items() if text.startswith(magic)), None)


def scene_driver(path: Path) -> str:
    """Return GDAL's name of the format, "GTiff", "PNG" or "JPEG", by content; refuse every other file before GDAL sees it.

    Raises:
        ImageryError: kind "driver" for a readable file of another format, "corrupt" for anything else.
    """
    head = head_of(path, ImageryError)
    if head[:4] in _TIFF_MAGIC and len(head) >= 16:
        return "GTiff"
    if not head:
        raise ImageryError(f"{path.name} is empty (0 bytes).", "Copy or download the file again.", kind="corrupt")
    content = name_content(head)
    if content in ("PNG", "JPEG"):
        return content
    if content and content != "HTML page":
        raise ImageryError(
            f"{path.name} is not a scene but looks like a {content}. Scenes are GeoTIFF files, or PNG and JPEG pictures "
            "with a world file.",
            "Export the scene as GeoTIFF.",
            kind="driver",
        )
    what = "an HTML page, perhaps a failed download" if content else "not a TIFF, or cut off after a few bytes"
    raise ImageryError(f"{path.name} is {what}.", "Download or export the file again.", kind="corrupt")


def is_vector(path: Path) -> bool:
    """Return whether a file is one of footprints, not a scene: by content, and by name where the content shows nothing.

    Raises:
        ImageryError: kind "missing" if it cannot be read.
    """
    head = head_of(path, ImageryError)
    if head.startswith((b"II", b"MM")):
        return False
    is_known = head.startswith((b"SQLite format 3\0", *_VECTOR_MAGIC))
    is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return is_known or is_json or path.suffix.lower() in _VECTOR_SUFFIXES


def footprint_kind(path: Path) -> str:
    """Return "json", "gpkg", "zip", "shp", "fgb", "parquet" or "csv", whatever the file's name, or refuse the file."""
    head, suffix = head_of(path, FootprintError, 4096), path.suffix.lower()
    if head.startswith(b"SQLite format 3\0") and head[68:72] in (b"GPKG", b"GP10", b"GP11"):
        return "gpkg"
    for magic, kind in _VECTOR_MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "json"
    if not head.strip():
        raise FootprintError(f"{path.name} is empty.", "Copy or export the file again.", kind="parse")
    content = name_content(head)
    if content is None and b"\0" not in head and (suffix in (".csv", ".tsv") or _has_wkt_column(head)):
        return "csv"
    is_named_so = suffix == ".gpkg" or (content is None and suffix in (".json", ".geojson", ".fgb", ".parquet", ".shp"))
    formats = "GeoJSON, GeoPackage, shapefile, GeoParquet, FlatGeobuf, CSV"
    raise FootprintError(
        f"{path.name} is not a footprint file that can be read"
        + (f"; it looks like a {content}." if content else f". These are: {formats}."),
        "Open it in QGIS and save it as GeoPackage or GeoJSON.",
        kind="parse" if is_named_so else "driver",
    )


def _has_wkt_column(head: bytes) -> bool:
    """Return whether a file begins with a line of column names of which one is used for outlines."""
    line = head.decode("utf-8-sig", errors="replace").partition("\n")[0]
    return wkt_column(line.split(delimiter_of(line))) is not None


def delimiter_of(first_line: str) -> str:
    """Return the sign that separates the fields of a header: the most frequent of comma, semicolon, tab and bar."""
    return max(",;\t|", key=first_line.count)


def wkt_column(header: Sequence[str]) -> int | None:
    """Return where the outlines are, by the column's name; None if none has such a name."""
    lower = [name.strip().strip('"').lower() for name in header]
    return next((lower.index(name) for name in WKT_COLUMNS if name in lower), None)
