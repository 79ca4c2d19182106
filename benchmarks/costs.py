"""What each step costs, measured at several sizes, fitted, and checked against another. `python -m benchmarks.costs [--write] [KEPT.json]`.

Buildings stand on a pair of made-up scenes in a temporary folder. Each step is the product's own task, as a job, in a process of its
own, on one thread; steps that take a cluster run in one process, and at some sizes on 2 workers. What is fitted is processor time, since other work on the
machine stretches the clock: with one thread a worker the two agree where nobody else computes. Coefficients are never negative
(non-negative least squares on relative errors), and few: a start, and what the step grows with.

What was measured is kept (benchmarks/outcomes/costs.json if no file is named): a run measures the steps that are missing there, and one
that is complete is only fitted again; to measure anew, remove the file or points of it. `--write` stores the coefficients that `pu-geo plan` reads,
`pu_geo/scale/costs.json`. Where the size that was held out is missed by more than 25 %, the table of docs/tables.md says so.
"""

from __future__ import annotations

import inspect
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.transform import Affine
from scipy.optimize import nnls

from pu_geo.jobs import foreground
from pu_geo.jobs.worker import TASKS
from pu_geo.project import contents, events, store
from pu_geo.project.layout import Layout, find_project
from pu_geo.records import FeatureRequest
from pu_geo.scale import costs
from pu_geo.services.annotate import labeling

REPOSITORY = Path(__file__).parents[1]
KEPT = REPOSITORY / "benchmarks" / "outcomes" / "costs.json"
GSD_M, CRS, ORIGIN = 0.5, "EPSG:32615", (500_000.0, 4_000_000.0)
SIDE_PX = 20
Names = Sequence[str]
WORKERS = 2
FIRST = ("add-scene", "add-footprints")
CUT = (*FIRST, "align", "chip")
RANKED = (*CUT, "rank", "export")
TRAININGS = ("train propagation", "train features")
USUAL = (*RANKED, "features", *TRAININGS)
PREPARE = (*FIRST, "chip", "rank")
"""Steps that later ones need, done again where a run goes on."""


@dataclass(frozen=True)
class Size:
    """One project that is measured.

    Attributes:
        spacing: of buildings, pixels.
        views: of features that come with chips, and of those of the step "features".
        steps: done in one process.
        on_workers: done on `WORKERS` workers as well.
        epochs: of the training on cached features.
    """

    footprints: int
    size_px: int
    spacing: int
    views: tuple[int, int]
    steps: Names
    on_workers: Names
    epochs: int = 20

    @property
    def wanted(self) -> set[tuple[str, int]]:
        return {(step, 0) for step in self.steps} | {(step, WORKERS) for step in self.on_workers}


