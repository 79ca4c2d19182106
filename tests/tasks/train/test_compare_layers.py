"""What each layer adds, by held-out clicks: an informative layer, a useless one, too few answers, and what is refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from layered_chip_parts import TABLE, layer_set, with_layers
from small_parts import add_chips, click, job_of, small_project

from pu_geo.project import feature_sets, store
from pu_geo.project.feature_sets import FeatureSet
from pu_geo.project.layout import Layout, write_array
from pu_geo.records import FeatureRequest, View
from pu_geo.services.train import layer_comparison
from pu_geo.tasks.train.compare_layers import compare_layers

N, N_DAMAGED, D = 160, 40, 4
LAYERS = ("pre+post", "sar-post", "dsm")
SPANS = tuple(View(name, "", D * k, D * k + D) for k, name in enumerate(LAYERS))


def layered(folder: Path, n_clicks: int = 20) -> Layout:
    """Return a project with features of three layers: pre+post shows some damage, SAR much more, and elevation none."""
    layout, rng = small_project(folder / "layered.pugeo", N), np.random.default_rng(0)
    views = 6 + rng.normal(size=(17, N, 3 * D)) * 0.2 + rng.normal(size=(1, N, 3 * D))
    views[:, :N_DAMAGED, 0:2] += 0.8
    views[:, :N_DAMAGED, D : D + 2] += 2.5
    lacks = rng.random(N) < 0.2
    views[:, lacks, D : 2 * D] = views[:, ~lacks, D : 2 * D].mean(1, keepdims=True)
    facts = {
        "views": [asdict(view) for view in TABLE],
        "view_missing": {"sar-post": lacks.astype(float).tolist(), "dsm": [0.0] * N},
    }
    chips = np.zeros((N, 9, 16, 16), np.uint8)
    arrays = {"chips": chips, "features": views[:, :, :D].astype(np.float16)}
    add_chips(layout, [f"b{i}" for i in range(N)], bands="pre+post", **arrays, **facts)
    name = feature_sets.name_of(FeatureRequest("layers", layers=LAYERS), "")
    write_array(layout.features("set", name), views.astype(np.float16))
    maker = {"kind": "layers", "views": [asdict(view) for view in SPANS]}
    feature_sets.put(layout, "set", FeatureSet(name, maker, 17, N, 3 * D, created_at=store.now()))
    click(layout, *(f"b{i}" for i in range(n_clicks)))
    return layout


def of_layer(found: layer_comparison.LayerComparison, layer: str) -> layer_comparison.LayerRow:
    return next(row for row in found.rows if row.layer == layer)


@pytest.mark.slow
def test_a_layer_that_shows_damage_adds_and_a_useless_one_is_not_blamed(tmp_path: Path) -> None:
    layout = layered(tmp_path)
    result = compare_layers(job_of(layout), methods=["ranker"])
    found = layer_comparison.last(layout)
    assert found is not None
    assert found.as_json() == result
    sar, dsm = of_layer(found, "sar-post"), of_layer(found, "dsm")
    assert sar.gain.mean == pytest.approx(sar.ap - sar.ap_without)
    assert sar.gain.low > 0
    assert dsm.gain.mean > -0.05
    assert (found.n_clicks, found.n_others, found.n_unlabeled, len(found.rows)) == (20, 0, N - 20, 3)
    assert found.n_lacking["sar-post"] > found.n_lacking["dsm"] == 0
    assert layer_comparison.what_changed(layout, found) == ""
    click(layout, "b50")
    assert layer_comparison.what_changed(layout, found) == "There are new answers since: compare again."
    assert [one.name for one in feature_sets.all_sets(layout, "set")] == ["rcf", found.features]  # nothing was made for it


@pytest.mark.ci
@pytest.mark.usefixtures("home")
def test_the_set_of_all_layers_is_made_on_the_way(run: CommandLine, tmp_path: Path) -> None:
    layout = small_project(tmp_path / "event.pugeo", 60)
    with_layers(layout, 60, n_clicks=12)
    found = run.json("compare-features", layout.folder, "--layers", "--methods", "ranker")
    assert found["features"] == layer_set(layout, n_views=17)
    assert [row["layer"] for row in found["rows"]] == list(LAYERS)
    printed = run.text("compare-features", layout.folder, "--layers", "--methods", "ranker")
    assert "AP with all layers" in printed
    assert "held-out" in printed or "clicks of your own" in printed
