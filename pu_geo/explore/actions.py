"""What a person asks of the embeddings of a run: pictures, clusters, odd chips, and groups that may be damage types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from pu_geo.errors import ProjectError
from pu_geo.explore import discovering
from pu_geo.explore.umap_picture import UmapSettings
from pu_geo.jobs.actions import Action, OfRun
from pu_geo.jobs.tasks import Task
from pu_geo.methods.settings import setting
from pu_geo.store.layout import Layout


@dataclass(frozen=True)
class Umap(UmapSettings, OfRun):
    """Draw a run's embeddings with UMAP, for the Explore page.

    Returns:
        In Python the positions, float32 [N, 2], in the order of the run's `building_ids`.
    """

    task = Task("pu_geo.explore.umap_picture_job:embed", "UMAP", screen="explore", needs_torch=True, panel="umap")

    def __post_init__(self) -> None:
        OfRun.__post_init__(self)

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return the run, and what `UmapSettings` has."""
        given = dict(super().args(layout))
        return {"run_id": given.pop("run_id"), "settings": given}


@dataclass(frozen=True)
class Cluster(OfRun):
    """Cluster a run's embeddings: two means that start at the positives, and many small clusters."""

    task = Task("pu_geo.explore.cluster_job:cluster", "Clustering", screen="explore", panel="clusters")
    k: int = setting(0, "number of small clusters; 0 for one a 30 buildings", min=0, max=500)


@dataclass(frozen=True)
class FindOutliers(OfRun):
    """Search for chips unlike any other, and for buildings that are there twice."""

    task = Task(
        "pu_geo.explore.outliers_job:find_outliers",
        "Search for odd chips and duplicates",
        screen="explore",
        panel="outliers",
    )


@dataclass(frozen=True)
class Discover(Action):
    """Propose groups of buildings that may be further damage types."""

    task = Task(
        "pu_geo.explore.discover_job:discover",
        "Search for damage types",
        screen="explore",
        panel="types",
        needs_torch=True,
        needs_device=True,
        can_pause=True,
    )
    n_groups: int | None = setting(
        None, "how many (default: as many as are suggested)", min=2, max=200, flag="--groups", metavar="N"
    )
    _: KW_ONLY
    n_seeds: int = setting(discovering.N_SEEDS, "trainings that are compared", min=1, max=20, flag="--seeds", metavar="N")
    seed: int = setting(0, "of the first of them", min=0)
    preset: str = setting("quick", "of NCL")

    def args(self, layout: Layout) -> Mapping[str, Any]:
        """Return its settings. Raises ProjectError where the project is not ready for a search."""
        if problem := discovering.why_not(layout):
            raise ProjectError(problem, "Do that first.", kind="discovery")
        return super().args(layout)
