"""Shapefiles and FlatGeobuf through GDAL. Loaded by `footprint_files` alone, in the child: this GDAL must not meet rasterio's or sqlite3.

The parts of a shapefile are put by our names into a folder: out of a ZIP archive that is plainly one, or from beside it.
"""

from __future__ import annotations

import importlib
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.readers.raw_footprints import broken
from pu_geo.geo.vector import crs as systems

MAX_CRS_BYTES = 100_000
MAX_HEADER_BYTES = 11_000_000  # of FlatGeobuf; GDAL reads none over 10 MiB
_ERRORS = ("DataSourceError", "DataLayerError", "FeatureError", "FieldError", "GeometryError")
PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
MAX_UNPACKED_BYTES = 2_000_000_000
MAX_RATIO, RATIO_FROM_BYTES = 300, 64_000_000  # tables of blanks shrink to a hundredth, an archive bomb to a thousandth
MAX_ENTRIES = 2_000
_NEEDED = (".shx", ".dbf")
_SLICE_BYTES = 1 << 20


def read(kind: str, path: Path, folder: Path, crs: str | None) -> tuple[list[bytes | None], list[dict[str, object]], str]:
    """Read a zipped or plain shapefile, or a FlatGeobuf file.

    Args:
        kind: "zip", "shp" or "fgb".
        folder: empty; the file is put there by a name of ours, so that GDAL finds nothing else beside it.
        crs: for a file that names none.

    Returns:
        WKB, None where a feature has no geometry; attributes; and the CRS as "EPSG:n" or WKT.

    Raises:
        FootprintError: as `unpack`; kind "crs" without a CRS, "parse" for a damaged file.
    """
    if kind == "zip":
        copy = unpack(path, folder)
    elif kind == "shp":
        copy = copy_parts(path, folder)
    else:
        copy = folder / "layer.fgb"
        shutil.copyfile(path, copy)
    if kind != "fgb":
        check_whole(copy, path.name)
    _check_crs(copy, path.name, crs)
    # Late: with GDAL it loads pandas and Arrow, where they are, which would take half of the time of a refusal.
    gdal, errors = importlib.import_module("pyogrio.raw"), importlib.import_module("pyogrio.errors")
    refusals = (ValueError, *(getattr(errors, name) for name in _ERRORS))
    try:
        meta, _, shapes, columns = gdal.read(copy, force_2d=True)
    except refusals as cause:
        raise broken(path.name, f"it is damaged ({str(cause).replace(str(copy), path.name)[:160]})") from cause
    found = meta["crs"] or crs
    if found is None:
        raise _without_crs(path.name, "" if kind == "fgb" else " in a .prj file")
    if shapes is None:
        raise broken(path.name, "it is a table without geometry", "Choose a file with building polygons.", "type")
    names = [str(name) for name in meta["fields"]]
    listed = [_values(column) for column in columns]
    rows = zip(*listed, strict=True) if listed else ((),) * len(shapes)
    return list(shapes), [dict(zip(names, row, strict=True)) for row in rows], str(found)


def _check_crs(copy: Path, name: str, given: str | None) -> None:
    """Refuse a CRS that asks for a grid: GDAL would open it, wherever it is, to find out which system this is."""
    text = copy if copy.suffix == ".fgb" else copy.with_suffix(".prj")
    if not text.is_file():
        if given is None:
            raise _without_crs(name, " in a .prj file")
        return
    is_header = text.suffix == ".fgb"
    with text.open("rb") as file:
        head = file.read(MAX_HEADER_BYTES if is_header else MAX_CRS_BYTES)
    if is_header:
        head = head[: 12 + int.from_bytes(head[8:12], "little")]
    if systems.names_a_file(head.decode("latin-1")):
        raise broken(name, "its coordinate system asks for a file with a grid", "Save it in EPSG:4326.", "crs")
    if not is_header and len(head) == MAX_CRS_BYTES:
        raise broken(name, "its .prj file is none of a coordinate system", "Export it again.", "crs")


def _without_crs(name: str, where: str) -> FootprintError:
    why = f"it does not say in which coordinate system it is{where}"
    return broken(name, why, "Save it from QGIS with its coordinate system.", "crs")


def _values(column: NDArray[np.generic]) -> list[object]:
    """Return a column as Python values; a missing date is None, a missing number NaN."""
    return [value.item() if isinstance(value, np.generic) else value for value in column.tolist()]


# The parts of a shapefile


