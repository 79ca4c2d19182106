"""Shapefiles and FlatGeobuf through GDAL. Loaded by `footprint_files` alone, in the child: this GDAL must not meet rasterio's or sqlite3."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pu_geo.errors import FootprintError
from pu_geo.geo.readers import shapefile_parts
from pu_geo.geo.readers.raw_footprints import broken
from pu_geo.geo.vector import crs as systems

MAX_CRS_BYTES = 100_000
MAX_HEADER_BYTES = 11_000_000  # of FlatGeobuf; GDAL reads none over 10 MiB
_ERRORS = ("DataSourceError", "DataLayerError", "FeatureError", "FieldError", "GeometryError")


def read(kind: str, path: Path, folder: Path, crs: str | None) -> tuple[list[bytes | None], list[dict[str, object]], str]:
    """Read a zipped or plain shapefile, or a FlatGeobuf file.

    Args:
        kind: "zip", "shp" or "fgb".
        folder: empty; the file is put there by a name of ours, so that GDAL finds nothing else beside it.
        crs: for a file that names none.

    Returns:
        WKB, None where a feature has no geometry; attributes; and the CRS as "EPSG:n" or WKT.

    Raises:
        FootprintError: as `shapefile_parts.unpack`; kind "crs" without a CRS, "parse" for a damaged file.
    """
    if kind == "zip":
        copy = shapefile_parts.unpack(path, folder)
    elif kind == "shp":
        copy = shapefile_parts.copy_parts(path, folder)
    else:
        copy = folder / "layer.fgb"
        shutil.copyfile(path, copy)
    if kind != "fgb":
        shapefile_parts.check_whole(copy, path.name)
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
