"""Networks that others have trained, recognised from a folder or a file: how they see images, and their layers.

A folder is in the layout of timm or of Hugging Face's transformers, both built by timm, which is in the extra `backbones`
and gets neither weights nor a hub from us; a file holds the state dict of a convolutional network of torchvision. No code of
others runs: files hold numbers and names.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
import torchvision
from torch import Tensor, nn

from pu_geo.errors import TrainingError, printable
from pu_geo.features import hugging_face
from pu_geo.training.backbones import UNREADABLE, fill, read_tensors, require_same_shapes
from pu_geo.wording import listed

CONFIG, PREPROCESSOR, WEIGHTS = "config.json", "preprocessor_config.json", ("model.safetensors", "pytorch_model.bin")
HINT = (
    f"Choose a folder of Hugging Face ({listed(hugging_face.FAMILIES)}) or timm with {CONFIG} and {WEIGHTS[0]}, or a file "
    "with the state dict of a ResNet, ConvNeXt, EfficientNet or MobileNet of torchvision for 3 bands."
)
LAST = "last"
EARLY = 8
"""Pixels a place of the usual layer stands for, where a network has stages: deeper ones know objects, and less of debris."""
_TORCHVISION = ("resnet*", "resnext*", "wide_resnet*", "convnext*", "efficientnet*", "mobilenet*")
_HEADS = ("avgpool", "fc", "classifier")
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}  # of 0..1
MAX_CONFIG = 1_000_000  # bytes
MAX_SIDE_PX = 1024
MAX_TOKENS, MAX_TABLES = 16_384, 256_000_000
"""Tokens of an image, and bytes that the tables of a network may have beyond its weights: a file with a few words asks for
both.
"""
ARGUMENTS = frozenset({
    "img_size", "patch_size", "embed_dim", "embed_dims", "depth", "depths", "dims", "num_heads", "mlp_ratio", "qkv_bias",
    "init_values", "global_pool", "class_token", "reg_tokens", "no_embed_class", "pre_norm", "final_norm", "fc_norm",
    "dynamic_img_size", "act_layer", "norm_layer", "output_stride", "window_size", "num_reg_tokens", "rope_temperature",
})  # fmt: skip
"""What settings may set of an architecture. Others of timm's arguments load files or fetch them."""
_NAME = re.compile(r"[a-z0-9_]{1,80}")
_TABLES = ("attn_mask", "k_bias")  # constants that older files hold and networks make themselves
BROKEN = (
    RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, NotImplementedError,
)  # fmt: skip
"""What networks raise where sizes, layers and settings do not go together."""


class _Reached(Exception):
    """The layer that is wanted has answered; what comes after it is not needed."""

    def __init__(self, found: object) -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True)
class Weights:
    """What a folder or a file gives.

    Attributes:
        config: as `build` takes it.
        tensors: float32, without classifier.
        sha256: of the file with the tensors.
        dtype: that they are stored in, such as "bfloat16"; networks compute from float32.
    """

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    file: str
    sha256: str
    dtype: str


def files_of(path: Path) -> list[Path]:
    """Return the files that a network is read from, the one with the weights first.

    Raises:
        TrainingError: if one is missing.
    """
    if path.name in (*WEIGHTS, CONFIG) and (path.parent / CONFIG).is_file():
        path = path.parent
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise _refusal(f"{path} is not there, or neither a file nor a folder")
    there = sorted(each.name for each in path.iterdir() if each.is_file())
    found = [name for name in (*WEIGHTS, CONFIG, PREPROCESSOR) if name in there]
    if lacks := [name for name in (CONFIG, WEIGHTS[0]) if name not in found and (name == CONFIG or WEIGHTS[1] not in found)]:
        raise _refusal(f"{path} lacks {listed(lacks)}; it holds {printable(listed(there[:6]) or 'nothing', 200)}")
    return [path / name for name in found if name != WEIGHTS[1] or WEIGHTS[0] not in found]


