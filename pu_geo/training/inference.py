"""Trained convolutional networks at work: each convolution takes in the BatchNorm after it, and numbers are bfloat16."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.experimental.optimization import fuse
from torch.fx.passes.shape_prop import ShapeProp

from pu_geo.training.backbones import Backbone


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


def fused(backbone: nn.Sequential, shape: tuple[int, ...]) -> nn.Module:
    """Return a copy of a backbone for inference in bfloat16, channels last; the backbone stays as it is.

    Args:
        backbone: in evaluation mode: a BatchNorm that follows a convolution becomes part of its weights.
        shape: (..., H, W) of the chips, the only size that the copy takes.
    """
    plain = nn.Sequential(OrderedDict(copy.deepcopy(backbone).named_children()))  # `Backbone.forward` reads shapes
    found = cast(fx.GraphModule, fuse(plain.eval()))
    if next(found.parameters()).device.type == "cpu":  # measured there only
        _replace_on_small_maps(found, shape)
    return found.to(dtype=torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[call-overload]


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
