"""Cluster a run's embeddings for the Explore page: two means from several seeds, and many small clusters."""

from __future__ import annotations

import numpy as np

from pu_geo.analysis import clustering, pupl
from pu_geo.errors import TrainingError
from pu_geo.explore.umap_picture import embeddings_of
from pu_geo.records import Bools, Facts, Singles
from pu_geo.store import labels, runs, store
from pu_geo.store.job import Job
from pu_geo.store.layout import write_array, write_json

N_SEEDS, N_AGAIN = 8, 2
TWO, MANY, NOTE = "inspected_two", "inspected_many", "inspected.json"


def cluster(job: Job, *, run_id: str, k: int = 0) -> Facts:
    """Write `inspected_two.npy`, `inspected_many.npy`, int32 [N] each, and `inspected.json` into the run's folder.

    Two means start at the positives as they are now, which stay in cluster 1; many clusters know nothing of them.

    Args:
        k: number of small clusters, 2 or more; 0 for one a 30 buildings, 60 at most.

    Returns:
        {"run_id", "k", "n"}

    Raises:
        ProjectError: if there is no such run, or it has no embeddings.
        TrainingError: without a positive or an unlabeled building, or if there are fewer buildings than clusters.
        JobCancelled: if the user cancelled.
    """
    with store.connect(job.layout) as db:
        facts = runs.find(db, run_id)
        pu = labels.pu_set(db, ids=runs.building_ids_of(job.layout, facts.run_id))
    rows = embeddings_of(job.layout, facts.run_id)
    n_clusters = k or pupl.usual_k(len(rows))
    if not 2 <= n_clusters <= len(rows):
        raise TrainingError(
            f"{n_clusters} clusters of {len(rows)} buildings were asked for.", f"Choose 2 to {len(rows)}.", kind="clusters"
        )
    job.report(0.02, "two means")
    two = _two_means(job, rows, pu.is_positive)
    many, again = _many(job, rows, pu.is_positive, n_clusters)
    folder = job.layout.run(facts.run_id)
    write_array(folder / f"{TWO}.npy", two.labels.astype(np.int32))
    write_array(folder / f"{MANY}.npy", many.labels.astype(np.int32))
    note = {
        "run_id": facts.run_id, "k": n_clusters, "at_event": pu.at_event, "made_by": job.folder.name,
        "two": {"potential": two.potential, "oriented": two.oriented},
        "many": {"potential": many.potential,
                 "stability": clustering.stability(many.labels, [each.labels for each in again], n_clusters).tolist()},
    }  # fmt: skip
    write_json(folder / NOTE, note)
    return {"run_id": facts.run_id, "k": n_clusters, "n": len(rows)}


def _two_means(job: Job, rows: Singles, is_positive: Bools) -> pupl.PuplResult:
    """Split in two from several single seedings; return the one that PUPL chooses."""
    tried: list[pupl.PuplResult] = []
    for number in range(N_SEEDS):
        job.stop_if_cancelled()
        tried.append(pupl.pupl(rows, is_positive, seed=number, n_seedings=1))
        job.report(0.02 + 0.28 * (number + 1) / N_SEEDS, f"two means, seeding {number + 1} of {N_SEEDS}")
    best: pupl.PuplResult = min(tried, key=lambda each: (not each.oriented, each.potential))
    return best


def _many(job: Job, rows: Singles, is_positive: Bools, k: int) -> tuple[pupl.PuplResult, list[pupl.PuplResult]]:
    """Return the small clusters, and others from further seeds, to see which of them come again."""
    found = []
    for number in range(1 + N_AGAIN):
        job.stop_if_cancelled()
        job.report(0.3 + 0.65 * number / (1 + N_AGAIN), f"{k} clusters, time {number + 1} of {1 + N_AGAIN}")
        found.append(pupl.over_cluster(rows, is_positive, k=k, seed=100 * number, n_seedings=1 if number else 3))
    return found[0], found[1:]
