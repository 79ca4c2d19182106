"""Features by shared filters, from the command line to a model in another project: with the statistics of its training, or without."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from model_parts import job_of, parts, with_chips
from safetensors.numpy import load, save
from small_parts import facts_of, small_project

from pu_geo.errors import ModelError
from pu_geo.features.bank import fingerprint
from pu_geo.features.shared import SharedBank
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.project import feature_sets, model_files, runs
from pu_geo.project.layout import Layout
from pu_geo.services.train import run_card
from pu_geo.tasks.explore.embed import embed_again
from pu_geo.tasks.imagery.features import features, maker_in, settle
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.apply_model import apply_model, check_model

pytestmark = pytest.mark.slow
SHORT = {"epochs": "2", "max_steps": "4", "batch_size": "10"}


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture
def other(tmp_path: Path) -> Layout:
    """Another project of 20 buildings, whose imagery is darker and flatter."""
    found = with_chips(small_project(tmp_path / "other.pugeo", 20, "Other"), seed=1)
    np.save(found.chips("set"), np.load(found.chips("set")) // 3 + 5)
    return found


def made(layout: Layout, dates: str = "both") -> str:
    request = {"maker": "shared", "dates": dates, "n_views": 3}
    return str(features(job_of(layout, "features"), request=request, use=True)["name"])


def trained(layout: Layout, name: str) -> str:
    args = TrainingRequest("ncpu", "quick", 0, SHORT, None, 0, name).as_args()
    return str(train_task.train(job_of(layout, "train"), **args)["run_id"])


def exported(layout: Layout, run_id: str, path: Path, *, has_statistics: bool = True) -> Path:
    """Write a model file as the app does, or as a training of several projects, which leaves their statistics with them."""
    card, weights = parts(layout, run_id)
    if not has_statistics:
        left = {name: array for name, array in load(weights).items() if not name.startswith("feature_maker.")}
        facts, weights = json.loads(card), save(left)
        facts["tensors"] = {name: facts["tensors"][name] for name in left}
        card = json.dumps({**facts, "sha256": hashlib.sha256(weights).hexdigest()}).encode()
    model_files.write(path, card, weights)
    return path


def scores(layout: Layout, run_id: str) -> np.ndarray:
    return np.asarray(runs.array(layout, run_id, "scores"))


def test_projects_have_one_feature_space_and_a_model_goes_from_one_to_another(
    chipped: Layout, other: Layout, tmp_path: Path
) -> None:
    name = made(chipped)
    assert (name, name.partition("-")[0]) == (made(other), "shared")
    makers = [maker_in(layout, "set", name) for layout in (chipped, other)]
    assert all(isinstance(one, SharedBank) for one in makers)
    assert fingerprint(makers[0]) == fingerprint(makers[1])  # type: ignore[arg-type]
    assert not np.array_equal(makers[0].band_mean, makers[1].band_mean)  # type: ignore[union-attr]
    run_id = trained(chipped, name)
    assert facts_of(chipped, run_id).feature_maker["holds_imagery"] is False
    words = run_card.as_markdown(run_card.card(chipped, run_id))
    assert "made-up sample event; they hold no imagery of yours; pre and post together" in words
    assert {key for key in load(parts(chipped, run_id)[1]) if key.startswith("feature_maker.")} == {
        "feature_maker.band_mean", "feature_maker.band_std"
    }  # fmt: skip
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip")
    assert "the same in every project" in str(check_model(path)["features"])
    same = with_chips(small_project(tmp_path / "same.pugeo", 20, "Same"))
    np.testing.assert_array_equal(
        scores(same, str(apply_model(job_of(same, "apply"), path=str(path))["run_id"])), scores(chipped, run_id)
    )
    applied = facts_of(other, str(apply_model(job_of(other, "apply"), path=str(path))["run_id"]))
    assert (applied.feature_set, applied.feature_maker) == (name, facts_of(chipped, run_id).feature_maker)
    assert any(
        "differ in brightness" in words for words in applied.warnings
    )  # it reads chips by the statistics of its training


def test_a_model_without_statistics_reads_chips_by_those_of_the_project(
    chipped: Layout, other: Layout, tmp_path: Path
) -> None:
    name = made(chipped)
    run_id = trained(chipped, name)
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip", has_statistics=False)
    assert "the same in every project" in str(check_model(path)["features"])
    same = with_chips(small_project(tmp_path / "same.pugeo", 20, "Same"))
    again = str(apply_model(job_of(same, "apply"), path=str(path))["run_id"])
    np.testing.assert_array_equal(scores(same, again), scores(chipped, run_id))  # the same chips have the same statistics
    found = facts_of(other, str(apply_model(job_of(other, "apply"), path=str(path))["run_id"]))
    assert not any("differ in brightness" in words for words in found.warnings)
    embedded = embed_again(job_of(same, "embed"), facts_of(same, again), "set", np.arange(5))
    stored = np.asarray(runs.array(same, again, "embeddings"), np.float32)[:5]
    np.testing.assert_allclose(embedded, stored / np.linalg.norm(stored, axis=1, keepdims=True), atol=0.01)


def test_a_model_of_other_filters_is_refused(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    card, weights = parts(chipped, trained(chipped, made(chipped)))
    facts = json.loads(card)
    facts["feature_maker"]["weights_sha256"] = "0" * 64
    model_files.write(tmp_path / "m.zip", json.dumps(facts).encode(), weights)
    with pytest.raises(ModelError, match="were made by other filters"):
        apply_model(job_of(other, "apply"), path=str(tmp_path / "m.zip"))


@pytest.mark.usefixtures("home")
def test_the_command_line_makes_shared_features(run: CommandLine, chipped: Layout) -> None:
    made = run.json("features", chipped.folder, "--maker", "shared", "--views", 2, "--use")
    assert (made["n_features"], made["in_use"], made["was_there"]) == (512, made["name"], False)
    assert run.json("features", chipped.folder, "--maker", "shared", "--views", 2)["was_there"] is True
    assert "the same in every project" in run.text("features", chipped.folder)
    assert np.isfinite(feature_sets.views(chipped, "set", made["name"])).all()
    post = run.json("features", chipped.folder, "--maker", "shared", "--dates", "post", "--views", 2)
    assert post["name"] != made["name"]
    assert "both dates, or post alone" in run.refused("features", chipped.folder, "--maker", "shared", "--dates", "diff")
    assert "leave no choice of pool" in run.refused("features", chipped.folder, "--maker", "shared", "--pool", "footprint")
    assert run.json("train", chipped.folder)["run_id"]


def test_features_of_another_sensor_stay_above_zero_when_they_are_matched() -> None:
    """Means of cut-off responses are never below 0, unlike what networks give."""
    roots = np.concatenate([np.repeat([0.0, 2.0], 15)[:, None], np.random.default_rng(0).normal(10, 1, (30, 1))])
    views = np.square(roots)[None].astype(np.float16)
    facts = {"sensor_group": np.repeat([0, 1], 30).tolist()}
    settle(views, SharedBank.of("both"), facts, np.ones(60, np.bool_))
    assert views[0, 30:].max() < 20
    assert views.min() == 0
