"""An event of 1,000,000 buildings in 50 scene pairs, on two local workers: `python -m benchmarks.million --folder FOLDER [--kill]`.

The product's own commands, each in processes of its own: add scenes and footprints, chips, features, clicks, a ranking, an export. Of each the
seconds on the clock and of the processor, and the most memory of the job and of each worker; of what came of it the sha256. The figures are
written as JSON after each stage, so that a run that is stopped keeps those it has.

--single does it all in one process, and --compare FILE of an earlier run ends with an error unless all is equal. --kill ends a worker (SIGKILL)
while chips are cut, and one while features are computed. FOLDER is new, empty or of an earlier run: files of others are never replaced. Chips are small, of 16 px, and features of one view, so that a million of them take 7 GB.
Nothing is drawn that a seed does not fix.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.store import contents, events, feature_sets, runs, store
from pu_geo.store.layout import Layout, find_project

GSD_M, CRS, ORIGIN = 0.5, "EPSG:32615", (400_000.0, 4_100_000.0)
SPACING_PX, SIDES_PX = 14, (6, 11)  # from building to building, and the sides of buildings, both below
SCENES_A_ROW, BLOCK_PX = 10, 256
EACH_DAMAGED, N_CLICKS = 50, 60  # every so many buildings is damaged; so many of them are clicked
SIZE_PX, N_VIEWS = 16, 1
KILL_AFTER = 3  # shards
LOOK_S = 0.2
NOT_COMPARED = ("fid", "run_id", "run_at", "labelled_at")  # of an export: when and under which name a run was made
MADE = "made.json"  # in a folder that is this benchmark's own: what the scenes and footprints there are
EVENT_FILE = re.compile(r"(pre|post)-\d{2,}\.tif|footprints-\d{2,}\.geojson")


def event_files(folder: Path, kind: str = "") -> list[Path]:
    """Return the files of an event, sorted by name: those that `make_event` names so, and of them those whose names start with kind."""
    return sorted(path for path in folder.iterdir() if EVENT_FILE.fullmatch(path.name) and path.name.startswith(kind))


def ensure_event(folder: Path, n: int, n_scenes: int) -> None:
    """Write the event, unless it is there; of other files none is removed.

    Raises:
        SystemExit: if the folder has files and no `MADE`, so that they may be somebody's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made, wanted = folder / MADE, {"buildings": n, "scenes": n_scenes}
    if made.is_file():
        there = json.loads(made.read_text(encoding="utf-8")) or {}
        if {key: there.get(key) for key in wanted} == wanted:
            return
    elif any(folder.iterdir()):
        raise SystemExit(f"{folder} has files and no {MADE}: they are not of an earlier run. Name a new or an empty folder.")
    made.write_text("null", encoding="utf-8")  # until the event is whole
    for path in event_files(folder):
        path.unlink()
    make_event(folder, n, n_scenes)
    made.write_text(json.dumps(wanted), encoding="utf-8")


def make_event(folder: Path, n: int, n_scenes: int) -> None:
    """Write scene pairs and one GeoJSON of footprints a row of scenes, with n buildings in all."""
    rng = np.random.default_rng(0)
    each = -(-n // n_scenes)
    per_row = int(np.ceil(np.sqrt(each)))
    side = per_row * SPACING_PX
    for row in range(0, n_scenes, SCENES_A_ROW):
        features: list[dict[str, object]] = []
        for k in range(row, min(row + SCENES_A_ROW, n_scenes)):
            corner = ORIGIN[0] + (k - row) * side * GSD_M, ORIGIN[1] - row // SCENES_A_ROW * side * GSD_M
            first = k * each
            boxes = _boxes(rng, min(each, n - first), per_row)
            is_damaged = np.arange(first, first + len(boxes)) % EACH_DAMAGED == 0
            _write_pair(folder, k, side, corner, boxes, is_damaged, rng)
            features += _footprints(first, boxes, is_damaged, corner)
        crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32615"}}
        path = folder / f"footprints-{row // SCENES_A_ROW:02d}.geojson"
        path.write_bytes(orjson.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))


