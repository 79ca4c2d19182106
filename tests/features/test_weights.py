"""Networks of timm from a folder. What needs timm is skipped where it is not installed."""

import json
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from pu_geo.errors import TrainingError
from pu_geo.features import bank, local_dir, networks
from pu_geo.features.networks import NetworkMaker
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")
CONFIG: dict[str, Any] = {
    "architecture": "vit_tiny_patch16_224", "num_classes": 10, "model_args": {"img_size": 32, "depth": 2, "num_classes": 10},
    "pretrained_cfg": {
        "input_size": [3, 32, 32], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "classifier": "head", "license": "mit",
        "hf_hub_id": "somebody/something", "url": "https://example.org/weights.pth",
    },
}  # fmt: skip


def _chips() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (5, 6, 32, 32)).astype(np.uint8)


def _folder(path: Path, config: object = CONFIG) -> Path:
    (path / local_dir.CONFIG).write_text(config if isinstance(config, str) else json.dumps(config))
    if not (path / local_dir.WEIGHTS).exists():
        save_file({"head.weight": torch.zeros(1)}, path / local_dir.WEIGHTS)
    return path


def _fit(folder: Path, **choices: Any) -> NetworkMaker:
    request = FeatureRequest(f"local-dir:{folder}", **choices)
    return cast(NetworkMaker, bank.fit_maker(request, _chips(), generator=torch.Generator(), device=CPU))


def _changed(**values: Any) -> dict[str, Any]:
    inner = {**CONFIG["pretrained_cfg"], **{k: v for k, v in values.items() if k in CONFIG["pretrained_cfg"]}}
    return {**CONFIG, **{k: v for k, v in values.items() if k not in inner}, "pretrained_cfg": inner}


@pytest.mark.parametrize(
    ("config", "words"),
    [("{", "no JSON"), ("[1]", "no settings"), (" " * 1_000_001, "more than"),
     (_changed(architecture="hf-hub:somebody/something"), "no architecture"),
     (_changed(model_args={"pretrained": True}), "set pretrained"), (_changed(model_args={"img_size": 10**9}), "set img_size"),
     (_changed(model_args={"depths": [2, 5000]}), "set depths"),
     (_changed(model_args={"act_layer": "__import__('os')"}), "set act_layer"),
     (_changed(std=[0, 1, 1]), "mean, std"), (_changed(input_size=[3, 9999, 9999]), "mean, std")],
)  # fmt: skip
def test_settings_that_a_file_may_not_have_are_refused_before_anything_is_built(
    tmp_path: Path, config: object, words: str
) -> None:
    with pytest.raises(TrainingError, match=words):
        _fit(_folder(tmp_path, config))


def test_folders_without_their_two_files_or_timm_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainingError, match=r"config\.json cannot be read"):
        _fit(tmp_path)
    _folder(tmp_path)
    (tmp_path / local_dir.WEIGHTS).unlink()
    torch.save({}, tmp_path / "pytorch_model.bin")  # what timm would fall back to
    with pytest.raises(TrainingError, match=r"model\.safetensors is not there"):
        _fit(tmp_path)
    with pytest.raises(TrainingError, match="from the folder"):
        _fit(tmp_path, weights="other.safetensors")
    _folder(tmp_path, _changed(license="mit\x1b[2J\n"))
    assert local_dir.read_config(tmp_path / local_dir.CONFIG)["license"] == "mit?[2J?"  # what a terminal acts on
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(TrainingError, match="timm, which is not installed") as caught:
        _fit(_folder(tmp_path))
    assert "pu-geo[backbones]" in caught.value.hint


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    """Return a folder with a transformer of two blocks and random weights, as timm names them."""
    timm = pytest.importorskip("timm", reason="timm is in the extra backbones")
    torch.manual_seed(0)
    model = timm.create_model(CONFIG["architecture"], pretrained=False, **CONFIG["model_args"])
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, tmp_path / local_dir.WEIGHTS)
    return _folder(tmp_path)


def _tokens(folder: Path) -> NDArray[np.float32]:
    """Return the tokens of the post date by timm alone, float32 [N, 1 + 4, K]."""
    timm = pytest.importorskip("timm")
    model = timm.create_model(CONFIG["architecture"], pretrained=False, **CONFIG["model_args"]).eval()
    model.load_state_dict(load_file(folder / local_dir.WEIGHTS))
    mean, std = (torch.tensor(CONFIG["pretrained_cfg"][name])[:, None, None] for name in ("mean", "std"))
    with torch.inference_mode():
        found: torch.Tensor = model.forward_features((torch.from_numpy(_chips()[:, 3:]).float() / 255 - mean) / std)
    return found.numpy()


