"""Networks from folders of timm and Hugging Face. What needs timm is skipped where it is not installed."""

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
from pu_geo.features import bank, networks, weights
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
    (path / weights.CONFIG).write_text(config if isinstance(config, str) else json.dumps(config))
    if not (path / weights.WEIGHTS[0]).exists():
        save_file({"head.weight": torch.zeros(1)}, path / weights.WEIGHTS[0])
    return path


def _fit(folder: Path, **choices: Any) -> NetworkMaker:
    request = FeatureRequest("backbone", str(folder), **choices)
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
    with pytest.raises(TrainingError, match=r"lacks config\.json and model\.safetensors; it holds nothing"):
        _fit(tmp_path)
    _folder(tmp_path)
    (tmp_path / weights.WEIGHTS[0]).rename(tmp_path / "model-00001-of-00002.safetensors")
    with pytest.raises(TrainingError, match=r"lacks model\.safetensors; it holds config\.json and model-00001"):
        _fit(tmp_path)
    _folder(tmp_path)
    assert weights.timm_config(_changed(license="mit\x1b[2J\n"))["license"] == "mit?[2J?"  # what a terminal acts on
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
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, tmp_path / weights.WEIGHTS[0])
    return _folder(tmp_path)


def _tokens(folder: Path) -> NDArray[np.float32]:
    """Return the tokens of the post date by timm alone, float32 [N, 1 + 4, K]."""
    timm = pytest.importorskip("timm")
    model = timm.create_model(CONFIG["architecture"], pretrained=False, **CONFIG["model_args"]).eval()
    model.load_state_dict(load_file(folder / weights.WEIGHTS[0]))
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
        maker = _fit(vit, pool=pool, dates="post", layer="last")
        found = maker.transform(_chips(), 1, seed=0, device=CPU, masks=masks if pool == "footprint" else None)[0]
        np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=3e-3, atol=3e-3)
    assert maker.facts()["licence"] == "mit"
    assert maker.size_px == 32
    assert (_fit(vit).layer, _fit(vit, pool="cls").layer) == ("blocks.0", "last")
    assert weights.usual_layer({}) == ("last", "")


@pytest.mark.parametrize("choices", [{}, {"layer": "blocks.0"}, {"size_px": 64, "pool": "cls"}])
def test_a_network_of_timm_survives_being_stored(vit: Path, choices: dict[str, Any]) -> None:
    maker = _fit(vit, **choices)
    again = bank.from_state(maker.state(), json.loads(json.dumps(maker.facts())))
    first = maker.transform(_chips(), 2, seed=0, device=CPU)
    np.testing.assert_array_equal(first, again.transform(_chips(), 2, seed=0, device=CPU))
    assert first.shape == (2, 5, 3 * 192)


def test_weights_of_another_network_and_layers_besides_its_way_are_refused(vit: Path) -> None:
    tensors = load_file(vit / weights.WEIGHTS[0])
    for changed, words in (
        (_changed(architecture="vit_small_patch16_224"), "needed is"),
        (_changed(architecture="resnet18", model_args={}), "missing tensors"),
        (_changed(architecture="no_such_network"), "knows no architecture"),
    ):
        with pytest.raises(TrainingError, match=words):
            _fit(_folder(vit, changed))
    _folder(vit)
    for layer, pool, words in (
        ("blocks.7", "mean", r"no layer 'blocks\.7'\..*blocks\.0, blocks\.1, last"),
        ("head", "mean", "head is no layer that images pass before the classifier.*blocks.0, blocks.1, last"),
        ("fc_norm", "cls", "fc_norm is no layer that images pass"),
        ("patch_embed", "cls", "patch_embed comes before the class token"),
    ):
        with pytest.raises(TrainingError, match=words):
            _fit(vit, layer=layer, pool=pool)
    save_file({**tensors, "norm.weight": tensors["norm.weight"] * torch.nan}, vit / weights.WEIGHTS[0])
    with pytest.raises(TrainingError, match="not finite"):
        _fit(vit)
    _save(vit, CONFIG["architecture"], 32, img_size=32, depth=7)
    with pytest.raises(TrainingError, match=r"blocks\.5, blocks\.6, last"):
        _fit(vit, layer="blocks.7")


def _save(folder: Path, architecture: str, size_px: int, **arguments: Any) -> None:
    """Write a network of timm with random weights and its settings; nothing is allocated besides its weights."""
    timm = pytest.importorskip("timm", reason="timm is in the extra backbones")
    with torch.device("meta"):
        model = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(each.shape, generator=generator) * 0.02 for name, each in model.state_dict().items()}
    save_file(tensors, folder / weights.WEIGHTS[0])
    _folder(folder, _changed(architecture=architecture, model_args=arguments, input_size=[3, size_px, size_px]))


