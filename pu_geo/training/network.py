"""What every method's network begins with, and what a trained one can do for the rest of PU-Geo."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, fx, nn
from torch.fx.experimental.optimization import fuse
from torch.fx.passes.shape_prop import ShapeProp

from pu_geo.analysis.place import HeldOutFold
from pu_geo.errors import ShapeError, TrainingError
from pu_geo.training.backbones import Backbone, new_backbone
from pu_geo.training.data import Bools, FeatureViews, Ints, PUData, Strength
from pu_geo.training.heads import Standardize, linear
from pu_geo.training.threads import one_thread

FEATURES = "features"
FEATURES_AT_ONCE, IMAGES_AT_ONCE = 8192, 256
ROWS_FOR_STATISTICS = 4096


class FeatureExtractor(nn.Module):
    """Standardisation and backbone.

    Args:
        shape: of one chip, (D,) or (C, H, W).
        backbone: "features" for cached features, or a name in `backbones.BACKBONES`.
        width: hidden units on cached features; 0 gives the features themselves.
        weights_file: see `backbones.new_backbone`.
        precision: "float32", or "bf16": the backbone alone runs in bfloat16, heads and losses stay in float32.
        is_compiled: let `torch.compile` work on the backbone.

    Attributes:
        out_dim: length of what `forward` returns.
        fitted_to: views of the chips that the standardisation is fitted to.
    """

    input_shape: Tensor
    fitted_to: Strength = "weak"

    def __init__(
        self, shape: tuple[int, ...], backbone: str, width: int, generator: torch.Generator, *,
        weights_file: str = "", precision: str = "float32", is_compiled: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if (backbone == FEATURES) != (len(shape) == 1):
            raise ShapeError(f"backbone {backbone!r} does not fit inputs of shape {shape}.")
        self.register_buffer("input_shape", torch.tensor(shape))
        self.standardize = Standardize(shape)
        self.backbone: nn.Module
        if backbone == FEATURES:
            hidden = nn.Sequential(linear(shape[0], width, generator), nn.ReLU()) if width else nn.Identity()
            self.backbone, self.out_dim = hidden, width or shape[0]
        else:
            found = new_backbone(backbone, shape[0], generator, weights_file=weights_file)
            self.backbone, self.out_dim = found.to(memory_format=torch.channels_last), found.out_dim
        self.is_bf16 = precision == "bf16"
        if is_compiled:
            self.backbone.compile()

    def forward(self, inputs: Tensor) -> Tensor:
        """Map features [B, D] or images [B, C, H, W] in 0..255 into float32 [B, out_dim]."""
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=self.is_bf16):
            return cast(Tensor, self.backbone(self.standardize(inputs))).float()

    def linear_features(self, inputs: Tensor) -> Tensor:
        """Return what a linear method is fitted to, float32 [B, out_dim]: cached features as they are, or what is made of
        chips.

        Without a layer, `forward` would still draw far outliers in, which the instant ranker does not.
        """
        return inputs.float() if isinstance(self.backbone, nn.Identity) else cast(Tensor, self(inputs))

    def fit_statistics(self, data: PUData, rows: Ints, generator: torch.Generator) -> None:
        """Fit the standardisation to up to 4,096 of these chips; that of each view to those that have it."""
        chosen = rows[torch.randperm(len(rows), generator=generator)[:ROWS_FOR_STATISTICS].numpy()]
        (inputs,) = data.inputs.draw(chosen, (self.fitted_to,), generator, self.standardize.mean.device)
        for columns, has_them in self._spans(inputs, data, chosen):
            present = inputs[has_them, columns]
            if len(present):
                self.standardize.fit(present, columns)

    def _spans(self, inputs: Tensor, data: PUData, rows: Ints) -> Sequence[tuple[slice, Tensor | slice]]:
        """Return columns or bands that are standardised by themselves, and which of these inputs have them, bool [B]."""
        return [(slice(None), slice(None))]


def go_on() -> None:
    """Raise nothing: the answer of a `check` where nobody can cancel. A function with a name, so that models can be
    pickled.
    """


@dataclass(frozen=True)
class TrainedModel:
    """What `fit` of every method returns.

    Attributes:
        network: in evaluation mode, on its device. It has `represent`, inputs [B, ...] to embeddings float [B, E], not
            normalised, and `margin`, to log odds of damaged, float [B]. One that judges damage types has `kind_margins`,
            to the log odds of each, float [B, c]; one whose `takes_views` is true takes the missing views, bool [V, B], as a
            second argument of each.
        findings: what a method learned besides, for those who ask its module.
        check: called before each block of chips that is scored or embedded; what it raises ends that.
        held_out_scores: scores of all chips that it was trained on, by fits without some of the clicks; none if it made
            none. By these `analysis.place` judges whether neighbors count. No part of `state`.
    """

    network: nn.Module
    extractor: FeatureExtractor
    findings: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = field(default=go_on, repr=False, compare=False)
    held_out_scores: Sequence[HeldOutFold] = field(default=(), repr=False, compare=False)

    @classmethod
    def loaded(cls, network: nn.Module, state: Mapping[str, Tensor], device: torch.device) -> Self:
        """Load what `state` returned into a network of that shape, and return the model on a device."""
        network.load_state_dict(dict(state))
        return cls(network.to(device).eval(), cast(FeatureExtractor, network.trunk))

    def embed(self, inputs: NDArray[Any], is_missing: Bools | None = None) -> NDArray[np.float32]:
        """Compute embeddings.

        Args:
            inputs: features, float [M, D]; views of features [V, M, D], which are averaged; or chips, uint8 [M, C, H, W].
            is_missing: see `PUData`, bool [V, M]; only a method that knows of named views reads it.

        Returns:
            float32 [M, E] of unit length.
        """
        network = cast(Any, self.network)
        return self._apply(inputs, lambda *block: F.normalize(network.represent(*block), dim=1), F.normalize, is_missing)

    def score(self, inputs: NDArray[Any], is_missing: Bools | None = None) -> NDArray[np.float32]:
        """Compute scores: arguments as in `embed`, float32 [M] in [0, 1]. Log odds are averaged over views."""
        return self._apply(inputs, cast(Any, self.network).margin, torch.sigmoid, is_missing)

    @property
    def n_types(self) -> int:
        """How many damage types it judges; 0 of a method that judges none."""
        return len(getattr(self.network, "kinds", ())) if hasattr(self.network, "kind_margins") else 0

    def type_scores(self, inputs: NDArray[Any], is_missing: Bools | None = None) -> NDArray[np.float32]:
        """Compute a score of each damage type: arguments as in `embed`, float32 [M, c] in [0, 1].

        Raises:
            ValueError: if it judges none.
        """
        if not self.n_types:
            raise ValueError("this model judges no damage types")
        return self._apply(inputs, cast(Any, self.network).kind_margins, torch.sigmoid, is_missing)

    def margins(self, inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Compute log odds of damaged: inputs as in `embed`, float32 [M]; averaged over views."""
        return self._apply(inputs, cast(Any, self.network).margin, torch.Tensor.float)

    def state(self) -> dict[str, Tensor]:
        """Return all that the model is made of, standardisation included, as tensors on the CPU."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}

    @torch.inference_mode()
    def _apply(
        self, inputs: NDArray[Any], each: Callable[..., Tensor], finish: Callable[[Tensor], Tensor],
        is_missing: Bools | None = None,
    ) -> NDArray[np.float32]:  # fmt: skip
        """Run `each` on blocks of inputs, average it over views, and `finish` the average."""
        views = self._views_of(inputs)
        device, parts = self.extractor.standardize.mean.device, []
        step = FEATURES_AT_ONCE if views.ndim == 3 else IMAGES_AT_ONCE
        gone = is_missing if getattr(self.network, "takes_views", False) else None
        with one_thread() if views.ndim == 3 else nullcontext(), quick_backbone(self.extractor):
            for first in range(0, max(views.shape[1], 1), step):
                self.check()
                blocks = (torch.from_numpy(np.array(view[first : first + step])).to(device) for view in views)
                masks = () if gone is None else (torch.from_numpy(np.array(gone[:, first : first + step])).to(device),)
                total = torch.stack([each(block, *masks) for block in blocks]).mean(0)
                parts.append(finish(total).float().cpu())
        return torch.cat(parts).numpy()

    def _views_of(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return inputs as views, [V, M, ...]; refuse those of another shape than the network was made for."""
        shape = tuple(self.extractor.input_shape.tolist())
        views = inputs if inputs.ndim == 3 and len(shape) == 1 else inputs[None]
        if views.shape[2:] != shape:
            raise ShapeError(f"inputs must be [M, {', '.join(map(str, shape))}], or such views; got {inputs.shape}.")
        return views


