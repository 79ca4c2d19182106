"""Torch works on one thread where chips are cached features, and on as many as before after that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.threads import one_thread, one_thread_on_features


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_what_was_before_comes_back_after_an_error_too() -> None:
    found = []

    def work() -> None:
        with one_thread():
            found.append(torch.get_num_threads())
            with one_thread():
                pass
            found.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert (found, torch.get_num_threads()) == ([1, 1], 2)


def test_chips_keep_all_threads() -> None:
    @one_thread_on_features
    def fit(data: PUData, add: int) -> int:
        return torch.get_num_threads() + add

    nothing = np.zeros(4, np.bool_)
    inputs: list[Any] = [FeatureViews(np.zeros((2, 4, 3), np.float32)), ChipImages(np.zeros((4, 3, 8, 8), np.uint8))]
    assert [fit(PUData(each, nothing, nothing), 10) for each in inputs] == [11, 12]
    assert fit.__name__ == "fit"
