"""Project a run's embeddings to the plane with UMAP, once; the Explore page shows PCA until this is ready."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from pu_geo.analysis import projection
from pu_geo.errors import TrainingError
from pu_geo.explore import umap_picture
from pu_geo.explore.umap_picture import Picture, UmapSettings
from pu_geo.files import remove_path
from pu_geo.records import Facts, PUSet
from pu_geo.store import labels, runs, store
from pu_geo.store.job import Job
from pu_geo.store.layout import write_array

_STAGES = {
    "axes": "widest axes",
    "neighbors": "neighbors of each building",
    "layout": "layout (compiled the first time, some seconds)",
}


def embed(job: Job, *, run_id: str, settings: Facts | None = None) -> Facts:
    """Write `runs/<run_id>/umap.npy`, float32 [N, 2]; a picture of the same settings and labels that is there already stays.

    What made it is in `umap.json` beside it. Buildings that the run does not know are not in it.

    Args:
        settings: those of `UmapSettings`; the usual ones if None.

    Returns:
        {"run_id", "n", "words": what made it}

    Raises:
        ProjectError: if there is no such run, or it has no embeddings.
        TrainingError: if a setting is out of its bounds, or labels shall supervise and no building is marked damaged.
        JobCancelled: if the user cancelled.
    """
    with store.connect(job.layout) as db:
        facts = runs.find(db, run_id)
        pu = labels.pu_set(db, ids=runs.building_ids_of(job.layout, facts.run_id))
    known = umap_picture.embeddings_of(job.layout, facts.run_id)
    made = _wanted(UmapSettings(**(settings or {})), pu)
    path = job.layout.run(facts.run_id) / "umap.npy"

    def report(values: Facts) -> None:
        job.stop_if_cancelled()
        job.report(0.02 + 0.95 * float(str(values["share"])), _STAGES[str(values["stage"])])

    if umap_picture.picture(job.layout, facts.run_id) != made:
        how = asdict(made.settings)
        classes = np.where(pu.is_positive, 1, np.where(pu.is_not_damaged, 0, -1)) if how.pop("supervised") else None
        positions = projection.umap_2d(known, **how, labels=classes, report=report)
        remove_path(path)  # without it there is no picture: at no moment one with the facts of another
        umap_picture.store_picture(job.layout, facts.run_id, made)
        write_array(path, positions)
    return {"run_id": facts.run_id, "n": len(known), "words": made.words}


def _wanted(settings: UmapSettings, pu: PUSet) -> Picture:
    """Return what a new picture will be made of. Raises TrainingError where labels shall supervise and none is positive."""
    if not settings.supervised:
        return Picture(settings)
    if not pu.is_positive.any():
        raise TrainingError(
            "A picture supervised by labels needs at least one building marked damaged; this run knows none.",
            "Mark some on the Annotate page, or compute UMAP without labels.",
            kind="positives",
        )
    counts = {"n_positive": int(pu.is_positive.sum()), "n_not_damaged": int(pu.is_not_damaged.sum())}
    return Picture(settings, {"at_event": pu.at_event, **counts})
