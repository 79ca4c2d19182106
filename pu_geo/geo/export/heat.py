"""Damage maps as a heat raster: how dense damaged buildings lie, as a cloud-optimized GeoTIFF."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.io import MemoryFile

from pu_geo.errors import PuGeoError
from pu_geo.files import write_export
from pu_geo.geo.export.pieces import as_text, caption
from pu_geo.geo.local_space import check_format
from pu_geo.geo.raster.placement import moved_to
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.areas import centroids
from pu_geo.records import DamageMap

CELL_M = 100.0
MOST_CELLS = 4_000_000  # a square of 200 km at 100 m; larger areas get larger cells
NODATA = -1.0
BANDS = ("damaged_per_km2", "damaged_share_of_assessed", "assessed_share_of_all")
_COG = {"driver": "COG", "blocksize": 256, "compress": "deflate", "overview_resampling": "average"}


def export_heat(damage_map: DamageMap, out: Path, cell_m: float = CELL_M) -> None:
    """Write a float32 COG in the project CRS: buildings damaged per km2, their share of the assessed, and these' of all.

    A building counts in the cell of its centroid; damaged is `damage_binary`. Cells where no building was assessed are
    nodata in all bands, so 0 always means: assessed, and none damaged. Cells are north-up, their corners on multiples of
    their size. Of an event of several sites there is a file for each that has buildings, in the CRS of the site, with its
    name as the tag `SITE`: the first is `out`, those after it are `<name>_2.tif`, `<name>_3.tif`, ... beside it.

    Args:
        damage_map: needs the column `damage_binary`.
        cell_m: side of a cell on the ground, meters; doubled until the raster has at most `MOST_CELLS`. The file's tag
            `CELL_M` holds the result.

    Raises:
        PuGeoError: if the map has no buildings, or no place on the Earth.
    """
    check_format(damage_map.grid_crs, "heat")
    if len(damage_map.wkb) == 0:
        raise PuGeoError("The damage map has no buildings, so there is no heat to draw.", "Add footprints first.")
    sites: Any = damage_map.metadata.get("sites", ())
    crs_of = {one["name"]: one["crs"] for one in sites} or {"": damage_map.grid_crs}
    names = damage_map.columns.get("site", [""] * len(damage_map.wkb))
    for k, site in enumerate([one for one in crs_of if one in names], start=1):
        is_in = [name == site for name in names]
        wkb = moved_to(list(compress(damage_map.wkb, is_in)), damage_map.grid_crs, crs_of[site])
        columns = {"damage_binary": list(compress(damage_map.columns["damage_binary"], is_in))}
        part = replace(damage_map, wkb=wkb, columns=columns, grid_crs=crs_of[site])
        _write(part, out if k == 1 else out.with_stem(f"{out.stem}_{k}"), cell_m, {"SITE": site} if site else {})


def _write(damage_map: DamageMap, out: Path, cell_m: float, tags: dict[str, str]) -> None:
    xy = centroids(damage_map.wkb)
    low, high = xy.min(axis=0), xy.max(axis=0)
    step = float(max(1e-3 if systems.load_crs(damage_map.grid_crs).is_geographic else 100.0, (high - low).max()))
    x, y = ((low + high) / 2).tolist()
    unit_m = np.array(systems.unit_metres(damage_map.grid_crs, x, y, step))
    while (size := np.floor(high / (cell_m / unit_m)) - np.floor(low / (cell_m / unit_m)) + 1).prod() > MOST_CELLS:
        cell_m *= 2
    cell = cell_m / unit_m
    corner = np.array([np.floor(low[0] / cell[0]), np.floor(high[1] / cell[1]) + 1]) * cell  # upper left
    place = np.floor((xy - corner) / (cell * (1, -1))).astype(np.int64)
    column, row = np.clip(place, 0, size.astype(np.int64) - 1).T
    bands = _bands(row, column, np.array(list(damage_map.columns["damage_binary"]), dtype=object), size, cell_m)
    title, disclaimer = caption(damage_map)
    profile = {
        "width": int(size[0]), "height": int(size[1]), "count": len(bands), "dtype": "float32", "nodata": NODATA,
        "crs": rasterio.CRS.from_string(damage_map.grid_crs),
        "transform": rasterio.Affine(cell[0], 0, corner[0], 0, -cell[1], corner[1]),
    }  # fmt: skip
    # In memory: GDAL would leave its own pieces beside a file it cannot finish.
    with rasterio.Env(GDAL_PAM_ENABLED=False), MemoryFile() as file:
        with file.open(**_COG, **profile) as target:
            target.write(bands)
            target.descriptions = BANDS
            target.units = ("1/km2", "", "")
            facts = {"CELL_M": f"{cell_m:g}", "TITLE": title, "DISCLAIMER": disclaimer, **tags}
            target.update_tags(**facts, PU_GEO=as_text(dict(damage_map.metadata)))
        write_export(out, [file.read()])


def _bands(
    row: NDArray[np.int64], column: NDArray[np.int64], binary: NDArray[np.object_], size: NDArray[np.float64], cell_m: float
) -> NDArray[np.float32]:
    """Count buildings per cell, float32 [3, height, width] in the order of `BANDS`; `NODATA` where nothing was assessed.

    Args:
        row, column: cell of each building, [N].
        binary: `damage_binary` [N].
        size: width and height.
    """
    counts = np.zeros((3, int(size[1]), int(size[0])))
    np.add.at(counts, (np.where(binary == "damaged", 0, np.where(binary == "not_flagged", 1, 2)), row, column), 1)
    damaged, assessed = counts[0], counts[:2].sum(axis=0)
    share, assessed_share = damaged / np.maximum(assessed, 1), assessed / np.maximum(counts.sum(axis=0), 1)
    bands = np.stack([damaged / (cell_m / 1000) ** 2, share, assessed_share])
    return np.where(assessed > 0, bands, NODATA).astype(np.float32)
