"""What a training loop needs from outside: a device, random numbers, someone to report to, and a way to be stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from pu_geo.errors import JobCancelled
from pu_geo.training.callbacks import Evaluate
from pu_geo.training.checkpoints import Checkpoints


def best_device() -> torch.device:
    """Return the fastest device of this machine: a CUDA GPU, Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@dataclass
class Run:
    """One training as its method sees it.

    Attributes:
        report: called with {"stage", "epoch", "epochs", "loss", ...}; plain Python numbers and words only.
        is_cancelled: asked once a batch or more often.
        is_paused: asked once an epoch; a training that is paused keeps its state and stops.
        warnings: sentences for the person who trains, added as they come up.
        evaluate: called with the model as it is now after some epochs; what it returns goes into their reports. None: never.
        n_chips_trained: chips that were trained on so far, each as often as it was.
    """

    device: torch.device = field(default_factory=best_device)
    seed: int = 0
    report: Callable[[Mapping[str, object]], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    is_paused: Callable[[], bool] = lambda: False
    warnings: list[str] = field(default_factory=list)
    checkpoints: Checkpoints | None = None
    evaluate: Evaluate | None = None
    n_chips_trained: int = field(default=0, repr=False)

    def generator(self, stream: int = 0, epoch: int = 0) -> torch.Generator:
        """Return a CPU generator; another `stream` or `epoch` (int >= 0) gives independent numbers for the same seed.

        A generator an epoch leaves nothing of it to be remembered: whoever begins an epoch again draws the same numbers.
        """
        return torch.Generator().manual_seed((self.seed * 1_000_003 + stream) * 100_003 + epoch)

    def stop_if_cancelled(self) -> None:
        """Raise JobCancelled if the user cancelled."""
        if self.is_cancelled():
            raise JobCancelled


_GIB = 2**30


def name_of(device: torch.device) -> str:
    """Return the name of a device: "NVIDIA H200, 139 GiB", "Apple GPU", or "CPU, 2 threads" as many as torch uses now."""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        return f"{found.name}, {found.total_memory / _GIB:.0f} GiB"
    if device.type == "mps":
        return "Apple GPU"
    n = torch.get_num_threads()
    return f"CPU, {n} thread{'' if n == 1 else 's'}"
