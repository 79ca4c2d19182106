"""Shapefiles and FlatGeobuf through GDAL. Loaded by `vector_child` alone: this GDAL must not meet rasterio's or sqlite3."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyogrio.raw
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError, FieldError, GeometryError

from pu_geo.geo import shapefile_parts
from pu_geo.geo.raw_footprints import broken

_ERRORS = (DataSourceError, DataLayerError, FeatureError, FieldError, GeometryError)


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
    try:
        meta, _, shapes, columns = pyogrio.raw.read(copy, force_2d=True)
    except (*_ERRORS, ValueError) as cause:
        raise broken(path.name, f"it is damaged ({str(cause).replace(str(copy), path.name)[:160]})") from cause
    found = meta["crs"] or crs
    if found is None:
        why = "it does not say in which coordinate system it is" + ("" if kind == "fgb" else " in a .prj file")
        raise broken(path.name, why, "Save it from QGIS with its coordinate system.", "crs")
    if shapes is None:
        raise broken(path.name, "it is a table without geometry", "Choose a file with building polygons.", "type")
    names = [str(name) for name in meta["fields"]]
    listed = [_values(column) for column in columns]
    rows = zip(*listed, strict=True) if listed else ((),) * len(shapes)
    return list(shapes), [dict(zip(names, row, strict=True)) for row in rows], str(found)


def _values(column: NDArray[np.generic]) -> list[object]:
    """Return a column as Python values; a missing date is None, a missing number NaN."""
    return [value.item() if isinstance(value, np.generic) else value for value in column.tolist()]
