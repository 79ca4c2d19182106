"""Networks of timm from a folder: `config.json` names the architecture, `model.safetensors` holds its weights.

That is how timm's own `save_for_hf` writes a network, and how the folders look that one can download elsewhere. We read both
files ourselves and let timm build the architecture without weights: timm, which is in the extra `backbones`, never loads or
fetches any.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from pu_geo.errors import TrainingError, printable
from pu_geo.training.backbones import fill, require_same_shapes

CONFIG, WEIGHTS = "config.json", "model.safetensors"
HINT = f"Choose a folder with {CONFIG} and {WEIGHTS}, as timm writes it, of an architecture that your timm knows."
LAYER_HINT = (
    "Name a layer that gives features of whole images, such as blocks.8, layers.2 or stages.2, or none for the last one."
)
MAX_CONFIG = 1_000_000  # bytes
MAX_SIDE_PX = 1024
MAX_TOKENS, MAX_TABLES = 16_384, 256_000_000
"""Tokens of an image, and bytes that the tables of a network may have beyond its weights: a file with a few words asks for
both.
"""
ARGUMENTS = frozenset({
    "img_size", "patch_size", "embed_dim", "embed_dims", "depth", "depths", "dims", "num_heads", "mlp_ratio", "qkv_bias",
    "init_values", "global_pool", "class_token", "reg_tokens", "no_embed_class", "pre_norm", "final_norm", "fc_norm",
    "dynamic_img_size", "act_layer", "norm_layer", "output_stride", "window_size",
})  # fmt: skip
"""What a config.json may set of an architecture. Others of timm's arguments load files or fetch them."""
_NAME = re.compile(r"[a-z0-9_]{1,80}")
_TABLES = ("relative_position_index", "attn_mask", "k_bias")  # constants that older files hold and networks make themselves
BROKEN = (
    RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, NotImplementedError,
)  # fmt: skip
"""What networks raise where sizes, layers and settings do not go together."""


class _Reached(Exception):
    """The layer that is wanted has answered; what comes after it is not needed."""

    def __init__(self, found: object) -> None:
        super().__init__()
        self.found = found


