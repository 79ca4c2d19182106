"""Backbones: their shapes and sizes, where their weights come from, and which weights files are refused."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision
from golden_parts import seeded
from method_parts import is_same
from safetensors.torch import save_file
from torch import Tensor, nn

from pu_geo.errors import ShapeError, TrainingError
from pu_geo.training import backbones
from pu_geo.training.backbones import BACKBONES, Backbone, new_backbone
from pu_geo.training.heads import linear, projection_head

NAMES = sorted(BACKBONES)
OUT_DIMS = {"small": 256, "preact_resnet18": 512, "resnet18": 512}


def chips(n: int = 2, bands: int = 3, size_px: int = 32, seed: int = 9) -> Tensor:
    return torch.randn(n, bands, size_px, size_px, generator=seeded(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bands", "size_px"), [(1, 64), (6, 50)])
def test_maps_chips_of_any_size_to_vectors_and_gradients_reach_every_weight(name: str, bands: int, size_px: int) -> None:
    backbone, images = new_backbone(name, bands, seeded()), chips(3, bands, size_px)
    assert backbone.out_dim == OUT_DIMS[name]
    backbone(images).square().sum().backward()
    for where, weight in backbone.named_parameters():
        assert 0 < weight.grad.abs().max() < torch.inf, where
    with torch.inference_mode():
        vectors = backbone.eval()(images)
        last = backbone.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(last, vectors, rtol=1e-4, atol=1e-4)
    assert vectors.shape == (3, backbone.out_dim)
    assert vectors.std(0).max() > 0


def test_refuses_images_of_another_shape_than_it_was_built_for() -> None:
    backbone = new_backbone("small", 3, seeded())
    for images in (chips(2, 6), chips(2)[0], chips(3)[0, :, :3]):
        with pytest.raises(ShapeError, match=r"\[B, 3, H, W\]"):
            backbone(images)
    for name, bands in (("resnet50", 3), ("small", 0)):
        with pytest.raises(ValueError, match=r"small, preact_resnet18, resnet18 with 1 band or more"):
            new_backbone(name, bands, seeded())


def test_preact_resnet18_has_the_published_size_and_small_is_small() -> None:
    heads = (projection_head(512, 2048, 128, seeded()), projection_head(128, 512, 128, seeded()))
    parts = (new_backbone("preact_resnet18", 3, seeded()), *heads, linear(512, 2, seeded()))
    assert round(sum(weight.numel() for part in parts for weight in part.parameters()) / 1e6, 2) == 12.62
    assert 300_000 < sum(weight.numel() for weight in new_backbone("small", 6, seeded()).parameters()) < 600_000


def test_preact_resnet18_equals_its_formula() -> None:
    backbone = new_backbone("preact_resnet18", 3, seeded())
    weights, images = backbone.state_dict(), chips(4, size_px=16)

    def active(maps: Tensor, name: str) -> Tensor:
        scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        mean, variance = maps.mean((0, 2, 3)), maps.var((0, 2, 3), correction=0)
        standard = (maps - mean[:, None, None]) / (variance + 1e-5)[:, None, None].sqrt()
        return (standard * scale[:, None, None] + shift[:, None, None]).clamp_min(0)

    maps = nn.functional.conv2d(images, weights["conv1.weight"], padding=1)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            first = active(maps, f"{at}.bn1")
            change = nn.functional.conv2d(first, weights[f"{at}.conv1.weight"], stride=stride, padding=1)
            change = nn.functional.conv2d(active(change, f"{at}.bn2"), weights[f"{at}.conv2.weight"], padding=1)
            if stride == 2:
                maps = nn.functional.conv2d(first, weights[f"{at}.shortcut.weight"], stride=2)
            maps = maps + change
    torch.testing.assert_close(backbone(images), active(maps, "bn").mean((2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_weights_start_at_the_scale_of_kaiming_fan_out_and_follow_the_generator_alone(name: str) -> None:
    before, ours, theirs = torch.get_rng_state(), seeded(3), seeded(3)
    first, following = new_backbone(name, 6, ours), torch.rand(3, generator=ours)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(77)
    assert is_same(first.state_dict(), new_backbone(name, 6, theirs).state_dict())
    assert torch.equal(following, torch.rand(3, generator=theirs))
    assert not torch.equal(first.conv1.weight, new_backbone(name, 6, seeded(4)).conv1.weight)
    for layer in new_backbone(name, 6, seeded()).modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.out_channels * layer.kernel_size[0] * layer.kernel_size[1]
            expected, n = (2 / fan_out) ** 0.5, layer.weight.numel()
            assert layer.bias is None
            assert layer.weight.std().item() == pytest.approx(expected, rel=4 / (2 * n) ** 0.5)
            assert abs(layer.weight.mean().item()) < 4 * expected / n**0.5


@pytest.fixture(scope="module")
def published() -> torchvision.models.ResNet:
    """A ResNet-18 as another person would make it, with its classifier, and statistics as after some training."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = torchvision.models.resnet18(weights=None, num_classes=7)
        with torch.no_grad():
            for layer in network.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.running_mean.normal_(0, 0.2)
                    layer.running_var.uniform_(0.5, 2)
                    layer.weight.uniform_(0.5, 1.5)
                    layer.bias.normal_(0, 0.2)
    return network.eval()


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    """A light state dict of the same kind: 26 tensors, of which the backbone "small" needs 20."""
    small = new_backbone("small", 3, seeded(1))
    small(chips())
    return small.state_dict() | {"fc.weight": torch.ones(7, 256), "fc.bias": torch.ones(7)}


