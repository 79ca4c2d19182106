"""What every method of the catalog must do. Each is trained once, evaluated after every epoch, and asked many questions."""

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_parts import CPU, FROM_CHIPS, NAMES, fit, is_same, long_but, made_up, made_up_chips, short
from numpy.typing import NDArray

from benchmarks import tables
from pu_geo.analysis import metrics, pupl, two_readings
from pu_geo.analysis.agreement import spearman
from pu_geo.analysis.neighbor_graph import NeighborGraph
from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.methods import catalog, linear, measured, propagation
from pu_geo.methods.ncl import consensus_clusters, discovery
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import FeatureExtractor, TrainedModel
from pu_geo.training.run import Run

DRAWS_NOTHING = ("linear", "propagation")
every_method = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Watched:
    """A training of `made_up`, what it reported, and the scores of each look at it."""

    name: str
    data: PUData
    truth: NDArray[np.bool_]
    model: TrainedModel
    events: list[Mapping[str, Any]]
    seen: list[NDArray[np.float32]]


@pytest.fixture(autouse=True, scope="module")
def always_evaluated() -> Iterator[None]:
    """Evaluate after each epoch, whatever it costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pu_geo.training.callbacks.MOST_TIME", math.inf)
        yield


@pytest.fixture(scope="module", params=NAMES)
def watched(request: pytest.FixtureRequest, always_evaluated: None) -> Watched:
    (data, truth), events, seen = made_up(), [], []  # type: ignore[var-annotated]

    def look(model: TrainedModel, report: Mapping[str, object]) -> Mapping[str, object]:
        assert not any(part.training for part in model.network.modules())
        seen.append(model.score(data.inputs.array))
        assert model.embed(data.inputs.array).shape[0] == len(seen[-1]) == 240
        return {"seen": len(seen), "of": report["epoch"]}

    model = fit(request.param, data, evaluate=look, report=events.append)
    return Watched(request.param, data, truth, model, events, seen)


def test_hidden_damage_is_found_by_scores_that_are_shares(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    views, model, hidden = watched.data.inputs.array, watched.model, watched.data.classes == -1
    whole = model.score(views)
    assert metrics.auc(whole[hidden], watched.truth[hidden]) > 0.8
    for inputs, n in ((views, 240), (views[0], 240), (views[:, :1], 1), (views[:, :0], 0)):
        embeddings, scores = model.embed(inputs), model.score(inputs)
        assert embeddings.dtype == scores.dtype == np.float32
        assert (len(embeddings), scores.shape) == (n, (n,))
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
        assert ((scores >= 0) & (scores <= 1)).all()
    with pytest.raises(ShapeError, match="16"):
        model.score(views[:, :, :5])
    monkeypatch.setattr("pu_geo.training.network.FEATURES_AT_ONCE", 17)
    np.testing.assert_allclose(model.score(views), whole, atol=1e-5)
    again = catalog.load_from_state(watched.name)(model.state(), short(watched.name), CPU)
    np.testing.assert_array_equal(model.score(views), again.score(views))
    np.testing.assert_array_equal(model.embed(views), again.embed(views))
    assert all(held.is_contiguous() for held in model.network.state_dict().values())


def test_every_epoch_is_reported_in_plain_numbers_and_evaluated(watched: Watched) -> None:
    events, seen = watched.events, watched.seen
    assert events
    for event in events:
        assert {"stage", "epoch", "epochs", "loss", "progress", "seconds", "chips_per_s"} <= set(event)
        assert 20 < event["memory_mb"] < 1_000_000
        assert all(type(value) in (int, float, str) for value in event.values())
        assert all(math.isfinite(value) for value in event.values() if isinstance(value, float))
    shares = [event["progress"] for event in events]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert all(event["of"] == event["epoch"] for event in events if "seen" in event)
    assert len(seen) == sum("seen" in event for event in events) == min(12, len(events)) or watched.name == "fedaws"
    np.testing.assert_allclose(seen[-1], watched.model.score(watched.data.inputs.array), atol=1e-6)


@pytest.mark.parametrize("killed_at", long_but([23], [7, 23]))
def test_killed_and_resumed_without_anybody_who_looks_it_ends_with_the_same_bits(
    watched: Watched, killed_at: int, tmp_path: Path
) -> None:
    """So the seed decides all, looks leave no trace, and no other random numbers are drawn or set."""
    torch.manual_seed(99)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    asked = [0]

    def kill() -> bool:
        asked[0] += 1
        return asked[0] == killed_at

    with contextlib.suppress(JobCancelled):  # a training shorter than this ends, and what is taken up is its end
        fit(watched.name, watched.data, is_cancelled=kill, checkpoints=Checkpoints(tmp_path, 0.0))
    again = fit(watched.name, watched.data, checkpoints=Checkpoints(tmp_path, 0.0))
    assert is_same(again.state(), watched.model.state())
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_many_chips_get_fewer_epochs_but_whole_ones(watched: Watched) -> None:
    if "max_steps" not in catalog.card(watched.name).settings.__dataclass_fields__:
        return
    few: list[Mapping[str, Any]] = []
    fit(watched.name, watched.data, settings=short(watched.name, max_steps=1), report=few.append)
    few, every = ([event for event in events if event["stage"] != "judging"] for events in (few, watched.events))
    assert 1 <= len(few) < len(every) == 12
    assert [event["epoch"] for event in few] == list(range(1, len(few) + 1))
    assert (few[-1]["epochs"], few[-1]["progress"]) == (len(few), pytest.approx(1))


@pytest.mark.parametrize("name", long_but(["propagation", "nnpu"]))
def test_scores_still_order_chips_where_damage_is_rare(name: str) -> None:
    data, truth = made_up(1, n=500, share=0.06)
    hidden = data.classes == -1
    scores = fit(name, data).score(data.inputs.array)[hidden]
    assert metrics.auc(scores, truth[hidden]) > (0.6 if catalog.card(name).group == "baseline" else 0.75)
    assert scores.std() > 1e-4


@every_method
def test_left_out_chips_teach_nothing_and_are_scored(name: str) -> None:
    data, settings = made_up(3)[0], short(name, epochs=3, rounds=3)
    left_out = np.isin(np.arange(240), [0, 1, 100, 239])
    spoiled = data.inputs.array.copy()
    spoiled[:, left_out] = 900
    data = replace(data, is_excluded=left_out)
    wild = replace(data, inputs=FeatureViews(spoiled))
    first, second = (fit(name, each, settings=settings).score(data.inputs.array) for each in (data, wild))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (240,)
    other = fit(name, data, seed=1, settings=settings).score(data.inputs.array)
    assert name in DRAWS_NOTHING or not np.array_equal(first, other), "another seed draws something else"


@every_method
def test_data_that_teach_nothing_are_refused(name: str) -> None:
    data, _ = made_up()
    everyone, nobody = np.ones(240, np.bool_), np.zeros(240, np.bool_)
    for positive in (nobody, everyone):
        with pytest.raises(TrainingError, match=r"none|all are damaged|all are positive|all 240|has \d+ and 0") as caught:
            fit(name, PUData(data.inputs, positive, nobody))
        assert caught.value.hint
    if name in ("pucl", "ncl", "herocon"):  # they compare views
        with pytest.raises(TrainingError, match="have 1"):
            fit(name, replace(data, inputs=FeatureViews(data.inputs.array[:1])))
    data.inputs.array[:, np.flatnonzero(data.is_positive)] = np.nan
    with pytest.raises(TrainingError):
        fit(name, data)


@every_method
def test_cancelling_stops_within_a_batch(name: str) -> None:
    asked: list[int] = []
    with pytest.raises(JobCancelled):
        fit(name, made_up()[0], is_cancelled=lambda: asked.append(1) or True)  # type: ignore[func-returns-value]
    assert len(asked) == 1


@every_method
@pytest.mark.parametrize("n", [8, 65])
def test_odd_sizes_train(name: str, n: int) -> None:
    data, _ = made_up(7, n=65, share=0.5)
    known = np.full(n, -1)
    known[:3], known[-3:] = [1, 2, 1], 0
    few = PUData(FeatureViews(data.inputs.array[:2, :n]), known >= 1, np.zeros(n, np.bool_), known, data.class_names)
    settings = short(name, epochs=2, rounds=2)
    assert np.isfinite(fit(name, few, settings=settings).score(few.inputs.array)).all()


@pytest.mark.parametrize("name", ["ncpu", "pucl", "herocon", "fedaws", "ce"])
def test_a_piece_of_a_batch_counts_by_its_share(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_piece_of_no_share(_: MicroBatcher, n: int, begin: Callable[[], None], work: Callable[..., Any]) -> Any:
        begin()
        return [work(slice(0, n), 1.0), work(slice(0, n // 2), 0.0)]

    data, found = made_up()[0], []
    settings = short(name, epochs=1, rounds=1, local_steps=1, batch_size=240, lr=0.05)
    for _ in range(2):
        told: list[Mapping[str, Any]] = []
        state = fit(name, data, settings=settings, report=told.append).state()
        found.append(({key: value for key, value in state.items() if "running" not in key and "num_" not in key}, told))
        monkeypatch.setattr(MicroBatcher, "each", with_a_piece_of_no_share)
    (plain, told), (cut, told_of_cut) = found
    assert is_same(plain, cut)
    assert name == "ncpu" or told[-1]["loss"] == pytest.approx(told_of_cut[-1]["loss"])  # it reports the mean of its pieces


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the numbers with a fraction in nested values."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for one in inner for tensor in tensors_in(one)]


@pytest.mark.slow
@pytest.mark.parametrize("name", long_but(["ncl", "herocon", "nnpu+noisncl"], FROM_CHIPS))
def test_trains_from_the_chips_in_bf16_and_looks_leave_no_trace(name: str, tmp_path: Path) -> None:
    data, seen = made_up_chips(), []  # type: ignore[var-annotated]

    def look(model: TrainedModel, _: Mapping[str, object]) -> Mapping[str, object]:
        seen.append((model.score(data.inputs.array[:9]), model.embed(data.inputs.plain_array[3:7])))
        return {}

    settings = short(name, backbone="small", epochs=2, rounds=3, batch_size=16, pretrain_epochs=1, precision="bf16")
    kept = Checkpoints(tmp_path, 0.0)
    model, looked_at = (fit(name, data, settings=settings, **run) for run in ({}, {"evaluate": look, "checkpoints": kept}))
    assert seen
    assert is_same(looked_at.state(), model.state())
    numbers = tensors_in([model.state(), (kept.newest("training") or (0, {}))[1]])
    assert {tensor.dtype for tensor in numbers} == {torch.float32}, "nothing but the backbone's maps is less precise"
    assert model.embed(data.inputs.array).shape[0] == 48
    assert np.isfinite(model.score(data.inputs.array)).all()
    again = catalog.load_from_state(name)(model.state(), settings, CPU)
    np.testing.assert_array_equal(again.score(data.inputs.array), model.score(data.inputs.array))


@every_method
def test_card_and_presets_are_whole(name: str) -> None:
    card = catalog.card(name)
    assert card.name == name
    assert all(len(text.strip()) >= 3 for text in (card.title, card.paper, card.summary, card.needs, card.cannot))
    assert "quick" in card.presets
    assert all(asdict(catalog.settings_for(name, preset)) for preset in card.presets)
    assert all(item.metadata.get("help") for item in fields(card.settings))


@pytest.mark.ci
@pytest.mark.slow
def test_bf16_ranks_as_float32_does() -> None:
    """The middle of three seeds: a single training can tip over an edge by rounding alone, on any processor."""
    chips = np.random.default_rng(0).integers(60, 120, (192, 3, 16, 16)).astype(np.uint8)
    chips[:, :, :8, :8] += (120 * np.arange(192) / 192).round().astype(np.uint8)[:, None, None, None]  # a growing patch
    known = np.full(192, -1)
    known[-48::2], known[:48:2] = 1, 0
    data = PUData(ChipImages(chips), known >= 1, np.zeros(192, np.bool_), known)

    def scores(precision: str, seed: int) -> NDArray[np.float32]:
        settings = short("ce", backbone="small", precision=precision, epochs=6, max_steps=60, batch_size=48)
        return fit("ce", data, seed, settings).score(chips)

    exact, fast = ([scores(precision, seed) for seed in range(3)] for precision in ("float32", "bf16"))
    assert not any(map(np.array_equal, exact, fast))  # else nothing was done in bfloat16
    assert float(np.median([spearman(one, two) for one, two in zip(exact, fast, strict=True)])) > 0.98


# Figures that cards and docs show are those that were kept


@pytest.mark.parametrize("method", measured.MEASURED)
def test_figures_of_a_card_are_means_of_the_outcomes(method: str) -> None:
    for (file, setting, _), figures in zip(measured.EVENTS, measured.MEASURED[method], strict=True):
        own = [each for each in tables.outcomes_of(file) if (each.method, each.setting) == (method, setting)]
        assert figures == (round(float(np.mean([e.auc for e in own])), 2), round(float(np.mean([e.ap for e in own])), 2))


# Whoever cancels is heard wherever a training is: the work between two questions is counted

N_VIEWS = 5
MOST: Mapping[tuple[Any, str], int] = {
    (FeatureViews, "draw"): 2,  # what statistics are fitted to, and a batch
    (FeatureExtractor, "forward"): N_VIEWS + 3,  # the last block of an evaluation, and a batch
    (pupl, "_sides"): 2,  # one pass over all chips; another one where a clustering begins
    (pupl, "k_means"): 1, (discovery, "k_means"): 1, (discovery, "silhouette"): 1, (consensus_clusters, "k_means"): 1,
    (NeighborGraph, "weights"): 2, (two_readings, "label_propagation"): 1, (propagation, "plain_and_roots"): 1,
}  # fmt: skip
"""What takes long on many chips -> how often it is done between two questions, at most."""


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is done since the counts were cleared; blocks are small, so that there are several."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            counts[name] += 1
            return function(*args, **more)

        return call

    for owner, name in MOST:
        monkeypatch.setattr(owner, name, counted(f"{owner.__name__}.{name}", getattr(owner, name)))
    for module in (linear, sys.modules[TrainedModel.__module__]):
        monkeypatch.setattr(module, "FEATURES_AT_ONCE", 50)
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_little_is_done_between_two_questions(name: str, between: Counter[str]) -> None:
    """As the task trains: with evaluations, and all chips are scored in the end."""
    largest: Counter[str] = Counter()
    data, settings = made_up()[0], short(name, epochs=3, rounds=3, width=8, pretrain_epochs=1)

    def is_cancelled() -> bool:
        largest.update(between - largest)
        between.clear()
        return False

    def look(model: TrainedModel, _: Mapping[str, object]) -> Mapping[str, object]:
        model.score(data.inputs.array)
        return {}

    model = fit(name, data, settings=settings, is_cancelled=is_cancelled, evaluate=look)
    replace(model, check=Run(CPU, is_cancelled=is_cancelled).stop_if_cancelled).score(data.inputs.array)
    is_cancelled()
    bounds = {f"{owner.__name__}.{what}": most for (owner, what), most in MOST.items()}
    assert largest
    assert {what: n for what, n in largest.items() if n > bounds[what]} == {}