def unpack(path: Path, folder: Path) -> Path:
    """Write the one shapefile of an archive as `layer.shp`, `.shx`, `.dbf`, `.prj`, `.cpg` into a folder.

    No name from the archive is ever used as a path.

    Returns:
        The path of `layer.shp`.

    Raises:
        FootprintError: kind path, symlink, ratio, size, layers, driver or parse.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check_entries(entries, path)
            for suffix, entry in _one_shapefile(entries, path.name).items():
                with archive.open(entry) as source, (folder / f"layer{suffix}").open("wb") as target:
                    while part := source.read(_SLICE_BYTES):  # stops at the size that the directory declares
                        target.write(part)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as cause:
        raise broken(path.name, f"the archive is damaged ({cause})", "Copy or download it again.") from cause
    except (NotImplementedError, RuntimeError) as cause:  # an unknown compression, or a password
        raise broken(path.name, f"the archive cannot be unpacked ({cause})", "Pack it again as a plain ZIP file.") from cause
    return folder / "layer.shp"


def copy_parts(path: Path, folder: Path) -> Path:
    """Copy a shapefile and its side files, plain files beside it of the same stem, as `layer.*` into a folder.

    Raises:
        FootprintError: kind "parse" if its index or its table is missing.
    """
    for beside in path.parent.iterdir():
        suffix = beside.suffix.lower()
        if beside.stem == path.stem and suffix in PARTS and beside.is_file() and not beside.is_symlink():
            shutil.copyfile(beside, folder / f"layer{suffix}")
    _check_parts(path.name, {part.suffix for part in folder.iterdir()})
    return folder / "layer.shp"


def _check_entries(entries: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse an archive that writes outside, links somewhere, or unpacks to far more than it weighs."""
    for entry in entries:
        shown = repr(entry.filename[:60])
        parts = PurePosixPath(entry.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or entry.filename[1:2] == ":":
            raise broken(path.name, f"its entry {shown} points outside the archive", "Pack the shapefile again.", "path")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise broken(path.name, f"its entry {shown} is a link", "Pack the shapefile's own files.", "symlink")
    total = sum(entry.file_size for entry in entries)
    if total > RATIO_FROM_BYTES and total > MAX_RATIO * path.stat().st_size:
        raise FootprintError(
            f"{path.name} would unpack to {total / 1e6:,.0f} MB from {path.stat().st_size / 1e3:,.0f} kB, "
            f"over {MAX_RATIO} times its size. No shapefile of buildings does.",
            "Pack the shapefile again.",
            kind="ratio",
        )
    if total > MAX_UNPACKED_BYTES or len(entries) > MAX_ENTRIES:
        raise FootprintError(
            f"{path.name} holds {len(entries):,} files of {total / 1e6:,.0f} MB together; up to {MAX_ENTRIES:,} files and "
            f"{MAX_UNPACKED_BYTES / 1e6:,.0f} MB can be read.",
            "Pack one shapefile, cut to the area of the scenes.",
            kind="size",
        )


def _one_shapefile(entries: list[zipfile.ZipInfo], name: str) -> dict[str, zipfile.ZipInfo]:
    """Return the parts of the archive's only shapefile by suffix."""
    own = [entry for entry in entries if not entry.filename.startswith("__MACOSX/")]
    shapes = [entry.filename for entry in own if entry.filename.lower().endswith(".shp")]
    if not shapes:
        held = ", ".join(repr(entry.filename[:40]) for entry in own[:5]) or "nothing"
        raise FootprintError(
            f"{name} is a ZIP archive without a shapefile; it holds {held}.",
            "Unpack it and choose the file with the footprints, or pack .shp, .shx, .dbf and .prj together.",
            kind="driver",
        )
    if len(shapes) > 1:
        raise broken(
            name,
            f"it has {len(shapes)} shapefiles ({', '.join(PurePosixPath(shape).name[:40] for shape in shapes[:8])}), "
            "where one is needed",
            "Pack the one with the footprints by itself.",
            "layers",
        )
    stem = shapes[0][:-4]
    parts = {
        entry.filename[len(stem) :].lower(): entry
        for entry in own
        if entry.filename.startswith(stem) and entry.filename[len(stem) :].lower() in PARTS
    }
    _check_parts(name, set(parts))
    return parts


def _check_parts(name: str, found: set[str]) -> None:
    """Refuse a shapefile without its index or its table."""
    missing = [suffix for suffix in _NEEDED if suffix not in found]
    if missing:
        raise broken(
            name, f"the shapefile has no {' and no '.join(missing)} file", "Put .shp, .shx, .dbf and .prj together."
        )


def check_whole(shapes: Path, name: str) -> None:
    """Refuse a shapefile of which a part was cut off; GDAL would call the lost outlines empty.

    Source: ESRI Shapefile Technical Description, main file header; dBASE III header.
    """
    with shapes.open("rb") as file:
        head = file.read(100)
    with shapes.with_suffix(".dbf").open("rb") as file:
        table = file.read(32)
    if len(head) < 100 or len(table) < 32:
        raise broken(name, "it is cut off", "Copy or download it again.")
    (words,) = struct.unpack_from(">i", head, 24)
    n_rows, first, row_bytes = struct.unpack_from("<IHH", table, 4)
    for what, declared, file_size in (
        (".shp", 2 * words, shapes.stat().st_size),
        (".dbf", first + n_rows * row_bytes, shapes.with_suffix(".dbf").stat().st_size),
    ):
        if file_size < declared:
            raise broken(
                name,
                f"its {what} has {file_size:,} of {declared:,} bytes; the rest was cut off",
                "Copy or download it again.",
            )
