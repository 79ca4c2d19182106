"""Add building footprints to a project, and write their outlines in grid pixels for the browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pu_geo.atomic_write import atomic_write
from pu_geo.geo.raster.quicklooks import footprint_geometry
from pu_geo.geo.readers.in_child import read_footprints
from pu_geo.geo.readers.raw_footprints import OUTSIDE_SCENES
from pu_geo.geo.vector.aoi import limited
from pu_geo.geo.vector.duplicates import without_known
from pu_geo.project import aoi, contents, import_log, store
from pu_geo.records import FootprintTable, Grid
from pu_geo.tasks.job import Job

GRID = "grid"
"""Source of the cells of a grid, which are no outlines: a house may well be as large as a cell."""


def add_footprints(job: Job, *, path: str, crs: str | None = None) -> dict[str, object]:
    """Read a footprint file into the project.

    Args:
        crs: "EPSG:n", for a file that does not name its own coordinate system.

    Returns:
        {"file", "n_in", "kept", "repaired", "dropped", "dropped_by": {reason: how many}, "added", "notes"}:
        n_in = kept as they were + repaired + dropped, features of the file; added: buildings, which are kept + repaired, and
        more where a feature was split.

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if the file cannot be used, or no footprint touches the area of interest.
    """
    job.report(0.05, f"reading {path}")
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
    table = read_footprints(path, grid, crs=crs)
    return store_footprints(job, replace(table, notes=(*table.notes, *_warnings(table))), grid, Path(path).name)


def store_footprints(job: Job, table: FootprintTable, grid: Grid, file: str) -> dict[str, object]:
    """Put footprints that touch the area of interest into the project and on its map; returns as `add_footprints` does.

    Args:
        file: what they come from, to be shown.
    """
    job.report(0.6, f"storing {len(table.wkb)} footprints")
    with store.connect(job.layout) as db:
        area, before = aoi.current(db), contents.footprints(db)
        is_house = np.array(contents.footprint_sources(db), dtype=np.str_) != GRID
        wanted = table if area is None else limited(table, area.wkb)
        if table.source != GRID:
            known = np.array(list(before.wkb), dtype=object)[is_house]
            wanted = without_known(wanted, known, set(before.building_ids))
        found = import_log.take_in(db, wanted, file)
        everything = contents.footprints(db)
    write_geometry(job.layout.geometry, everything, grid)
    return {
        "file": file,
        "n_in": found.n_in,
        "kept": found.kept,
        "repaired": found.repaired,
        "dropped": found.n_dropped,
        "dropped_by": dict(found.dropped),
        "added": len(everything.wkb) - len(before.wkb),
        "notes": list(found.notes),
    }


def _warnings(table: FootprintTable) -> list[str]:
    """Say so where the file looks like that of another place."""
    n_outside = table.dropped.get(OUTSIDE_SCENES, 0)
    if n_outside <= table.n_in / 2:
        return []
    return [f"Most of this file lies outside the scenes ({n_outside:,} of {table.n_in:,}): is it of another place?"]


def write_geometry(path: Path, table: FootprintTable, grid: Grid) -> None:
    """Write all outlines in grid pixels for the browser."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(footprint_geometry(table.wkb, table.building_ids, grid))
