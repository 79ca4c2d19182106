"""Frozen features by a network: weights of a local file, or weights that the chips themselves have taught.

Each date of a chip goes through the same network of three bands; its maps are averaged over the chip, or over the footprint;
both dates become [pre, post, post - pre]. Nothing is downloaded, and no code of others runs: files hold numbers and names.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.features import self_supervised, weights
from pu_geo.features.rcf import fast_dtype
from pu_geo.features.views import HIGHEST, Chips, Describe, Maker, Making, joined_dates, mean_inside, split_dates
from pu_geo.records import FeatureRequest
from pu_geo.training.backbones import empty_backbone
from pu_geo.training.network import fused

N_BANDS = 3
BLOCK = 64  # chips whose random numbers are drawn together
PIXELS_AT_ONCE_CPU, PIXELS_AT_ONCE_GPU = 2**18, 2**24  # that go through a network together: 64 or 4,096 images of 64 px
SIDES_PX = (8, 1024)  # of images that a network may see
ROWS_FOR_SCALE, USUAL = 64, (2.0**-4, 2.0**12)
DATES, POOLS = ("both", "diff", "post"), ("mean", "cls", "footprint")
KINDS = (BACKBONE, SELF_SUPERVISED) = ("backbone", "self-supervised")
_ORIGIN = ("backbone", "weights_file", "weights_sha256", "licence", "stored_as")
_INPUT, _NETWORK = ("input.mean", "input.std"), "network."


@dataclass(frozen=True)
class NetworkMaker(Maker):
    """A frozen network that makes features of chips.

    Features are kept in float16. So that neither large nor small ones are lost, all are multiplied by one power of two,
    `scale`, chosen by a few of the chips; what is still beyond float16 is cut off there.

    Attributes:
        kind: its row in `bank.MAKERS`, one of `KINDS`.
        network: in evaluation mode; maps float [B, 3, S, S] to maps [B, K, h, w].
        out_dim: K.
        mean, std: float32 [3 or 6], of the bands in units of the uint8 chips.
        pool: "mean" over positions; "cls", the class token of a transformer; or "footprint", see `views.mean_inside`.
        layer: after which features are taken; "last" for the last.
        size_px: side to which images are scaled; 0 leaves chips as they are.
        dates: see `FeatureRequest`.
        origin: what is known of the weights, see `_ORIGIN`; "config" of those from a file.
    """

    block = BLOCK

    kind: str
    network: nn.Module
    out_dim: int
    mean: Tensor
    std: Tensor
    scale: float
    pool: str
    layer: str
    size_px: int
    dates: str
    origin: Mapping[str, Any]

    @property
    def n_features(self) -> int:
        """Features per chip, D."""
        return self.out_dim * (3 if self.dates == "both" else 1)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know, and `from_state` needs, as JSON."""
        own = ("kind", "pool", "layer", "size_px", "dates", "scale")
        was_taught_here = self.kind == SELF_SUPERVISED  # weights that own chips have taught may give some of them away
        return {name: getattr(self, name) for name in own} | dict(self.origin) | {"holds_imagery": was_taught_here}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the statistics of the bands as plain arrays."""
        own = {_NETWORK + name: tensor for name, tensor in weights.weights_of(self.network).items()}
        tensors = {"input.mean": self.mean, "input.std": self.std, **own}
        return {name: tensor.cpu().numpy() for name, tensor in tensors.items() if tensor.is_floating_point()}

    @classmethod
    def fit_request(cls, request: FeatureRequest, chips: Chips, rows: NDArray[np.int64], making: Making) -> NetworkMaker:
        """Read the network that the request names, or train one on the chips; see `bank.fit_maker`.

        Raises:
            TrainingError: if weights, layer, pooling, size or dates cannot be used.
            JobCancelled: if the user cancelled.
        """
        kind = request.maker
        _require_choices(request, kind, chips.shape)
        if kind == SELF_SUPERVISED:
            found = self_supervised.learn(
                chips, rows, request.dates, generator=making.generator, device=making.device, report=making.report,
                is_cancelled=making.is_cancelled,
            )  # fmt: skip
            given = _Given(found.tensors, found.mean, found.std, 0, {"backbone": found.backbone, "weights_file": None})
            given.origin["weights_sha256"] = _digest(found.tensors)
        else:
            given = _of_others(request)
        facts = {
            "kind": kind, "pool": request.pool, "layer": request.layer or (weights.LAST if kind == SELF_SUPERVISED else ""),
            "size_px": request.size_px or given.size_px,
            "dates": request.dates, "scale": 1.0, "licence": request.licence or None,
        }  # fmt: skip
        n_dates = 1 if request.dates == "post" else 2
        mean, std = (each if len(each) == N_BANDS * n_dates else each.repeat(n_dates) for each in (given.mean, given.std))
        made = _built({**facts, **given.origin}, given.tensors, mean, std, chips.shape[2])
        return made._with_scale(chips[rows[:ROWS_FOR_SCALE]], making.device)

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> NetworkMaker:
        """Build a maker from what `state` and `facts` gave; both may come from a stranger's file.

        Raises:
            TrainingError: if they do not belong together, or hold what no maker gives.
        """
        tensors = {}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                raise _refusal(f"The stored network holds no plain numbers under {name[:60]}")
            tensors[name] = torch.from_numpy(np.array(array, np.float32))
        if not all(name in tensors for name in _INPUT):
            raise _refusal("The stored network lacks mean and standard deviation of its bands")
        mean, std = (tensors.pop(name) for name in _INPUT)
        return _built(facts, {name.removeprefix(_NETWORK): tensor for name, tensor in tensors.items()}, mean, std)

    def _prepared(self, chips: Chips, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[Chips, Describe, int]:
        """Prepare for chips; convolutions run in bfloat16 where the hardware knows it, with BatchNorm in their weights."""
        wanted = (3, 6) if self.dates == "post" else (6,)
        if chips.ndim != 4 or chips.shape[1] not in wanted:
            raise ShapeError(
                f"chips must be [N, {' or '.join(map(str, wanted))}, H, W] for these features; got {chips.shape}."
            )
        pixels = (PIXELS_AT_ONCE_CPU if device.type == "cpu" else PIXELS_AT_ONCE_GPU) * N_BANDS // len(self.mean)
        step = max(1, pixels // (self.size_px**2 or math.prod(chips.shape[2:])))
        network = self._quick(chips.shape[2:], device)

        def describe(images: Tensor, footprints: Tensor | None) -> Tensor:
            parts = []
            for first in range(0, len(images), step):
                if is_cancelled():
                    raise JobCancelled
                some = slice(first, first + step)
                parts.append(self._describe(network, images[some], None if footprints is None else footprints[some]))
            found = torch.cat(parts) * self.scale
            if found.isnan().any():
                raise _refusal(f"The network {self.origin['backbone']} gives features that are no finite numbers")
            return found.clamp(-HIGHEST, HIGHEST).half()

        return chips, describe, max(1, step // BLOCK)

    def _describe(self, network: Callable[[Tensor], Tensor], images: Tensor, footprints: Tensor | None) -> Tensor:
        """Describe images, float32 [B, C, H, W] in 0..255, by features, float32 [B, D], not yet scaled."""
        shown = split_dates(images, self.mean, self.std)
        if self.size_px and shown.shape[2:] != (self.size_px, self.size_px):
            shown = F.interpolate(shown, (self.size_px, self.size_px), mode="bilinear", antialias=True)
        maps = network(shown).float()
        if footprints is None:
            pooled = maps.mean((2, 3))
        else:
            pooled = mean_inside(maps, footprints.repeat_interleave(len(shown) // len(images), dim=0))
        return joined_dates(pooled.unflatten(0, (len(images), -1)), self.dates)

    def _quick(self, size: tuple[int, ...], device: torch.device) -> Callable[[Tensor], Tensor]:
        """Return the network in the form that is fastest there, for chips of that size."""
        here = self.network if device.type == "cpu" else copy.deepcopy(self.network).to(device)
        is_bf16 = fast_dtype(device) == torch.bfloat16  # float16 would overflow
        if isinstance(here, nn.Sequential):
            dtype = torch.bfloat16 if is_bf16 else torch.float32
            quick = fused(here, (self.size_px, self.size_px) if self.size_px else size, dtype)
            return lambda images: cast(Tensor, quick(images.to(dtype, memory_format=torch.channels_last)))

        def automatic(images: Tensor) -> Tensor:
            with torch.autocast(device.type, dtype=torch.bfloat16) if is_bf16 else nullcontext():
                return cast(Tensor, here(images))

        return automatic

    @torch.inference_mode()
    def _with_scale(self, chips: NDArray[np.uint8], device: torch.device) -> NetworkMaker:
        """Choose `scale`: 1 where the largest feature of these chips is within `USUAL`, else what makes it 64 or so."""
        here = copy.deepcopy(self.network).to(device)
        images = torch.from_numpy(np.array(chips)).to(device).float()
        found = [self._describe(here, part, None).abs().max() for part in images.split(4)]
        highest = float(torch.stack(found).max()) if found else 1.0
        if not math.isfinite(highest):
            raise _refusal(f"The network {self.origin['backbone']} gives features that are no finite numbers")
        is_usual = highest == 0 or USUAL[0] <= highest <= USUAL[1]
        return replace(self, scale=1.0 if is_usual else 2.0 ** (6 - round(math.log2(highest))))


@dataclass(frozen=True)
class _Given:
    """What a file, a folder or a training gives: weights, statistics of the bands, the images' own side, and facts."""

    tensors: Mapping[str, Tensor]
    mean: Tensor
    std: Tensor
    size_px: int
    origin: dict[str, Any]


