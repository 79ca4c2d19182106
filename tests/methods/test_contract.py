"""What every method of the catalog must do, whatever it is made of."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_parts import mostly_long

from pu_geo.analysis import metrics
from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.methods import catalog
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

CPU = torch.device("cpu")
NAMES = list(catalog.METHODS)
FROM_CHIPS = [name for name, card in catalog.METHODS.items() if len(card.presets) > 1]
SHORT = {"epochs": 12, "batch_size": 64, "warmup_epochs": 2, "rounds": 30}
DRAWS_NOTHING = ("linear", "propagation")
every_method = pytest.mark.parametrize("name", NAMES)


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
    names = ("not damaged", "roof", "wall")
    return PUData(FeatureViews(views), known >= 1, np.zeros(n, np.bool_), known.astype(np.int64), names), truth


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
    return catalog.load_fit(name)(data, settings or short(name), Run(CPU, seed, **run))


@pytest.fixture(scope="module")
def trained() -> dict[str, TrainedModel]:
    """One model of each method, for tests that only look at it."""
    data, _ = made_up()
    return {name: fit(name, data) for name in NAMES}


@every_method
def test_hidden_damage_is_found(name: str, trained: dict[str, TrainedModel]) -> None:
    data, truth = made_up()
    hidden = data.classes == -1
    assert metrics.auc(trained[name].score(data.inputs.array)[hidden], truth[hidden]) > 0.8


@every_method
def test_scores_still_order_chips_where_damage_is_rare(name: str) -> None:
    data, truth = made_up(1, n=500, share=0.06)
    hidden = data.classes == -1
    scores = fit(name, data).score(data.inputs.array)[hidden]
    least = 0.6 if catalog.card(name).group == "baseline" else 0.75
    assert metrics.auc(scores, truth[hidden]) > least
    assert scores.std() > 1e-4


@every_method
def test_same_seed_gives_the_same_bits_and_nothing_else_is_drawn_from(name: str, trained: dict[str, TrainedModel]) -> None:
    """Another seed gives others, where a method draws at all."""
    torch.manual_seed(99)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    again, first = fit(name, made_up()[0]).state(), trained[name].state()
    assert all(torch.equal(again[key], first[key]) for key in first)
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002
    other = fit(name, made_up()[0], seed=1).state()
    assert name in DRAWS_NOTHING or any(not torch.equal(other[key], first[key]) for key in first)


@every_method
def test_left_out_chips_teach_nothing_and_are_scored(name: str) -> None:
    data, _ = made_up(3)
    left_out = np.zeros(240, np.bool_)
    left_out[[0, 1, 100, 239]] = True
    spoiled = data.inputs.array.copy()
    spoiled[:, left_out] = 900
    pair = [PUData(FeatureViews(views), data.is_positive, left_out, data.known_class, data.class_names)
            for views in (data.inputs.array, spoiled)]  # fmt: skip
    plain, wild = (fit(name, each).score(data.inputs.array) for each in pair)
    np.testing.assert_array_equal(plain, wild)
    assert plain.shape == (240,)


@every_method
def test_embeddings_are_unit_and_scores_shares(name: str, trained: dict[str, TrainedModel]) -> None:
    views, model = made_up()[0].inputs.array, trained[name]
    for inputs, n in ((views, 240), (views[0], 240), (views[:, :1], 1), (views[:, :0], 0)):
        embeddings, scores = model.embed(inputs), model.score(inputs)
        assert embeddings.dtype == scores.dtype == np.float32
        assert len(embeddings) == n
        assert scores.shape == (n,)
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
        assert ((scores >= 0) & (scores <= 1)).all()
    with pytest.raises(ShapeError, match="16"):
        model.score(views[:, :, :5])


@every_method
def test_scoring_in_parts_is_no_matter(name: str, trained: dict[str, TrainedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    views = made_up()[0].inputs.array
    whole = trained[name].score(views)
    monkeypatch.setattr("pu_geo.training.network.FEATURES_AT_ONCE", 17)
    np.testing.assert_allclose(trained[name].score(views), whole, atol=1e-5)


@every_method
def test_model_comes_back_from_its_state(name: str, trained: dict[str, TrainedModel]) -> None:
    views, model = made_up()[0].inputs.array, trained[name]
    again = catalog.load_from_state(name)(model.state(), short(name), CPU)
    np.testing.assert_array_equal(model.score(views), again.score(views))
    np.testing.assert_array_equal(model.embed(views), again.embed(views))
    assert all(held.is_contiguous() for held in model.network.state_dict().values())


@every_method
def test_every_epoch_is_reported_in_plain_numbers(name: str) -> None:
    told: list[Mapping[str, Any]] = []
    fit(name, made_up()[0], report=told.append)
    assert told
    for event in told:
        assert {"stage", "epoch", "epochs", "loss", "progress", "seconds"} <= set(event)
        assert event["chips_per_s"] > 0
        assert 20 < event["memory_mb"] < 1_000_000
        assert all(type(value) in (int, float, str) for value in event.values())
        assert all(math.isfinite(value) for value in event.values() if isinstance(value, float))
    shares = [float(str(event["progress"])) for event in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


@every_method
def test_looks_leave_no_trace(name: str, trained: dict[str, TrainedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.training.callbacks.MOST_TIME", math.inf)
    data, seen, told = made_up()[0], [], []  # type: ignore[var-annotated]

    def look(model: TrainedModel, report: Mapping[str, object]) -> Mapping[str, object]:
        assert not any(part.training for part in model.network.modules())
        scores = model.score(data.inputs.array)
        seen.append(scores)
        assert model.embed(data.inputs.plain_array).shape[0] == len(scores) == 240
        return {"seen": len(seen), "of": report["epoch"]}

    before = torch.get_rng_state()
    model = fit(name, data, evaluate=look, report=told.append)
    assert torch.equal(before, torch.get_rng_state())
    straight, again = trained[name].state(), model.state()
    assert again.keys() == straight.keys()
    assert all(torch.equal(again[key], straight[key]) for key in straight)
    assert [event["of"] for event in told if "seen" in event] == [event["epoch"] for event in told if "seen" in event]
    assert len(seen) == sum("seen" in event for event in told) == min(12, len(told)) or name == "fedaws"
    np.testing.assert_allclose(seen[-1], model.score(data.inputs.array), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_CHIPS)
def test_looks_at_a_network_with_batch_norm_leave_no_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.training.callbacks.MOST_TIME", math.inf)
    data, seen = made_up_chips(), []  # type: ignore[var-annotated]

    def look(model: TrainedModel, _: Mapping[str, object]) -> Mapping[str, object]:
        seen.append((model.score(data.inputs.array[:9]), model.embed(data.inputs.plain_array[3:7])))
        return {}

    settings = short(name, backbone="small", epochs=3, rounds=3, batch_size=16, pretrain_epochs=1, precision="bf16")
    straight, looked_at = (fit(name, data, settings=settings, **run).state() for run in ({}, {"evaluate": look}))
    assert seen
    assert all(torch.equal(looked_at[key], straight[key]) for key in straight)


@pytest.mark.parametrize("name", [name for name in NAMES if "max_steps" in catalog.card(name).settings.__dataclass_fields__])
def test_many_chips_get_fewer_epochs_but_whole_ones(name: str) -> None:
    told: list[list[Mapping[str, Any]]] = [[], []]
    for events, max_steps in zip(told, (1, 10_000), strict=True):
        fit(name, made_up()[0], settings=short(name, max_steps=max_steps), report=events.append)
    few, all_of_them = ([event for event in events if event["stage"] != "judging"] for events in told)
    assert 1 <= len(few) < len(all_of_them) == 12
    assert [event["epoch"] for event in few] == list(range(1, len(few) + 1))
    assert (few[-1]["epochs"], few[-1]["progress"]) == (len(few), pytest.approx(1))


@every_method
def test_cancelling_stops_within_a_batch(name: str) -> None:
    asked: list[int] = []

    def is_cancelled() -> bool:
        asked.append(1)
        return True

    with pytest.raises(JobCancelled):
        fit(name, made_up()[0], is_cancelled=is_cancelled)
    assert len(asked) == 1


@every_method
@pytest.mark.parametrize("killed_at", mostly_long([7, 23], 23))
def test_a_killed_training_goes_on_bit_equal(
    name: str, killed_at: int, trained: dict[str, TrainedModel], tmp_path: Path
) -> None:
    data, asked = made_up()[0], [0]

    def kill() -> bool:
        asked[0] += 1
        return asked[0] == killed_at

    with contextlib.suppress(JobCancelled):  # a training shorter than this ends, and what is taken up is its end
        fit(name, data, is_cancelled=kill, checkpoints=Checkpoints(tmp_path, 0.0))
    again = fit(name, data, checkpoints=Checkpoints(tmp_path, 0.0)).state()
    straight = trained[name].state()
    assert all(torch.equal(again[key], straight[key]) for key in straight)


@every_method
def test_one_class_alone_is_refused(name: str) -> None:
    data, _ = made_up()
    everyone, nobody = np.ones(240, np.bool_), np.zeros(240, np.bool_)
    for positive in (nobody, everyone):
        with pytest.raises(TrainingError, match=r"none|all are damaged|all are positive|all 240|has \d+ and 0") as caught:
            fit(name, PUData(data.inputs, positive, nobody))
        assert caught.value.hint


@pytest.mark.parametrize("name", ["pucl", "ncl", "herocon"])
def test_methods_that_compare_views_refuse_a_single_one(name: str) -> None:
    data, _ = made_up()
    with pytest.raises(TrainingError, match="have 1"):
        fit(name, replace(data, inputs=FeatureViews(data.inputs.array[:1])))


@every_method
def test_a_loss_that_is_no_number_stops_the_training(name: str) -> None:
    data, _ = made_up()
    data.inputs.array[:, np.flatnonzero(data.is_positive)] = np.nan
    with pytest.raises(TrainingError):
        fit(name, data)


@every_method
@pytest.mark.parametrize("n", [8, 65])
def test_odd_sizes_train(name: str, n: int) -> None:
    data, _ = made_up(7, n=65, share=0.5)
    known = np.full(n, -1)
    known[:3], known[-3:] = [1, 2, 1], 0
    few = PUData(FeatureViews(data.inputs.array[:2, :n]), known >= 1, np.zeros(n, np.bool_), known, data.class_names)
    assert np.isfinite(fit(name, few).score(few.inputs.array)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_CHIPS)
def test_trains_from_the_chips_themselves(name: str) -> None:
    data = made_up_chips()
    settings = short(name, backbone="small", epochs=2, rounds=4, batch_size=16, pretrain_epochs=1, precision="bf16")
    model = fit(name, data, settings=settings)
    assert model.embed(data.inputs.array).shape[0] == 48
    assert np.isfinite(model.score(data.inputs.array)).all()
    again = catalog.load_from_state(name)(model.state(), settings, CPU)
    np.testing.assert_array_equal(again.score(data.inputs.array), model.score(data.inputs.array))


@every_method
def test_card_and_presets_are_whole(name: str) -> None:
    card = catalog.card(name)
    assert card.name == name
    for text in (card.title, card.paper, card.summary, card.needs, card.cannot):
        assert len(text) >= 3
        assert text == text.strip()
    assert "quick" in card.presets
    for preset in card.presets:
        assert asdict(catalog.settings_for(name, preset))
    for item in fields(card.settings):
        assert item.metadata.get("help"), f"{item.name} of {name} has no help text"
