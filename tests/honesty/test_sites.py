"""Places that lie far apart are sites of one event: each is as it is in a project of its own."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from cli_parts import CommandLine
from rasterio.transform import Affine
from site_parts import PLACES, draw_place, prepared_places
from small_parts import job_of

from pu_geo.errors import ImageryError, ProjectError
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.vector.sites import GAP_PX
from pu_geo.lifecycle.remove_job import remove_scene
from pu_geo.records import Grid, Scene
from pu_geo.scenes import sites
from pu_geo.scenes.align_job import align
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.scenes.sites_job import put_in_site
from pu_geo.store import alignment, contents, freshness, store
from pu_geo.store.layout import Layout

SCENE = Scene(
    scene_id="a", role="post", path="/a.tif", crs="EPSG:32615", transform=(0.5, 0.0, 372_000.0, 0.0, -0.5, 4_100_000.0),
    width=1000, height=800, bands=3, dtype="uint8", rgb=(1, 2, 3), gsd_m=0.5, nodata=None, date=None, sha256="",
)  # fmt: skip


def scene(name: str, east_m: float, north_m: float = 0.0, crs: str = "EPSG:32615", **changes: Any) -> Scene:
    a, b, c, d, e, f = SCENE.transform
    return replace(SCENE, scene_id=name, crs=crs, **{"transform": (a, b, c + east_m, d, e, f + north_m), **changes})


def scenes_of(grid: Grid) -> list[tuple[str, ...]]:
    return [site.scenes for site in grid.parts]


@pytest.mark.parametrize(
    ("scenes", "expected"),
    [
        ([scene("a", 0), scene("b", 5_400)], [("a", "b")]),  # 4.9 km between them
        ([scene("a", 0), scene("b", 5_700)], [("a",), ("b",)]),
        ([scene("a", 0), scene("b", 9_000), scene("c", 4_500)], [("a", "b", "c")]),  # the last one joins them
        ([scene("a", 0), scene("b", 0, 2_000_000)], [("a",), ("b",)]),
        ([scene("a", 394_000), scene("b", -138_500, 0, "EPSG:32616")], [("a", "b")]),  # one place in two zones
        ([scene("a", 0), scene("b", 100, gsd_m=10, transform=(10, 0, 372_000, 0, -10, 4_100_000))], [("a", "b")]),  # two sensors
        ([scene("a", 200_000, 0, "EPSG:32660"), scene("b", -116_000, 0, "EPSG:32601")], [("a",), ("b",)]),
        ([scene("a", 394_000, 0, "EPSG:32660"), scene("b", -138_500, 0, "EPSG:32601")], [("a", "b")]),  # at 180 degrees
        ([scene(f"s{i}", 4_000.0 * i, width=8_000, height=80_000) for i in range(20)], None),  # one grid would be too large
    ],
)  # fmt: skip
def test_scenes_near_enough_for_one_grid_are_a_site(scenes: list[Scene], expected: list[tuple[str, ...]] | None) -> None:
    grid = project_grid(scenes)
    assert scenes_of(grid) == expected if expected else len(grid.sites) > 1
    for one, other in zip(grid.parts, grid.parts[1:], strict=False):
        assert one.row + one.height + GAP_PX <= other.row, "they never touch"
    assert grid.width == max(site.width for site in grid.parts)
    assert Grid.from_json(json.loads(json.dumps(vars(grid), default=vars))) == grid


def test_sites_keep_their_names_and_a_person_divides_them() -> None:
    a, b, c = scene("a", 0), scene("b", 9_000), scene("c", 4_500)
    two = project_grid([a, b])
    assert [site.name for site in two.parts] == ["Site 1", "Site 2"]
    assert [site.name for site in project_grid([b, a], two).parts] == ["Site 2", "Site 1"]
    assert [site.name for site in project_grid([b], two).parts] == ["Site 2"], "one of them was removed"
    joined = project_grid([a, b, c], two)
    assert [(site.name, site.scenes) for site in joined.parts] == [("Site 1", ("a", "b", "c"))]
    again = project_grid([a, b], joined)
    assert [site.name for site in again.parts] == ["Site 1", "Site 2"], "without the scene between them"
    west, east = (replace(site, name=name, is_named=True) for site, name in zip(two.parts, ("West", "East"), strict=True))
    mine = project_grid([a, b, c], replace(two, sites=(west, east)))
    assert [(site.name, site.scenes) for site in mine.parts] == [("West", ("a", "c")), ("East", ("b",))]
    with pytest.raises(ImageryError, match=r"span 10,[0-9,]+ x"):
        project_grid([a, scene("b", 5e6)], replace(two, sites=(replace(west, scenes=("a", "b")),)))


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    return [draw_place(tmp_path, name) for name in PLACES]


def newest(layout: Layout) -> tuple[np.ndarray, Any]:
    chip_set = store.call(layout, contents.chosen_chip_set)
    return np.load(layout.chips(chip_set)), contents.chip_facts(layout, chip_set)


def shifts(layout: Layout) -> alignment.Alignment:
    with store.connect(layout) as db:
        found = alignment.load(layout, contents.building_ids(db), contents.scenes(db))
    assert found is not None
    return found


def test_two_places_in_two_zones_are_as_each_is_alone(
    places: list[Path], tmp_path: Path, without_features: None, run: CommandLine
) -> None:
    both = prepared_places(tmp_path / "both.pugeo", places)
    chips, facts = newest(both)
    start = 0
    for place in places:
        alone = prepared_places(tmp_path / f"{place.name}.pugeo", [place])
        own, own_facts = newest(alone)
        part = np.s_[start : start + len(own)]
        np.testing.assert_array_equal(chips[part], own)
        for name in ("pre_outline", "post_outline"):
            assert {why: shares[part] for why, shares in facts[name].items()} == own_facts[name]
        for name in ("dx_m", "dy_m", "quality", "has_data"):
            np.testing.assert_allclose(getattr(shifts(both), name)[part], getattr(shifts(alone), name), atol=1e-9)
        np.testing.assert_allclose(
            store.call(both, contents.areas_m2)[part], store.call(alone, contents.areas_m2), rtol=1e-4
        )
        start += len(own)
    assert start == len(chips)
    of = store.call(both, contents.sites).tolist()
    assert of == sorted(of)
    assert [site.n_buildings for site in sites.sites(both)] == [of.count(0), of.count(1)]
    assert run("sites", both.folder, "Site 2", "--name", "West")[0] == 0
    assert [site.name for site in sites.sites(both)] == ["Site 1", "West"]
    assert not freshness.of_chips(both).words, "a name changes no pixel"
    job = job_of(both)
    with pytest.raises(ProjectError, match="no site or post-event scene Nowhere"):
        put_in_site(job, what=["Nowhere"], name="West")
    with pytest.raises(ImageryError, match="post scenes of West span"):
        put_in_site(job, what=["Site 1"], name="West")
    removed = remove_scene(job, name="east/post", analyst="ann")
    assert "Site 1 goes with it: 18 buildings stay, and are not assessed." in removed["plan"]
    left = store.call(both, contents.grid)
    assert (left.crs, [(site.name, site.crs) for site in left.parts]) == ("EPSG:32616", [("West", "EPSG:32615")])
    chip(job, bands="post")
    beyond = np.array(newest(both)[1]["post_outline"]["outside"])
    assert (beyond[np.array(of) == 0] == 1).all(), "their site was removed; they are not lost"
    assert store.call(both, contents.sites).tolist() == [-1 if k == 0 else 0 for k in of]
    assert (beyond[np.array(of) == 1] == facts["post_outline"]["outside"][of.count(0) :]).all()


def test_a_site_without_pre_and_footprints_of_no_site_are_said(
    places: list[Path], tmp_path: Path, without_features: None, run: CommandLine
) -> None:
    layout = store.create(tmp_path / "event.pugeo", "Event")
    east, west = places
    done = add_scenes(job_of(layout), pre=[str(west / "pre.tif")], post=[str(east / "post.tif"), str(west / "post.tif")])
    assert (done["sites"], done["pre_share"]) == (["Site 1", "Site 2"], pytest.approx(0.5, abs=0.01))
    house = {"type": "Polygon", "coordinates": [[[-88.9, 36.0], [-88.8999, 36.0], [-88.8999, 36.0001], [-88.9, 36.0]]]}
    collection = json.loads((east / "footprints.geojson").read_text())
    collection["features"].append({"type": "Feature", "properties": {}, "geometry": house})
    (tmp_path / "one_more.geojson").write_text(json.dumps(collection))
    added = json.loads(run("add-footprints", layout.folder, tmp_path / "one_more.geojson", "--json")[1])
    assert added["files"][0]["dropped_by"] == {"outside the scenes": 1}
    said = run("sites", layout.folder)[1]
    assert "Site 1: 18 buildings, 1 post and 0 pre scenes in pixels of 0.5 m; no pre-event scene (east/post)" in said
    assert "1 of 2 sites has no pre-event scene." in said
    assert "1 of 2 sites has no buildings." in said
    found = align(job_of(layout))
    assert (found["n_failed"], found["n_outside"]) == (0, 18), "no date before shows them, which is no failure"


def test_a_site_that_is_divided_is_drawn_anew_and_can_be_joined_again(places: list[Path], tmp_path: Path) -> None:
    layout, post = store.create(tmp_path / "event.pugeo", "Event"), str(places[0] / "post.tif")
    job, beside = job_of(layout), shutil.copyfile(post, tmp_path / "beside.tif")
    with rasterio.open(beside, "r+") as target:
        target.transform = Affine.translation(200, 0) @ target.transform
    assert add_scenes(job, pre=[], post=[post, str(beside), str(places[1] / "post.tif")])["sites"] == ["Site 1", "Site 2"]
    before = store.call(layout, contents.grid)
    done = put_in_site(job, what=["beside.tif"], name="Beside")
    assert done == {"sites": ["Site 1", "Beside", "Site 2"], "is_redrawn": True}
    found = store.call(layout, contents.grid)
    pyramid = json.loads((layout.quicklooks / "post" / "pyramid.json").read_text())
    assert (pyramid["width"], pyramid["height"]) == (found.width, found.height) != (before.width, before.height)
    put_in_site(job, what=["Beside"], name="Site 1")
    assert contents.lattice(store.call(layout, contents.grid)) == contents.lattice(before)
