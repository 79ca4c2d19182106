"""The small parts of networks: standardisation, heads, and the slow copy of a network."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn


class Standardize(nn.Module):
    """Scale each feature, or each band, to mean 0 and variance 1 with statistics that travel with the weights.

    Args:
        shape: of one chip: (D,) for features, (C, H, W) for images.

    Attributes:
        mean, scale: float32 [D] or [C, 1, 1]; scale is the standard deviation, or 1 where a feature never varies.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        one_each = (shape[0], *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.zeros(one_each))
        self.register_buffer("scale", torch.ones(one_each))

    @torch.no_grad()
    def fit(self, inputs: Tensor, columns: slice = slice(None)) -> None:
        """Fit mean and spread of some columns or bands to these of inputs, float [M, D] or [M, C, H, W]."""
        shape = (-1, *[1] * (inputs.ndim - 2))
        self.mean[columns], self.scale[columns] = (each.view(shape) for each in statistics(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """Standardise float [B, D] or [B, C, H, W]; far outliers are drawn in to 8 standard deviations."""
        return ((inputs.float() - self.mean) / self.scale).clamp(-8, 8)


def statistics(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column of [M, D], or band of [M, C, H, W], float32; 1 where it never varies."""
    over = [0, *range(2, values.ndim)]
    spread = values.float().std(over, correction=0)
    return values.float().mean(over), torch.where(spread > 1e-6, spread, torch.ones_like(spread))


def linear(n_in: int, n_out: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    """Build a linear layer whose weights come from a CPU generator (Kaiming, for ReLU); the bias starts at 0."""
    return cast(nn.Linear, seeded(nn.utils.skip_init(nn.Linear, n_in, n_out, bias=bias), generator))


def seeded(module: nn.Module, generator: torch.Generator) -> nn.Module:
    """Draw the weights of all linear layers of a module anew, as `linear` does. The module is changed."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


def projection_head(n_in: int, hidden: int, n_out: int, generator: torch.Generator) -> nn.Sequential:
    """Build linear - BatchNorm - ReLU - linear, as used for projection and prediction heads (BYOL, NcPU, PUCL)."""
    first, last = linear(n_in, hidden, generator, bias=False), linear(hidden, n_out, generator)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), last)


def ema_copy(online: nn.Module) -> nn.Module:
    """Make the EMA target: another object with equal weights and no gradients."""
    return copy.deepcopy(online).requires_grad_(False)


@torch.no_grad()
def ema_update(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """Move each weight of the target by 1 - momentum of its distance to the online network; buffers are copied.

    Args:
        momentum: in [0, 1].
    """
    torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 1 - momentum)
    for ours, theirs in zip(target.buffers(), online.buffers(), strict=True):
        ours.copy_(theirs)
