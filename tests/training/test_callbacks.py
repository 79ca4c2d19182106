"""Looks at a training: when they are due, what they cost, and that nothing of them is left."""

import math
import time
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import nn

from pu_geo.errors import TrainingError
from pu_geo.training import callbacks
from pu_geo.training.callbacks import Evaluator, chosen, drawn, evaluating, rows_to_judge
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import FeatureExtractor, TrainedModel


class Small(nn.Module):
    """A network with a dropout, whose mode shows."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = FeatureExtractor((4,), "features", 3, torch.Generator())
        self.drop = nn.Dropout()


def model() -> TrainedModel:
    network = Small()
    return TrainedModel(network, network.trunk)


@pytest.mark.parametrize("n_epochs", [1, 5, 13, 60, 999])
def test_about_twelve_looks_are_spread_and_one_is_at_the_end(n_epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_TIME", math.inf)
    looks = Evaluator(lambda _, report: {"seen": report["epoch"]}, model, n_epochs)
    found = [epoch for epoch in range(1, n_epochs + 1) if looks.after(epoch, {"epoch": epoch})]
    assert min(n_epochs, 6) <= len(found) <= 13
    assert found[-1] == n_epochs
    assert len(set(np.diff(found[:-1]))) <= 1


def test_looks_wait_until_they_are_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def look(_: TrainedModel, report: Mapping[str, object]) -> Mapping[str, object]:
        clock[0] += 10.0
        return {"seen": report["epoch"]}

    looks, found = Evaluator(look, model, 100), []
    for epoch in range(1, 101):
        clock[0] += 5.0
        if looks.after(epoch, {"epoch": epoch}):
            found.append((epoch, clock[0]))
    # One look of 10 s: the next one from 200 s on, which is 190 s of training, epoch 38; the first multiple of 9 is 45.
    assert [epoch for epoch, _ in found] == [9, 45, 81, 100]  # and always the last one


def test_without_anyone_who_looks_or_a_model_nothing_is_done() -> None:
    def fail(error: Exception) -> TrainedModel:
        raise error

    assert Evaluator(None, lambda: fail(AssertionError()), 1).after(1, {}) == {}
    assert Evaluator(lambda *_: {"a": 1}, None, 1).after(1, {}) == {}
    assert Evaluator(lambda *_: {"a": 1}, lambda: fail(TrainingError("not finite", "")), 1).after(1, {}) == {}
    with pytest.raises(OSError, match="full"):
        Evaluator(lambda *_: fail(OSError("full")), model, 1).after(1, {})  # type: ignore[arg-type, return-value]


def test_a_look_sees_a_model_in_evaluation_mode_and_every_part_returns_to_its_own() -> None:
    network = Small()
    network.drop.eval()
    before = [part.training for part in network.modules()]
    assert len(set(before)) == 2
    looks = Evaluator(lambda seen, _: {"any": any(p.training for p in seen.network.modules())},
                  lambda: TrainedModel(network, network.trunk), 1)  # fmt: skip
    assert looks.after(1, {}) == {"any": False}
    assert [part.training for part in network.modules()] == before
    with pytest.raises(ZeroDivisionError), evaluating(network):
        raise ZeroDivisionError
    assert [part.training for part in network.modules()] == before


def test_some_rows_are_drawn_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(0, 20_000, 2)
    first = drawn(rows)
    assert len(first) == 4000
    assert (np.diff(first) > 0).all()
    np.testing.assert_array_equal(first, drawn(rows))
    np.testing.assert_array_equal(drawn(rows[:7]), rows[:7])
    monkeypatch.setattr(callbacks, "MOST_ROWS", 3)
    data = PUData(FeatureViews(np.zeros((1, 9, 4))), np.arange(9) % 4 == 0, np.arange(9) == 8)
    found = rows_to_judge(data, data.trained_rows)
    assert {0, 4} <= set(found.tolist())
    assert len(found) == 5
    assert 8 not in found
    rows, views = np.array([1, 3]), np.arange(24.0).reshape(2, 4, 3)  # only the rows asked for are read
    np.testing.assert_array_equal(chosen(FeatureViews(views), rows), views[:, [1, 3]])
    chips = np.arange(4 * 3 * 4, dtype=np.uint8).reshape(4, 3, 2, 2)
    np.testing.assert_array_equal(chosen(ChipImages(chips), rows), chips[[1, 3]])
