"""What the Explore screen asks for: the embeddings of a run in the plane, the chips of a selection, buildings added after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.analysis import projection
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.imagery.preparation import chip_facts

Kind = Literal["UMAP", "PCA"]


def projection_of(layout: Layout, run_id: str) -> tuple[Kind, str]:
    """Return how a run is shown in the plane, UMAP once its job is done and PCA until then, and a text that changes with it."""
    files = [layout.run(run_id) / name for name in ("umap.npy", "umap_new.npy")]
    n = store.call(layout, contents.count_footprints)  # one position is sent for each
    if not files[0].is_file():
        return "PCA", str(n)
    return "UMAP", "-".join(str(each) for each in (n, *(path.stat().st_mtime_ns for path in files if path.is_file())))


@lru_cache(maxsize=4)
def _pca(layout: Layout, run_id: str) -> NDArray[np.float32]:
    return projection.pca_2d(np.asarray(runs.array(layout, run_id, "embeddings"), dtype=np.float32))


def positions(layout: Layout, run_id: str, kind: Kind) -> NDArray[np.float32]:
    """Return a run's embeddings in the plane, float32 [N, 2] in the order of the run's buildings."""
    if kind == "PCA":
        return _pca(layout, run_id)
    return np.asarray(runs.array(layout, run_id, "umap"), dtype=np.float32)


def positions_for_browser(layout: Layout, run_id: str, kind: Kind) -> bytes | None:
    """Return positions in the order of the map's geometry, little-endian float32 [M, 2]; NaN for a building without any.

    Buildings that came after the run stand where the UMAP job placed them.

    Returns:
        None if there is no such run, or no such projection of it.
    """
    if not is_run(layout, run_id) or (kind == "UMAP" and projection_of(layout, run_id)[0] != "UMAP"):
        return None
    found = positions(layout, run_id, kind)
    index = rows_on_map(layout, run_id)
    sent = np.where(index[:, None] >= 0, found[index], np.nan).astype("<f4")
    later = placed(layout, run_id) if kind == "UMAP" else None
    if later is not None and len(later.building_ids):
        place = {building: i for i, building in enumerate(store.call(layout, contents.building_ids))}
        rows = [i for i, building in enumerate(later.building_ids) if building in place]
        sent[[place[later.building_ids[i]] for i in rows]] = later.xy[rows]
    return sent.tobytes()


def is_run(layout: Layout, run_id: str) -> bool:
    """Return whether a project has a run of this id."""
    return run_id in {facts.run_id for facts in store.call(layout, runs.all_runs)}


def rows_on_map(layout: Layout, run_id: str) -> NDArray[np.int64]:
    """Return the run's row of each building of the map's geometry, int64 [M]; -1 where the run has none."""
    on_map = store.call(layout, contents.building_ids)
    rows = {building: i for i, building in enumerate(runs.building_ids_of(layout, run_id))}
    return np.array([rows.get(building, -1) for building in on_map], dtype=np.int64)


def umap_job(layout: Layout, run_id: str) -> jobs.JobView | None:
    """Return the newest UMAP job of a run, or None."""
    return next((job for job in jobs.all_jobs(layout) if job.task == "embed" and job.args.get("run_id") == run_id), None)


def start_umap(layout: Layout, run_id: str) -> str:
    """Start the job that projects a run with UMAP; return its id."""
    return jobs.start(layout, "embed", {"run_id": run_id})


def chip_pictures(layout: Layout, run_id: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return `pictures_of` buildings from the chips of a run."""
    return pictures_of(layout, store.call(layout, runs.find, run_id).chip_set, building_ids)


def pictures_of(layout: Layout, chip_set: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return RGB pictures of chips, uint8 [H, W, 3], pre above post where there is a pre image."""
    rows = {building: i for i, building in enumerate(chip_facts(layout, chip_set)["building_ids"])}
    chips = np.load(layout.chips(chip_set), mmap_mode="r", allow_pickle=False)
    pictures = []
    for building in building_ids:
        chip = np.asarray(chips[rows[building]])
        stacked = np.concatenate([chip[band : band + 3] for band in range(0, len(chip), 3)], axis=1)
        pictures.append(np.ascontiguousarray(stacked.transpose(1, 2, 0)))
    return pictures


@dataclass(frozen=True)
class Placed:
    """Buildings of newer chips that were placed in a run's UMAP picture.

    Attributes:
        building_ids: [M], none of which the run knows.
        xy: float32 [M, 2].
        note: why new buildings could not be placed; "" if all were.
    """

    building_ids: Sequence[str]
    xy: NDArray[np.float32]
    note: str


def placed(layout: Layout, run_id: str) -> Placed:
    """Return the buildings that were placed after a run; none where its UMAP was not computed."""
    folder = layout.run(run_id)
    note, array = folder / "umap.json", folder / "umap_new.npy"
    if not (note.is_file() and array.is_file()):
        return Placed([], np.zeros((0, 2), np.float32), "")
    facts = json.loads(note.read_text(encoding="utf-8"))
    return Placed(facts["new_ids"], np.load(array, allow_pickle=False), str(facts["note"]))


def n_unplaced(layout: Layout, run_id: str) -> int:
    """Count the buildings of the newest chips that are neither in a run nor placed beside it; the UMAP job places them.

    None are counted where that job found that the run's model cannot place those of the newest chips, see `Placed.note`.
    """
    with store.connect(layout) as db:
        newest, facts = contents.latest_chip_set(db), runs.find(db, run_id)
    if newest is None or newest == facts.chip_set:
        return 0
    note = layout.run(run_id) / "umap.json"
    placing = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    if placing.get("note") and placing["chip_set"] == newest:
        return 0
    ids = json.loads(layout.chip_facts(newest).read_text(encoding="utf-8"))["building_ids"]
    return len(set(ids) - set(runs.building_ids_of(layout, run_id)) - set(placed(layout, run_id).building_ids))
