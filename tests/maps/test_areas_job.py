"""Areas from a file into the project, and the tables of a damage map by area and by cell."""

import csv
import json
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely
from small_parts import job_of

from pu_geo.errors import FootprintError, ProjectError
from pu_geo.maps.areas_job import add_areas, area_tables, write_area_files
from pu_geo.records import DamageMap
from pu_geo.store import areas as stored
from pu_geo.store import contents, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

N = 20  # buildings of the project: squares 16 m apart from x 500,000 on
FIRST_FIVE = shapely.box(499_900, 3_999_900, 500_078, 4_000_100)  # holds b0 to b4
NEXT_FIVE = shapely.box(500_078, 3_999_900, 500_158, 4_000_100)
HEADER = [
    "name", "pcode", "buildings_total", "assessed", "not_assessed", "flagged", "confirmed", "est_damaged", "low", "high",
    "pct", "post_date",
]  # fmt: skip


@pytest.fixture
def job(project: Layout) -> Job:
    return job_of(project)


@pytest.fixture
def districts(tmp_path: Path) -> Path:
    path = tmp_path / "districts.geojson"
    table = geopandas.GeoDataFrame(
        {"ADM2_EN": ["=West", "Far", "東"], "ADM2_PCODE": ["P1", "P2", "P3"]},
        geometry=[FIRST_FIVE, shapely.box(600_000, 4_000_000, 601_000, 4_001_000), NEXT_FIVE], crs=32615,
    )  # fmt: skip
    table.to_crs(4326).to_file(path, driver="GeoJSON")
    return path


def damage_map(project: Layout) -> DamageMap:
    """b0 to b4 are not assessed but for b4, which a person confirmed; from b10 on buildings are flagged."""
    with store.connect(project) as db:
        table, grid = contents.footprints(db), contents.grid(db)
    columns: dict[str, list[object]] = {
        "assessed": [i >= 4 for i in range(N)],
        "damage_binary": ["not_assessed" if i < 4 else "damaged" if i == 4 or i >= 10 else "not_flagged" for i in range(N)],
        "label": ["damaged" if i == 4 else None for i in range(N)],
        **{
            name: [None if i < 5 else p for i in range(N)]
            for name, p in (("p_damaged", 0.2), ("p_low", 0.1), ("p_high", 0.4))
        },
        "post_date": ["2026-02-03"] * N,
    }
    return DamageMap(table.building_ids, table.wkb, columns, grid.crs, {"run_id": "r", "estimate": {"N": 16, "low": 1}})


def test_a_file_becomes_a_layer_and_the_same_again_replaces_it(job: Job, districts: Path, tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="cannot name a layer"):
        add_areas(job, path=str(tmp_path / "none.geojson"), layer="a/b")  # said before a large file is read
    with pytest.raises(FootprintError, match=r"no attribute 'x'"):
        add_areas(job, path=str(districts), layer="adm2", name_field="x")
    with pytest.raises(FootprintError):
        add_areas(job, path=str(tmp_path / "none.geojson"), layer="adm2")
    with store.connect(job.layout) as db:
        assert stored.layers(db) == {}
    found = add_areas(job, path=str(districts), layer="adm2")
    assert (found["layer"], found["n_areas"], found["replaced"]) == ("adm2", 2, 0)
    assert "1 area(s) lie outside the post scenes and were left out." in found["notes"]
    assert "Names are from ADM2_EN, codes from ADM2_PCODE." in found["notes"]
    assert add_areas(job, path=str(districts), layer="adm2", name_field="ADM2_PCODE")["replaced"] == 2
    with store.connect(job.layout) as db:
        assert stored.load_areas(db, "adm2").names == ["P1", "P3"]


def test_tables_count_each_building_once_and_are_written(job: Job, districts: Path, tmp_path: Path) -> None:
    add_areas(job, path=str(districts), layer="adm2")
    (by_layer, rows, _, outside, _), (by_cell, cells, squares, nowhere, _) = area_tables(job.layout, damage_map(job.layout))
    assert (by_layer, outside, by_cell, nowhere) == ("adm2", 10, "grid500m", 0)
    assert list(rows[0]) == HEADER
    west, east = rows
    assert list(west.values()) == ["=West", "P1", 5, 1, 4, 0, 1, 1.0, 1, 1, 100.0, "2026-02-03"]
    assert list(east.values())[:8] == ["東", "P3", 5, 5, 0, 0, 0, 1.0]
    assert 0 == east["low"] < 1 < east["high"] <= 5
    assert [row["buildings_total"] for row in cells] == [N]
    assert shapely.from_wkb(squares.wkb[0]).bounds == (500_000, 4_000_000, 500_500, 4_000_500)
    add_areas(job, path=str(districts), layer="adm2")
    out = tmp_path / "out"
    out.mkdir()
    summed = damage_map(job.layout)
    written = write_area_files(summed, area_tables(job.layout, summed, cell_m=100), out)
    names = {"areas_adm2.csv", "areas_adm2.geojson", "areas_grid100m.csv", "areas_grid100m.geojson"}
    assert {path.name for path in written} == {path.name for path in out.iterdir()} == names
    with (out / "areas_adm2.csv").open(encoding="utf-8-sig", newline="") as file:
        head, west, _ = csv.reader(file)
    assert (head, west[:2]) == (HEADER, ["'=West", "P1"])
    assert west[7:10] != ["", "", ""]
    root = json.loads((out / "areas_adm2.geojson").read_text())
    assert "crs" not in root
    read = geopandas.read_file(out / "areas_adm2.geojson")
    np.testing.assert_allclose(root["bbox"], read.total_bounds, atol=1e-7)
    np.testing.assert_allclose(read.to_crs(32615).area, [FIRST_FIVE.area, NEXT_FIVE.area], rtol=1e-4)
    assert all(polygon.exterior.is_ccw for polygon in shapely.get_parts(read.geometry.to_numpy()))
    assert root["pu_geo"]["estimate"] == {"N": 16, "low": 1}  # the audit's, for the whole map
    assert root["pu_geo"]["areas"]["buildings_in_no_area"] == 10
    cells = geopandas.read_file(out / "areas_grid100m.geojson")
    assert cells["buildings_total"].sum() == N
    np.testing.assert_allclose(cells.to_crs(32615).area, 10_000, rtol=1e-4)


def test_a_map_without_layers_and_audit_has_cells_without_estimates(job: Job) -> None:
    whole = damage_map(job.layout)
    columns = {name: column for name, column in whole.columns.items() if not name.startswith("p")}
    ((name, rows, *_),) = area_tables(job.layout, DamageMap(whole.building_ids, whole.wkb, columns, whole.grid_crs, {}))
    assert name == "grid500m"
    assert (rows[0]["flagged"], rows[0]["confirmed"], rows[0]["est_damaged"], rows[0]["post_date"]) == (10, 1, None, None)
