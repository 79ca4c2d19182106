"""What a person asks of how buildings look: pictures with their clusters, and groups that may be damage types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from pu_geo.errors import ProjectError
from pu_geo.explore import discovering, looks
from pu_geo.jobs.actions import Action, RunName, run_name
from pu_geo.jobs.tasks import Task
from pu_geo.methods.settings import setting
from pu_geo.store import chosen
from pu_geo.store.layout import Layout


@dataclass(frozen=True)
class Look(Action):
    """Draw how all buildings look, for the Explore page: those that look alike side by side. No label has a part in it.

    It is made by itself where the app makes chips, and when Explore is opened.

    Returns:
        In Python the positions, float32 [N, 2], in the order of the newest chips, or of the run's `building_ids`.
    """

    task = Task("pu_geo.explore.look_job:look", "How buildings look", screen="explore", panel="look")
    _: KW_ONLY
    run: RunName = setting("", "a run, whose embeddings are drawn instead", metavar="ID", read=run_name)

    def args(self, layout: Layout) -> Mapping[str, Any]:
        run = str(self.run)
        return looks.arguments(layout, chosen.run(layout, run).run_id if run else looks.LOOK)


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
