"""A small network that learns features from the chips themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled, TrainingError
from pu_geo.features import bank, self_supervised
from pu_geo.features.networks import NetworkMaker
from pu_geo.features.self_supervised import learn
from pu_geo.records import FeatureRequest

CPU = torch.device("cpu")


def _chips(n: int = 64) -> NDArray[np.uint8]:
    """Each chip has blobs of its own before; half of them have lost a part of these after."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(20, 235, (n, 3, 4, 4)).repeat(4, 2).repeat(4, 3)
    post = coarse.copy()
    post[n // 2 :, :, 4:12, 4:12] = 128
    return (np.concatenate([coarse, post], axis=1) + draw.integers(-9, 9, (n, 6, 16, 16))).astype(np.uint8)


def _seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def _fit(monkeypatch: pytest.MonkeyPatch, n_epochs: int, **choices: Any) -> NetworkMaker:
    monkeypatch.setattr(self_supervised, "EPOCHS", (n_epochs, n_epochs))
    request = FeatureRequest("self-supervised", **choices)
    return cast(NetworkMaker, bank.fit_maker(request, _chips(), generator=_seed(), device=CPU))


def _likeness(maker: NetworkMaker) -> float:
    """Compute how much more alike two views of a chip are than views of two chips, in standardised features."""
    views = maker.transform(_chips(), 3, seed=1, device=CPU)[1:].astype(np.float64)
    views = (views - views.mean((0, 1))) / (views.std((0, 1)) + 1e-6)
    one, other = (view / np.linalg.norm(view, axis=1, keepdims=True) for view in views)
    cosines = one @ other.T
    return float(np.diag(cosines).mean() - cosines[~np.eye(len(cosines), dtype=bool)].mean())


def test_training_makes_views_of_a_chip_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (_likeness(_fit(monkeypatch, n)) for n in (1, 40))
    assert after > before + 0.1


def test_the_generator_decides_the_weights() -> None:
    chips, rows = _chips(), np.arange(0, 64, 2)
    one, same, other = (learn(chips, rows, "both", generator=_seed(seed), device=CPU, n_epochs=2) for seed in (1, 1, 2))
    assert all(torch.equal(one.tensors[name], same.tensors[name]) for name in one.tensors)
    assert not torch.equal(one.tensors["conv1.weight"], other.tensors["conv1.weight"])
    without_odd = chips.copy()
    without_odd[1::2] = 0
    alone = learn(without_odd, rows, "both", generator=_seed(1), device=CPU, n_epochs=2)
    assert torch.equal(one.tensors["conv1.weight"], alone.tensors["conv1.weight"])  # other rows are not learned from


@pytest.mark.parametrize("dates", ["both", "diff"])
def test_what_was_learned_survives_being_stored(monkeypatch: pytest.MonkeyPatch, dates: str) -> None:
    maker = _fit(monkeypatch, 1, dates=dates)
    again = bank.from_state(maker.state(), maker.facts())
    first = maker.transform(_chips(), 2, seed=0, device=CPU)
    np.testing.assert_array_equal(first, again.transform(_chips(), 2, seed=0, device=CPU))
    assert maker.n_features == (768 if dates == "both" else 256)
    facts = maker.facts()
    assert (facts["backbone"], facts["weights_file"], len(facts["weights_sha256"])) == ("small", None, 64)


def test_progress_is_reported_and_cancelling_stops_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Mapping[str, object]] = []
    learn(_chips(), np.arange(64), "post", generator=_seed(), device=CPU, n_epochs=3, report=reports.append)
    assert [(each["done"], each["total"]) for each in reports] == [(64, 192), (128, 192), (192, 192)]
    asked = iter([False, False, False, True])  # the first epoch alone has more operations than that
    monkeypatch.setattr("pu_geo.training.run.SECONDS_BETWEEN_ASKS", 0.0)
    with pytest.raises(JobCancelled):
        learn(_chips(), np.arange(64), "post", generator=_seed(), device=CPU, n_epochs=3, is_cancelled=lambda: next(asked))


def test_a_training_has_some_300_steps_and_needs_two_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    # 368 chips make 2 batches of up to 256; 2,000 make 8, and 20,000 make 79.
    assert [self_supervised.epochs_of(n) for n in (368, 2000, 20_000)] == [100, 38, 10]
    for choices in ({"weights": "a.safetensors"}, {"layer": "conv1"}, {"size_px": 64}):
        with pytest.raises(TrainingError, match="from the chips"):
            _fit(monkeypatch, 1, **choices)
    with pytest.raises(TrainingError, match="there are 1"):
        learn(_chips(), np.arange(1), "both", generator=_seed(), device=CPU)
