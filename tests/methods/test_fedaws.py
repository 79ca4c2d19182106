"""FedAwS: one round against a loop of Algorithm 1, what a client may see, collapse, and Table 1's pattern."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from method_parts import CPU, KINDS, fitter, is_same, made_up, made_up_chips
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.analysis import metrics
from pu_geo.methods import fedaws
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.methods.fedaws import Client, ClientUpdate, Embedder, Learner, client_update, server_round
from pu_geo.methods.fitting import types_of
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.heads import linear
from pu_geo.training.loop import Epoch, MicroBatcher, Training
from pu_geo.training.network import FeatureExtractor
from pu_geo.training.run import Run

SHORT = FedawsSettings(rounds=20, width=32, embedding_dim=16)
fit = fitter(fedaws.fit, SHORT)
ONE_STEP = FedawsSettings(width=0, embedding_dim=3, local_steps=1, batch_size=64, weight_decay=0)
FROM_CHIPS = FedawsSettings(backbone="small", rounds=2, local_steps=2, batch_size=8, embedding_dim=8)


def chip_scene(n: int = 24) -> PUData:
    """Return `made_up_chips`, of which a third is damaged, and nobody called any undamaged."""
    data = made_up_chips(2 * n)
    known = np.where(np.arange(n) < max(n // 3, 2), 1 + np.arange(n) % 2, -1)
    return PUData(
        ChipImages(data.inputs.array[n - n // 3 : 2 * n - n // 3]), known >= 1, np.zeros(n, np.bool_), known, KINDS
    )


def near(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.allclose(first[name], second[name], rtol=0, atol=1e-6) for name in first)


def linear_embedder(seed: int = 0, n_in: int = 4, n_out: int = 3) -> Embedder:
    generator = torch.Generator().manual_seed(seed)
    return Embedder(FeatureExtractor((n_in,), "features", 0, generator), linear(n_in, n_out, generator))


def linear_clients(counts: tuple[int, ...], n_in: int = 4, pieces: MicroBatcher | None = None) -> list[Client]:
    chips = np.random.default_rng(1).normal(size=(1, sum(counts), n_in)).astype(np.float32)
    parts = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    embedder, pieces = linear_embedder(n_in=n_in), pieces or MicroBatcher(Run(CPU))
    return [Client(FeatureViews(chips), rows, embedder, pieces) for rows in parts]


def unit_rows(n: int, d: int = 3, seed: int = 2) -> Tensor:
    return nn.functional.normalize(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)), dim=1)


def learner_of(clients: list[Client]) -> Learner:
    return Learner(fedaws.theta_of(clients[0].embedder), unit_rows(len(clients)))


def updates_of(learner: Learner, clients: list[Client], settings: FedawsSettings = ONE_STEP) -> dict[int, ClientUpdate]:
    generators = [torch.Generator().manual_seed(number) for number in range(len(clients))]
    return {
        number: client_update(client, learner.theta, learner.class_vectors[number], settings, generator, lambda _: None)
        for number, (client, generator) in enumerate(zip(clients, generators, strict=True))
    }


def cosine_gradient(u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    slope: NDArray[np.float64] = (v / np.linalg.norm(v) - cosine * u / np.linalg.norm(u)) / np.linalg.norm(u)
    return slope


def round_by_loop(
    weight: NDArray[np.float64], bias: NDArray[np.float64], rows: NDArray[np.float64], chips: list[NDArray[np.float64]],
    *, lr: float, spread_weight: float, margin: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Algorithm 1, lines 4 to 14, for g(x) = A x + b, Eq. 23 and Eq. 7; then unit rows. Returns A, b and W."""
    weights, biases, own = [], [], []
    for number, part in enumerate(chips):
        by_weight, by_bias, by_own = np.zeros_like(weight), np.zeros_like(bias), np.zeros(rows.shape[1])
        for x in part:
            g = weight @ x + bias
            cosine = g @ rows[number] / np.linalg.norm(g) / np.linalg.norm(rows[number])
            slope = -2 * max(0.0, 0.9 - cosine) / len(part)
            by_weight += slope * np.outer(cosine_gradient(g, rows[number]), x)
            by_bias += slope * cosine_gradient(g, rows[number])
            by_own += slope * cosine_gradient(rows[number], g)
        weights.append(weight - lr * by_weight)
        biases.append(bias - lr * by_bias)
        own.append(rows[number] - lr * by_own)
    moved = []
    for c, row in enumerate(own):
        push = np.zeros_like(row)
        for other in own[:c] + own[c + 1 :]:
            cosine = row @ other / np.linalg.norm(row) / np.linalg.norm(other)
            push += 2 * 2 * max(0.0, margin - (1 - cosine)) * cosine_gradient(row, other)  # each pair counts twice
        moved.append(row - spread_weight * lr * push)
    unit = [row / np.linalg.norm(row) for row in moved]
    return sum(weights) / len(chips), sum(biases) / len(chips), np.stack(unit)  # type: ignore[return-value]


