"""Add building footprints, or a grid where none are mapped, and the area of interest that both are limited to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from pu_geo.geo.readers.in_child import read_footprints
from pu_geo.geo.readers.raw_footprints import OUTSIDE_SCENES
from pu_geo.geo.vector.aoi import area_km2, limited, read_aoi, touching, typed_aoi
from pu_geo.geo.vector.duplicates import without_known
from pu_geo.geo.vector.grid import grid_table
from pu_geo.geo.vector.matching import Ints, match
from pu_geo.records import FootprintTable, Grid
from pu_geo.store import aoi, contents, import_log, store
from pu_geo.store.job import Job, Part
from pu_geo.wording import plural

GRID = "grid"  # source of the cells of a grid, which are no outlines: a house may well be as large as a cell


def add_footprints(job: Job, *, paths: Sequence[str], crs: str | None = None) -> dict[str, object]:
    """Read footprint files into the project; all are read, and cut down to the area of interest, before one is stored.

    Args:
        crs: "EPSG:n", for files that do not name their own coordinate system.

    Returns:
        {"files": an account of each, see `store_footprints`, "added": buildings in all}

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if a file cannot be used, or none of its footprints touches the area of interest.
    """
    grid, area, tables = store.call(job.layout, contents.grid), store.call(job.layout, aoi.current), []
    for i, path in enumerate(paths):
        job.report(0.5 * i / len(paths), f"reading {path}")
        job.stop_if_cancelled()
        table = read_footprints(path, grid, crs=crs)
        tables.append(table if area is None else limited(table, area.wkb, path))
    given, found = [Path(path) for path in paths], []
    known = Counter([one.file for one in store.call(job.layout, import_log.all_records)] + [one.name for one in given])
    for i, (file, table) in enumerate(zip(given, tables, strict=True)):
        name = f"{file.absolute().parent.name}/{file.name}" if known[file.name] > 1 else file.name
        table = replace(table, notes=(*table.notes, *_warnings(table)))
        found.append(store_footprints(Part(job, 0.5 + 0.5 * i / len(given), 1.0), table, grid, name))
    return {"files": found, "added": sum(one["added"] for one in found)}


def store_footprints(job: Job, table: FootprintTable, grid: Grid, file: str) -> dict[str, Any]:
    """Store footprints that touch the area of interest in the project and on its map.

    Args:
        file: what they come from, to be shown.

    Returns:
        {"file": its name, with its folder where there are others of that name, "n_in", "kept", "repaired", "dropped",
        "dropped_by": {reason: how many}, "added", "notes"}: n_in = kept as they were + repaired + dropped, features of the
        file; added: buildings, which are kept + repaired, and more where a feature was split.
    """
    job.report(0.6, f"storing {len(table.wkb)} footprints")
    with store.connect(job.layout) as db:
        area, before = aoi.current(db), contents.all_outlines(db)
        is_house = np.array(contents.footprint_sources(db), dtype=np.str_) != GRID
        wanted = table if area is None else limited(table, area.wkb)
        if table.source != GRID:
            wanted = without_known(wanted, np.array(list(before.values()), dtype=object)[is_house])
        there = contents.former_outlines(db, are_cells=table.source == GRID)
        wanted, come_back = with_former_ids(wanted, there, grid)
        found = import_log.import_footprints(db, wanted, file, come_back=come_back)
        n_now = contents.count_footprints(db)
    return {
        "file": file,
        **{name: getattr(found, name) for name in ("n_in", "kept", "repaired")},
        "dropped": found.n_dropped,
        "dropped_by": dict(found.dropped),
        "added": n_now - len(before),
        "notes": [*found.notes, *found.doubts],
    }


def with_former_ids(
    table: FootprintTable,
    former: Mapping[str, bytes],
    grid: Grid,
    *,
    rows: Ints | None = None,
    shift_m: tuple[float, float] = (0.0, 0.0),
) -> tuple[FootprintTable, list[str]]:
    """Give buildings that stand where removed ones stood the ids of those, and return these ids.

    Args:
        former: see `contents.former_outlines`.
        rows: of the table, int64; all if None.
        shift_m: how far the table is moved from where these stood, metres.
    """
    names, rows = list(former), np.arange(len(table.wkb)) if rows is None else rows
    if not names or not len(rows):
        return table, []
    outlines = shapely.from_wkb(np.array([table.wkb[row] for row in rows], dtype=object))
    there = shapely.from_wkb(np.array(list(former.values()), dtype=object))
    found = match(
        there,
        outlines,
        unit_m=(grid.x_unit_m, grid.y_unit_m),
        ids_a=names,
        ids_b=[table.building_ids[row] for row in rows],
        shift_m=shift_m,
    )
    of_row = {int(rows[k]): names[i] for i, k in found.pairs.tolist()}
    back = set(of_row.values())
    ids = [of_row.get(row, "" if building in back else building) for row, building in enumerate(table.building_ids)]
    words = f"{plural(len(back), 'footprint')} stand where removed ones stood; their answers and scores count again."
    return replace(table, building_ids=ids, notes=(*table.notes, *([words] if back else []))), list(back)


def _warnings(table: FootprintTable) -> list[str]:
    """Return a warning where the file seems to be of another place."""
    n_outside = table.dropped.get(OUTSIDE_SCENES, 0)
    if n_outside <= table.n_in / 2:
        return []
    return [f"Most of this file lies outside the scenes ({n_outside:,} of {table.n_in:,}): is it of another place?"]


def add_grid(job: Job, *, size_m: float) -> dict[str, Any]:
    """Add squares that cover the post scenes, each to be judged as if it were a building.

    Args:
        size_m: side of a square, metres on the ground.

    Returns:
        As `store_footprints`.

    Raises:
        ProjectError: if there is no post scene yet.
        FootprintError: if squares of this size cannot be used, or none touches the area of interest.
    """
    job.report(0.05, f"laying squares of {size_m:g} m")
    with store.connect(job.layout) as db:
        grid = contents.grid(db)
        post = [scene for scene in contents.scenes(db) if scene.role == "post"]
    return store_footprints(job, grid_table(grid, post, size_m), grid, f"grid of {size_m:g} m")


def add_aoi(job: Job, *, path: str | None = None, text: str = "", crs: str | None = None) -> dict[str, object]:
    """Make the polygons of a file, or what a person typed, the project's area of interest.

    Footprints that are here already stay.

    Args:
        path: polygon file of any format that footprints may have; None if `text` is given.
        text: as for `geo.vector.aoi.typed_aoi`.
        crs: "EPSG:n", for a file that does not name its own coordinate system.

    Returns:
        {"source", "area_km2", "replaced", "n", "n_outside": of the n footprints that are here, how many lie outside,
        "notes"}

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
    replaced = store.call(job.layout, aoi.put, wkb, source)
    facts = {"source": source, "area_km2": round(area_km2(wkb, grid), 3), "replaced": replaced}
    return {**facts, "n": len(table.wkb), "n_outside": n_outside, "notes": list(notes)}
