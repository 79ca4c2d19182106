"""Add building footprints to a project, and write their outlines in grid pixels for the browser."""

from __future__ import annotations

from pathlib import Path

from pu_geo.geo.footprints import read_footprints
from pu_geo.geo.quicklooks import footprint_geometry
from pu_geo.project import contents, store
from pu_geo.project.layout import replacing
from pu_geo.records import FootprintTable, Grid
from pu_geo.tasks.job import Job


def add_footprints(job: Job, *, path: str, crs: str | None = None) -> dict[str, object]:
    """Read a footprint file into the project.

    Args:
        crs: "EPSG:n", for a file that does not name its own coordinate system.

    Returns:
        {"n_in", "added", "already_here", "repaired", "dropped", "notes"}: n_in = added + already_here + dropped.

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if the file cannot be used.
    """
    job.report(0.05, f"reading {path}")
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
    table = read_footprints(path, grid, crs=crs)
    return store_footprints(job, table, grid)


def store_footprints(job: Job, table: FootprintTable, grid: Grid) -> dict[str, object]:
    """Put footprints into the project and on its map; returns the counts that `add_footprints` does."""
    job.report(0.6, f"storing {len(table.wkb)} footprints")
    with store.connect(job.layout) as db:
        added = contents.add_footprints(db, table)
        everything = contents.footprints(db)
    write_geometry(job.layout.geometry, everything, grid)
    return {
        "n_in": table.n_in,
        "added": added,
        "already_here": len(table.wkb) - added,
        "repaired": table.n_repaired,
        "dropped": table.n_dropped,
        "notes": list(table.notes),
    }


def write_geometry(path: Path, table: FootprintTable, grid: Grid) -> None:
    """Write all outlines in grid pixels for the browser."""
    with replacing(path) as temporary:
        temporary.write_bytes(footprint_geometry(table.wkb, table.building_ids, grid))