def read(path: Path) -> Weights:
    """Recognise a network and read it.

    Raises:
        TrainingError: if files are missing, damaged, or of a network that is not known.
    """
    file, *settings = files_of(path)
    try:
        given, sha256 = read_tensors(file)
    except TrainingError as error:
        raise TrainingError(error.problem, HINT, kind="weights") from error
    dtype = str(next(iter(given.values())).dtype).removeprefix("torch.") if given else ""
    if not settings:
        config, tensors = _recognised(file, given)
    elif "model_type" in (found := _json(settings[0])) and "architecture" not in found:
        config, tensors = _of_hugging_face(file.parent, found, given)
    else:
        config = timm_config(found)
        tensors = _usual(given, config)
    _require_config(config)
    name = f"{file.resolve().parent.name}/{file.name}" if settings else file.name
    return Weights(config, tensors, name, sha256, dtype)


class TimmMaps(nn.Module):
    """A network of timm as one that gives maps.

    Args:
        model: built without a classifier.
        layer: whose answer is taken, such as "blocks.8"; "last" for all but the head; "" for the usual one.
        pool: "cls" gives the class token as a map of one position, else tokens of an image become a map.
        weights: as they were before they were fitted to another size of images.
    """

    def __init__(self, model: nn.Module, layer: str, pool: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.weights = weights
        layers = _layers_of(model)
        layer, self.why = (layer, "") if layer else (LAST, "") if pool == "cls" else usual_layer(layers)
        self.model, self.layer, self.pool = model, layer, pool
        self.stop, self.words = "" if layer == LAST else layer, ", ".join([*layers, LAST])
        self.n_prefix = int(getattr(model, "num_prefix_tokens", 0) or 0)
        self.is_channels_last = getattr(model, "output_fmt", None) == "NHWC"
        if self.stop:
            if self.stop not in dict(model.named_modules()):
                raise self._odd_layer(f"The network has no layer {layer!r}")
            model.get_submodule(self.stop).register_forward_hook(_stop)

    def forward(self, images: Tensor) -> Tensor:
        """Map standardised images [B, 3, S, S] to maps [B, K, h, w]."""
        try:
            found: object = cast(Any, self.model).forward_features(images)
            if self.stop:
                raise self._odd_layer(f"{self.layer} is no layer that images pass before the classifier")
        except _Reached as reached:
            found = reached.found
        if not isinstance(found, Tensor) or found.ndim not in (2, 3, 4):
            raise self._odd_layer(f"{self.layer} answers with {type(found).__name__}, not with maps or tokens")
        if found.ndim == 4:
            return found.permute(0, 3, 1, 2) if self.is_channels_last else found
        if found.ndim == 2:
            return found[:, :, None, None]
        tokens = found[:, self.n_prefix :].transpose(1, 2)
        side = math.isqrt(tokens.shape[2])
        is_early = self.stop.partition(".")[0] == "patch_embed" or side**2 != tokens.shape[2]
        if self.stop and self.n_prefix and is_early:
            raise self._odd_layer(f"{self.layer} comes before the class token joins the tokens of the image")
        if self.pool == "cls":
            return found[:, 0, :, None, None]
        return tokens.unflatten(2, (side, side) if side**2 == tokens.shape[2] else (-1, 1))

    def _odd_layer(self, problem: str) -> TrainingError:
        return TrainingError(f"{problem}.", f"Name another one by --layer: {self.words}.", kind="layer")


def _layers_of(model: nn.Module) -> dict[str, int]:
    """Return the stages or blocks of a network of timm, and how many pixels a place of each stands for."""
    names = dict(model.named_modules())
    found = getattr(model, "feature_info", None) or ()
    return {str(each["module"]): int(each["reduction"]) for each in found if each["module"] in names}


def usual_layer(layers: Mapping[str, int]) -> tuple[str, str]:
    """Return the layer that is read where nobody names one, and what it is, in words.

    Source: ours. With EfficientNet-Lite0 the last stage of 8 pixels a place was better than all later ones and than a choice
    by held-out clicks (docs/methods.md, "Weights of your own").

    Args:
        layers: pixels that a place of each stands for, in order.

    Example:
        >>> usual_layer({"layer1": 4, "layer2": 8, "layer3": 16}), usual_layer({"blocks.0": 16, "blocks.1": 16})
        (('layer2', 'an early stage'), ('blocks.0', 'the middle block'))
    """
    names = list(layers)
    if len(set(layers.values())) > 1:
        return [name for name in names if layers[name] <= EARLY or name == names[0]][-1], "an early stage"
    return (names[(len(names) - 1) // 2], "the middle block") if names else (LAST, "")


def _stop(_layer: nn.Module, _inputs: object, found: object) -> None:
    raise _Reached(found)


def weights_of(network: nn.Module) -> Mapping[str, Tensor]:
    """Return the weights that `build` builds a network from; of another network its own."""
    return network.weights if isinstance(network, TimmMaps) else network.state_dict()


def _json(path: Path) -> dict[str, Any]:
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
    return found


def timm_config(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `build` needs of a config.json of timm; refuses what a file should not ask for (TrainingError)."""
    inner = found.get("pretrained_cfg", found)  # older files have all on one level
    inner = inner if isinstance(inner, dict) else {}
    arguments = found.get("model_args") or {}
    if isinstance(arguments, dict):  # numbers of classes and bands are ours to set
        arguments = {name: value for name, value in arguments.items() if name not in ("num_classes", "in_chans")}
    size, classifier = inner.get("input_size", [3, 224, 224]), inner.get("classifier") or []
    size_px = size[-1] if isinstance(size, list) and len(size) == 3 else None
    config = {
        "library": "timm", "architecture": found.get("architecture"), "args": arguments,
        "mean": inner.get("mean", IMAGENET["mean"]), "std": inner.get("std", IMAGENET["std"]),
        "size_px": size_px, "shown_px": size_px, "norm_eps": None,
        "classifier": [classifier] if isinstance(classifier, str) else classifier, "license": inner.get("license"),
    }  # fmt: skip
    _require_config(config)
    return {**config, "license": config["license"] and printable(config["license"], 200)}


def _of_hugging_face(
    folder: Path, found: Mapping[str, Any], given: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return settings and tensors of a network in the layout of transformers; how it sees images is in a file of its own."""
    family = printable(str(found["model_type"]), 60)
    if family not in hugging_face.FAMILIES:
        raise _refusal(f"{folder} holds a network of the kind {family!r}, which is not among those that PU-Geo reads")
    if not (folder / PREPROCESSOR).is_file():
        raise TrainingError(
            f"{folder} lacks {PREPROCESSOR}, which says how bright and large images were in its training.",
            "Get that file from where the weights came from, and put it beside them.",
            kind="weights",
        )
    shown = _json(folder / PREPROCESSOR)
    size = (shown.get("do_center_crop", True) and shown.get("crop_size")) or shown.get("size")
    is_shifted = shown.get("do_normalize", True)
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    try:
        theirs, tensors = hugging_face.as_timm(found, given)
    except (*BROKEN, *UNREADABLE) as error:
        problem = f"{folder} holds a network of the kind {family} that timm does not have so ({first_words(error)})"
        raise _refusal(printable(problem, 400)) from error
    return {
        "library": "timm", **theirs, "mean": shown.get("image_mean") if is_shifted else [0, 0, 0],
        "std": shown.get("image_std") if is_shifted else [1, 1, 1],
        "size_px": found.get("image_size", size), "shown_px": size, "classifier": [], "license": None,
    }, tensors  # fmt: skip


def _recognised(path: Path, given: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return settings and tensors of the network of torchvision that has exactly these, by name and shape."""
    tensors = {
        re.sub(r"^features\.(?=\d)", "features", name): tensor.float()
        for name, tensor in given.items()
        if name.partition(".")[0] not in _HEADS
    }
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    for name in torchvision.models.list_models(module=torchvision.models, include=_TORCHVISION):
        if shapes == {each: tensor.shape for each, tensor in floats(_convolutions(name)).items()}:
            shown = {**IMAGENET, **torchvision.models.get_model_weights(name).DEFAULT.transforms.keywords}
            return {
                "library": "torchvision", "architecture": name, "args": {}, "mean": [*shown["mean"]],
                "std": [*shown["std"]], "size_px": shown["crop_size"], "shown_px": shown["crop_size"], "norm_eps": None,
                "classifier": [], "license": None,
            }, tensors  # fmt: skip
    first = next((f", the first {each} {list(tensor.shape)}" for each, tensor in given.items()), "")
    raise _refusal(printable(f"{path} holds weights of no network that is known: {len(given)} tensors{first}", 400))


def _convolutions(name: str) -> nn.Sequential:
    """Return a network of torchvision on the meta device, without its head; of `features` the parts, as features0 ..."""
    with torch.device("meta"):
        whole = torchvision.models.get_model(name, weights=None)
    found = nn.Sequential()
    for child, part in whole.named_children():
        if child == "features":
            for number, each in enumerate(cast(nn.Sequential, part)):
                found.add_module(f"features{number}", each)
        elif child not in _HEADS:
            found.add_module(child, part)
    return found


def floats(network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of real numbers of a network by their names."""
    return {name: tensor for name, tensor in network.state_dict().items() if tensor.is_floating_point()}


def up_to(whole: nn.Sequential, layer: str, tensors: Mapping[str, Tensor], path: Path) -> tuple[nn.Sequential, str, str]:
    """Return a network up to a layer, that layer, and what it is where it is the usual one.

    Args:
        whole: on the meta device.
        layer: "" for the usual one, "last" for the last.
        tensors: of all of it, or of that part.
        path: where they come from, for messages.

    Raises:
        TrainingError: if it has no such layer, or the tensors do not fit.
    """
    children, why, layer = dict(whole.named_children()), "", layer.replace("features.", "features")
    if not layer:
        maps, sizes = torch.zeros(2, 3, 64, 64, device="meta"), {}
        for each, part in whole.eval().named_children():
            maps = part(maps)
            sizes[each] = 64 // maps.shape[-1]
        layer, why = usual_layer(sizes)
    last = list(children)[-1] if layer == LAST else layer
    if last not in children:
        hint = "Name one of these with --layer, or leave --layer out."
        raise TrainingError(
            f"The network has no layer {layer!r}; it has {', '.join([*children, LAST])}.", hint, kind="layer"
        )
    names = list(children)[: list(children).index(last) + 1]
    network = nn.Sequential()
    for each in names:
        network.add_module(each, children[each])
    kept = {each: tensor for each, tensor in tensors.items() if each.partition(".")[0] in names}
    if kept.keys() != tensors.keys():
        require_same_shapes(floats(whole), tensors, path)
    network.to_empty(device="cpu")
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.reset_running_stats()  # its counter, which no file of ours has
    fill(network, kept, path)
    return network.eval().requires_grad_(False).to(memory_format=torch.channels_last), layer, why


def _require_config(config: object) -> None:
    """Refuse settings that are none of `Weights.config`; they may come from a stranger's file."""
    is_known = isinstance(config, dict) and config.get("library") in ("timm", "torchvision")
    if not is_known or not _NAME.fullmatch(str(cast(dict[str, Any], config).get("architecture"))):
        raise _refusal("The settings of the network name no architecture of timm or torchvision")
    config = cast(dict[str, Any], config)
    numbers = [config.get("mean"), config.get("std")]
    are_numbers = all(
        isinstance(values, list)
        and len(values) == 3
        and all(type(each) in (int, float) and math.isfinite(each) for each in values)
        for values in numbers
    )
    licence, classifier, arguments, eps = (config.get(name) for name in ("license", "classifier", "args", "norm_eps"))
    sizes = [config.get("size_px"), config.get("shown_px")]
    is_sound = (
        (are_numbers and min(config["std"]) > 0)
        and all(type(size) is int and 8 <= size <= MAX_SIDE_PX for size in sizes)
        and (licence is None or (isinstance(licence, str) and len(licence) <= 200))
        and (isinstance(classifier, list) and all(isinstance(each, str) and each for each in classifier))
        and isinstance(arguments, dict)
        and (eps is None or (type(eps) is float and 0 < eps < 0.1))
    )
    if not is_sound:
        raise _refusal(
            f"The settings of the network {config['architecture']} need mean, std above 0 and images of 8 to {MAX_SIDE_PX} "
            f"px; they are {printable(f'mean {numbers[0]}, std {numbers[1]}, px {sizes}', 200)}"
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


def _usual(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a file without the classifier and constants, which are not needed."""
    heads = tuple(f"{name}." for name in config["classifier"])
    return {
        name: tensor.float() for name, tensor in tensors.items() if not name.startswith(heads) and not name.endswith(_TABLES)
    }


def build(
    config: object, tensors: Mapping[str, Tensor], layer: str, pool: str, size_px: int, path: Path
) -> tuple[nn.Module, str, str]:
    """Return a network with these weights, in evaluation mode, float32; the layer that it is read at; and, of the usual one,
    what that is.

    Its architecture is built without memory first, and refused where the tensors are not its own: a few words cannot ask for
    a network of any size.

    Args:
        config: of `Weights`, or of a stored maker.
        layer: "" for the usual one, "last" for the last.
        size_px: side of the images; transformers that can adapt their positions to it.
        path: where the weights come from, for messages.

    Raises:
        TrainingError: if timm is missing or does not know the architecture, or the parts do not fit.
    """
    _require_config(config)
    settings = cast(dict[str, Any], config)
    if settings["library"] == "torchvision":
        if settings["architecture"] not in torchvision.models.list_models(module=torchvision.models, include=_TORCHVISION):
            raise _refusal(f"{settings['architecture']} is no network of torchvision that is known")
        if pool != "cls":
            return up_to(_convolutions(settings["architecture"]), layer, tensors, path)
        has_token = False
    else:
        try:
            found = _of_timm(settings, tensors, layer, pool, size_px, path)
        except TrainingError as error:
            hint = HINT if error.kind == "weights" else error.hint
            raise TrainingError(error.problem, hint, kind=error.kind) from error
        has_token = getattr(found.model, "cls_token", None) is not None and bool(found.n_prefix)
    if pool == "cls" and not has_token:
        raise TrainingError(
            f"{settings['architecture']} has no class token to pool by.", "Pool by mean or footprint (--pool).", kind="pool"
        )
    return found, found.layer, found.why


def _of_timm(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], layer: str, pool: str, size_px: int, path: Path
) -> TimmMaps:
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
                require_same_shapes(floats(sketch), tensors, path)
                _require_small(sketch, name, size_px)
                if is_resized(sketch):
                    cast(Any, sketch).set_input_size(img_size=(size_px, size_px))
                    _require_small(sketch, name, size_px)
            model = architecture()
        fill(model, tensors, path)
        weights: Mapping[str, Tensor] = model.state_dict()
        if is_resized(model):
            weights = {each: tensor.clone() for each, tensor in weights.items()}
            cast(Any, model).set_input_size(img_size=(size_px, size_px))
        for part in model.modules():
            if settings["norm_eps"] and isinstance(part, nn.LayerNorm):
                part.eps = settings["norm_eps"]
        return TimmMaps(model.requires_grad_(False), layer, pool, weights)
    except BROKEN as error:
        raise _refusal(
            f"timm {timm.__version__} cannot build {name} with these settings, layer {layer!r} and {size_px} px "
            f"({first_words(error)})"
        ) from error


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
            "Networks from a folder are built by timm, which is not installed.",
            'Install it with: pip install "pu-geo[backbones]"',
            kind="timm",
        ) from error
    return cast(ModuleType, timm)


def _refusal(problem: str) -> TrainingError:
    return TrainingError(f"{problem}.", HINT, kind="weights")
