"""A trained model is whole in its two files, goes to another project in one, and is believed nothing on its way."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import N_VIEWS, SIDE_PX, N, TrainedOnce, array_of, exported, job_of, parts, trained, with_chips
from safetensors.numpy import load, save
from small_parts import click, facts_of, in_tiers, small_project

from pu_geo.errors import ModelError, ProjectError
from pu_geo.methods import catalog
from pu_geo.runs import restored_model_job
from pu_geo.runs import train_job as train_task
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.runs.restored_model_job import RestoredModel, restore
from pu_geo.store import runs, store
from pu_geo.store.layout import Layout
from pu_geo.training import model_files
from pu_geo.training.backbones import new_backbone

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
SMALL = {"backbone": "small"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in catalog.METHODS},
    "chips": ("ce", SMALL),
    "chips of types": ("herocon", {**SMALL, "embedding_dim": 8}),
    "chips of classes": ("fedaws", SMALL),
}
QUICK = ("propagation", "linear", "ncpu", "herocon", "ncl", "fedaws", "chips")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> TrainedOnce:
    return TrainedOnce(with_chips(small_project(tmp_path_factory.mktemp("once") / "event.pugeo", N)))


@pytest.fixture
def other(tmp_path: Path) -> Layout:
    """Another project of 20 buildings, without chips."""
    return small_project(tmp_path / "other.pugeo", N, "Other")


def restored_from(card: bytes, weights: bytes) -> RestoredModel:
    return restore(model_files.from_parts(card, weights, "m.zip"), CPU)


@pytest.mark.parametrize("way", in_tiers(WAYS, "contract", quick=QUICK))
def test_card_and_weights_alone_give_bit_equal_scores(way: str, once: TrainedOnce) -> None:
    method, settings = WAYS[way]
    layout, run_id = once.layout, once.run(method, **settings)
    found, chips = restored_from(*parts(layout, run_id)), np.load(layout.chips("set"))
    assert (found.bank is None) == ("chips" in way)
    inputs = chips
    if found.bank is not None:
        inputs = found.bank.transform(chips, found.n_views, seed=found.seed, device=CPU)
        np.testing.assert_array_equal(inputs, np.load(layout.features("set")))
    np.testing.assert_array_equal(found.model.embed(inputs), array_of(layout, run_id, "embeddings"))  # of all that it scores
    np.testing.assert_array_equal(found.model.score(inputs), runs.scores_alone(layout, run_id))  # a model has no neighbors


def test_the_card_says_what_was_learned_from_and_is_in_the_manifest(chipped: Layout) -> None:
    run_id = trained(chipped, "ncpu", variant="released")
    card_bytes, weights = parts(chipped, run_id)
    card = json.loads(card_bytes)
    there, facts = card["learned_from"], facts_of(chipped, run_id)
    assert (card["format"], card["format_version"], card["method"]) == ("pu-geo model", 1, "ncpu")
    assert (card["variant"], card["seed"]) == ("released", 0)
    assert (card["device"], card["threshold"], card["settings"]) == (facts.device, facts.threshold, facts.settings)
    assert {"pu_geo", "torch", "numpy", "python"} <= card["versions"].keys()
    assert card["input"] == {"kind": "features", "n_views": N_VIEWS, "seed": 0, "shape": [16]}
    states = ["damaged"] * 6 + ["unlabeled"] * 8 + ["not damaged"] * 6
    lines = "".join(f"b{i}\t{state}\n" for i, state in enumerate(states))
    assert there == {
        "chip_set": "set", "bands": "pre+post", "chip_shape": [6, SIDE_PX, SIDE_PX], "gsd_m": 0.5, "n_chips": 20,
        "n_positive": 6, "n_not_damaged": 6, "n_left_out": 0, "n_unlabeled": 14, "at_event": 12, "at_decision": 0,
        "types_from": None, "class_names": ["not damaged", "damaged"], "n_held_out": 0,
        "sha256_chips": hashlib.sha256(np.load(chipped.chips("set")).tobytes()).hexdigest(),
        "sha256_labels": hashlib.sha256(lines.encode()).hexdigest(),
    }  # fmt: skip
    manifest = json.loads((chipped.run(run_id) / "manifest.json").read_text())["sha256"]
    assert manifest["model.json"] == hashlib.sha256(card_bytes).hexdigest()
    assert manifest["model.safetensors"] == hashlib.sha256(weights).hexdigest() == card["sha256"]
    assert card["tensors"] == {
        name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in load(weights).items()
    }


def test_a_network_starts_from_the_backbone_of_a_model_and_no_path_of_this_machine_travels(
    once: TrainedOnce, other: Layout, tmp_path: Path
) -> None:
    run_id = once.run("ce", **SMALL)
    path = exported(once.layout, run_id, tmp_path / "m.pugeo-model.zip")
    arrays = load(parts(once.layout, run_id)[1])
    backbone = new_backbone("small", 6, torch.Generator().manual_seed(1), weights_file=path)
    for name, tensor in backbone.state_dict().items():
        if tensor.is_floating_point():
            np.testing.assert_array_equal(tensor.numpy(), arrays[f"trunk.backbone.{name}"])
    with_chips(other)
    chosen = {"backbone": "small", "lr": 1e-7, "weight_decay": 0.0}
    card, weights = parts(other, trained(other, "ce", **chosen, weights_file=path))
    started, fresh = load(weights), load(parts(other, trained(other, "ce", **chosen))[1])
    first = "trunk.backbone.conv1.weight"
    assert np.abs(started[first] - arrays[first]).max() < 1e-5 < np.abs(fresh[first] - arrays[first]).max()
    assert json.loads(card)["settings"]["weights_file"] == "m.pugeo-model.zip"
    assert str(tmp_path).encode() not in card + weights
    changed = json.loads(card)
    changed["settings"] |= {"weights_file": "/etc/passwd", "compiled": True}
    made = restored_from(json.dumps(changed).encode(), weights)
    assert made.bank is None
    assert (made.settings.weights_file, made.settings.compiled) == ("", False), "what a run by this model will say"


def test_another_project_scores_its_buildings_by_the_model(once: TrainedOnce, other: Layout, tmp_path: Path) -> None:
    run_id = once.run("ncpu")
    path = exported(once.layout, run_id, tmp_path / "m.pugeo-model.zip")
    with_chips(other, is_clicked=False)  # the same chips, with filters of its own
    np.savez(other.filters("set"), allow_pickle=False)
    applied = str(apply_model(job_of(other, "apply"), path=path)["run_id"])
    for name in ("scores", "embeddings"):
        np.testing.assert_array_equal(array_of(other, applied, name), array_of(once.layout, run_id, name))
    facts, there = facts_of(other, applied), facts_of(once.layout, run_id)
    sha256 = json.loads(parts(once.layout, run_id)[0])["sha256"]
    assert facts.method == "ncpu"
    assert facts.from_model == {
        "file": "m.pugeo-model.zip", "sha256": sha256, "run_id": run_id, "at_event": 12, "n_positive": 6,
    }  # fmt: skip
    assert (facts.settings, facts.preset, facts.threshold) == (there.settings, there.preset, there.threshold)
    assert "nothing was learned from the answers in this project" in facts.warnings[0]
    assert (facts.types, facts.types_from, runs.type_scores(other, facts)) == ((), None, None)
    assert parts(other, applied) == parts(once.layout, run_id)  # so it can be handed on from here
    assert not list((other.jobs / "apply").glob("features*"))


def test_scores_of_damage_types_are_kept_and_a_model_gives_them_elsewhere(
    chipped: Layout, other: Layout, tmp_path: Path
) -> None:
    few = {"epochs": "2", "max_steps": "4"}
    click(chipped, "b0", "b1", damage_types=["roof"])
    click(chipped, "b2", "b3", damage_types=["mud"])
    job = job_of(chipped, "typed")
    run_id = str(train_task.train(job, method="herocon", preset="quick", overrides=few, types_from="answers")["run_id"])
    facts = facts_of(chipped, run_id)
    found = runs.type_scores(chipped, facts)
    assert found is not None
    assert facts.types == found[0] == ("mud", "roof")  # equally frequent ones by name
    assert (facts.types_from, facts.is_ordinal) == ("answers", False)
    assert (found[1].shape, found[1].dtype) == ((20, 2), np.float32)
    assert ((found[1] >= 0) & (found[1] <= 1)).all()
    path = exported(chipped, run_id, tmp_path / "m.zip")
    with_chips(other)
    applied = facts_of(other, str(apply_model(job_of(other, "apply"), path=path)["run_id"]))
    again = runs.type_scores(other, applied)
    assert again is not None
    assert (again[0], applied.types_from, applied.is_ordinal) == (found[0], "answers", False)
    np.testing.assert_array_equal(again[1], found[1])
    stored = chipped.run(run_id) / "type_scores.npy"
    np.save(stored, np.load(stored)[:, :1])
    with pytest.raises(ProjectError, match=r"type_scores.npy .* holds \[20, 1\] scores; 20 buildings and 2 damage types"):
        runs.type_scores(chipped, facts)


def test_chips_of_other_bands_are_refused_with_what_to_do(once: TrainedOnce, other: Layout, tmp_path: Path) -> None:
    path = exported(once.layout, once.run("linear"), tmp_path / "m.zip")
    with_chips(other, n_bands=3)
    with pytest.raises(ModelError) as refused:
        apply_model(job_of(other, "apply"), path=path)
    assert "was made for chips of pre and post bands, 16 x 16 px" in refused.value.problem
    assert "have post bands alone, 16 x 16 px" in refused.value.problem
    assert "--bands pre+post --size-px 16`; that needs a pre-event scene." in refused.value.hint
    with store.connect(other) as db:
        assert not runs.all_runs(db)


def test_other_pixels_and_other_light_are_said(once: TrainedOnce, other: Layout, tmp_path: Path) -> None:
    card, weights = once.parts("linear")
    told = json.loads(card)
    told["learned_from"]["gsd_m"] = 0.1
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    with_chips(other, is_clicked=False)
    chips = np.load(other.chips("set"), mmap_mode="r+")
    chips[:, 4] = 255
    result = apply_model(job_of(other, "apply"), path=str(tmp_path / "m.zip"))
    assert (result["n_positive"], facts_of(other).start_k, facts_of(other).threshold) == (0, None, told["threshold"])
    warnings = "\n".join(facts_of(other).warnings)
    assert "knows pixels of 0.10 m; here they have 0.50 m" in warnings
    assert "band 5 has a mean of 255 here" in warnings


def test_a_model_whose_filters_were_not_kept_stays_at_home(chipped: Layout) -> None:
    chipped.filters("set").unlink()
    with pytest.raises(ModelError, match="lacks the filters"):
        restored_from(*parts(chipped, trained(chipped, "linear")))


Change = Callable[[dict[str, Any], dict[str, np.ndarray[Any, Any]]], object]


def put(part: str, name: str, value: object) -> Change:
    return lambda card, _: card[part].update({name: value})


def array(name: str, value: object) -> Change:
    return lambda _, arrays: arrays.update({name: np.asarray(value)})


LARGE = np.ones((8, 6, SIDE_PX, SIDE_PX), np.float32)
LIES: dict[str, tuple[str, Change, str]] = {
    "method": ("ncpu", lambda card, _: card.update(method="resnet"), "no method 'resnet'"),
    "half a sign": ("ncpu", lambda card, _: card.update(title="\ud800"), "surrogates not allowed"),
    "setting out of bounds": ("ncpu", put("settings", "embedding_dim", 10**9), "between 2 and 2048"),
    "setting of another kind": ("ncpu", put("settings", "lr", {"a": 1}), "neither a word nor a number"),
    "another network": ("ncpu", put("settings", "embedding_dim", 32), "does not hold the network"),
    "bands": ("ncpu", put("learned_from", "chip_shape", [3, SIDE_PX, SIDE_PX]), "filters that do not make"),
    "other chips": ("chips", put("learned_from", "chip_shape", [6, 2 * SIDE_PX, 2 * SIDE_PX]), "two things about the shape"),
    "chips of no size": ("ncpu", put("learned_from", "chip_shape", [6, 10**6, 10**6]), "made for chips of shape"),
    "other inputs": ("ncpu", put("input", "shape", [18]), "for other inputs than its card says"),
    "views": ("ncpu", put("input", "n_views", 4097), "asks for 4097 views"),
    "one too many": ("ncpu", array("more", np.zeros(2, np.float32)), "does not hold the network"),
    "variance": ("ncpu", array("project.1.running_var", np.full(128, -1, np.float32)), "variances below 0"),
    "spread": ("ncpu", array("trunk.standardize.scale", np.zeros(16, np.float32)), "deviations of 0 or less"),
    "overflow": ("linear", array("classifier.weight", np.resize(np.float32([3e38, -3e38]), (1, 16))), "no finite numbers"),
    "nothing learned": ("linear", array("classifier.weight", np.zeros((1, 16), np.float32)), "weights that are all 0"),
    "step of filters": ("ncpu", array("random_filters.step", np.array([0, 0.5], np.float32)), "step, a threshold"),
    "large filters": ("ncpu", array("random_filters.filters", LARGE), "filters that do not make"),
    "long list": ("herocon", array("kinds", np.arange(10**5)), "lists 100,000 whole numbers"),
    "types by number": ("herocon", lambda card, _: card.update(types=[1]), "does not name its damage types properly"),
    "types of none": ("linear", lambda card, _: card.update(types=["a"]), "names 1 damage types; its network judges 0"),
    "no list": ("ncl", lambda _, arrays: arrays.pop("known"), "does not hold the network"),
    "flat vectors": ("fedaws", array("class_vectors", np.ones(2, np.float32)), "do not fit each other"),
}


@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors")  # of the flat vectors, before they are refused
@pytest.mark.parametrize("lie", LIES)
def test_a_model_that_is_not_what_its_card_says_is_refused(lie: str, once: TrainedOnce) -> None:
    way, change, words = LIES[lie]
    method, settings = WAYS[way]
    honest_card, honest_weights = once.parts(method, **settings)
    card, arrays = json.loads(honest_card), dict(load(honest_weights))
    change(card, arrays)
    weights = save(arrays)
    card["sha256"] = hashlib.sha256(weights).hexdigest()
    card["tensors"] = {name: {"shape": list(one.shape), "dtype": one.dtype.name} for name, one in arrays.items()}
    with pytest.raises(ModelError) as refused:
        restored_from(json.dumps(card).encode(), weights)
    assert words in refused.value.problem
    assert refused.value.hint


def test_filters_that_take_too_long_are_refused(once: TrainedOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    made = restored_from(*once.parts("ncpu"))
    products = made.bank.filters.numel() * 3**2 * N_VIEWS  # a filter of 5 px takes 3 steps of 4 along 16 px
    monkeypatch.setattr(restored_model_job, "MAX_WORK", products)
    restored_from(*once.parts("ncpu"))
    monkeypatch.setattr(restored_model_job, "MAX_WORK", products - 1)
    with pytest.raises(ModelError, match="take too long"):
        restored_from(*once.parts("ncpu"))
