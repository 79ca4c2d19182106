"""Which named layers the map can show, and which buildings they lack."""

from __future__ import annotations

import json
from dataclasses import replace

from small_parts import small_scene

from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import preparation
from pu_geo.ui.components.damage_view import encode_layer
from pu_geo.ui.components.project_view import _named

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
