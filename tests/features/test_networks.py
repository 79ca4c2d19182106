"""Frozen networks from weights files: the numbers of a plain forward pass, what is stored, and which files are refused."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchvision
from golden_parts import seeded
from numpy.typing import NDArray
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn

from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.features import bank, networks, self_supervised, views
from pu_geo.features.networks import NetworkMaker
from pu_geo.features.self_supervised import learn
from pu_geo.records import FeatureRequest
from pu_geo.scenes.features import words_of
from pu_geo.training.augment import AERIAL, NATURAL, AugmentSettings
from pu_geo.training.backbones import new_backbone

CPU = torch.device("cpu")
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Random weights of torchvision's ResNet-18 under torchvision's names, its classifier among them."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "mine.safetensors"
    save_file(torchvision.models.resnet18(weights=None).state_dict(), path)
    yield path
    path.unlink()


def _chips(n: int = 6, n_bands: int = 6) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, n_bands, 32, 32)).astype(np.uint8)


def _fit(weights: Path | str, chips: NDArray[np.uint8] | None = None, **choices: Any) -> NetworkMaker:
    request = FeatureRequest(**{"maker": "backbone", "backbone": str(weights), "layer": "last", "size_px": 32, **choices})
    generator = seeded()
    return cast(NetworkMaker, bank.fit_maker(request, _chips() if chips is None else chips, generator=generator, device=CPU))


def _plain(weights: Path, images: Tensor) -> Tensor:
    network = torchvision.models.resnet18(weights=None)
    network.load_state_dict(load_file(weights))
    network.fc = nn.Identity()  # type: ignore[assignment]
    with torch.inference_mode():
        return cast(Tensor, network.eval()((images / 255 - MEAN[:, None, None]) / STD[:, None, None]))


def test_features_are_those_of_torchvision_and_dates_choose_columns_and_bands(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chips = _chips()
    maker = _fit(weights)
    fast = maker.transform(chips, 1, seed=0, device=CPU)[0].astype(np.float32)
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    exact = maker.transform(chips, 1, seed=0, device=CPU)[0].astype(np.float32)
    pre, post = (_plain(weights, torch.from_numpy(part).float()) for part in (chips[:, :3], chips[:, 3:]))
    wanted = torch.cat([pre, post, post - pre], dim=1).numpy()
    assert maker.n_features == 3 * 512
    np.testing.assert_allclose(exact, wanted, rtol=2e-3, atol=2e-3)
    assert np.abs(fast - wanted).max() < 0.05 * np.abs(wanted).max()
    for dates, given, part in (
        ("diff", chips, np.s_[:, 1024:]), ("post", chips, np.s_[:, 512:1024]), ("post", chips[:, 3:], np.s_[:, 512:1024]),
    ):  # fmt: skip
        found = _fit(weights, given, dates=dates).transform(given, 1, seed=0, device=CPU)[0]
        np.testing.assert_allclose(found.astype(np.float32), exact[part], atol=2e-3)


def test_size_and_layer_are_obeyed(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    chips = _chips()
    images = torch.from_numpy(chips[:, 3:]).float()
    larger = F.interpolate(images, (48, 48), mode="bilinear", antialias=True)
    found = _fit(weights, dates="post", size_px=48).transform(chips, 1, seed=0, device=CPU)[0]
    np.testing.assert_allclose(found.astype(np.float32), _plain(weights, larger), rtol=2e-3, atol=2e-3)
    whole = torchvision.models.resnet18(weights=None)
    whole.load_state_dict(load_file(weights))
    first = nn.Sequential(whole.conv1, whole.bn1, whole.relu, whole.maxpool, whole.layer1, whole.layer2).eval()
    with torch.inference_mode():
        maps = first((images / 255 - MEAN[:, None, None]) / STD[:, None, None])
    maker = _fit(weights, dates="post", layer="layer2")
    found = maker.transform(chips, 1, seed=0, device=CPU)[0]
    np.testing.assert_allclose(found.astype(np.float32), maps.mean((2, 3)), rtol=2e-3, atol=2e-3)
    assert not any("layer3" in name for name in maker.state())  # what is not needed is not stored
    masks = np.zeros((6, 32, 32), np.bool_)
    masks[:, :8, :8] = True  # one position of 4 x 4
    inside = _fit(weights, dates="post", layer="layer2", pool="footprint")
    found = inside.transform(chips, 1, seed=0, device=CPU, masks=masks)[0]
    np.testing.assert_allclose(found.astype(np.float32), maps[:, :, 0, 0], rtol=2e-3, atol=2e-3)


def test_views_follow_the_seed_and_survive_being_stored(weights: Path) -> None:
    chips = _chips()
    maker = _fit(weights, layer="layer1", licence="CC-BY-4.0")
    first = maker.transform(chips, 3, seed=5, device=CPU)
    out = np.zeros_like(first)
    again = bank.from_state(maker.state(), json.loads(json.dumps(maker.facts())))
    assert again.transform(chips, 3, seed=5, device=CPU, out=out) is out
    np.testing.assert_array_equal(first, out)
    assert again.facts() == maker.facts() == {
        "kind": "backbone", "backbone": "resnet18", "weights_file": "mine.safetensors", "stored_as": "float32", "layer_is": "",
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(), "licence": "CC-BY-4.0", "pool": "mean",
        "layer": "layer1", "size_px": 32, "dates": "both", "scale": 1.0, "holds_imagery": False, "config": maker.origin["config"],
    }  # fmt: skip
    assert _fit(weights, layer="layer1").facts()["licence"] is None
    other = maker.transform(chips, 3, seed=6, device=CPU)
    np.testing.assert_array_equal(first[0], other[0])
    assert np.abs(first[1].astype(float) - other[1]).max() > 1e-2


def test_parts_of_a_block_give_what_the_whole_gives(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many views in one pass, as on a GPU, and few chips in one pass, as on a CPU with large images."""
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    chips, maker = _chips(9), _fit(weights, layer="layer1")
    found = []
    for pixels in (4 * 32**2, 2**18, 2**30):
        monkeypatch.setattr(networks, "PIXELS_AT_ONCE_CPU", pixels)
        found.append(maker.transform(chips, 3, seed=0, device=CPU).astype(np.float32))
    np.testing.assert_allclose(found[0], found[1], atol=2e-3)
    np.testing.assert_allclose(found[2], found[1], atol=2e-3)


