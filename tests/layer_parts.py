"""Made-up layers over the small town: SAR in decibels, heights, other grids and sample types."""

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine
from rasterio.warp import transform_bounds


def town_layer(
    town: Path, path: Path, data: NDArray[Any], *, crs: str | None = None, box: tuple[float, float, float, float] | None = None,
    **options: Any,
) -> Path:  # fmt: skip
    """Write samples [bands, H, W] as a GeoTIFF over the town's post scene, or over a box of it in shares of its sides.

    Args:
        crs: "EPSG:n" of the file, that of the post scene if None.
        box: left, top, right, bottom, 0..1.
    """
    with rasterio.open(town / "post.tif") as post:
        bounds, own = post.bounds, post.crs
    left, top, right, bottom = box or (0.0, 0.0, 1.0, 1.0)
    width, height = bounds.right - bounds.left, bounds.top - bounds.bottom
    place = bounds.left + left * width, bounds.top - bottom * height, bounds.left + right * width, bounds.top - top * height
    if crs is not None:
        place = transform_bounds(own, crs, *place)
    west, south, east, north = place
    pixel = Affine((east - west) / data.shape[2], 0, west, 0, (south - north) / data.shape[1], north)
    size = {"count": len(data), "height": data.shape[1], "width": data.shape[2], "dtype": data.dtype}
    with rasterio.open(path, "w", driver="GTiff", transform=pixel, crs=crs or own, **size, **options) as target:
        target.write(data)
    return path


def speckle(height: int, width: int, bands: int = 2, seed: int = 0) -> NDArray[np.float32]:
    """Backscatter in decibels, float32 [bands, H, W], about -25 to 5."""
    rng = np.random.default_rng(seed)
    return (10 * np.log10(rng.gamma(2.0, 0.05, (bands, height, width)) + 1e-3)).astype(np.float32)
