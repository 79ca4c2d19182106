"""Times of work done in one run."""

from __future__ import annotations

import time
from collections.abc import Callable


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
