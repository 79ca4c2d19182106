"""Trained convolutional networks at work: each convolution takes in the BatchNorm after it, and numbers are bfloat16."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

from pu_geo.engine.backbones import Backbone


def fused(backbone: nn.Sequential) -> nn.Module:
    """Return a copy of a backbone for inference in bfloat16, channels last; the backbone stays as it is.

    Args:
        backbone: in evaluation mode: a BatchNorm that follows a convolution becomes part of its weights.
    """
    plain = nn.Sequential(OrderedDict(copy.deepcopy(backbone).named_children()))  # `Backbone.forward` looks at shapes
    found: nn.Module = fuse(plain.eval())
    return found.to(dtype=torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def quick_backbone(trunk: nn.Module) -> Iterator[None]:
    """Let a trunk look at chips through a fused copy of its backbone for a while.

    Only where its training ran in bfloat16, too, and not where `torch.compile` works on it.

    Args:
        trunk: a `network.Trunk` in evaluation mode.
    """
    held = trunk.backbone
    is_wanted = getattr(trunk, "is_bf16", False) and not trunk.training
    if not isinstance(held, Backbone) or not is_wanted or held._compiled_call_impl is not None:
        yield
        return
    trunk.backbone = fused(held)
    try:
        yield
    finally:
        trunk.backbone = held
