"""Shifts of 20,000 buildings between two scenes of 8192 x 8192 pixels, against decoding the two scenes and no more."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import rasterio
from numpy.typing import NDArray

from pu_geo.geo import alignment, raster
from pu_geo.records import Role, Scene

SIDE_PX = 8192
N_BUILDINGS = 20_000
SHIFT_PX = (9, -6)


def _picture(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return patches of three sizes with noise, uint8 [3, H, W], a margin larger than the scene."""
    side = SIDE_PX + 64
    picture = np.full((side, side), 90, dtype=np.uint8)
    for size in (8, 24, 96):
        small = rng.integers(0, 60, (-(-side // size), -(-side // size)), dtype=np.uint8)
        picture += cv2.resize(small, None, fx=size, fy=size, interpolation=cv2.INTER_NEAREST)[:side, :side] // 3 * 2
    return picture[None] + rng.integers(0, 6, (3, side, side), dtype=np.uint8)


def _scene(folder: Path, role: Role, picture: NDArray[np.uint8]) -> Scene:
    path = folder / f"{role}.tif"
    transform = rasterio.transform.from_origin(400_000, 4_100_000, 0.5, 0.5)
    with rasterio.open(
        path, "w", driver="GTiff", width=SIDE_PX, height=SIDE_PX, count=3, dtype="uint8", crs="EPSG:32615",
        transform=transform, tiled=True, compress="deflate", num_threads="all_cpus",
    ) as target:  # fmt: skip
        target.write(picture)
    return raster.describe(path, role, f"{role}-1")


def _decode(scenes: tuple[Scene, Scene]) -> None:
    """Read both scenes block by block, as `benchmarks.run.decode` does."""
    for scene in scenes:
        with rasterio.open(scene.path) as source:
            for _, window in source.block_windows(1):
                source.read(window=window)


def _best_of(n: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(n):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def bench_alignment(folder: Path) -> dict[str, float]:
    """Align, against pure decode of both scenes; then the median error in pixels."""
    rng = np.random.default_rng(0)
    canvas = _picture(rng)
    dx, dy = SHIFT_PX
    before = _scene(folder, "pre", canvas[:, 32 : 32 + SIDE_PX, 32 : 32 + SIDE_PX])
    after = canvas[:, 32 - dy : 32 - dy + SIDE_PX, 32 - dx : 32 - dx + SIDE_PX]
    post = _scene(folder, "post", after // 2 + rng.integers(20, 30, after.shape, dtype=np.uint8))
    del canvas, after
    grid = raster.project_grid([post])
    windows = np.concatenate([rng.uniform(0, SIDE_PX - 30, (N_BUILDINGS, 2)), np.full((N_BUILDINGS, 2), 24.0)], axis=1)
    found: list[alignment.Shifts] = []

    def align() -> None:
        with raster.Mosaic([before], grid) as first, raster.Mosaic([post], grid) as second:
            found.append(alignment.estimate_shifts(first, second, windows))

    floor = _best_of(3, lambda: _decode((before, post)))
    ours = _best_of(2, align)
    error = np.hypot(found[0].dx_px - dx, found[0].dy_px - dy)
    return {"ours_s": ours, "pure_decode_s": floor, "error_px": float(np.median(error))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here:
        print(json.dumps(bench_alignment(Path(here))))
