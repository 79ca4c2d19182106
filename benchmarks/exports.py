"""Exports of a whole city against GeoPandas and pyogrio writing the same table; time in one run, memory in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import geopandas
import numpy as np
import shapely

from pu_geo.geo.export.exporters import EXPORTERS
from pu_geo.records import DamageMap

N_BUILDINGS = 150_000
_SUFFIX = {"heat": "tif"}
_MB = 1024.0


def made_up_map(n: int = N_BUILDINGS) -> DamageMap:
    """Return squares of 10 x 12 m in UTM with an id and a score each, as in `benchmarks.run.bench_export`."""
    rng = np.random.default_rng(2)
    x, y = 400_000 + rng.random(n) * 19_980, 4_100_000 - rng.random(n) * 19_980
    wkb = [bytes(blob) for blob in shapely.to_wkb(shapely.box(x, y - 12, x + 10, y))]
    ids = [f"b{i}" for i in range(n)]
    columns = {"building_id": ids, "score": rng.random(n).round(4).tolist()}
    return DamageMap(ids, wkb, columns, "EPSG:32615", {})


def full_map(n: int = N_BUILDINGS) -> DamageMap:
    """Return the same map with the fields of a true export."""
    plain = made_up_map(n)
    rng = np.random.default_rng(3)
    binary = np.where(rng.random(n) < 0.1, "damaged", "not_flagged").tolist()
    columns = {
        **plain.columns,
        "source_footprint": ["osm"] * n,
        "area_m2": rng.integers(20, 900, n).astype(float).tolist(),
        "assessed": [True] * n,
        "damage_binary": binary,
        "rank": rng.permutation(n).tolist(),
        "threshold": [0.5] * n,
        "triage": ["flagged" if value == "damaged" else "below" for value in binary],
        "damage_types": [["roof"] if i % 9 == 0 else [] for i in range(n)],
        "label": [None] * n,
        "post_date": ["2026-01-01"] * n,
        "method": ["NcPU"] * n,
        "run_id": ["20260101-120000-ab"] * n,
        "source_attributes": [{"height": i % 7, "name": f"house {i}"} for i in range(n)],
    }
    return DamageMap(plain.building_ids, plain.wkb, columns, plain.grid_crs, plain.metadata)


def frame_of(damage_map: DamageMap) -> geopandas.GeoDataFrame:
    """Return the table a GIS person would have: outlines in the project CRS, lists and dicts as text."""
    columns = {
        name: [json.dumps(value) for value in column] if isinstance(column[0], list | dict) else column
        for name, column in damage_map.columns.items()
    }
    return geopandas.GeoDataFrame(columns, geometry=geopandas.GeoSeries.from_wkb(damage_map.wkb), crs=damage_map.grid_crs)


def _peer_geojson(frame: geopandas.GeoDataFrame, path: Path) -> None:
    path.write_text(frame.to_json(to_wgs84=True), encoding="utf-8")


def _peer_csv(frame: geopandas.GeoDataFrame, path: Path) -> None:
    centers = frame.geometry.centroid.to_crs(4326)
    frame.drop(columns="geometry").assign(lon=centers.x, lat=centers.y).to_csv(path, index=False)


PEERS: dict[str, Callable[[geopandas.GeoDataFrame, Path], None]] = {
    "geojson": _peer_geojson,
    "gpkg": lambda frame, path: frame.to_crs(4326).to_file(path, driver="GPKG"),
    "parquet": lambda frame, path: frame.to_crs(4326).to_parquet(path),
    "fgb": lambda frame, path: frame.to_crs(4326).to_file(path, driver="FlatGeobuf"),
    "csv": _peer_csv,
    "kml": lambda frame, path: frame.to_crs(4326).to_file(path, driver="LIBKML"),
}


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds on the clock and of the processor; on a busy machine the second is the firmer one."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def compare(name: str, damage_map: DamageMap, folder: Path, n_times: int = 2) -> dict[str, float]:
    """Write one format with ours and with its peer, in turns; the best of `n_times` each.

    Returns:
        "ours_s" and "peer_s" first, then processor seconds.
    """
    frame, path = frame_of(damage_map), folder / f"map.{_SUFFIX.get(name, name)}"
    ours, peer = [], []
    for _ in range(n_times):
        ours.append(_timed(lambda: EXPORTERS[name](damage_map, path)))
        path.unlink()
        peer.append(_timed(lambda: PEERS[name](frame, path)))
        path.unlink()
    (ours_s, ours_cpu_s), (peer_s, peer_cpu_s) = (np.min(times, axis=0).tolist() for times in (ours, peer))
    return {"ours_s": ours_s, "peer_s": peer_s, "ours_cpu_s": ours_cpu_s, "peer_cpu_s": peer_cpu_s}


def bench_geojson(folder: Path) -> dict[str, float]:
    """Export GeoJSON of 150,000 buildings, against GeoPandas; then how far the memory rises above the finished table, MB."""
    times = compare("geojson", made_up_map(), folder)
    return {**times, "ours_rise_mb": memory_rise("geojson", "ours"), "peer_rise_mb": memory_rise("geojson", "peer")}


def memory_rise(name: str, who: str) -> float:
    """Return by how much the peak memory of a fresh process exceeds what it held before the export, MB; NaN off Linux."""
    command = [sys.executable, "-m", "benchmarks.exports", "--rise", name, who]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


def _rise(name: str, who: str) -> float:
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    damage_map = made_up_map()
    frame = frame_of(damage_map) if who == "peer" else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"map.{_SUFFIX.get(name, name)}"
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest mark so far
        before = _kilobytes("VmRSS")
        if frame is None:
            EXPORTERS[name](damage_map, path)
        else:
            PEERS[name](frame, path)
        return (_kilobytes("VmHWM") - before) / _MB


def _kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def main(*names: str) -> None:
    """Print one line per format: the plain table, and the table with all fields of a true export."""
    if names[:1] == ("--rise",):
        print(_rise(names[1], names[2]))
        return
    for name in names or PEERS:
        for table, damage_map in (("2 fields", made_up_map()), ("15 fields", full_map())):
            with tempfile.TemporaryDirectory() as folder:
                times = compare(name, damage_map, Path(folder), n_times=1)
            ratio = round(times["ours_s"] / times["peer_s"], 3)
            row = {"format": name, "table": table, "ratio": ratio, **{key: round(value, 2) for key, value in times.items()}}
            print(json.dumps({**row, "ours_rise_mb": round(memory_rise(name, "ours"))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
