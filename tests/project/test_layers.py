"""Layers beside pre and post, and the table of views of a chip set, as a project stores them."""

from __future__ import annotations

from dataclasses import asdict, replace
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from small_parts import small_grid, small_scene

from pu_geo.project import contents
from pu_geo.records import Layer, View

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


@pytest.mark.parametrize(
    ("facts", "n_bands", "n_optical"), [({"bands": "post"}, 3, 3), ({"bands": "pre+post"}, 6, 6), (SET_WITH_LAYERS, 9, 6)]
)
def test_optical_bands_are_a_view_of_the_chips(facts: dict[str, Any], n_bands: int, n_optical: int) -> None:
    chips = np.arange(2 * n_bands, dtype=np.uint8).reshape(2, n_bands, 1, 1)
    found = contents.optical(chips, facts)
    assert np.shares_memory(found, chips)
    np.testing.assert_array_equal(found, chips[:, :n_optical])


def test_a_view_is_missing_from_half_of_the_outline_on() -> None:
    expected = [
        [False, True, False],  # pre: .3 beyond the scenes and .2 without data are a half; a cloud hides, it is not missing
        [False, False, True],  # post: .4 without data
        [True, False, True],  # sar-post: .5, .49, 1
        [False, False, False],
    ]
    np.testing.assert_array_equal(contents.is_missing(SET_WITH_LAYERS), expected)


def test_missing_of_a_set_from_before_outlines_were_measured_is_that_of_the_windows() -> None:
    facts = {"bands": "post", "building_ids": ["a", "b"], "nodata_share": [0.6, 0.1]}
    np.testing.assert_array_equal(contents.is_missing(facts), [[True, False]])