@pytest.mark.parametrize("factor", [1e7, 1e-7])
def test_features_beyond_float16_are_scaled_by_a_power_of_two(weights: Path, tmp_path: Path, factor: float) -> None:
    tensors = load_file(weights)
    for name in ("bn1.weight", "bn1.bias"):  # nothing but a positive factor passes through relu and maxpool
        tensors[name] = tensors[name] * factor
    save_file(tensors, tmp_path / "odd.safetensors")
    chips = _chips()
    usual = _fit(weights, layer="maxpool").transform(chips, 1, seed=0, device=CPU).astype(np.float64)
    maker = _fit(tmp_path / "odd.safetensors", layer="maxpool")
    found = maker.transform(chips, 1, seed=0, device=CPU).astype(np.float64)
    assert np.log2(maker.scale) == np.round(np.log2(maker.scale)) != 0
    assert 16 < np.abs(found).max() < 256
    np.testing.assert_allclose(found / (maker.scale * factor), usual, rtol=0.05, atol=0.02)
    assert bank.from_state(maker.state(), maker.facts()).facts()["scale"] == maker.scale


def test_cancelling_stops_within_a_block(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "PIXELS_AT_ONCE_CPU", 4 * 32**2)  # two chips of two dates at once
    maker, asked = _fit(weights, layer="layer1"), []

    def is_cancelled() -> bool:
        asked.append(0)
        return len(asked) == 4  # before the first view, and in front of its parts

    with pytest.raises(JobCancelled):
        maker.transform(_chips(12), 2, seed=0, device=CPU, is_cancelled=is_cancelled)
    assert len(asked) == 4
    reports: list[Any] = []
    maker.transform(_chips(12), 1, seed=0, device=CPU, report=reports.append)
    assert (reports[-1]["done"], reports[-1]["total"]) == (12, 12)


