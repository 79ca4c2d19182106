"""Cutting 20,000 chips, and tiling scenes by a grid, against decoding the scene pair and no more.

The times are those of a thread that does nothing but decode. What is cut goes to an array that exists before: to touch
fresh memory, or a fresh file, costs the same whoever does it.
"""

from __future__ import annotations

import multiprocessing
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine

from benchmarks.scenes import Compression, decode, made_up_patch, write_scene
from benchmarks.timing import best_of, best_times
from pu_geo.geo import alignment, chips
from pu_geo.geo.raster import quicklooks
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.records import Scene

N_CHIPS, SIZE_PX = 20_000, 64
WINDOW_PX = (20.0, 120.0)
"""Buildings of 10 to 30 m at 0.3 to 0.5 m, with half of their size around them."""

SHIFT_PX = (9, -6)
TIMES = 3


def building_windows(side_px: int) -> NDArray[np.float64]:
    """Return windows of buildings somewhere in a square scene, float64 [N_CHIPS, 4]."""
    rng = np.random.default_rng(1)
    longer = rng.uniform(*WINDOW_PX, N_CHIPS)
    sides = np.stack([longer, np.maximum(longer * rng.uniform(0.6, 1, N_CHIPS), WINDOW_PX[0])], axis=1)
    sides = np.where(rng.random((N_CHIPS, 1)) < 0.5, sides, sides[:, ::-1])
    return np.concatenate([rng.uniform(0, side_px, (N_CHIPS, 2)) - sides / 2, sides], axis=1)


def cell_windows(side_px: int) -> NDArray[np.float64]:
    """Return the cells of a grid over a square scene, each as large as a chip, float64 [N, 4]."""
    starts = np.arange(0.0, side_px - SIZE_PX + 1, SIZE_PX)
    col, row = np.meshgrid(starts, starts)
    return np.stack([col.ravel(), row.ravel(), np.full(col.size, SIZE_PX), np.full(col.size, SIZE_PX)], axis=1)


def write_pair(folder: Path, side_px: int, compression: Compression) -> list[Scene]:
    patch = made_up_patch(np.random.default_rng(0))
    return [
        write_scene(folder / "pre.tif", "pre", patch, side_px, SHIFT_PX, compression),
        write_scene(folder / "post.tif", "post", patch, side_px, (0, 0), compression),
    ]


def cut(scenes: list[Scene], windows: NDArray[np.float64], out: NDArray[np.uint8]) -> None:
    """Cut chips as the chip job does."""
    grid = project_grid(scenes[1:])
    with Mosaic(scenes[:1], grid, decode_threads=1) as pre, Mosaic(scenes[1:], grid, decode_threads=1) as post:
        chips.cut_chips(pre, post, windows, SIZE_PX, out)


def own_memory_mb() -> float:
    """Return the memory of this process that stands for no file, megabytes; Linux only, elsewhere 0."""
    lines = status.read_text().splitlines() if (status := Path("/proc/self/status")).exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)


