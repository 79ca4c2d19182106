"""Chips and features in one process, and on 1 and 2 workers of a cluster on this machine. `python -m benchmarks.cluster [N]`.

N buildings (4,096 if not named: four shards) on a scene pair of noise, made in a temporary folder; nothing is drawn that a seed does not fix. All
three are measured in the same run, so that their ratio is what counts. Seconds of a cluster are from its being there to its last
shard, as the job's log has them; "all" is the whole job, with the start and the end of the cluster, twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import rasterio
import shapely
from rasterio.transform import Affine

from pu_geo.project import contents, events, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery.chip import chip
from pu_geo.tasks.imagery.footprints import add_footprints
from pu_geo.tasks.imagery.scenes import add_scenes
from pu_geo.tasks.job import Job

GSD_M, CRS, ORIGIN = 0.5, "EPSG:32615", (500_000.0, 4_000_000.0)
SPACING_PX, SIDE_PX, SIZE_PX = 40, 20, 64


def make(folder: Path, n: int) -> Layout:
    """Make a project with a scene pair and n footprints on a square, without chips."""
    per_row = int(np.ceil(np.sqrt(n)))
    side = per_row * SPACING_PX
    rng = np.random.default_rng(0)
    profile = {
        "driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "uint8", "crs": CRS, "tiled": True,
        "transform": Affine(GSD_M, 0, ORIGIN[0], 0, -GSD_M, ORIGIN[1]), "blockxsize": 256, "blockysize": 256,
        "compress": "deflate",
    }  # fmt: skip
    for name in ("pre", "post"):
        with rasterio.open(folder / f"{name}.tif", "w", **profile) as target:
            target.write(rng.integers(1, 255, (3, side, side), np.uint8))
    place = np.arange(n)
    x, y = (ORIGIN[0] + (place % per_row) * SPACING_PX * GSD_M), (ORIGIN[1] - (place // per_row) * SPACING_PX * GSD_M)
    margin, end = 10 * GSD_M, (10 + SIDE_PX) * GSD_M
    shapes = shapely.box(x + margin, y - end, x + end, y - margin)
    features = [
        {"type": "Feature", "properties": {"id": f"b{i}"}, "geometry": json.loads(shapely.to_geojson(shape))}
        for i, shape in enumerate(shapes)
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32615"}}
    path = folder / "footprints.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}), encoding="utf-8")
    layout = store.create(folder / "noise.pugeo", "Noise")
    add_scenes(_job(layout, "scenes"), pre=[str(folder / "pre.tif")], post=[str(folder / "post.tif")])
    add_footprints(_job(layout, "footprints"), path=str(path))
    return layout


def measure(layout: Layout, cluster: str) -> dict[str, object]:
    """Cut chips and compute features; return seconds, the workers' peak memory, and sha256 of what was made."""
    job = _job(layout, f"chip-{cluster.replace(':', '-') or 'alone'}")
    began = time.monotonic()
    chip(job, size_px=SIZE_PX, cluster=cluster)
    seconds = time.monotonic() - began
    chip_set = store.call(layout, contents.chosen_chip_set)
    digest = hashlib.sha256(layout.chips(chip_set).read_bytes() + layout.features(chip_set).read_bytes()).hexdigest()
    found: dict[str, object] = {"cluster": cluster or "none", "all": round(seconds, 1), "sha256": digest[:16]}
    log = [event for event in events.read(job.folder) if event["event"] in ("cluster", "shard")]
    starts = [k for k, event in enumerate(log) if event["event"] == "cluster"]
    for name, first, stop in zip(("chips", "features"), starts, [*starts[1:], len(log)], strict=False):
        ends = [datetime.fromisoformat(str(log[k]["at"])) for k in (first, stop - 1)]
        found[name] = round((ends[1] - ends[0]).total_seconds(), 1)
    if peaks := [int(str(event["peak_mb"])) for event in log if event.get("peak_mb")]:
        found["peak_mb"] = max(peaks)
    return found


def main(n: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pu-geo-cluster-"))
    try:
        layout = make(folder, n)
        rows = [measure(layout, cluster) for cluster in ("", "local:1", "local:2")]
    finally:
        shutil.rmtree(folder)
    for row in rows:
        print(json.dumps(row))
    one, two = rows[1:]
    for name in ("chips", "features"):
        ratio = float(str(one[name])) / max(float(str(two[name])), 0.1)
        print(f"{name}: 2 workers are {ratio:.2f} times as fast as 1")
    print("all three equal" if len({row["sha256"] for row in rows}) == 1 else "THEY DIFFER")


def _job(layout: Layout, name: str) -> Job:
    (layout.jobs / name).mkdir(parents=True, exist_ok=True)
    return Job(layout, layout.jobs / name)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_096)
