"""HeroCon learns from the layers of chips and of features, masks what a building lacks, and its model does so elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layered_chip_parts import TABLE, layer_set, with_layers
from model_parts import job_of, parts
from small_parts import facts_of, small_project

from pu_geo.errors import ModelError
from pu_geo.project import contents, model_files, runs
from pu_geo.project.layout import Layout, write_array
from pu_geo.services.imagery import layers
from pu_geo.services.project.copying import copy_project
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.apply_model import apply_model
from pu_geo.tasks.train.ensemble import ensemble
from pu_geo.tasks.train.import_run import import_run

pytestmark = pytest.mark.slow
ON_CHIPS = {"backbone": "small", "epochs": "2", "max_steps": "4", "batch_size": "10", "embedding_dim": "8"}
ON_FEATURES = {"epochs": "2", "max_steps": "4", "batch_size": "10"}


def trained(layout: Layout, name: str = "train", **overrides: str) -> str:
    job = job_of(layout, name)
    return str(train_task.train(job, method="herocon", preset="quick", overrides=overrides)["run_id"])


def scores_of(layout: Layout, run_id: str) -> np.ndarray[Any, Any]:
    return np.asarray(runs.array(layout, run_id, "scores"))


def exported(layout: Layout, run_id: str, path: Path) -> str:
    model_files.write(path, *parts(layout, run_id))
    return str(path)


def other_with_layers(folder: Path, missing: float) -> Layout:
    """Another project with the same chips, whose stored pixels of buildings that lack radar are others."""
    other = small_project(folder, 20, "Other")
    _, lacks = with_layers(other)
    chips = np.load(other.chips("set"))
    chips[lacks, 6:8] = missing
    write_array(other.chips("set"), chips)
    return other


def test_chips_with_layers_are_views_and_a_model_masks_them_in_another_project(project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    run_id = trained(project, **ON_CHIPS)
    card = json.loads(parts(project, run_id)[0])
    assert [view["name"] for view in card["input"]["views"]] == [view.name for view in TABLE]
    assert card["input"]["shape"] == card["learned_from"]["chip_shape"] == [9, 20, 20]
    path = exported(project, run_id, tmp_path / "m.zip")
    other = other_with_layers(tmp_path / "other.pugeo", missing=200)
    applied = str(apply_model(job_of(other, "apply"), path=path)["run_id"])
    np.testing.assert_array_equal(scores_of(other, applied), scores_of(project, run_id))


def test_a_run_on_chips_with_layers_says_that_it_learned_from_them_and_who_lacks_one(
    project: Layout, tmp_path: Path
) -> None:
    _, lacks = with_layers(project)
    facts = facts_of(project, trained(project, **ON_CHIPS))
    names = tuple(view.name for view in TABLE)
    assert layers.learned_views(facts) == names
    cut = layers.in_chips(contents.chip_facts(project, "set"), layers.learned_views(facts))
    assert [(one["name"], one["is_used"]) for one in cut] == [("sar-post", True), ("dsm", True)]
    assert any(f"{lacks.sum()} in sar-post" in words for words in facts.warnings)
    path = exported(project, facts.run_id, tmp_path / "m.zip")
    applied = facts_of(project, str(apply_model(job_of(project, "apply"), path=path)["run_id"]))
    assert layers.learned_views(applied) == names
    assert any(f"{lacks.sum()} in sar-post" in words for words in applied.warnings)
    both = facts_of(project, str(ensemble(job_of(project, "e"), run_ids=[facts.run_id, applied.run_id])["run_id"]))
    assert layers.learned_views(both) == names


@pytest.mark.parametrize("settings", [ON_CHIPS, ON_FEATURES])
def test_a_model_knows_the_buildings_that_it_learned_from(settings: dict[str, str], project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    path = exported(project, trained(project, **settings), tmp_path / "m.zip")
    there = facts_of(project, str(apply_model(job_of(project, "apply"), path=path)["run_id"]))
    assert "learned on these same buildings" in " ".join(there.warnings)
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)
    chips = np.load(other.chips("set"))
    write_array(other.chips("set"), 255 - chips)
    applied = facts_of(other, str(apply_model(job_of(other, "apply"), path=path)["run_id"]))
    assert "learned on another set of buildings" in " ".join(applied.warnings)


def test_a_model_of_chips_finds_its_layers_by_their_names(project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    run_id = trained(project, **ON_CHIPS)
    path = exported(project, run_id, tmp_path / "m.zip")
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)
    chips, facts = np.load(other.chips("set")), json.loads(other.chip_facts("set").read_text())
    pre, post, sar, dsm = facts["views"]
    facts["views"] = [
        pre, post, {**dsm, "start": 6, "stop": 7}, {"name": "slope", "when": "", "start": 7, "stop": 8},
        {**sar, "start": 8, "stop": 10},
    ]  # fmt: skip
    facts["view_missing"]["slope"] = [1.0] * 20
    facts["scaling"]["slope"] = facts["scaling"]["dsm"]
    other.chip_facts("set").write_text(json.dumps(facts))
    write_array(other.chips("set"), chips[:, [0, 1, 2, 3, 4, 5, 8, 8, 6, 7]])
    applied = str(apply_model(job_of(other, "apply"), path=path)["run_id"])
    np.testing.assert_array_equal(scores_of(other, applied), scores_of(project, run_id))
    facts["views"][4]["when"] = "pre"
    other.chip_facts("set").write_text(json.dumps(facts))
    with pytest.raises(ModelError, match="sar-post with the date post; sar-post of this project has the date pre"):
        apply_model(job_of(other, "again"), path=path)


def test_chips_without_its_layers_are_refused_by_their_names(project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    path = exported(project, trained(project, **ON_CHIPS), tmp_path / "m.zip")
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)
    facts = json.loads(other.chip_facts("set").read_text())
    facts["views"][2]["name"] = "radar"
    facts["view_missing"]["radar"] = facts["view_missing"].pop("sar-post")
    other.chip_facts("set").write_text(json.dumps(facts))
    with pytest.raises(ModelError, match=r"sar-post \(2\), dsm \(1\); the chips of this project have .*radar \(2\)"):
        apply_model(job_of(other, "apply"), path=path)


@pytest.mark.parametrize("on_features", [False, True])
def test_layers_of_another_kind_are_refused_and_of_another_scaling_are_named(
    project: Layout, tmp_path: Path, on_features: bool
) -> None:
    with_layers(project)
    if on_features:
        layer_set(project, "pre+post", "sar-post", use=True)
    run_id = trained(project, **(ON_FEATURES if on_features else ON_CHIPS))
    layers = json.loads(parts(project, run_id)[0])["learned_from"]["layers"]
    assert set(layers) == ({"sar-post"} if on_features else {"sar-post", "dsm"})
    assert layers["sar-post"] == {"when": "post", "kind": "sar-db", "unit": "dB", "bands": [[-25.0, 0.0], [-30.0, -5.0]]}
    path = exported(project, run_id, tmp_path / "m.zip")
    other = other_with_layers(tmp_path / "other.pugeo", missing=0)
    facts = json.loads(other.chip_facts("set").read_text())
    facts["scaling"]["sar-post"]["bands"][1] = [-12.0, 3.0]
    other.chip_facts("set").write_text(json.dumps(facts))
    warnings = facts_of(other, str(apply_model(job_of(other, "apply"), path=path)["run_id"])).warnings
    (warning,) = [one for one in warnings if "scaled" in one]
    assert "Band 2 of the layer sar-post is scaled from -12 to 3 dB here, and was from -30 to -5 dB" in warning
    facts["scaling"]["sar-post"]["kind"] = "elevation"
    other.chip_facts("set").write_text(json.dumps(facts))
    with pytest.raises(ModelError, match="sar-post with the kind sar-db; sar-post of this project has the kind elevation"):
        apply_model(job_of(other, "refused"), path=path)


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ([], "names other views than its network takes"),
        ([{"name": "pre"}], "does not name its views properly"),
        ([{"name": "a/b", "when": "", "start": 0, "stop": 9}], "names other views"),
        ("pre", "does not name its views properly"),
    ],
)
def test_a_card_that_names_other_views_is_refused(views: Any, words: str, project: Layout, tmp_path: Path) -> None:
    with_layers(project)
    card, weights = parts(project, trained(project, **ON_CHIPS))
    told = json.loads(card)
    told["input"]["views"] = views
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    with pytest.raises(ModelError, match=words):
        apply_model(job_of(project, "apply"), path=str(tmp_path / "m.zip"))


@pytest.mark.parametrize("settings", [ON_CHIPS, ON_FEATURES])
def test_a_run_on_layers_of_a_copy_is_taken(settings: dict[str, str], project: Layout) -> None:
    with_layers(project)
    layer_set(project, "pre+post", "sar-post", use=True)
    other = Layout(Path(str(copy_project(project, str(project.folder.with_name("copy.pugeo")))["out"])))
    there = trained(other, **settings)
    assert "trunk.spans" in json.loads(parts(other, there)[0])["tensors"]
    taken = str(import_run(job_of(project, "came"), folder=str(other.folder), run_id="latest")["run_id"])
    np.testing.assert_array_equal(scores_of(project, taken), scores_of(other, there))
    assert facts_of(project, taken).types == ()


def test_features_of_layers_are_masked_by_a_model_in_another_project(project: Layout, tmp_path: Path) -> None:
    _, lacks = with_layers(project)
    assert lacks.any()
    layer_set(project, "pre+post", "sar-post", use=True)
    run_id = trained(project, **ON_FEATURES)
    path = exported(project, run_id, tmp_path / "m.zip")
    other = other_with_layers(tmp_path / "other.pugeo", missing=200)
    applied = str(apply_model(job_of(other, "apply"), path=path)["run_id"])
    np.testing.assert_allclose(scores_of(other, applied), scores_of(project, run_id), atol=1e-6)
