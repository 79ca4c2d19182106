"""Made-up pictures and where they lie, for tests of imagery."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine

ORIGIN = (500_000.0, 4_600_000.0)
NORTH_UP = Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1])


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