def _of_others(request: FeatureRequest) -> _Given:
    """Read weights of others; images have the size that the network was trained on."""
    found = weights.read(Path(request.backbone))
    mean, std = (torch.tensor(found.config[name]) * 255 for name in ("mean", "std"))
    origin = {
        "backbone": found.config["architecture"], "weights_file": found.file, "weights_sha256": found.sha256,
        "config": found.config, "licence": request.licence or found.config["license"], "stored_as": found.dtype,
    }  # fmt: skip
    return _Given(found.tensors, mean, std, found.config["shown_px"], origin)


def _require_choices(request: FeatureRequest, kind: str, shape: tuple[int, ...]) -> None:
    """Raise TrainingError where a request asks for what its maker, or these chips, do not have."""
    n_bands, name = shape[1], request.maker
    problems = {
        f"dates is {request.dates!r}; it must be {', '.join(DATES)}": request.dates not in DATES,
        f"pool is {request.pool!r}; it must be {', '.join(POOLS)}": request.pool not in POOLS,
        f"chips have {n_bands} bands; networks take 3 of post, or 3 of pre and 3 of post": n_bands not in (3, 6),
        f"dates is {request.dates!r}, but the chips show post alone": n_bands == N_BANDS and request.dates != "post",
        f"size is {request.size_px} px; it must be {SIDES_PX[0]} to {SIDES_PX[1]}, or 0 for the maker's own": not (
            request.size_px == 0 or SIDES_PX[0] <= request.size_px <= SIDES_PX[1]
        ),
        f"{name} has no class token to pool by (cls); mean and footprint are left": kind == SELF_SUPERVISED
        and request.pool == "cls",
        "no folder or file with weights was named": kind == BACKBONE and not request.backbone,
        f"{name} takes the optical bands alone, and the layers {', '.join(request.layers)} were named": bool(request.layers),
        f"{name} learns its weights, layer and size from the chips": kind == SELF_SUPERVISED
        and bool(request.backbone or request.layer or request.size_px),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise TrainingError(f"{problem[0].upper()}{problem[1:]}.", "Change that, or choose another maker.", kind="maker")


def _built(
    facts: Mapping[str, Any], tensors: Mapping[str, Tensor], mean: Tensor, std: Tensor, chip_px: int = 0
) -> NetworkMaker:
    """Build a maker of checked parts, and let its network describe two black images.

    Args:
        facts: of `NetworkMaker.facts`, perhaps a stranger's.
        tensors: of the whole network, or of as much as the layer needs.
        chip_px: side of the chips; 0 where they are not known.
    """
    kind, pool, layer, dates, name = (cast(str, facts.get(each)) for each in ("kind", "pool", "layer", "dates", "backbone"))
    size_px, scale, path = (
        cast(int, facts.get("size_px")),
        cast(float, facts.get("scale")),
        Path(str(facts.get("weights_file") or kind)[:60]),
    )
    n_bands = N_BANDS * (1 if dates == "post" else 2)
    is_sound = (
        (kind in KINDS and pool in POOLS and dates in DATES and isinstance(layer, str) and len(layer) <= 100)
        and (kind == BACKBONE or name in self_supervised.BACKBONES)
        and (type(size_px) is int and (size_px == 0 or SIDES_PX[0] <= size_px <= SIDES_PX[1]))
        and is_scale(scale)
        and (mean.shape == std.shape == (n_bands,) and bool(mean.isfinite().all()))
        and (bool(std.isfinite().all()) and float(std.min()) > 0)
    )
    if not is_sound:
        raise _refusal(f"The stored network {path} says of itself what no maker of features does")
    why = str(facts.get("layer_is") or "")[:60]
    if kind == BACKBONE:
        network, layer, is_usual = weights.build(facts.get("config"), tensors, layer, pool, size_px, path)
        why = is_usual or why
    else:
        whole = nn.Sequential(OrderedDict(list(empty_backbone(name, N_BANDS).named_children())[:-2]))
        network, _, _ = weights.up_to(whole, layer, tensors, path)
    side = size_px or chip_px or 64
    try:
        with torch.inference_mode():
            maps = network(torch.zeros(2, N_BANDS, side, side))
    except weights.BROKEN as error:
        raise _refusal(f"The network {name} takes no images of {side} px ({weights.first_words(error)})") from error
    if not isinstance(maps, Tensor) or maps.ndim != 4 or not maps.shape[1]:
        raise _refusal(f"The network {name} gives no maps of features after {layer}")
    if maps.shape[0] != 2:  # such as windows
        words = getattr(network, "words", "")
        raise TrainingError(
            f"The network {name} gives maps of parts of images after {layer}.", f"Name a layer of whole images: {words}.",
            kind="layer",
        )  # fmt: skip
    origin = {each: facts.get(each) for each in _ORIGIN} | {"layer_is": why}
    origin |= {"config": facts["config"]} if kind == BACKBONE else {}
    return NetworkMaker(
        kind, network, maps.shape[1], mean.float(), std.float(), scale, pool, layer, size_px, dates, origin,
    )  # fmt: skip


def is_scale(value: object) -> bool:
    """Return whether a number may be the `scale` of a maker: a power of two within bounds."""
    return isinstance(value, float) and 2.0**-40 <= value <= 2.0**40 and math.frexp(value)[0] == 0.5


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 of names and numbers."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _refusal(problem: str) -> TrainingError:
    return TrainingError(f"{problem}.", weights.HINT, kind="weights")
