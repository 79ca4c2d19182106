"""An event of two towns in two UTM zones: each number of its exports is that of the site where the building stands."""

import csv
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from map_parts import Reader
from site_parts import PLACES, draw_place, prepared_places
from small_parts import job_of

from pu_geo.api import Project
from pu_geo.geo.vector import crs as systems
from pu_geo.maps.areas_job import sum_up
from pu_geo.scenes import preparation
from pu_geo.store.layout import Layout
from pu_geo.ui.components.project_view import background

pytestmark = pytest.mark.slow
SITES = {"Site 1": PLACES["east"][0], "Site 2": PLACES["west"][0]}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("sites")
    layout = prepared_places(folder / "event.pugeo", [draw_place(folder, name) for name in PLACES])
    project = Project.open(layout.folder)
    ids = project.building_ids()
    for some, label in (
        (ids[:3] + ids[-1:], "positive"),
        (ids[3:5] + ids[-2:-1], "not_damaged"),
        (ids[5:6], "not_assessable"),
    ):
        project.label(some, label)
    project.rank()
    project.publish(["geojson-full", "csv", "heat"])
    return layout


def site_by_place(shape: shapely.Geometry) -> str:
    """Return which of the two towns a shape in degrees stands in."""
    return "Site 1" if shape.centroid.x > -92 else "Site 2"


def counts_of(rows: Rows) -> dict[str, int]:
    """Count by hand, from answers, scores and threshold."""
    answered = {"damaged": "confirmed", "no_visible_damage": "not_flagged"}
    by_score = ["flagged" if (row["score"] or 0) >= row["threshold"] else "not_flagged" for row in rows]
    assessed = [answered.get(row["label"], score) for row, score in zip(rows, by_score, strict=True) if row["assessed"]]
    kinds = {kind: assessed.count(kind) for kind in ("confirmed", "flagged", "not_flagged")}
    kinds["not_assessed"] = len(rows) - len(assessed)
    return {"buildings": len(rows), **kinds, "answers": sum(row["label"] is not None for row in rows)}


@pytest.fixture(scope="module")
def expected(mapped: Layout) -> dict[str, Rows]:
    found: dict[str, Rows] = {name: [] for name in SITES}
    for one in json.loads((mapped.exports / "v1" / "damage_map.full.geojson").read_bytes())["features"]:
        found[site_by_place(shapely.geometry.shape(one["geometry"]))].append(one["properties"])
    assert all(len(rows) > 5 for rows in found.values())
    return found


def test_each_number_of_an_export_is_that_of_its_site(mapped: Layout, expected: dict[str, Rows]) -> None:
    folder = mapped.exports / "v1"
    assert all(row["site"] == name for name, rows in expected.items() for row in rows)
    about = json.loads((folder / "damage_map.run.json").read_bytes())
    counts = {name: counts_of(rows) for name, rows in expected.items()}
    assert about["sites"] == [{"name": name, **counts[name], "pixel_m": 0.5, "crs": crs} for name, crs in SITES.items()]
    for kind, n in about["counts"].items():
        assert sum(one[kind] for one in counts.values()) == n
    assert json.loads((folder / "version.json").read_bytes())["sites"] == about["sites"]
    with (folder / "damage_map.csv").open(encoding="utf-8-sig", newline="") as file:
        assert all((row["site"] == "Site 1") == (float(row["lon"]) > -92) for row in csv.DictReader(file))
    assert "\nsite,text," in (folder / "damage_map.codebook.csv").read_text(encoding="utf-8-sig").replace("\r", "")
    for name, crs in SITES.items():
        with rasterio.open(folder / {"Site 1": "damage_heat.tif", "Site 2": "damage_heat_2.tif"}[name]) as heat:
            assert (heat.crs.to_string(), heat.tags()["SITE"]) == (crs, name)
            per_km2 = heat.read(1)
            n = per_km2[per_km2 >= 0].sum() * (float(heat.tags()["CELL_M"]) / 1000) ** 2
            assert n == pytest.approx(counts[name]["confirmed"] + counts[name]["flagged"])


def test_the_report_has_a_map_and_a_row_for_each_site(mapped: Layout, expected: dict[str, Rows]) -> None:
    page = (mapped.exports / "v1" / "report.html").read_text(encoding="utf-8")
    seen = Reader(page).seen
    for number, (name, crs) in enumerate(SITES.items(), start=1):
        counts = counts_of(expected[name])
        assert f"{name} {' '.join(map(str, counts.values()))} 0.5 {crs}" in seen
        drawn = seen[seen.index(f"{number}. {name}") :]
        assert f"Confirmed by a person: {counts['confirmed']}" in drawn[:400]
        x, y = PLACES["east" if number == 1 else "west"][1]
        ((lon, lat),) = systems.to_lonlat(np.array([[x, y]]), crs)
        assert f" W {lat:.5f}° N, {-lon:.5f}° W " in drawn[:150]  # the upper left corner, after the middle
    first, second = np.array(re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', page), float)
    assert (first > second).all()  # the first one lies to the southeast
    assert page.count("data:image/jpeg") == 2


def test_on_screen_and_in_tables_a_site_lies_at_its_own_place(mapped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = background(mapped, "Site 1")[0]
    assert ((tile["x"], tile["y"]), tile["source"].split("?")[0][-8:]) == (PLACES["east"][1], "/0/0.jpg")
    assert background(mapped, "Site 2") == background(mapped) == []  # in another zone than the project
    shown = preparation.overview(mapped)
    assert shown.grid is not None
    other = replace(shown, grid=replace(shown.grid, crs=SITES["Site 2"]))
    monkeypatch.setattr(preparation, "overview", lambda _: other)
    tile = background(mapped, "Site 2")[0]
    assert ((tile["x"], tile["y"]), tile["source"].split("?")[0][-8:]) == (PLACES["west"][1], "/0/8.jpg")
    frame = Project.open(mapped.folder).footprints()
    assert frame.crs == "EPSG:4326"
    assert [site_by_place(shape) for shape in frame.geometry] == frame["site"].tolist()
    found = sum_up(job_of(mapped, "sum_up"), run_id="chosen", threshold=0.5)
    assert found["sites"].keys() == SITES.keys()
