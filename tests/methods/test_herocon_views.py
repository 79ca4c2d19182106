"""HeroCon with named views of which some are missing, and with several types of one building."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from method_parts import CPU, fitter, is_same
from numpy.typing import NDArray

from pu_geo.analysis import metrics
from pu_geo.errors import InputError, JobCancelled, ShapeError, TrainingError
from pu_geo.losses import herocon as formulas
from pu_geo.methods import herocon
from pu_geo.methods.cards.herocon import HeroconSettings
from pu_geo.methods.estimators import HeroCon
from pu_geo.methods.pretraining import ViewFeatureExtractor, groups_of
from pu_geo.records import View
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.data import ChipImages, FeatureViews, PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

SMALL = HeroconSettings(epochs=25, batch_size=32, embedding_dim=8, weight_decay=0.1)
fit = fitter(herocon.fit, SMALL)
CHIPS = HeroconSettings(
    backbone="small", epochs=2, batch_size=16, embedding_dim=8, optimizer="adamw", lr=3e-3, weight_decay=0.01
)
COLUMNS = (View("pre+post", "pre+post", 0, 6), View("sar-post", "post", 6, 10), View("proxy", "", 10, 12))
BANDS = (View("pre", "pre", 0, 3), View("post", "post", 3, 6), View("sar-post", "post", 6, 7), View("dsm", "", 7, 8))
N = 120


def made_features(types: bool = False, is_ordinal: bool = False) -> tuple[PUData, NDArray[np.int64]]:
    """Three views of which each tells damage, a third of each missing; and how bad the damage is: 0, 1 or 2."""
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(N) < N // 2, 1 + np.arange(N) % 2, 0)
    chips = rng.normal(size=(N, 12))
    for view in COLUMNS:
        chips[truth > 0, view.start] += 3
        chips[:, view.start + 1] += 3 * (truth == 2)
    views = (chips + 0.3 * rng.normal(size=(3, N, 12))).astype(np.float32)
    gone = rng.random((3, N)) < 0.33
    gone[0, gone.all(axis=0)] = False
    known = np.where(rng.random(N) < 0.5, np.minimum(truth, 1), -1)
    made = PUData(FeatureViews(views), known == 1, np.zeros(N, np.bool_), known, views=COLUMNS, is_missing=gone)
    if not types:
        return made, truth
    labels = np.full((N, 2), -1, np.int8)
    for column, least in enumerate((1, 2)):
        labels[known >= 0, column] = (truth >= least)[known >= 0]
    if not is_ordinal:  # "any" and "bad" are no scale by themselves
        labels[(known == 1) & (np.arange(N) % 5 == 0)] = -1
    return replace(made, type_labels=labels, type_names=("any", "bad"), is_ordinal=is_ordinal), truth


def made_chips(n: int = 40) -> tuple[PUData, NDArray[np.bool_]]:
    """Chips of 32 px with pre, post, radar and elevation; damage shows in post and radar. Radar is missing of every third."""
    rng = np.random.default_rng(0)
    chips = rng.integers(60, 120, (n, 8, 32, 32)).astype(np.uint8)
    truth = np.arange(n) < n // 2
    chips[truth, 3:7, 6:26, 6:26] = 220
    known = np.full(n, -1)
    known[: n // 4], known[-n // 4 :] = 1, 0
    gone = np.zeros((4, n), np.bool_)
    gone[2, ::3] = True
    data = PUData(ChipImages(chips), known >= 1, np.zeros(n, np.bool_), known, views=BANDS, is_missing=gone)
    return data, truth


def learner_of(data: PUData, settings: HeroconSettings) -> tuple[herocon.Learner, herocon.Labels]:
    """A learner for the data as `fit` makes it, and what people answered."""
    labels = herocon.answered(data, data.trained_rows, Run(CPU, 0))
    return herocon._new_learner(data, data.trained_rows, labels, settings, Run(CPU, 0), 10), labels


def batch_of(data: PUData, settings: HeroconSettings) -> tuple[herocon.HeroconNetwork, herocon.Batch]:
    learner, labels = learner_of(data, settings)
    generator = torch.Generator().manual_seed(0)
    return learner.network, herocon._draw(data, data.trained_rows, labels, learner.network, settings, generator)


def spoiled(data: PUData, value: float) -> PUData:
    array, is_chips = data.inputs.array.copy(), isinstance(data.inputs, ChipImages)
    for view, gone in zip(data.views, data.is_missing, strict=True):
        array[(gone, slice(view.start, view.stop)) if is_chips else (slice(None), gone, slice(view.start, view.stop))] = (
            value
        )
    return replace(data, inputs=ChipImages(array) if is_chips else FeatureViews(array))


def answers(model: TrainedModel, data: PUData) -> list[NDArray[np.float32]]:
    return [getattr(model, name)(data.inputs.array, data.is_missing) for name in ("score", "type_scores", "embed")]


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_damage_and_its_types_are_found_by_the_views_that_are_there(is_ordinal: bool, tmp_path: Path) -> None:
    """What stands in a missing view changes no bit, a training that was killed goes on bit-equal, and so is a stored model."""
    data, truth = made_features(types=True, is_ordinal=is_ordinal)
    other, asked = spoiled(data, 500.0), [0]

    def is_cancelled() -> bool:
        asked[0] += 1
        return asked[0] == 23

    model = fit(data)
    with pytest.raises(JobCancelled):
        fit(other, is_cancelled=is_cancelled, checkpoints=Checkpoints(tmp_path, 0.0))
    second = fit(other, checkpoints=Checkpoints(tmp_path, 0.0))
    assert is_same(model.state(), second.state())
    again = herocon.from_state(model.state(), SMALL, CPU)
    assert is_same(model.state(), again.state())
    for found in (answers(second, other), answers(again, data)):
        assert all(map(np.array_equal, found, answers(model, data)))
    scores, types, _ = answers(model, data)
    hidden = data.classes == -1
    assert model.findings["kinds"] == ("any", "bad")
    assert types.shape == (N, 2)
    assert metrics.auc(scores[hidden], truth[hidden] > 0) > 0.9
    assert metrics.auc(types[hidden, 0], truth[hidden] > 0) > 0.85
    assert metrics.auc(types[hidden, 1], truth[hidden] > 1) > 0.8


def test_what_views_cannot_have_is_refused_or_named() -> None:
    with pytest.raises(TrainingError, match=r"embedding_dim is 0.*2, 4, 6"):  # features as they are need views of one width
        fit(made_features()[0], replace(SMALL, embedding_dim=0))
    data, _ = made_chips(12)
    natural = replace(data, inputs=replace(data.inputs, augmentation="natural"))
    with pytest.raises(TrainingError, match="which these layers do not have: sar-post, dsm"):
        fit(natural, CHIPS)
    inputs = replace(natural.inputs, chips=data.inputs.array[:, :6])
    fit(replace(natural, inputs=inputs, views=BANDS[:2], is_missing=None), replace(CHIPS, epochs=1, max_steps=1))
    data, _ = made_features(types=True)
    labels = np.concatenate([data.type_labels, np.where(data.type_labels[:, :1] >= 0, 0, -1).astype(np.int8)], axis=1)
    run = Run(CPU, 0)
    model = herocon.fit(replace(data, type_labels=labels, type_names=("any", "bad", "burnt")), replace(SMALL, epochs=1), run)
    assert model.findings["kinds"] == ("any", "bad")
    assert "has the damage type burnt, so it has no score" in run.warnings[0]


def test_a_network_of_one_view_gives_chips_without_it_what_the_others_have_on_average() -> None:
    data, _ = made_chips(12)
    network, batch = batch_of(data, CHIPS)
    trunk = network.trunk.eval()
    gone = torch.from_numpy(data.is_missing)
    found = trunk(batch.inputs[0], gone)
    own = slice(trunk.out_dims[0], trunk.out_dims[0] + trunk.out_dims[1])  # of radar
    lacks = gone[2]
    assert 0 < lacks.sum() < 12
    expected = found[~lacks, own].mean(dim=0)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(found[lacks, own], expected.expand(int(lacks.sum()), -1))
    assert not trunk(batch.inputs[0], torch.ones_like(gone)).any()


@pytest.mark.slow
def test_a_missing_layer_of_chips_changes_no_bit_and_never_enters_its_network() -> None:
    data, _ = made_chips()
    other = spoiled(data, 3)
    settings = replace(CHIPS, pretrain_epochs=1)
    first, second = fit(data, settings), fit(other, settings)
    assert is_same(first.state(), second.state())
    seen: list[int] = []
    trunk = first.extractor
    assert isinstance(trunk, ViewFeatureExtractor)
    trunk.others[0].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    first.score(data.inputs.array, data.is_missing)
    assert sum(seen) == int((~data.is_missing[2]).sum())
    state = first.state() | {"trunk.dates": torch.tensor([0, 0, 9, 0])}
    with pytest.raises(ValueError, match="from 0 to 3"):
        herocon.from_state(state, settings, CPU)
    state = first.state() | {"trunk.spans": torch.tensor([[0, 3], [3, 6], [6, 7], [7, 9]])}
    with pytest.raises(ShapeError, match="within 0 to 8"):
        herocon.from_state(state, settings, CPU)
    gone = np.ones_like(data.is_missing) & (np.arange(4) == 2)[:, None]
    gone[2, 0] = False  # one radar chip in a batch of 16 px, where one pixel is left of a map, has no statistics
    small = ChipImages(np.ascontiguousarray(data.inputs.array[:, :, ::2, ::2]))
    network, batch = batch_of(replace(data, inputs=small, is_missing=gone), CHIPS)
    assert all(term.isfinite() for term in herocon.losses(network, batch, CHIPS).values())
    assert network.trunk.others[0].training


def test_pre_and_post_share_a_network_and_views_a_classifier_unless_they_share_their_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert groups_of(BANDS, is_chips=True) == (0, 0, 1, 2)
    radar = (View("sar-pre", "pre", 0, 1), View("sar-post", "post", 1, 2), View("sar-two-post", "post", 2, 4))
    assert groups_of(radar, is_chips=True) == (0, 0, 1)
    assert groups_of(COLUMNS, is_chips=False) == (0, 1, 2)
    network, _ = batch_of(made_chips()[0], CHIPS)
    weights = [layer.conv1.weight for layer in (network.trunk.backbone, *network.trunk.others)]
    assert [weight.shape[1] for weight in weights] == [3, 1, 1]
    assert not torch.equal(weights[1], weights[2])
    monkeypatch.setattr(herocon, "estimated_class_prior", lambda *_: 0.25)
    for data, settings, places in (
        (made_features()[0], SMALL, (0, 0, 0)),
        (made_chips()[0], CHIPS, (0, 1, 0, 0)),  # pre and post have one network, whose classifiers tell them apart
        (made_features()[0], replace(SMALL, width=4, embedding_dim=0), (0, 1, 2)),
    ):
        learner, _ = learner_of(data, replace(settings, weight_decay=0.0))
        n = max(places) + 1
        assert (learner.network.places, len(learner.network.classifiers)) == (places, n)
        assert learner.optimizer.param_groups[0]["weight_decay"] == pytest.approx(0.2 / n**0.5)  # shared among them


def test_only_views_of_one_date_are_compared_and_those_alone_with_themselves() -> None:
    data, _ = made_chips()
    settings = replace(CHIPS, temperature=0.5)
    network, batch = batch_of(data, settings)
    found = herocon.losses(network, batch, settings)["loss_unsupervised"]
    gone = batch.is_missing
    first, second = (network.views([each], gone) for each in batch.inputs)
    # Of a chip with radar, post and radar are a pair; without, post has its second augmentation. Pre and elevation always do.
    pair = torch.stack([first[1], first[2], second[1]])
    is_out = torch.stack([gone[1], gone[2], ~gone[2]])
    each = [(torch.stack([first[0], second[0]]), None), (pair, is_out), (torch.stack([first[3], second[3]]), None)]
    parts = [formulas.multi_view_loss(z, network.mapping(z), is_missing=mask, temperature=0.5) for z, mask in each]
    # Second augmentations run in a batch of their own, whose BatchNorm differs where radar keeps post at home.
    torch.testing.assert_close(found, torch.stack(parts).mean(), rtol=0.05, atol=0.0)
    assert herocon.dates_of(network, settings) == [1, 2, 2, -4]
    assert herocon.dates_of(network, replace(settings, across_dates=True)) == [0, 0, 0, 0]
    joint, sar, _ = herocon.dates_of(batch_of(made_features()[0], SMALL)[0], SMALL)
    assert joint != sar, "a layer of both dates is compared with no other"


def test_evidence_of_views_adds_up_and_a_building_without_any_has_the_answer_of_the_biases() -> None:
    data, _ = made_features()
    model = fit(data, replace(SMALL, epochs=2))
    network, plain = model.network, torch.from_numpy(data.inputs.plain_array[:5])
    gone = torch.zeros(3, 5, dtype=torch.bool)
    with torch.inference_mode():
        alone = []
        for view in range(3):
            only = torch.ones(3, 5, dtype=torch.bool)
            only[view] = False
            alone.append(network.margin(plain, only))
        torch.testing.assert_close(network.margin(plain, gone), torch.stack(alone).sum(0), rtol=1e-4, atol=1e-5)
        nothing = network.margin(plain, ~gone)
    assert nothing.isfinite().all()
    torch.testing.assert_close(nothing, nothing[:1].expand(5), rtol=1e-5, atol=1e-6)


def test_buildings_without_any_view_teach_nothing_and_are_counted() -> None:
    data, _ = made_features()
    run, left_out = Run(CPU, 0), np.isin(np.arange(N), [3, 70])
    gone = data.is_missing | left_out
    without = replace(data, is_missing=gone)
    found = herocon.fit(without, replace(SMALL, epochs=1), run)
    assert is_same(found.state(), fit(replace(without, is_excluded=left_out), replace(SMALL, epochs=1)).state())
    assert run.warnings[0].startswith("2 buildings have none of the views")
    assert np.isfinite(found.score(data.inputs.array, gone)).all()


def test_labels_that_nobody_gave_are_not_read_and_others_are() -> None:
    data, _ = made_features(types=True)
    labels = data.type_labels
    network, batch = batch_of(data, SMALL)
    unknown = torch.from_numpy((labels == -1) & data.is_positive[:, None])
    assert unknown.any()
    assert torch.equal(batch.is_known[:, :-1], ~unknown)
    assert batch.is_known[:, -1].all()
    assert (batch.weights[:, :-1][unknown] == 0).all()
    flipped = batch.labels.clone()
    flipped[:, :-1][unknown] = 1
    every = torch.ones_like(batch.is_known)
    plain, other, all_known = (
        herocon.losses(network, each, SMALL)
        for each in (batch, replace(batch, labels=flipped), replace(batch, is_known=every))
    )
    assert all(torch.equal(plain[name], other[name]) for name in ("loss_supervised", "loss_cls"))
    assert not torch.equal(plain["loss_supervised"], all_known["loss_supervised"])


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_damage_of_none_of_the_types_is_damage_all_the_same(is_ordinal: bool) -> None:
    data, truth = made_features(types=True, is_ordinal=is_ordinal)
    labels = data.type_labels.copy()
    labels[data.is_positive & (truth == 1)] = 0  # damaged, and neither "any" nor "bad"
    labels[data.is_positive & (truth == 2)] = 1
    data = replace(data, type_labels=labels)
    model = fit(data, SMALL)
    damaged, types = (answer(data.inputs.array, data.is_missing) for answer in (model.score, model.type_scores))
    mild, bad = (data.is_positive & (truth == number) for number in (1, 2))
    assert np.median(damaged[mild]) > np.quantile(damaged[truth == 0], 0.95)
    assert np.median(types[mild, 0]) < np.median(types[bad, 0]) - 0.1
    assert (types.max(axis=1) <= damaged + 1e-6).all()


def as_estimator(data: PUData) -> tuple[HeroCon, dict[str, NDArray[np.float32]]]:
    short = HeroCon(epochs=2, batch_size=64, embedding_dim=8, weight_decay=0.01, random_state=0, device="cpu")
    return short, {view.name: data.inputs.array[:, :, view.start : view.stop] for view in COLUMNS}


def test_estimator_takes_a_dict_of_views_and_several_types_as_the_app_does() -> None:
    data, _ = made_features(types=True)
    estimator, parts = as_estimator(data)
    negative, dates = data.classes == 0, {"sar-post": "post"}
    estimator.fit(
        parts, data.is_positive, known_negative=negative, Y=data.type_labels, type_names=data.type_names, dates=dates,
        is_missing=data.is_missing,
    )  # fmt: skip
    views = tuple(replace(view, when=dates.get(view.name, "")) for view in COLUMNS)
    unlabeled = np.where(data.is_positive[:, None], data.type_labels, -1).astype(np.int8)
    settings = replace(SMALL, epochs=2, batch_size=64, weight_decay=0.01)
    model = fit(replace(data, views=views, type_labels=unlabeled), settings)
    assert is_same(estimator.model_.state(), model.state())
    backwards = dict(reversed(parts.items()))  # views are known by their names
    np.testing.assert_array_equal(
        estimator.decision_function(backwards, data.is_missing), model.score(data.inputs.array, data.is_missing)
    )
    assert estimator.types_ == ("any", "bad")
    assert estimator.type_scores(parts, data.is_missing).shape == (N, 2)
    assert estimator.transform(parts, data.is_missing).shape == (N, 8)


def test_estimator_refuses_views_and_types_in_words() -> None:
    data, _ = made_features(types=True)
    y, chips = data.is_positive, np.zeros((N, 2, 16, 16), np.uint8)

    def refused(words: str, X: object = None, **how: object) -> None:
        estimator, parts = as_estimator(data)
        with pytest.raises(InputError, match=words):
            estimator.fit(parts if X is None else X, y, **how)  # type: ignore[arg-type]

    refused(r"is_missing must be bool \[3, 120\].*\(2, 120\)", is_missing=np.zeros((2, N), np.bool_))
    refused(r"is_missing must be bool \[3, 120\].*\(3, 7\)", is_missing=np.zeros((3, 7), np.bool_))
    refused(r"Y is float64 \[120, 2\]", Y=np.zeros((N, 2)))
    refused("type_names are a; Y has 2 columns", Y=np.zeros((N, 2), np.int8), type_names=("a",))
    refused("Y and types are both given", Y=np.zeros((N, 2), np.int8), types=["x"] * N)
    refused("dates has 'sar'", dates={"sar": "post"})
    refused("do not fit together: a .*b", X={"a": np.zeros((N, 2)), "b": np.zeros((5, 2))})
    refused("preset 'quick' learns from features", X={"post": chips, "sar": chips})
    estimator, parts = as_estimator(data)
    estimator.fit(parts, y)
    with pytest.raises(InputError, match=r"views pre\+post; it learned from pre\+post, sar-post, proxy"):
        estimator.decision_function({"pre+post": parts["pre+post"]})


def test_steps_that_were_denied_are_learned_from_answers_alone() -> None:
    data, truth = made_features(types=True, is_ordinal=True)
    network, batch = batch_of(data, SMALL)
    unlabeled = torch.from_numpy(data.classes == -1)
    # "bad" was denied, "any" is damaged at all
    assert batch.is_known[unlabeled].unique(dim=0).tolist() == [[True, False, True]]
    assert (batch.weights[unlabeled][:, [0, 2]] > 0).all()
    assert (batch.weights[unlabeled, 1] == 0).all()
    has, has_not = (batch.weights[torch.from_numpy((data.classes != -1) & mask), 1].sum() for mask in (truth > 1, truth < 2))
    assert float(has) == pytest.approx(float(has_not))
    # One that was called not damaged weighs as much as 30 unlabeled ones, in "damaged at all".
    called = torch.from_numpy(data.classes == 0)
    assert float(batch.weights[called, 2].mean()) == pytest.approx(30 * float(batch.weights[unlabeled, 2].mean()), rel=1e-5)
    # Answers: how often each step was said to be there, and not; half a building is added to either.
    steps = data.type_labels[data.classes != -1]  # type: ignore[index]
    odds = np.log((steps == 1).sum(axis=0) + 0.5) - np.log((steps == 0).sum(axis=0) + 0.5)
    np.testing.assert_allclose(network.offsets, [0, odds[1] - odds[0]], rtol=1e-5)
    assert odds[1] < odds[0]
    # A step that nobody denied takes the unlabeled for those without: answered are the worst alone.
    known = np.where(truth == 2, data.classes, -1)
    labels = np.where(known[:, None] == 1, data.type_labels, -1).astype(np.int8)
    network, batch = batch_of(replace(data, is_positive=known == 1, known_class=known, type_labels=labels), SMALL)
    assert batch.is_known.all()
    assert (network.offsets == 0).all()  # of both steps as many say yes, and none says no


def test_a_step_has_an_order_of_its_own_below_the_steps_before_it() -> None:
    data, _ = made_features(types=True, is_ordinal=True)
    network, _ = batch_of(data, SMALL)
    network.offsets.copy_(torch.tensor([0.0, -1.0]))
    # Log odds of "any", "bad", and damaged at all, which is "any". "Bad" is 2 - 1, however sure "any" is, but never above it.
    logits = torch.tensor([[3.0, 2.0, 3.0], [9.0, 2.0, 9.0], [0.5, 2.0, 0.5]])
    assert network.on_scale(logits).tolist() == [[3.0, 1.0, 3.0], [9.0, 1.0, 9.0], [0.5, 0.5, 0.5]]
    network.has_other = True  # damaged at all is a step before "any"
    network.offsets = torch.tensor([0.0, -1.0, -2.0])
    assert network.on_scale(torch.tensor([[3.0, 2.5, 1.0], [5.0, 2.5, 4.0]])).tolist() == [[1.0, 0.5, 1.0], [4.0, 0.5, 4.0]]
