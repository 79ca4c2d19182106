"""Damage maps as a heat raster: how dense damaged buildings lie, as a cloud-optimized GeoTIFF."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.shutil import copy

from pu_geo.atomic_write import write_export
from pu_geo.errors import PuGeoError
from pu_geo.geo.export.pieces import as_text, caption
from pu_geo.geo.local_space import check_format
from pu_geo.geo.vector import crs as systems
from pu_geo.records import DamageMap

CELL_M = 100.0
MOST_CELLS = 4_000_000  # a square of 200 km at 100 m; larger areas get larger cells
NODATA = -1.0
BANDS = ("damaged_per_km2", "damaged_share_of_assessed", "assessed_share_of_all")
_BLOCK_PX = 256
_BYTES_PER_WRITE = 1 << 20


@dataclass(frozen=True)
class HeatGrid:
    """Cells in the project CRS, north-up; their corners lie on multiples of the cell's size.

    Attributes:
        x0, y0: upper left corner, units of the project CRS.
        cell_x, cell_y: units of the project CRS.
        cell_m: side on the ground, meters.
    """

    x0: float
    y0: float
    cell_x: float
    cell_y: float
    cell_m: float
    width: int
    height: int


def export_heat(damage_map: DamageMap, out: Path, cell_m: float = CELL_M) -> None:
    """Write a float32 COG in the project CRS: buildings damaged per km2, their share of the assessed, and these' of all.

    A building counts in the cell of its centroid; damaged is `damage_binary`. Cells where no building was assessed are nodata
    in all bands, so 0 always means: assessed, and none damaged.

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
    xy = shapely.get_coordinates(shapely.centroid(shapely.from_wkb(np.array(list(damage_map.wkb), dtype=object))))
    grid = heat_grid(xy, damage_map.grid_crs, cell_m)
    bands = heat_bands(xy, np.array(list(damage_map.columns["damage_binary"]), dtype=object), grid)
    write_export(out, _cog(bands, grid, damage_map))


def heat_grid(xy: NDArray[np.float64], crs: str, cell_m: float) -> HeatGrid:
    """Lay cells over points in the project CRS, float [N, 2]."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    center = (low + high) / 2
    step = float(max(1e-3 if systems.load_crs(crs).is_geographic else 100.0, (high - low).max()))
    unit_m = np.array(systems.unit_metres(crs, float(center[0]), float(center[1]), step))
    while True:
        cell = cell_m / unit_m
        first, last = np.floor(low / cell), np.floor(high / cell)
        width, height = (int(n) for n in last - first + 1)
        if width * height <= MOST_CELLS:
            break
        cell_m *= 2
    x0, y0 = float(first[0] * cell[0]), float((last[1] + 1) * cell[1])
    return HeatGrid(x0, y0, float(cell[0]), float(cell[1]), cell_m, width, height)


def heat_bands(xy: NDArray[np.float64], binary: NDArray[np.object_], grid: HeatGrid) -> NDArray[np.float32]:
    """Count buildings per cell; ours.

    Args:
        xy: centroids in the project CRS, float [N, 2].
        binary: `damage_binary` [N].

    Returns:
        float32 [3, height, width] in the order of `BANDS`: per km2, 0..1, 0..1; `NODATA` where nothing was assessed.
    """
    col = np.clip(np.floor((xy[:, 0] - grid.x0) / grid.cell_x), 0, grid.width - 1).astype(np.int64)
    row = np.clip(np.floor((grid.y0 - xy[:, 1]) / grid.cell_y), 0, grid.height - 1).astype(np.int64)

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        cells = (row * grid.width + col)[chosen]
        return np.bincount(cells, minlength=grid.width * grid.height).reshape(grid.height, grid.width).astype(np.float64)

    everything, damaged = count(np.ones(len(xy), dtype=bool)), count(binary == "damaged")
    assessed = count((binary == "damaged") | (binary == "not_flagged"))
    share, assessed_share = damaged / np.maximum(assessed, 1), assessed / np.maximum(everything, 1)
    bands = np.stack([damaged / (grid.cell_m / 1000) ** 2, share, assessed_share])
    return np.where(assessed > 0, bands, NODATA).astype(np.float32)


def _cog(bands: NDArray[np.float32], grid: HeatGrid, damage_map: DamageMap) -> Iterator[bytes]:
    """Make the file in memory: GDAL would leave its own pieces beside a file it cannot finish."""
    title, disclaimer = caption(damage_map)
    profile = {
        "driver": "GTiff", "width": grid.width, "height": grid.height, "count": len(bands), "dtype": "float32",
        "crs": rasterio.CRS.from_string(damage_map.grid_crs), "nodata": NODATA,
        "transform": rasterio.Affine(grid.cell_x, 0, grid.x0, 0, -grid.cell_y, grid.y0),
    }  # fmt: skip
    with rasterio.Env(GDAL_PAM_ENABLED=False), MemoryFile() as plain, MemoryFile() as cog:
        with plain.open(**profile) as target:
            target.write(bands)
            target.descriptions = BANDS
            target.units = ("1/km2", "", "")
            facts = {"CELL_M": f"{grid.cell_m:g}", "TITLE": title, "DISCLAIMER": disclaimer}
            target.update_tags(**facts, PU_GEO=as_text(dict(damage_map.metadata)))
        copy(plain.name, cog.name, driver="COG", blocksize=_BLOCK_PX, compress="deflate", overview_resampling="average")
        while chunk := cog.read(_BYTES_PER_WRITE):
            yield chunk
