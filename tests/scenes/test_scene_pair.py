"""Whether a pair is usable, which chips are out of date, and what the map is told of the imagery."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from small_parts import add_chips, click, small_grid, small_scene, square_table

from pu_geo.errors import ProjectError
from pu_geo.records import scene_fingerprint
from pu_geo.scenes import image_quality, preparation, scene_pair
from pu_geo.scenes.scene_pair import Pair, judge
from pu_geo.store import alignment, contents, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout

POST, PRE = small_scene(), replace(small_scene("pre"), scene_id="pre-1")
N = 20


@pytest.fixture
def pair(project: Layout) -> Layout:
    """A project with a pre scene, too, that covers all of it; the post scene is "post-1"."""
    store.call(project, contents.add_scenes, [PRE], small_grid(), 1.0)
    return project


def align(
    layout: Layout, dx: float | np.ndarray = 0.0, quality: float | np.ndarray = 1.0, n_shown: int = N, scene_m: float = 1.5
) -> None:
    has_data = np.arange(N) < n_shown
    dx, quality = np.broadcast_to(dx, N).astype(float), np.broadcast_to(quality, N).astype(float)
    ids = [f"b{i}" for i in range(N)]
    found = Alignment(ids, dx, np.zeros(N), quality, has_data, np.zeros(N, bool), np.array([[scene_m, -scene_m / 3]]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def values(layout: Layout, chips: dict[str, list[float]] | None = None) -> dict[str, str]:
    return {check.name: check.value for check in judge(layout, chips).checks}


def worries(layout: Layout, chips: dict[str, list[float]] | None = None) -> dict[str, str]:
    return {check.name: check.worry for check in judge(layout, chips).checks if check.worry}


def test_a_good_pair_has_figures_and_no_worry(pair: Layout) -> None:
    assert list(values(pair)) == ["Pre covers post", "Pixel size, pre / post", "Dates, pre / post"]
    assert judge(pair, None).shift == ""
    align(pair, np.linspace(0, 1.9, N))
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
    assert "1.5 m to the east and 0.5 m to the south" in judge(pair, None).shift
    align(pair, n_shown=17, scene_m=0.0)
    assert "no overall shift" in judge(pair, None).shift
    (check,) = (check for check in judge(pair, None).checks if check.name == "Not aligned")
    assert (check.value, "The other 3 of 20 buildings" in check.words) == ("0 of 17", True)


def test_each_flaw_is_a_worry_with_what_to_do(project: Layout) -> None:
    coarse = replace(PRE, gsd_m=2.4, date="2020-06-01")
    store.call(project, contents.add_scenes, [coarse], small_grid(), 0.6)
    scene_pair.set_dates(project, {"post-1": date(2019, 1, 1)})
    align(project, quality=np.where(np.arange(N) < 3, 0.0, 1.0))
    found = worries(project, {"nodata_share": [0.9] * 3 + [0.0] * 17})
    assert list(found) == [
        "Pre covers post", "Pixel size, pre / post", "Dates, pre / post", "Not aligned", "No data in footprints",
    ]  # fmt: skip
    assert "swapped" in found["Dates, pre / post"]
    assert "3 buildings cannot be judged" in found["No data in footprints"]


def test_scenes_without_buildings_and_of_several_kinds_are_named(pair: Layout) -> None:
    far = replace(POST, scene_id="post-2", transform=(0.5, 0.0, 499_990.0, 0.0, -0.5, 4_000_100.0))
    store.call(pair, contents.add_scenes, [far], small_grid())
    assert worries(pair) == {"Scenes without buildings": "Add footprints for post-2, or nothing is mapped there."}
    assert (judge(pair, None).bare, scene_pair.next_step(pair, judge(pair, None), None)) == (("post-2",), "footprints")
    facts = {
        "building_ids": [f"b{i}" for i in range(N)],
        "nodata_share": [0.0] * N,
        "sensor_group": [0] * 15 + [1] * 5,
        "post_scene": ["a"] * 8 + ["b"] * 7 + ["c"] * 5,
    }
    found = judge(pair, facts)
    assert worries(pair, facts)[scene_pair.KINDS].endswith("(1) a and b; (2) c.")
    assert scene_pair.next_step(pair, found, facts) == "done", "whoever cut chips without them goes on"
    click(pair, "b16")
    assert worries(pair, facts)[scene_pair.KINDS].endswith("not assessed: (1) a and b.")
    click(pair, "b0")
    assert scene_pair.KINDS not in worries(pair, facts)


def test_each_step_comes_after_what_it_needs(tmp_path: Path) -> None:
    layout = store.create(tmp_path / "e.pugeo", "E")

    def step(chips: dict[str, object] | None = None) -> str:
        return scene_pair.next_step(layout, judge(layout, None), chips)

    assert judge(layout, None) == Pair([], "", "")
    assert step() == "scenes"
    store.call(layout, contents.add_scenes, [PRE, POST], small_grid(), 1.0)
    assert step() == "footprints"
    store.call(layout, contents.add_footprints, square_table(N))
    assert step() == "align"
    align(layout)
    assert step() == "chips"
    add_chips(layout, [f"b{i}" for i in range(N)])
    assert step({"building_ids": []}) == "done"
    add_chips(
        layout,
        [f"b{i}" for i in range(N - 1)],
        "newer",
        made_from={"scenes": {}, "outlines": [0] * (N - 1), "geometry_v": "", "alignment": ""},
    )
    assert step({"building_ids": []}) == "chips"


def test_dates_are_changed_and_forgotten_again(pair: Layout) -> None:
    scene_pair.set_dates(pair, {"post-1": date(2011, 5, 29), "pre-1": date(2010, 1, 2)})
    assert values(pair)["Dates, pre / post"] == "2 Jan 2010 / 29 May 2011"
    scene_pair.set_dates(pair, {"pre-1": None})
    assert [scene.date for scene in store.call(pair, contents.scenes)] == ["2011-05-29", None]
    with pytest.raises(ProjectError, match="no scene 'post-9'"):
        scene_pair.set_dates(pair, {"post-1": None, "post-9": None})
    assert values(pair)["Dates, pre / post"] == "unknown / 29 May 2011"


def test_repairs_are_said_in_words() -> None:
    rotated = (0.4, 0.3, 0.0, 0.3, -0.4, 0.0)
    scenes = [
        POST,
        replace(PRE, scene_id="a", crs="EPSG:4326", gsd_m=0.8),
        replace(PRE, scene_id="b", transform=rotated, stretch=((1.0, 2.5),) * 3, dtype="uint16"),
        replace(PRE, scene_id="c", transform=(0.5, 0, 0, 0, 0.5, 0), place="a world file"),
        replace(PRE, scene_id="d", crs='PROJCS["My system",GEOGCS["x"]]'),
    ]
    assert scene_pair.repairs(scenes, small_grid()) == {
        "post-1": "unchanged",
        "a": "reprojected from EPSG:4326 to EPSG:32615; resampled from 0.80 to 0.50 m",
        "b": "rotated to north-up; uint16 stretched to 0–255 from 1–2.5 · 1–2.5 · 1–2.5",
        "c": "flipped (it was south-up); placed by a world file",
        "d": "reprojected from My system to EPSG:32615",
    }


@pytest.mark.parametrize(
    ("pre", "post", "is_odd"),
    [("post.tif", "pre.tif", True), ("pre.tif", "post.tif", False), ("prepared.tif", "postal.tif", False)],
)
def test_names_of_files_are_a_hint_that_dates_were_exchanged(pre: str, post: str, is_odd: bool) -> None:
    found = scene_pair._exchanged([replace(PRE, path=f"/a/{pre}")], [replace(POST, path=f"/post/{post}")])
    assert [check.name for check in found] == ["File names"] * is_odd
    assert all("swapped" in check.worry for check in found)


# What the map is told of the imagery

IDS = [f"b{i}" for i in range(N)]


def measure(layout: Layout, *, failed: int = 7, outside: int = 8) -> None:
    quality = np.full(N, 0.9)
    quality[[failed, outside]] = 0
    dx, dy, none = np.linspace(0, 1.9, N), np.full(N, -2.5), np.zeros(N, dtype=bool)
    found = Alignment(IDS, dx, dy, quality, np.arange(N) != outside, none, np.array([[1.0, -2.5]]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def test_shifts_travel_as_centimetres_and_hundredths(project: Layout) -> None:
    assert image_quality.shifts_for_browser(project) is None
    assert image_quality.image_quality(project) == image_quality.ImageQuality()
    measure(project)
    sent = image_quality.shifts_for_browser(project)
    assert len(sent) == 5 * N
    cm, quality = np.frombuffer(sent[: 4 * N], "<i2").reshape(N, 2), np.frombuffer(sent[4 * N :], np.uint8)
    assert cm[3].tolist() == [30, -250]
    assert cm[8].tolist() == [image_quality.NOT_MEASURED] * 2  # one date does not show it
    assert (quality[3], quality[7], quality[8]) == (90, 0, 0)


def test_who_could_not_be_aligned_is_a_candidate_before_and_after_cutting_chips(project: Layout) -> None:
    measure(project)
    before = image_quality.image_quality(project)
    assert (before.reasons, before.candidates) == ({}, {"b7": "misaligned"})
    add_chips(project, IDS, cloud_share=[0.9, 0.3] + [0.0] * (N - 2))
    after = image_quality.image_quality(project)
    assert after.reasons == {"b0": "cloud"}
    assert after.candidates == {"b0": "cloud", "b1": "cloud", "b7": "misaligned"}
    measure(project, failed=2)
    again = image_quality.image_quality(project)
    assert before.shifts
    assert after.shifts != again.shifts, "another alignment has another name"
    assert again.candidates == {"b0": "cloud", "b1": "cloud", "b2": "misaligned"}


def test_one_building_is_told_of_in_full(project: Layout) -> None:
    add_chips(project, IDS, cloud_share=[0.9] + [0.0] * (N - 1))
    assert image_quality.imagery_of(project, "b0") == {
        "reason": "cloud", "candidate": "cloud", "post_hidden_share": 0.9,
    }  # fmt: skip
    measure(project)
    moved, failed, outside = (image_quality.imagery_of(project, name) for name in ("b3", "b7", "b8"))
    assert (moved["shift_dx_m"], moved["shift_dy_m"], moved["shift_quality"]) == (pytest.approx(0.3), -2.5, 0.9)
    assert (failed["shift_quality"], failed["candidate"]) == (0, "misaligned")
    assert "shift_quality" not in outside


SAR = replace(
    small_scene(), scene_id="sar-post-1", role="layer", layer="sar-post", when="post", kind="sar-db", bands=2, rgb=(1, 2), dtype="float32",
    stretch=((-20.0, 5.0), (-28.0, -3.5)), sha256="5a",
)  # fmt: skip
FACTS = {
    "bands": "post", "building_ids": ["b3", "b1", "b2"],
    "views": [{"name": "post", "when": "post", "start": 0, "stop": 3}, {"name": "sar-post", "when": "post", "start": 3, "stop": 5}],
    "view_missing": {"sar-post": [0.5, 0.49, 1.0]}, "scaling": {"sar-post": {}}, "made_from": {"scenes": {scene_fingerprint(SAR): ["sar.tif", True, "sar-post"]}},
}  # fmt: skip


def test_only_layers_with_map_tiles_are_shown_and_a_building_that_half_lacks_one_is_named(project: Layout) -> None:
    assert preparation.layer_tiles(project) == []
    store.call(project, contents.add_layer_scenes, [SAR])
    assert preparation.layer_tiles(project, FACTS) == []
    tiles = project.quicklooks / "layers" / "sar-post"
    tiles.mkdir(parents=True)
    (tiles / "pyramid.json").write_text(json.dumps({"max_zoom": 4}), encoding="utf-8")
    (found,) = preparation.layer_tiles(project, FACTS)
    assert found.pop("v"), "a new pyramid has a new address"
    assert found == {
        "name": "sar-post", "when": "post", "max_zoom": 4, "n_bands": 2, "is_gray": True, "low": -20.0, "high": 5.0, "unit": "dB",
        "missing": ["b3", "b2"],
    }  # fmt: skip
    (without_chips,) = preparation.layer_tiles(project, {**FACTS, "view_missing": None})
    assert without_chips["missing"] == []
    of_before = {**FACTS, "made_from": {"scenes": {}}}  # chips were cut of files that others replaced
    assert preparation.layer_tiles(project, of_before)[0]["missing"] == []