def from_file(path: Path, bands: int = 3, name: str = "resnet18") -> Backbone:
    return new_backbone(name, bands, seeded(), str(path)).eval()


def prefixed(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in state.items()}


FORMS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "plain": lambda state: state,
    "without counters": lambda state: {name: value for name, value in state.items() if "num_batches" not in name},
    "state_dict": lambda state: {"state_dict": state, "epoch": 3},
    "module.": lambda state: prefixed(state, "module."),
    "backbone.": lambda state: prefixed(state, "backbone.") | {"head.weight": torch.ones(2, 2)},
    "all at once": lambda state: {"state_dict": prefixed(state, "module.backbone.") | {"module.head.bias": torch.ones(2)}},
    "parameters": lambda state: {name: nn.Parameter(value, value.is_floating_point()) for name, value in state.items()},
}


def test_equals_torchvision_with_the_same_weights_also_in_six_bands(
    published: torchvision.models.ResNet, tmp_path: Path
) -> None:
    path, images = tmp_path / "weights.pth", chips(size_px=50)
    torch.save(published.state_dict(), path)
    inputs: list[Tensor] = []
    hook = published.fc.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    one, both = from_file(path, 3), from_file(path, 6)
    with torch.inference_mode():
        published(images)
        torch.testing.assert_close(one(images), inputs[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(both(torch.cat([images, images], 1)), inputs[0], rtol=1e-4, atol=1e-5)
    hook.remove()
    torch.testing.assert_close(both.conv1.weight[:, 3:], published.conv1.weight / 2)


def written(content: object, path: Path) -> Path:
    torch.save(content, path) if path.suffix != ".safetensors" else save_file(content, path)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("form", FORMS)
def test_takes_weights_in_every_form(state: dict[str, Tensor], tmp_path: Path, form: str) -> None:
    content = FORMS[form](state)
    is_flat = form in ("plain", "without counters", "module.", "backbone.")
    for ending in (".pth", ".pt", ".safetensors")[: 3 if is_flat else 2]:
        backbone = from_file(written(content, tmp_path / f"weights{ending}"), 3, "small")
        for name, value in backbone.state_dict().items():
            assert torch.equal(value, state[name]) or name.endswith("num_batches_tracked")
        assert all(weight.requires_grad and weight.is_leaf for weight in backbone.parameters())
    half, drawn, loaded = {key: value.half() for key, value in state.items()}, seeded(), seeded()
    torch.save(half, tmp_path / "old.pt", _use_new_zipfile_serialization=False)  # as old versions of torch do
    backbone = new_backbone("small", 3, loaded, str(tmp_path / "old.pt"))
    assert torch.equal(backbone.conv1.weight, half["conv1.weight"].float())
    assert {value.dtype for value in backbone.parameters()} == {torch.float32}
    new_backbone("small", 3, drawn)
    assert torch.equal(drawn.get_state(), loaded.get_state()), "with a file the generator moves on alike"


@pytest.mark.parametrize("bands", [1, 2, 6, 8])
def test_equal_bands_give_the_response_of_a_gray_picture(state: dict[str, Tensor], tmp_path: Path, bands: int) -> None:
    torch.save(state, tmp_path / "a.pth")
    gray = chips(2, 1)
    with torch.inference_mode():
        wanted = from_file(tmp_path / "a.pth", 3, "small")(gray.expand(-1, 3, -1, -1))
        got = from_file(tmp_path / "a.pth", bands, "small")(gray.expand(-1, bands, -1, -1))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def with_value(state: dict[str, Tensor], name: str, value: float) -> dict[str, Tensor]:
    changed = state[name].clone()
    changed.view(-1)[3] = value
    return state | {name: changed}


REFUSED: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "incomplete": (
        lambda state: {k: v for k, v in state.items() if k != "bn3.running_var"},
        r"tensors: 1 \(bn3\.running_var\)",
    ),
    "empty": (lambda _: {}, r"missing tensors: 20 \(bn1\.bias, "),
    "deeper": (lambda state: state | {"conv5.weight": torch.ones(3)}, r"; unknown tensors: 1 \(conv5\.weight\)"),
    "flat stem": (lambda state: state | {"conv1.weight": torch.ones(32)}, r"is \[32\], needed is \[32, 6, 5, 5\]"),
    "infinite": (lambda state: with_value(state, "conv1.weight", math.inf), r"conv1\.weight holds values that are not fin"),
    "negative variance": (lambda state: with_value(state, "bn1.running_var", -0.1), "variances below 0"),
    "no tensor": (lambda state: {**state, "bn1.bias": [0.0] * 32}, r"than a plain tensor of real numbers under bn1\.bias"),
    "sparse": (lambda state: state | {"bn1.bias": torch.ones(32).to_sparse()}, "real numbers under bn1.bias"),
    "meta": (lambda state: state | {"bn1.bias": torch.ones(32, device="meta")}, "real numbers under bn1.bias"),
    "numbered": (lambda state: dict(enumerate(state.values())), "where named tensors are needed"),
    "a network": (lambda _: nn.Linear(2, 2), "could run code"),
}


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants:UserWarning")  # torch checks them when it loads
@pytest.mark.parametrize("what", REFUSED)
def test_refuses_weights_that_do_not_fit(state: dict[str, Tensor], tmp_path: Path, what: str) -> None:
    make, message = REFUSED[what]
    torch.save(make(state), tmp_path / "a.pth")
    with pytest.raises(TrainingError, match=message) as caught:
        from_file(tmp_path / "a.pth", 6, "small")
    assert caught.value.kind == "weights"
    assert str(tmp_path / "a.pth") in caught.value.problem
    assert "state dict" in caught.value.hint


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_refuses_what_is_no_weights_file_or_was_cut_short(tmp_path: Path, ending: str) -> None:
    path = written(new_backbone("small", 3, seeded()).state_dict(), tmp_path / f"a{ending}")
    whole = path.read_bytes()
    from_file(path, 3, "small")
    parts = [whole[:size] for size in (9, 100, len(whole) // 2, len(whole) - 1)]
    for content in (*parts, b"", b"\x89PNG\r\n\x1a\n" * 20, b"PK\x03\x04", b"\x80\x02}q\x00", b"<html>not found</html>"):
        path.write_bytes(content)
        with pytest.raises(TrainingError, match="is damaged, or") as caught:
            from_file(path, 3, "small")
        assert caught.value.kind == "weights"


def test_refuses_paths_that_are_no_weights_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.pth").mkdir()
    os.mkfifo(tmp_path / "pipe.pth")
    for name in ("absent.pth", "folder.pth", "pipe.pth"):
        with pytest.raises(TrainingError, match="is not there, or not a regular file"):
            from_file(tmp_path / name, 3, "small")
    (tmp_path / "a.onnx").write_bytes(b"0" * 20)
    with pytest.raises(TrainingError, match=r"it must end in \.safetensors, \.pt, \.pth"):
        from_file(tmp_path / "a.onnx", 3, "small")
    (tmp_path / "a.pt").write_bytes(b"0" * 20)
    monkeypatch.setattr(backbones, "MAX_BYTES", 19)
    with pytest.raises(TrainingError, match="MB at most"):
        from_file(tmp_path / "a.pt", 3, "small")
