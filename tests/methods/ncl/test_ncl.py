"""NCL: it ranks, finds kinds that nobody named, remembers, and copes with a single known class."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from method_parts import CPU, fitter
from method_parts import KINDS as NAMES
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score
from torch.nn import functional

from pu_geo.errors import TrainingError
from pu_geo.losses import neighborhood as formulas
from pu_geo.methods.cards.ncl import NclSettings
from pu_geo.methods.ncl import ncl
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.loop import MicroBatcher, restore, snapshot
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

SMALL = NclSettings(
    n_new=4, epochs=15, batch_size=64, lr=0.01, width=32, embedding_dim=16, queue_size=200, n_easy=8, n_hard=4
)
fit = fitter(ncl.fit, SMALL)


def made_up(seed: int = 0, n: int = 200, known: str = "one") -> tuple[PUData, NDArray[np.int64]]:
    """Four kinds of building, ten of kind 1 clicked; with known = "two" also ten of kind 0, as not damaged; and the kinds."""
    draw = np.random.default_rng(seed)
    kinds = np.arange(n) % 4
    chips = 3 * np.eye(12)[kinds] + 1.5 * np.eye(12)[4 + (kinds % 3 > 0)] + 0.4 * draw.normal(size=(n, 12))
    views = chips + 0.3 * draw.normal(size=(4, n, 12))
    classes = np.full(n, -1)
    classes[np.flatnonzero(kinds == 1)[:10]] = 1
    if known == "two":
        classes[np.flatnonzero(kinds == 0)[:10]] = 0
    return PUData(FeatureViews(views.astype(np.float16)), classes >= 1, np.zeros(n, np.bool_), classes, NAMES), kinds


@pytest.fixture(scope="module", params=["one", "two"])
def trained(request: pytest.FixtureRequest) -> tuple[PUData, NDArray[np.int64], TrainedModel]:
    data, kinds = made_up(known=request.param)
    return data, kinds, fit(data, replace(SMALL, epochs=40))


def learner_of(data: PUData, settings: NclSettings = SMALL, n_steps: int = 100) -> ncl.Learner:
    return ncl._new_learner(data, data.trained_rows, settings, Run(CPU), n_steps)


def batch_of(data: PUData, rows: NDArray[np.int64], seed: int = 0) -> ncl.Batch:
    views = data.inputs.draw(rows, ncl.VIEWS, torch.Generator().manual_seed(seed), CPU)
    return ncl.Batch(views, torch.from_numpy(data.classes[rows]), 1.0, seed)


def step(learner: ncl.Learner, data: PUData, number: int, settings: NclSettings = SMALL) -> dict[str, float]:
    rows = np.random.default_rng(number).permutation(200)[:80]
    return ncl._step(learner, MicroBatcher(Run(CPU)), batch_of(data, rows, number), settings)


def test_hidden_damage_is_ranked_first_and_kinds_that_nobody_named_become_clusters(
    trained: tuple[PUData, NDArray[np.int64], TrainedModel],
) -> None:
    data, kinds, model = trained
    clusters, hidden = model.findings["clusters"], data.classes == -1
    without_layer = fit(data, replace(SMALL, width=0))
    for each in (model, without_layer):
        assert roc_auc_score(kinds[hidden] == 1, each.score(data.inputs.array)[hidden]) > 0.85
    assert normalized_mutual_info_score(kinds[hidden], clusters[hidden]) > 0.9
    for kind in (2, 3):
        own = np.bincount(clusters[kinds == kind]).argmax()
        assert (clusters[kinds == kind] == own).mean() > 0.9
        assert (kinds[clusters == own] == kind).mean() > 0.9


def test_findings_show_the_clusters(trained: tuple[PUData, NDArray[np.int64], TrainedModel]) -> None:
    data, _, model = trained
    found = model.findings
    assert (found["memberships"].argmax(1) == found["clusters"]).all()
    with torch.inference_mode():
        views = [torch.from_numpy(view).float() for view in data.inputs.array]
        logits = torch.stack([model.network.cluster_logits(view) for view in views]).mean(0)
        soft = torch.softmax(logits / SMALL.softness, dim=1).double().numpy()
    expected = (soft[data.is_positive].sum(0) + 5 * 10 / 200) / (soft.sum(0) + 5)
    np.testing.assert_allclose(model.state()["shares"], expected, atol=1e-6)


def test_left_out_chips_are_in_no_finding_and_a_cosine_that_is_never_reached_is_told() -> None:
    data, _ = made_up()
    data = replace(data, is_excluded=np.arange(200) % 7 == 0)
    for rule, threshold, n in (("cosine", 1.0, 1), ("cosine", 0.5, 0), ("nearest", 1.0, 0)):
        run, told = Run(CPU), []
        run.report = told.append
        found = ncl.fit(data, replace(SMALL, epochs=1, pair_rule=rule, threshold=threshold), run).findings
        assert sum("pair_rule" in text for text in run.warnings) == n
        assert (told[-1]["share_pairs"] < 0.001) == (n == 1)
    assert len(found["clusters"]) == len(data.trained_rows)


@pytest.mark.parametrize(("n_new", "warned"), [(3, []), (5, ["against 0.5"]), (40, ["silhouette 0.9"])])
def test_warns_where_the_embeddings_suggest_another_number(n_new: int, warned: list[str]) -> None:
    points = np.repeat(np.eye(3), 20, axis=0) + 0.02 * np.random.default_rng(0).normal(size=(60, 3))
    run = Run(CPU)
    ncl._warn_of_another_number(points.astype(np.float32), replace(SMALL, n_new=n_new), run)
    assert len(run.warnings) == len(warned)
    for text, words in zip(run.warnings, warned, strict=True):
        assert words in text
        assert "into 3 (" in text
        assert f"into {n_new} clusters" in text


def test_margin_is_the_log_odds_of_clusters_and_of_known_classes(
    trained: tuple[PUData, NDArray[np.int64], TrainedModel],
) -> None:
    data, _, model = trained
    network, inputs = model.network, torch.from_numpy(data.inputs.array[0, :9]).float()
    with torch.inference_mode():
        found = network.margin(inputs)
        for number, embedding in enumerate(network.represent(inputs).double()):
            new = (network.new_head.weight.double() @ embedding + network.new_head.bias.double()) / SMALL.softness
            share = float((torch.softmax(new, 0) * network.shares.double()).sum())
            expected = math.log(share / (1 - share))
            if (data.classes == 0).any():
                logits = network.known_head.weight.double() @ embedding + network.known_head.bias.double()
                expected += float(logits[1] - logits[0])
            assert float(found[number]) == pytest.approx(expected, abs=1e-4)


def test_pairs_are_the_nearest_or_those_by_cosine() -> None:
    others = ~torch.eye(41, dtype=torch.bool)
    for n_new in (2, 10):  # nearest pairs are half of what clusters would hold
        features = torch.randn(41, 6, generator=torch.Generator().manual_seed(n_new))
        same, share = ncl.same_category(features, replace(SMALL, n_new=n_new))
        assert float(share) == pytest.approx(1 / (2 * n_new), abs=0.003)
        assert torch.equal(same, same.T)
        unit = functional.normalize(features, dim=1)
        cosines = unit @ unit.T
        assert cosines[same & others].min() > cosines[~same].max()
    features = torch.randn(41, 3, generator=torch.Generator().manual_seed(0))
    same, share = ncl.same_category(features, replace(SMALL, pair_rule="cosine", threshold=0.8))
    assert torch.equal(same, formulas.pair_targets(features, threshold=0.8))
    assert float(share) == pytest.approx(float(same[others].float().mean()))
    assert 0.02 < float(share) < 0.5
    for rule in ("nearest", "cosine"):
        for features in (torch.ones(1, 4), torch.full((5, 4), torch.nan)):  # one chip, or chips without a direction
            same, share = ncl.same_category(features, replace(SMALL, pair_rule=rule))
            assert torch.equal(same, torch.eye(len(features), dtype=torch.bool))
            assert float(share) == 0


@pytest.mark.parametrize("is_short", [False, True])
def test_queues_hold_the_second_views_once_as_embedded_before_the_step(
    is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = made_up(known="two")
    learner, calls, kept = learner_of(data), [], ncl.losses

    def short_of_memory(*args):  # type: ignore[no-untyped-def]
        calls.append(len(args[1].classes))
        if is_short and calls in ([80], [80, 40, 40]):
            raise torch.OutOfMemoryError("no")
        return kept(*args)

    monkeypatch.setattr(ncl, "losses", short_of_memory)
    batch = batch_of(data, np.arange(80))
    with torch.no_grad():
        expected = learner.network.represent(batch.views[1])
    values = ncl._step(learner, MicroBatcher(Run(CPU)), batch, SMALL)
    assert math.isfinite(values["loss"])
    assert calls == ([80, 40, 40, 20, 20, 20, 20] if is_short else [80])
    for queue, chosen in ((learner.labeled, batch.classes >= 0), (learner.unlabeled, batch.classes < 0)):
        rows, classes = queue.filled()
        torch.testing.assert_close(rows, expected[chosen], rtol=0, atol=1e-6)
        assert torch.equal(classes, batch.classes[chosen])


def test_neighbors_are_half_of_what_a_cluster_has_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = made_up()
    monkeypatch.setattr(formulas, "hard_negatives", None)  # of a single known class there are none
    kept, asked = formulas.neighborhood_loss, []

    def spy(*args, k, **others):  # type: ignore[no-untyped-def]
        asked.append((len(args[2]), k))
        return kept(*args, k=k, **others)

    monkeypatch.setattr(formulas, "neighborhood_loss", spy)
    learner = learner_of(data)
    for number in range(5):
        step(learner, data, number)
    found = step(learner, data, 5, replace(SMALL, n_neighbors=7))
    assert asked[0] == (0, 1)
    assert asked[1][1] == asked[1][0] // 8 > 5
    assert asked[4] == (200, 25)
    assert asked[5] == (200, 7)
    assert found["loss_cls"] == 0 < found["loss_supervised"]  # a single known class teaches by contrast alone


def test_hard_negatives_come_from_other_classes_than_an_anchor_seems_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = made_up(known="two")
    learner = learner_of(data)
    for number in range(3):
        step(learner, data, number)
    kept, seen = formulas.hard_negatives, []
    monkeypatch.setattr(formulas, "hard_negatives", lambda *args, **others: seen.append(args) or kept(*args, **others))
    batch = batch_of(data, np.arange(100, 160))
    ncl.losses(learner, batch, SMALL, torch.Generator())
    (anchors, queue, labeled, may_mix), classes = seen[0], learner.labeled.filled()[1]
    assert torch.equal(queue, learner.unlabeled.filled()[0])
    assert torch.equal(labeled, learner.labeled.filled()[0])
    for anchor, row in zip(anchors, may_mix, strict=True):
        own = int(learner.network.known_head(anchor).argmax())
        assert row.tolist() == [int(each) != own for each in classes]
    ncl.losses(learner, batch, replace(SMALL, n_hard=0), torch.Generator())
    assert len(seen) == 1


def test_class_numbers_with_gaps_teach_the_same() -> None:
    plain, told = made_up(known="two")[0], []
    for numbers in ((0, 1), (2, 5)):
        classes = np.where(plain.classes < 0, -1, np.take(numbers, plain.classes.clip(min=0)))
        data = PUData(plain.inputs, classes >= 1, plain.is_excluded, classes, ("no", "a", "b", "c", "d", "e"))
        learner = learner_of(data)
        assert learner.network.known.tolist() == list(numbers)
        told.append([step(learner, data, number) for number in range(3)])
    assert told[0] == told[1]


@pytest.mark.parametrize("chosen", [slice(0, 40, 4), slice(1, 40, 4), slice(1, 2), slice(199, 200)])
def test_batches_of_one_kind_or_one_chip_give_finite_losses_and_gradients(chosen: slice) -> None:
    # Every fourth chip is of one kind: the first slice is all labeled as not damaged, the second as damaged.
    data, _ = made_up(known="two")
    learner = learner_of(data)
    step(learner, data, 0)
    learner.optimizer.zero_grad()
    values, _ = ncl.losses(learner, batch_of(data, np.arange(200)[chosen]), SMALL, torch.Generator())
    values["loss"].backward()
    gradients = [weight.grad for weight in learner.network.parameters() if weight.grad is not None]
    assert all(torch.isfinite(number).all() for number in (*values.values(), *gradients))


def test_loss_is_the_sum_of_its_weighted_terms() -> None:
    data, _ = made_up(known="two")
    learner = learner_of(data)
    step(learner, data, 0)
    batch = batch_of(data, np.arange(80))
    names = ("cls", "pairs", "consistency", "neighbors", "supervised")
    weights = {"pair_weight": 2.0, "consistency_weight": 3.0, "neighbor_weight": 0.5, "supervised_weight": 0.25}
    ones = replace(SMALL, **dict.fromkeys(weights, 1.0))  # type: ignore[arg-type]
    plain, weighted = (
        ncl.losses(learner, replace(batch, ramp=ramp), settings, torch.Generator().manual_seed(0))[0]
        for settings, ramp in ((ones, 1.0), (replace(SMALL, **weights), 0.1))  # type: ignore[arg-type]
    )
    factors = (1.0, 2.0, 0.1 * 3.0, 0.5, 0.25)
    for name, factor in zip(names, factors, strict=True):
        assert float(plain[f"loss_{name}"].detach()) > 0
        torch.testing.assert_close(weighted[f"loss_{name}"], factor * plain[f"loss_{name}"])
    torch.testing.assert_close(weighted["loss"], sum(weighted[f"loss_{name}"] for name in names))


def test_consistency_ramps_up() -> None:
    # exp(-5 (1 - t)^2) at t = 1/4, 1/2 and 1
    by_hand = [math.exp(-5 * 9 / 16), math.exp(-5 / 4), 1.0, 1.0]
    assert [ncl._ramp(epoch, 4) for epoch in (1, 2, 4, 9)] == pytest.approx(by_hand)
    assert ncl._ramp(1, 0) == 1.0


def test_refuses_data_without_contrast_and_trains_on_few_unlabeled_chips() -> None:
    data, _ = made_up()
    classes = np.where(data.is_positive, 1, 0)
    with pytest.raises(TrainingError, match="all 200"):
        fit(replace(data, known_class=classes))
    for wrong in ({"n_new": 1}, {"pair_rule": "rank"}, {"threshold": 1.5}):
        with pytest.raises(TrainingError, match=next(iter(wrong))):
            replace(SMALL, **wrong)
    for n in (1, 2, 3):
        rows = np.concatenate([np.flatnonzero(data.is_positive), np.flatnonzero(~data.is_positive)[:n]])
        few = PUData(FeatureViews(data.inputs.array[:, rows]), data.is_positive[rows], np.zeros(len(rows), np.bool_))
        model = fit(few, replace(SMALL, epochs=2))
        assert np.isfinite(model.score(few.inputs.array)).all()


# The memory of embeddings


def numbered(*numbers: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(numbers, dtype=torch.float32)[:, None].repeat(1, 2), 10 * torch.tensor(numbers, dtype=torch.int64)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_queue_holds_the_latest_rows_as_a_list_would(size: int) -> None:
    draw = torch.Generator().manual_seed(0)
    queue, kept, count = ncl.MemoryQueue.empty(size, 2, CPU), [], 0
    for _ in range(12):
        n = int(torch.randint(0, 2 * size, (), generator=draw))
        queue.push(*numbered(*range(count, count + n)))
        kept, count = (kept + list(range(count, count + n)))[-size:], count + n
        rows, classes = queue.filled()
        assert sorted(rows[:, 0].tolist()) == kept
        assert torch.equal(classes.float(), 10 * rows[:, 1])
        assert queue.n_filled == len(kept)


def test_a_queue_keeps_no_tie_to_what_was_pushed_and_comes_back_from_a_snapshot() -> None:
    @dataclass
    class Holder:
        queue: ncl.MemoryQueue

    holder, (rows, classes) = Holder(ncl.MemoryQueue.empty(4, 2, CPU)), numbered(1, 2, 3)
    rows.requires_grad_()
    holder.queue.push(rows, classes)
    with torch.no_grad():
        rows.add_(5)
    saved = snapshot(holder)
    for _ in range(2):  # a snapshot serves more than once
        holder.queue.push(*numbered(7, 8, 9))
        restore(holder, saved)
        assert holder.queue.filled()[0][:, 0].tolist() == [1, 2, 3]
        assert (holder.queue.place, holder.queue.n_filled) == (3, 3)
        assert holder.queue.classes.tolist() == [10, 20, 30, -1]
