"""The baselines: what they do beyond the contract of every method (test_contract.py)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from method_parts import CPU, is_same
from numpy.typing import NDArray
from torch import Tensor, nn

from pu_geo.analysis import ranker
from pu_geo.errors import TrainingError
from pu_geo.losses import pu_risk
from pu_geo.methods import baselines, catalog, linear
from pu_geo.methods.cards import baselines as cards
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

BRIEF = {"epochs": 4, "batch_size": 64, "lr": 0.01}
PAIRS = {"width": 16, "projection_hidden": 16, "prediction_hidden": 16, "embedding_dim": 8}


def made_data(seed: int = 0, n: int = 200, share: float = 0.4, clicks: int = 20) -> tuple[PUData, NDArray[np.bool_]]:
    """Four noisy views of chips with 12 features, of which three know about damage; some clicked, a few called undamaged."""
    draw = np.random.default_rng(seed)
    truth = np.arange(n) < round(share * n)
    chips = draw.normal(size=(n, 12))
    chips[:, :3] += np.where(truth, 2.0, -2.0)[:, None]
    views = (chips + 0.3 * draw.normal(size=(4, n, 12))).astype(np.float16)
    known = np.full(n, -1, dtype=np.int64)
    known[draw.choice(np.flatnonzero(truth), clicks, replace=False)] = 1
    known[draw.choice(np.flatnonzero(~truth), 10, replace=False)] = 0
    return PUData(FeatureViews(views), known == 1, np.zeros(n, np.bool_), known), truth


def brief(name: str, **others: object) -> cards.BatchSettings:
    settings = catalog.card(name).settings
    return settings(**{**BRIEF, **(PAIRS if issubclass(settings, cards.PairSettings) else {}), **others})  # type: ignore[no-any-return]


def with_views(data: PUData, views: NDArray[np.floating]) -> PUData:
    return replace(data, inputs=FeatureViews(views))


def parts_of(data: PUData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.flatnonzero(data.is_positive), np.flatnonzero(~data.is_positive)


@pytest.mark.parametrize("n_positive", [1, 3, 40])
def test_every_batch_holds_positives_and_every_other_chip_comes_once(n_positive: int) -> None:
    groups = baselines.Groups(100 + np.arange(n_positive), np.arange(50))
    dealt = list(baselines.mixed_batches(groups, 6, 10, torch.Generator().manual_seed(0)))
    assert len(dealt) == 5
    assert sorted(np.concatenate([rows[rows < 100] for rows in dealt])) == list(range(50))
    assert all((rows >= 100).sum() == 6 for rows in dealt)
    assert all(abs((rows[:8] >= 100).sum() - 3) <= 1 for rows in dealt), "so that each piece of a batch holds some"
    times = np.bincount(np.concatenate([rows[rows >= 100] for rows in dealt]) - 100, minlength=n_positive)
    assert times.sum() == 30
    assert times.max() - times.min() <= 1


def test_cross_entropy_by_hand_and_of_one_group_alone() -> None:
    # positive: log(1 + e^0) = .6931 (twice); others: log(1 + e^1) = 1.3133 and log(1 + e^-1) = .3133, mean .8133
    margin, positive = torch.tensor([0.0, 1.0, 0.0, -1.0]), torch.tensor([True, False, True, False])
    assert float(baselines.cross_entropy(margin, positive, 0.5)) == pytest.approx(0.5 * (0.6931 + 0.8133), abs=1e-4)
    assert float(baselines.cross_entropy(margin, positive, 0.2)) == pytest.approx(0.2 * 0.6931 + 0.8 * 0.8133, abs=1e-4)
    for is_positive in (True, False):
        loss = baselines.cross_entropy(torch.tensor([300.0, -300.0, 0.0]), torch.full((3,), is_positive), 0.5)
        assert float(loss) == pytest.approx(0.5 * (300 + math.log(2)) / 3)


def test_learning_rate_falls_to_zero_and_long_gradients_are_cut() -> None:
    data, _ = made_data()
    settings = cards.CrossEntropySettings(lr=0.1, grad_clip=1e-3, weight_decay=0)
    learner, pieces = new_learner(data, settings), MicroBatcher(Run(CPU))
    (views, positive), rates = drawn_views(data), []
    for _ in range(4):
        rates.append(learner.optimizer.param_groups[0]["lr"])
        baselines._step(learner, pieces, views[:1], positive, settings)
    assert rates == pytest.approx([0.1, 0.1 * (1 + math.sqrt(0.5)) / 2, 0.05, 0.1 * (1 - math.sqrt(0.5)) / 2])
    assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(0)
    # the first step is lr * grad_clip long, and momentum makes four steps at most 1 + 1.9 + 2.71 + 3.44 such
    assert 1e-4 < float(learner.network.classifier.weight.detach().norm()) < 9.05e-4


def new_learner(data: PUData, settings: cards.BatchSettings) -> baselines.Learner:
    groups = baselines.Groups(*parts_of(data))
    trunk = linear.new_extractor(data, data.trained_rows, settings, Run(CPU))
    return baselines._new_learner(data, groups, trunk, settings, Run(CPU), 4)


def test_unbalanced_cross_entropy_weighs_chips_by_their_share() -> None:
    # 20 of 200 chips are positive, so an undecided chip scores about .1; balanced, about .5
    data, _ = made_data()
    noise = np.random.default_rng(5).normal(size=(2, 200, 3)).astype(np.float16)
    settings = cards.CrossEntropySettings(epochs=30, batch_size=64, lr=0.1, weight_decay=0)
    for balanced, middle in ((True, 0.5), (False, 0.1)):
        model = baselines.fit(with_views(data, noise), replace(settings, balanced=balanced), Run(CPU))
        assert float(np.median(model.score(noise))) == pytest.approx(middle, abs=0.07)


@pytest.mark.parametrize("surrogate", ["sigmoid", "logistic"])
def test_each_method_uses_its_own_risk(surrogate: pu_risk.Surrogate) -> None:
    # confident about the positives, so that the undamaged part is below 0 and all three risks differ
    margin, positive = torch.tensor([3.0, -3.0, -2.0, -4.0], requires_grad=True), torch.tensor([True, False, False, False])
    upu = pu_risk.upu_risk(margin, positive, class_prior=0.4, surrogate=surrogate)
    clipped = pu_risk.nnpu_risk_clipped(margin, positive, class_prior=0.4, surrogate=surrogate)
    undone = pu_risk.nnpu_risk(margin, positive, class_prior=0.4, surrogate=surrogate, beta=0.1, gamma=0.5)
    assert float(upu.detach()) < 0 < float(clipped.detach())
    for settings, reported, differentiated in (
        (cards.UpuSettings(surrogate=surrogate), upu, upu),
        (cards.NnpuSettings(surrogate=surrogate, when_negative="clip"), clipped, clipped),
        (cards.NnpuSettings(surrogate=surrogate, beta=0.1, gamma=0.5), *undone),
    ):
        found = baselines._risk(margin, positive, 0.4, settings)
        torch.testing.assert_close(found, (reported.detach(), differentiated))
        assert (found[0].requires_grad, found[1].requires_grad) == (False, True)


def linear_network(data: PUData, settings: cards.BatchSettings | None = None) -> baselines.BaselineNetwork:
    """A fresh network on features that are standardised already."""
    settings = settings or cards.UpuSettings()
    trunk = linear.new_extractor(data, data.trained_rows, settings, Run(CPU))
    trunk.standardize.mean.zero_()
    trunk.standardize.scale.fill_(1)
    return baselines._new_network(trunk, settings, torch.Generator().manual_seed(0))


def learner_of(network: baselines.BaselineNetwork, weight: float, target: nn.Module | None = None) -> baselines.Learner:
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    return baselines.Learner(network, target or nn.Module(), optimizer, schedule, weight)


@pytest.mark.parametrize(("share", "called"), [(1e-9, 1), (0.1, 18), (1.0, 180)])
def test_the_boundary_takes_the_share_as_given(share: float, called: int) -> None:
    # in a risk a class prior of 1e-9 counts as .05 and one of 1 as .9, but not for how many are called damaged
    data, _ = made_data()
    model = baselines.fit(data, brief("nnpu", class_prior=share), Run(CPU))
    assert (model.score(data.inputs.array)[~data.is_positive] >= 0.5).sum() == called


@pytest.mark.parametrize("length", [0.01, 1e3])
def test_the_boundary_keeps_the_order_and_no_score_is_lost_in_rounding(length: float) -> None:
    data, _ = made_data()
    network, settings = linear_network(data), cards.UpuSettings(class_prior=0.3)
    nn.init.normal_(network.classifier.weight, std=length, generator=torch.Generator().manual_seed(1))
    learner, unlabeled = learner_of(network, 0.3), parts_of(data)[1]
    model = TrainedModel(network, network.trunk)
    order = np.argsort(model.margins(data.inputs.array))
    baselines.set_boundary(learner, data, unlabeled, settings, Run(CPU))
    scores = model.score(data.inputs.array)
    assert (scores[~data.is_positive] >= 0.5).sum() == 54
    np.testing.assert_array_equal(np.argsort(scores), order)
    assert len(np.unique(scores)) == 200
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    baselines.set_boundary(learner, data, unlabeled[:40], cards.CrossEntropySettings(), Run(CPU))
    assert is_same(network.state_dict(), before), "cross entropy has no boundary to set"


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_guessed_class_prior_is_bounded_and_named_to_nobody(share: float) -> None:
    data, truth = made_data(2, n=500, share=share, clicks=30)
    run = Run(CPU)
    used = baselines.fit(data, brief("upu"), run).findings["class_prior"]
    assert used == pytest.approx(min(truth[~data.is_positive].mean(), 0.35), abs=0.08)
    assert 0.05 <= used <= 0.35
    (told,) = run.warnings
    assert "guessed" in told
    assert not any(letter.isdigit() for letter in told)


@pytest.mark.parametrize(("given", "used"), [(0.37, 0.37), (0.001, 0.05), (1.0, 0.9)])
def test_class_prior_that_is_set_is_used_and_one_near_its_ends_is_moved_with_a_warning(given: float, used: float) -> None:
    run = Run(CPU)
    data, _ = made_data(clicks=1)
    assert baselines.fit(data, brief("upu", class_prior=given), run).findings == {"class_prior": used}
    assert len(run.warnings) == (given != used)
    assert all(str(used) in words and f"{given:.3g}" in words for words in run.warnings)
    with pytest.raises(TrainingError, match="2 damaged buildings"):  # nothing to guess it from
        baselines.fit(data, brief("upu"), Run(CPU))


def test_estimate_of_the_class_prior_holds_chips_out() -> None:
    # noise alone in as many columns as chips: a fit that saw a chip would know it, and the estimate would be near 0
    data, _ = made_data(n=100, clicks=20)
    noise = with_views(data, np.random.default_rng(0).normal(size=(1, 100, 120)).astype(np.float32))
    trunk = linear.new_extractor(noise, noise.trained_rows, cards.UpuSettings(), Run(CPU))
    assert linear.estimated_class_prior(noise, *parts_of(data), trunk, Run(CPU)) > 0.5


def pair_parts(settings: cards.PairSettings) -> tuple[PUData, baselines.PairNetwork, baselines.Learner]:
    data, _ = made_data()
    network = linear_network(data, settings)
    nn.init.normal_(network.classifier.weight, generator=torch.Generator().manual_seed(1))
    return data, network, learner_of(network, 0.4, baselines.ema_copy(network.encoder))


def drawn_views(data: PUData, n: int = 12) -> tuple[list[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(3)
    return data.inputs.draw(np.arange(n), ("weak", "strong", "strong"), draw, CPU), torch.from_numpy(data.is_positive[:n])


@pytest.mark.parametrize("agreement", [0.2, 0.8])
def test_loss_is_the_risk_and_the_weighed_noisy_pair_loss(agreement: float) -> None:
    settings = cards.UpuPairSettings(rep_weight=7.0, agreement=agreement, **PAIRS)
    data, network, learner = pair_parts(settings)
    views, positive = drawn_views(data)
    values = baselines._losses(learner, views, positive, settings)

    with torch.no_grad():
        share = torch.sigmoid(network.margin(views[0])).tolist()
        online, target = network.online(views[1]), learner.target(views[2])
        rows = []
        for i in range(12):
            pulls = []
            for j in range(12):
                is_pair = share[i] * share[j] + (1 - share[i]) * (1 - share[j]) >= agreement or i == j  # Eq. 37
                cosine = float(nn.functional.cosine_similarity(online[i], target[j], dim=0))
                pulls += [2 * math.sqrt(max(1 - cosine, 0))] if is_pair else []  # Eq. 7
            rows.append(sum(pulls) / len(pulls))
        risk = pu_risk.upu_risk(network.margin(views[0]), positive, class_prior=0.4, surrogate="logistic")
    assert float(values["loss_rep"]) == pytest.approx(sum(rows) / 12, abs=1e-4)
    assert float(values["loss"]) == pytest.approx(float(risk) + 7 * sum(rows) / 12, abs=1e-3)
    assert float(values["differentiated"].detach()) == pytest.approx(float(values["loss"]), abs=1e-5)
    values["differentiated"].backward()  # pairs teach the trunk, and nothing is taught to the target
    assert float(next(network.trunk.parameters()).grad.abs().max()) > 1e-3  # type: ignore[union-attr]
    assert all(weight.grad is None for weight in learner.target.parameters())


@pytest.mark.parametrize(("name", "expected"), [("ce", ("weak",)), ("nnpu+noisncl", ("weak", "strong", "strong"))])
def test_classifier_and_pairs_see_own_views(name: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    seen, drawn = [], FeatureViews.draw

    def draw(*args: Any) -> list[Tensor]:
        seen.append(args[2])
        return drawn(*args)

    monkeypatch.setattr(FeatureViews, "draw", draw)
    baselines.fit(made_data()[0], brief(name, epochs=1), Run(CPU))
    assert set(seen[1:]) == {expected}  # the first draw is for the standardisation
    run = Run(CPU)
    baselines.fit(made_data()[0], brief("upu+noisncl", class_prior=0.4, width=0), run)
    assert ["set width" in text for text in run.warnings] == [True]  # there is no layer for pairs to teach


def test_target_begins_as_an_equal_and_moves_by_its_share_before_a_step() -> None:
    settings = cards.NnpuPairSettings(ema_momentum=0.9, class_prior=0.4, **PAIRS)
    data, _ = made_data()
    learner = new_learner(data, settings)
    for ours, theirs in zip(learner.target.parameters(), learner.network.encoder.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    with torch.no_grad():
        for weight in learner.network.encoder.parameters():
            weight += 1.0
    before = [weight.clone() for weight in learner.target.parameters()]
    online = [weight.detach().clone() for weight in learner.network.encoder.parameters()]
    baselines._step(learner, MicroBatcher(Run(CPU)), *drawn_views(data), settings)
    for after, old, new in zip(learner.target.parameters(), before, online, strict=True):
        torch.testing.assert_close(after, old + 0.1 * (new - old), rtol=0, atol=1e-6)


def test_supervised_pretrains_on_all_chips_and_learns_from_judged_ones_alone() -> None:
    data, _ = made_data()
    told: list[Mapping[str, object]] = []
    plain = data.inputs.array
    found = []
    for settings, part, change in (
        (cards.SupervisedSettings(**BRIEF), data.classes == -2, 0), (cards.SupervisedSettings(**BRIEF), data.classes < 0, 900),
        (cards.SupervisedSettings(**BRIEF), data.classes == 0, 1),
        (cards.SupervisedSettings(**BRIEF, width=8, pretrain_epochs=1), data.classes == -2, 0),
        (cards.SupervisedSettings(**BRIEF, width=8, pretrain_epochs=1), data.classes < 0, 3),
    ):  # fmt: skip
        views = np.where(part[:, None], plain + np.float16(change), plain)
        found.append(baselines.fit_supervised(with_views(data, views), settings, Run(CPU, report=told.append)))
    first, same, other, *pretrained = (model.score(plain) for model in found)
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert not np.array_equal(*pretrained)
    assert [event["stage"] for event in told] == 12 * ["training"] + (["pretraining"] + 4 * ["training"]) * 2


@pytest.mark.parametrize(("seed", "l2"), [(0, 0.01), (1, 3.0)])
def test_linear_scores_are_those_of_the_instant_ranker(seed: int, l2: float) -> None:
    data, _ = made_data(seed)
    views = data.inputs.array.astype(np.float32)
    views[:, :3, 5] *= 40  # farther out than a trunk would let through
    views[:, :, 7] = 2  # a column that never varies
    data = with_views(data, views)
    theirs = ranker.fit_ranking(prepared := ranker.prepare(views[0]), data.is_positive, l2=l2).scores(prepared.values)
    model = linear.fit(data, cards.LinearSettings(l2=l2), Run(CPU))
    np.testing.assert_allclose(model.score(views[0]), theirs, atol=1e-3)
    np.testing.assert_array_equal(model.score(views), model.score(views[0]))  # the chips as they were cut alone


def test_logistic_regression_reaches_the_minimum_of_its_loss() -> None:
    # gradient by hand: sum of weight (sigmoid - label) x + l2 slope, weights .5 / group size
    draw = torch.Generator().manual_seed(0)
    values, positive = torch.randn(80, 5, generator=draw), torch.arange(80) < 9
    slope, offset, loss = linear.fit_logistic(values, positive, 0.2, Run(CPU))
    margin = values @ slope + offset
    weight = torch.where(positive, 0.5 / 9, 0.5 / 71)
    rest = weight * (torch.sigmoid(margin) - positive.float())
    torch.testing.assert_close(values.T @ rest + 0.2 * slope, torch.zeros(5), atol=1e-5, rtol=0)
    assert float(rest.sum()) == pytest.approx(0, abs=1e-5)
    expected = (weight * nn.functional.softplus(torch.where(positive, -margin, margin))).sum() + 0.1 * slope.square().sum()
    assert loss == pytest.approx(float(expected), abs=1e-6)
