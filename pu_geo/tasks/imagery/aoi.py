"""Put an area of interest into a project: footprints added and grids laid afterwards are limited to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pu_geo.geo.vector.aoi import area_km2, read_aoi, touching, typed_aoi
from pu_geo.project import aoi as stored
from pu_geo.project import contents, store
from pu_geo.tasks.job import Job


def add_aoi(job: Job, *, path: str | None = None, text: str = "", crs: str | None = None) -> dict[str, object]:
    """Make the polygons of a file, or what a person typed, the project's area of interest.

    Footprints that are here already stay.

    Args:
        path: polygon file of any format that footprints may have; None if `text` is given.
        text: as for `geo.aoi.typed_aoi`.
        crs: "EPSG:n", for a file that does not name its own coordinate system.

    Returns:
        {"source", "area_km2", "replaced", "n", "n_outside": of the n footprints that are here, how many lie outside, "notes"}

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if the area cannot be used.
    """
    job.report(0.05, f"reading {path or 'the area'}")
    with store.connect(job.layout) as db:
        grid, table = contents.grid(db), contents.footprints(db)
    notes: tuple[str, ...] = ()
    if path is None:
        wkb, source = typed_aoi(text, grid), " ".join(text.split())[:80]
    else:
        wkb, notes = read_aoi(path, grid, crs=crs)
        source = Path(path).name
    n_outside = int((~touching(np.array(list(table.wkb), dtype=object), wkb)).sum()) if table.wkb else 0
    with store.connect(job.layout) as db:
        replaced = stored.put(db, wkb, source)
    facts = {"source": source, "area_km2": round(area_km2(wkb, grid), 3), "replaced": replaced}
    return {**facts, "n": len(table.wkb), "n_outside": n_outside, "notes": list(notes)}
