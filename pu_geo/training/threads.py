"""How many threads torch works with: one on cached features, whose matrices are so small that threads only wait for each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch

from pu_geo.training.data import FeatureViews, PUData

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread for the length of the context, and as many as before after it.

    NcPU quick on 500 x 16 takes an eighth of the time, and the last bits of a sum
    depend on the number of threads. The number is one of the whole process: other threads of it work with one meanwhile.
    BLAS of numpy is limited where it is called, in `analysis`.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread_on_features(work: Callable[Concatenate[PUData, P], T]) -> Callable[Concatenate[PUData, P], T]:
    """Decorate a `fit(data, ...)`: it works in `one_thread` where the data are cached features."""

    @wraps(work)
    def limited(data: PUData, *args: P.args, **values: P.kwargs) -> T:
        if not isinstance(data.inputs, FeatureViews):
            return work(data, *args, **values)
        with one_thread():
            return work(data, *args, **values)

    return limited
