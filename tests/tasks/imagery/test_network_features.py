"""Sets of real makers, from the command line to a model in another project: a random ResNet-18, and one that the chips taught."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
import torchvision
from cli_parts import CommandLine
from model_parts import job_of, parts, with_chips
from safetensors.torch import save_file
from small_parts import small_project

from pu_geo.errors import ModelError
from pu_geo.features.networks import NetworkMaker
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.project import feature_sets, model_files, runs
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery.features import maker_in
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.restored_model import restore

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture(scope="module")
def resnet18(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "random18.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(torchvision.models.resnet18(weights=None).state_dict(), path)
    return path


@pytest.mark.parametrize(("pool", "layer", "n"), [("mean", "", 3 * 512), ("footprint", "layer2", 3 * 128)])
def test_a_run_on_a_network_goes_to_another_project(
    pool: str, layer: str, n: int, run: CommandLine, chipped: Layout, resnet18: Path, tmp_path: Path
) -> None:
    options = ("--backbone", "resnet18", "--weights", resnet18, "--pool", pool, "--layer", layer, "--size", 32, "--views", 2)
    made = run.json("features", chipped.folder, *options, "--licence", "none", "--use")
    assert (made["n_features"], made["n_views"]) == (n, 2)
    views = feature_sets.views(chipped, "set", made["name"])
    assert np.isfinite(views).all()
    assert (views[0].std(axis=0) > 0).mean() > 0.5
    run_id = run.json("train", chipped.folder)["run_id"]
    few = ("--set", "epochs=2", "--set", "max_steps=4", "--set", "batch_size=10")
    assert run.json("train", chipped.folder, "--method", "ncpu", *few)["run_id"]
    path = tmp_path / "m.pugeo-model.zip"
    run.text("model", "export", chipped.folder, run_id, "--out", path)
    other = with_chips(small_project(tmp_path / "other.pugeo", 20, "Other"))
    applied = run.json("model", "apply", other.folder, path)["run_id"]
    np.testing.assert_array_equal(runs.array(other, applied, "scores"), runs.array(chipped, run_id, "scores"))


def test_a_model_without_its_maker_takes_that_of_the_project_with_its_own_scale(
    run: CommandLine, chipped: Layout, resnet18: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pu_geo.tasks.train.model_card.MAX_WITH_MAKER", 1000)
    options = ("--weights", resnet18, "--layer", "layer1", "--size", 32, "--views", 2, "--use")
    name = run.json("features", chipped.folder, "--backbone", "resnet18", *options)["name"]
    few = {"epochs": "2", "max_steps": "4", "batch_size": "10"}
    args = TrainingRequest("ncpu", "quick", 0, few, None, 0, name).as_args()
    run_id = str(train_task.train(job_of(chipped, "train"), **args)["run_id"])
    found = model_files.from_parts(*parts(chipped, run_id), "m.zip")
    maker = cast(NetworkMaker, maker_in(chipped, "set", name))

    def restored(other: NetworkMaker | None, **facts: object) -> NetworkMaker:
        card = {**found.card, "feature_maker": {**found.card["feature_maker"], **facts}}
        return cast(NetworkMaker, restore(replace(found, card=card), torch.device("cpu"), lambda _: other).bank)

    assert restored(replace(maker, scale=maker.scale * 4)).scale == maker.scale
    for other, facts, words in (
        (maker, {"scale": 3.0}, "does not say by what its features are multiplied"),
        (replace(maker, layer="layer2"), {}, "made in another way here .layer is layer2 here, layer1 there"),
        (replace(maker, pool="footprint"), {}, "pool is footprint here, mean there"),
    ):
        with pytest.raises(ModelError, match=words):
            restored(other, **facts)
    for facts, words in (
        ({}, "--backbone resnet18 --weights random18.safetensors --layer layer1 --size 32 --views 2`"),
        ({"weights_file": "a; b\x1b"}, "--weights 'a; b?' --layer"),
        ({"kind": "local-dir", "config": {"size_px": 32}}, "--backbone local-dir:FOLDER --layer layer1 --views 2`"),
        ({"kind": "local-dir", "config": {"size_px": 64}, "pool": "cls"}, "FOLDER --pool cls --layer layer1 --size 32"),
        ({"kind": "self-supervised", "layer": ""}, "learned from the chips there"),
    ):
        with pytest.raises(ModelError) as refused:
            restored(None, **facts)
        assert words in refused.value.hint, refused.value.hint


def test_the_chips_teach_a_network_of_their_own(run: CommandLine, chipped: Layout) -> None:
    made = run.json("features", chipped.folder, "--backbone", "self-supervised", "--views", 1, "--use")
    assert made["name"].startswith("self-supervised-")
    again = run.json("features", chipped.folder, "--backbone", "self-supervised", "--views", 1)
    assert (again["was_there"], again["name"]) == (True, made["name"])
    assert "trained on these chips, without labels" in run.text("features", chipped.folder)
    assert run.json("rank", chipped.folder)["run_id"]


def test_files_that_cannot_be_used_are_refused_in_words(
    run: CommandLine, chipped: Layout, resnet18: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "pickled.pth").write_bytes(pickle.dumps({"conv1.weight": 1}))
    (tmp_path / "pickled.safetensors").write_bytes(pickle.dumps({"conv1.weight": 1}))
    save_file({"conv1.weight": torch.zeros(3)}, tmp_path / "shape.safetensors")
    for backbone, file, words in (
        ("resnet18", "text.safetensors", "is damaged, or not a safetensors file"),
        ("resnet18", "pickled.pth", "ends in '.pth'; it must end in .safetensors"),
        ("resnet18", "pickled.safetensors", "is damaged, or not a safetensors file"),
        ("resnet18", "shape.safetensors", "shape.safetensors"),
        ("resnet50", str(resnet18), "random18.safetensors"),
    ):
        refused = run.refused("features", chipped.folder, "--backbone", backbone, "--weights", tmp_path / file)
        assert words in refused, refused
    assert "no layer 'layer9'" in run.refused(
        "features", chipped.folder, "--backbone", "resnet18", "--weights", resnet18, "--layer", "layer9"
    )
    assert not list((chipped.folder / "chips").glob("*resnet*"))


def test_without_timm_a_folder_is_refused_in_words(
    run: CommandLine, chipped: Layout, resnet18: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    (tmp_path / "config.json").write_text('{"architecture": "resnet18", "pretrained_cfg": {"input_size": [3, 64, 64]}}')
    (tmp_path / "model.safetensors").write_bytes(resnet18.read_bytes())
    refused = run.refused("features", chipped.folder, "--backbone", f"local-dir:{tmp_path}")
    assert "timm, which is not installed" in refused
    assert 'pip install "pu-geo[backbones]"' in refused


def test_chips_of_post_alone_need_features_of_post_alone(run: CommandLine, project: Layout, resnet18: Path) -> None:
    layout = with_chips(project, n_bands=3)
    options = ("--backbone", "resnet18", "--weights", resnet18, "--views", 1)
    assert "the chips show post alone" in run.refused("features", layout.folder, *options)
    assert run.json("features", layout.folder, *options, "--dates", "post")["n_features"] == 512
