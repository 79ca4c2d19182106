"""Time and memory of the same work in two checkouts, in turns: what a change of libraries costs.

    python benchmarks/two_checkouts.py OLD NEW [work ...]

One line of JSON per work: the best seconds and the highest memory (of the process and its children, MB) of each checkout, and
their ratios. Each work runs in a process of its own whose `pu_geo` and `benchmarks` are the checkout's. Memory counts pages that
processes share more than once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

N_TURNS = 3
_EXPORT = """
from pathlib import Path
from tempfile import TemporaryDirectory
from benchmarks.exports import EXPORTERS, full_map
damage_map = full_map()
with TemporaryDirectory() as folder, timed():
    EXPORTERS[{name!r}](damage_map, Path(folder) / "map.{suffix}")
"""
_RANK = """
import numpy as np
from pu_geo.analysis import estimates, ranker
values = np.random.default_rng(4).normal(size=(100_000, 512)).astype(np.float32)
values[:1000, :20] += 0.6
prepared, is_positive = ranker.prepare(values), np.arange(len(values)) < 30
estimates.rank_with_estimate(prepared, is_positive)
with timed():
    estimates.rank_with_estimate(prepared, is_positive)
"""
_UMAP = """
from benchmarks.explore_speed import embeddings
from pu_geo.analysis import projection
projection.umap_2d(embeddings(500), seed=0)
rows = embeddings({n}, {d})
with timed():
    projection.umap_2d(rows, seed=0)
"""
_APP = """
import os, socket, subprocess, tempfile, urllib.request
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
home = {**os.environ, "PU_GEO_HOME": tempfile.mkdtemp(), "PU_GEO_BROWSER": "no"}
with timed():
    app = subprocess.Popen([sys.executable, "app.py", str(port)], env=home, stdout=subprocess.DEVNULL)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).read()
            break
        except OSError:
            time.sleep(0.01)
app.kill()
"""
_FIRST_PAGE = """
import os, tempfile
os.environ["PU_GEO_HOME"] = tempfile.mkdtemp()
with timed():
    from streamlit.testing.v1 import AppTest
    page = AppTest.from_file("pu_geo/ui/shell.py", default_timeout=120).run()
assert not page.exception, page.exception
"""
_FOOTPRINTS = """
from pathlib import Path
from tempfile import TemporaryDirectory
from benchmarks.guards import bench_footprints_in_child
with TemporaryDirectory() as folder, timed():
    bench_footprints_in_child(Path(folder))
"""
FORMATS = ("geojson", "gpkg", "fgb", "parquet", "csv", "kml", "heat")
WORK = {
    **{f"export {name}": _EXPORT.format(name=name, suffix="tif" if name == "heat" else name) for name in FORMATS},
    "rank 100,000 x 512": _RANK,
    "umap 20,000 x 128": _UMAP.format(n=20_000, d=128),
    "umap 100,000 x 128": _UMAP.format(n=100_000, d=128),
    "app start, until it answers": _APP,
    "first page, imports and all": _FIRST_PAGE,
    "import pu_geo.cli": "with timed():\n    import pu_geo.cli\n",
    "100,000 footprints of every kind": _FOOTPRINTS,
}
_TIMED = """
import sys, time, contextlib
sys.path.insert(0, ".")
@contextlib.contextmanager
def timed():
    began = time.perf_counter()
    yield
    print("seconds", time.perf_counter() - began)
"""


def measure(checkout: Path, code: str) -> tuple[float, float]:
    """Run a work once; return its seconds, and the highest memory of its processes in MB."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "2"}
    work = subprocess.Popen(
        [sys.executable, "-c", _TIMED + code], cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    )
    process, highest = psutil.Process(work.pid), 0.0
    while work.poll() is None:
        held = 0
        try:
            for each in [process, *process.children(recursive=True)]:
                held += each.memory_info().rss
        except psutil.Error:
            pass
        highest = max(highest, held / 1e6)
        time.sleep(0.02)
    printed = work.stdout.read() if work.stdout else ""
    if work.returncode:
        raise SystemExit(f"{checkout}: exit code {work.returncode}")
    return float(printed.split("seconds")[-1]), highest


def main(old: str, new: str, *names: str) -> None:
    """Print a line for each work."""
    for name in names or WORK:
        turns = np.array([[measure(Path(each).resolve(), WORK[name]) for each in (old, new)] for _ in range(N_TURNS)])
        (old_s, new_s), (old_mb, new_mb) = turns[..., 0].min(axis=0).tolist(), turns[..., 1].max(axis=0).tolist()
        row = {"old_s": old_s, "new_s": new_s, "ratio_s": new_s / old_s, "old_mb": old_mb, "new_mb": new_mb}
        rounded = {key: round(value, 2) for key, value in row.items()}
        print(json.dumps({"work": name, **rounded, "ratio_mb": round(new_mb / old_mb, 2)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
