"""Times of work done in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def best_of(n: int, work: Callable[[], object]) -> float:
    """Return the shortest of n times, seconds."""
    return best_times(n, work)[0]


def best_times(n: int, work: Callable[[], object]) -> tuple[float, float]:
    """Return the shortest of n times on the clock, and of processor time of all threads, seconds."""
    clock, processor = [], []
    for _ in range(n):
        began, used = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return min(clock), min(processor)


def in_turns(n: int, *works: Callable[[], object], device: torch.device | None = None) -> list[float]:
    """Return the shortest time of each work, seconds, done by turns, so that a busy moment of the machine hits all alike.

    Args:
        device: has finished what it was given when a work counts as done; the first round, in which it chooses kernels, does not count.
    """

    def waited(work: Callable[[], object]) -> None:
        work()
        if device is not None and device.type == "cuda":
            torch.cuda.synchronize(device)

    rounds = [[best_of(1, lambda work=work: waited(work)) for work in works] for _ in range(n + (device is not None))]
    return [min(column) for column in zip(*rounds[device is not None :], strict=True)]
