"""Chips, truth, places and features of the sets of `benchmarks.ranking`, made once from a folder of data."""

from __future__ import annotations

import csv
import io
import json
import tempfile
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.datasets import chip_files
from pu_geo.features.bank import FEATURE_SEED, N_VIEWS, fit_default
from pu_geo.scenes.chip_job import prepare
from pu_geo.store import contents, store
from pu_geo.store.contents import chip_facts
from pu_geo.store.job import Job

DAMAGED, UNKNOWN = ("destroyed", "major-damage"), "un-classified"
PLACE_DIGITS = 6  # of lon and lat in degrees: chips of one house share a place, which is about 0.1 m wide
_FAR_M = 1e6  # between scenes that are cut by themselves
_METRES_PER_DEGREE = 111_320.0
Table = dict[str, NDArray[np.generic]]


def prepare_all(data: Path, cache: Path) -> None:
    """Make every set that is there and not yet made; `town` from the folder DATA/town, which `make_sample.py` filled,
    `neighborhoods` from the file that `make_neighborhoods.py` wrote."""
    cache.mkdir(parents=True, exist_ok=True)
    for name in ("joplin", "santa_rosa_a", "matthew_wind", "harvey_flood", "florence_flood"):
        if (scenes := scenes_of(data, name)) and not (cache / f"{name}.npz").exists():
            keep(cache, name, cut_all(scenes, name))
    for name in ("harvey_a", "harvey_d"):
        path = data / "harvey_chips" / f"region_{name[-1].upper()}.zip"
        if path.exists() and not (cache / f"{name}.npz").exists():
            keep(cache, name, harvey(path))
    if (data / "town").is_dir() and not (cache / "town.npz").exists():
        keep(cache, "town", cut([data / "town"], "footprints.geojson"))
    drawn = data / "neighborhoods.npz"
    if drawn.exists() and not (cache / "neighborhoods.npz").exists():
        with np.load(drawn, allow_pickle=False) as found:
            keep(cache, "neighborhoods", dict(found))


@lru_cache(maxsize=1)
def joplin(data: Path) -> Table:
    """Cut both Joplin scenes of a folder of data: "chips", "is_damaged" and the other columns."""
    return cut(sorted(path for path in (data / "joplin_xbd").iterdir() if path.is_dir()))


def scenes_of(data: Path, name: str) -> list[Path]:
    """Return the folders of an event's scenes; none where it is not there."""
    folder = data / "joplin_xbd" if name == "joplin" else data / "xbd_events" / name
    return sorted(path.parent for path in folder.glob("*/pre.tif"))


def cut_all(scenes: Sequence[Path], name: str) -> Table:
    """Cut an event's scenes; those of most are too far from each other for one grid."""
    return cut(scenes) if name in ("joplin", "santa_rosa_a") else _joined([cut([scene]) for scene in scenes])


def keep(cache: Path, name: str, table: Table) -> None:
    """Store a set and its features, which are made of all its chips."""
    chips = table["chips"].astype(np.uint8)
    views = fit_default(chips).transform(chips, N_VIEWS, seed=FEATURE_SEED, device=torch.device("cpu"))
    np.save(cache / f"{name}.views.npy", views)
    np.savez(cache / f"{name}.npz", **table)  # type: ignore[arg-type]
    print(f"{name}: {len(chips):,} chips, {int(table['is_damaged'].sum()):,} damaged", flush=True)


def cut(scenes: Sequence[Path], footprints: str = "buildings.geojson") -> Table:
    """Cut the buildings of some scenes as the app does, in a project of their own; un-classified ones are left out."""
    files = [scene / footprints for scene in scenes]
    with tempfile.TemporaryDirectory() as name:
        layout, job = store.create(Path(name) / "event.pugeo", "Event"), Path(name) / "job"
        job.mkdir()
        pre, post = ([str(scene / f"{date}.tif") for scene in scenes] for date in ("pre", "post"))
        prepare(Job(layout, job), pre=pre, post=post, footprints=[str(file) for file in files], bands="pre+post")
        with store.connect(layout) as db:
            chip_set, table = contents.latest_chip_set(db), contents.footprints(db)
            places = dict(zip(*contents.centers(db), strict=True))
        assert chip_set is not None
        buildings = chip_facts(layout, chip_set)["building_ids"]
        chips = np.load(layout.chips(chip_set), allow_pickle=False)
    damages, uids = table.values("damage"), table.values("uid")
    rows = [json.loads(file.read_text(encoding="utf-8"))["features"] for file in files]
    scene_of = {row["properties"]["uid"]: number for number, own in enumerate(rows) for row in own}
    damage = np.array([str(damages[one]) for one in buildings])
    known = damage != UNKNOWN
    found = {
        "chips": chips, "damage": damage, "is_damaged": np.isin(damage, DAMAGED),
        "scene": np.array([scene_of[str(uids[one])] for one in buildings], np.int64),
        "xy_m": np.array([places[one] for one in buildings], np.float64),
    }  # fmt: skip
    return {key: values[known] for key, values in found.items()}


def _joined(parts: Sequence[Table]) -> Table:
    """Put scenes that were cut by themselves side by side, far from each other."""
    for number, part in enumerate(parts):
        part["scene"] = np.full(len(part["scene"]), number)
        part["xy_m"] = part["xy_m"] + np.array([_FAR_M * number, 0.0])
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def harvey(path: Path) -> Table:
    """Read a region of the Harvey chips; the same place at several dates has one number."""
    data = chip_files.read_chips(path)
    with zipfile.ZipFile(path) as pack:
        index = list(csv.DictReader(io.TextIOWrapper(pack.open("index.csv"), "utf-8-sig")))
    lonlat = np.array([[float(row["lon"]), float(row["lat"])] for row in index])
    _, place = np.unique(np.round(lonlat, PLACE_DIGITS), axis=0, return_inverse=True)
    width = np.cos(np.radians(lonlat[:, 1].mean()))
    return {
        "chips": data.chips, "is_damaged": data.is_one_of(("damage",)), "place": place.ravel().astype(np.int64),
        "scene": np.zeros(len(lonlat), np.int64), "xy_m": (lonlat - lonlat.mean(0)) * _METRES_PER_DEGREE * [width, 1.0],
    }  # fmt: skip
