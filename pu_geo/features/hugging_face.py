"""Networks in the layout of Hugging Face's transformers, as the same networks of timm: settings, and names of tensors.

Nothing is guessed: what differs from timm's network in activation, biases or shape is refused, and timm's network must take
every tensor of the file and lack none (`weights.build`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

FAMILIES = ("vit", "dinov2", "dinov2_with_registers", "dinov3_vit", "convnext")
"""What `model_type` may be."""
_PREFIX = re.compile(r"^(vit|dinov2|dinov2_with_registers|dinov3_vit|convnext|model|backbone)\.")
_UNUSED = re.compile(r"^(classifier|pooler|head)\.|mask_token$")  # heads, and what training alone needs
_QKV = re.compile(r"^(blocks\.\d+\.)attention\.(?:attention\.)?([qkv])(?:uery|ey|alue|_proj)\.(weight|bias)$")
Rules = tuple[tuple[str, str], ...]
_TRANSFORMER: Rules = (
    (r"^embeddings\.cls_token$", "cls_token"), (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.register_tokens$", "reg_token"),
    (r"^embeddings\.patch_embeddings\.(projection\.)?", "patch_embed.proj."),
    (r"^(encoder\.)?layer\.(\d+)\.", r"blocks.\2."), (r"\.attention\.(output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.layernorm_before\.", ".norm1."), (r"\.layernorm_after\.", ".norm2."), (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"^(blocks\.\d+)\.output\.dense\.", r"\1.mlp.fc2."),
    (r"\.mlp\.down_proj\.", ".mlp.fc2."), (r"^layernorm\.", "norm."),
)  # fmt: skip
_CONVOLUTIONS: Rules = (
    (r"^embeddings\.patch_embeddings\.", "stem.0."), (r"^embeddings\.layernorm\.", "stem.1."),
    (r"^encoder\.stages", "stages"), (r"\.downsampling_layer\.", ".downsample."), (r"\.layers\.", ".blocks."),
    (r"\.dwconv\.", ".conv_dw."), (r"\.layernorm\.", ".norm."), (r"\.pwconv(\d)\.", r".mlp.fc\1."),
    (r"\.layer_scale_parameter$", ".gamma"), (r"^layernorm\.", "head.norm."),
)  # fmt: skip


def as_timm(config: Mapping[str, Any], given: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return architecture, args and norm_eps of timm's network, and the tensors under its names.

    Args:
        config: a config.json with a `model_type` of `FAMILIES`.
        given: tensors of the file, under the names of transformers.

    Raises:
        ValueError: if the settings are those of a network that timm does not have so.
        LookupError, TypeError: if settings or tensors are missing, or of another kind.
    """
    names = {_PREFIX.sub("", name): name for name in given}
    tensors = {name: given[whole].float() for name, whole in names.items() if not _UNUSED.search(name)}
    family, is_gated = config["model_type"], bool(config.get("use_gated_mlp"))
    activation = config.get("hidden_act", "gelu")
    if activation != ("silu" if is_gated else "gelu"):
        raise ValueError(f"its activation is {activation!r}")
    if family == "convnext":
        args = {"dims": config["hidden_sizes"], "depths": config["depths"], "patch_size": config["patch_size"]}
        return {"architecture": "convnext_tiny", "args": args, "norm_eps": None}, _renamed(tensors, _CONVOLUTIONS)
    width = config["hidden_size"]
    args = {
        "patch_size": config["patch_size"], "embed_dim": width, "depth": config["num_hidden_layers"],
        "num_heads": config["num_attention_heads"], "img_size": config["image_size"],
    }  # fmt: skip
    rules, architecture = _TRANSFORMER, "vit_base_patch16_224"
    if family == "dinov3_vit":
        architecture = "vit_small_plus_patch16_dinov3_qkvb" if is_gated else "vit_small_patch16_dinov3_qkvb"
        args |= {"num_reg_tokens": config["num_register_tokens"], "rope_temperature": config["rope_theta"]}
        has_bias = [config[f"{name}_bias"] for name in ("query", "value", "key", "mlp", "proj")]
        args["qkv_bias"] = has_bias[0]
        if has_bias != [has_bias[0], has_bias[0], False, True, True]:
            raise ValueError(f"its biases of query, value, key, mlp and proj are {has_bias}")
        up = "fc1_x" if is_gated else "fc1"
        rules = (
            *rules, (r"\.layer_scale(\d)\.lambda1$", r".gamma_\1"), (r"\.up_proj\.", f".{up}."),
            (r"\.gate_proj\.", ".fc1_g."),
        )  # fmt: skip
    else:
        args["qkv_bias"] = config.get("qkv_bias", True)  # as transformers has it where a file says nothing
        if family != "vit":
            architecture = "vit_base_patch14_dinov2"
            rules = (*rules, (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"))
    found = _with_qkv(_renamed(tensors, rules), is_separate=family == "dinov3_vit")
    if family == "dinov2_with_registers":  # timm adds the class token's position to the token itself
        args |= {"reg_tokens": config["num_register_tokens"], "no_embed_class": True}
        position = found["pos_embed"]
        found |= {"pos_embed": position[:, 1:], "cls_token": found["cls_token"] + position[:, :1]}
    hidden = len(found["blocks.0.mlp.fc1_x.weight" if is_gated else "blocks.0.mlp.fc1.weight"])
    args["mlp_ratio"] = (hidden + 0.5) / width  # which timm rounds down
    return {"architecture": architecture, "args": args, "norm_eps": config["layer_norm_eps"]}, found


def _renamed(tensors: Mapping[str, Tensor], rules: Rules) -> dict[str, Tensor]:
    found = {}
    for name, tensor in tensors.items():
        for pattern, ours in rules:
            name = re.sub(pattern, ours, name)
        found[name] = tensor
    return found


def _with_qkv(tensors: Mapping[str, Tensor], *, is_separate: bool) -> dict[str, Tensor]:
    """Join query, key and value of each block; biases stay separate where timm has them so, without one of the key."""
    found: dict[str, Tensor] = {}
    parts: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if not (match := _QKV.match(name)):
            found[name] = tensor
        elif is_separate and match[3] == "bias":
            found[f"{match[1]}attn.{match[2]}_bias"] = tensor
        else:
            parts.setdefault((match[1], match[3]), {})[match[2]] = tensor
    for (block, what), each in parts.items():
        found[f"{block}attn.qkv.{what}"] = torch.cat([each[part] for part in "qkv"])
    return found
