"""Several processes train one network together, each with a device of its own: what they exchange, by torch.distributed.

Every rank draws the random numbers of the whole batch and makes the views of its share of it. What a loss reads is gathered,
so that each rank computes the loss of the whole batch, and its gradient for its own share; the gradients of the weights are
then added up, and all ranks take the same step. So `batch_size` is that of all ranks together, and n ranks do what one does,
but for the order in which numbers are added. Each rank computes the whole loss: that is little beside a network. Weights
must be used before the gathering alone, or they count n times.

`DistributedDataParallel` averages the gradients of one call of one module; a step here calls several, some of them twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.batchnorm import _BatchNorm

PATIENCE = timedelta(days=1)  # rank 0 evaluates while others wait; whoever started the ranks ends them where one dies


@dataclass(frozen=True)
class Ranks:
    """Which of the processes that train together this is. One alone exchanges nothing, and gets back what it gave.

    Attributes:
        number: of this process, 0 to n - 1. Number 0 alone reports, evaluates, writes checkpoints and asks whether to stop.
        n: how many there are.
        device: of this process.
    """

    number: int = 0
    n: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        return self.number == 0

    def share(self, n_rows: int, number: int | None = None) -> slice:
        """Return which rows of a batch are those of a rank, of this one if None: as many as others have, or one more or
        less.
        """
        place = self.number if number is None else number
        return slice(place * n_rows // self.n, (place + 1) * n_rows // self.n)

    def gather(self, own: Tensor, n_rows: int, dim: int = 0) -> Tensor:
        """Join the shares of all ranks in order.

        Args:
            own: this rank's, with `share(n_rows)` rows along `dim`; its gradient is that of its own rows.
            n_rows: of the whole batch.

        Returns:
            `own` with `n_rows` rows along `dim`, the same on all ranks.
        """
        if self.n == 1:
            return own
        rows = own.movedim(dim, 0)
        if own.dtype == torch.bool:
            return cast(Tensor, _Gathered.apply(rows.byte(), self, n_rows)).bool().movedim(0, dim)
        return cast(Tensor, _Gathered.apply(rows, self, n_rows)).movedim(0, dim)

    def sum_gradients(self, network: nn.Module) -> None:
        """Add up the gradients of all ranks; each holds the sum afterwards. Call it between the backward pass and the
        step.
        """
        gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
        if self.n == 1 or not gradients:
            return
        together = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(together)
        for gradient, total in zip(gradients, together.split([each.numel() for each in gradients]), strict=True):
            gradient.copy_(total.view(gradient.shape))

    def agree(self, value: float) -> float:
        """Return what rank 0 has, such as an estimate that a last bit decides; a bool as 0 or 1."""
        if self.n == 1:
            return value
        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.broadcast(held, 0)
        return float(held)

    def keep_alike(self, *values: Tensor) -> None:
        """Overwrite tensors with those of rank 0."""
        if self.n > 1:
            for value in values:
                distributed.broadcast(value, 0)

    def synchronize(self, network: nn.Module) -> None:
        """Let each BatchNorm inside a network take its statistics from the whole batch; its tensors keep their names.

        On CUDA by torch's SyncBatchNorm, which does not run on a CPU.
        """
        if self.n == 1:
            return
        if self.device.type == "cuda":
            nn.SyncBatchNorm.convert_sync_batchnorm(network)
            return
        for part in [*network.modules()]:
            for name, layer in [*part.named_children()]:
                if isinstance(layer, _BatchNorm) and not isinstance(layer, _BatchNormOverRanks):
                    setattr(part, name, _BatchNormOverRanks(layer))


ALONE = Ranks()


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the ranks that torchrun started, by its environment variables: NCCL where each has a CUDA device, else gloo on
    CPUs.
    """
    n_local, number = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu")
    if torch.cuda.is_available() and torch.cuda.device_count() >= n_local:
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        leave()


def leave() -> None:
    """Leave the ranks, where this process belongs to some: what follows, such as scoring, is done alone."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


class _Gathered(torch.autograd.Function):
    """Rows of all ranks. Each rank differentiates the same loss for them, and its own rows are all that it passes on."""

    @staticmethod
    def forward(ctx: FunctionCtx, own: Tensor, ranks: Ranks, n_rows: int) -> Tensor:
        parts = [ranks.share(n_rows, number) for number in range(ranks.n)]
        ctx.own = parts[ranks.number]  # type: ignore[attr-defined]
        sizes = [part.stop - part.start for part in parts]
        padded = own.new_zeros(max(sizes), *own.shape[1:])  # all_gather wants as many of each
        padded[: len(own)] = own
        found = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(found, padded)
        return torch.cat([each[:size] for each, size in zip(found, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return upstream[ctx.own], None, None


class _Total(torch.autograd.Function):
    """Sum over ranks. All of them use it, so the gradient for each one's part is the sum of all of theirs."""

    @staticmethod
    def forward(ctx: FunctionCtx, own: Tensor) -> Tensor:
        total = own.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        total = upstream.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total


class _BatchNormOverRanks(_BatchNorm):
    """A BatchNorm with the weights and buffers of another, whose statistics in training are those of all ranks' rows."""

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        self._parameters, self._buffers = layer._parameters, layer._buffers
        self.train(layer.training)

    def _check_input_dim(self, inputs: Tensor) -> None:
        pass

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize float [B, C] or [B, C, H, W] over the batches of all ranks; in evaluation mode as BatchNorm does."""
        if not self.training:
            return super().forward(inputs)
        rows = inputs.float()
        over, shape = [0, *range(2, rows.ndim)], (1, -1, *[1] * (rows.ndim - 2))
        n = _total(rows.new_tensor([rows.numel() / rows.shape[1]]))
        mean = _total(rows.sum(over)) / n
        centered = rows - mean.view(shape)
        variance = _total(centered.square().sum(over)) / n
        self._keep(mean.detach(), variance.detach() * n / (n - 1))
        found = centered * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            found = found * self.weight.view(shape) + self.bias.view(shape)
        return found.to(inputs.dtype)

    @torch.no_grad()
    def _keep(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, which evaluation mode uses, as BatchNorm does."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        moved = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, moved)
        self.running_var.lerp_(variance, moved)


def _total(own: Tensor) -> Tensor:
    return cast(Tensor, _Total.apply(own))
