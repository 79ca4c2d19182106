"""HeroCon: two views of a building of which one may be missing, several kinds of damage, and what people said of it."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from method_parts import CPU, fitter, made_up, made_up_chips
from numpy.typing import NDArray
from torch import Tensor

from pu_geo.analysis import metrics
from pu_geo.losses import herocon as formulas
from pu_geo.methods import herocon
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.pretraining import mean_of_present, missing_dates
from pu_geo.training.data import PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

SMALL = HeroconSettings(epochs=15, batch_size=64, embedding_dim=16, weight_decay=0.01)
fit = fitter(herocon.fit, SMALL)
BRIEF = replace(SMALL, epochs=1)
CHIPS = HeroconSettings(
    backbone="small", epochs=2, batch_size=16, embedding_dim=8, optimizer="adamw", lr=1e-3, weight_decay=0.01
)


def made_views(not_damaged: int = 16, kinds: int = 2) -> tuple[PUData, NDArray[np.int64]]:
    """Return `made_up`, of which so many are called undamaged, and so many kinds are known; and the true classes."""
    data, is_damaged = made_up()
    known = data.known_class.copy()
    known[np.flatnonzero(known == 0)[not_damaged:]] = -1
    truth = np.where(is_damaged, 1 + np.arange(240) % 2, 0)
    return replace(data, known_class=known.clip(max=kinds)), truth


def made_chips(n: int = 48) -> PUData:
    data = made_up_chips(n)
    data.inputs.array[::4, :3] = 0
    return data


def new_learner(data: PUData, settings: HeroconSettings) -> herocon.Learner:
    rows = data.trained_rows
    return herocon._new_learner(data, rows, herocon.answered(data, rows, Run(CPU)), settings, Run(CPU), 3)


def made_batch() -> tuple[herocon.HeroconNetwork, herocon.Batch]:
    """A network for 6-band chips of two kinds, and a batch of 12 in which chips 0, 4, ... have no pre image."""
    data = made_chips()
    network, labels = new_learner(data, CHIPS).network, herocon.answered(data, data.trained_rows, Run(CPU))
    rows = np.concatenate([np.arange(6), 47 - np.arange(6)])
    return network, herocon._draw(data, rows, labels, network, CHIPS, torch.Generator().manual_seed(0))


def gradients(network: herocon.HeroconNetwork, batch: herocon.Batch, settings: HeroconSettings = CHIPS) -> dict[str, Tensor]:
    network.zero_grad(set_to_none=True)
    herocon.losses(network, batch, settings)["loss"].backward()
    return {name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(("width", "optimizer", "lr"), [(0, "sgd", 0.05), (32, "lars", 1.0), (32, "adamw", 3e-3)])
def test_ranks_hidden_damage_above_the_rest_and_tells_its_kinds_apart(width: int, optimizer: str, lr: float) -> None:
    data, truth = made_views()
    model = fit(data, replace(SMALL, width=width, optimizer=optimizer, lr=lr))
    hidden = data.classes == -1
    assert metrics.auc(model.score(data.inputs.array)[hidden], truth[hidden] > 0) > 0.85
    with torch.inference_mode():
        margins = model.network.kind_margins(torch.from_numpy(data.inputs.plain_array)).numpy()
    for column, kind in enumerate((1, 2)):
        assert metrics.auc(margins[hidden, column], truth[hidden] == kind) > 0.85
    assert model.findings["kinds"] == ("roof", "wall")
    assert model.network.kinds.tolist() == [1, 2]


def test_only_positives_and_unlabeled_suffice_and_it_says_what_is_lost() -> None:
    data, truth = made_views(not_damaged=0)
    plain = PUData(data.inputs, data.is_positive, data.is_excluded)
    told: list[Mapping[str, object]] = []
    run = Run(CPU, 0, report=told.append)
    model = herocon.fit(plain, SMALL, run)
    scores = model.score(plain.inputs.array)
    assert metrics.auc(scores[~plain.is_positive], truth[~plain.is_positive] > 0) > 0.85
    assert all(event["loss_supervised"] == 0 for event in told)
    assert model.findings["kinds"] == ("damaged",)
    assert len(run.warnings) == 1
    assert "not damaged" in run.warnings[0]
    judged = Run(CPU)
    herocon.fit(made_views()[0], BRIEF, judged)
    assert judged.warnings == []


def test_types_that_nobody_ruled_out_or_clicked_are_not_told_apart() -> None:
    data, _ = made_views(not_damaged=0)
    types = np.where(data.classes[:, None] == (1, 2), 1, -1).astype(np.int8)
    asked = PUData(data.inputs, data.is_positive, data.is_excluded, type_labels=types, type_names=("roof", "wall"))
    run = Run(CPU, 0)
    herocon.fit(asked, BRIEF, run)
    (warning,) = run.warnings
    assert warning.startswith("No labeled building is known to lack a type")
    known = np.where(data.classes == 1, -1, data.classes)
    model = fit(replace(data, is_positive=known >= 1, known_class=known), BRIEF)
    assert model.findings["kinds"] == ("wall",)
    assert model.network.kinds.tolist() == [2]


@pytest.mark.parametrize("across_dates", [False, True])
def test_loss_is_eq_1_of_its_terms(across_dates: bool) -> None:
    network, batch = made_batch()
    settings = replace(CHIPS, unsupervised_weight=0.3, supervised_weight=0.7, temperature=0.5, across_dates=across_dates)
    terms = herocon.losses(network, batch, settings)
    gone, known = batch.is_missing, batch.is_labeled
    views = network.views(batch.inputs, gone)
    # Across dates pre and post are one pair. Else each is compared with another augmentation of itself; a chip without its
    # pre image has its post image alone in either case.
    is_second_out = gone | ~gone.any(dim=0) if across_dates else gone
    both = torch.cat([views, network.views(batch.inputs[1:], is_second_out)])
    dates = [0] * 4 if across_dates else [0, 1, 0, 1]
    unsupervised = formulas.multi_view_loss(
        both, network.mapping(both), is_missing=torch.cat([gone, is_second_out]), dates=dates, temperature=0.5
    )
    labels, gone = batch.labels[known, :-1], gone[:, known]
    supervised = formulas.supervised_loss(views[:, known], labels.bool(), is_missing=gone, temperature=0.5)
    expected = terms["loss_cls"] + 0.3 * unsupervised + 0.7 * supervised
    torch.testing.assert_close(terms["loss"], expected)
    assert all(float(term.detach()) > 0.05 for term in (unsupervised, supervised, terms["loss_cls"]))
    logits = network.logits(views, batch.is_missing)  # each is of the first augmentation
    costs = torch.nn.functional.softplus(torch.where(batch.labels > 0, -logits, logits))
    torch.testing.assert_close(terms["loss_cls"], (costs * batch.weights).sum(1).mean())


def test_odds_of_damaged_are_the_sum_of_the_kinds_odds() -> None:
    # Odds 1 and 3 make 4; of one kind they stay what they are.
    joined = herocon.with_union(torch.tensor([[0.0, math.log(3)]]))
    torch.testing.assert_close(joined, torch.tensor([[0.0, math.log(3), math.log(4)]]))
    torch.testing.assert_close(herocon.with_union(torch.tensor([[-2.5]])), torch.tensor([[-2.5, -2.5]]))


def test_weights_by_hand() -> None:
    # A roof, two walls, one seen undamaged and two unlabeled ones of weight 1/2. Each kind has 1/4 of the weight, its
    # chips with and without 1/8 each; damaged at all has 1/2. Times 6 chips: 3/4, and 3/2. Without roof: 2 walls, 1 seen
    # undamaged and 2 halves make 4; without wall 3; undamaged 2.
    labels = torch.tensor([[1.0, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    is_labeled = torch.tensor([True] * 4 + [False] * 2)
    half = 0.5
    roof, wall, undamaged = [0.75, 0.75 / 3, 1.5 / 3], [0.75 / 4, 0.75 / 2, 1.5 / 3], [0.75 / 4, 0.75 / 3, 1.5 / 2]
    expected = torch.tensor([roof, wall, wall, undamaged, *[[half * weight for weight in undamaged]] * 2])
    found = herocon.balanced_weights(labels, is_labeled, 0.5)
    torch.testing.assert_close(found, expected)
    assert float(found.sum(dim=1).mean()) == pytest.approx(1)
    labels = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 0, 0]])  # a kind that no chip of the step has is left out
    found = herocon.balanced_weights(labels, torch.tensor([True, True, False]), 1.0)
    assert found[:, 1].abs().max() == 0
    torch.testing.assert_close(found[:, 0], found[:, 2])
    assert float(found.sum(dim=1).mean()) == pytest.approx(1)
    nothing = herocon.balanced_weights(torch.zeros(3, 3), torch.tensor([True, False, False]), 1.0)
    assert nothing.abs().max() == 0


def test_an_unlabeled_chip_weighs_its_share_of_one_called_undamaged() -> None:
    data, settings = made_views()[0], replace(SMALL, unlabeled_weight=0.3)
    labels = herocon.answered(data, data.trained_rows, Run(CPU))
    batch = herocon._draw(
        data, data.trained_rows, labels, new_learner(data, settings).network, settings, Run(CPU).generator(4)
    )
    undamaged, unlabeled = (batch.weights[torch.from_numpy(data.classes == kind)] for kind in (0, -1))
    torch.testing.assert_close(unlabeled, 0.3 * undamaged[:1].expand_as(unlabeled))


@pytest.mark.parametrize(("share", "expected"), [(0.001, 0.03), (0.25, 0.2), (0.9, 0.4)])
def test_weight_decay_follows_the_estimated_share(share: float, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = made_views()
    asked = []

    def estimated(data: PUData, positive: NDArray[np.int64], unlabeled: NDArray[np.int64], *_: object) -> float:
        asked.append((positive.tolist(), unlabeled.tolist()))
        return share

    monkeypatch.setattr(herocon, "estimated_class_prior", estimated)
    left_out = np.arange(240) % 10 == 0
    data = replace(data, is_excluded=left_out)
    for weight_decay, found in ((0.0, expected), (0.07, 0.07)):
        learner = new_learner(data, replace(SMALL, weight_decay=weight_decay))
        assert learner.optimizer.param_groups[0]["weight_decay"] == pytest.approx(found)
    rows = [np.flatnonzero(mask & ~left_out).tolist() for mask in (data.is_positive, data.classes == -1)]
    assert asked == [tuple(rows)]
    for known in ([1] + [-1] * 239, [1] * 99 + [0] * 140 + [-1]):  # nothing to estimate from: a middle one
        classes = np.array(known)
        data = replace(data, is_positive=classes >= 1, known_class=classes, is_excluded=np.zeros(240, np.bool_))
        learner = new_learner(data, replace(SMALL, weight_decay=0.0))
        assert learner.optimizer.param_groups[0]["weight_decay"] == pytest.approx(0.1)


def test_dates_without_data_are_found_and_the_mean_is_over_the_others() -> None:
    images = torch.ones(4, 6, 2, 2, dtype=torch.uint8)
    images[1, :3] = 0
    images[2, 3:] = 0
    images[3] = 0
    images[0, :, 0, 0] = 0  # a black corner is no missing date
    assert missing_dates(images).tolist() == [[False, True, False, True], [False, False, True, False]]
    views = torch.tensor([[[1.0], [torch.nan]], [[5.0], [7.0]]])
    is_missing = torch.tensor([[False, True], [False, False]])
    assert mean_of_present(views, is_missing).tolist() == [[3.0], [7.0]]


def test_what_a_missing_date_holds_changes_no_loss_and_no_gradient() -> None:
    network, batch = made_batch()
    assert batch.is_missing.sum() > 0
    images = [each.clone() for each in batch.inputs]
    for each in images:
        each[:, :3][batch.is_missing[0]] = torch.nan
    spoiled = replace(batch, inputs=images)
    plain, wild = (herocon.losses(network, each, CHIPS) for each in (batch, spoiled))
    assert all(torch.equal(plain[name], wild[name]) for name in plain)
    plain, wild = gradients(network, batch), gradients(network, spoiled)
    assert all(torch.equal(plain[name], wild[name]) for name in plain)
    assert all(torch.isfinite(each).all() for each in wild.values())
    assert plain["mapping.0.weight"].abs().max() > 0  # h learns by alpha alone
    without = gradients(network, batch, replace(CHIPS, unsupervised_weight=0))
    assert without["mapping.0.weight"].abs().max() == 0
    assert isinstance(network.mapping[1], torch.nn.Sigmoid)


def test_each_band_is_standardised_by_the_chips_that_have_it() -> None:
    data = made_chips()
    data.inputs.chips[:, 3:] //= 2
    trunk = herocon.new_pair_extractor(data, np.arange(48), CHIPS, Run(CPU))
    there = data.inputs.chips.astype(np.float64)
    for band in range(6):
        values = there[np.arange(48) % 4 != 0, band] if band < 3 else there[:, band]
        assert float(trunk.standardize.mean[band]) == pytest.approx(values.mean(), rel=1e-4)
        assert float(trunk.standardize.scale[band]) == pytest.approx(values.std(), rel=1e-4)
    assert trunk.input_shape.tolist() == [6, 32, 32]


def test_missing_dates_survive_batching_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every fourth chip lacks its pre image. "natural" turns the zeros of a missing date into gray.
    data = made_chips()
    data = replace(data, inputs=replace(data.inputs, augmentation="natural"))
    kept, seen = herocon.HeroconNetwork.views, []

    def spy(network: herocon.HeroconNetwork, inputs: list[Tensor], is_missing: Tensor) -> Tensor:
        seen.append(is_missing)
        if len(seen) == 1:
            raise torch.OutOfMemoryError
        return kept(network, inputs, is_missing)

    monkeypatch.setattr(herocon.HeroconNetwork, "views", spy)
    run = Run(CPU, 0)
    herocon.fit(data, replace(CHIPS, epochs=1, batch_size=48, unsupervised_weight=0), run)
    assert [mask.shape[1] for mask in seen] == [48, 24, 24]
    assert sum(int(mask[0].sum()) for mask in seen[1:]) == 12
    assert not any(mask[1].any() for mask in seen)
    assert "2 pieces" in run.warnings[-1]


def test_a_chip_without_its_pre_image_is_embedded_and_judged_by_its_post_image() -> None:
    network, _ = made_batch()
    network.eval()
    images = torch.from_numpy(made_chips().inputs.chips[:3]).float()
    model = TrainedModel(network, network.trunk)
    with torch.inference_mode():
        standard = network.trunk.standardize(images)
        pre, post = (network.out(network.trunk.backbone(part)) for part in (standard[:, :3], standard[:, 3:]))
        logits = torch.stack([network.classifiers[0](pre), network.classifiers[1](post)])
    expected = logits.mean(0) - math.log(2)  # two kinds
    expected[0] = logits[1, 0] - math.log(2)
    torch.testing.assert_close(network.kind_margins(images), expected)
    torch.testing.assert_close(network.represent(images)[0], post[0])
    torch.testing.assert_close(network.represent(images)[1:], (pre + post)[1:] / 2)
    scores = torch.from_numpy(model.score(images.byte().numpy()))
    torch.testing.assert_close(scores, torch.sigmoid(expected.exp().sum(1).log()))
    assert np.isfinite(model.score(np.zeros((2, 6, 32, 32), np.uint8))).all()  # without any date
