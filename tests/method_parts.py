"""Made-up events to train on, quick settings, and which cases of a grid are run each time: for the tests of all methods."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pu_geo.methods import catalog
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

CPU = torch.device("cpu")
NAMES = list(catalog.METHODS)
FROM_CHIPS = [name for name, card in catalog.METHODS.items() if len(card.presets) > 1]
SHORT = {"epochs": 12, "batch_size": 64, "warmup_epochs": 2, "rounds": 30}
KINDS = ("not damaged", "roof", "wall")


def long_but(quick: Iterable[Any], cases: Iterable[Any] = NAMES, *, part: str = "contract") -> list[Any]:
    """Return cases for `parametrize`, of which all but the quick ones are of a part of the long tier."""
    quick = list(quick)
    return [case if case in quick else pytest.param(case, marks=pytest.mark.long(part=part)) for case in cases]


def made_up(seed: int = 0, n: int = 240, share: float = 0.4, clicks: int = 16) -> tuple[PUData, NDArray[np.bool_]]:
    """Five noisy views of chips with 16 features, of which five tell two kinds of damage; and the truth.

    Some positives of both kinds are clicked, and as many buildings are called not damaged.
    """
    draw = np.random.default_rng(seed)
    truth = np.arange(n) < round(share * n)
    centre = draw.normal(size=(n, 16))
    centre[truth, :4] += 2
    centre[truth, 4] += np.where(np.arange(truth.sum()) % 2, 2, -2)
    views = (centre + draw.normal(size=(5, n, 16)) * 0.4).astype(np.float16)
    known = np.full(n, -1)
    damaged = draw.choice(np.flatnonzero(truth), clicks, replace=False)
    known[damaged] = 1 + damaged % 2
    known[draw.choice(np.flatnonzero(~truth), clicks, replace=False)] = 0
    return PUData(FeatureViews(views), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), KINDS), truth


def made_up_chips(n: int = 48) -> PUData:
    """Chips of 32 px, 6 bands; the damaged half has a bright patch in the post bands."""
    draw = np.random.default_rng(0)
    chips = draw.integers(60, 120, (n, 6, 32, 32)).astype(np.uint8)
    chips[: n // 2, 3:, 8:20, 8:20] = 220
    known = np.full(n, -1)
    known[: n // 4], known[-n // 4 :] = 1 + np.arange(n // 4) % 2, 0
    return PUData(ChipImages(chips), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), ("no", "roof", "wall"))


def short(name: str, **others: object) -> Any:
    """Quick settings of a method, cut short."""
    known = {item.name for item in fields(catalog.card(name).settings)}
    chosen = {key: value for key, value in {**SHORT, **others}.items() if key in known}
    return catalog.settings_for(name, "quick", chosen)  # type: ignore[arg-type]


def fit(name: str, data: PUData, seed: int = 0, settings: Any = None, **run: Any) -> TrainedModel:
    """Train a method by its name."""
    model: TrainedModel = catalog.load_fit(name)(data, settings or short(name), Run(CPU, seed, **run))
    return model


def fitter(train: Callable[..., TrainedModel], settings: Any) -> Callable[..., TrainedModel]:
    """Return `train` with these settings unless others are given, on the CPU."""
    return lambda data, settings=settings, seed=0, **run: train(data, settings, Run(CPU, seed, **run))


def is_same(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    """Whether two states have the same names and bits."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
