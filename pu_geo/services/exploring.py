"""What the Explore screen asks for: the embeddings of a run in the plane, and the chips of a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.analysis import projection
from pu_geo.project import labels, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import chip_facts


@dataclass(frozen=True)
class Points:
    """A run's buildings in the plane.

    Attributes:
        kind: "UMAP" or "PCA".
        xy: float32 [N, 2].
        labels: label of each building, "unlabeled" where it has none.
        scores: float32 [N], 0..1.
        in_damaged_cluster: bool [N], PUPL's two means.
    """

    kind: str
    building_ids: Sequence[str]
    xy: NDArray[np.float32]
    labels: Sequence[str]
    scores: NDArray[np.float32]
    in_damaged_cluster: NDArray[np.bool_]


@lru_cache(maxsize=4)
def _pca(layout: Layout, run_id: str) -> NDArray[np.float32]:
    embeddings = np.asarray(runs.array(layout, run_id, "embeddings"), dtype=np.float32)
    return projection.pca_2d(embeddings)


def points(layout: Layout, run_id: str) -> Points:
    """Return a run's embeddings in the plane: UMAP where its job is done, PCA at once until then."""
    umap_file = layout.run(run_id) / "umap.npy"
    xy = np.load(umap_file, allow_pickle=False) if umap_file.is_file() else _pca(layout, run_id)
    ids = runs.building_ids_of(layout, run_id)
    with store.connect(layout) as db:
        current = labels.current_labels(db)
    return Points(
        kind="UMAP" if umap_file.is_file() else "PCA",
        building_ids=ids,
        xy=xy,
        labels=[current.get(building, "unlabeled") for building in ids],
        scores=np.asarray(runs.array(layout, run_id, "scores"), dtype=np.float32),
        in_damaged_cluster=np.asarray(runs.array(layout, run_id, "clusters")) == 1,
    )


def umap_job(layout: Layout, run_id: str) -> jobs.JobView | None:
    """Return the newest UMAP job of a run, or None."""
    found = (job for job in jobs.all_jobs(layout) if job.task == "embed" and job.args.get("run_id") == run_id)
    return next(found, None)


def start_umap(layout: Layout, run_id: str) -> str:
    """Start the job that projects a run with UMAP; return its id."""
    return jobs.start(layout, "embed", {"run_id": run_id})


def chip_pictures(layout: Layout, run_id: str, building_ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Return RGB pictures of chips, uint8 [H, W, 3], pre above post where there is a pre image."""
    with store.connect(layout) as db:
        chip_set = runs.find(db, run_id).chip_set
    rows = {building: i for i, building in enumerate(chip_facts(layout, chip_set)["building_ids"])}
    chips = np.load(layout.chips(chip_set), mmap_mode="r", allow_pickle=False)
    pictures = []
    for building in building_ids:
        chip = np.asarray(chips[rows[building]])
        stacked = np.concatenate([chip[band : band + 3] for band in range(0, len(chip), 3)], axis=1)
        pictures.append(np.ascontiguousarray(stacked.transpose(1, 2, 0)))
    return pictures
