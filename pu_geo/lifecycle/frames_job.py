"""Layers of the project file as tables of geopandas. They are read by sqlite3: GDAL must not open that file in a process of
ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from pu_geo.records import Grid
from pu_geo.store import contents, population, store
from pu_geo.store.layout import Layout

if TYPE_CHECKING:
    import geopandas

_TRUE_OR_FALSE = ("assessed",)  # SQLite has 1 and 0
_WHOLE = ("rank",)
_LISTS = {"damage_types", "absent_types"}  # of texts, as JSON


def footprints(layout: Layout) -> geopandas.GeoDataFrame:
    """Return the footprints with `building_id` as index, in the order in which they were added, project CRS.

    Of an event of several sites, longitude and latitude of WGS 84, with the column `site`: its name.

    Columns: `area_m2`, `source_footprint`, the attributes of the files that they came from, and `geometry`. An attribute
    that is called as one of ours, or by the same letters in another case, has an underscore behind its name.

    Raises:
        ProjectError: before there is a post scene, whose CRS the project has.
    """
    with store.connect(layout) as db:
        grid, table, sources = contents.grid(db), contents.footprints(db), contents.footprint_sources(db)
        sites = population.sites(db, table.building_ids).named
    columns: dict[str, Any] = {"area_m2": table.area_m2, "source_footprint": sources}
    columns |= {"site": sites} if grid.sites else {}
    taken = {"building_id", "geometry", *columns}
    for attribute in sorted({name for row in table.attributes for name in row}):
        name = attribute
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        columns[name] = [row.get(attribute) for row in table.attributes]
    return _frame(columns, table.building_ids, table.wkb, grid)


def live_map(layout: Layout) -> geopandas.GeoDataFrame:
    """Return what the damage map says now, as the layer `damage_map` that QGIS shows, with `building_id` as index, project
    CRS; of an event of several sites, longitude and latitude of WGS 84.

    Columns: `area_m2`, `label`, `labeller`, `labelled_at`, `score` and `rank` of the chosen run where the building is
    assessed, `run_id`, `reason`, `damage_types`, `absent_types`, `comment`, `grade`, `threshold`, `assessed`,
    `not_assessed_reason`, `damage_binary`, `geometry`.

    Raises:
        ProjectError: before there is a post scene.
    """
    with store.connect(layout) as db:
        grid = contents.grid(db)
        names, rows = contents.live_map(db)
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
    columns = {name: columns.get(name, []) for name in names if name != "OGC_FID"}
    ids, blobs = columns.pop("building_id"), columns.pop("geom")
    for name in _TRUE_OR_FALSE:
        columns[name] = np.array(columns[name], np.bool_)
    for name in _LISTS & columns.keys():
        columns[name] = [None if text is None else ";".join(json.loads(text)) for text in columns[name]]
    frame = _frame(columns, ids, [contents.wkb_from_blob(blob) for blob in blobs], grid)
    return frame.astype({**dict.fromkeys(_WHOLE, "Int64"), "score": "float64", "threshold": "float64"})


def _frame(columns: dict[str, Any], ids: Sequence[str], wkb: Sequence[bytes], grid: Grid) -> geopandas.GeoDataFrame:
    import geopandas
    import pandas

    shapes = shapely.from_wkb(np.array(list(wkb), dtype=object))
    index = pandas.Index(list(ids), name="building_id", dtype=object)
    frame = geopandas.GeoDataFrame(columns, geometry=shapes, index=index, crs=grid.crs if grid.has_place else None)
    return frame.to_crs("EPSG:4326") if grid.sites else frame
