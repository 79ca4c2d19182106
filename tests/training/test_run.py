"""Devices have the names that people know them by."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pu_geo.training.run import name_of


@pytest.mark.parametrize(("n", "words"), [(1, "CPU, 1 thread"), (2, "CPU, 2 threads")])
def test_a_cpu_has_as_many_threads_as_torch_uses(n: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n)
    assert name_of(torch.device("cpu")) == words


def test_a_gpu_has_its_name_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(name="NVIDIA H200", total_memory=150_110_011_392)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    assert name_of(torch.device("cuda")) == "NVIDIA H200, 140 GiB"
    assert name_of(torch.device("mps")) == "Apple GPU"