SIZES = (
    Size(500, 64, 80, (17, 5), (*USUAL, "train resnet18"), ("align", "chip", "features"), epochs=40),
    Size(1_000, 80, 40, (17, 5), (*USUAL, "train resnet18"), ("chip",), epochs=10),
    Size(2_000, 48, 64, (17, 5), (*USUAL, "train resnet18"), ("chip", "features")),
    Size(10_000, 16, 32, (17, 5), (*RANKED, *TRAININGS), (), epochs=2),
    Size(20_000, 16, 32, (17, 1), (*FIRST, "chip"), ()),
    Size(40_000, 16, 30, (1, 1), RANKED, ("align", "chip")),
    Size(200, 64, 400, (1, 1), CUT, ("align", "chip")),
    Size(3_000, 32, 40, (1, 1), (*FIRST, "chip", "features"), ("chip", "features")),
)
"""Varied against each other: many small chips, where what grows with buildings shows; one view, which is not augmented, so that a second and
further ones show; few buildings on wide scenes."""
HELD_OUT = Size(4_000, 64, 56, (17, 5), (*USUAL, "train resnet18"), ("align", "chip", "features"))
"""Made of more pixels of chips in all views than any of them."""
N_CLICKS, NETWORK_EPOCHS = 60, 1
WITHIN, MATTERS = 0.25, 0.05
_COMPUTED = ("start", "footprints", "augmented_footprints", "view_megapixels")
_IN_MEMORY = (
    "start",
    "footprints",
    "sampled_megapixels",
)  # views are computed one after the other: more of them take no more
GROWS_WITH: Mapping[str, tuple[Names, Names, Names]] = {
    "add-scene": (("start", "megapixels"), ("megapixels",), ("start", "root_megapixels")),
    "add-footprints": (("start", "footprints"), ("start", "footprints"), ("start", "footprints")),
    "align": (("start", "footprints", "megapixels"), ("footprints",), ("start", "footprints", "root_megapixels")),
    "chip": ((*_COMPUTED, "megapixels"), ("footprints", "view_footprints", "chip_megapixels"), _IN_MEMORY),
    "features": (_COMPUTED, ("view_footprints",), _IN_MEMORY),
    "rank": (("start", "footprints"), ("footprints",), ("start", "footprints")),
    "train propagation": (("start", "footprints"), ("start", "footprints"), ("start", "footprints")),
    "train features": (("start", "footprints", "epoch_footprints"), ("start", "footprints"), ("start", "footprints")),
    "train resnet18": (("start", "epoch_megapixels"), ("start", "footprints"), ("start", "footprints")),
    "export": (("start", "footprints"), ("footprints",), ("start", "footprints")),
}
"""What seconds, bytes that stay, and memory of each step grow with, see `pu_geo.scale.costs.UNITS`."""


# Making a project


