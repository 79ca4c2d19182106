"""Speed as ratios measured in one run: ours against a floor or a peer. `make bench`; machines are noisy, ratios less so.

A run of all benchmarks appends its figures to `history.jsonl`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import numpy as np
import shapely
import torch

from benchmarks import explore_speed, imagery
from benchmarks.answers import bench_answer
from benchmarks.augmentation import bench_augmentation, bench_augmentation_on_gpu
from benchmarks.browser_frames import bench_frames, bench_frames_100k, bench_lasso, bench_scatter_pan
from benchmarks.contrastive import bench_contrastive
from benchmarks.exports import bench_geojson
from benchmarks.guards import bench_footprints_in_child, bench_refusal_memory, bench_refusal_seconds
from benchmarks.timing import best_of, in_turns
from benchmarks.training import bench_bf16_step, bench_embedding, bench_ncpu_step
from pu_geo.analysis import estimates, ranker
from pu_geo.features import rcf
from pu_geo.records import FootprintTable, LabelOp
from pu_geo.store import contents, labels, store


def squares(n: int, side_m: float, rng: np.random.Generator) -> list[bytes]:
    x, y = 400_000 + rng.random(n) * (side_m - 20), 4_100_000 - rng.random(n) * (side_m - 20)
    return [bytes(wkb) for wkb in shapely.to_wkb(shapely.box(x, y - 12, x + 10, y))]


def bench_ranker(_: Path) -> dict[str, float]:
    """Rank 20,000 x 512 after a click, against scikit-learn's logistic regression on all of them."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(4)
    values = rng.normal(size=(20_000, 512)).astype(np.float32)
    values[:1000, :20] += 0.6
    is_positive = np.arange(20_000) < 30
    prepared = ranker.prepare(values)
    ours = best_of(3, lambda: estimates.rank_with_estimate(prepared, is_positive))
    peer = LogisticRegression(class_weight="balanced", C=1e-2, max_iter=200)
    return {"ours_s": ours, "scikit_learn_s": best_of(1, lambda: peer.fit(prepared.values, is_positive))}


def bench_features(_: Path) -> dict[str, float]:
    """Features of 100 chips in 17 views, against a plain convolution at every position."""
    rng = np.random.default_rng(5)
    pictures = rng.integers(0, 255, (100, 6, 64, 64)).astype(np.uint8)
    bank = rcf.RcfBank.fit(pictures, torch.Generator().manual_seed(0))
    cpu = torch.device("cpu")

    def plain() -> None:
        images = torch.from_numpy(pictures).float()
        with torch.inference_mode():
            for _ in range(17):
                torch.conv2d(images, bank.filters).relu().mean((2, 3))

    ours = best_of(2, lambda: bank.transform(pictures, 17, seed=0, device=cpu))
    return {"ours_s": ours, "plain_convolution_s": best_of(1, plain)}


def bench_clicks(folder: Path) -> dict[str, float]:
    """Store a click durably in a project with 20,000 buildings, against a bare fsync of one row in a file."""
    layout = store.create(folder / "clicks.pugeo", "clicks")
    wkb = squares(20_000, 10_000, np.random.default_rng(6))
    table = FootprintTable([f"b{i}" for i in range(20_000)], wkb, np.ones(20_000), [{}] * 20_000, "user", 20_000, 0, 0)
    with store.connect(layout) as db:
        contents.add_footprints(db, table)
    numbers = iter(range(10_000))

    def click() -> None:
        i = next(numbers)
        with store.connect(layout) as db:
            labels.append(db, [LabelOp(f"op{i}", f"b{i}", "positive")], analyst="a", screen="map")

    def bare() -> None:
        with (folder / "row").open("ab") as stream:
            stream.write(b"x" * 100)
            stream.flush()
            os.fsync(stream.fileno())

    median = float(np.median([best_of(1, click) for _ in range(100)]))
    return {"ours_s": median, "bare_fsync_s": float(np.median([best_of(1, bare) for _ in range(100)]))}


def bench_import(_: Path) -> dict[str, float]:
    """Import the package, the best of five, against what it may take."""
    timed = "import time; began = time.perf_counter(); import pu_geo; print(time.perf_counter() - began)"
    times = [float(subprocess.check_output([sys.executable, "-c", timed], text=True)) for _ in range(5)]
    return {"ours_s": min(times), "allowed_s": 0.3}


def bench_import_losses(_: Path) -> dict[str, float]:
    """Import the losses, against torch alone."""
    ours, torch_alone = in_turns(7, lambda: _import("pu_geo.losses"), lambda: _import("torch"))
    return {"ours_s": ours, "torch_s": torch_alone}


def _import(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)


BENCHMARKS = {
    **imagery.BENCHMARKS,
    **explore_speed.BENCHMARKS,
    "geojson / geopandas": bench_geojson,
    "hostile files: slowest refusal / 2 s": bench_refusal_seconds,
    "hostile files: most memory / 300 MB": bench_refusal_memory,
    "100,000 footprints: in a child / in this process": bench_footprints_in_child,
    "ranker / scikit-learn": bench_ranker,
    "features / plain convolution": bench_features,
    "click / bare fsync": bench_clicks,
    "import pu_geo / 0.3 s": bench_import,
    "answer at 100,000 x 512 / one product": bench_answer,
    "contrastive loss / its matrix products": bench_contrastive,
    "import of the losses / import of torch": bench_import_losses,
    "augmentation / training step, cpu": bench_augmentation,
    "augmentation / training step, gpu": bench_augmentation_on_gpu,
    "NcPU step / 2 supervised steps + 1 forward": bench_ncpu_step,
    "float32 step / bf16 step": bench_bf16_step,
    "float32 embedding / fused bf16 embedding": bench_embedding,
    "map frame, 20,000 footprints / none": bench_frames,
    "map frame, 100,000 footprints / none": bench_frames_100k,
    "scatter frame, 1,000,000 dots / an empty canvas": bench_scatter_pan,
    "lasso of 100,000 dots / one by one": bench_lasso,
}
LONG = "16,384 px"
"""Minutes each; run only when asked for by name."""


NEEDS_GPU = {"augmentation / training step, gpu"}
HISTORY = Path(__file__).with_name("history.jsonl")


def main(wanted: str = "") -> None:
    """Run the benchmarks whose name contains `wanted`."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    facts = {"machine": platform.machine(), "cores": os.cpu_count(), **versions}
    print(json.dumps(facts))
    figures: dict[str, dict[str, float]] = {}
    for name, bench in BENCHMARKS.items():
        if wanted not in name or (not wanted and name.startswith(LONG)):
            continue
        if name in NEEDS_GPU and not torch.cuda.is_available():
            print(json.dumps({"benchmark": name, "ratio": "not run: there is no CUDA GPU"}))
            continue
        with tempfile.TemporaryDirectory() as folder:
            times = bench(Path(folder))
        ours, other, *_ = times.values()
        figures[name] = {"ratio": round(ours / other, 3), **{key: round(value, 4) for key, value in times.items()}}
        print(json.dumps({"benchmark": name, **figures[name]}), flush=True)
    if not wanted:
        commit = subprocess.check_output(["git", "rev-parse", "--short=12", "HEAD"], text=True).strip()
        with HISTORY.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"date": date.today().isoformat(), "commit": commit, **facts, "figures": figures}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
