"""The default method: two readings, the weight between them, and what it makes of clicks, views and models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from method_parts import CPU, is_same, made_up_chips
from numpy.typing import NDArray

from pu_geo.analysis import estimates, metrics
from pu_geo.errors import ShapeError, TrainingError
from pu_geo.methods import propagation
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.methods.propagation import PropagationModel
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

QUICK = PropagationSettings()


def event(
    share: float, *, n: int = 1200, clicks: int = 20, seed: int = 0, known: int = 0, wide: float = 0.0
) -> tuple[PUData, NDArray[np.bool_]]:
    """Chips whose widest directions say nothing, and of which narrow ones, mixed into all columns, tell damage; and the truth.

    `wide` is how far damage also moves chips in all directions, in their spread there.
    """
    draw = np.random.default_rng(seed)
    truth = np.arange(n) < max(clicks + 5, round(share * n))
    centre = draw.normal(size=(n, 24)) * np.geomspace(4.0, 0.3, 24)
    centre[truth, 18:] += 0.6
    centre[truth] += wide * np.geomspace(4.0, 0.3, 24)
    turned = centre @ np.linalg.qr(draw.normal(size=(24, 24)))[0]
    views = np.abs(turned + 20 + draw.normal(size=(4, n, 24)) * 0.15).astype(np.float16)
    classes = np.full(n, -1)
    classes[draw.choice(np.flatnonzero(truth), clicks, replace=False)] = 1
    classes[draw.choice(np.flatnonzero(~truth), known, replace=False)] = 0
    return PUData(FeatureViews(views), classes == 1, np.zeros(n, np.bool_), classes.astype(np.int64)), truth


def trained(data: PUData, seed: int = 0, **values: Any) -> tuple[PropagationModel, dict[str, object]]:
    told: list[dict[str, object]] = []
    run = Run(CPU, seed, report=lambda values: told.append(dict(values)))
    return propagation.fit(data, PropagationSettings(**values), run), told[-1]


@pytest.mark.parametrize("clicks", [3, 20])
def test_what_is_held_out_survives_a_restart_after_the_epoch(clicks: int, tmp_path: Path) -> None:
    data, _ = event(0.2, n=300, clicks=clicks)
    settings = PropagationSettings()
    first, again = (propagation.fit(data, settings, Run(CPU, 0, checkpoints=Checkpoints(tmp_path))) for _ in range(2))
    assert Checkpoints(tmp_path).begin("fitting") is not None  # so the second one learned nothing in an epoch
    assert len(first.held_out_scores) == len(again.held_out_scores) == (5 if clicks > 3 else 0)
    for one, other in zip(first.held_out_scores, again.held_out_scores, strict=True):
        for name in ("clicks", "unlabeled", "scores"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert is_same(first.state(), again.state())


def average_precision(data: PUData, truth: NDArray[np.bool_], scores: NDArray[np.float32]) -> float:
    return metrics.average_precision(scores[~data.is_positive], truth[~data.is_positive])


@pytest.mark.parametrize(("share", "wide", "least"), [(0.03, 0.0, 0.3), (0.5, 0.7, 0.02)])
def test_it_ranks_better_than_the_instant_ranker(share: float, wide: float, least: float) -> None:
    gains = []
    for seed in range(2):
        data, truth = event(share, clicks=10 if wide else 20, seed=seed, wide=wide)
        model, _ = trained(data, seed)
        plain = np.asarray(data.inputs.plain_array, np.float32)
        ranked, _ = estimates.rank_with_estimate(estimates.prepare(plain), data.is_positive)
        found = average_precision(data, truth, model.score(data.inputs.array))
        gains.append(found - average_precision(data, truth, ranked))
    assert np.mean(gains) > least


def test_buildings_called_not_damaged_and_accepted_ones_are_learned_from() -> None:
    data, truth = event(0.05, clicks=6, known=200)
    plain = PUData(data.inputs, data.is_positive, data.is_excluded)
    hidden = data.classes == -1
    with_known, without = (trained(each)[0].score(data.inputs.array)[hidden] for each in (data, plain))
    assert metrics.average_precision(with_known, truth[hidden]) > metrics.average_precision(without, truth[hidden])
    data, truth = event(0.3, clicks=10)
    is_accepted = np.isin(np.arange(1200), np.flatnonzero(truth & ~data.is_positive)[:150])
    both = data.is_positive | is_accepted
    accepted = replace(data, is_positive=both, is_accepted=is_accepted, known_class=None)
    scores, without = (trained(each)[0].score(data.inputs.array) for each in (accepted, data))
    assert np.abs(scores - without).max() > 0.01
    assert metrics.average_precision(scores[~both], truth[~both]) > metrics.average_precision(without[~both], truth[~both])


def test_very_many_unlabeled_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagation, "MOST_UNLABELED", 200)
    data, truth = event(0.1)
    run = Run(CPU)
    model = propagation.fit(data, QUICK, run)
    assert run.n_chips_trained == 220
    assert metrics.auc(model.score(data.inputs.array), truth) > 0.8


def test_copies_of_one_chip_do_not_swell_the_graph() -> None:
    data, truth = event(0.2)
    views = np.array(data.inputs.array)
    views[:, 600:] = views[:, 600:601]
    model, _ = trained(PUData(FeatureViews(views), data.is_positive, data.is_excluded))
    assert len(model.state()["anchors"]) == 601
    scores = model.score(views)
    assert np.ptp(scores[600:]) < 1e-4
    assert metrics.auc(scores, truth) > 0.8


def test_the_share_acts_within_bounds_and_more_damage_lets_scores_travel_more() -> None:
    """As many of the unlabeled as it says score above 0.5, between 0.5 % and a half."""
    data, _ = event(0.1)
    spreads = []
    for share in (0.002, 0.95):
        model, told = trained(data, damaged_share=share)
        called = (model.score(data.inputs.array)[~data.is_positive] > 0.5).mean()
        assert called == pytest.approx(min(max(share, 0.005), 0.5), abs=0.02)
        spreads.append(float(str(told["propagated"])))
    assert spreads[0] < spreads[-1]
    rare, common = (trained(event(share, wide=0.7)[0])[1]["propagated"] for share in (0.03, 0.6))
    assert float(str(rare)) < 0.3
    assert float(str(common)) > 0.7


def test_states_that_no_training_leaves_are_refused() -> None:
    state = trained(event(0.2)[0], n_anchors=400)[0].state()
    for name, value, words in (
        ("degree", 0.0, "degree"), ("degree", -1.0, "degree"), ("scale_of", 0.0, "scale_of"), ("spread", 5.0, "spread"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            propagation.from_state({**state, name: state[name].clone().fill_(value)}, QUICK, CPU)
    with pytest.raises(ValueError, match="400"):
        propagation.from_state(state, PropagationSettings(n_anchors=100), CPU)
    for odd in (
        {"reach": state["reach"][:10]},
        {name: state[name][:0] for name in ("anchors", "reach", "degree", "values")},
    ):
        with pytest.raises(ValueError, match="anchors"):
            propagation.from_state({**state, **odd}, QUICK, CPU)
    with pytest.raises(RuntimeError, match="anchors"):
        propagation.from_state({**state, "anchors": state["anchors"][:, :5]}, QUICK, CPU)


def test_data_that_cannot_be_ranked_are_refused() -> None:
    data, truth = event(0.2)
    plain = PUData(data.inputs, data.is_positive, data.is_excluded)
    infinite = data.inputs.array.copy()
    infinite[0, 7] = np.inf
    for odd, words in (
        (replace(plain, known_class=np.where(data.is_positive, 1, 0)), "all 1200 here are marked"),
        (replace(plain, is_accepted=data.is_positive), "needs a building that was marked damaged"),
        (replace(plain, inputs=FeatureViews(infinite)), "1 of 1200 chips is not finite"),
    ):
        with pytest.raises(TrainingError, match=words):
            trained(odd, damaged_share=0.2)
    with pytest.raises(ShapeError, match="is_accepted"):
        replace(plain, is_accepted=truth)
    with pytest.raises(TrainingError, match="whitening"):
        PropagationSettings(whitening=0.6)


def test_it_looks_at_chips_where_a_backbone_is_asked_for() -> None:
    chips = made_up_chips()
    data = PUData(chips.inputs, chips.is_positive, chips.is_excluded)
    model, _ = trained(data, backbone="small")
    assert metrics.auc(model.score(data.inputs.array), np.arange(48) < 24) > 0.9
    assert model.embed(data.inputs.array).shape == (48, 64)
    with pytest.raises(ShapeError):
        model.score(data.inputs.array[:, :, :16])
