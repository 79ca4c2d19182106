"""A run: threads of torch, names of devices, and a cancel that is noticed in the middle of a batch."""

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from method_parts import CPU, is_same, made_up_chips, short

from pu_geo.errors import JobCancelled
from pu_geo.methods import pucl
from pu_geo.training import run as run_module
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.run import Run, name_of
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


def on_chips(is_cancelled: Callable[[], bool]) -> Mapping[str, torch.Tensor]:
    data, run = made_up_chips(16), Run(CPU, is_cancelled=is_cancelled)
    settings = short("pucl", backbone="small", epochs=1, batch_size=16, precision="bf16", pseudo_labels="two_means")
    with run.asking_within_batches(data.inputs):
        model = pucl.fit(data, settings, run)
        model.score(data.inputs.array)
    return model.state()


@pytest.mark.slow
def test_a_long_batch_on_a_cpu_is_left_in_the_middle_and_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def is_cancelled(at: int = -1) -> bool:
        frame, is_backward = sys._getframe(1), False
        while frame is not None:
            is_backward |= frame.f_code.co_name == "_engine_run_backward"
            frame = frame.f_back  # type: ignore[assignment]
        asked.append(is_backward)
        return 0 < at <= len(asked)

    seldom = on_chips(is_cancelled)
    n_seldom = len(asked)
    asked.clear()
    monkeypatch.setattr(run_module, "SECONDS_BETWEEN_ASKS", 0.0)
    often = on_chips(is_cancelled)
    assert is_same(often, seldom)
    n, n_backward = len(asked), sum(asked)
    assert n > 20 * n_seldom
    assert n_backward > 20  # layer by layer on the way back, too
    first_backward = asked.index(True) + 1
    for at in (1, n, first_backward + n_backward // 2):
        asked.clear()
        with pytest.raises(JobCancelled):
            on_chips(lambda at=at: is_cancelled(at))  # type: ignore[misc]
        assert at <= len(asked) <= at + 2  # what is cleaned up asks, too
