"""Add areas such as districts to a project, and sum a damage map up by them and by regular cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import shapely

from pu_geo.analysis.area_table import area_rows
from pu_geo.files import write_export
from pu_geo.geo.export.codebook import types_of
from pu_geo.geo.export.geometry import to_crs84
from pu_geo.geo.export.pieces import geojson_lines, write_csv
from pu_geo.geo.vector import crs as systems
from pu_geo.geo.vector.areas import CELL_M, Areas, assign, centroids, grid_cells, read_areas
from pu_geo.maps.damage_map_job import map_for
from pu_geo.records import DamageMap, Facts
from pu_geo.store import areas as stored
from pu_geo.store import contents, store
from pu_geo.store.areas import AreaLayer
from pu_geo.store.choices import PERSON
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, write_json
from pu_geo.wording import plural


class AreaTable(NamedTuple):
    """A map summed up by one layer of areas: a row an area, the areas, and how many buildings are in none and in several of
    them.
    """

    layer: str
    rows: list[dict[str, object]]
    areas: Areas
    n_outside: int
    n_several: int = 0


def add_areas(job: Job, *, path: str, layer: str, name_field: str | None = None, code_field: str | None = None) -> Facts:
    """Read a polygon file into the project as one layer of areas; a layer of the same name is replaced.

    Args:
        layer: what to call it, such as "adm2".
        name_field, code_field: attributes with the areas' names and codes; chosen by their usual names if None.

    Returns:
        {"layer", "n_areas", "replaced", "notes"}

    Raises:
        ProjectError: if there is no post scene yet, or the layer's name cannot be used.
        FootprintError: if the file cannot be used.
    """
    stored.checked_layer(layer)
    job.report(0.05, f"reading {path}")
    grid = store.call(job.layout, contents.grid)
    found = read_areas(path, grid, layer=layer, name_field=name_field, code_field=code_field)
    job.report(0.8, f"storing {len(found.wkb)} areas")
    replaced = store.call(job.layout, stored.put_areas, AreaLayer(layer, found.names, found.pcodes, found.wkb))
    outlines = list(store.call(job.layout, contents.all_outlines).values())
    n_several = assign(centroids(outlines), found.wkb)[1] if outlines else 0
    several = [
        f"{plural(n_several, 'building')} lie in several of these areas, which overlap; each counts in the first of them."
    ]
    return {
        "layer": layer,
        "n_areas": len(found.wkb),
        "replaced": replaced,
        "notes": [*found.notes, *several * bool(n_several)],
    }


def area_tables(layout: Layout, damage_map: DamageMap, *, cell_m: float = CELL_M) -> Iterator[AreaTable]:
    """Sum a damage map up by each layer of areas of its project, and by square cells.

    Args:
        damage_map: geometry and columns of all buildings.
        cell_m: side of the cells, metres.

    Yields:
        The layers in their order, the cells last, as "grid500m".

    Raises:
        PuGeoError: if the cells' size is out of range.
    """
    points = centroids(damage_map.wkb)
    types = {str(one["column"]): one["threshold"] is not None for one in types_of(damage_map)}
    with store.connect(layout) as db:
        grid = contents.grid(db)
        layers = [stored.load_areas(db, name) for name in stored.layers(db)]
    for layer in layers:
        index, n_several = assign(points, layer.wkb)
        rows = area_rows(index, layer.names, layer.pcodes, damage_map.columns, types)
        yield AreaTable(layer.layer, rows, Areas(layer.names, layer.pcodes, layer.wkb), int((index < 0).sum()), n_several)
    cells, index = grid_cells(points, grid, cell_m)
    rows = area_rows(index, cells.names, cells.pcodes, damage_map.columns, types)
    yield AreaTable(f"grid{cell_m:g}m", rows, cells, 0)


def write_area_files(damage_map: DamageMap, tables: Iterable[AreaTable], folder: Path) -> list[Path]:
    """Write `areas_<layer>.csv` and `areas_<layer>.geojson` for each table that `area_tables` made of the map; return their
    paths.

    The GeoJSON's member `pu_geo` is the map's own, with the audit's estimate for the whole map, and
    `areas`: {"layer", "n_areas", "buildings_in_no_area", "buildings_in_several_areas": each counts in the first of them,
    "assumes"}. A map without a place on the Earth has no GeoJSON.
    """
    written = []
    for name, rows, areas, n_outside, n_several in tables:
        about = {
            "layer": name,
            "n_areas": len(rows),
            "buildings_in_no_area": n_outside,
            "buildings_in_several_areas": n_several,
            "assumes": "Chances of damage by score are those of the whole map; intervals of areas may not be added.",
        }
        table, drawing = folder / f"areas_{name}.csv", folder / f"areas_{name}.geojson"
        write_csv(table, list(rows[0]), (row.values() for row in rows))
        written.append(table)
        if systems.is_local(damage_map.grid_crs):
            continue  # readers would take GeoJSON for longitude and latitude
        pieces = [(range(1, len(rows) + 1), to_crs84(areas.wkb, damage_map.grid_crs), rows)]
        write_export(drawing, geojson_lines({**damage_map.metadata, "areas": about}, pieces))
        written.append(drawing)
    return written


def sum_up(job: Job, *, run_id: str, threshold: float, cell_m: float = CELL_M, threshold_origin: str = PERSON) -> Facts:
    """Sum a run's map up by area, for the screen; `write_area_files` writes the files.

    Args:
        run_id, threshold, threshold_origin: as for `build_damage_map`.
        cell_m: side of the square cells, metres.

    Returns:
        {"layers": names, "run_id", "threshold", "types": name of each damage type by its columns, "sites": of
        several, the box of the buildings of each in the project CRS by its name}; each layer is in the
        job's folder as `<layer>.json` with "rows", "outlines" (of the largest part of each area, [[x, y], ...] in metres of
        the project grid), "n_outside" and "n_several".
    """
    damage_map = map_for(job, run_id, threshold, threshold_origin)
    job.report(0.4, "summing up")
    names = []
    for name, rows, areas, n_outside, n_several in area_tables(job.layout, damage_map, cell_m=cell_m):
        drawn = {
            "rows": rows,
            "outlines": [_outline(wkb) for wkb in areas.wkb],
            "n_outside": n_outside,
            "n_several": n_several,
        }
        write_json(job.folder / f"{name}.json", drawn)
        names.append(name)
    types = {f"{one['column']}_{state}": one["name"] for one in types_of(damage_map) for state in ("yes", "unknown")}
    shapes, of = shapely.from_wkb(damage_map.wkb), np.array(damage_map.columns.get("site", []), dtype=object)
    sites = {name: shapely.total_bounds(shapes[of == name]).tolist() for name in dict.fromkeys(of)}
    return {"layers": names, "run_id": run_id, "threshold": threshold, "types": types, "sites": sites}


def _outline(wkb: bytes) -> list[list[float]]:
    """Return the outer ring of an area's largest part, thinned to what a small drawing shows."""
    shape = shapely.from_wkb(wkb)
    largest = max(shapely.get_parts(shape), key=lambda part: float(part.area))
    width = max(largest.bounds[2] - largest.bounds[0], largest.bounds[3] - largest.bounds[1])
    ring = shapely.simplify(largest, width / 500).exterior
    return [[float(x), float(y)] for x, y in shapely.get_coordinates(ring)]
