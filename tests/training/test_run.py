"""A run: threads of torch, and names of devices."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.run import name_of
from pu_geo.training.threads import one_thread, one_thread_on_features


def test_features_take_one_thread_and_what_was_before_comes_back_after_an_error_too() -> None:
    @one_thread_on_features
    def fit(data: PUData, add: int) -> int:
        return torch.get_num_threads() + add

    def fail() -> None:
        with one_thread():
            found.append(torch.get_num_threads())
            with one_thread():
                pass
            found.append(torch.get_num_threads())
            raise KeyError

    before, nothing, found = torch.get_num_threads(), np.zeros(4, np.bool_), []
    inputs: list[Any] = [FeatureViews(np.zeros((2, 4, 3), np.float32)), ChipImages(np.zeros((4, 3, 8, 8), np.uint8))]
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError):
            fail()
        found += [torch.get_num_threads(), *(fit(PUData(each, nothing, nothing), 10) for each in inputs)]
    finally:
        torch.set_num_threads(before)
    assert found == [1, 1, 2, 11, 12]
    assert fit.__name__ == "fit"


def test_devices_have_the_names_that_people_know_them_by(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, words in ((1, "CPU, 1 thread"), (2, "CPU, 2 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=n: n)
        assert name_of(torch.device("cpu")) == words
    found = SimpleNamespace(name="NVIDIA H200", total_memory=150_110_011_392)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    assert name_of(torch.device("cuda")) == "NVIDIA H200, 140 GiB"
    assert name_of(torch.device("mps")) == "Apple GPU"