def most_memory_mb(scenes: list[Scene], windows: NDArray[np.float64], path: Path) -> float:
    """Return by how much memory grows at most while chips are cut into a memory map, which itself does not count."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(len(windows), 6, SIZE_PX, SIZE_PX))
    before, is_done, seen = own_memory_mb(), threading.Event(), [0.0]

    def watch() -> None:
        while not is_done.wait(0.005):
            seen.append(own_memory_mb() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    cut(scenes, windows, out)
    is_done.set()
    watcher.join()
    return max(seen)


def bench_cutting(
    folder: Path, *, side_px: int, compression: Compression = "deflate", by_grid: bool = False
) -> dict[str, float]:
    """Cut pre and post, against decoding both; processor times, too, since a pass uses several cores."""
    scenes = write_pair(folder, side_px, compression)
    windows = cell_windows(side_px) if by_grid else building_windows(side_px)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:  # this process keeps memory for later
        memory_mb = fresh.submit(most_memory_mb, scenes, windows, folder / "chips.npy").result()
    out = np.ones((len(windows), 6, SIZE_PX, SIZE_PX), dtype=np.uint8)
    floor, floor_cpu = best_times(TIMES, lambda: decode(scenes))
    ours, ours_cpu = best_times(TIMES, lambda: cut(scenes, windows, out))
    cpu = {"ours_cpu_s": ours_cpu, "pure_decode_cpu_s": floor_cpu, "cpu_ratio": ours_cpu / floor_cpu}
    return {"ours_s": ours, "pure_decode_s": floor, **cpu, "memory_mb": memory_mb}


def bench_alignment(folder: Path) -> dict[str, float]:
    """Align 20,000 buildings between two scenes of 8192 x 8192 pixels, against pure decode of both scenes; then the median error in pixels."""
    rng, side_px = np.random.default_rng(0), 8192
    patch = made_up_patch(rng)
    before = write_scene(folder / "pre.tif", "pre", patch, side_px)
    paler = patch // 2 + rng.integers(20, 30, patch.shape, dtype=np.uint8)
    post = write_scene(folder / "post.tif", "post", paler, side_px, SHIFT_PX)
    grid = project_grid([post])
    windows = np.concatenate([rng.uniform(0, side_px - 30, (N_CHIPS, 2)), np.full((N_CHIPS, 2), 24.0)], axis=1)
    found: list[alignment.Shifts] = []

    def align() -> None:
        with Mosaic([before], grid) as first, Mosaic([post], grid) as second:
            found.append(alignment.estimate_shifts(first, second, windows))

    floor, ours = best_of(3, lambda: decode((before, post))), best_of(2, align)
    error = np.hypot(found[0].dx_px - SHIFT_PX[0], found[0].dy_px - SHIFT_PX[1])
    return {"ours_s": ours, "pure_decode_s": floor, "error_px": float(np.median(error))}


def site_costs(scenes: list[Scene], folder: Path) -> tuple[float, float, int]:
    """Tile two scenes and cut chips of both; return processor seconds, most memory in megabytes, and map tiles."""
    began, grid, near = time.process_time(), project_grid(scenes), building_windows(4000)
    offsets = [(box[0], box[1] + site.row, 0, 0) for site in grid.parts for box in site.boxes]
    windows = np.concatenate([near + np.array(offset) for offset in offsets])
    with Mosaic(scenes, grid, decode_threads=1) as post:
        n_tiles = quicklooks.build_pyramid(post, folder)["n_tiles"]
        chips.cut_chips(None, post, windows, SIZE_PX, np.empty((len(windows), 3, SIZE_PX, SIZE_PX), np.uint8))
    return time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, int(str(n_tiles))


def bench_sites(folder: Path) -> dict[str, float]:
    """Map tiles and chips of two scenes 2,000 km apart, against two side by side: processor time; then memory and tiles."""
    scenes, patch = [], made_up_patch(np.random.default_rng(0))
    for k, move in enumerate([(0, 0), (2200, 0), (0, -2_000_000)], start=1):
        path = Path(write_scene(folder / f"{k}.tif", "post", patch, 4096).path)
        with rasterio.open(path, "r+") as target:
            target.transform = Affine.translation(*move) @ target.transform
        scenes.append(describe(path, "post", f"post-{k}"))
    pairs = {"far": [scenes[0], scenes[2]], "near": scenes[:2]}
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in pairs}
    for i, name in enumerate([*pairs] * 5):  # in turns, each in a process of its own
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            found[name].append(fresh.submit(site_costs, pairs[name], folder / f"{name}{i}").result())
    seconds, memory, tiles = zip(min(found["far"]), min(found["near"]), strict=True)
    ratios = {"memory_ratio": memory[0] / memory[1], "tiles_ratio": tiles[0] / tiles[1]}
    return {"far_cpu_s": seconds[0], "near_cpu_s": seconds[1], **ratios}


BENCHMARKS: dict[str, Callable[[Path], dict[str, float]]] = {
    "two sites, 2,000 km apart / side by side": bench_sites,
    "alignment / decode of both scenes": bench_alignment,
    "chips / decode of both scenes": partial(bench_cutting, side_px=8192),
    "chips of JPEG scenes / decode of both": partial(bench_cutting, side_px=8192, compression="jpeg"),
    "tiles / decode of both scenes": partial(bench_cutting, side_px=8192, by_grid=True),
    "16,384 px: chips / decode of both scenes": partial(bench_cutting, side_px=16_384),
    "16,384 px: chips of JPEG scenes / decode of both": partial(bench_cutting, side_px=16_384, compression="jpeg"),
}
