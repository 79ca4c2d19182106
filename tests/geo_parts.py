"""Made-up pictures, outlines and where they are, for tests of geo."""

from pathlib import Path

import numpy as np
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.records import Grid, Scene

ORIGIN = (500_000.0, 4_600_000.0)
NORTH_UP = Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1])
GRID = Grid("EPSG:32633", "", (0.5, 0.0, 500_000.0, 0.0, -0.5, 4_594_400.0), 400, 400, 0.5)
CRS_MEMBER = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}


def box(x: float, y: float, width: float = 10.0, height: float | None = None) -> shapely.Polygon:
    """A box in metres from the lower left corner of `GRID`, a square where no height is given."""
    return shapely.box(500_000 + x, 4_594_200 + y, 500_000 + x + width, 4_594_200 + y + (height or width))


def pattern(height: int, width: int, seed: int = 0, bands: int = 3) -> NDArray[np.uint8]:
    """A picture that is smooth enough for resampling and different at every place, uint8 [bands, H, W], never 0."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 6, (bands, 2))
    rows, cols = np.mgrid[0:height, 0:width]
    waves = [np.sin(rows / 5 + p) + np.cos(cols / 7 + q) for p, q in phases]
    return (128 + 50 * np.stack(waves)).astype(np.uint8)


def write_rgb(path: Path, picture: NDArray[np.uint8], west: float, north: float, **more: object) -> Path:
    """Write uint8 [3, H, W] with pixels of 0.5 m in UTM 15N."""
    size = {"count": 3, "height": picture.shape[1], "width": picture.shape[2], "dtype": "uint8", "photometric": "RGB"}
    place = {"crs": "EPSG:32615", "transform": Affine(0.5, 0, west, 0, -0.5, north)}
    with rasterio.open(path, "w", driver="GTiff", **size, **place, **more) as target:
        target.write(picture)
    return path


def joined(*scenes: Scene) -> Mosaic:
    """Return scenes as a mosaic on their own grid, not yet open."""
    return Mosaic(scenes, project_grid(scenes))
