"""Small made-up records that many tests start from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import shapely

from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.records import FootprintTable, Grid, Role, Scene

REPOSITORY = Path(__file__).resolve().parents[1]
WKT_UTM15 = (
    'PROJCS["WGS 84 / UTM zone 15N",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",-93],PARAMETER["scale_factor",0.9996],'
    'PARAMETER["false_easting",500000],PARAMETER["false_northing",0],UNIT["metre",1],AUTHORITY["EPSG","32615"]]'
)


def square_table(n: int, *, prefix: str = "b") -> FootprintTable:
    """n squares of 8 x 8 m in a row, 16 m apart, from (500000, 4000000) in UTM 15N."""
    squares = [shapely.box(500_000 + 16 * i, 4_000_000, 500_008 + 16 * i, 4_000_008) for i in range(n)]
    return FootprintTable(
        building_ids=[f"{prefix}{i}" for i in range(n)],
        wkb=[shapely.to_wkb(square) for square in squares],
        area_m2=np.full(n, 64.0),
        attributes=[{"damage": "destroyed" if i % 4 == 0 else "no-damage", "name": f"House {i}"} for i in range(n)],
        source="user",
        n_in=n,
        n_repaired=0,
        n_dropped=0,
    )


def small_project(folder: Path, n: int = 20, name: str = "Event") -> Layout:
    """A project with a grid, a scene and n footprints, b0, b1, ..."""
    layout = store.create(folder, name)
    with store.connect(layout) as db:
        contents.add_scenes(db, [small_scene()], small_grid())
        contents.add_footprints(db, square_table(n))
    return layout


def small_grid() -> Grid:
    return Grid("EPSG:32615", WKT_UTM15, (0.5, 0.0, 499_990.0, 0.0, -0.5, 4_000_020.0), 800, 80, 0.5)


def small_scene(role: Role = "post") -> Scene:
    grid = small_grid()
    return Scene(f"{role}-1", role, "/nowhere/x.tif", grid.crs, grid.transform, grid.width, grid.height, 3, "uint8", 0.5)
