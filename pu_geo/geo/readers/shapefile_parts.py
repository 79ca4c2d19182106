"""The parts of a shapefile, put by our names into a folder: out of a ZIP archive that is plainly one, or from beside it."""

from __future__ import annotations

import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from pu_geo.errors import FootprintError
from pu_geo.geo.readers.raw_footprints import broken

PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
MAX_UNPACKED_BYTES = 2_000_000_000
MAX_RATIO, RATIO_FROM_BYTES = 300, 64_000_000  # tables of blanks shrink to a hundredth, an archive bomb to a thousandth
MAX_ENTRIES = 2_000
_NEEDED = (".shx", ".dbf")
_SLICE_BYTES = 1 << 20


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