class TimmMaps(nn.Module):
    """A network of timm as one that gives maps.

    Args:
        model: built without a classifier.
        layer: whose answer is taken, such as "blocks.8"; "" for all but the head.
        pool: "cls" gives the class token as a map of one position, else tokens of an image become a map.
        weights: as they were before they were fitted to another size of images.
    """

    def __init__(self, model: nn.Module, layer: str, pool: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.weights = weights
        self.model, self.layer, self.pool = model, layer, pool
        self.n_prefix = int(getattr(model, "num_prefix_tokens", 0) or 0)
        self.is_channels_last = getattr(model, "output_fmt", None) == "NHWC"
        if layer:
            model.get_submodule(layer).register_forward_hook(_stop)

    def forward(self, images: Tensor) -> Tensor:
        """Map standardised images [B, 3, S, S] to maps [B, K, h, w]."""
        try:
            found: object = cast(Any, self.model).forward_features(images)
            if self.layer:
                raise _odd_layer(f"{self.layer} is no layer that images pass before the classifier")
        except _Reached as reached:
            found = reached.found
        if not isinstance(found, Tensor) or found.ndim not in (2, 3, 4):
            raise TypeError(f"it answers with {type(found).__name__}, not with maps or tokens")
        if found.ndim == 4:
            return found.permute(0, 3, 1, 2) if self.is_channels_last else found
        if found.ndim == 2:
            return found[:, :, None, None]
        tokens = found[:, self.n_prefix :].transpose(1, 2)
        side = math.isqrt(tokens.shape[2])
        is_early = self.layer.partition(".")[0] == "patch_embed" or side**2 != tokens.shape[2]
        if self.layer and self.n_prefix and is_early:
            raise _odd_layer(f"{self.layer} comes before the class token joins the tokens of the image")
        if self.pool == "cls":
            return found[:, 0, :, None, None]
        return tokens.unflatten(2, (side, side) if side**2 == tokens.shape[2] else (-1, 1))


def _odd_layer(problem: str) -> TrainingError:
    return TrainingError(f"{problem}.", LAYER_HINT, kind="layer")


def _stop(_layer: nn.Module, _inputs: object, found: object) -> None:
    raise _Reached(found)


def weights_of(network: nn.Module) -> Mapping[str, Tensor]:
    """Return the weights that `build` builds a network from; of another network its own."""
    return network.weights if isinstance(network, TimmMaps) else network.state_dict()


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json of timm and keep what is needed: architecture, args, mean, std, size_px, classifier, license.

    Raises:
        TrainingError: if it is missing, too large, no JSON, or asks for what a file should not ask for.
    """
    try:
        if path.stat().st_size > MAX_CONFIG:
            raise _refusal(f"{path} has more than {MAX_CONFIG} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refusal(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _refusal(f"{path} is no JSON") from error
    if not isinstance(found, dict):
        raise _refusal(f"{path} holds no settings")
    inner = found.get("pretrained_cfg", found)  # older files have all on one level
    inner = inner if isinstance(inner, dict) else {}
    arguments = found.get("model_args") or {}
    if isinstance(arguments, dict):  # numbers of classes and bands are ours to set
        arguments = {name: value for name, value in arguments.items() if name not in ("num_classes", "in_chans")}
    size, classifier = inner.get("input_size", [3, 224, 224]), inner.get("classifier") or []
    config = {
        "architecture": found.get("architecture"),
        "args": arguments,
        "mean": inner.get("mean", [0.485, 0.456, 0.406]),
        "std": inner.get("std", [0.229, 0.224, 0.225]),
        "size_px": size[-1] if isinstance(size, list) and len(size) == 3 else None,
        "classifier": [classifier] if isinstance(classifier, str) else classifier,
        "license": inner.get("license"),
    }
    _require_config(config)
    return {**config, "license": config["license"] and printable(config["license"], 200)}


def _require_config(config: object) -> None:
    """Refuse settings that are not those of `read_config`; they may come from a stranger's file."""
    if not isinstance(config, dict) or not _NAME.fullmatch(str(config.get("architecture"))):
        raise _refusal("The settings of the network name no architecture of timm")
    numbers = [config.get("mean"), config.get("std")]
    are_numbers = all(
        isinstance(values, list)
        and len(values) == 3
        and all(type(each) in (int, float) and math.isfinite(each) for each in values)
        for values in numbers
    )
    size, licence, classifier, arguments = (config.get(name) for name in ("size_px", "license", "classifier", "args"))
    is_sound = (
        (are_numbers and min(config["std"]) > 0)
        and (type(size) is int and 8 <= size <= MAX_SIDE_PX)
        and (licence is None or (isinstance(licence, str) and len(licence) <= 200))
        and (isinstance(classifier, list) and all(isinstance(each, str) and each for each in classifier))
        and isinstance(arguments, dict)
    )
    if not is_sound:
        raise _refusal(
            f"The settings of the network {config['architecture']} need mean, std above 0 and an input_size of 8 to "
            f"{MAX_SIDE_PX} px"
        )
    odd = sorted(
        name
        for name, value in cast(dict[str, Any], arguments).items()
        if name not in ARGUMENTS or not _is_plain(value, _most(name))
    )
    if odd:
        raise _refusal(f"The settings of the network {config['architecture']} set {odd[0][:60]}, which a file may not set")


def _most(name: str) -> int:
    """Return the largest number an argument may have: the time to build a network grows with its blocks."""
    return 100 if name.startswith("depth") else 4096


def _is_plain(value: object, most: int) -> bool:
    """Return whether a value is a short word, a number up to `most`, a bool, or a short list of such."""
    if isinstance(value, list):
        return len(value) <= 8 and all(not isinstance(each, list) and _is_plain(each, most) for each in value)
    if isinstance(value, str):
        return bool(_NAME.fullmatch(value))
    return value is None or (type(value) in (bool, int, float) and abs(cast(float, value)) <= most)


def usual_tensors(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the floating-point tensors of a file without the classifier, counters and constants, which are not needed."""
    heads = tuple(f"{name}." for name in config["classifier"])
    return {
        name: tensor.float()
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not name.startswith(heads) and not name.endswith(_TABLES)
    }


def build(config: object, tensors: Mapping[str, Tensor], layer: str, pool: str, size_px: int) -> TimmMaps:
    """Build a network of timm with these weights, in evaluation mode, float32.

    Its architecture is built without memory first, and refused where the tensors are not its own: a few words cannot ask for
    a network of any size.

    Args:
        config: of `read_config`, or of a stored maker.
        size_px: side of the images; transformers that can adapt their positions to it.

    Raises:
        TrainingError: if timm is missing or does not know the architecture, or the parts do not fit.
    """
    _require_config(config)
    settings = cast(dict[str, Any], config)
    timm, name = _timm(), settings["architecture"]
    if not timm.is_model(name):
        raise _refusal(f"timm {timm.__version__} knows no architecture {name}")
    # The file's own size decides how many positions its weights have; nothing in these settings says where weights are.
    sizes = {"input_size": (3, settings["size_px"], settings["size_px"]), "mean": settings["mean"], "std": settings["std"]}
    known = timm.get_pretrained_cfg(name)
    fixed = {"fixed_input_size": known.fixed_input_size, "classifier": known.classifier, "first_conv": known.first_conv}

    def architecture() -> nn.Module:
        found = timm.create_model(
            name, pretrained=False, pretrained_cfg={**sizes, **fixed}, num_classes=0, **settings["args"]
        )
        return cast(nn.Module, found.eval())

    def is_resized(model: nn.Module) -> bool:
        return size_px != settings["size_px"] and hasattr(model, "set_input_size")

    try:
        with torch.random.fork_rng(devices=[]):
            with torch.device("meta"):
                sketch = architecture()
                wanted = {each: t for each, t in sketch.state_dict().items() if t.is_floating_point()}
                require_same_shapes(wanted, tensors, Path(WEIGHTS))
                _require_small(sketch, name, size_px)
                if is_resized(sketch):
                    cast(Any, sketch).set_input_size(img_size=(size_px, size_px))
                    _require_small(sketch, name, size_px)
            model = architecture()
        fill(model, tensors, Path(WEIGHTS))
        weights: Mapping[str, Tensor] = model.state_dict()
        if is_resized(model):
            weights = {each: tensor.clone() for each, tensor in weights.items()}
            cast(Any, model).set_input_size(img_size=(size_px, size_px))
        found = TimmMaps(model.requires_grad_(False), layer, pool, weights)
    except TrainingError as error:
        raise TrainingError(error.problem, HINT, kind="weights") from error
    except BROKEN as error:
        raise _refusal(
            f"timm {timm.__version__} cannot build {name} with these settings, layer {layer!r} and {size_px} px "
            f"({first_words(error)})"
        ) from error
    if pool == "cls" and (getattr(model, "cls_token", None) is None or not found.n_prefix):
        raise _refusal(f"{name} has no class token to pool by (cls); mean and footprint are left")
    return found


def first_words(error: Exception) -> str:
    """Return the beginning of what an error says, in one line."""
    return " ".join(str(error).split())[:200]


def _require_small(sketch: nn.Module, name: str, size_px: int) -> None:
    """Refuse a network, on the meta device, with far larger tables than weights, or that would cut images into too many
    tokens.
    """
    tables, weights = (sum(each.nbytes for each in some) for some in (sketch.buffers(), sketch.parameters()))
    if tables > weights + MAX_TABLES:
        raise _refusal(f"{name} with these settings and {size_px} px needs {tables / 1e9:,.1f} GB besides its weights")
    patch = getattr(getattr(sketch, "patch_embed", None), "patch_size", None) or MAX_SIDE_PX
    patch_px = min(patch) if isinstance(patch, tuple) else patch
    if (size_px / patch_px) ** 2 > MAX_TOKENS:
        raise _refusal(f"{name} cuts {size_px} px into patches of {patch_px} px: more than {MAX_TOKENS:,} tokens")


def _timm() -> ModuleType:
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing of ours asks a hub; nor may what timm imports
    try:
        import timm
    except ImportError as error:
        raise TrainingError(
            "Networks from a folder (local-dir) are built by timm, which is not installed.",
            'Install it with: pip install "pu-geo[backbones]"',
            kind="timm",
        ) from error
    return cast(ModuleType, timm)


def _refusal(problem: str) -> TrainingError:
    return TrainingError(f"{problem}.", HINT, kind="weights")
