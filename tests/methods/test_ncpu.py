"""NcPU on cached features: it learns, repeats itself, stops when told, and does not collapse where damage is rare."""

from dataclasses import replace

import numpy as np
import pytest
from method_parts import fitter, made_up

from pu_geo.analysis import metrics
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog, ncpu
from pu_geo.methods.cards.ncpu import NcpuSettings
from pu_geo.methods.catalog import TrainingRequest

SHORT = NcpuSettings(epochs=12, warmup_epochs=2, batch_size=64, embedding_dim=16, lr=0.02)
_fit = fitter(ncpu.fit, SHORT)


def test_hidden_damage_is_found_by_the_released_variant_and_where_damage_is_rare() -> None:
    for data, truth in (made_up(0, share=0.5), made_up(1, n=500, share=0.06)):
        scores = _fit(data, replace(SHORT, epochs=20, variant="released", width=32)).score(data.inputs.views)
        rest = ~data.is_positive
        assert metrics.auc(scores[rest], truth[rest]) > 0.85
        assert scores[rest].std() > 0.01
        assert 0 < (scores[rest] > 0.5).mean() < 0.6


@pytest.mark.parametrize(
    ("epochs", "max_steps", "expected"),
    [(60, 10_000, (60, 5)), (60, 240, (60, 5)), (60, 239, (59, 5)), (60, 47, (11, 2)), (60, 15, (5, 1)), (60, 1, (5, 1)),
     (3, 1, (3, 5))],
)  # fmt: skip
def test_warmup_shrinks_with_a_training_cut_short(epochs: int, max_steps: int, expected: tuple[int, int]) -> None:
    settings = NcpuSettings(epochs=epochs, warmup_epochs=5, batch_size=64, max_steps=max_steps)
    assert ncpu._lengths(240, settings) == expected


def test_overrides_are_read_by_type_and_wrong_ones_are_refused() -> None:
    settings = catalog.settings_for("ncpu", "quick", {"epochs": "80", "lr": "1e-3", "variant": "released"})
    assert (settings.epochs, settings.lr, settings.variant) == (80, pytest.approx(1e-3), "released")
    assert catalog.load_fit("ncpu") is ncpu.fit
    for overrides, words in (
        ({"epoch": "3"}, "epochs, max_steps"), ({"epochs": "3.5"}, "whole number"), ({"epochs": "many"}, "whole number"),
        ({"lr": "nan"}, "between"), ({"lr": "-1"}, "between"), ({"variant": "mine"}, "paper, released"),
    ):  # fmt: skip
        with pytest.raises(TrainingError, match=words):
            catalog.settings_for("ncpu", "quick", overrides)
    for wrong, words in (
        ({"seed": -1}, "seed is -1"), ({"hold_out": -1}, "hold_out is -1"),
        ({"preset": "standard", "feature_set": "mine"}, "learns from the"),
    ):  # fmt: skip
        with pytest.raises(TrainingError, match=words):
            TrainingRequest(**{"method": "ncpu", "preset": "quick", **wrong})
    for method, preset, words in (("ncpuu", "quick", "ncpu, pucl"), ("ncpu", "slow", "quick")):
        with pytest.raises(TrainingError, match=words):
            catalog.settings_for(method, preset)


@pytest.mark.parametrize(
    ("share", "momentum"), [(0.05, 0.97), (0.2, 0.97), (0.45, 0.935), (0.7, 0.9), (1.0, 0.9), (None, 0.9)]
)
def test_pseudo_targets_move_slower_where_few_seem_damaged(
    share: float | None, momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Halfway between the shares .2 and .7 the momentum is halfway between .97 and .9.
    monkeypatch.setattr(ncpu, "estimated_share", lambda *_: share)
    data, rows = made_up()[0], np.arange(240)
    assert ncpu._paced(data, rows, NcpuSettings()).target_momentum == pytest.approx(momentum)
    paper = catalog.settings_for("ncpu", "paper")
    assert ncpu._paced(data, rows, paper) is paper
