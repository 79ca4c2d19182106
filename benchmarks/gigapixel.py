"""A pair of scenes of 1.65 gigapixels with 150,000 footprints, the whole way to chips: the most memory of each step.

`python -m benchmarks.gigapixel FOLDER [SHARE]`: it writes about 1.5 GB of scenes and 20 GB of chips and features into FOLDER
and takes an hour or more; SHARE makes it all smaller (0.1: a tenth of the pixels and of the footprints). To see that 8 GB of
memory are enough, start it where no more may be used, such as in a control group with that limit.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import orjson
import rasterio
from numpy.typing import NDArray

WIDTH, HEIGHT, N_BUILDINGS = 45_056, 36_608, 150_000
GSD_M, STRIP, SIDE_PX = 0.4, 512, (20, 60)
PATCH = 4096
SHIFT_PX = (9, -6)  # of pre against post


def _patch(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return blocks of three sizes with noise, uint8 [PATCH, PATCH, 3]."""
    picture = np.full((PATCH, PATCH), 60, dtype=np.uint8)
    for size in (8, 32, 128):
        small = rng.integers(0, 60, (PATCH // size, PATCH // size), dtype=np.uint8)
        picture += small.repeat(size, axis=0).repeat(size, axis=1)
    return picture[..., None] + rng.integers(0, 8, (PATCH, PATCH, 3), dtype=np.uint8)


def write_scene(path: Path, patch: NDArray[np.uint8], width: int, height: int, shift_px: tuple[int, int]) -> None:
    """Write a tiled JPEG-in-TIFF scene, strip by strip: the patch over and over, moved by (columns, rows)."""
    columns = (np.arange(width) - shift_px[0]) % PATCH
    with rasterio.open(
        path, "w", driver="GTiff", width=width, height=height, count=3, dtype="uint8", crs="EPSG:32615", tiled=True,
        blockxsize=STRIP, blockysize=STRIP, compress="jpeg", photometric="ycbcr", num_threads="all_cpus", bigtiff="yes",
        transform=rasterio.transform.from_origin(400_000, 4_100_000, GSD_M, GSD_M),
    ) as target:  # fmt: skip
        for row in range(0, height, STRIP):
            n = min(STRIP, height - row)
            strip = patch[(np.arange(row, row + n) - shift_px[1]) % PATCH][:, columns]
            target.write(strip.transpose(2, 0, 1), window=rasterio.windows.Window(0, row, width, n))


def write_footprints(path: Path, n: int, width: int, height: int, rng: np.random.Generator) -> None:
    """Write rectangles of 8 to 24 m, GeoJSON in the scenes' own system."""
    x = 400_000 + GSD_M * rng.uniform(0, width - SIDE_PX[1], n)
    y = 4_100_000 - GSD_M * rng.uniform(0, height - SIDE_PX[1], n)
    w, h = GSD_M * rng.uniform(*SIDE_PX, (2, n))
    rings = np.stack([x, y, x, y - h, x + w, y - h, x + w, y, x, y], axis=1).reshape(n, 5, 2).round(2).tolist()
    features = [
        {"type": "Feature", "properties": {"id": i}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        for i, ring in enumerate(rings)
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32615"}}
    path.write_bytes(orjson.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))


def _step(*arguments: str) -> dict[str, object]:
    """Do one verb in a process of its own; tell how long it took and how much memory it and its children had at most."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "pu_geo.cli", *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{arguments[0]} ended with {status}: {said}")
    told = {"step": arguments[0], "s": round(time.monotonic() - began, 1), "cpu_s": round(used.ru_utime + used.ru_stime, 1)}
    return {**told, "most_mb": used.ru_maxrss // 1024, "said": json.loads(said)}


def make(where: Path, share: float) -> None:
    """Write both scenes and the footprints, `share` of them."""
    width, height = (int(side * share**0.5) // STRIP * STRIP for side in (WIDTH, HEIGHT))
    rng = np.random.default_rng(0)
    patch = _patch(rng)
    write_scene(where / "post.tif", patch, width, height, (0, 0))
    write_scene(where / "pre.tif", patch, width, height, SHIFT_PX)
    write_footprints(where / "footprints.geojson", int(N_BUILDINGS * share), width, height, rng)
    print(json.dumps({"width": width, "height": height, "gigapixels": width * height / 1e9}), flush=True)


def main(folder: str, share: str = "1") -> None:
    """Make the event, then do it verb by verb; one JSON line each."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    maker = multiprocessing.get_context("spawn").Process(target=make, args=(where, float(share)))
    maker.start()  # on its own, as a step is charged with all memory that its parent has when it starts
    maker.join()
    if maker.exitcode:
        raise SystemExit("The scenes could not be written.")
    project = str(where / "event.pugeo")
    for arguments in (
        ("init", project),
        ("add-scene", project, "--pre", str(where / "pre.tif"), "--post", str(where / "post.tif")),
        ("add-footprints", project, str(where / "footprints.geojson")),
        ("align", project),
        ("chip", project),
    ):
        print(json.dumps(_step(*arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
