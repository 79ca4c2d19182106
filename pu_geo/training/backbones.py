"""The convolutional networks that turn chips into vectors, drawn from a generator or started from a local weights file."""

from __future__ import annotations

import hashlib
import math
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import torch
import torchvision
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from pu_geo.errors import ShapeError, TrainingError
from pu_geo.training import model_files
from pu_geo.wording import listed

MAX_BYTES = 2**31  # larger files are not read: ResNet-18 needs 45 MB, a ViT-L 1.2 GB

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".zip")
UNREADABLE = (
    *(pickle.UnpicklingError, struct.error, RuntimeError, ValueError, LookupError, TypeError, AttributeError),
    *(AssertionError, EOFError, MemoryError, OverflowError),
)
"""What `torch.load` raises, or may raise, on damaged and hostile files."""


class Backbone(nn.Sequential):
    """Layers applied one after the other, under the names that weights files use (`conv1.weight`, `layer1.0...`)."""

    def __init__(self, n_bands: int, out_dim: int, layers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.n_bands, self.out_dim = n_bands, out_dim

    def forward(self, images: Tensor) -> Tensor:
        """Map standardised chips, float [B, n_bands, H, W], to float [B, out_dim], at least 0.

        Raises:
            ShapeError: if the images have other bands or axes.
        """
        if images.ndim != 4 or images.shape[1] != self.n_bands:
            raise ShapeError(f"images must be [B, {self.n_bands}, H, W] for this backbone; got {tuple(images.shape)}.")
        return super().forward(images)


class _PreactBlock(nn.Module):
    """Two 3x3 convolutions, each after BatchNorm and ReLU, around a shortcut.

    Source: He et al. 2016, "Identity mappings in deep residual networks", Fig. 4(e) and appendix: where the shape
    changes, the shortcut is a 1x1 convolution that shares the first activation.

    Departs from the source: the very first block is no exception; its shortcut carries the stem's output as it is.
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(n_in)
        self.conv1 = _conv(n_in, n_out, 3, stride)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.conv2 = _conv(n_out, n_out, 3)
        self.shortcut = _conv(n_in, n_out, 1, stride) if stride != 1 or n_in != n_out else None

    def forward(self, maps: Tensor) -> Tensor:
        """Map float [B, n_in, H, W] to float [B, n_out, H / stride, W / stride]."""
        active = self.bn1(maps).relu()
        kept = maps if self.shortcut is None else self.shortcut(active)
        change: Tensor = self.conv2(self.bn2(self.conv1(active)).relu())
        return change + kept


def _conv(n_in: int, n_out: int, size_px: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, size_px, stride, padding=size_px // 2, bias=False)


def _small(n_bands: int) -> Backbone:
    """Four strided convolutions, for 64 px chips on a laptop. Ours.

    0.39 M weights and a ninth of `resnet18`'s multiplications; on two cores it trains six to eight times as fast.
    """
    widths = (n_bands, 32, 64, 128, 256)
    layers: dict[str, nn.Module] = {}
    for number, (n_in, n_out) in enumerate(pairwise(widths), 1):
        layers[f"conv{number}"] = _conv(n_in, n_out, 5 if number == 1 else 3, 2)
        layers[f"bn{number}"] = nn.BatchNorm2d(n_out)
        layers[f"relu{number}"] = nn.ReLU(inplace=True)
    return Backbone(n_bands, widths[-1], layers | _mean_over_positions())


def _preact_resnet18(n_bands: int) -> Backbone:
    """Pre-activation ResNet-18 that halves the chip three times only, at every chip size: NcPU's backbone.

    Source: He et al. 2016 (see `_PreactBlock`), with the 3x3 stem and the BatchNorm and ReLU after the last block that
    the paper uses on small images. With NcPU's heads (METHODS.md, section 1) 12.62 M weights.
    """
    layers: dict[str, nn.Module] = {"conv1": _conv(n_bands, 64, 3)}
    n_in = 64
    for number, n_out in enumerate((64, 128, 256, 512), 1):
        first = _PreactBlock(n_in, n_out, 1 if number == 1 else 2)
        layers[f"layer{number}"] = nn.Sequential(first, _PreactBlock(n_out, n_out, 1))
        n_in = n_out
    layers |= {"bn": nn.BatchNorm2d(n_in), "relu": nn.ReLU(inplace=True)}
    return Backbone(n_bands, n_in, layers | _mean_over_positions())


def _resnet18(n_bands: int) -> Backbone:
    """Torchvision's ResNet-18 (7x7 stem, max-pool) without its classifier, for any number of bands."""
    whole = torchvision.models.resnet18(weights=None)

    layers = {name: layer for name, layer in whole.named_children() if name not in ("avgpool", "fc")}
    layers["conv1"] = _conv(n_bands, 64, 7, 2)
    return Backbone(n_bands, whole.fc.in_features, layers | _mean_over_positions())


def _mean_over_positions() -> dict[str, nn.Module]:
    return {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}


BACKBONES: dict[str, Callable[[int], Backbone]] = {
    "small": _small,
    "preact_resnet18": _preact_resnet18,
    "resnet18": _resnet18,
}
"""What `new_backbone` can build; each function takes the number of bands and only joins the layers."""


def empty_backbone(name: str, n_bands: int) -> Backbone:
    """Build one of `BACKBONES` without memory for its weights: `to_empty` and `fill` are still to come."""
    with torch.device("meta"):
        return BACKBONES[name](n_bands)


def new_backbone(name: str, n_bands: int, generator: torch.Generator, weights_file: str = "") -> Backbone:
    """Build a backbone on the CPU whose weights depend on nothing but the generator and the file.

    Convolutions are drawn from a normal distribution (He et al. 2015, Eq. 14, fan-out); BatchNorm starts as the identity.
    The generator moves on by the same amount with and without a weights file. Nothing is downloaded.

    Args:
        name: a key of `BACKBONES`.
        n_bands: C >= 1.
        generator: on the CPU. Torch's global random state is neither used nor moved.
        weights_file: a local .safetensors, .pt or .pth file, or a model file, to start from; see `_load_weights`.

    Returns:
        The backbone, in training mode, float32.

    Raises:
        ValueError: for another name or number of bands.
        TrainingError, ModelError: if the weights file cannot be used.
    """
    if name not in BACKBONES or n_bands < 1:
        raise ValueError(f"a backbone is one of {', '.join(BACKBONES)} with 1 band or more; got {name!r}, {n_bands} bands.")
    with torch.device("meta"):  # layers draw from the global random state when they are made, except on this device
        backbone = BACKBONES[name](n_bands)
    backbone.to_empty(device="cpu")
    for layer in backbone.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()
    if weights_file:
        _load_weights(backbone, Path(weights_file))
    return backbone


def _load_weights(backbone: Backbone, path: Path) -> None:
    """Start a backbone from a state dict, such as torchvision's ResNet-18 or an earlier run's backbone.

    The state dict may lie under "state_dict" or "model", and its names begin with "module.", "backbone." or, as in a
    run's model, "trunk.backbone.": then the tensors beside those are left out. A classifier `fc` is left out too. All other
    tensors must fit. A first layer of three bands is spread over the backbone's bands.

    Args:
        backbone: to be changed; on any device.
        path: a local .safetensors, .pt or .pth file, or a model file. Code in it is not run.

    Raises:
        TrainingError: if the file is missing, too large, unreadable, does not fit, or holds numbers that are not finite.
    """
    given = tensors_of_backbone(_state_dict(path), path)
    stem = next(iter(backbone.state_dict()))
    if stem in given:
        given[stem] = _spread(given[stem], backbone.n_bands)
    fill(backbone, given, path)


def fill(network: nn.Module, given: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a network, all that it has and no others.

    Args:
        given: name -> floating-point tensor.
        path: where they come from, for messages.

    Raises:
        TrainingError: if names or shapes differ, or numbers are not finite.
    """
    wanted = {name: tensor for name, tensor in network.state_dict().items() if tensor.is_floating_point()}
    require_same_shapes(wanted, given, path)
    for name, tensor in wanted.items():
        _copy_checked(tensor, given[name], name, path)


def require_same_shapes(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor], path: Path) -> None:
    """Raise TrainingError where a file's tensors are not those of a network, whose own may be on the meta device."""
    for names, what in ((wanted.keys() - given.keys(), "missing"), (given.keys() - wanted.keys(), "unknown")):
        if names:
            raise _refusal(path, f"does not fit this backbone; {what} tensors: {len(names)} ({listed(sorted(names))})")
    for name, tensor in wanted.items():
        if given[name].shape != tensor.shape:
            found, needed = list(given[name].shape), list(tensor.shape)
            raise _refusal(path, f"does not fit this backbone: {name} is {found}, needed is {needed}")


def _spread(weight: Tensor, n_bands: int) -> Tensor:
    """Convert the first layer's weights for red, green and blue into weights for other bands.

    Repeated where the bands are several pictures of three, such as pre and post; else every band gets their mean, as
    nobody knows which color it is. Scaled so that equal bands give the response that three of them gave.

    Args:
        weight: float [K, 3, S, S]; anything else is returned as it is.
        n_bands: C.

    Returns:
        float [K, C, S, S].
    """
    if weight.ndim != 4 or weight.shape[1] != 3 or n_bands == 3:
        return weight
    bands = weight if n_bands % 3 == 0 else weight.mean(1, keepdim=True)
    return bands.repeat(1, n_bands // bands.shape[1], 1, 1) * (3 / n_bands)


def _copy_checked(into: Tensor, value: Tensor, name: str, path: Path) -> None:
    """Copy one tensor of a weights file into the backbone, or refuse it."""
    value = value.float()
    lowest = 0 if name.endswith("running_var") else -math.inf
    if not value.isfinite().all() or value.min() < lowest:
        raise _refusal(path, f"is damaged: {name} holds values that are not finite, or variances below 0")
    into.copy_(value)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], str]:
    """Read the tensors of a local .safetensors, .pt, .pth or .bin file, without what they are wrapped in, and its sha256.

    Code in the file is not run. A classifier `fc`, counters of BatchNorm and tables of places are left out.

    Raises:
        TrainingError: if the file is missing, too large, unreadable, or holds something else.
    """
    if path.suffix == ".safetensors":
        found, digest = read_safetensors(path)
        return tensors_of_backbone(found, path), digest
    tensors = tensors_of_backbone(_state_dict(path), path)
    with path.open("rb") as file:
        return tensors, hashlib.file_digest(file, "sha256").hexdigest()


def _state_dict(path: Path) -> Mapping[str, object]:
    """Read the named values of a weights file, without what they are wrapped in."""
    found = _read(path)
    for wrapper in ("state_dict", "model"):
        inner = found.get(wrapper) if isinstance(found, Mapping) else None
        found = inner if isinstance(inner, Mapping) else found
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise _refusal(path, f"holds a {type(found).__name__} where named tensors are needed")
    return found


def tensors_of_backbone(found: Mapping[str, object], path: Path) -> dict[str, Tensor]:
    """Pick the backbone's tensors out of a state dict, under plain names, without counters and tables of whole numbers."""
    for prefix in ("module.", "model.", "trunk.backbone.", "backbone."):
        if any(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    tensors: dict[str, Tensor] = {}
    for name, value in found.items():
        if name.startswith("fc.") or name.endswith((".num_batches_tracked", ".relative_position_index", ".position_ids")):
            continue
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_meta or not value.is_floating_point():
            raise _refusal(path, f"holds something else than a plain tensor of real numbers under {name}")
        tensors[name] = value
    return tensors


def _read(path: Path) -> object:
    """Read a weights file of either kind without running code from it."""
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    _require_readable(path, SUFFIXES)
    if path.suffix == ".zip":
        tensors = model_files.read(path).tensors.items()
        return {name: torch.from_numpy(array) for name, array in tensors if name.startswith("trunk.backbone.")}
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:  # torch compresses nothing; a file packed by somebody else may be a bomb
                if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                    raise _refusal(path, "is compressed, which torch never does")
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from error
    except UNREADABLE as error:
        raise _refusal(path, "is damaged, or holds more than plain tensors, which could run code") from error


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], str]:
    """Read a .safetensors file, once, and return its tensors by their names and the sha256 of the file.

    Raises:
        TrainingError: if the file is missing, of another kind, too large or damaged.
    """
    _require_readable(path, (".safetensors",))
    try:
        content = path.read_bytes()
        return load(content), hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from error
    except (SafetensorError, *UNREADABLE) as error:
        raise _refusal(path, "is damaged, or not a safetensors file") from error


def _require_readable(path: Path, suffixes: tuple[str, ...]) -> None:
    if not path.is_file():
        raise _refusal(path, "is not there, or not a regular file")
    if path.suffix not in suffixes:
        raise _refusal(path, f"ends in {path.suffix!r}; it must end in {', '.join(suffixes)}")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise _refusal(path, f"has {size / 1e6:.0f} MB; the weights of a backbone have {MAX_BYTES / 1e6:.0f} MB at most")


def _refusal(path: Path, problem: str) -> TrainingError:
    return TrainingError(
        f"The weights file {path} {problem}.",
        "Choose a .safetensors, .pt or .pth file with the state dict of this backbone, a model file (.pugeo-model.zip) of a "
        "network from chips, or start without a weights file.",
        kind="weights",
    )