def make(folder: Path, n: int, spacing: int) -> dict[str, str]:
    """Write a scene pair of n buildings on a square, and their footprints; return the paths. Post differs at a third of them."""
    per_row = int(np.ceil(np.sqrt(n)))
    side, rng = per_row * spacing, np.random.default_rng(0)
    profile = {
        "driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "uint8", "crs": CRS, "tiled": True,
        "transform": Affine(GSD_M, 0, ORIGIN[0], 0, -GSD_M, ORIGIN[1]), "blockxsize": 256, "blockysize": 256,
        "compress": "deflate",
    }  # fmt: skip
    ground = cv2.GaussianBlur(rng.normal(0, 300, (side, side, 3)).astype(np.float32), (0, 0), 2.0)
    place = np.arange(n)
    columns, rows = (place % per_row) * spacing + 10, (place // per_row) * spacing + 10
    for k, (column, row) in enumerate(zip(columns.tolist(), rows.tolist(), strict=True)):
        ground[row : row + SIDE_PX, column : column + SIDE_PX] += 40 + k % 7
    paths = {name: str(folder / f"{name}.tif") for name in ("pre", "post")} | {"footprints": str(folder / "houses.geojson")}
    for name in ("pre", "post"):
        shown = ground + rng.normal(0, 6, ground.shape).astype(np.float32)
        if name == "post":
            for row, column in zip(rows[::3].tolist(), columns[::3].tolist(), strict=True):
                shown[row : row + SIDE_PX, column : column + SIDE_PX] += rng.normal(0, 50, (SIDE_PX, SIDE_PX, 1))
        with rasterio.open(paths[name], "w", **profile) as target:
            target.write(np.clip(shown + 110, 1, 255).astype(np.uint8).transpose(2, 0, 1))
    x, y = ORIGIN[0] + columns * GSD_M, ORIGIN[1] - rows * GSD_M
    shapes = shapely.box(x, y - SIDE_PX * GSD_M, x + SIDE_PX * GSD_M, y)
    features = [
        {"type": "Feature", "properties": {"id": f"b{i}"}, "geometry": json.loads(shapely.to_geojson(shape))}
        for i, shape in enumerate(shapes)
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32615"}}
    Path(paths["footprints"]).write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    return paths


# Measuring


class _Memory(threading.Thread):
    """Samples the memory of this process that belongs to it alone, MB: pages of mapped arrays are the system's to take back.

    `own_s` is the processor time that this takes, which grows with the clock and is no part of a step.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb = self.own_s = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.05):
            found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
            self.peak_mb = max(self.peak_mb, int(found[1]) / 1024 if found else 0.0)
        self.own_s = time.thread_time()

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def do(folder: Path, task: str, args: Mapping[str, Any]) -> dict[str, float]:
    """Do a task in this process; return seconds on the clock and of processors, and memory."""
    layout, memory = find_project(folder), _Memory()
    before, began = _seconds(), time.monotonic()
    memory.start()
    foreground.run(layout, task, args)
    clock, after = time.monotonic() - began, _seconds()
    memory.stop()
    start = time.process_time() - (after[0] - before[0]) - memory.own_s  # Python and imports, without the samples
    log = events.read(max(layout.jobs.iterdir(), key=lambda one: one.stat().st_mtime))
    peaks = [float(str(one["peak_mb"])) for one in log if one["event"] == "shard" and one.get("peak_mb")]
    return {
        "clock_s": round(clock, 2), "own_s": round(after[0] - before[0] + start, 2), "workers_s": round(after[1] - before[1], 2),
        "memory_mb": round(memory.peak_mb), "worker_mb": max(peaks, default=0.0), "span_s": round(_span(log), 2),
        "busy_s": round(sum(float(str(one["seconds"])) for one in log if one["event"] == "shard"), 2),
    }  # fmt: skip


def _seconds() -> tuple[float, float]:
    """Return processor time of this process, and of those that it started and that ended."""
    own, others = (resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def _span(log: Sequence[Mapping[str, object]]) -> float:
    """Return the seconds from a cluster's being there to its last shard, summed over the clusters of a job."""
    total, first, last = 0.0, None, None
    for one in [*log, {"event": "cluster", "at": ""}]:
        if one["event"] == "cluster":
            total += (last - first).total_seconds() if first and last else 0.0
            first, last = datetime.fromisoformat(str(one["at"])) if one["at"] else None, None
        elif one["event"] == "shard":
            last = datetime.fromisoformat(str(one["at"]))
    return total


def _in_a_process(folder: Path, task: str, args: Mapping[str, Any]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.costs", "--do", str(folder), task, json.dumps(args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment)
    if done.returncode:
        raise RuntimeError(f"{task} failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _takes_a_cluster(task: str) -> bool:
    module, name = TASKS[task].split(":")
    return "cluster" in inspect.signature(getattr(import_module(module), name)).parameters


def measure(size: Size, wanted: Collection[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yield a point for each step and number of workers that is wanted: its units, workers, seconds, bytes and memory."""
    n, (chip_views, n_views) = size.footprints, size.views
    folder = Path(tempfile.mkdtemp(prefix="pu-geo-costs-"))
    try:
        paths = make(folder, n, size.spacing)
        megapixels = 2 * (int(np.ceil(np.sqrt(n))) * size.spacing) ** 2 / 1e6
        train = {"method": "pucl", "seed": 0}
        steps: list[tuple[str, str, dict[str, Any], int]] = [
            ("add-scene", "add_scenes", {"pre": [paths["pre"]], "post": [paths["post"]]}, 0),
            ("add-footprints", "add_footprints", {"path": paths["footprints"]}, 0),
            ("align", "align", {}, 0),
            ("chip", "chip", {"size_px": size.size_px, "views": chip_views}, 0),
            ("features", "features", {"request": asdict(FeatureRequest("layers", n_views=n_views))}, 0),
            ("rank", "rank", {}, 0),
            ("train propagation", "train", {"method": "propagation", "preset": "quick"}, 0),
            ("train features", "train", {**train, "preset": "quick", "overrides": {"epochs": str(size.epochs)}}, size.epochs),
            ("train resnet18", "train", {**train, "preset": "standard", "overrides": {"epochs": str(NETWORK_EPOCHS)}}, NETWORK_EPOCHS),
            ("export", "export", {"run_id": "latest", "format": "geojson", "out": str(folder / "map.geojson")}, 0),
        ]  # fmt: skip
        alone, on_cluster = store.create(folder / "alone.pugeo", "Costs"), Layout(folder / "workers.pugeo")
        names = [step for step, *_ in steps]
        for k, (step, task, args, n_epochs) in enumerate(steps):
            if k == len(FIRST) and any(workers for _, workers in wanted):
                shutil.copytree(alone.folder, on_cluster.folder)
            if step == "rank" and step in size.steps:
                ids = store.call(alone, contents.building_ids)[: 3 * N_CLICKS : 3]
                labeling.label_all(alone, ids, "positive", analyst="ann", screen="map")
            for workers, layout in ((0, alone), (WORKERS, on_cluster)):
                is_needed = step in PREPARE and any((later, workers) in wanted for later in names[k + 1 :])
                if (step, workers) not in wanted and not (is_needed or (step in FIRST and not workers)):
                    continue
                if workers and not _takes_a_cluster(task):
                    continue
                before = _bytes(layout)
                given = {**args, "cluster": f"local:{workers}"} if workers else args
                found = _in_a_process(layout.folder, task, given)
                kept = _bytes(layout) - before + ((folder / "map.geojson").stat().st_size if step == "export" else 0)
                point = {
                    "step": step, "workers": workers, "footprints": n, "megapixels": megapixels, "size_px": size.size_px,
                    "chip_views": chip_views, "n_views": n_views, "epochs": n_epochs, **found, "kept_bytes": kept,
                    "load": round(os.getloadavg()[0], 1),
                }  # fmt: skip
                print(json.dumps(point), file=sys.stderr, flush=True)
                if (step, workers) in wanted:
                    yield point
    finally:
        shutil.rmtree(folder)


def _bytes(layout: Layout) -> int:
    """Return the bytes of a project without the folders of its jobs."""
    return sum(
        path.stat().st_size for path in layout.folder.rglob("*") if path.is_file() and layout.jobs not in path.parents
    )


# Fitting


def units_of(point: Mapping[str, Any]) -> dict[str, float]:
    work = costs.Work(point["footprints"], point["megapixels"], point["size_px"], point["chip_views"], point["n_views"])
    return costs.units(work, point["step"], epochs=point["epochs"])


def best(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one point for each size, step and number of workers: that of the least processor time, where it was measured several times."""
    found: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for one in points:
        key = (one["footprints"], one["size_px"], one["step"], one["workers"])
        if key not in found or _processor_s(one) < _processor_s(found[key]):
            found[key] = one
    return list(found.values())


def _processor_s(point: Mapping[str, Any]) -> float:
    return float(point["own_s"]) + float(point["workers_s"])


def fit(rows: Sequence[Mapping[str, float]], values: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """Return coefficients >= 0 of `names` whose sums over rows come near the values, by relative error.

    Args:
        rows: {unit: how many} of each point.
        values: what was measured at each, > 0; points of 0 are left out.
    """
    kept = [(row, value) for row, value in zip(rows, values, strict=True) if value > 0]
    if not kept:
        return {}
    matrix: NDArray[np.float64] = np.array([[row[name] / value for name in names] for row, value in kept])
    scale = np.maximum(matrix.max(axis=0), 1e-300)  # columns differ by orders of magnitude
    found, _ = nnls(matrix / scale, np.ones(len(kept)))
    return {name: float(f"{value:.4g}") for name, value in zip(names, found / scale, strict=True) if value > 0}


def table_of(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the coefficients of all steps: see `pu_geo.scale.costs.Table`."""
    steps: dict[str, Any] = {}
    for step, (seconds, kept, memory) in GROWS_WITH.items():
        alone = [one for one in points if one["step"] == step and not one["workers"]]
        shared = [one for one in points if one["step"] == step and one["workers"]]

        def column(rows: Sequence[Mapping[str, Any]], name: str, names: Sequence[str]) -> dict[str, float]:
            units = [{**units_of(one), "workers": one["workers"], "cluster": float(one["workers"] > 0)} for one in rows]
            return fit(units, [float(one[name]) for one in rows], names)

        steps[step] = {
            "alone_s": _sum_of([column(alone, "own_s", seconds), column(alone, "workers_s", seconds)]),
            "driver_s": column(shared, "own_s", seconds),
            "workers_s": column(shared, "workers_s", ("workers", *seconds[1:])),
            "kept_bytes": column(alone, "kept_bytes", kept),
            "memory_mb": column(alone + shared, "memory_mb", (*memory, "cluster")),
            "worker_mb": max((float(one["worker_mb"]) for one in shared), default=0.0),
            "fitted_to": max(int(one["footprints"]) for one in alone),
        }
    return steps


def _sum_of(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = reduce(lambda some, part: some | dict.fromkeys(part), parts, {})
    return {name: float(f"{sum(part.get(name, 0.0) for part in parts):.4g}") for name in names}


def compared(table: costs.Table, points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each step and number of workers of the held-out size: processor seconds and bytes, measured and predicted."""
    rows = []
    for one in points:
        cost = table.cost(one["step"], units_of(one), one["workers"])
        rows.append({
            "step": one["step"], "workers": one["workers"], "measured_s": one["own_s"] + one["workers_s"],
            "predicted_s": cost.processor_s, "clock_s": one["clock_s"], "predicted_clock_s": cost.seconds,
            "measured_mb": one["kept_bytes"] / 1e6, "predicted_mb": cost.kept_bytes / 1e6,
            "measured_memory": one["memory_mb"], "predicted_memory": cost.memory_mb,
        })  # fmt: skip
    return rows


def misses(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in words which predictions of steps that matter, of totals, and of the memory of any step, are off by more than 25 %."""
    words = [
        f"{row['step']} on {row['workers']} workers: {row['predicted_memory']:.0f} MB of memory predicted, {row['measured_memory']:.0f} measured"
        for row in rows
        if abs(row["predicted_memory"] / row["measured_memory"] - 1) > WITHIN
    ]
    for workers, (what, unit) in product(sorted({row["workers"] for row in rows}), (("s", "s"), ("mb", "MB"))):
        own = [row for row in rows if row["workers"] == workers]
        total = sum(row[f"measured_{what}"] for row in own)
        sums = {
            "step": "total",
            **{f"{name}_{what}": sum(row[f"{name}_{what}"] for row in own) for name in ("measured", "predicted")},
        }
        for row in (*own, sums):
            measured, predicted = row[f"measured_{what}"], row[f"predicted_{what}"]
            if measured > MATTERS * total and abs(predicted / measured - 1) > WITHIN:
                words.append(
                    f"{row['step']} on {workers} workers: {predicted:.1f} {unit} predicted, {measured:.1f} measured"
                )
    return words


def efficiency(points: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest share of two workers' time that shards took, of the points on two workers: 1 if both always had one."""
    return max(one["busy_s"] / (2 * one["span_s"]) for one in points if one["workers"] == 2 and one["span_s"])


def _known_piece_s() -> float:
    from pu_geo.tasks.project.speed import known_piece_s

    return known_piece_s()


def machine() -> dict[str, Any]:
    import torch

    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "processor": found[1].strip() if found else platform.machine(), "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9), "torch": str(torch.__version__).partition("+")[0],
        "python": platform.python_version(),
    }  # fmt: skip


def read_kept(path: Path) -> dict[str, Any]:
    """Return what was measured so far: {"machine", "at", "known_piece_s", "points"}, and "note" where its maker has one."""
    if path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return {"machine": machine(), "at": "", "known_piece_s": _known_piece_s(), "points": []}


def keep(path: Path, kept: Mapping[str, Any]) -> None:
    """Write what was measured, a point a line."""
    head = json.dumps({name: value for name, value in kept.items() if name != "points"})
    lines = ",\n".join(json.dumps(point) for point in kept["points"])
    path.write_text(f'{head[:-1]}, "points": [\n{lines}\n]}}\n', encoding="utf-8")


def fitted(kept: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the facts of the table of costs, and how it meets the size that was held out, see `compared`."""
    points = best(kept["points"])
    held_out = [one for one in points if one["footprints"] == HELD_OUT.footprints]
    others = [one for one in points if one["footprints"] != HELD_OUT.footprints]
    made = {
        "measured_at": kept["at"], "machine": kept["machine"], "footprints": sorted(size.footprints for size in SIZES),
        "held_out": HELD_OUT.footprints, "efficiency_of_2": round(efficiency(held_out), 2), "known_piece_s": round(kept["known_piece_s"], 3),
        "steps": table_of(others),
    }  # fmt: skip
    return made, compared(costs.Table(made), held_out)


def section() -> str:
    """Return the table of docs/tables.md; "" where nothing was kept."""
    if not KEPT.is_file():
        return ""
    kept = read_kept(KEPT)
    made, rows = fitted(kept)
    about, note, wrong = kept["machine"], f" {kept['note']}" if kept.get("note") else "", misses(rows)
    names = ("measured_s", "predicted_s", "measured_mb", "predicted_mb", "measured_memory", "predicted_memory")
    lines = [
        f"| {row['step']} | {row['workers'] or 'none'} | {' | '.join(f'{row[name]:,.1f}' for name in names)} |"
        for row in rows
    ]
    for workers in sorted({row["workers"] for row in rows}):
        own = [row for row in rows if row["workers"] == workers]
        cells = (*(f"{sum(row[name] for row in own):,.1f}" for name in names[:4]), "", "")
        lines.append(f"| together | {workers or 'none'} | {' | '.join(cells)} |")
    return "\n".join([
        "## What steps cost", "",
        f"Steps at {', '.join(f'{n:,}' for n in made['footprints'])} made-up buildings, fitted, and the fit's prediction for "
        f"{HELD_OUT.footprints:,}, which it never saw. Processor time of all", "processes, since other work stretched the clock; memory is that of the job's process, without pages of mapped files. `pu-geo plan` uses these",
        f"coefficients (`pu_geo/scale/costs.json`). On two workers, shards took {100 * made['efficiency_of_2']:.0f} % of the time that the two had.", "",
        "`python -m benchmarks.costs --write`; what was measured is kept in `benchmarks/outcomes/costs.json`.", "",
        f"{kept['at']}; {about['processor']}, {about['cores']} cores (shared with other work), torch {about['torch']}, no GPU.{note}", "",
        "| step | workers | CPU s | predicted | MB that stay | predicted | memory, MB | predicted |", "|---|---|---|---|---|---|---|---|",
        *lines, "",
        f"Missed by more than 25 %: {'; '.join(wrong)}." if wrong else "Each step that takes over 5 % of the whole, and all together, is met within 25 %.", "",
    ])  # fmt: skip


def main(*words: str) -> int:
    """Measure what is missing, fit, compare, print; return 1 if the held-out size is missed."""
    path = next((Path(word) for word in words if not word.startswith("-")), KEPT)
    kept = read_kept(path)
    for size in (*SIZES, HELD_OUT):
        have = {(one["step"], one["workers"]) for one in kept["points"] if one["footprints"] == size.footprints}
        for point in measure(size, size.wanted - have) if size.wanted - have else ():
            kept["points"].append(point)
            kept["at"] = datetime.now(UTC).date().isoformat()
            keep(path, kept)
    made, rows = fitted(kept)
    for row in rows:
        print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}))
    wrong = misses(rows)
    print("\n".join(wrong) if wrong else "All that matters is met within 25 %.")
    if "--write" in words:
        costs.TABLE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--do"]:
        print(json.dumps(do(Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))))
    else:
        sys.exit(main(*sys.argv[1:]))
