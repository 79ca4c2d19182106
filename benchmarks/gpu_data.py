"""Pack the folder of data that `benchmarks.gpu` takes along: at most 40 MB, for a machine that has nothing else.

    python -m benchmarks.gpu_data FOLDER [--shared ../shared]

FOLDER gets fmnist.npz (the draw that `pu-geo benchmark fmnist` calls seed 0, and the test pictures), joplin.npz and santa_rosa_a.npz
(chips of both dates, and which are damaged), and project.pugeo, a project of 90 houses of the sample scene, 20 damaged ones clicked.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.ranking_sources import DAMAGED, cut
from pu_geo.lifecycle import copying, projects
from pu_geo.records import LabelOp
from pu_geo.runs.tables_job import TABLES, split
from pu_geo.scenes.chip_job import prepare
from pu_geo.store import contents, labels, store
from pu_geo.store.job import Job

MOST_MB = 40.0
EVENTS = {"joplin": "joplin_xbd", "santa_rosa_a": "xbd_events/santa_rosa_a"}
HOUSES, CLICKS = 90, 20


def pack(folder: Path, shared: Path) -> float:
    """Fill a folder; return its size in MB (10^6 bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    _fmnist(folder, shared / "data" / "fashion_mnist")
    for name, where in EVENTS.items():
        table = cut(sorted(path for path in (shared / "data" / where).iterdir() if (path / "pre.tif").exists()))
        np.savez_compressed(folder / f"{name}.npz", chips=table["chips"], is_damaged=table["is_damaged"])
    _project(folder)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _fmnist(folder: Path, source: Path) -> None:
    """Keep the pictures that are learned from or tested on, and the rows of each part among them."""
    data = TABLES["fmnist"].read(source)
    drawn = [(setting, split(data, setting, 0)) for setting in TABLES["fmnist"].settings]
    used = np.unique(np.concatenate([rows for _, each in drawn for rows in (each.positive, each.unlabeled, each.test)]))
    found = {"chips": data.chips[used]}
    for setting, each in drawn:
        found[f"{setting.name} truth"] = data.is_one_of(setting.positive)[used]
        for part in ("positive", "unlabeled", "test"):
            found[f"{setting.name} {part}"] = np.searchsorted(used, getattr(each, part)).astype(np.int32)
    np.savez_compressed(folder / "fmnist.npz", **found)


def _project(folder: Path) -> None:
    """Copy the sample's project, chips cut and damaged houses clicked, as a project goes to a machine that trains in it."""
    target = folder / "project.pugeo"
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as name:
        layout, job = projects.sample_project(Path(name) / "sample.pugeo"), Path(name) / "job"
        job.mkdir()
        asked = projects.sample_arguments() | {"layers": [], "copy_sources": False, "footprints": [str(_some(Path(name)))]}
        prepare(Job(layout, job), **asked, bands="pre+post")  # type: ignore[arg-type]
        with store.connect(layout) as db:
            damage = contents.footprints(db).values("damage")
            known = [each for each in contents.building_ids(db) if damage.get(each) in DAMAGED][:CLICKS]
            labels.append(db, [LabelOp(f"gpu-{each}", each, "positive") for each in known], analyst="gpu", screen="map")
        copying.copy_project(layout, str(target))
    for part in ("quicklooks", "sources", "backups"):  # which no training reads
        shutil.rmtree(target / part, ignore_errors=True)


def _some(folder: Path) -> Path:
    """Write a file with some of the sample's houses, the damaged ones first."""
    whole = json.loads((projects.sample_folder() / "footprints.geojson").read_text(encoding="utf-8"))
    whole["features"].sort(key=lambda each: each["properties"]["damage"] not in DAMAGED)
    path = folder / "some.geojson"
    path.write_text(json.dumps(whole | {"features": whole["features"][:HOUSES]}), encoding="utf-8")
    return path


def main() -> int:
    """Pack, and say how much it is; 1 if it is too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    options = parser.parse_args()
    mb = pack(options.folder, options.shared)
    print(f"{options.folder}: {mb:.1f} MB of at most {MOST_MB:.0f}")
    return int(mb > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
