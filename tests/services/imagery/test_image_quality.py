"""What the map is told of the imagery: shifts, who could not be aligned, and layers with the buildings that they lack."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from small_parts import add_chips, small_scene

from pu_geo.project import alignment, contents, store
from pu_geo.project.alignment import Alignment
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import image_quality, preparation
from pu_geo.ui.components.damage_view import encode_layer
from pu_geo.ui.components.project_view import _named

N = 20
IDS = [f"b{i}" for i in range(N)]


def align(layout: Layout, *, failed: int = 7, outside: int = 8) -> None:
    quality = np.full(N, 0.9)
    quality[[failed, outside]] = 0
    dx, dy, none = np.linspace(0, 1.9, N), np.full(N, -2.5), np.zeros(N, dtype=bool)
    found = Alignment(IDS, dx, dy, quality, np.arange(N) != outside, none, np.array([1.0, -2.5]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def test_shifts_travel_as_centimetres_and_hundredths(project: Layout) -> None:
    assert image_quality.shifts_for_browser(project) is None
    assert image_quality.image_quality(project) == image_quality.ImageQuality()
    align(project)
    sent = image_quality.shifts_for_browser(project)
    assert len(sent) == 5 * N
    cm, quality = np.frombuffer(sent[: 4 * N], "<i2").reshape(N, 2), np.frombuffer(sent[4 * N :], np.uint8)
    assert cm[3].tolist() == [30, -250]
    assert cm[8].tolist() == [image_quality.NOT_MEASURED] * 2  # one date does not show it
    assert (quality[3], quality[7], quality[8]) == (90, 0, 0)


def test_who_could_not_be_aligned_is_a_candidate_before_and_after_cutting_chips(project: Layout) -> None:
    align(project)
    before = image_quality.image_quality(project)
    assert (before.reasons, before.candidates) == ({}, {"b7": "misaligned"})
    add_chips(project, IDS, cloud_share=[0.9, 0.3] + [0.0] * (N - 2))
    after = image_quality.image_quality(project)
    assert after.reasons == {"b0": "cloud"}
    assert after.candidates == {"b0": "cloud", "b1": "cloud", "b7": "misaligned"}
    align(project, failed=2)
    again = image_quality.image_quality(project)
    assert before.shifts
    assert after.shifts != again.shifts, "another alignment has another name"
    assert again.candidates == {"b0": "cloud", "b1": "cloud", "b2": "misaligned"}


def test_one_building_is_told_of_in_full(project: Layout) -> None:
    add_chips(project, IDS, cloud_share=[0.9] + [0.0] * (N - 1))
    assert image_quality.imagery_of(project, "b0") == {
        "reason": "cloud", "candidate": "cloud", "post_hidden_share": 0.9,
    }  # fmt: skip
    align(project)
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
    "view_missing": {"sar-post": [0.5, 0.49, 1.0]}, "scaling": {"sar-post": {"files": [{"scene_id": "sar-post-1", "sha256": "5a"}]}},
}  # fmt: skip


def test_only_layers_with_map_tiles_are_shown_and_a_building_that_half_lacks_one_is_named(project: Layout) -> None:
    assert preparation.layer_tiles(project) == []
    store.call(project, contents.add_layer_scenes, [SAR])
    assert preparation.layer_tiles(project, FACTS) == []
    tiles = project.quicklooks / "layers" / "sar-post"
    tiles.mkdir(parents=True)
    (tiles / "pyramid.json").write_text(json.dumps({"max_zoom": 4}), encoding="utf-8")
    (found,) = preparation.layer_tiles(project, FACTS)
    assert (found.layer.name, found.max_zoom, found.missing) == ("sar-post", 4, ("b3", "b2"))
    (without_chips,) = preparation.layer_tiles(project, {**FACTS, "view_missing": None})
    assert without_chips.missing == ()
    sent = encode_layer(_named(found), {"b1": 1, "b2": 2, "b3": 7})
    assert {name: sent[name] for name in ("when", "is_gray", "low", "high", "unit", "missing")} == {
        "when": "post", "is_gray": True, "low": -20.0, "high": 5.0, "unit": "dB", "missing": "2 5",
    }  # fmt: skip
    assert sent["v"], "a new pyramid has a new address"
    three = replace(found.layer, bands=3, scaling=((0.0, 1.0),) * 3)
    assert not encode_layer(_named(replace(found, layer=three)), {})["is_gray"]
    own = FACTS["scaling"]["sar-post"]["files"]
    for files in ([{"scene_id": "sar-post-1", "sha256": "other"}], [], [*own, {"scene_id": "x", "sha256": "x"}]):
        of_before = {**FACTS, "scaling": {"sar-post": {"files": files}}}  # chips were cut of files that others replaced
        assert preparation.layer_tiles(project, of_before)[0].missing == (), files
