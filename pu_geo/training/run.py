"""What a training loop needs from outside: a device, random numbers, someone to report to, and a way to be stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from pu_geo.errors import JobCancelled
from pu_geo.training.callbacks import Evaluate
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, FeatureViews
from pu_geo.training.distributed import Ranks

SECONDS_BETWEEN_ASKS = 0.25  # within a batch


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
        ranks: the processes that train together; this one alone by default.
        n_chips_trained: chips that were trained on so far, each as often as it was, by all ranks.
    """

    device: torch.device = field(default_factory=best_device)
    seed: int = 0
    report: Callable[[Mapping[str, object]], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    is_paused: Callable[[], bool] = lambda: False
    warnings: list[str] = field(default_factory=list)
    checkpoints: Checkpoints | None = None
    evaluate: Evaluate | None = None
    ranks: Ranks = field(default_factory=Ranks)
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

    @contextmanager
    def asking_within_batches(self, inputs: FeatureViews | ChipImages, *, is_compiled: bool = False) -> Iterator[None]:
        """Raise JobCancelled between any two operations of torch, forwards and backwards, where a batch may take long.

        That is where a CPU works on chips: a batch of 1,024 takes half a minute there. A question costs 4 us an operation,
        too much for cached features, whose batches take milliseconds. Results are the same to the bit. What `torch.compile`
        works on is left alone: it would be compiled anew for every question, and no longer be faster. Autograd's check that
        nothing saved for a backward pass was changed in place is off meanwhile.
        """
        if is_compiled or self.device.type != "cpu" or not isinstance(inputs, ChipImages):
            yield
            return
        asking = _Asking(self.stop_if_cancelled)
        with asking, saved_tensors_hooks(asking.ask_and_detach, asking.ask):
            yield


class _Asking(TorchFunctionMode):
    """Asks before every operation, and for every tensor that is kept for or used by a backward pass, if the last time was a
    while ago.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__()
        self._check, self._asked_at = check, time.monotonic()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], torch.Tensor):  # what sets a mode, such as the end of no_grad, must not be left out
            self.ask(None)
        return func(*args, **(kwargs or {}))

    def ask_and_detach(self, value: torch.Tensor) -> torch.Tensor:
        """Ask, and return the same numbers without history: with it, the graph of a batch that is cancelled held itself
        forever.
        """
        return cast(torch.Tensor, self.ask(value)).detach()

    def ask(self, value: Any) -> Any:
        """Ask where it is due; return the value as it is."""
        if time.monotonic() - self._asked_at >= SECONDS_BETWEEN_ASKS:
            self._check()
            self._asked_at = time.monotonic()
        return value


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
