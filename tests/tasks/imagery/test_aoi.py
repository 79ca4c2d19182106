"""An area of interest in a project: from a file of any format or from text; what it changes for footprints and grids."""

from __future__ import annotations

from pathlib import Path

import geopandas
import pytest
import shapely
from small_parts import job_of

from pu_geo.errors import FootprintError, ProjectError
from pu_geo.project import aoi, contents, import_log, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery.footprints import add_aoi, add_footprints, add_grid
from pu_geo.tasks.job import Job

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"  # b0 to b4 of the project's twenty squares touch it
INSIDE, OUTSIDE = shapely.box(500_000, 4_000_010, 500_008, 4_000_018), shapely.box(500_200, 4_000_010, 500_208, 4_000_018)


@pytest.fixture
def job(project: Layout) -> Job:
    return job_of(project)


def write(path: Path, *shapes: shapely.Geometry) -> Path:
    geopandas.GeoDataFrame({"uid": [f"n{i}" for i in range(len(shapes))]}, geometry=list(shapes), crs=32615).to_file(path)
    return path


def n_footprints(job: Job) -> int:
    return store.call(job.layout, contents.count_footprints)


@pytest.mark.parametrize("name", ["aoi.geojson", "aoi.shp"])
def test_a_file_of_two_polygons_becomes_one_area_and_footprints_stay(job: Job, tmp_path: Path, name: str) -> None:
    path = write(
        tmp_path / name,
        shapely.box(499_900, 3_999_900, 500_010, 4_000_100),
        shapely.box(500_060, 3_999_900, 500_070, 4_000_100),
    )
    found = add_aoi(job, path=str(path))
    assert (found["source"], found["replaced"], found["n"], found["n_outside"]) == (name, False, 20, 18)  # b0, b4 touch it
    assert found["area_km2"] == pytest.approx(0.024, rel=1e-2)  # (110 + 10) m x 200 m
    assert n_footprints(job) == 20
    stands = store.call(job.layout, aoi.current)
    assert shapely.get_num_geometries(shapely.from_wkb(stands.wkb)) == 2


def test_footprints_added_afterwards_are_limited_and_counted(job: Job, tmp_path: Path) -> None:
    assert add_aoi(job, text=WEST)["n_outside"] == 15
    with pytest.raises(FootprintError, match="touches the area of interest"):
        add_footprints(job, path=str(write(tmp_path / "far.geojson", OUTSIDE)))
    assert n_footprints(job) == 20
    found = add_footprints(job, path=str(write(tmp_path / "new.geojson", INSIDE, OUTSIDE)))
    assert (found["n_in"], found["kept"], found["repaired"], found["dropped"]) == (2, 1, 0, 1)
    assert found["dropped_by"] == {"outside the AOI": 1}
    assert n_footprints(job) == 21
    with store.connect(job.layout) as db:
        assert import_log.all_records(db)[0].dropped == {"outside the AOI": 1}
        aoi.remove(db)
    again = add_footprints(job, path=str(tmp_path / "new.geojson"))
    assert (again["added"], again["dropped_by"]) == (1, {"here already": 1})


def test_a_grid_is_laid_where_it_touches_the_area(job: Job) -> None:
    add_aoi(job, text=WEST)
    found = add_grid(job, size_m=10.0)
    # Cells from x 499,990 to 500,070 and the one beyond, which touches the border: 9 columns of 4.
    assert (found["added"], found["n_in"], found["file"]) == (36, 160, "grid of 10 m")
    assert found["dropped_by"] == {"outside the AOI": 124}


def test_a_bad_area_leaves_the_one_before(job: Job, tmp_path: Path) -> None:
    add_aoi(job, text=WEST)
    for bad in ({"text": "1, 2"}, {"path": str(tmp_path / "none.geojson")}, {"text": "10, 50, 11, 51"}):
        with pytest.raises(FootprintError):
            add_aoi(job, **bad)
    assert store.call(job.layout, aoi.current).source == WEST
    with pytest.raises(ProjectError, match="no post-event scene"):
        add_aoi(job_of(store.create(tmp_path / "empty.pugeo", "E")), text=WEST)
