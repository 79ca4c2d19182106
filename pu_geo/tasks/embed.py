"""Project a run's embeddings to the plane with UMAP, once; the Explore page shows PCA until this is ready."""

from __future__ import annotations

import numpy as np

from pu_geo.analysis import projection
from pu_geo.project import runs, store
from pu_geo.project.layout import write_array
from pu_geo.tasks.job import Job

UMAP_FILE = "umap"


def embed(job: Job, *, run_id: str, seed: int = 0) -> dict[str, object]:
    """Write `runs/<run_id>/umap.npy`, float32 [N, 2].

    Returns:
        {"run_id", "n"}
    """
    with store.connect(job.layout) as db:
        facts = runs.find(db, run_id)
    job.report(0.05, "neighbours and layout (the first time takes half a minute longer)")
    embeddings = np.asarray(runs.array(job.layout, facts.run_id, "embeddings"), dtype=np.float32)
    points = projection.umap_2d(embeddings, seed=seed)
    write_array(job.layout.run(facts.run_id) / f"{UMAP_FILE}.npy", points)
    return {"run_id": facts.run_id, "n": len(points)}
