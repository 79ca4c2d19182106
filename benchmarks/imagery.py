"""Cutting 20,000 chips, and tiling scenes by a grid, against decoding the scene pair and no more.

The times are those of a thread that does nothing but decode. What is cut goes to an array that exists before: to touch
fresh memory, or a fresh file, costs the same whoever does it.
"""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.scenes import Compression, decode, made_up_patch, write_scene
from benchmarks.timing import best_of, best_times
from pu_geo.geo import alignment, chips
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
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
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
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

    floor = best_of(3, lambda: decode((before, post)))
    ours = best_of(2, align)
    dx, dy = SHIFT_PX
    error = np.hypot(found[0].dx_px - dx, found[0].dy_px - dy)
    return {"ours_s": ours, "pure_decode_s": floor, "error_px": float(np.median(error))}


BENCHMARKS = {
    "alignment / decode of both scenes": bench_alignment,
    "chips / decode of both scenes": partial(bench_cutting, side_px=8192),
    "chips of JPEG scenes / decode of both": partial(bench_cutting, side_px=8192, compression="jpeg"),
    "tiles / decode of both scenes": partial(bench_cutting, side_px=8192, by_grid=True),
    "16,384 px: chips / decode of both scenes": partial(bench_cutting, side_px=16_384),
    "16,384 px: chips of JPEG scenes / decode of both": partial(bench_cutting, side_px=16_384, compression="jpeg"),
}
