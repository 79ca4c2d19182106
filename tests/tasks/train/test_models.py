"""A trained model is whole in its two files, goes to another project in one, and is believed nothing on its way."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_parts import N_VIEWS, SIDE_PX, N, job_of, parts, trained, with_chips
from safetensors.numpy import load, save
from small_parts import facts_of, small_project

from pu_geo.errors import ModelError, ProjectError, TrainingError
from pu_geo.features.layers import MOST_BANDS, MOST_BANKS, LayerBanks
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.methods import catalog
from pu_geo.project import model_files, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import View
from pu_geo.tasks.train import restored_model
from pu_geo.tasks.train import train as train_task
from pu_geo.tasks.train.apply_model import apply_model, check_model
from pu_geo.tasks.train.restored_model import RestoredModel, restore
from pu_geo.training.backbones import new_backbone

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
SMALL = {"backbone": "small"}
FROM_CHIPS: dict[str, dict[str, Any]] = {"ce": SMALL, "herocon": {**SMALL, "embedding_dim": 8}, "fedaws": SMALL}


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture
def other(tmp_path: Path) -> Layout:
    """Another project of 20 buildings, without chips."""
    return small_project(tmp_path / "other.pugeo", N, "Other")


def restored_from(card: bytes, weights: bytes) -> RestoredModel:
    return restore(model_files.from_parts(card, weights, "m.zip"), CPU)


def answers(layout: Layout, run_id: str, name: str = "scores") -> np.ndarray[Any, Any]:
    return np.asarray(runs.array(layout, run_id, name))


def exported(layout: Layout, run_id: str, path: Path) -> Path:
    model_files.write(path, *parts(layout, run_id))
    return path


@pytest.mark.parametrize("method", catalog.METHODS)
def test_card_and_weights_alone_give_bit_equal_scores_on_features(method: str, chipped: Layout) -> None:
    run_id = trained(chipped, method)
    found = restored_from(*parts(chipped, run_id))
    assert found.bank is not None
    chips = np.load(chipped.chips("set"))
    views = found.bank.transform(chips, found.n_views, seed=found.seed, device=CPU)
    np.testing.assert_array_equal(views, np.load(chipped.features("set")))
    np.testing.assert_array_equal(found.model.score(views), runs.scores_alone(chipped, run_id))  # a model has no neighbors
    np.testing.assert_array_equal(found.model.embed(views[0]), answers(chipped, run_id, "embeddings"))


@pytest.mark.parametrize("method", FROM_CHIPS)
def test_card_and_weights_alone_give_bit_equal_scores_on_chips(method: str, chipped: Layout) -> None:
    run_id = trained(chipped, method, **FROM_CHIPS[method])
    found = restored_from(*parts(chipped, run_id))
    assert found.bank is None
    chips = np.load(chipped.chips("set"))
    np.testing.assert_array_equal(found.model.score(chips), answers(chipped, run_id))


def test_the_card_says_what_was_learned_from(chipped: Layout) -> None:
    run_id = trained(chipped, "ncpu", variant="released")
    card = json.loads(parts(chipped, run_id)[0])
    there = card["learned_from"]
    facts = facts_of(chipped, run_id)
    assert (card["format"], card["format_version"], card["method"]) == ("pu-geo model", 1, "ncpu")
    assert (card["title"], card["paper"]) == (catalog.card("ncpu").title, catalog.card("ncpu").paper)
    assert (card["variant"], card["seed"]) == ("released", 0)
    assert (card["device"], card["threshold"]) == (facts.device, facts.threshold)
    assert card["settings"] == facts.settings
    assert {"pu_geo", "torch", "numpy", "python"} <= card["versions"].keys()
    assert there["sha256_chips"] == hashlib.sha256(np.load(chipped.chips("set")).tobytes()).hexdigest()
    assert there["sha256_features"] == hashlib.sha256(np.load(chipped.features("set")).tobytes()).hexdigest()
    states = ["damaged"] * 6 + ["unlabeled"] * 8 + ["not damaged"] * 6
    lines = "".join(f"b{i}\t{state}\n" for i, state in enumerate(states))
    assert there["sha256_labels"] == hashlib.sha256(lines.encode()).hexdigest()
    assert (there["n_positive"], there["n_unlabeled"], there["n_not_damaged"], there["at_event"]) == (6, 14, 6, 12)
    assert (there["bands"], there["chip_shape"], there["gsd_m"]) == ("pre+post", [6, SIDE_PX, SIDE_PX], 0.5)
    assert card["input"] == {"kind": "features", "n_views": N_VIEWS, "seed": 0, "shape": [16]}


def test_card_and_weights_are_in_the_manifest_and_in_each_other(chipped: Layout) -> None:
    run_id = trained(chipped, "linear")
    folder = chipped.run(run_id)
    manifest = json.loads((folder / "manifest.json").read_text())["sha256"]
    card, weights = parts(chipped, run_id)
    assert manifest["model.json"] == hashlib.sha256(card).hexdigest()
    assert manifest["model.safetensors"] == hashlib.sha256(weights).hexdigest() == json.loads(card)["sha256"]
    arrays = load(weights)
    assert json.loads(card)["tensors"] == {
        name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in arrays.items()
    }


def test_a_path_of_this_machine_does_not_travel(chipped: Layout) -> None:
    weights_file = chipped.folder / "secret" / "start.safetensors"
    weights_file.parent.mkdir()
    first = trained(chipped, "ce", backbone="small")
    state = {name.removeprefix("trunk."): array for name, array in load(parts(chipped, first)[1]).items()}
    save_backbone = {name: array for name, array in state.items() if name.startswith("backbone.")}
    weights_file.write_bytes(save(save_backbone))
    card, weights = parts(chipped, trained(chipped, "ce", backbone="small", weights_file=weights_file))
    assert json.loads(card)["settings"]["weights_file"] == "start.safetensors"
    assert str(chipped.folder).encode() not in card + weights
    assert restored_from(card, weights).bank is None


def test_another_project_scores_its_buildings_by_the_model(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    run_id = trained(chipped, "ncpu")
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip")
    with_chips(other)  # the same chips, with filters of its own
    np.savez(other.filters("set"), allow_pickle=False)
    result = apply_model(job_of(other, "apply"), path=str(path))
    applied = str(result["run_id"])
    np.testing.assert_array_equal(answers(other, applied), answers(chipped, run_id))
    np.testing.assert_array_equal(answers(other, applied, "embeddings"), answers(chipped, run_id, "embeddings"))
    facts = facts_of(other, applied)
    assert facts.method == "ncpu"
    assert (facts.from_model["run_id"], facts.from_model["file"]) == (run_id, "m.pugeo-model.zip")
    assert "nothing was learned from the answers in this project" in facts.warnings[0]
    assert parts(other, applied) == parts(chipped, run_id)  # so it can be handed on from here
    assert not list((other.jobs / "apply").glob("features*"))


def typed(layout: Layout) -> str:
    """Train HeroCon on kinds of damage that an attribute of the footprints names, and return its run."""
    few = {"epochs": "2", "max_steps": "4"}
    job = job_of(layout, "typed")
    return str(train_task.train(job, method="herocon", preset="quick", overrides=few, types_from="name")["run_id"])


def test_a_run_has_a_score_of_each_damage_type_and_its_model_gives_them_elsewhere(
    chipped: Layout, other: Layout, tmp_path: Path
) -> None:
    run_id = typed(chipped)
    facts = facts_of(chipped, run_id)
    found = runs.type_scores(chipped, facts)
    assert found is not None
    assert facts.types == found[0] == tuple(sorted(f"House {i}" for i in range(6)))  # equally frequent ones by name
    assert (facts.types_from, facts.is_ordinal) == ("name", False)
    assert found[1].shape == (20, 6)
    assert found[1].dtype == np.float32
    assert ((found[1] >= 0) & (found[1] <= 1)).all()
    manifest = json.loads((chipped.run(run_id) / "manifest.json").read_text())
    assert manifest["sha256"]["type_scores.npy"] == runs.sha256_of(chipped.run(run_id) / "type_scores.npy")
    path = exported(chipped, run_id, tmp_path / "m.zip")
    with_chips(other)
    applied = facts_of(other, str(apply_model(job_of(other, "apply"), path=str(path))["run_id"]))
    again = runs.type_scores(other, applied)
    assert again is not None
    assert again[0] == found[0]
    np.testing.assert_array_equal(again[1], found[1])
    assert (applied.types_from, applied.is_ordinal) == ("name", False)


def test_a_run_without_named_types_scores_none(chipped: Layout) -> None:
    run_id = trained(chipped, "herocon")
    facts = facts_of(chipped, run_id)
    assert (facts.types, facts.types_from, runs.type_scores(chipped, facts)) == ((), None, None)
    assert not (chipped.run(run_id) / "type_scores.npy").exists()


def test_lost_and_cut_off_scores_of_types_are_refused_in_words(chipped: Layout) -> None:
    facts = facts_of(chipped, typed(chipped))
    path = chipped.run(facts.run_id) / "type_scores.npy"
    np.save(path, np.load(path)[:, :5])
    with pytest.raises(ProjectError, match=r"type_scores.npy .* holds \[20, 5\] scores; 20 buildings and 6 damage types"):
        runs.type_scores(chipped, facts)
    path.unlink()
    with pytest.raises(ProjectError, match=r"type_scores\.npy"):
        runs.type_scores(chipped, facts)


def test_a_project_without_a_click_can_use_a_model(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    run_id = trained(chipped, "ce", backbone="small")
    path = exported(chipped, run_id, tmp_path / "m.zip")
    with_chips(other, seed=5, is_clicked=False)
    result = apply_model(job_of(other, "apply"), path=str(path))
    assert result["n_positive"] == 0
    assert not answers(other, str(result["run_id"]), "clusters").any()
    assert facts_of(other).threshold == facts_of(chipped, run_id).threshold


def test_chips_of_other_bands_are_refused_with_what_to_do(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    path = exported(chipped, trained(chipped, "linear"), tmp_path / "m.zip")
    with_chips(other, n_bands=3)
    with pytest.raises(ModelError) as refused:
        apply_model(job_of(other, "apply"), path=str(path))
    assert "was made for chips of pre and post bands, 16 x 16 px" in refused.value.problem
    assert "have post bands alone, 16 x 16 px" in refused.value.problem
    assert "--bands pre+post --size-px 16" in refused.value.hint
    with store.connect(other) as db:
        assert not runs.all_runs(db)


def test_other_pixels_and_other_light_are_said(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    card, weights = parts(chipped, trained(chipped, "linear"))
    told = json.loads(card)
    told["learned_from"]["gsd_m"] = 0.1
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    with_chips(other)
    chips = np.load(other.chips("set"), mmap_mode="r+")
    chips[:, 4] = 255
    apply_model(job_of(other, "apply"), path=str(tmp_path / "m.zip"))
    warnings = "\n".join(facts_of(other).warnings)
    assert "knows pixels of 0.10 m; here they have 0.50 m" in warnings
    assert "band 5 has a mean of 255 here" in warnings


def test_check_says_what_a_model_needs(chipped: Layout, tmp_path: Path) -> None:
    card, weights = parts(chipped, trained(chipped, "linear"))
    told = json.loads(card) | {"run_id": "\x1b[2Jrun"}
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    found = check_model(tmp_path / "m.zip")
    assert (found["method"], found["bands"], found["chip_shape"]) == ("linear", "pre+post", [6, SIDE_PX, SIDE_PX])
    assert (found["n_positive"], found["gsd_m"], found["run_id"]) == (6, 0.5, "?[2Jrun")
    told["learned_from"]["gsd_m"] = 10**400
    model_files.write(tmp_path / "m.zip", json.dumps(told).encode(), weights)
    assert check_model(tmp_path / "m.zip")["gsd_m"] is None


def test_a_model_whose_filters_were_not_kept_stays_at_home(chipped: Layout) -> None:
    chipped.filters("set").unlink()
    with pytest.raises(ModelError, match="lacks the filters"):
        restored_from(*parts(chipped, trained(chipped, "linear")))


Change = Callable[[dict[str, Any], dict[str, np.ndarray[Any, Any]]], None]


def setting(name: str, value: object) -> Change:
    return lambda card, _: card["settings"].update({name: value})


def learned(name: str, value: object) -> Change:
    return lambda card, _: card["learned_from"].update({name: value})


def seen(name: str, value: object) -> Change:
    return lambda card, _: card["input"].update({name: value})


def array(name: str, value: object) -> Change:
    return lambda _, arrays: arrays.update({name: np.asarray(value)})


def without(name: str) -> Change:
    def change(_: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        del arrays[name]

    return change


BIAS, LARGE = np.zeros(7, np.float32), np.ones((8, 6, SIDE_PX, SIDE_PX), np.float32)
LIES: dict[str, tuple[str, Change, str]] = {
    "method": ("ncpu", lambda card, _: card.update(method="resnet"), "no method 'resnet'"),
    "preset": ("ncpu", lambda card, _: card.update(preset="a\nb"), "that is no word"),
    "half a sign": ("ncpu", lambda card, _: card.update(title="\ud800"), "surrogates not allowed"),
    "unknown setting": ("ncpu", setting("evil", 1), "no setting 'evil'"),
    "setting out of bounds": ("ncpu", setting("embedding_dim", 10**9), "between 2 and 2048"),
    "setting of another kind": ("ncpu", setting("lr", {"a": 1}), "neither a word nor a number"),
    "another network": ("ncpu", setting("embedding_dim", 32), "does not hold the network"),
    "another backbone": ("ncpu", setting("backbone", "small"), "does not hold the network"),
    "bands": ("ncpu", learned("chip_shape", [3, SIDE_PX, SIDE_PX]), "filters that do not make"),
    "other chips": ("chips", learned("chip_shape", [6, 2 * SIDE_PX, 2 * SIDE_PX]), "two things about the shape"),
    "filters for chips": ("chips", array("random_filters.bias", BIAS), "while its network looks at chips"),
    "chips of no size": ("ncpu", learned("chip_shape", [6, 10**6, 10**6]), "made for chips of shape"),
    "inputs of no size": ("ncpu", seen("shape", [10**9]), "made for inputs of shape"),
    "other inputs": ("ncpu", seen("shape", [18]), "for other inputs than its card says"),
    "views": ("ncpu", seen("n_views", 4097), "asks for 4097 views"),
    "seed": ("ncpu", seen("seed", "x"), "with seed x"),
    "missing tensor": ("ncpu", without("classifier.bias"), "does not hold the network"),
    "one too many": ("ncpu", array("more", np.zeros(2, np.float32)), "does not hold the network"),
    "other type": ("ncpu", array("classifier.bias", np.zeros(2, np.float64)), "does not hold the network"),
    "other shape": ("ncpu", array("classifier.bias", np.zeros(3, np.float32)), "does not hold the network"),
    "variance": ("ncpu", array("project.1.running_var", np.full(128, -1, np.float32)), "variances below 0"),
    "spread": ("ncpu", array("trunk.standardize.scale", np.zeros(16, np.float32)), "deviations of 0 or less"),
    "overflow": ("linear", array("classifier.weight", np.resize(np.float32([3e38, -3e38]), (1, 16))), "no finite numbers"),
    "step of filters": ("ncpu", array("random_filters.step", np.array([0, 0.5], np.float32)), "step, a threshold"),
    "large filters": ("ncpu", array("random_filters.filters", LARGE), "filters that do not make"),
    "half a filter": ("ncpu", array("random_filters.bias", BIAS), "filters that do not make"),
    "long list": ("herocon", array("kinds", np.arange(10**5)), "lists 100,000 whole numbers"),
    "types by number": ("herocon", lambda card, _: card.update(types=[1]), "does not name its damage types properly"),
    "types twice": ("herocon", lambda card, _: card.update(types=["a", "a"]), "does not name its damage types properly"),
    "types too many": (
        "herocon",
        lambda card, _: card.update(types=["a", "b"]),
        "names 2 damage types; its network judges 1",
    ),
    "types of none": ("linear", lambda card, _: card.update(types=["a"]), "names 1 damage types; its network judges 0"),
    "more kinds": ("herocon", array("kinds", np.arange(1, 4)), "does not hold the network"),
    "no list": ("ncl", without("known"), "does not hold the network"),
    "flat vectors": ("fedaws", array("class_vectors", np.ones(2, np.float32)), "do not fit each other"),
    "other vectors": ("fedaws", array("class_vectors", np.ones((2, 5), np.float32)), "do not fit each other"),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    """Card and weights of one model of each method that lies are told about."""
    layout = small_project(tmp_path_factory.mktemp("honest") / "event.pugeo", N)
    with_chips(layout)
    found = {method: parts(layout, trained(layout, method)) for method in ("ncpu", "linear", "herocon", "ncl", "fedaws")}
    return {**found, "chips": parts(layout, trained(layout, "ce", backbone="small"))}


@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors")  # of the flat vectors, before they are refused
@pytest.mark.parametrize("lie", LIES)
def test_a_model_that_is_not_what_its_card_says_is_refused(lie: str, honest: dict[str, tuple[bytes, bytes]]) -> None:
    method, change, words = LIES[lie]
    card, arrays = json.loads(honest[method][0]), dict(load(honest[method][1]))
    change(card, arrays)
    weights = save(arrays)
    card["sha256"] = hashlib.sha256(weights).hexdigest()
    card["tensors"] = {name: {"shape": list(one.shape), "dtype": one.dtype.name} for name, one in arrays.items()}
    with pytest.raises(ModelError) as refused:
        restored_from(json.dumps(card).encode(), weights)
    assert words in refused.value.problem
    assert refused.value.hint


def test_a_path_in_the_settings_is_not_looked_at(
    honest: dict[str, tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = json.loads(honest["chips"][0])
    card["settings"] |= {"weights_file": "/etc/passwd", "compiled": True}
    restored, chosen = catalog.load_from_state("ce"), []

    def noting(state: Any, settings: Any, device: torch.device) -> Any:
        chosen.append(settings)
        return restored(state, settings, device)

    monkeypatch.setattr(catalog, "load_from_state", lambda _: noting)
    made = restored_from(json.dumps(card).encode(), honest["chips"][1])
    assert [(one.weights_file, one.compiled) for one in chosen] == [("", False)]
    assert (made.settings.weights_file, made.settings.compiled) == ("", False), "what a run by this model will say"


def test_filters_that_take_too_long_are_refused(
    honest: dict[str, tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = restored_from(*honest["ncpu"])
    products = made.bank.filters.numel() * 3**2 * N_VIEWS  # a filter of 5 px takes 3 steps of 4 along 16 px
    monkeypatch.setattr(restored_model, "MAX_WORK", products)
    restored_from(*honest["ncpu"])
    monkeypatch.setattr(restored_model, "MAX_WORK", products - 1)
    with pytest.raises(ModelError, match="take too long"):
        restored_from(*honest["ncpu"])


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Cut a file off, or turn some of its bits over."""
    if draw.random() < 0.2:
        return content[: draw.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def test_damaged_files_are_refused_or_still_the_same_model(honest: dict[str, tuple[bytes, bytes]], tmp_path: Path) -> None:
    draw, path, n_refused = random.Random(0), tmp_path / "m.zip", 0
    for method in ("linear", "herocon"):
        model_files.write(path, *honest[method])
        whole = path.read_bytes()
        for _ in range(150):
            path.write_bytes(damaged(whole, draw))
            try:
                found = model_files.read(path)
            except ModelError:
                n_refused += 1
                continue
            assert (found.card_bytes, found.weights) == honest[method]
    assert n_refused > 250


def test_lies_with_a_right_sha256_end_in_a_refusal_or_in_a_model_that_works(honest: dict[str, tuple[bytes, bytes]]) -> None:
    draw, n_refused = random.Random(1), 0
    for number in range(300):
        card, weights = honest[("linear", "herocon", "ncl")[number % 3]]
        n_header = 8 + int.from_bytes(weights[:8], "little")
        if number % 2:
            card = damaged(card, draw)
        else:
            weights = damaged(weights[:n_header], draw) + weights[n_header:]
            told = json.loads(card) | {"sha256": hashlib.sha256(weights).hexdigest()}
            card = json.dumps(told).encode()
        try:
            found = restored_from(card, weights)
        except ModelError:
            n_refused += 1
            continue
        assert np.isfinite(found.model.score(np.ones((3, 16), np.float16))).all()
    assert n_refused > 150


def test_a_network_starts_from_the_backbone_of_a_model(chipped: Layout, other: Layout, tmp_path: Path) -> None:
    run_id = trained(chipped, "ce", backbone="small")
    path = exported(chipped, run_id, tmp_path / "m.pugeo-model.zip")
    arrays = load(parts(chipped, run_id)[1])
    backbone = new_backbone("small", 6, torch.Generator().manual_seed(1), weights_file=str(path))
    for name, tensor in backbone.state_dict().items():
        if tensor.is_floating_point():
            np.testing.assert_array_equal(tensor.numpy(), arrays[f"trunk.backbone.{name}"])
    with_chips(other)
    chosen = {"backbone": "small", "lr": 1e-7, "weight_decay": 0.0}
    started = load(parts(other, trained(other, "ce", **chosen, weights_file=path))[1])
    fresh = load(parts(other, trained(other, "ce", **chosen))[1])
    first = "trunk.backbone.conv1.weight"
    assert np.abs(started[first] - arrays[first]).max() < 1e-5 < np.abs(fresh[first] - arrays[first]).max()


def test_a_model_on_features_is_no_start_for_a_network(chipped: Layout, tmp_path: Path) -> None:
    path = exported(chipped, trained(chipped, "linear"), tmp_path / "m.pugeo-model.zip")
    with pytest.raises(TrainingError, match="does not fit this backbone; missing tensors"):
        new_backbone("small", 6, torch.Generator(), weights_file=str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match="cut off"):
        new_backbone("small", 6, torch.Generator(), weights_file=str(path))


def test_models_of_as_many_layers_as_can_be_are_within_what_is_taken() -> None:
    settings = RcfSettings()
    draw = torch.Generator().manual_seed(0)
    chips = np.random.default_rng(0).integers(0, 255, (40, 6, 16, 16)).astype(np.uint8)
    bank = RcfBank.fit(chips, draw, settings)
    n_features = 2 * settings.n_filters
    most = (restored_model.MAX_BANDS, restored_model.MAX_SIZE, restored_model.MAX_OF_NETWORKS)
    needed = (MOST_BANDS, MOST_BANKS * n_features, MOST_BANKS * n_features * settings.n_views)
    assert all(limit >= n for limit, n in zip(most, needed, strict=True))
    for banks in ([bank], [bank] * MOST_BANKS):
        work = sum(restored_model._work(one, (6, 256, 256)) for one in banks) * settings.n_views
        assert work <= restored_model.most_work(banks) < 2 * work
    names = [f"{'long-name-of-a-layer-' * 2}{k:02d}"[-40:] for k in range(MOST_BANKS)]
    views = tuple(View(name, "post", k * n_features, (k + 1) * n_features) for k, name in enumerate(names))
    bands = tuple(View(name, "post", 6 * k, 6 * k + 6) for k, name in enumerate(names))
    assert len(str(LayerBanks(views, bands, (bank,) * MOST_BANKS).facts())) < restored_model.MAX_FACTS
