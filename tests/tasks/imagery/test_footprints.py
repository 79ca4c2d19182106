"""Footprints from a file, or squares in their place, into the project and onto its map."""

from __future__ import annotations

from pathlib import Path

import geopandas
import pytest
import shapely
from small_parts import job_of, small_project, table_of

from pu_geo.errors import FootprintError, ProjectError
from pu_geo.project import contents, import_log, store
from pu_geo.tasks.imagery.footprints import add_footprints, add_grid
from pu_geo.tasks.job import Job

TWO = shapely.MultiPolygon(
    [shapely.box(500_000, 4_000_000, 500_012, 4_000_012), shapely.box(500_090, 4_000_000, 500_100, 4_000_012)]
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of a project with one post scene, 400 x 40 m, and no footprints."""
    return job_of(small_project(tmp_path / "p.pugeo", 0))


def stored(job: Job) -> tuple[list[str], set[str]]:
    with store.connect(job.layout) as db:
        table = contents.footprints(db)
        return list(table.building_ids), {row[0] for row in db.execute("SELECT source_footprint FROM footprints")}


def test_a_zipped_shapefile_without_prj_is_added_in_the_given_system(job: Job, tmp_path: Path) -> None:
    squares = [shapely.box(500_000 + 20 * i, 4_000_000, 500_010 + 20 * i, 4_000_010) for i in range(4)]
    table = geopandas.GeoDataFrame({"uid": list("wxyz")}, geometry=squares, crs=32615)
    table.to_file(tmp_path / "shapes.shp")
    (tmp_path / "shapes.prj").unlink()
    with pytest.raises(FootprintError, match="coordinate system"):
        add_footprints(job, path=str(tmp_path / "shapes.shp"))
    counts = add_footprints(job, path=str(tmp_path / "shapes.shp"), crs="EPSG:32615")
    assert counts == {
        "file": "shapes.shp", "n_in": 4, "kept": 4, "repaired": 0, "dropped": 0, "dropped_by": {}, "added": 4, "notes": [],
    }  # fmt: skip
    assert stored(job) == (list("wxyz"), {"user"})


def test_a_grid_is_added_once_however_often_it_is_asked_for(job: Job) -> None:
    first = add_grid(job, size_m=10.0)
    again = add_grid(job, size_m=10.0)
    # x 499,990 to 500,390 is 40 columns, y 3,999,980 to 4,000,020 is 4 rows, all on whole multiples of 10 m.
    assert (first["n_in"], first["added"], first["dropped"]) == (160, 160, 0)
    assert (again["added"], again["dropped_by"]) == (0, {"here already": 160})
    ids, sources = stored(job)
    assert ids[0] == "10mN400001E49999"
    assert sources == {"grid"}


def test_a_grid_of_useless_size_or_without_a_scene_is_refused(job: Job, tmp_path: Path) -> None:
    with pytest.raises(FootprintError):
        add_grid(job, size_m=1.0)
    assert stored(job)[0] == []
    with pytest.raises(ProjectError):
        add_grid(job_of(store.create(tmp_path / "empty.pugeo", "E")), size_m=20.0)


def test_an_upload_in_sources_is_read_and_the_project_file_itself_is_not(job: Job) -> None:
    square = shapely.box(500_000, 4_000_000, 500_010, 4_000_010)
    folder = job.layout.folder / "sources" / "abc"
    folder.mkdir(parents=True)
    geopandas.GeoDataFrame(geometry=[square], crs=32615).to_file(folder / "houses.geojson")
    assert add_footprints(job, path=str(folder / "houses.geojson"))["kept"] == 1
    with pytest.raises(FootprintError, match="belongs to a PU-Geo project"):
        add_footprints(job, path=str(job.layout.folder / "project.gpkg"))


def houses(x: list[float], ids: str) -> geopandas.GeoDataFrame:
    squares = [shapely.box(one, 4_000_000, one + 12, 4_000_012) for one in x]
    return geopandas.GeoDataFrame({"uid": [f"{ids}{i}" for i in range(len(x))]}, geometry=squares, crs=32615)


def test_a_house_that_comes_in_two_files_counts_once(job: Job, tmp_path: Path) -> None:
    houses([500_000 + 20.0 * i for i in range(6)], "osm").to_file(tmp_path / "osm.gpkg")
    houses([500_001 + 20.0 * i for i in range(8)], "ms").to_file(tmp_path / "ms.gpkg")  # the same six 1 m east, two more
    add_footprints(job, path=str(tmp_path / "osm.gpkg"))
    counts = add_footprints(job, path=str(tmp_path / "ms.gpkg"))
    assert (counts["n_in"], counts["kept"], counts["dropped_by"], counts["added"]) == (8, 2, {"duplicates": 6}, 2)
    assert any(note.startswith("6 footprint(s) are buildings that are in the project already") for note in counts["notes"])
    assert stored(job)[0] == [*(f"osm{i}" for i in range(6)), "ms6", "ms7"]
    houses([500_001.0, 500_021.0], "x").to_file(tmp_path / "known.gpkg")
    none = add_footprints(job, path=str(tmp_path / "known.gpkg"))
    assert (none["added"], none["dropped_by"]) == (0, {"duplicates": 2})
    with store.connect(job.layout) as db:
        newest = import_log.all_records(db)[1]
    assert (newest.file, newest.dropped) == ("ms.gpkg", {"duplicates": 6})


def test_a_house_as_large_as_a_cell_is_no_copy_of_the_cell(job: Job, tmp_path: Path) -> None:
    add_grid(job, size_m=10.0)
    houses([500_000.0], "h").to_file(tmp_path / "h.gpkg")
    assert add_footprints(job, path=str(tmp_path / "h.gpkg"))["added"] == 1


def test_a_multipolygon_of_two_houses_is_two_buildings_and_one_feature(job: Job, tmp_path: Path) -> None:
    shapes = [TWO, shapely.box(500_150, 4_000_000, 500_160, 4_000_010)]
    geopandas.GeoDataFrame({"uid": ["m", "n"]}, geometry=shapes, crs=32615).to_file(tmp_path / "two.gpkg")
    counts = add_footprints(job, path=str(tmp_path / "two.gpkg"))
    assert {key: counts[key] for key in ("n_in", "kept", "repaired", "dropped", "added")} == {
        "n_in": 2, "kept": 1, "repaired": 1, "dropped": 0, "added": 3,
    }  # fmt: skip
    assert any("split into 2 buildings" in note for note in counts["notes"])
    assert stored(job)[0] == ["m-1", "m-2", "n"]
    again = add_footprints(job, path=str(tmp_path / "two.gpkg"))
    assert (again["added"], again["dropped_by"]) == (0, {"here already": 2})
    with store.connect(job.layout) as db:  # an older version took it whole
        contents.remove_footprints(db, ["m-1", "m-2", "n"])
        contents.add_footprints(db, table_of([TWO], ["m"]))
    assert add_footprints(job, path=str(tmp_path / "two.gpkg"))["dropped_by"] == {"duplicates": 1}


@pytest.mark.parametrize(("n_outside", "is_odd"), [(9, True), (1, False)])
def test_a_file_of_another_place_is_said_to_look_so(job: Job, tmp_path: Path, n_outside: int, is_odd: bool) -> None:
    x = [500_000 + 20 * i for i in range(4)] + [700_000 + 20 * i for i in range(n_outside)]
    table = geopandas.GeoDataFrame(geometry=[shapely.box(one, 4_000_000, one + 10, 4_000_010) for one in x], crs=32615)
    table.to_file(tmp_path / "houses.gpkg")
    counts = add_footprints(job, path=str(tmp_path / "houses.gpkg"))
    assert counts["dropped_by"] == {"outside the scenes": n_outside}
    assert any("of another place" in note for note in counts["notes"]) is is_odd