def require_views(data: PUData, title: str, otherwise: str = "or train on another one") -> None:
    """Refuse cached features without a second view to compare; the TrainingError names the method by its title."""
    if isinstance(data.inputs, FeatureViews) and len(data.inputs.views) < 2:
        raise TrainingError(
            f"{title} compares two views of each chip; these features have {len(data.inputs.views)}.",
            "Make the set again with more --views (`pu-geo features`; those that come with the chips, rcf: `pu-geo "
            f"chip`), {otherwise}.",
            kind="views",
        )


def require_positives(data: PUData, rows: Ints, title: str) -> None:
    """Refuse to train without a positive, or without an unlabeled chip.

    Raises:
        TrainingError: names the method by its title.
    """
    n_positive = int(data.is_positive[rows].sum())
    if n_positive == 0:
        raise TrainingError(
            f"{title} needs damaged buildings; this project has none.",
            "Mark damaged buildings on the Annotate page.",
            kind="positives",
        )
    if n_positive == len(rows):
        raise TrainingError(
            f"{title} needs buildings not reviewed beside the damaged ones; here all are damaged.",
            "Add footprints of the whole area on the Imagery page.",
            kind="unlabeled",
        )


class SmallMaps(nn.Module):
    """A convolution over maps of a few pixels as one matrix product: from all pixels that go in to all that come out.

    There most of a convolution's taps lie on padding, and its matrices have few columns.

    Args:
        convolution: without groups and dilation, padded with zeros.
        height, width: of the maps that go in, pixels.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, convolution: nn.Conv2d, height: int, width: int) -> None:
        super().__init__()
        (tall, wide), (down, right) = convolution.kernel_size, convolution.stride
        top, left = (int(n) for n in convolution.padding)
        self.n_out = convolution.out_channels
        self.out_size = (height + 2 * top - tall) // down + 1, (width + 2 * left - wide) // right + 1
        taps = F.pad(convolution.weight.detach(), (width, width, height, height)).permute(0, 2, 3, 1)
        rows = []
        for number in range(self.out_size[0] * self.out_size[1]):
            y, x = divmod(number, self.out_size[1])
            inside = taps[:, height + top - y * down :, width + left - x * right :][:, :height, :width]
            rows.append(inside.flatten(1))
        bias = None if convolution.bias is None else convolution.bias.detach().repeat(len(rows))
        self.register_buffer("weight", torch.cat(rows))
        self.register_buffer("bias", bias)

    def forward(self, maps: Tensor) -> Tensor:
        """Map [B, n_in, height, width] to [B, n_out, height', width'], as the convolution does."""
        rows = maps.permute(0, 2, 3, 1).flatten(1)
        if len(rows) == 1:  # a row alone is summed in another order than among others
            rows = rows.expand(2, -1)
        found = F.linear(rows, self.weight, self.bias)[: len(maps)]
        return found.unflatten(1, (*self.out_size, self.n_out)).permute(0, 3, 1, 2)


def fused(backbone: nn.Sequential, shape: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    """Return a copy of a backbone for inference, channels last; the backbone stays as it is.

    Args:
        backbone: in evaluation mode: a BatchNorm that follows a convolution becomes part of its weights.
        shape: (..., H, W) of the chips, the only size that the copy takes.
        dtype: of the copy's weights, and of what it takes.
    """
    plain = nn.Sequential(OrderedDict(copy.deepcopy(backbone).named_children()))  # `Backbone.forward` reads shapes
    found = cast(fx.GraphModule, fuse(plain.eval()))
    if next(found.parameters()).device.type == "cpu":  # measured there only
        _replace_on_small_maps(found, shape)
    return found.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]


@torch.no_grad()
def _replace_on_small_maps(network: fx.GraphModule, shape: tuple[int, ...]) -> None:
    """Replace with `SmallMaps` each convolution that has more taps than its maps have pixels."""
    first = next(layer for layer in network.modules() if isinstance(layer, nn.Conv2d))
    ShapeProp(network).propagate(torch.zeros(1, first.in_channels, *shape[-2:]))  # some extractors take dates one by one
    for node in network.graph.nodes:
        layer = network.get_submodule(node.target) if node.op == "call_module" else None
        if not isinstance(layer, nn.Conv2d) or layer.groups > 1 or layer.dilation != (1, 1):
            continue
        height, width = node.args[0].meta["tensor_meta"].shape[2:]
        if height * width < layer.kernel_size[0] * layer.kernel_size[1]:
            parent, _, name = node.target.rpartition(".")
            setattr(network.get_submodule(parent), name, SmallMaps(layer, height, width))


@contextmanager
def quick_backbone(extractor: nn.Module) -> Iterator[None]:
    """Let a feature extractor use a fused copy of its backbone for the length of the context.

    Only where its training ran in bfloat16, too, and not where `torch.compile` works on it.

    Args:
        extractor: a `network.FeatureExtractor` in evaluation mode.
    """
    held = extractor.backbone
    is_wanted = getattr(extractor, "is_bf16", False) and not extractor.training
    if not isinstance(held, Backbone) or not is_wanted or held._compiled_call_impl is not None:
        yield
        return
    extractor.backbone = fused(held, tuple(extractor.input_shape.tolist()))  # type: ignore[operator]
    try:
        yield
    finally:
        extractor.backbone = held
