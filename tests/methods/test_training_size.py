"""Counted steps and views against those of real trainings, of every method, from features and from chips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from pu_geo.methods import catalog, training_size
from pu_geo.methods.settings import NetworkSettings
from pu_geo.methods.training_size import TrainingSize
from pu_geo.training import data as engine_data
from pu_geo.training.backbones import Backbone
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.loop import Epoch
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

CPU = torch.device("cpu")
FROM_CHIPS = [name for name, card in catalog.METHODS.items() if len(card.presets) > 1]
CASES: list[dict[str, object]] = [
    {},
    {"max_steps": 7, "batch_size": 16},
    {"epochs": 3, "batch_size": 50, "labeled_batch": 5, "rounds": 2},
    {"epochs": 2, "batch_size": 16, "pretrain_epochs": 2, "width": 8, "rounds": 2, "local_steps": 3},
]


@dataclass
class Seen:
    """What a training did: steps, and views of chips forward with and without a way back."""

    steps: int = 0
    trained: int = 0
    seen: int = 0


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, network: type[torch.nn.Module]) -> Iterator[Seen]:
    """Count the batches that epochs are told of, and the chips that go through trunks or backbones."""
    found, add, forward = Seen(), Epoch.add, network.forward

    def counted_add(self: Epoch, values: Any) -> None:
        found.steps += 1
        add(self, values)

    def counted_forward(self: Any, inputs: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            found.trained += len(inputs)
        else:
            found.seen += len(inputs)
        return forward(self, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "add", counted_add)
        patch.setattr(network, "forward", counted_forward)
        yield found


def known_classes(n: int, n_positive: int, n_not_damaged: int) -> np.ndarray:
    known = np.full(n, -1)
    known[:n_positive], known[n_positive : n_positive + n_not_damaged] = 1 + np.arange(n_positive) % 2, 0
    return known


def made_up(inputs: FeatureViews | ChipImages, amount: TrainingSize) -> PUData:
    known = known_classes(amount.n_chips, amount.n_positive, amount.n_not_damaged)
    left_out = np.arange(amount.n_chips) >= amount.n_chips - amount.n_left_out
    return PUData(inputs, known >= 1, left_out, known, ("not damaged", "roof", "wall"))


def chosen(method: str, preset: str, values: dict[str, object]) -> NetworkSettings:
    settings = catalog.settings_for(method, preset)
    fitting = {name: value for name, value in values.items() if name in vars(settings)}
    if "class_prior" in vars(settings):  # a training is told its estimate
        fitting["class_prior"] = 0.3
    return replace(settings, **fitting)


def totals(counted: training_size.Work) -> Seen:
    stages = counted.stages
    return Seen(
        sum(stage.steps for stage in stages),
        sum(stage.chips * stage.trained for stage in stages),
        sum(stage.chips * stage.seen for stage in stages),
    )


@pytest.mark.parametrize("values", CASES, ids=str)
@pytest.mark.parametrize("method", [name for name in catalog.METHODS if name not in ("linear", "propagation")])
def test_steps_and_views_on_features_are_those_of_a_real_training(
    method: str, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    amount = TrainingSize(131, 9, 7, 3, n_kinds=2, n_views=3)
    views = np.random.default_rng(0).normal(size=(3, 131, 12)).astype(np.float32)
    settings = chosen(method, "quick", {"epochs": 6, "rounds": 3, **values})
    counted = totals(training_size.count(method, settings, amount))
    with watched(monkeypatch, FeatureExtractor) as found:
        model = catalog.load_fit(method)(made_up(FeatureViews(views), amount), settings, Run(CPU))
    assert found.steps == counted.steps
    assert found.trained == counted.trained
    if method not in ("ncl", "pucl"):  # these look at all chips again in `fit`, which is counted as done afterwards
        assert found.seen == counted.seen
    assert model.score(views).shape == (131,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "values"),
    [
        *((name, {"pretrain_epochs": 1}) for name in FROM_CHIPS),
        ("fedaws", {"pretrain_epochs": 0}),
        ("herocon", {"weight_decay": 0.0}),
    ],
    ids=str,
)
def test_views_through_a_backbone_are_those_of_a_real_training(
    method: str, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    amount = TrainingSize(45, 6, 5, 2, n_kinds=2, size_px=16, n_bands=6, n_views=0)
    chips = np.random.default_rng(0).integers(1, 255, (45, 6, 16, 16)).astype(np.uint8)
    short = {"backbone": "small", "precision": "float32", "epochs": 2, "rounds": 2, "batch_size": 16}
    settings = chosen(method, "standard", short | values)
    counted = totals(training_size.count(method, settings, amount))
    with watched(monkeypatch, Backbone) as found:
        catalog.load_fit(method)(made_up(ChipImages(chips), amount), settings, Run(CPU))
    after = {"pucl": 1, "ncl": 2}.get(method, 0) * amount.n_chips  # counted as done afterwards
    assert (found.steps, found.trained) == (counted.steps, counted.trained)
    assert found.seen == counted.seen + after


@pytest.mark.parametrize("batch_size", [2, 5, 64, 131])
def test_batches_are_counted_as_they_are_dealt_out(batch_size: int) -> None:
    for n in range(2, 140):
        assert training_size.n_batches(n, batch_size) == len(engine_data.batches(n, batch_size, torch.Generator()))


def test_every_preset_of_every_method_is_counted() -> None:
    for name, card in catalog.METHODS.items():
        for preset in card.presets:
            small, large = (
                training_size.count(name, catalog.settings_for(name, preset), TrainingSize(n, 30, 30)) for n in (100, 50_000)
            )
            assert small.views_after < large.views_after
            assert all(stage.chips > 0 for stage in (*small.stages, *large.stages))


def test_steps_of_ncpu_never_fall_below_five_epochs() -> None:
    settings = catalog.settings_for("ncpu", "quick")  # at most 300 steps; 79 of 128 chips make an epoch of 10,000
    assert training_size.count("ncpu", settings, TrainingSize(10_000)).stages[-1].steps == 5 * 79


def test_a_method_that_nobody_counted_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="COUNTS"):
        training_size.count("new", NetworkSettings(), TrainingSize(100))
