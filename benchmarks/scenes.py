"""Made-up scenes, written strip by strip, and the floor of all work on scenes: decoding them and no more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.windows import Window

from pu_geo.geo.raster.scene_files import describe
from pu_geo.records import Role, Scene

PATCH_PX, BLOCK_PX, GSD_M = 4096, 256, 0.5
ORIGIN = (400_000.0, 4_100_000.0)
Compression = Literal["deflate", "jpeg"]
OPTIONS: dict[Compression, dict[str, object]] = {
    "deflate": {"compress": "deflate", "photometric": "rgb"},
    "jpeg": {"compress": "jpeg", "jpeg_quality": 85, "photometric": "ycbcr"},
}


def made_up_patch(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return noise of many sizes as in a view from above, uint8 [PATCH_PX, PATCH_PX, 3], at least 1.

    It packs as photographs do: to four fifths by deflate, to a seventeenth by JPEG.
    """
    whole = (PATCH_PX, PATCH_PX)
    gray = np.full(whole, 110, dtype=np.float32)
    for size, weight in ((512, 21.0), (128, 18.0), (32, 14.0), (8, 10.0), (4, 6.0), (2, 4.0)):
        small = rng.standard_normal((PATCH_PX // size, PATCH_PX // size), dtype=np.float32)
        gray += weight * cv2.resize(small, whole, interpolation=cv2.INTER_CUBIC)
    patch = np.empty((*whole, 3), dtype=np.uint8)
    for k in range(3):
        tint = rng.standard_normal((PATCH_PX // 64, PATCH_PX // 64), dtype=np.float32)
        band = gray + 10 * cv2.resize(tint, whole, interpolation=cv2.INTER_CUBIC)
        patch[..., k] = np.clip(band + 2 * rng.standard_normal(whole, dtype=np.float32), 1, 255)
    return patch


def write_scene(
    path: Path, role: Role, patch: NDArray[np.uint8], side_px: int, shift_px: tuple[int, int] = (0, 0),
    compression: Compression = "deflate",
) -> Scene:  # fmt: skip
    """Write a tiled GeoTIFF in which a patch, uint8 [H, W, 3], is seen over and over, moved by (columns, rows)."""
    columns = (np.arange(side_px) - shift_px[0]) % patch.shape[1]
    with rasterio.open(
        path, "w", driver="GTiff", width=side_px, height=side_px, count=3, dtype="uint8", crs="EPSG:32615",
        transform=rasterio.transform.from_origin(*ORIGIN, GSD_M, GSD_M), tiled=True, blockxsize=BLOCK_PX,
        blockysize=BLOCK_PX, interleave="pixel", num_threads="all_cpus", bigtiff="if_safer", **OPTIONS[compression],
    ) as target:  # fmt: skip
        for row in range(0, side_px, BLOCK_PX):
            n = min(BLOCK_PX, side_px - row)
            strip = patch[(np.arange(row, row + n) - shift_px[1]) % len(patch)][:, columns]
            target.write(strip.transpose(2, 0, 1), window=Window(0, row, side_px, n))
    return describe(path, role, f"{role}-1")


def decode(scenes: Iterable[Scene]) -> None:
    """Read scenes block by block, in the order of the file."""
    for scene in scenes:
        with rasterio.open(scene.path) as source:
            for _, window in source.block_windows(1):
                source.read(window=window)
