"""Whether a pair is usable: figures, worries, repairs in words, and chips that are out of date."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from small_parts import small_grid, small_scene, square_table

from pu_geo.errors import ProjectError
from pu_geo.project import alignment, contents, store
from pu_geo.project.alignment import Alignment
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import scene_pair
from pu_geo.services.imagery.scene_pair import Pair, judge

POST, PRE = small_scene(), replace(small_scene("pre"), scene_id="pre-1")
N = 20


@pytest.fixture
def pair(project: Layout) -> Layout:
    """A project with a pre scene, too, that covers all of it; the post scene is "post-1"."""
    with store.connect(project) as db:
        contents.add_scenes(db, [PRE], small_grid(), 1.0)
    return project


def align(layout: Layout, dx: np.ndarray, quality: np.ndarray) -> None:
    has_data = np.ones(N, bool)
    found = Alignment([f"b{i}" for i in range(N)], dx, np.zeros(N), quality, has_data, ~has_data, np.array([1.5, -0.5]))
    alignment.save(layout, found, [POST, PRE])


def values(layout: Layout, chips: dict[str, list[float]] | None = None) -> dict[str, str]:
    return {check.name: check.value for check in judge(layout, chips).checks}


def worries(layout: Layout, chips: dict[str, list[float]] | None = None) -> dict[str, str]:
    return {check.name: check.worry for check in judge(layout, chips).checks if check.worry}


def test_a_good_pair_has_figures_and_no_worry(pair: Layout) -> None:
    align(pair, np.linspace(0, 1.9, N), np.ones(N))
    shares = [0.0] * 19 + [0.4]
    assert values(pair, {"nodata_share": shares, "cloud_share": shares}) == {
        "Pre covers post": "100 %",
        "Pixel size, pre / post": "0.50 / 0.50 m",
        "Dates, pre / post": "unknown / unknown",
        scene_pair.MISALIGNMENT: "0.9 / 1.8 m",  # of 0, 0.1, ... 1.9: the median is 0.95, the 95 % point 1.805
        "Not aligned": "0 of 20",
        "No data in footprints": "2 %",
        "Clouds in footprints": "2 %",
    }
    assert worries(pair, {"nodata_share": shares}) == {}


def test_pixels_that_are_not_square_are_a_worry(pair: Layout) -> None:
    assert "Pixels not square" not in values(pair)
    with store.connect(pair) as db:
        flat = replace(PRE, scene_id="pre-2", path="/nowhere/flat.tif", transform=(0.5, 0.0, 0.0, 0.0, -5.0, 0.0))
        contents.add_scenes(db, [flat], small_grid(), 1.0)
    assert values(pair)["Pixels not square"] == "0.5 x 5 m"
    assert worries(pair)["Pixels not square"].startswith("flat.tif: ")


def test_pixels_that_are_square_in_degrees_are_no_worry() -> None:
    """At 60° N they are half as wide as tall on the ground, as in all products in degrees."""
    grid = replace(small_grid(), crs="EPSG:4326", x_unit_m=55_800.0, y_unit_m=111_400.0)
    square = replace(PRE, crs="EPSG:4326", transform=(5e-6, 0.0, 10.0, 0.0, -5e-6, 60.0))
    assert scene_pair._oblong([square], grid) == []
    assert scene_pair._oblong([replace(square, transform=(5e-6, 0.0, 10.0, 0.0, -1e-5, 60.0))], grid)


def test_what_is_not_known_yet_is_left_out(pair: Layout, tmp_path: object) -> None:
    assert list(values(pair)) == ["Pre covers post", "Pixel size, pre / post", "Dates, pre / post"]


def test_a_project_without_a_post_scene_has_nothing_to_judge(tmp_path_factory: pytest.TempPathFactory) -> None:
    layout = store.create(tmp_path_factory.mktemp("p") / "e.pugeo", "E")
    assert judge(layout, None) == Pair([], "", "")


def test_each_flaw_is_a_worry_with_what_to_do(project: Layout) -> None:
    coarse = replace(PRE, gsd_m=2.4, date="2020-06-01")
    with store.connect(project) as db:
        contents.add_scenes(db, [coarse], small_grid(), 0.6)
    scene_pair.set_dates(project, {"post-1": date(2019, 1, 1)})
    with store.connect(project) as db:
        scenes = contents.scenes(db)
    quality = np.where(np.arange(N) < 3, 0.0, 1.0)
    known = Alignment(
        [f"b{i}" for i in range(N)], np.zeros(N), np.zeros(N), quality, np.ones(N, bool), np.zeros(N, bool), np.zeros(2)
    )
    alignment.save(project, known, scenes)
    found = worries(project, {"nodata_share": [0.9] * 3 + [0.0] * 17})
    assert set(found) == {
        "Pre covers post", "Pixel size, pre / post", "Dates, pre / post", "Not aligned", "No data in footprints",
    }  # fmt: skip
    assert "swapped" in found["Dates, pre / post"]
    assert "3 buildings cannot be judged" in found["No data in footprints"]


def test_buildings_where_nothing_can_be_measured_are_counted_in_words(pair: Layout) -> None:
    has_data = np.arange(N) < 17
    found = Alignment([f"b{i}" for i in range(N)], np.zeros(N), np.zeros(N), np.ones(N), has_data, ~has_data, np.zeros(2))
    alignment.save(pair, found, [POST, PRE])
    (check,) = (check for check in judge(pair, None).checks if check.name == "Not aligned")
    assert check.value == "0 of 17"
    assert "The other 3 of 20 buildings are too close to an edge or a gap" in check.words


def test_each_step_comes_after_what_it_needs(tmp_path_factory: pytest.TempPathFactory) -> None:
    layout = store.create(tmp_path_factory.mktemp("p") / "e.pugeo", "E")

    def step(chips: dict[str, object] | None = None) -> str:
        return scene_pair.next_step(layout, judge(layout, None), chips)

    assert step() == "scenes"
    with store.connect(layout) as db:
        contents.add_scenes(db, [PRE, POST], small_grid(), 1.0)
    assert step() == "footprints"
    with store.connect(layout) as db:
        contents.add_footprints(db, square_table(N))
    assert step() == "align"
    alignment.save(
        layout,
        Alignment(
            [f"b{i}" for i in range(N)], *np.zeros((2, N)), np.ones(N), np.ones(N, bool), np.zeros(N, bool), np.zeros(2)
        ),
        [PRE, POST],
    )
    assert step() == "chips"
    with store.connect(layout) as db:
        contents.add_chip_set(db, "set", "post", 64, N)
    assert step({"building_ids": []}) == "done"
    with store.connect(layout) as db:
        contents.add_chip_set(db, "newer", "post", 64, N - 1)
    assert step({"building_ids": []}) == "chips"


def test_dates_are_changed_and_forgotten_again(pair: Layout) -> None:
    scene_pair.set_dates(pair, {"post-1": date(2011, 5, 29), "pre-1": date(2010, 1, 2)})
    assert values(pair)["Dates, pre / post"] == "2 Jan 2010 / 29 May 2011"
    scene_pair.set_dates(pair, {"pre-1": None})
    with store.connect(pair) as db:
        assert [scene.date for scene in contents.scenes(db)] == ["2011-05-29", None]
    with pytest.raises(ProjectError, match="no scene 'post-9'"):
        scene_pair.set_dates(pair, {"post-1": None, "post-9": None})
    assert values(pair)["Dates, pre / post"] == "unknown / 29 May 2011"


def test_repairs_are_said_in_words() -> None:
    grid = small_grid()
    rotated = (0.4, 0.3, 0.0, 0.3, -0.4, 0.0)
    told = scene_pair.repairs(
        [
            POST,
            replace(PRE, scene_id="a", crs="EPSG:4326", gsd_m=0.8),
            replace(PRE, scene_id="b", transform=rotated, stretch=((1.0, 2.5),) * 3, dtype="uint16"),
            replace(PRE, scene_id="c", transform=(0.5, 0, 0, 0, 0.5, 0), place="a world file"),
            replace(PRE, scene_id="d", crs='PROJCS["My system",GEOGCS["x"]]'),
        ],
        grid,
    )
    assert told == {
        "post-1": "unchanged",
        "a": "reprojected from EPSG:4326 to EPSG:32615; resampled from 0.80 to 0.50 m",
        "b": "rotated to north-up; uint16 stretched to 0–255 from 1–2.5 · 1–2.5 · 1–2.5",
        "c": "flipped (it was south-up); placed by a world file",
        "d": "reprojected from My system to EPSG:32615",
    }


def test_the_shift_is_said_with_its_direction(pair: Layout) -> None:
    assert judge(pair, None).shift == ""
    align(pair, np.ones(N), np.ones(N))
    assert "1.5 m to the east and 0.5 m to the south" in judge(pair, None).shift


def test_chips_are_out_of_date_after_footprints_and_alignment(pair: Layout) -> None:
    assert judge(pair, None).stale == ""
    with store.connect(pair) as db:
        contents.add_chip_set(db, "set", "post", 64, N)
    assert judge(pair, None).stale == ""
    align(pair, np.ones(N), np.ones(N))
    later = alignment.path_of(pair).stat().st_mtime + 60
    os.utime(alignment.path_of(pair), (later, later))
    assert "aligned after" in judge(pair, None).stale
    with store.connect(pair) as db:
        contents.add_chip_set(db, "set2", "post", 64, N - 1)
    assert "1 footprint added after" in judge(pair, None).stale


@pytest.mark.parametrize(
    ("pre", "post", "is_odd"),
    [
        ("post.tif", "pre.tif", True),
        ("x_post_disaster.png", "x_pre_disaster.png", True),
        ("pre.tif", "post.tif", False),
        ("prepared.tif", "postal.tif", False),
        ("pre_and_post_1.tif", "pre_and_post_2.tif", False),
        ("a.tif", "b.tif", False),
    ],
)
def test_names_of_files_are_a_hint_that_dates_were_exchanged(pre: str, post: str, is_odd: bool) -> None:
    found = scene_pair._exchanged([replace(PRE, path=f"/a/{pre}")], [replace(POST, path=f"/post/{post}")])
    assert [check.name for check in found] == ["File names"] * is_odd
    assert all("swapped" in check.worry for check in found)