def test_chips_and_masks_that_do_not_fit_are_refused(weights: Path) -> None:
    both, inside = _fit(weights, layer="layer1"), _fit(weights, layer="layer1", pool="footprint")
    for maker, chips, masks, words in (
        (both, _chips(n_bands=3), None, r"\[N, 6, H, W\]"),
        (both, _chips(), np.ones((6, 32, 32), np.bool_), "masks go with"),
        (inside, _chips(), None, "masks go with"),
        (inside, _chips(), np.ones((6, 16, 32), np.bool_), "one a chip"),
    ):
        with pytest.raises(ShapeError, match=words):
            maker.transform(chips, 1, seed=0, device=CPU, masks=masks)
    with pytest.raises(ShapeError, match="float16"):
        both.transform(_chips(), 1, seed=0, device=CPU, out=np.zeros((1, 6, 192), np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_bands", "choices", "words"),
    [(6, {"pool": "cls"}, "no class token"), (6, {"backbone": ""}, "was named"),
     (6, {"backbone": "nowhere.safetensors"}, "not there"), (6, {"layer": "layer9"}, "no layer 'layer9'.*layer4, last"),
     (6, {"size_px": 4000}, "4000 px"), (6, {"dates": "pre"}, "'pre'"), (3, {"dates": "both"}, "post alone"),
     (4, {"dates": "post"}, "4 bands")],
)  # fmt: skip
def test_choices_that_a_network_or_the_chips_have_not_are_refused(
    weights: Path, n_bands: int, choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(TrainingError, match=words):
        _fit(chips=_chips(n_bands=n_bands), weights=weights, **choices)


def test_files_that_are_no_weights_of_it_are_refused(weights: Path, tmp_path: Path) -> None:
    tensors, bad, pickled = load_file(weights), tmp_path / "bad.safetensors", tmp_path / "bad.pt"
    torch.save(tensors, pickled)
    huge = {**tensors, "bn1.weight": tensors["bn1.weight"] * 3e38, "bn1.bias": tensors["bn1.bias"] + 3e38}
    for content, words in (
        (weights.read_bytes()[:-1000], "damaged"),
        (
            save({name: tensor for name, tensor in tensors.items() if not name.startswith("layer4")}),
            "no network that is known",
        ),
        (save(huge), "no finite numbers"),
    ):
        bad.write_bytes(content)
        with pytest.raises(TrainingError, match=words) as caught:
            _fit(bad)
        assert "torchvision" in caught.value.hint
    np.testing.assert_array_equal(_fit(pickled).state()["network.conv1.weight"], tensors["conv1.weight"])
    torch.save({"weights": tensors, "code": Path}, pickled)
    with pytest.raises(TrainingError, match="could run code"):
        _fit(pickled)


@pytest.mark.parametrize(
    ("name", "usual"), [("resnet34", "layer2"), ("convnext_tiny", "features3"), ("mobilenet_v3_small", "features3")]
)
def test_a_file_of_torchvision_is_recognised_and_seen_as_in_its_training(
    name: str, usual: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    torch.manual_seed(0)
    whole = torchvision.models.get_model(name, weights=None).eval()
    torch.save({"state_dict": whole.to(torch.bfloat16).state_dict()}, tmp_path / "odd.pth")
    maker = _fit(tmp_path / "odd.pth", layer="", size_px=0, dates="post")
    facts = maker.facts()
    assert (facts["layer"], facts["layer_is"], maker.size_px) == (usual, "an early stage", 224)
    assert (facts["backbone"], facts["stored_as"]) == (name, "bfloat16")
    assert "stored in bfloat16, converted to float32" in words_of("x", facts)
    seen: list[Tensor] = []
    layer = whole.get_submodule(usual.replace("features", "features."))
    layer.register_forward_hook(lambda _, __, found: seen.append(found.mean((2, 3))))
    images = F.interpolate(torch.from_numpy(_chips(2)[:, 3:]).float(), (224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        whole.float()((images / 255 - MEAN[:, None, None]) / STD[:, None, None])
    found = maker.transform(_chips(2), 1, seed=0, device=CPU)[0].astype(np.float32) / maker.scale
    np.testing.assert_allclose(found, seen[0], rtol=1e-2, atol=2e-3 * float(seen[0].abs().max()))


def test_stored_makers_of_strangers_are_checked() -> None:
    backbone = new_backbone("small", 3, seeded())
    arrays = {
        f"network.{name}": tensor.numpy() for name, tensor in backbone.state_dict().items() if tensor.is_floating_point()
    }
    arrays |= {"input.mean": np.zeros(6, np.float32), "input.std": np.ones(6, np.float32)}
    facts = {
        "kind": "self-supervised", "backbone": "small", "pool": "mean", "layer": "last", "size_px": 0, "dates": "both", "scale": 1.0,
    }  # fmt: skip
    assert bank.from_state(arrays, facts).n_features == 3 * 256
    wrong_facts: list[dict[str, Any]] = [
        {"backbone": "resnet50"}, {"scale": 3.0}, {"scale": None}, {"scale": float("nan")}, {"pool": "max"}, {"dates": 7},
        {"layer": "__class__"}, {"layer": None}, {"size_px": 10**9}, {"size_px": True}, {"backbone": ["small"]},
        {"kind": "backbone"}, {"dates": "post"},
    ]  # fmt: skip
    for changed in wrong_facts:
        with pytest.raises(TrainingError):
            bank.from_state(arrays, {**facts, **changed})
    wrong_arrays: list[dict[str, Any]] = [
        {"input.std": np.zeros(6, np.float32)}, {"input.mean": np.full(6, np.nan, np.float32)},
        {"network.conv1.weight": np.zeros((32, 3, 5, 5), np.int64)}, {"network.conv1.weight": np.zeros((1, 1), np.float32)},
        {"network.more": np.zeros(3, np.float32)}, {"network.bn1.running_var": np.full(32, -1, np.float32)}, {"input.std": "no"},
    ]  # fmt: skip
    for changed in wrong_arrays:
        with pytest.raises(TrainingError):
            bank.from_state({**arrays, **changed}, facts)
    for missing in ("input.std", "network.conv4.weight"):
        with pytest.raises(TrainingError):
            bank.from_state({name: array for name, array in arrays.items() if name != missing}, facts)


# What all makers share: dates and footprints


def test_dates_are_standardised_by_their_own_statistics() -> None:
    images = torch.arange(6.0)[None, :, None, None].expand(1, 6, 2, 2) * 10  # bands 0, 10, 20 and 30, 40, 50
    mean, std = torch.tensor([0.0, 10, 10, 30, 30, 30]), torch.tensor([1.0, 1, 2, 10, 10, 20])
    shown = views.split_dates(images, mean, std)
    assert shown.shape == (2, 3, 2, 2)
    torch.testing.assert_close(shown[:, :, 0, 0], torch.tensor([[0.0, 0, 5], [0, 1, 1]]), atol=1e-5, rtol=0)
    post = views.split_dates(images, mean[3:], std[3:])
    torch.testing.assert_close(post[:, :, 0, 0], torch.tensor([[0.0, 1, 1]]), atol=1e-5, rtol=0)


def test_means_over_footprints_by_hand() -> None:
    """Positions 1, 2, 3, 4; each stands for four pixels of the chip."""
    maps = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 2, 2).expand(3, 1, 2, 2)
    masks = torch.zeros(3, 4, 4, dtype=torch.bool)
    masks[0, :2, :2] = True  # the first position alone: 1
    masks[1, :2] = True  # the first whole,
    masks[1, 0, 2:] = False  # of the second half: (1 + 2 / 2) / 1.5 = 4 / 3
    assert views.mean_inside(maps, masks)[:, 0].tolist() == pytest.approx([1, 4 / 3, 2.5])  # none: the mean of all


@pytest.mark.parametrize("augmentation", [AERIAL, NATURAL])
def test_footprints_move_with_their_chips(augmentation: AugmentSettings) -> None:
    masks = torch.zeros(6, 24, 24, dtype=torch.bool)
    masks[:, 3:11, 5:20] = True
    images = masks[:, None].float().expand(-1, 3, -1, -1) * 255
    generator = seeded()
    for number in (0, 1, 2):
        image, mask = views._view(images, masks, number, augmentation.geometry, generator)
        assert mask is not None
        assert torch.equal(image[:, 0] > 127.5, mask)
    assert not torch.equal(mask, masks)
    again = seeded(3)
    alone, _ = views._view(images, None, 1, augmentation, again)
    both, _ = views._view(images, masks, 1, augmentation, again.manual_seed(3))
    assert torch.equal(alone, both)  # a footprint changes no draw


# A small network that learns features from the chips themselves


def _torn_chips(n: int = 64) -> NDArray[np.uint8]:
    """Each chip has blobs of its own before; half of them have lost a part of these after."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(20, 235, (n, 3, 4, 4)).repeat(4, 2).repeat(4, 3)
    post = coarse.copy()
    post[n // 2 :, :, 4:12, 4:12] = 128
    return (np.concatenate([coarse, post], axis=1) + draw.integers(-9, 9, (n, 6, 16, 16))).astype(np.uint8)


def _learned(monkeypatch: pytest.MonkeyPatch, n_epochs: int, **choices: Any) -> NetworkMaker:
    monkeypatch.setattr(self_supervised, "EPOCHS", (n_epochs, n_epochs))
    request = FeatureRequest("self-supervised", **choices)
    return cast(NetworkMaker, bank.fit_maker(request, _torn_chips(), generator=seeded(), device=CPU))


def _likeness(maker: NetworkMaker) -> float:
    """Compute how much more alike two views of a chip are than views of two chips, in standardised features."""
    seen = maker.transform(_torn_chips(), 3, seed=1, device=CPU)[1:].astype(np.float64)
    seen = (seen - seen.mean((0, 1))) / (seen.std((0, 1)) + 1e-6)
    one, other = (view / np.linalg.norm(view, axis=1, keepdims=True) for view in seen)
    cosines = one @ other.T
    return float(np.diag(cosines).mean() - cosines[~np.eye(len(cosines), dtype=bool)].mean())


def test_training_makes_views_of_a_chip_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (_learned(monkeypatch, n) for n in (1, 40))
    assert _likeness(after) > _likeness(before) + 0.1
    assert after.n_features == 768
    assert _learned(monkeypatch, 1, dates="diff").n_features == 256
    facts = after.facts()
    assert (facts["backbone"], facts["weights_file"], len(facts["weights_sha256"])) == ("small", None, 64)
    np.testing.assert_array_equal(
        *(each.transform(_torn_chips(), 2, seed=0, device=CPU) for each in (after, bank.from_state(after.state(), facts)))
    )


def test_the_generator_decides_the_weights() -> None:
    chips, rows = _torn_chips(), np.arange(0, 64, 2)
    one, same, other = (learn(chips, rows, "both", generator=seeded(seed), device=CPU, n_epochs=2) for seed in (1, 1, 2))
    assert all(torch.equal(one.tensors[name], same.tensors[name]) for name in one.tensors)
    assert not torch.equal(one.tensors["conv1.weight"], other.tensors["conv1.weight"])
    without_odd = chips.copy()
    without_odd[1::2] = 0
    alone = learn(without_odd, rows, "both", generator=seeded(1), device=CPU, n_epochs=2)
    assert torch.equal(one.tensors["conv1.weight"], alone.tensors["conv1.weight"])  # other rows are not learned from


def test_progress_is_reported_and_cancelling_stops_after_a_batch() -> None:
    reports: list[Mapping[str, object]] = []
    ask = partial(learn, _torn_chips(), np.arange(64), "post", generator=seeded(), device=CPU, n_epochs=3)
    ask(report=reports.append)
    assert [(each["done"], each["total"]) for each in reports] == [(64, 192), (128, 192), (192, 192)]
    asked = iter([False, True])
    with pytest.raises(JobCancelled):
        ask(is_cancelled=lambda: next(asked))


def test_a_training_has_some_300_steps_and_needs_two_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    # 368 chips make 2 batches of up to 256; 2,000 make 8, and 20,000 make 79.
    assert [self_supervised.epochs_of(n) for n in (368, 2000, 20_000)] == [100, 38, 10]
    for choices in ({"backbone": "a.safetensors"}, {"layer": "conv1"}, {"size_px": 64}):
        with pytest.raises(TrainingError, match="from the chips"):
            _learned(monkeypatch, 1, **choices)
    with pytest.raises(TrainingError, match="there are 1"):
        learn(_torn_chips(), np.arange(1), "both", generator=seeded(), device=CPU)
