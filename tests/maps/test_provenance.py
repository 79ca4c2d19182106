"""What a damage map states about where its rows come from holds: the run, the area of interest, cells, duplicates."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from map_parts import made_up_areas, made_up_map
from mapped_parts import RUN, mapped_project
from small_parts import click, job_of, small_grid, small_scene, square_table, table_of

from pu_geo.errors import JobCancelled
from pu_geo.files import sha256_of
from pu_geo.geo.export.codebook import fields_of
from pu_geo.geo.scene_state import ends_sha256
from pu_geo.lifecycle import projects
from pu_geo.maps.damage_map import of_run
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.maps.export_job import counts_of, export
from pu_geo.maps.report_job import area_section, write_report
from pu_geo.records import FootprintTable, Units
from pu_geo.scenes.chip_job import renew_reasons
from pu_geo.store import aoi, contents, import_log, store
from pu_geo.store.layout import Layout

N = 40
EARLY, LATE = "2025-12-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z"  # the run is of 2026-01-01


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return mapped_project(tmp_path, N)


def report_of(layout: Layout, folder: Path) -> str:
    damage_map = build_damage_map(layout, RUN, 0.5, version="v1")
    return write_report(folder / "r.html", damage_map, [], None, grid=small_grid()).read_text(encoding="utf-8")


def set_aoi(layout: Layout, at: str, *, n_inside: int = N) -> None:
    """Put an area around the first buildings, as if it had been done at that time."""
    with store.connect(layout) as db:
        shapes = shapely.from_wkb(list(contents.footprints(db).wkb))[:n_inside]
        aoi.put(db, shapely.to_wkb(shapely.box(*shapely.total_bounds(shapes))), "town.geojson")
        db.execute("UPDATE aoi_log SET at = ? WHERE step = (SELECT max(step) FROM aoi_log)", (at,))


def take_in(layout: Layout, table: FootprintTable, at: str) -> None:
    with store.connect(layout) as db:
        import_log.import_footprints(db, table, "houses.geojson")
        db.execute("UPDATE intake SET at = ? WHERE intake = (SELECT max(intake) FROM intake)", (at,))


def took_in(layout: Layout, at: str, n: int = N) -> None:
    """Note that a file came at some time, with n of the footprints that are there."""
    columns, values = "file, at, n_in, kept, repaired, dropped, dropped_by, notes", "'a', ?, ?, ?, 0, 0, '{}', '[]'"
    with store.connect(layout) as db:
        db.execute(f"INSERT INTO intake ({columns}) VALUES ({values})", (at, n, n))


def test_footprints_added_after_the_run_are_said_to_be_that(layout: Layout, tmp_path: Path) -> None:
    take_in(layout, table_of(shapely.from_wkb(square_table(N + 5).wkb[N:]), [f"late{i}" for i in range(5)]), LATE)
    damage_map = build_damage_map(layout, RUN, 0.5)
    rows = dict(zip(damage_map.building_ids, damage_map.columns["not_assessed_reason"], strict=True))
    assert [rows[f"late{i}"] for i in range(5)] == ["not_in_run"] * 5
    assert (rows["b0"], rows["b1"]) == ("nodata", "nodata"), "these have no picture indeed"
    (field,) = [field for field in fields_of(damage_map) if field.name == "not_assessed_reason"]
    assert "not_in_run" in field.allowed
    assert "7 of 45 buildings" in report_of(layout, tmp_path)
    assert "added after the run, which does not score them 5" in report_of(layout, tmp_path)
    assert of_run(layout, RUN, 0.5).n_later == 5
    click(layout, "late0")
    columns = build_damage_map(layout, RUN, 0.5).columns
    row = damage_map.building_ids.index("late0")
    assert [columns[name][row] for name in ("assessed", "triage", "score")] == [True, "confirmed", None]


def area(layout: Layout) -> dict[str, Any]:
    return dict(build_damage_map(layout, RUN, 0.5).metadata["aoi"])


def test_an_area_set_after_the_run_is_not_stated_as_if_it_held(layout: Layout, tmp_path: Path) -> None:
    assert "aoi" not in build_damage_map(layout, RUN, 0.5).metadata
    set_aoi(layout, LATE, n_inside=30)
    found = area(layout)
    assert (found["set_after_run"], found["selected_buildings"], found["n_outside"]) == (True, False, 10)
    words = "town.geojson) was set after the run and did not choose what was mapped: 10 of 40 buildings lie outside it."
    assert words in report_of(layout, tmp_path)


def test_an_area_that_stood_when_footprints_came_did_choose_them(layout: Layout, tmp_path: Path) -> None:
    set_aoi(layout, "2025-11-01T00:00:00.000Z", n_inside=N)
    took_in(layout, EARLY)
    expected = {"set_after_run": False, "selected_buildings": True, "n_outside": 0, "stands": True, "source": "town.geojson"}
    found, columns = area(layout), build_damage_map(layout, RUN, 0.5).columns
    assert found.items() >= expected.items()
    places = shapely.points(np.array([columns["lon"], columns["lat"]], np.float64).T)
    assert shapely.contains(shapely.from_wkt(found["wkt"]), places).all()
    assert "area of interest" not in report_of(layout, tmp_path)
    set_aoi(layout, LATE, n_inside=5)  # another one now: what held then is stated, not what stands now
    now = {"since": "2025-11-01T00:00:00.000Z", "selected_buildings": True, "n_outside": 0, "stands": False}
    assert area(layout).items() >= now.items()
    with store.connect(layout) as db:
        aoi.remove(db)
    assert area(layout)["stands"] is False
    assert "replaced or taken away since" in report_of(layout, tmp_path)


def test_an_area_set_between_two_files_chose_some_only(layout: Layout, tmp_path: Path) -> None:
    for at in ("2025-10-01T00:00:00.000Z", EARLY):
        took_in(layout, at, 20)
    set_aoi(layout, "2025-11-01T00:00:00.000Z", n_inside=35)
    found = area(layout)
    assert (found["set_after_run"], found["selected_buildings"], found["n_outside"]) == (False, False, 5)
    assert "did not stand yet, or not any more, when some of the outlines were added: 5 of 40" in report_of(layout, tmp_path)


def as_cells(layout: Layout, n: int) -> None:
    cells = "source_footprint = 'grid', attributes = json_object('cell_m', 8.0)"
    with store.connect(layout) as db:
        db.execute(f"UPDATE footprints SET {cells} WHERE fid <= ?", (n,))
    contents._units.clear()  # kept by the state of the footprints, which an import would have changed


def test_buildings_are_called_buildings_and_cells_cells(layout: Layout, tmp_path: Path) -> None:
    assert counts_of(build_damage_map(layout, RUN, 0.5))["units"] == "buildings"
    assert made_up_map().units.full == "buildings"
    (buildings,), (cells,) = (area_section(made_up_areas(), units) for units in (Units(1), Units(0, 5, (30.0,))))
    assert (buildings.header[2], cells.header[2]) == ("Buildings", "Cells")
    as_cells(layout, 10)
    assert counts_of(build_damage_map(layout, RUN, 0.5))["units"] == "buildings and cells of 8 m"
    assert "10 of 40 rows are cells of 8 m of a regular grid" in report_of(layout, tmp_path)
    assert build_damage_map(layout, RUN, 0.5).units.one == "building or cell"
    as_cells(layout, N)
    damage_map, told = build_damage_map(layout, RUN, 0.5), report_of(layout, tmp_path)
    assert damage_map.units == Units(0, N, (8.0,))
    assert counts_of(damage_map)["units"] == of_run(layout, RUN, 0.5).units.full == "cells of 8 m"
    assert projects.summary(layout).units.full == "cells of 8 m"
    meanings = {field.name: field.meaning for field in fields_of(damage_map)}
    assert meanings["not_assessed_reason"].startswith("Why the cell was not assessed")
    assert "Mapped are cells of 8 m of a regular grid, not buildings" in told
    assert "2 of 40 cells (5 %) were not assessed" in told
    assert "buildings are damaged" not in told


def with_source(layout: Layout, path: Path, **facts: object) -> None:
    """Let the post scene be a file of 1,000 bytes."""
    path.write_bytes(b"x" * 1000)
    own = {"path": str(path), "sha256": sha256_of(path), "size_bytes": 1000, "ends_sha256": ends_sha256(path)}
    facts = {**own, "mtime_ns": path.stat().st_mtime_ns, **facts}
    with store.connect(layout) as db:
        db.execute("UPDATE scene SET facts = json_patch(facts, ?)", (json.dumps(facts),))


def test_a_copied_source_is_read_in_full_once_and_an_exchanged_one_is_told(layout: Layout, tmp_path: Path) -> None:
    path, job = tmp_path / "post.tif", job_of(layout)
    with_source(layout, path, mtime_ns=1)
    (job.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        export(job, run_id=RUN, format="geojson", out=str(tmp_path / "map.geojson"))
    (job.folder / "cancel").unlink()
    export(job, run_id=RUN, format="geojson", out=str(tmp_path / "map.geojson"))
    (scene,) = store.call(layout, contents.scenes)
    assert scene.mtime_ns == path.stat().st_mtime_ns
    with_source(layout, path)
    assert build_damage_map(layout, RUN, 0.5).metadata["sources_changed"] == []
    path.write_bytes(b"y" * 1000)
    metadata = build_damage_map(layout, RUN, 0.5).metadata
    assert (metadata["sources_changed"], metadata["sources_missing"]) == (["post-1"], [])
    assert "Another file lies now where post-1 was" in report_of(layout, tmp_path)
    path.unlink()
    assert build_damage_map(layout, RUN, 0.5).metadata["sources_missing"] == ["post-1"]


def test_buildings_that_an_older_project_holds_twice_are_told(layout: Layout, tmp_path: Path) -> None:
    table = square_table(3)
    shapes = shapely.transform(shapely.from_wkb(list(table.wkb)), lambda xy: xy + np.array([1.0, 0.0]))
    with store.connect(layout) as db:
        contents.add_footprints(db, replace(table, building_ids=["x", "y", "z"], wkb=list(shapely.to_wkb(shapes))))
    assert build_damage_map(layout, RUN, 0.5).metadata["n_duplicates"] == 3
    assert "3 outlines are the same building as another one" in report_of(layout, tmp_path)


def of_scenes(layout: Layout, **facts: object) -> None:
    """Give the chip set of the run two post scenes and one pre scene, which shows the first half alone."""
    path = layout.chip_facts("set")
    known = json.loads(path.read_text())
    half = N // 2
    scenes = {
        "pre-1": {"role": "pre", "sha256": "aa", "date": "2010-01-01", "gsd_m": 0.5, "dtype": "uint8", "path": "/x"},
        "post-1": {"role": "post", "sha256": "bb", "date": "2011-05-29", "gsd_m": 0.5, "dtype": "uint8", "path": "/y"},
        "post-2": {"role": "post", "sha256": "cc", "date": "2011-06-02", "gsd_m": 0.31, "dtype": "uint8", "path": "/z"},
    }
    none = [0.0] * N
    hidden = {"outside": none, "nodata": [0.0] * half + [1.0] * half, "cloud": none}
    shown: dict[str, object] = {
        "scenes": scenes, "post_scene": ["post-1"] * half + ["post-2"] * half, "pre_scene": ["pre-1"] * half + [None] * half,
        "post_outline": dict.fromkeys(("outside", "nodata", "cloud"), none), "pre_outline": hidden, "nodata_share": none,
    }  # fmt: skip
    path.write_text(json.dumps({**known, **shown, **facts}))
    store.call(layout, renew_reasons, layout, "set")


def test_each_building_names_the_scene_that_its_chip_was_cut_from(layout: Layout) -> None:
    of_scenes(layout, bands="pre+post")
    found = build_damage_map(layout, RUN, 0.5)
    first, last = ({name: column[row] for name, column in found.columns.items()} for row in (5, N - 1))
    assert [first[f"post_{name}"] for name in ("image_id", "date", "gsd_m")] == ["post-1", "2011-05-29", 0.5]
    assert [last[f"post_{name}"] for name in ("image_id", "date", "gsd_m")] == ["post-2", "2011-06-02", 0.31]
    assert (first["pre_image_id"], first["pre_date"], first["pre_hidden_share"]) == ("pre-1", "2010-01-01", 0.0)
    assert (last["pre_image_id"], last["pre_date"], last["pre_hidden_share"]) == (None, None, 1.0)
    assert (last["assessed"], last["not_assessed_reason"], last["damage_binary"]) == (False, "no_pre_image", "not_assessed")
    assert found.metadata["sha256"] == {"pre-1": "aa", "post-1": "bb", "post-2": "cc"}
    of_scenes(layout, bands="post", bands_why="The pre-event scenes do not show 20 of 40 buildings, so post alone.")
    found = build_damage_map(layout, RUN, 0.5)
    assert set(found.columns["pre_image_id"]) == set(found.columns["pre_date"]) == {None}
    with store.connect(layout) as db:  # one that was added after the run is not in its map
        contents.add_scenes(db, [replace(small_scene(), scene_id="post-3", sha256="dd")], small_grid())
    later = build_damage_map(layout, RUN, 0.5)
    assert later.columns["post_image_id"] == found.columns["post_image_id"]
    assert later.metadata["sha256"] == found.metadata["sha256"]
    assert all(found.columns["assessed"])
    assert "The pre-event scenes do not show 20 of 40 buildings, so post alone." in found.metadata["cannot_say"]
