"""What a project stores: layers beside pre and post, the table of views of a chip set, and uploaded files."""

from dataclasses import asdict, replace
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from small_parts import sites_grid, small_grid, small_scene

from pu_geo.errors import ProjectError
from pu_geo.records import Layer, View
from pu_geo.store import contents
from pu_geo.store.layout import Layout

GRID, SCENE = small_grid(), small_scene()
SAR = replace(
    SCENE, scene_id="sar-post-1", role="layer", layer="sar-post", when="post", kind="sar-db", bands=2, rgb=(1, 2), dtype="float32",
    stretch=((-20.0, 5.0), (-28.0, -3.5)), nodata=-9999.0, sha256="5a",
)  # fmt: skip
HEIGHT = replace(
    SAR, scene_id="height-1", layer="height", when="", kind="elevation", bands=1, rgb=(1,), stretch=((0.0, 306.0),)
)
SET_WITH_LAYERS: dict[str, Any] = {
    "bands": "pre+post",
    "building_ids": ["a", "b", "c"],
    "pre_outline": {"outside": [0.0, 0.3, 0.0], "nodata": [0.0, 0.2, 0.0], "cloud": [0.0, 0.0, 1.0]},
    "post_outline": {"outside": [0.0, 0.0, 0.0], "nodata": [0.0, 0.4, 1.0], "cloud": [0.0, 0.6, 0.0]},
    "views": [
        {"name": "pre", "when": "pre", "start": 0, "stop": 3},
        {"name": "post", "when": "post", "start": 3, "stop": 6},
        {"name": "sar-post", "when": "post", "start": 6, "stop": 8},
        {"name": "height", "when": "", "start": 8, "stop": 9},
    ],
    "view_missing": {"sar-post": [0.5, 0.49, 1.0], "height": [0.0, 0.0, 0.0]},
}


def test_files_of_a_layer_come_together_in_the_order_in_which_layers_were_added(db: Connection) -> None:
    second = replace(SAR, scene_id="sar-post-2")
    contents.add_layer_scenes(db, [SAR, HEIGHT])
    contents.add_layer_scenes(db, [second])
    assert [scene.scene_id for scene in contents.all_scenes(db)] == [SCENE.scene_id, "sar-post-1", "height-1", "sar-post-2"]
    assert contents.scenes(db) == [SCENE]
    assert contents.grid(db) == GRID
    sar, height = contents.layers(db)
    assert sar == Layer("sar-post", "post", "sar-db", (SAR, second), 2, ((-20.0, 5.0), (-28.0, -3.5)))
    assert (height.name, height.when, height.unit) == ("height", "", "m")
    assert height.steps == pytest.approx((1.2,))  # 306 m in 255 steps


def test_chip_sets_without_layers_have_their_dates_as_views() -> None:
    assert contents.views_of({"bands": "post"}) == (View("post", "post", 0, 3),)
    assert contents.views_of({"bands": "pre+post"}) == (View("pre", "pre", 0, 3), View("post", "post", 3, 6))
    assert contents.views_of(SET_WITH_LAYERS)[2:] == (View("sar-post", "post", 6, 8), View("height", "", 8, 9))
    assert [asdict(view) for view in contents.views_of(SET_WITH_LAYERS)] == SET_WITH_LAYERS["views"]
    chips = np.arange(18, dtype=np.uint8).reshape(2, 9, 1, 1)
    found = contents.optical(chips, SET_WITH_LAYERS)
    assert np.shares_memory(found, chips)
    np.testing.assert_array_equal(found, chips[:, :6])


def test_chips_that_are_not_there_are_refused(db: Connection) -> None:
    with pytest.raises(ProjectError, match="no chips yet"):
        contents.chosen_chip_set(db)
    contents.add_chip_set(db, "one", "post", 16, 3)
    assert (contents.chosen_chip_set(db), contents.chosen_chip_set(db, "one")) == ("one", "one")
    with pytest.raises(ProjectError, match="no chips 'two'; its chip sets are: one"):
        contents.chosen_chip_set(db, "two")


def test_a_view_is_missing_from_half_of_the_outline_on() -> None:
    expected = [
        [False, True, False],  # pre: .3 beyond the scenes and .2 without data are a half; a cloud hides, it is not missing
        [False, False, True],  # post: .4 without data
        [True, False, True],  # sar-post: .5, .49, 1
        [False, False, False],
    ]
    np.testing.assert_array_equal(contents.is_missing(SET_WITH_LAYERS), expected)
    before = {"bands": "post", "building_ids": ["a", "b"], "nodata_share": [0.6, 0.1]}  # outlines were not measured then
    np.testing.assert_array_equal(contents.is_missing(before), [[True, False]])


def test_names_lead_nowhere_else() -> None:
    expected = {
        "../../etc/passwd": "passwd",
        "C:\\Users\\ann\\a b.geojson": "a_b.geojson",
        "..": "file",
        ".hidden": "hidden",
    }
    expected |= {"a\0b\n.tif": "a_b_.tif", "家屋.gpkg": "家屋.gpkg", "x" * 300 + ".tif": "x" * 120 + ".tif"}
    assert {given: contents.safe_name(given) for given in expected} == expected


def test_pictures_of_one_name_get_a_folder_each_and_the_same_one_is_stored_once(project: Layout) -> None:
    files = [("pre.tif", b"west"), ("x/pre.tif", b"east"), ("pre.tif", b"west"), ("post.png", b"p"), ("post.pgw", b"w")]
    kept = contents.keep(project, files)
    assert [path.read_bytes() for path in kept] == [content for _, content in files]
    assert [path.name for path in kept] == ["pre.tif", "pre.tif", "pre.tif", "post.png", "post.pgw"]
    assert kept[0] == kept[2]
    assert len({path.parent for path in kept}) == 3
    assert kept[3].parent == kept[4].parent
    assert kept[3].parents[1] == project.folder / "sources"
    assert contents.keep(project, [(name, memoryview(content)) for name, content in files]) == kept
    (long,) = contents.keep(project, [("建" * 90 + ".geojson", b"{}")])  # more bytes than a name may have
    assert (long.suffix, long.read_bytes()) == (".geojson", b"{}")
    with pytest.raises(ProjectError, match="2 different files are called post"):  # whose world file is it?
        contents.keep(project, [("post.png", b"west"), ("post.png", b"east"), ("post.pgw", b"1")])


def test_empty_and_large_files_and_a_full_disk_are_refused(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(contents, "MAX_BYTES", 10)
    monkeypatch.setattr(contents, "atomic_write", full)
    for content, words in ((b"", "has 0 bytes"), (b"x" * 11, "has 11 bytes"), (b"x" * 10, "No space left")):
        with pytest.raises(ProjectError, match=words):
            contents.keep(project, [("a.geojson", content)])


def test_other_pixels_are_said_of_each_site() -> None:
    grid = sites_grid([5, 5])
    grid = replace(grid, sites=(grid.sites[0], replace(grid.sites[1], gsd_m=2.0)))
    assert contents.site_pixel_words(grid, [0.5]) == [
        "The model knows pixels of 0.50 m; in Site 2 they have 2.00 m, so buildings look other to it."
    ]
    assert contents.site_pixel_words(grid, [0.4, 1.8]) == []
    assert contents.oddest_gsd_m(grid, 0.6) == 2.0
