"""Areas such as districts: adding them, and the table of damage by area."""

from __future__ import annotations

from typing import Any

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.records import Facts
from pu_geo.store import areas as stored
from pu_geo.store import store
from pu_geo.store.layout import Layout, checked_id, read_json


def area_layers(layout: Layout) -> dict[str, int]:
    """Return the layers of areas that were added, and how many areas each has."""
    return store.call(layout, stored.layers)


def last_summing_up(layout: Layout, run_id: str) -> JobView | None:
    """Return the newest finished job "sum_up" of a run."""
    done = (job for job in jobs.all_jobs(layout) if job.task == "sum_up" and job.state == "done")
    return next((job for job in done if job.result.get("run_id") == run_id), None)


def area_table(layout: Layout, job_id: str, layer: str) -> Facts:
    """Return what the job "sum_up" found for one layer: {"rows", "outlines", "n_outside"}."""
    path = layout.jobs / checked_id(job_id) / f"{layer}.json"
    found: dict[str, Any] = read_json(path)
    return found
