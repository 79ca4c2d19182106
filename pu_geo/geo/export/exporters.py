"""Damage maps as files for other people's programs: the table of formats.

Each takes a damage map with its geometry in `grid_crs`, and the file to write, which is replaced if it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pu_geo.geo.export.codebook import write_side_files
from pu_geo.geo.export.geojson import export_geojson
from pu_geo.geo.export.heat import export_heat
from pu_geo.geo.export.kml import export_kml
from pu_geo.geo.export.layers import export_fgb, export_gpkg
from pu_geo.geo.export.tables import export_csv, export_parquet
from pu_geo.records import DamageMap

__all__ = ["EXPORTERS", "write_side_files"]

EXPORTERS: dict[str, Callable[[DamageMap, Path], None]] = {
    "geojson": export_geojson,
    "gpkg": export_gpkg,
    "parquet": export_parquet,
    "fgb": export_fgb,
    "csv": export_csv,
    "kml": export_kml,
    "heat": export_heat,
}
