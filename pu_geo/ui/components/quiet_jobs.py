"""Cards of jobs whose result is shown elsewhere on the page: drawn while they run, or where they did not end well."""

from __future__ import annotations

from collections.abc import Sequence

from pu_geo import jobs
from pu_geo.project.layout import Layout
from pu_geo.ui.components import job_card


def watch(layout: Layout, tasks: Sequence[str]) -> bool:
    """Draw them; return whether one is active."""
    newest = next((job for job in jobs.all_jobs(layout) if job.task in tasks), None)
    if newest is None or newest.state == "done":
        return False
    return job_card.watch(layout, tasks)
