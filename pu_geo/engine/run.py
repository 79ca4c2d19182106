"""What a training loop needs from outside: a device, random numbers, someone to report to, and a way to be stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from pu_geo.errors import JobCancelled, TrainingError


def _nobody(_: Mapping[str, object]) -> None:
    """Report to nobody."""


def _never() -> bool:
    return False


def best_device() -> torch.device:
    """Name the fastest device of this machine: a CUDA GPU, Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@dataclass
class Run:
    """One training as its method sees it.

    Attributes:
        device: where tensors live.
        seed: every random number of the training comes from it.
        report: called with {"epoch", "epochs", "loss", ...}; plain Python numbers only.
        is_cancelled: asked once a batch.
    """

    device: torch.device = field(default_factory=best_device)
    seed: int = 0
    report: Callable[[Mapping[str, object]], None] = _nobody
    is_cancelled: Callable[[], bool] = _never

    def generator(self, stream: int = 0) -> torch.Generator:
        """Return a CPU generator; another `stream` (int >= 0) gives independent numbers for the same seed."""
        return torch.Generator().manual_seed(self.seed * 1_000_003 + stream)

    def check(self, loss: float, *, where: str) -> None:
        """Stop where the user asked to, or where the loss is no longer a number.

        Raises:
            JobCancelled: if the user cancelled.
            TrainingError: if `loss` is not finite; `where` ("epoch 3, batch 12") goes into the message.
        """
        if self.is_cancelled():
            raise JobCancelled
        if not math.isfinite(loss):
            raise TrainingError(
                f"Training stopped at {where}: the loss became {loss}, which is not a finite number.",
                "Start again with a smaller learning rate (lr) or another seed.",
                kind="diverged",
            )
