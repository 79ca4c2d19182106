"""The door to all makers of features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pu_geo.errors import ShapeError, TrainingError
from pu_geo.features import bank
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")


def _chips() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (40, 3, 20, 20)).astype(np.uint8)


def test_random_filters_are_a_maker_without_choices() -> None:
    chips = _chips()
    made = bank.fit_maker(FeatureRequest(), chips, generator=torch.Generator().manual_seed(0), device=CPU)
    again = bank.from_state(made.state(), made.facts())
    assert made.kind == made.facts()["kind"] == "rcf"
    np.testing.assert_array_equal(
        again.transform(chips, 2, seed=0, device=CPU), bank.fit_default(chips).transform(chips, 2, seed=0, device=CPU)
    )
    assert bank.from_state(made.state(), {}).kind == "rcf"  # projects of the first version stored no facts
    for wrong in ({"pool": "cls"}, {"layer": "layer3"}, {"size_px": 64}, {"dates": "diff"}, {"weights": "a.safetensors"}):
        with pytest.raises(TrainingError, match=next(iter(wrong))):
            bank.fit_maker(FeatureRequest(**wrong), chips, generator=torch.Generator(), device=CPU)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="masks"):
        made.transform(chips, 1, seed=0, device=CPU, masks=np.ones((40, 20, 20), np.bool_))


def test_unknown_makers_are_refused_by_name() -> None:
    with pytest.raises(TrainingError, match=r"'dinov9'.*rcf"):
        bank.fit_maker(FeatureRequest("dinov9"), _chips(), generator=torch.Generator(), device=CPU)
    with pytest.raises(TrainingError, match=r"'5'"):
        bank.from_state({}, {"kind": 5})
