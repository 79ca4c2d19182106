"""Sets of features of named layers, made by the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from layered_chip_parts import EVERY, layer_request, layer_set, with_layers
from model_parts import with_chips
from small_parts import facts_of, job_of, small_project

from pu_geo.errors import PuGeoError
from pu_geo.project import contents, feature_sets, runs
from pu_geo.project.contents import chip_facts
from pu_geo.project.layout import Layout, write_array, write_json
from pu_geo.services.imagery import layers
from pu_geo.services.imagery.features import words_of
from pu_geo.services.project import choices
from pu_geo.tasks.imagery.features import features

pytestmark = pytest.mark.slow


def test_layers_that_nobody_names_are_both_dates_and_each_layer(project: Layout) -> None:
    with_layers(project)
    name = layer_set(project)
    found = feature_sets.find(project, "set", name)
    assert [view.name for view in feature_sets.views_of(found.maker)] == list(EVERY)
    assert layer_set(project, *EVERY) == name  # the same layers, named
    assert features(job_of(project), request=layer_request(*EVERY))["was_there"]
    assert layer_set(project, "pre+post", "sar-post") != name


def test_the_part_of_both_dates_is_the_set_rcf(project: Layout) -> None:
    with_layers(project)
    name = layer_set(project, "pre+post", "sar-post")
    np.testing.assert_array_equal(feature_sets.views(project, "set", name)[:, :, :512], feature_sets.views(project, "set"))


def test_missing_layers_hold_the_mean_of_the_buildings_that_have_them(project: Layout) -> None:
    _, lacks = with_layers(project)
    name = layer_set(project)
    views = feature_sets.views(project, "set", name).astype(np.float32)
    assert 0 < lacks.sum() < 20
    for view in views:
        expected = np.tile(np.sqrt(view[~lacks, 512:1024]).mean(0) ** 2, (lacks.sum(), 1))
        np.testing.assert_allclose(view[lacks, 512:1024], expected, rtol=2e-3, atol=1e-4)
        assert (view[~lacks, 512:1024].std(0) > 0).any()
    maker, facts = feature_sets.find(project, "set", name).maker, chip_facts(project, "set")
    found = feature_sets.is_missing(maker, facts)
    assert found is not None
    np.testing.assert_array_equal(found, [np.zeros(20, np.bool_), lacks, np.zeros(20, np.bool_)])
    assert feature_sets.is_missing({"kind": "rcf"}, facts) is None


def test_sensor_groups_are_matched_in_optical_columns_alone(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with_layers(project)
    matched: list[tuple[int, ...]] = []
    monkeypatch.setattr("pu_geo.analysis.sensors.match_groups", lambda views, *_, **__: matched.append(views.shape))
    facts = dict(chip_facts(project, "set"))
    write_json(project.chip_facts("set"), {**facts, "sensor_group": [0] * 20})
    layer_set(project, *EVERY, "post")
    assert matched == [(3, 20, 512), (3, 20, 512)]  # pre+post, post


def test_other_makers_take_pre_and_post_alone(project: Layout) -> None:
    with_layers(project)
    request = {**layer_request(), "maker": "self-supervised", "n_views": 1}
    with pytest.raises(PuGeoError, match="takes the optical bands alone"):
        features(job_of(project), request={**request, "layers": ["sar-post"]})
    name = str(features(job_of(project), request=request)["name"])
    assert feature_sets.find(project, "set", name).maker["kind"] == "self-supervised"


def test_chips_without_layers_have_a_set_of_their_dates(project: Layout) -> None:
    with_chips(project)
    name = layer_set(project)
    assert [view.name for view in feature_sets.views_of(feature_sets.find(project, "set", name).maker)] == ["pre+post"]
    assert feature_sets.usual_layers(contents.views_of({"bands": "post"})) == ("post",)
    with pytest.raises(PuGeoError, match="no layer 'sar-post'; they have pre, post"):
        layer_set(project, "sar-post")


@pytest.mark.usefixtures("home")
def test_buildings_with_none_of_the_layers_are_not_assessed(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    _, lacks = with_layers(project, seed=4, missing=0.25)
    made = run.json("features", project.folder, "--maker", "layers", "--layers", "sar-post", "--views", 3, "--use")
    words = f"{lacks.sum()} have none of the layers that are learned from: they are not assessed."
    assert made["layers_lacking"].endswith(f"{lacks.sum()} in sar-post. {words}")
    gone = {f"b{row}" for row in np.flatnonzero(lacks)}
    ranked = run.json("rank", project.folder)["run_id"]
    facts = facts_of(project, ranked)
    assert facts.n_hidden == lacks.sum()
    assert facts.n_positive + facts.n_unlabeled == 20 - lacks.sum()
    assert dict.fromkeys(gone, "no_layer") == choices.reasons_of(project, facts) == choices.reasons_by_chips(project, facts)
    trained = run.json("train", project.folder)["run_id"]
    assert set(choices.reasons_of(project, facts_of(project, trained)) or {}) == gone
    path = tmp_path / "m.pugeo-model.zip"
    run.text("model", "export", project.folder, trained, "--out", path)
    applied = facts_of(project, run.json("model", "apply", project.folder, path)["run_id"])
    assert applied.n_hidden == lacks.sum()
    assert set(choices.reasons_of(project, applied) or {}) == gone
    half = layers.in_chips(chip_facts(project, "set"), layers.learned_views(facts))[0]
    assert half["n_without_any"] == half["n_missing"] == lacks.sum()
    # one that another of the run's layers shows is ranked
    both = replace(facts, views=("pre+post", "sar-post"))
    assert not feature_sets.without_layers(both, chip_facts(project, "set")).any()


@pytest.mark.usefixtures("home")
def test_a_run_on_layers_goes_to_a_project_that_has_them_in_another_order(
    run: CommandLine, project: Layout, tmp_path: Path
) -> None:
    _, lacks = with_layers(project)
    made = run.json("features", project.folder, "--maker", "layers", "--layers", "pre+post, sar-post", "--views", 3, "--use")
    assert made["layers_lacking"] == (
        f"Of 20 buildings some have no data in a layer: {lacks.sum()} in sar-post. Their other layers rank them."
    )
    trained = run.json("train", project.folder)
    facts = facts_of(project, trained["run_id"])
    assert made["layers_lacking"] in facts.warnings
    card = tmp_path / "card.html"
    run.text("card", project.folder, "--out", card)
    assert "layers pre+post and sar-post; random convolutions" in card.read_text()
    path = tmp_path / "m.pugeo-model.zip"
    run.text("model", "export", project.folder, trained["run_id"], "--out", path)

    other = small_project(tmp_path / "other.pugeo", 20, "Other")
    with_layers(other)
    chips, of_set = np.load(other.chips("set")), dict(chip_facts(other, "set"))
    write_array(other.chips("set"), chips[:, [0, 1, 2, 3, 4, 5, 8, 6, 7]])
    views = [
        *of_set["views"][:2],
        {**of_set["views"][3], "start": 6, "stop": 7},
        {**of_set["views"][2], "start": 7, "stop": 9},
    ]
    write_json(other.chip_facts("set"), {**of_set, "views": views})
    applied = run.json("model", "apply", other.folder, path)["run_id"]
    np.testing.assert_array_equal(runs.array(other, applied, "scores"), runs.array(project, trained["run_id"], "scores"))
    assert made["layers_lacking"] in facts_of(other, applied).warnings
    kept = facts_of(other, applied).feature_maker
    assert (
        words_of("x", kept) == "x: layers pre+post and sar-post; random convolutions of patches of these chips; no weights"
    )

    without = with_chips(small_project(tmp_path / "without.pugeo", 20, "Without"))
    refused = run.refused("model", "apply", without.folder, path)
    assert "takes the layer sar-post with 2 bands; these chips have no such layer" in refused
    assert "pu-geo add-layer" in refused


@pytest.mark.usefixtures("home")
def test_a_model_of_both_dates_goes_to_a_project_with_layers(run: CommandLine, project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    trained = run.json("train", project.folder)["run_id"]
    path = tmp_path / "m.pugeo-model.zip"
    run.text("model", "export", project.folder, trained, "--out", path)
    applied = run.json("model", "apply", project.folder, path)["run_id"]
    np.testing.assert_array_equal(runs.array(project, applied, "scores"), runs.array(project, trained, "scores"))
