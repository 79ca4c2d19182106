"""Optimisers and learning rates of the published recipes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.9
WARMUP_SHARE = 0.1
OPTIMIZERS = ("sgd", "lars", "adamw")


class Lars(torch.optim.Optimizer):
    """Gradient descent with momentum whose step is, for each tensor, a fixed share of that tensor's length.

    With weight w, gradient g and decay b, of a group that is adapted:
    ratio = trust |w| / (|g| + b |w|), update = ratio (g + b w), v <- momentum v + update, w <- w - lr v.
    Elsewhere, and where the ratio has a zero above or below the line, the ratio is 1: plain SGD with momentum.

    Source: You, Gitman and Ginsburg 2017, Large Batch Training of Convolutional Networks (arXiv 1708.03888), Algorithm 1.
    PUCL, Appendix A.7 trains with it.

    Args:
        params: as for every torch optimiser. A group may set `is_adapted` (default True); see `parameter_groups`.
        momentum: in [0, 1).
        weight_decay: 0 or more.
        trust: length of a first step over the length of its weight, at lr 1; the paper's eta.

    Departs from the source: lr multiplies the finished momentum, as in torch's SGD, so that a new rate counts at once for
    the whole step (the paper multiplies what enters the momentum); biases and norms can be left out, as contrastive
    training does (SimCLR, BYOL).
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        *,
        momentum: float = MOMENTUM,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "is_adapted": True}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Move all weights that have a gradient once."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._step_group(weights, group)

    def _step_group(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if "momentum_buffer" not in self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        buffers, decay = [self.state[weight]["momentum_buffer"] for weight in weights], group["weight_decay"]
        torch._foreach_mul_(buffers, group["momentum"])
        if group["is_adapted"]:
            lengths, slopes = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, gradients))
            ratios = group["trust"] * lengths / (slopes + decay * lengths)  # on their device: nothing waits for a GPU
            ratios = torch.where((lengths > 0) & (slopes > 0), ratios, 1.0)
            torch._foreach_addcmul_(buffers, gradients, list(ratios.unbind()))
            if decay:
                torch._foreach_addcmul_(buffers, weights, list((decay * ratios).unbind()))
        else:
            torch._foreach_add_(buffers, gradients)
            if decay:
                torch._foreach_add_(buffers, weights, alpha=decay)
        torch._foreach_add_(weights, buffers, alpha=-group["lr"])


def parameter_groups(parameters: nn.Module | Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Split off what neither decays nor is adapted by LARS: biases and the weights of norms, that is, all of one dimension.

    Args:
        parameters: a module or its parameters; those without gradient are left out.
        weight_decay: of the others.

    Returns:
        Groups for a torch optimiser, without the empty ones.
    """
    trained = [weight for weight in _listed(parameters) if weight.requires_grad]
    groups = [
        {"params": [w for w in trained if w.ndim > 1], "weight_decay": weight_decay, "is_adapted": True},
        {"params": [w for w in trained if w.ndim <= 1], "weight_decay": 0.0, "is_adapted": False},
    ]
    return [group for group in groups if group["params"]]


def new_optimizer(
    name: str, parameters: nn.Module | Iterable[Tensor], lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Build one of `OPTIMIZERS`, momentum 0.9.

    Args:
        name: "sgd" (NcPU, Appendix F), "lars" (PUCL, Appendix A.7) or "adamw".
        weight_decay: "lars" spares biases and norms; the others decay every parameter, as in NcPU's recipe.

    Returns:
        The optimiser, in its fused form where torch has one: half of the plain loop's time for SGD, a quarter for AdamW.

    """
    if name == "lars":
        return Lars(parameter_groups(parameters, weight_decay), lr)
    if name == "sgd":
        return torch.optim.SGD(_listed(parameters), lr, momentum=MOMENTUM, weight_decay=weight_decay, fused=True)
    return torch.optim.AdamW(_listed(parameters), lr, weight_decay=weight_decay, fused=True)


def _listed(parameters: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    return list(parameters.parameters() if isinstance(parameters, nn.Module) else parameters)


def warmup_cosine(step: int, n_steps: int, n_warmup: int) -> float:
    """Factor on the learning rate: up along a line, then down along half a cosine.

    Source: PUCL, Appendix A.7 ("cosine annealing schedule with linear warm-up"); SGDR (Loshchilov and Hutter 2017), Eq. 5,
    without restarts and down to 0.

    Args:
        step: steps taken so far; 0 for the first.
        n_steps: length of the training; from there on the factor is 0.
        n_warmup: steps of the rise; 0 for a plain cosine. The first step already moves, at 1 / n_warmup.

    Returns:
        Factor in [0, 1].
    """
    if step >= n_steps:
        return 0.0
    if step < n_warmup:
        return (step + 1) / n_warmup
    return 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / (n_steps - n_warmup)))


def warmup_schedule(optimizer: torch.optim.Optimizer, n_steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Return a schedule that moves once a step: linear warm-up over a tenth of the steps, then half a cosine."""
    n_warmup = max(1, round(WARMUP_SHARE * n_steps))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, n_steps, n_warmup))
