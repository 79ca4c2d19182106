"""Frozen features of chips without any training: random-convolution features (RCF) of several views.

Patches of the project's own chips serve as filters. A few seconds on two cores replace hours of training a backbone,
which a few hundred chips could not teach anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.features.views import Chips, Describe, Maker, Making, refuse_choices
from pu_geo.records import FeatureRequest
from pu_geo.training.threads import one_thread

BLOCK = 16
"""Chips that are handled, and whose random numbers are drawn, together. Few, so that responses stay in the CPU's cache."""
MOST_FILTER_PX, MOST_CHIP_PX = 15, 256  # sides that a stranger's filters, and chips, may have
FEATURES_A_FILTER = 4  # above and below the threshold, in brightness as it is and equalised
_TENSORS = ("filters", "bias", "band_mean", "band_std")


@dataclass(frozen=True)
class RcfSettings:
    """How random-convolution features are made.

    Attributes:
        n_filters: how many; a chip gets four features of each: two signs, with and without its brightness.
        stride_px: step of the filters over a chip.
        threshold: responses below it, in standard deviations of that filter's responses, count as none.
        whitening: share of the mean variance added to every direction before whitening; large means no whitening.
        n_chips: how many chips at most are used for filters and statistics.
        n_views: views per chip that a training asks for, the chip as cut included.
    """

    n_filters: int = 128
    size_px: int = 5
    stride_px: int = 4
    threshold: float = 0.5
    whitening: float = 0.1
    n_chips: int = 2000
    n_patches: int = 8000
    n_views: int = 17


