"""Several runs as one: what is asked before their ranks are averaged, and the job that does it."""

from __future__ import annotations

from collections.abc import Sequence

from pu_geo import jobs
from pu_geo.project import runs, store
from pu_geo.project.layout import Layout

ENSEMBLE_TASKS = ("ensemble",)


def start(layout: Layout, run_ids: Sequence[str]) -> str:
    """Start the job that averages the ranks of runs; return its id.

    Raises:
        ProjectError: if they cannot be averaged.
    """
    return jobs.start(layout, ENSEMBLE_TASKS[0], arguments(layout, run_ids))


def arguments(layout: Layout, run_ids: Sequence[str]) -> dict[str, object]:
    """Return what the job takes: ids of runs that were checked; "latest" becomes the id of the newest.

    Raises:
        ProjectError: if they cannot be averaged.
    """
    with store.connect(layout) as db:
        return {"run_ids": [facts.run_id for facts in runs.members(db, run_ids)]}