def test_one_round_equals_a_loop_of_algorithm_1() -> None:
    clients = linear_clients((1, 2, 5))
    learner = learner_of(clients)
    settings = replace(ONE_STEP, lr=0.3, spread_weight=0.4, spread_margin=1.3)
    after = server_round(learner, updates_of(learner, clients, settings), settings)
    theta, vectors = after.theta, after.class_vectors
    chips = [client.inputs.plain_array[client.rows].astype(np.float64) for client in clients]
    before = [learner.theta[name].double().numpy() for name in ("head.weight", "head.bias")]
    vectors_before = learner.class_vectors.double().numpy()
    weight, bias, rows = round_by_loop(*before, vectors_before, chips, lr=0.3, spread_weight=0.4, margin=1.3)
    np.testing.assert_allclose(theta["head.weight"], weight, atol=1e-5)
    np.testing.assert_allclose(theta["head.bias"], bias, atol=1e-5)
    np.testing.assert_allclose(vectors, rows, atol=1e-5)
    assert float((theta["head.weight"] - learner.theta["head.weight"]).abs().max()) > 0.01


def test_local_steps_add_up_and_pieces_of_a_batch_make_the_same_step() -> None:
    clients = linear_clients((7,))
    learner = learner_of(clients)
    once = updates_of(learner, clients)[0]
    twice = updates_of(Learner(once.theta, once.own_vector[None]), clients)[0]
    both = updates_of(learner, clients, replace(ONE_STEP, local_steps=2))[0]
    pieces = MicroBatcher(Run(CPU))
    pieces.n = 3
    cut = updates_of(learner, linear_clients((7,), pieces=pieces))[0]
    for found, expected in ((both, twice), (cut, once)):
        assert near(found.theta, expected.theta)
        torch.testing.assert_close(found.own_vector, expected.own_vector, rtol=0, atol=1e-6)
    decayed = updates_of(learner, clients, replace(ONE_STEP, weight_decay=0.5))[0]
    pull = ONE_STEP.lr * 0.5
    for name in ("head.weight", "head.bias"):
        torch.testing.assert_close(decayed.theta[name], once.theta[name] - pull * learner.theta[name], rtol=0, atol=1e-6)
    assert torch.equal(once.own_vector, decayed.own_vector), "weight decay pulls weights but not the class vector"


def test_a_client_never_sees_another_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: set[int] = set()
    clients = linear_clients((3, 4, 5))
    learner, kept = learner_of(clients), fedaws.client_update

    def spy(client, theta, own_vector, settings, generator, told):  # type: ignore[no-untyped-def]
        seeds.add(generator.initial_seed())
        assert own_vector.untyped_storage().nbytes() == 4 * 3  # a view would send all of W along
        assert theta.keys() == learner.theta.keys()
        return kept(client, theta, own_vector, settings, generator, told)

    monkeypatch.setattr(fedaws, "client_update", spy)
    fedaws._round(learner, clients, ONE_STEP, Epoch(Training(Run(CPU), learner, 1), 1))
    assert len(seeds) == 3


@pytest.mark.parametrize(("weighting", "expected"), [("equal", 2.0), ("chips", 2.5)])
def test_average_counts_clients_alike_or_by_chips(weighting: str, expected: float) -> None:
    # 1 chip says 1, 3 chips say 3: (1 + 3) / 2 = 2, or (1 * 1 + 3 * 3) / 4 = 2.5.
    theta, rows = {"a": torch.zeros(2), "n": torch.tensor(7)}, unit_rows(2)
    count = torch.tensor(8)
    updates = {c: ClientUpdate({"a": torch.full((2,), float(n)), "n": count}, rows[c], n) for c, n in ((0, 1), (1, 3))}
    mean = server_round(Learner(theta, rows), updates, replace(SHORT, weighting=weighting)).theta
    torch.testing.assert_close(mean["a"], torch.full((2,), expected))
    assert torch.equal(mean["n"], theta["n"])