def test_features_are_those_of_timm(vit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    tokens = _tokens(vit)
    masks = np.zeros((5, 32, 32), np.bool_)
    masks[:, :16] = True  # the two tokens above
    for pool, wanted in (("mean", tokens[:, 1:].mean(1)), ("cls", tokens[:, 0]), ("footprint", tokens[:, 1:3].mean(1))):
        maker = _fit(vit, pool=pool, dates="post")
        found = maker.transform(_chips(), 1, seed=0, device=CPU, masks=masks if pool == "footprint" else None)[0]
        np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=3e-3, atol=3e-3)
    assert maker.facts()["licence"] == "mit"
    assert maker.size_px == 32


@pytest.mark.parametrize("choices", [{}, {"layer": "blocks.0"}, {"size_px": 64, "pool": "cls"}])
def test_a_network_of_timm_survives_being_stored(vit: Path, choices: dict[str, Any]) -> None:
    maker = _fit(vit, **choices)
    again = bank.from_state(maker.state(), json.loads(json.dumps(maker.facts())))
    first = maker.transform(_chips(), 2, seed=0, device=CPU)
    np.testing.assert_array_equal(first, again.transform(_chips(), 2, seed=0, device=CPU))
    assert first.shape == (2, 5, 3 * 192)


def test_weights_of_another_network_and_layers_besides_its_way_are_refused(vit: Path) -> None:
    tensors = load_file(vit / local_dir.WEIGHTS)
    for changed, words in (
        (_changed(architecture="vit_small_patch16_224"), "needed is"),
        (_changed(architecture="resnet18", model_args={}), "missing tensors"),
        (_changed(architecture="no_such_network"), "knows no architecture"),
    ):
        with pytest.raises(TrainingError, match=words):
            _fit(_folder(vit, changed))
    _folder(vit)
    for layer, pool, words in (
        ("blocks.7", "mean", r"blocks\.7"),
        ("head", "mean", "head is no layer that images pass before the classifier.*such as blocks.8"),
        ("fc_norm", "cls", "fc_norm is no layer that images pass"),
        ("patch_embed", "cls", "patch_embed comes before the class token"),
    ):
        with pytest.raises(TrainingError, match=words):
            _fit(vit, layer=layer, pool=pool)
    save_file({**tensors, "norm.weight": tensors["norm.weight"] * torch.nan}, vit / local_dir.WEIGHTS)
    with pytest.raises(TrainingError, match="not finite"):
        _fit(vit)


def _save(folder: Path, architecture: str, size_px: int, **arguments: Any) -> None:
    """Write a network of timm with random weights and its settings; nothing is allocated besides its weights."""
    timm = pytest.importorskip("timm", reason="timm is in the extra backbones")
    with torch.device("meta"):
        model = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(each.shape, generator=generator) * 0.02 for name, each in model.state_dict().items()}
    save_file(tensors, folder / local_dir.WEIGHTS)
    _folder(folder, _changed(architecture=architecture, model_args=arguments, input_size=[3, size_px, size_px]))


TINY_SWIN = {"embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2]}


@pytest.mark.parametrize(
    ("architecture", "size_px", "arguments", "choices", "words"),
    [
        ("swin_tiny_patch4_window7_224", 1024, {**TINY_SWIN, "img_size": 1024, "window_size": 256}, {}, "GB besides its weights"),
        ("swin_tiny_patch4_window7_224", 64, {**TINY_SWIN, "img_size": 64, "window_size": 4}, {"size_px": 1024}, "16,384 tokens"),
        ("vit_tiny_patch16_224", 258, {"img_size": 258, "patch_size": 2, "embed_dim": 12, "depth": 1}, {}, "16,384 tokens"),
    ],
)  # fmt: skip
def test_a_few_words_cannot_ask_for_memory_or_hours(
    tmp_path: Path, architecture: str, size_px: int, arguments: dict[str, Any], choices: dict[str, Any], words: str
) -> None:
    _save(tmp_path, architecture, size_px, **arguments)
    with pytest.raises(TrainingError, match=words):
        _fit(tmp_path, **choices)


def test_layers_of_windows_are_refused(tmp_path: Path) -> None:
    _save(tmp_path, "swin_tiny_patch4_window7_224", 64, **TINY_SWIN, img_size=64, window_size=4)
    with pytest.raises(TrainingError, match=r"maps of parts of images after layers\.0\.blocks\.0\.attn") as refused:
        _fit(tmp_path, layer="layers.0.blocks.0.attn")
    assert "Name a layer" in refused.value.hint
    assert _fit(tmp_path, layer="layers.0").out_dim == 8