def _boxes(rng: np.random.Generator, n: int, per_row: int) -> NDArray[np.int64]:
    """Return a rectangle in each cell of a square, int64 [n, 4]: first column and row, one past the last ones."""
    place, size = np.arange(n), rng.integers(*SIDES_PX, (n, 2))
    low = np.stack([place % per_row, place // per_row], axis=1) * SPACING_PX + rng.integers(
        0, SPACING_PX - SIDES_PX[1] + 1, (n, 2)
    )
    return np.concatenate([low, low + size], axis=1)


def _write_pair(
    folder: Path, k: int, side: int, corner: tuple[float, float], boxes: NDArray[np.int64], is_damaged: NDArray[np.bool_],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Write a scene before and after: ground with noise, roofs that are even, and rubble where a building is damaged.

    All is darker than haze would make it, as most of a clear scene is: so few buildings are looked at for clouds, see `clouds.veil`.
    """
    profile = {
        "driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "uint8", "crs": CRS, "compress": "deflate",
        "transform": Affine(GSD_M, 0, corner[0], 0, -GSD_M, corner[1]), "tiled": True, "blockxsize": BLOCK_PX, "blockysize": BLOCK_PX,
    }  # fmt: skip
    ground = rng.integers(30, 46, (3, side, side), np.uint8)
    for x0, y0, x1, y1 in boxes.tolist():
        ground[:, y0:y1, x0:x1] += 60
    for date in ("pre", "post"):
        if date == "post":
            ground = ground + rng.integers(0, 4, ground.shape, np.uint8)
            for x0, y0, x1, y1 in boxes[is_damaged].tolist():
                ground[:, y0:y1, x0:x1] = rng.integers(10, 180, (3, y1 - y0, x1 - x0), np.uint8)
        with rasterio.open(folder / f"{date}-{k:02d}.tif", "w", **profile) as target:
            target.write(ground)


def _footprints(
    first: int, boxes: NDArray[np.int64], is_damaged: NDArray[np.bool_], corner: tuple[float, float]
) -> Iterator[dict[str, object]]:
    x0, y0, x1, y1 = boxes.T * GSD_M
    x0, x1, y0, y1 = corner[0] + x0, corner[0] + x1, corner[1] - y0, corner[1] - y1
    rings = np.stack([x0, y0, x0, y1, x1, y1, x1, y0, x0, y0], axis=1).reshape(-1, 5, 2).tolist()
    for i, (ring, damaged) in enumerate(zip(rings, is_damaged.tolist(), strict=True)):
        yield {
            "type": "Feature",
            "properties": {"id": f"m{first + i:07d}", "damage": "destroyed" if damaged else "none"},
            "geometry": {"type": "Polygon", "coordinates": [ring]},
        }


# What a stage takes


@dataclass
class Watch:
    """The most memory of a process and of all that it starts, MB, by process id; asked several times a second.

    Attributes:
        most: {pid: the most of all its memory, as the system keeps it, with pages of files that it reads}
        most_own: {pid: the most of its own memory, without such pages, of the moments at which it was asked}
    """

    root: int
    most: dict[int, int] = field(default_factory=dict)
    most_own: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(self.root)
            for one in (process, *process.children(recursive=True)):
                with suppress(OSError, ValueError, KeyError):  # of one that has just ended
                    facts = dict(line.split(":", 1) for line in Path(f"/proc/{one.pid}/status").read_text().splitlines())
                    for name, kept in (("VmHWM", self.most), ("RssAnon", self.most_own)):
                        kept[one.pid] = max(kept.get(one.pid, 0), int(facts[name].split()[0]) // 1024)


class Killer:
    """Ends one worker of a job on a cluster once some shards are finished, and remembers which."""

    def __init__(self, project: Path) -> None:
        self.jobs, self.killed, self.done = project / "jobs", 0, 0
        self.before = set(self.jobs.glob("*/"))

    def look(self, watch: Watch) -> None:
        for job in [] if self.killed else set(self.jobs.glob("*/")) - self.before:
            done = [event for event in events.read(job) if event["event"] == "shard"]
            if len(done) >= KILL_AFTER and (pid := int(str(done[-1]["pid"]))) in watch.most:  # none but one of this job
                os.kill(pid, signal.SIGKILL)
                self.killed, self.done = pid, len(done)


def measure(project: Path, arguments: Sequence[str], *, kill: bool = False) -> dict[str, Any]:
    """Do one command in a process of its own.

    Returns:
        {"command", "s", "cpu_s", "job_mb", "job_own_mb", "workers": of each {"pid", "mb", "own_mb"}, "others_mb": the most of any
        other process that it started, "n_shards", "shard_s": of all workers together, "killed", "printed"}

    Raises:
        SystemExit: if it failed.
    """
    began, before = time.monotonic(), {path.name for path in (project / "jobs").glob("*/")}
    with (project.parent / "stage.out").open("w+b") as printed:
        process = subprocess.Popen([sys.executable, "-m", "pu_geo.cli", *arguments, "--json"], stdout=printed)
        watch, killer, is_over = Watch(process.pid), Killer(project), threading.Event()

        def look() -> None:
            while not is_over.wait(LOOK_S):
                watch.look()
                if kill:
                    killer.look(watch)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            is_over.set()
            thread.join()
        printed.seek(0)
        text = printed.read().decode()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments[:2])} ended with {process.returncode}: {text[-2000:]}")
    if kill and not killer.killed:
        raise SystemExit(f"{arguments[0]} was over before a worker could be ended; take more buildings.")
    jobs = [path for path in (project / "jobs").glob("*/") if path.name not in before]
    shards = [event for job in jobs for event in events.read(job) if event["event"] == "shard"]
    pids = sorted({int(str(event["pid"])) for event in shards})
    return {
        "command": " ".join(arguments), "s": round(time.monotonic() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1), "job_mb": watch.most.get(process.pid, 0),
        "job_own_mb": watch.most_own.get(process.pid, 0),
        "workers": [{"pid": pid, "mb": watch.most.get(pid, 0), "own_mb": watch.most_own.get(pid, 0)} for pid in pids],
        "others_mb": max((mb for pid, mb in watch.most.items() if pid not in (process.pid, *pids)), default=0),
        "n_shards": len(shards), "shard_s": round(sum(float(str(event["seconds"])) for event in shards), 1),
        "killed": {"pid": killer.killed, "after_shards": killer.done} if killer.killed else None, "printed": text[:500],
    }  # fmt: skip


# What came of it


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_export(path: Path) -> str:
    """Return the sha256 of all rows of an exported GeoPackage, but for the columns `NOT_COMPARED`."""
    digest = hashlib.sha256()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        names = [row[1] for row in db.execute("PRAGMA table_info(damage_map)") if row[1] not in NOT_COMPARED]
        quoted = ", ".join(f'"{name}"' for name in names)
        for row in db.execute(f"SELECT {quoted} FROM damage_map ORDER BY building_id"):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def results_of(layout: Layout, stage: str, export: Path) -> dict[str, str]:
    """Return the sha256 of what a stage made, by name; nothing of stages that only add."""
    if stage == "export":
        return {"export": sha256_of_export(export)}
    if stage not in ("chip", "features", "rank"):
        return {}
    chip_set = store.call(layout, contents.chosen_chip_set)
    if stage == "chip":
        paths = {
            "chips": layout.chips(chip_set),
            "facts": layout.chip_facts(chip_set),
            "features": layout.features(chip_set),
        }
    elif stage == "features":
        used = store.call(layout, feature_sets.in_use, layout, chip_set).name
        paths = {"features_shared": layout.features(chip_set, used)}
    else:
        newest = store.call(layout, runs.all_runs)[0].run_id
        paths = {"scores": layout.run(newest) / "scores.npy"}
    return {name: sha256_of(path) for name, path in paths.items()}


def run(
    folder: Path, name: str, cluster: str, out: Path, *, kill: bool, about: Mapping[str, object],
) -> dict[str, Any]:  # fmt: skip
    """Do all stages in a project of its own; return, and after each stage write, the figures.

    Args:
        folder: with the event.
        name: of the project, and of the export beside it.
        cluster: as `--cluster` takes it; "" for one process.

    Raises:
        SystemExit: if a project of that name is there and `out` is not, so that it may be somebody's own; or if a stage failed.
    """
    project, export = folder / f"{name}.pugeo", folder / f"{name}.gpkg"
    p, on = str(project), ["--cluster", cluster] if cluster else []
    pairs = [word for date in ("pre", "post") for path in event_files(folder, date) for word in (f"--{date}", str(path))]
    files = enumerate(event_files(folder, "footprints"))
    n_clicks = min(N_CLICKS, int(str(about["buildings"])) // EACH_DAMAGED)
    clicks = ["--from-field", "damage", "--is", "destroyed", "--count", str(n_clicks), "--analyst", "ann"]
    stages: list[tuple[str, Sequence[str]]] = [
        ("init", ["init", p]),
        ("scenes", ["add-scene", p, *pairs]),
        *((f"footprints {k}", ["add-footprints", p, str(path)]) for k, path in files),
        ("chip", ["chip", p, "--size-px", str(SIZE_PX), "--views", str(N_VIEWS), *on]),
        ("features", ["add-features", p, "shared", "--views", str(N_VIEWS), "--use", *on]),
        ("label", ["label", p, *clicks]),
        ("rank", ["rank", p]),
        ("export", ["export", p, "--run", "latest", "--format", "gpkg", "--out", str(export)]),
    ]  # fmt: skip
    found: dict[str, Any] = {**about, "cores": os.cpu_count(), "stages": {}, "sha256": {}}
    if project.exists():
        if not out.is_file():
            raise SystemExit(f"{project} is there without {out.name}: it is not of an earlier run. Give another --name.")
        shutil.rmtree(project)
    for stage, arguments in stages:
        is_parted = stage in ("chip", "features")
        figures = measure(project, arguments, kill=kill and is_parted)
        found["stages"][stage] = figures
        found["sha256"] |= results_of(find_project(project), stage, export)
        found["gb_on_disk"] = round(sum(path.stat().st_size for path in project.rglob("*") if path.is_file()) / 1e9, 2)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shown = {key: value for key, value in figures.items() if key not in ("command", "printed")}
        print(json.dumps({"stage": stage, **shown}), flush=True)
    return found


def compared(found: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in words that two runs have the same results, by what each stage made.

    Raises:
        SystemExit: if any differs, or one run lacks it, or there is none.
    """
    names = sorted({*found["sha256"], *other["sha256"]})
    if not names:
        raise SystemExit("Neither run has results that could be compared.")
    if differing := [name for name in names if found["sha256"].get(name) != other["sha256"].get(name)]:
        raise SystemExit(f"THEY DIFFER in {', '.join(differing)}")
    return f"equal by sha256: {', '.join(names)}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million")
    parser.add_argument(
        "--folder", type=Path, required=True, help="new, empty or of an earlier run, whose event is used again"
    )
    parser.add_argument("--buildings", type=int, default=1_000_000)
    parser.add_argument("--scenes", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--single", action="store_true", help="in one process, without workers")
    parser.add_argument("--kill", action="store_true", help="end a worker in mid-run, twice")
    parser.add_argument("--name", default="event", help="of the project in the folder, and of its JSON")
    parser.add_argument("--compare", type=Path, help="the JSON of another run of the same event")
    given = parser.parse_args(arguments)
    cluster = "" if given.single else f"local:{given.workers}"
    about = {
        "buildings": given.buildings,
        "scenes": given.scenes,
        "size_px": SIZE_PX,
        "views": N_VIEWS,
        "cluster": cluster or "none",
    }
    out = given.folder / f"{given.name}.json"
    other = json.loads(given.compare.read_text(encoding="utf-8")) if given.compare else None  # `out` may be the same file
    ensure_event(given.folder, given.buildings, given.scenes)
    found = run(given.folder, given.name, cluster, out, kill=given.kill, about=about)
    if other is not None:
        print(compared(found, other))


if __name__ == "__main__":
    main(sys.argv[1:])
