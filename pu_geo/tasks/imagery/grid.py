"""Lay a regular grid over a project whose buildings nobody has mapped."""

from __future__ import annotations

from pu_geo.geo.vector.grid import grid_table
from pu_geo.project import contents, store
from pu_geo.tasks.imagery.footprints import store_footprints
from pu_geo.tasks.job import Job


def add_grid(job: Job, *, size_m: float) -> dict[str, object]:
    """Add squares that cover the post scenes, each to be judged as if it were a building.

    Args:
        size_m: side of a square, metres on the ground.

    Returns:
        As `footprints.add_footprints`.

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if squares of this size cannot be used, or none touches the area of interest.
    """
    job.report(0.05, f"laying squares of {size_m:g} m")
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
        post = [scene for scene in contents.scenes(db) if scene.role == "post"]
    return store_footprints(job, grid_table(grid, post, size_m), grid, f"grid of {size_m:g} m")
