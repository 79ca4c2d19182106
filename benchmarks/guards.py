"""What files of other people cost: how long and how large a refusal gets, and how much slower a child makes a good file.

`python -m benchmarks.guards FILE...` looks at files, each by a child, and prints what that took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import shapely

from benchmarks.timing import in_turns
from pu_geo.geo.readers import in_child
from pu_geo.geo.vector import footprints
from pu_geo.geo.vector.crs import load_crs
from pu_geo.records import Grid

SHARED = Path(os.environ.get("PU_GEO_SHARED", Path(__file__).resolve().parents[2] / "shared"))
FOLDERS = ("bad_inputs/raster", "bad_inputs/vector", "data/stress_tiff", "data/odd_geojson")
ALLOWED_SECONDS, ALLOWED_MB = 2.0, 300.0
N_BUILDINGS = 100_000


def look_at(paths: Sequence[Path]) -> list[dict[str, object]]:
    """Look at files in a fresh and small process, each by a child of its own.

    Returns:
        As `in_child.inspect_file` for each, with "seconds", "cpu_seconds" and, of all children so far, "peak_mb".
    """
    command = [sys.executable, "-m", "benchmarks.guards", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[1])
    return [json.loads(line) for line in done.stdout.splitlines()]


@lru_cache(maxsize=1)
def corpus() -> list[dict[str, object]]:
    """Look at every broken, hostile or odd file that is here; empty without the shared folder."""
    paths = [path for name in FOLDERS if (SHARED / name).is_dir() for path in sorted((SHARED / name).iterdir())]
    return look_at(paths) if paths else []


def bench_refusal_seconds(_: Path) -> dict[str, float]:
    """The slowest refusal of a broken or hostile file, start of the child included; and what it took of the processor."""
    refused = [row for row in corpus() if not row["ok"]]
    seconds, cpu = ([float(str(row[key])) for row in refused] for key in ("seconds", "cpu_seconds"))
    slowest = {"slowest_refusal_s": max(seconds, default=float("nan")), "allowed_s": ALLOWED_SECONDS}
    return {**slowest, "most_processor_time_s": max(cpu, default=float("nan")), "n": len(refused)}


def bench_refusal_memory(_: Path) -> dict[str, float]:
    """The most memory that a child had in use, its libraries included; its parent takes none."""
    peak_mb = max((float(str(row["peak_mb"])) for row in corpus()), default=float("nan"))
    return {"most_memory_mb": peak_mb, "allowed_mb": ALLOWED_MB}


def bench_footprints_in_child(folder: Path) -> dict[str, float]:
    """Read 100,000 buildings of GeoJSON through the child, against reading them in this process; then a file of one."""
    rng = np.random.default_rng(0)
    x, y = 400_000 + rng.random(N_BUILDINGS) * 8_000, 4_100_000 - rng.random(N_BUILDINGS) * 8_000
    grid = Grid("EPSG:32615", load_crs("EPSG:32615").to_wkt(), (0.5, 0, 399_990, 0, -0.5, 4_100_010), 16_100, 16_100, 0.5)
    outlines = shapely.to_geojson(shapely.box(x, y - 12, x + 10, y)).tolist()
    large, small = (write_geojson(folder / f"{n}.geojson", outlines[:n]) for n in (N_BUILDINGS, 1))
    child, process, one = in_turns(
        3, lambda: in_child.read_footprints(large, grid), lambda: footprints.read_footprints(large, grid),
        lambda: in_child.read_footprints(small, grid),
    )  # fmt: skip
    return {"in_child_s": child, "in_process_s": process, "one_building_in_child_s": one}


def write_geojson(path: Path, outlines: Sequence[str]) -> Path:
    """Write outlines in UTM zone 15 as GeoJSON, with the attributes that building data sets have."""
    rows = [
        f'{{"type":"Feature","id":{i},"properties":{{"uid":"b{i}","storeys":{i % 9},"name":"House {i}","source":"made up"}},'
        f'"geometry":{outline}}}'
        for i, outline in enumerate(outlines)
    ]
    crs = '{"type":"name","properties":{"name":"urn:ogc:def:crs:EPSG::32615"}}'
    path.write_text(f'{{"type":"FeatureCollection","crs":{crs},"features":[{",".join(rows)}]}}')
    return path


def main(names: Sequence[str]) -> None:
    import resource  # not on Windows

    used = 0.0
    for name in names:
        began = time.perf_counter()
        report = in_child.inspect_file(Path(name))
        seconds = time.perf_counter() - began
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds, used = children.ru_utime + children.ru_stime - used, children.ru_utime + children.ru_stime
        peak_mb = children.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)  # bytes on macOS, else kB
        print(json.dumps({**report, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak_mb}))


if __name__ == "__main__":
    main(sys.argv[1:])
