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
from pu_geo.project import model_files, runs
from pu_geo.project.layout import Layout, write_array
from pu_geo.services.project.copying import copy_project
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.apply_model import apply_model
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