@dataclass(frozen=True)
class RcfBank(Maker):
    """A bank of filters, ready for chips whose bands were standardised.

    Attributes:
        filters: float32 [K, C, S, S]; scaled so that responses have variance 1.
        bias: float32 [K]; moves the responses' origin to the mean patch.
        band_mean, band_std: float32 [C], in units of the uint8 chips.
    """

    kind = "rcf"
    block = BLOCK

    filters: Tensor
    bias: Tensor
    band_mean: Tensor
    band_std: Tensor
    stride_px: int
    threshold: float

    @property
    def n_features(self) -> int:
        """Features per chip, D."""
        return FEATURES_A_FILTER * len(self.filters)

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return all that the bank is made of as plain arrays, for a file that cannot run code."""
        arrays = {name: getattr(self, name).cpu().numpy() for name in _TENSORS}
        return arrays | {"step": np.array([self.stride_px, self.threshold], np.float32)}

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know: there is no network, and filters are patches of the chips."""
        nothing = dict.fromkeys(("backbone", "weights_file", "weights_sha256", "licence", "layer", "size_px", "dates"))
        return {"kind": self.kind, **nothing, "pool": "mean", "holds_imagery": True}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None = None) -> RcfBank:
        """Build a bank from what `state` gave; its facts add nothing."""
        tensors = {name: torch.from_numpy(np.array(arrays[name], np.float32)) for name in _TENSORS}
        return cls(**tensors, stride_px=int(arrays["step"][0]), threshold=float(arrays["step"][1]))

    @classmethod
    def fit_request(cls, request: FeatureRequest, chips: Chips, rows: NDArray[np.int64], making: Making) -> RcfBank:
        """Do what `fit` does, for `bank.fit_maker`: a matter of a second, which reports nothing.

        Raises:
            TrainingError: if the request has a choice that only networks have.
        """
        free = ("dates",) if request.dates == "post" and chips.shape[1] == 3 else ()
        refuse_choices(
            request, cls.kind, free, "Random-convolution features (rcf)",
            "their filters look at all bands of the chip together, and are averaged over it",
            "Leave that out, or choose a network: backbone or self-supervised.",
        )  # fmt: skip
        return cls.fit(chips, making.generator, rows=rows)

    @classmethod
    @one_thread()  # the same filters whatever the number of threads, which decides the last bits of sums
    def fit(
        cls, chips: NDArray[np.uint8], generator: torch.Generator, settings: RcfSettings = RcfSettings(),
        rows: NDArray[np.int64] | None = None, bands: NDArray[np.int64] | None = None,
    ) -> RcfBank:  # fmt: skip
        """Choose filters: random patches of the chips themselves, whitened, one response unit each.

        Source: ours, after random-patch features as used for satellite imagery; whitening folded into the filters.

        Args:
            chips: uint8 [N, C, H, W], may be a memory map; at most `settings.n_chips` of them are read.
            rows: int64 [M], the chips to choose from, such as those that show something; all if None.
            bands: int64 [C], those of the chips' bands that the filters read; all if None.

        Raises:
            ShapeError: if chips are not [N, C, H, W], or smaller than a filter.
        """
        size, n_filters = settings.size_px, settings.n_filters
        if chips.ndim != 4 or min(chips.shape[2:]) < size or not len(chips):
            raise ShapeError(f"chips must be [N, C, H, W] with N >= 1 and sides of at least {size} px; got {chips.shape}.")
        usable = np.arange(len(chips)) if rows is None else rows
        drawn = torch.randperm(len(usable), generator=generator)[: settings.n_chips].sort().values
        chosen = chips[usable[drawn.numpy()]] if bands is None else chips[usable[drawn.numpy()]][:, bands]
        images = torch.from_numpy(np.ascontiguousarray(chosen)).float()
        band_mean = images.mean((0, 2, 3))
        band_std = images.std((0, 2, 3)).clamp_min(1e-3)
        images = (images - band_mean[:, None, None]) / band_std[:, None, None]
        patches = _draw_patches(images, max(settings.n_patches, n_filters), size, generator)
        mean = patches.mean(0)
        centered = patches - mean
        values, vectors = torch.linalg.eigh(centered.T @ centered / len(patches))
        values = values.clamp_min(0) + settings.whitening * values.mean() + 1e-8
        whiten = vectors @ torch.diag(values.rsqrt()) @ vectors.T  # takes correlation out of patches
        filters = (patches[:n_filters] - mean) @ whiten @ whiten
        spread = (centered @ filters.T).std(0).clamp_min(1e-6)
        filters = filters / spread[:, None]
        shape = (n_filters, images.shape[1], size, size)
        return cls(filters.view(shape), -(filters @ mean), band_mean, band_std, settings.stride_px, settings.threshold)

    def _prepared(self, chips: Chips, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[Chips, Describe, int]:
        if chips.ndim != 4 or chips.shape[1] != self.filters.shape[1]:
            raise ShapeError(f"chips must be [N, {self.filters.shape[1]}, H, W] for this bank; got {chips.shape}.")
        here = self.to(device)
        return chips, lambda images, _: rcf(images, here).half(), 1

    def to(self, device: torch.device) -> RcfBank:
        """Copy the bank to a device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in _TENSORS})


def problem_of_bank(arrays: Mapping[str, NDArray[Any]], n_features: int, n_bands: int, chip_px: int = MOST_CHIP_PX) -> str:
    """Return why arrays, perhaps a stranger's, are no bank of so many features of so many bands, in words; "" where they are
    one.

    Args:
        chip_px: side of the chips, pixels.
    """
    n_filters, rest = divmod(n_features, FEATURES_A_FILTER)
    side = arrays["filters"].shape[-1] if "filters" in arrays and arrays["filters"].ndim else 0
    wanted = {
        "filters": (n_filters, n_bands, side, side), "bias": (n_filters,), "band_mean": (n_bands,), "band_std": (n_bands,),
        "step": (2,),
    }  # fmt: skip
    there = {name: array.shape for name, array in arrays.items() if array.dtype == np.float32}
    if rest or there != wanted or len(arrays) != len(wanted) or not 1 <= side <= min(MOST_FILTER_PX, chip_px):
        return f"filters that do not make the {n_features} features its network looks at"
    stride, threshold = arrays["step"].tolist()
    if (arrays["band_std"] <= 0).any() or not 1 <= stride <= chip_px or stride != math.floor(stride) or threshold < 0:
        return "filters with a step, a threshold or a spread of bands that cannot be"
    return ""


def _draw_patches(images: Tensor, n: int, size: int, generator: torch.Generator) -> Tensor:
    """Cut `n` random patches out of images [N, C, H, W]; float [n, C * size * size]."""
    count, _, height, width = images.shape
    which = torch.randint(count, (n,), generator=generator)
    top = torch.randint(height - size + 1, (n,), generator=generator)
    left = torch.randint(width - size + 1, (n,), generator=generator)
    step = torch.arange(size)
    patches = images[
        which[:, None, None], :, (top[:, None] + step)[:, :, None], (left[:, None] + step)[:, None, :]
    ]  # advanced indices first, then the sliced bands: [n, size, size, C]
    return patches.permute(0, 3, 1, 2).reshape(n, -1)


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return the number type in which convolutions are fastest there: bfloat16 where the hardware knows it."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "cpu" and torch.cpu.get_capabilities().get("avx512_bf16", False):
        return torch.bfloat16
    return torch.float32


def rcf(images: Tensor, bank: RcfBank) -> Tensor:
    """Describe chips by how much each filter finds in them.

    Mean over the chip of relu(response - threshold), and of relu(-response - threshold); then the same of the responses to
    the chip without its brightness (each band has the mean of all chips): light and season change them less. A filter is
    linear: these are the responses less that to the chip's own mean.

    Args:
        images: float [B, C, H, W] in units of uint8 (0 to 255), on the bank's device.

    Returns:
        float32 [B, 4 K], at least 0.
    """
    dtype = fast_dtype(images.device)
    standard = (images - bank.band_mean[:, None, None]) / bank.band_std[:, None, None]
    response = F.conv2d(
        standard.to(dtype).contiguous(memory_format=torch.channels_last),
        bank.filters.to(dtype).contiguous(memory_format=torch.channels_last),
        bank.bias.to(dtype),
        stride=bank.stride_px,
    )
    flat = response.permute(0, 2, 3, 1).flatten(1, 2)
    own = (standard.mean((2, 3)) @ bank.filters.sum((2, 3)).T).to(dtype)[:, None]  # [B, 1, K], of the chip's brightness
    signs = ((flat, own), (-flat, -own))
    parts = [_mean_above(response, bank.threshold) for response, _ in signs]
    return torch.cat(parts + [_mean_above(response, bank.threshold + of_chip) for response, of_chip in signs], dim=1)


def _mean_above(response: Tensor, least: float | Tensor) -> Tensor:
    """Average relu(response - least) over positions: [B, positions, K] to float32 [B, K]."""
    above = F.relu(response - least)
    weights = above.new_full((1, 1, above.shape[1]), 1.0)
    return torch.matmul(weights, above)[:, 0].float() / above.shape[1]