def test_server_momentum_repeats_part_of_each_move_of_theta_alone() -> None:
    clients = linear_clients((1, 2, 5))
    plain = learner_of(clients)
    settings = replace(ONE_STEP, lr=0.3, server_momentum=0.8)
    learner, theta, velocity, rows = plain, plain.theta, dict.fromkeys(plain.theta, 0.0), plain.class_vectors
    for _ in range(3):
        updates = updates_of(learner, clients, settings)
        without = server_round(Learner(theta, rows), updates, replace(settings, server_momentum=0))
        before, learner = theta, server_round(learner, updates, settings)
        velocity = {name: 0.8 * velocity[name] + (without.theta[name] - before[name]) for name in velocity}
        theta, rows = {name: before[name] + velocity[name] for name in before}, without.class_vectors
        for name in ("head.weight", "head.bias"):
            torch.testing.assert_close(learner.theta[name], theta[name], rtol=0, atol=1e-6)
        assert torch.equal(learner.class_vectors, rows)
        theta = learner.theta
    assert float((learner.theta["head.weight"] - without.theta["head.weight"]).abs().max()) > 0.01


def test_order_clients_without_chips_and_rounds_without_anybody_do_not_matter() -> None:
    clients = linear_clients((3, 0, 5, 2))
    learner = learner_of(clients)
    updates = updates_of(learner, clients)
    assert updates[1].n_chips == 0
    assert is_same(updates[1].theta, learner.theta)
    assert torch.equal(updates[1].own_vector, learner.class_vectors[1])
    orders = ((0, 1, 2, 3), (2, 0, 3, 1), (0, 2, 3), (), (1,))
    learner.velocity = {name: torch.ones_like(each) for name, each in learner.theta.items()}
    settings = replace(ONE_STEP, server_momentum=0.5)
    rounds = [server_round(learner, {c: updates[c] for c in each}, settings) for each in orders]
    for found, expected in ((rounds[1], rounds[0]), (rounds[2], rounds[0]), (rounds[3], learner), (rounds[4], rounds[3])):
        assert is_same(found.theta, expected.theta)
        assert is_same(found.velocity, expected.velocity)
        assert torch.equal(found.class_vectors, expected.class_vectors)
    # A class without its client keeps its row, but for the spreadout.
    after = server_round(learner, {0: updates[0], 2: updates[2]}, replace(ONE_STEP, spread_weight=0.0))
    torch.testing.assert_close(after.class_vectors[3], learner.class_vectors[3], rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2])
def test_each_class_is_pushed_from_as_many_neighbors_as_asked_for(k: int) -> None:
    rows = nn.functional.normalize(torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.0, 1.0, 1.0]]), dim=1)
    updates = {c: ClientUpdate({}, rows[c], 1) for c in range(3)}
    settings = replace(ONE_STEP, spread="nearest", n_nearest=k, spread_weight=0.3, lr=0.2)
    found = server_round(Learner({}, rows), updates, settings).class_vectors
    # Minus the squared distance, as seen from c and, if c is near to it too, from the other: 2 (w_c - w_o) each time.
    near = torch.zeros(3, 3).scatter(1, torch.cdist(rows, rows).fill_diagonal_(9).argsort(1)[:, :k], 1.0)
    push = (2 * (near + near.T)[:, :, None] * (rows[:, None] - rows[None])).sum(1)
    torch.testing.assert_close(found, nn.functional.normalize(rows + 0.3 * 0.2 * push, dim=1), rtol=0, atol=1e-5)


def test_fixed_vectors_do_not_move() -> None:
    data, _ = made_up()
    first = fedaws._start(data, np.flatnonzero(~data.is_positive), 3, SHORT, Run(CPU))[1]
    fixed, free = (fit(data, replace(SHORT, fixed_vectors=each)).network.class_vectors for each in (True, False))
    torch.testing.assert_close(fixed, first, rtol=0, atol=1e-5)
    assert float((free - first).abs().max()) > 0.1


