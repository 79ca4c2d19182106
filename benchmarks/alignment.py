"""Shifts of 20,000 buildings between two scenes of 8192 x 8192 pixels, against decoding the two scenes and no more."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.scenes import decode, made_up_patch, write_scene
from benchmarks.timing import best_of
from pu_geo.geo import alignment
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid

SIDE_PX = 8192
N_BUILDINGS = 20_000
SHIFT_PX = (9, -6)


def bench_alignment(folder: Path) -> dict[str, float]:
    """Align, against pure decode of both scenes; then the median error in pixels."""
    rng = np.random.default_rng(0)
    patch = made_up_patch(rng)
    before = write_scene(folder / "pre.tif", "pre", patch, SIDE_PX)
    paler = patch // 2 + rng.integers(20, 30, patch.shape, dtype=np.uint8)
    post = write_scene(folder / "post.tif", "post", paler, SIDE_PX, SHIFT_PX)
    grid = project_grid([post])
    windows = np.concatenate([rng.uniform(0, SIDE_PX - 30, (N_BUILDINGS, 2)), np.full((N_BUILDINGS, 2), 24.0)], axis=1)
    found: list[alignment.Shifts] = []

    def align() -> None:
        with Mosaic([before], grid) as first, Mosaic([post], grid) as second:
            found.append(alignment.estimate_shifts(first, second, windows))

    floor = best_of(3, lambda: decode((before, post)))
    ours = best_of(2, align)
    dx, dy = SHIFT_PX
    error = np.hypot(found[0].dx_px - dx, found[0].dy_px - dy)
    return {"ours_s": ours, "pure_decode_s": floor, "error_px": float(np.median(error))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here:
        print(json.dumps(bench_alignment(Path(here))))