def _shapes_of_convolutions(widths: list[int]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for number, width in enumerate(widths):
        stage = f"encoder.stages.{number}"
        if number:
            before = widths[number - 1]
            found |= _pair(f"{stage}.downsampling_layer.0", before) | _pair(
                f"{stage}.downsampling_layer.1", width, before, 2, 2
            )
        block = f"{stage}.layers.0"
        found |= _pair(f"{block}.dwconv", width, 1, 7, 7) | _pair(f"{block}.layernorm", width)
        found |= _pair(f"{block}.pwconv1", 4 * width, width) | _pair(f"{block}.pwconv2", width, 4 * width)
        found[f"{block}.layer_scale_parameter"] = (width,)
    first = _pair("embeddings.patch_embeddings", 8, 3, 4, 4) | _pair("embeddings.layernorm", 8)
    return first | found | _pair("layernorm", widths[-1])


def _shapes(family: str, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return names and shapes as transformers 5.24.0 writes them."""
    if family == "convnext":
        return _shapes_of_convolutions(config["hidden_sizes"])
    is_3, width, hidden = family == "dinov3_vit", 24, 48
    found: dict[str, tuple[int, ...]] = {"embeddings.cls_token": (1, 1, width)}
    found |= _pair(f"embeddings.patch_embeddings{'' if is_3 else '.projection'}", width, 3, 8, 8)
    if not is_3:
        found["embeddings.position_embeddings"] = (1, 17, width)
    if "num_register_tokens" in config:
        found["embeddings.register_tokens"] = (1, config["num_register_tokens"], width)
    for number in range(2):
        block = f"{'' if is_3 else 'encoder.'}layer.{number}"
        within = "attention" if is_3 else "attention.attention"
        for part in ("q_proj", "k_proj", "v_proj") if is_3 else ("query", "key", "value"):
            found |= _pair(f"{block}.{within}.{part}", width, width)
        found.pop(f"{block}.attention.k_proj.bias", None)
        found |= _pair(f"{block}.attention.{'o_proj' if is_3 else 'output.dense'}", width, width)
        for part in ("layernorm_before", "layernorm_after") if family == "vit" else ("norm1", "norm2"):
            found |= _pair(f"{block}.{part}", width)
        up, down = {"vit": ("intermediate.dense", "output.dense"), "dinov3_vit": ("mlp.up_proj", "mlp.down_proj")}.get(
            family, ("mlp.fc1", "mlp.fc2")
        )
        found |= _pair(f"{block}.{up}", hidden, width) | _pair(f"{block}.{down}", width, hidden)
        if config.get("use_gated_mlp"):
            found |= _pair(f"{block}.mlp.gate_proj", hidden, width)
        if family != "vit":
            found |= {f"{block}.layer_scale{n}.lambda1": (width,) for n in (1, 2)}
    return found | _pair("norm" if is_3 else "layernorm", width)


def _pair(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _hugging_face(folder: Path, family: str, config: dict[str, Any], prefix: str = "") -> dict[str, torch.Tensor]:
    """Write a folder as `save_pretrained` does, with weights by a formula; return these."""
    draw, tensors = np.random.default_rng(0), {}
    for name, shape in sorted(_shapes(family, config).items()):
        tensors[name] = torch.from_numpy(draw.normal(0.5 * (len(shape) == 1), 0.3, shape).astype(np.float32))
    others = {"classifier.weight": torch.zeros(3, 24), "embeddings.mask_token": torch.zeros(1, 24)}
    save_file({prefix + name: tensor for name, tensor in (tensors | others).items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": family, "hidden_act": "gelu", **config}))
    shown = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "size": {"shortest_edge": 40}, "crop_size": 32}
    (folder / "preprocessor_config.json").write_text(json.dumps(shown))
    return tensors


_SIZES = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8, "image_size": 32,
    "intermediate_size": 48, "layer_norm_eps": 1e-5,
}  # fmt: skip
_DINO2 = {**_SIZES, "mlp_ratio": 2, "qkv_bias": True, "use_swiglu_ffn": False}
_DINO3 = {
    **_SIZES, "num_register_tokens": 4, "rope_theta": 100.0, "use_gated_mlp": False, "query_bias": True, "key_bias": False,
    "value_bias": True, "proj_bias": True, "mlp_bias": True,
}  # fmt: skip
_CONVNEXT = {"hidden_sizes": [8, 12, 16, 24], "depths": [1, 1, 1, 1], "patch_size": 4, "image_size": 32}
FAMILIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "vit": ("vit", {**_SIZES, "qkv_bias": True}, "vit."), "dinov2": ("dinov2", _DINO2, ""),
    "registers": ("dinov2_with_registers", {**_DINO2, "num_register_tokens": 3}, ""), "dinov3": ("dinov3_vit", _DINO3, ""),
    "dinov3 gated": ("dinov3_vit", {**_DINO3, "use_gated_mlp": True, "hidden_act": "silu"}, ""),
    "convnext": ("convnext", _CONVNEXT, "convnext."),
}  # fmt: skip
EXPECTED = {
    "vit": [[0.872, 0.037, 1.185], [6.343, -0.139, 3.583], [0.994, 0.009, 1.271]],
    "dinov2": [[0.545, -0.207, 0.194], [3.359, 0.867, 0.603], [1.172, -0.509, 0.194]],
    "registers": [[-0.244, 0.386, 0.971], [-0.762, 2.165, 3.773], [-0.859, 0.52, 1.256]],
    "dinov3": [[0.892, 0.19, 0.97], [-0.596, -2.488, 1.038], [0.877, 0.099, 1.264]],
    "dinov3 gated": [[0.167, 0.128, 0.64], [-0.81, -3.767, 0.686], [0.05, 0.215, 0.582]],
    "convnext": [[0.027, 11.472, 0.655], [-0.591, -0.883, 1.682]],
}
"""By transformers 5.24.0, `from_pretrained` of these folders in float32: of the second chip's post date the first three numbers
of the mean over places after the last and after the usual layer, and of the class token.
"""


@pytest.mark.parametrize("name", FAMILIES)
def test_features_are_those_of_hugging_face(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("timm", reason="timm is in the extra backbones")
    monkeypatch.setattr(networks, "fast_dtype", lambda _: torch.float32)
    family, config, prefix = FAMILIES[name]
    _hugging_face(tmp_path, family, config, prefix)
    choices: tuple[dict[str, Any], ...] = ({"layer": "last"}, {}, {"pool": "cls"})
    for chosen, wanted in zip(choices, EXPECTED[name], strict=False):
        maker = _fit(tmp_path, dates="post", **chosen)
        found = maker.transform(_chips(), 1, seed=0, device=CPU)[0, 1, :3].astype(np.float32) / maker.scale
        np.testing.assert_allclose(found, wanted, atol=5e-3, rtol=1e-3)
        stored = bank.from_state(maker.state(), json.loads(json.dumps(maker.facts())))
        np.testing.assert_array_equal(stored.transform(_chips(), 1, seed=0, device=CPU)[0, 1, :3] / maker.scale, found)
    assert maker.size_px == 32  # of the crop


def test_folders_of_hugging_face_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("timm", reason="timm is in the extra backbones")
    family, config, _ = FAMILIES["dinov3"]
    tensors = _hugging_face(tmp_path, family, config)
    for changed, words in (
        ({"model_type": "swin"}, "kind 'swin', which is not among"), ({"hidden_act": "relu"}, "activation is 'relu'"),
        ({"key_bias": True}, "biases"), ({"num_register_tokens": 3}, "needed is"), ({"num_hidden_layers": 3}, "missing"),
        ({"num_hidden_layers": 1}, "unknown tensors"), ({"hidden_size": "x"}, "does not have so"),
        ({"num_hidden_layers": 5000}, "set depth"), ({"layer_norm_eps": 2}, "mean, std"),
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps({"model_type": family, "hidden_act": "gelu", **config, **changed}))
        with pytest.raises(TrainingError, match=words):
            _fit(tmp_path)
    _hugging_face(tmp_path, family, config)
    save_file({**tensors, "layer.0.adapter.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(TrainingError, match=r"unknown tensors: 1 \(blocks\.0\.adapter\.weight\)"):
        _fit(tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(TrainingError, match="lacks preprocessor_config"):
        _fit(tmp_path)


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


def test_layers_of_windows_are_refused_and_constants_of_older_files_left_out(tmp_path: Path) -> None:
    _save(tmp_path, "swin_tiny_patch4_window7_224", 64, **TINY_SWIN, img_size=64, window_size=4)
    older, table = tmp_path / weights.WEIGHTS[0], "layers.0.blocks.0.attn.relative_position_index"
    save_file({**load_file(older), table: torch.zeros(16, 16, dtype=torch.int64)}, older)
    with pytest.raises(TrainingError, match=r"maps of parts of images after layers\.0\.blocks\.0\.attn") as refused:
        _fit(tmp_path, layer="layers.0.blocks.0.attn")
    assert "Name a layer" in refused.value.hint
    assert _fit(tmp_path, layer="layers.0").out_dim == 8
