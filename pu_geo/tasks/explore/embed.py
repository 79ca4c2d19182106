"""Project a run's embeddings to the plane with UMAP, once; the Explore page shows PCA until this is ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import projection
from pu_geo.errors import JobCancelled, ModelError
from pu_geo.project import contents, runs, store
from pu_geo.project.chip_sets import chip_facts
from pu_geo.project.layout import Layout, write_array, write_json
from pu_geo.records import RunFacts
from pu_geo.tasks.explore.embed_again import embed_again
from pu_geo.tasks.job import Job

UMAP_FILE, NOTE_FILE, NEW_FILE = "umap", "umap.json", "umap_new"
_STAGES = {
    "axes": "widest axes",
    "neighbors": "neighbors of each building",
    "layout": "layout (compiled the first time, some seconds)",
}


def embed(job: Job, *, run_id: str, seed: int = 0) -> dict[str, object]:
    """Write `runs/<run_id>/umap.npy`, float32 [N, 2]; a picture of the same seed that is there already stays.

    Buildings of the newest chips that the run does not know are embedded by its model and placed among their neighbors:
    `umap_new.npy`, float32 [M, 2], with their ids and chips in `umap.json`.

    Returns:
        {"run_id", "n", "n_new": buildings placed so, "note": why others could not be, "" if they could}

    Raises:
        ProjectError: if there is no such run, or it has no embeddings.
        JobCancelled: if the user cancelled.
    """
    with store.connect(job.layout) as db:
        facts = runs.find(db, run_id)
        newest = contents.latest_chip_set(db)
    known = np.asarray(runs.array(job.layout, facts.run_id, "embeddings"), dtype=np.float32)
    folder = job.layout.run(facts.run_id)
    if noted(job.layout, facts.run_id).get("seed") != seed:
        write_array(folder / f"{UMAP_FILE}.npy", projection.umap_2d(known, seed=seed, report=_reporter(job)))
    job.report(0.9, "placing new buildings")
    positions = np.load(folder / f"{UMAP_FILE}.npy", allow_pickle=False)
    ids, placed, words = _place(job, facts, newest, known, positions)
    if job.is_cancelled():
        raise JobCancelled
    write_array(folder / f"{NEW_FILE}.npy", placed)
    write_json(folder / NOTE_FILE, {"seed": seed, "chip_set": newest, "new_ids": ids, "note": words})
    return {"run_id": facts.run_id, "n": len(positions), "n_new": len(placed), "note": words}


def noted(layout: Layout, run_id: str) -> dict[str, object]:
    """Return what is noted of a run's UMAP: {"seed", "chip_set", "new_ids", "note"}; empty where there is none."""
    path = layout.run(run_id) / NOTE_FILE
    if not (path.is_file() and path.with_name(f"{UMAP_FILE}.npy").is_file()):
        return {}
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _reporter(job: Job) -> Callable[[Mapping[str, object]], None]:
    def report(told: Mapping[str, object]) -> None:
        if job.is_cancelled():
            raise JobCancelled
        job.report(0.02 + 0.88 * float(str(told["share"])), _STAGES[str(told["stage"])])

    return report


def _place(
    job: Job, facts: RunFacts, newest: str | None, known: NDArray[np.float32], positions: NDArray[np.float32]
) -> tuple[list[str], NDArray[np.float32], str]:
    """Return the buildings that only the newest chips have, their positions [M, 2], and why there are none, if so."""
    nothing = np.zeros((0, 2), np.float32)
    if newest is None or newest == facts.chip_set:
        return [], nothing, ""
    there = set(runs.building_ids_of(job.layout, facts.run_id))
    order = chip_facts(job.layout, newest)["building_ids"]
    rows = [row for row, building in enumerate(order) if building not in there]
    if not rows:
        return [], nothing, ""
    chips = np.load(job.layout.chips(newest), mmap_mode="r", allow_pickle=False)
    try:
        embedded = embed_again(job, facts, np.asarray(chips[rows]))
    except ModelError as error:
        return [], nothing, f"{len(rows):,} new buildings are not shown. {error.problem} {error.hint}"
    return [order[row] for row in rows], projection.place(embedded, known, positions), ""