@pytest.mark.parametrize("changes", [{"width": 0}, {"spread": "nearest", "enough": 1.0, "temperature": 0.2}], ids=str)
def test_hidden_damage_and_its_kinds_are_found_by_a_softmax_over_cosines(changes: dict[str, Any]) -> None:
    data, truth = made_up()
    settings, told = replace(SHORT, **changes), []  # type: ignore[var-annotated]
    model = fit(data, settings, report=told.append)
    scores, hidden = model.score(data.inputs.array), data.classes == -1
    assert metrics.auc(scores[hidden], truth[hidden]) > 0.85
    assert all(-1 <= event["class_cosine"] <= 1 and 0 <= event["loss"] <= 1.9**2 for event in told)
    state, embeddings = model.state(), model.embed(data.inputs.plain_array)
    shares = np.exp(embeddings @ state["class_vectors"].numpy().T / settings.temperature)
    shares /= shares.sum(1, keepdims=True)
    types = model.type_scores(data.inputs.plain_array)
    np.testing.assert_allclose(model.score(data.inputs.plain_array), shares[:, 1:].sum(1), atol=1e-4)
    np.testing.assert_allclose(types, shares[:, 1:], atol=1e-4)
    assert types_of(model) == ("roof", "wall")
    assert (types.argmax(1)[hidden & truth] == np.flatnonzero(hidden & truth) % 2).mean() > 0.75


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, (1, 2)),
        ({"class_names": ("not damaged", "damaged", "wall")}, (2,)),  # damage without a named type is no type
        ({"type_names": ("at least minor", "at least major"), "is_ordinal": True}, ()),  # nor are grades of a scale
    ],
)
def test_types_are_named_kinds_and_come_back_from_a_state(changes: dict[str, Any], kinds: tuple[int, ...]) -> None:
    data, _ = made_up()
    if "type_names" in changes:
        changes = {**changes, "type_labels": np.where(data.is_positive[:, None], [1, 0], -1).astype(np.int8)}
    data, settings = replace(data, **changes), replace(SHORT, rounds=1)
    model, inputs = fit(data, settings), data.inputs.plain_array
    assert types_of(model) == tuple(data.class_names[kind] for kind in kinds)
    state = model.state()
    older = {name: tensor for name, tensor in state.items() if name != "kinds"}  # judges no types
    found = fedaws.from_state(older, settings, CPU)
    assert found.n_types == 0
    np.testing.assert_array_equal(found.score(inputs), model.score(inputs))
    if kinds:
        types = model.type_scores(inputs)
        assert types.shape == (240, len(kinds))
        np.testing.assert_array_equal(fedaws.from_state(state, settings, CPU).type_scores(inputs), types)
    for odd in ([0], [3], [-1], [[1, 2]]):
        with pytest.raises(ValueError, match="are not among 3 classes"):
            fedaws.from_state({**state, "kinds": torch.tensor(odd)}, settings, CPU)


@pytest.mark.slow
def test_positives_alone_collapse_and_spreadout_prevents_it() -> None:
    draw, known = np.random.default_rng(0), np.arange(100) % 5  # five overlapping clouds; nothing is unlabeled
    chips = (3 * np.eye(5, 16)[known] + draw.normal(size=(100, 16))).astype(np.float32)
    data = PUData(FeatureViews(chips[None]), known >= 1, np.zeros(100, np.bool_), known, tuple("abcde"))
    settings = FedawsSettings(
        rounds=120, local_steps=1, lr=1.0, batch_size=128, weight_decay=1e-3, width=32, embedding_dim=16, enough=1.0
    )
    runs = [Run(CPU), Run(CPU)]
    alone, spread = (
        fedaws.fit(data, replace(settings, spread_weight=weight), run).network.class_vectors
        for weight, run in zip((0.0, 0.1), runs, strict=True)
    )
    assert float((alone @ alone.T).min()) > 0.9
    assert fedaws.largest_cosine(alone) > 0.95
    assert fedaws.largest_cosine(spread) < 0.2
    assert "spread_weight" in runs[0].warnings[0]
    assert not runs[1].warnings


@pytest.mark.slow
@pytest.mark.parametrize("pretrain_epochs", [0, 1])
def test_trains_from_the_chips_and_leaves_batch_statistics_alone(pretrain_epochs: int) -> None:
    data, settings = chip_scene(), replace(FROM_CHIPS, pretrain_epochs=pretrain_epochs)
    rest = np.flatnonzero(~data.is_positive)
    first = fedaws._start(data, rest, 3, settings, Run(CPU))[0].state_dict()
    model = fit(data, settings)
    last = model.state()
    still = [name for name in first if "running" in name or "num_batches" in name or "standardize" in name]
    assert len(still) == 4 * 3 + 2
    assert is_same({name: last[name] for name in still}, {name: first[name] for name in still})
    assert not torch.equal(last["trunk.backbone.conv1.weight"], first["trunk.backbone.conv1.weight"])
    spoiled = data.inputs.array.copy()
    spoiled[data.is_positive] = 255
    other = fedaws._start(replace(data, inputs=ChipImages(spoiled)), rest, 3, settings, Run(CPU))[0].state_dict()
    assert is_same(other, first), "theta of the first round knows nothing of the positives"
    if not pretrain_epochs:
        single = chip_scene(n=3)
        assert np.isfinite(fit(single, settings).score(single.inputs.array)).all(), "a single chip of each class trains"


@pytest.mark.parametrize(("n", "sizes"), [(1, [2, 2, 2]), (3, [3, 3, 3]), (5, [4, 4, 4]), (40, [4, 4, 4])])
def test_each_step_gets_its_batch_however_few_the_chips(n: int, sizes: list[int]) -> None:
    settings = replace(SHORT, batch_size=4, local_steps=3)
    found = fedaws._client_batches(n, settings, torch.Generator().manual_seed(0))
    assert [len(part) for part in found] == sizes
    assert set(np.concatenate(found).tolist()) <= set(range(n))
    assert len(set(np.concatenate(found).tolist())) == min(n, 12)
