"""GeoJSON of a whole city against GeoPandas writing the same table; time in one run, memory in fresh processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import geopandas
import numpy as np
import shapely

from benchmarks.timing import in_turns
from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.records import DamageMap

N_BUILDINGS = 150_000
_MB = 1024.0


def made_up_map(n: int = N_BUILDINGS) -> DamageMap:
    """Return squares of 10 x 12 m in UTM with an id and a score each."""
    rng = np.random.default_rng(2)
    x, y = 400_000 + rng.random(n) * 19_980, 4_100_000 - rng.random(n) * 19_980
    wkb = [bytes(blob) for blob in shapely.to_wkb(shapely.box(x, y - 12, x + 10, y))]
    ids = [f"b{i}" for i in range(n)]
    columns = {"building_id": ids, "score": rng.random(n).round(4).tolist()}
    return DamageMap(ids, wkb, columns, "EPSG:32615", {})


def _frame_of(damage_map: DamageMap) -> geopandas.GeoDataFrame:
    """Return the table a GIS person would have: outlines in the project CRS."""
    outlines = geopandas.GeoSeries.from_wkb(damage_map.wkb)
    return geopandas.GeoDataFrame(damage_map.columns, geometry=outlines, crs=damage_map.grid_crs)


def _writer(who: str, path: Path) -> Callable[[], object]:
    """Return what writes the table as GeoJSON, ours or GeoPandas'."""
    damage_map = made_up_map()
    frame = _frame_of(damage_map) if who == "peer" else None
    if frame is None:
        return lambda: EXPORTERS["geojson-full"](damage_map, path)
    return lambda: path.write_text(frame.to_json(to_wgs84=True), encoding="utf-8")


def bench_geojson(folder: Path) -> dict[str, float]:
    """Export GeoJSON of 150,000 buildings, against GeoPandas; then how far the memory rises above the finished table, MB."""
    ours, peer = in_turns(2, *(_writer(who, folder / f"{who}.geojson") for who in ("ours", "peer")))
    return {"ours_s": ours, "peer_s": peer, "ours_rise_mb": memory_rise("ours"), "peer_rise_mb": memory_rise("peer")}


def memory_rise(who: str) -> float:
    """Return by how much the peak memory of a fresh process exceeds what it held before the export, MB; NaN off Linux."""
    command = [sys.executable, "-m", "benchmarks.exports", who]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


def _rise(who: str) -> float:
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    with tempfile.TemporaryDirectory() as folder:
        write = _writer(who, Path(folder) / "map.geojson")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest mark so far
        before = _kilobytes("VmRSS")
        write()
        return (_kilobytes("VmHWM") - before) / _MB


def _kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


if __name__ == "__main__":
    print(_rise(sys.argv[1]))
