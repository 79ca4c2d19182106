"""Footprints from a file, or squares in their place, into the project and onto its map; and the area that both are limited to."""

from collections.abc import Sequence
from pathlib import Path

import geopandas
import pytest
import shapely
from small_parts import job_of, small_project

from pu_geo.errors import FootprintError, ProjectError
from pu_geo.lifecycle.remove_job import remove_footprints
from pu_geo.scenes.footprints_job import add_aoi, add_footprints, add_grid
from pu_geo.store import aoi, contents, import_log, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"  # b0 to b4 of the project's twenty squares touch it
INSIDE, OUTSIDE = shapely.box(500_000, 4_000_010, 500_008, 4_000_018), shapely.box(500_200, 4_000_010, 500_208, 4_000_018)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of a project with one post scene, 400 x 40 m, and no footprints."""
    return job_of(small_project(tmp_path / "p.pugeo", 0))


@pytest.fixture
def built(project: Layout) -> Job:
    """A job of one with twenty squares."""
    return job_of(project)


def stored(job: Job) -> list[str]:
    return list(store.call(job.layout, contents.building_ids))


def write(path: Path, shapes: Sequence[shapely.Geometry], ids: str = "n") -> str:
    table = {"uid": [f"{ids}{i}" for i in range(len(shapes))]}
    geopandas.GeoDataFrame(table, geometry=list(shapes), crs=32615).to_file(path)
    return str(path)


def houses(x: Sequence[float]) -> list[shapely.Polygon]:
    return [shapely.box(one, 4_000_000, one + 12, 4_000_012) for one in x]


def test_a_shapefile_without_prj_is_added_in_the_given_system(job: Job, tmp_path: Path) -> None:
    path = write(tmp_path / "shapes.shp", houses([500_000 + 20 * i for i in range(4)]))
    (tmp_path / "shapes.prj").unlink()
    with pytest.raises(FootprintError, match="coordinate system"):
        add_footprints(job, paths=[path])
    assert add_footprints(job, paths=[path], crs="EPSG:32615")["files"][0] == {
        "file": "shapes.shp", "n_in": 4, "kept": 4, "repaired": 0, "dropped": 0, "dropped_by": {}, "added": 4, "notes": [],
    }  # fmt: skip
    assert stored(job) == ["n0", "n1", "n2", "n3"]
    assert store.call(job.layout, contents.footprint_sources) == ["user"] * 4


def test_a_grid_is_added_once_however_often_it_is_asked_for(job: Job, tmp_path: Path) -> None:
    with pytest.raises(FootprintError):
        add_grid(job, size_m=1.0)
    assert stored(job) == []
    first = add_grid(job, size_m=10.0)
    again = add_grid(job, size_m=10.0)
    # x 499,990 to 500,390 is 40 columns, y 3,999,980 to 4,000,020 is 4 rows, all on whole multiples of 10 m.
    assert (first["n_in"], first["added"], first["dropped"]) == (160, 160, 0)
    assert (again["added"], again["dropped_by"]) == (0, {"here already": 160})
    assert stored(job)[0] == "10mN400001E49999"
    assert {*store.call(job.layout, contents.footprint_sources)} == {"grid"}
    # a house as large as a cell is no copy of the cell
    assert (
        add_footprints(job, paths=[write(tmp_path / "h.gpkg", [shapely.box(500_000, 4e6, 500_010, 4e6 + 10)])])["added"] == 1
    )
    with pytest.raises(ProjectError):
        add_grid(job_of(store.create(tmp_path / "empty.pugeo", "E")), size_m=20.0)
    cells = stored(job)[:160]
    remove_footprints(job, name="all", analyst="ann")
    add_footprints(job, paths=[write(tmp_path / "h.gpkg", [shapely.box(500_000, 4e6, 500_010, 4e6 + 10)], "h")])
    assert add_grid(job, size_m=10.0)["added"] == 160
    assert stored(job) == ["n0", *cells], "each is what stood there"


def test_a_house_that_comes_in_two_files_counts_once(job: Job, tmp_path: Path) -> None:
    add_footprints(job, paths=[write(tmp_path / "osm.gpkg", houses([500_000 + 20 * i for i in range(6)]), "osm")])
    # the same six 1 m east, and two more
    counts = add_footprints(job, paths=[write(tmp_path / "ms.gpkg", houses([500_001 + 20 * i for i in range(8)]), "ms")])[
        "files"
    ][0]
    assert (counts["n_in"], counts["kept"], counts["dropped_by"], counts["added"]) == (8, 2, {"duplicates": 6}, 2)
    assert any(note.startswith("6 footprint(s) are buildings that are in the project already") for note in counts["notes"])
    assert stored(job) == [*(f"osm{i}" for i in range(6)), "ms6", "ms7"]
    newest = store.call(job.layout, import_log.all_records)[0]
    assert (newest.file, newest.dropped) == ("ms.gpkg", {"duplicates": 6})
    none = add_footprints(job, paths=[write(tmp_path / "known.gpkg", houses([500_001, 500_021]), "x")])["files"][0]
    assert (none["added"], none["dropped_by"]) == (0, {"duplicates": 2})


def test_files_of_one_name_are_added_together_or_not_at_all(job: Job, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [write(tmp_path / f"{name}/buildings.gpkg", houses([500_000 + 60 * i]), name) for i, name in enumerate("ab")]
    with pytest.raises(FootprintError):
        add_footprints(job, paths=[*paths, str(tmp_path / "gone.gpkg")])
    assert stored(job) == []
    found = add_footprints(job, paths=paths)
    assert [one["file"] for one in found["files"]] == ["a/buildings.gpkg", "b/buildings.gpkg"]
    assert (found["added"], stored(job)) == (2, ["a0", "b0"])


@pytest.mark.parametrize(("n_outside", "is_odd"), [(9, True), (1, False)])
def test_a_file_of_another_place_is_said_to_look_so(job: Job, tmp_path: Path, n_outside: int, is_odd: bool) -> None:
    x = [500_000 + 20 * i for i in range(4)] + [700_000 + 20 * i for i in range(n_outside)]
    counts = add_footprints(job, paths=[write(tmp_path / "houses.gpkg", houses(x))])["files"][0]
    assert counts["dropped_by"] == {"outside the scenes": n_outside}
    assert any("of another place" in note for note in counts["notes"]) is is_odd


@pytest.mark.parametrize("name", ["aoi.geojson", "aoi.shp"])
def test_a_file_of_two_polygons_becomes_one_area_and_footprints_stay(built: Job, tmp_path: Path, name: str) -> None:
    shapes = [shapely.box(499_900, 3_999_900, 500_010, 4_000_100), shapely.box(500_060, 3_999_900, 500_070, 4_000_100)]
    found = add_aoi(built, path=write(tmp_path / name, shapes))
    assert (found["source"], found["replaced"], found["n"], found["n_outside"]) == (name, False, 20, 18)  # b0, b4 touch it
    assert found["area_km2"] == pytest.approx(0.024, rel=1e-2)  # (110 + 10) m x 200 m
    assert len(stored(built)) == 20
    stands = store.call(built.layout, aoi.current)
    assert shapely.get_num_geometries(shapely.from_wkb(stands.wkb)) == 2


def test_footprints_and_cells_added_afterwards_are_limited_and_counted(built: Job, tmp_path: Path) -> None:
    assert add_aoi(built, text=WEST)["n_outside"] == 15
    with pytest.raises(FootprintError, match="touches the area of interest"):
        add_footprints(built, paths=[write(tmp_path / "far.geojson", [OUTSIDE])])
    assert len(stored(built)) == 20
    new = write(tmp_path / "new.geojson", [INSIDE, OUTSIDE])
    found = add_footprints(built, paths=[new])["files"][0]
    assert (found["n_in"], found["kept"], found["repaired"], found["dropped"]) == (2, 1, 0, 1)
    assert found["dropped_by"] == {"outside the AOI": 1}
    assert len(stored(built)) == 21
    assert store.call(built.layout, import_log.all_records)[0].dropped == {"outside the AOI": 1}
    # Cells from x 499,990 to 500,070 and the one beyond, which touches the border: 9 columns of 4.
    cells = add_grid(built, size_m=10.0)
    assert (cells["added"], cells["n_in"], cells["file"]) == (36, 160, "grid of 10 m")
    assert cells["dropped_by"] == {"outside the AOI": 124}
    store.call(built.layout, aoi.remove)
    again = add_footprints(built, paths=[new])["files"][0]
    assert (again["added"], again["dropped_by"]) == (1, {"here already": 1})


def test_a_bad_area_leaves_the_one_before(built: Job, tmp_path: Path) -> None:
    add_aoi(built, text=WEST)
    for bad in ({"text": "1, 2"}, {"path": str(tmp_path / "none.geojson")}, {"text": "10, 50, 11, 51"}):
        with pytest.raises(FootprintError):
            add_aoi(built, **bad)
    assert store.call(built.layout, aoi.current).source == WEST
    with pytest.raises(ProjectError, match="no post-event scene"):
        add_aoi(job_of(store.create(tmp_path / "empty.pugeo", "E")), text=WEST)
