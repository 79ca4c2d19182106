"""PUCL with PUPL on cached features."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from pu_geo.engine.data import FeatureViews
from pu_geo.engine.features import extract_views, fit_rcf
from pu_geo.engine.run import Run
from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.methods import pucl
from pu_geo.methods.pucl import PuclModel, fit
from pu_geo.methods.settings import PRESETS, PuclSettings

CPU = torch.device("cpu")
SMALL = PuclSettings(epochs=15, batch_size=64, lr=0.01, width=32, embedding_dim=16, projection_dim=16)
BRIEF = replace(SMALL, epochs=3)


def made_views(
    seed: int = 0, n: int = 150, d: int = 12, n_views: int = 4, n_positive: int = 12
) -> tuple[FeatureViews, NDArray[np.bool_]]:
    """Features in which damage moves three of twelve columns, seen through noisy views; and the truth."""
    rng = np.random.default_rng(seed)
    is_damaged = rng.random(n) < 0.4
    chips = rng.normal(size=(n, d))
    chips[:, :3] += np.where(is_damaged, 3.0, -3.0)[:, None]
    views = chips + 0.3 * rng.normal(size=(n_views, n, d))
    is_positive = np.zeros(n, dtype=bool)
    is_positive[np.flatnonzero(is_damaged)[:n_positive]] = True
    return FeatureViews(views.astype(np.float16), is_positive, np.zeros(n, dtype=bool)), is_damaged


@pytest.fixture(scope="module")
def trained() -> tuple[FeatureViews, PuclModel]:
    """A model for tests that only look at it."""
    data, _ = made_views()
    return data, fit(data, SMALL, run_of())


def run_of(seed: int = 0, **others: object) -> Run:
    return Run(CPU, seed, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["pucl", "sscl", "scl_pu"])
@pytest.mark.parametrize("width", [0, 32])
def test_ranks_hidden_damage_above_the_rest(loss: str, width: int) -> None:
    data, is_damaged = made_views()
    model = fit(data, replace(SMALL, width=width, loss=loss), run_of())
    hidden = ~data.is_positive
    assert roc_auc_score(is_damaged[hidden], model.score(data.views[0])[hidden]) > 0.9
    assert model.pupl is not None
    assert model.pupl.oriented
    assert (model.pupl.labels == is_damaged).mean() > 0.8


def test_each_loss_setting_uses_its_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = made_views()
    for name in ("pucl", "sscl", "scl_pu"):
        called = set()

        def spy(z1, z2, positive, temperature, *, kept=pucl._LOSSES[name], name=name, called=called):  # type: ignore[no-untyped-def]
            called.add((name, temperature))
            return kept(z1, z2, positive, temperature)

        monkeypatch.setitem(pucl._LOSSES, name, spy)
        fit(data, PuclSettings(loss=name, epochs=1, temperature=0.3), run_of())
        assert called == {(name, 0.3)}


def test_embeddings_and_scores_keep_their_contract(trained: tuple[FeatureViews, PuclModel]) -> None:
    data, model = trained
    for features, n in ((data.views, 150), (data.views[1], 150), (data.views[:, :1], 1), (data.views[:, :0], 0)):
        embeddings, scores = model.embed(features), model.score(features)
        assert embeddings.dtype == scores.dtype == np.float32
        assert embeddings.shape == (n, 16)
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
        assert scores.shape == (n,)
        assert ((scores >= 0) & (scores <= 1)).all()
    with pytest.raises(ShapeError, match="12"):
        model.embed(data.views[0][:, :5])


def test_embedding_of_several_views_is_their_unit_mean(trained: tuple[FeatureViews, PuclModel]) -> None:
    data, model = trained
    mean = np.mean([model.embed(view) for view in data.views], axis=0)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(data.views), expected, atol=1e-5)


def test_score_is_the_classifier_on_the_embedding(trained: tuple[FeatureViews, PuclModel]) -> None:
    data, model = trained
    state = model.state()
    logits = model.embed(data.views[0]) @ state["classifier.weight"].numpy()[0] + state["classifier.bias"].numpy()
    np.testing.assert_allclose(model.score(data.views[0]), 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_classifier_reaches_the_minimum_of_its_loss(trained: tuple[FeatureViews, PuclModel]) -> None:
    # Gradient of mean cross-entropy + l2 / 2 |w|^2: mean((sigmoid - label) x) + l2 w, and mean(sigmoid - label).
    data, model = trained
    assert model.pupl is not None
    rest = (model.score(data.views) - model.pupl.labels)[:, None]
    weight = model.state()["classifier.weight"].numpy()[0]
    gradient = (rest * model.embed(data.views)).mean(axis=0) + SMALL.classifier_l2 * weight
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    assert abs(rest.mean()) < 1e-4


def test_same_seed_same_model_whatever_the_global_random_state() -> None:
    data, _ = made_views()
    states = []
    for seed, disturbance in ((3, 0), (3, 99), (4, 0)):
        torch.manual_seed(disturbance)
        states.append(fit(data, BRIEF, run_of(seed)).state())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["out.weight"], states[2]["out.weight"])


def test_fit_leaves_the_global_random_state_alone() -> None:
    data, _ = made_views()
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    fit(data, BRIEF, run_of())
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_state_builds_the_same_model_again() -> None:
    data, _ = made_views()
    for width in (0, 32):
        settings = PuclSettings(epochs=2, width=width, embedding_dim=16, projection_dim=8)
        model = fit(data, settings, run_of())
        again = PuclModel.from_state(copy.deepcopy(model.state()))
        np.testing.assert_array_equal(again.score(data.views), model.score(data.views))
        assert not [name for name in model.state() if "head" in name or "projection" in name]


def test_left_out_chips_change_nothing_yet_can_be_scored() -> None:
    data, _ = made_views()
    left_out = np.zeros(150, dtype=bool)
    left_out[[3, 40, 41, 149]] = True
    with_them = FeatureViews(data.views.copy(), data.is_positive | left_out, left_out)
    with_them.views[:, left_out] = 1000
    kept = FeatureViews(data.views[:, ~left_out], data.is_positive[~left_out], np.zeros(146, dtype=bool))
    ours, theirs = fit(with_them, BRIEF, run_of()), fit(kept, BRIEF, run_of())
    np.testing.assert_array_equal(ours.score(data.views), theirs.score(data.views))
    assert ours.pupl is not None
    assert len(ours.pupl.labels) == 146


def test_standardises_features_of_any_scale() -> None:
    data, is_damaged = made_views()
    factors = np.logspace(-1, 2, 12)
    scaled = FeatureViews((data.views * factors + 50 * factors).astype(np.float32), data.is_positive, data.is_left_out)
    hidden = ~data.is_positive
    assert roc_auc_score(is_damaged[hidden], fit(scaled, SMALL, run_of()).score(scaled.views)[hidden]) > 0.95


def test_a_constant_feature_does_no_harm() -> None:
    data, _ = made_views()
    data.views[:, :, 5] = 7
    assert np.isfinite(fit(data, BRIEF, run_of()).score(data.views)).all()


def test_each_epoch_shows_every_chip_once_in_two_different_views() -> None:
    rows = np.arange(30)
    views = (100 * rows[None, :, None] + np.arange(3)[:, None, None]).astype(np.float32)
    data = FeatureViews(views, rows < 4, np.zeros(30, dtype=bool))  # type: ignore[arg-type]
    parts = list(pucl._batches(data, rows, 8, torch.Generator().manual_seed(0)))
    first, second = (torch.cat([part[i] for part in parts])[:, 0] for i in (0, 1))
    assert sorted((first // 100).int().tolist()) == list(range(30))
    assert torch.equal(first // 100, second // 100)
    assert (first % 100 != second % 100).all()
    assert set((first % 100).int().tolist()) == {0, 1, 2}
    assert {len(part[0]) for part in parts} == {7, 8}
    assert torch.equal(torch.cat([part[2] for part in parts]), first // 100 < 4)


def test_reports_every_epoch_with_plain_numbers() -> None:
    data, _ = made_views()
    told: list[Mapping[str, object]] = []
    model = fit(data, SMALL, run_of(report=told.append))
    assert [facts["epoch"] for facts in told] == list(range(1, 16))
    assert all(facts["epochs"] == 15 and type(facts["loss"]) is float for facts in told)
    assert float(str(told[-1]["loss"])) < float(str(told[0]["loss"]))
    assert model.pupl is not None
    assert told[-1]["share_positive"] == pytest.approx(model.pupl.labels[~data.is_positive].mean())


def test_many_chips_get_fewer_epochs_but_at_least_one() -> None:
    # 150 chips in batches of 64 are 3 steps an epoch: 7 steps hold 2 epochs, 2 steps hold none, so one is done.
    data, _ = made_views()
    for max_steps, epochs in ((7, 2), (2, 1)):
        told: list[Mapping[str, object]] = []
        fit(data, replace(SMALL, max_steps=max_steps), run_of(report=told.append))
        assert [facts["epoch"] for facts in told] == list(range(1, epochs + 1))
        assert told[-1]["epochs"] == epochs
        assert "share_positive" in told[-1]


def test_stops_at_the_next_batch_when_cancelled() -> None:
    data, _ = made_views()
    asked = threading.Event()
    told: list[object] = []

    def report(facts: Mapping[str, object]) -> None:
        told.append(facts)
        asked.set()

    with pytest.raises(JobCancelled):
        fit(data, SMALL, run_of(report=report, is_cancelled=asked.is_set))
    assert len(told) == 1


def test_stops_when_the_loss_is_no_longer_a_number() -> None:
    data, _ = made_views()
    data.views[:, 7] = np.nan
    with pytest.raises(TrainingError, match="epoch 1, batch 1"):
        fit(data, SMALL, run_of())


@pytest.mark.parametrize("n_positive", [1, 2])
def test_trains_with_hardly_any_positive(n_positive: int) -> None:
    data, is_damaged = made_views(n_positive=n_positive)
    scores = fit(data, SMALL, run_of()).score(data.views)
    assert roc_auc_score(is_damaged[~data.is_positive], scores[~data.is_positive]) > 0.9


def test_a_batch_size_that_leaves_one_chip_over_is_no_trouble() -> None:
    data, _ = made_views(n=33, n_positive=5)
    model = fit(data, PuclSettings(epochs=2, batch_size=32, embedding_dim=8, projection_dim=8), run_of())
    assert np.isfinite(model.score(data.views)).all()


def test_refuses_data_without_contrast() -> None:
    data, _ = made_views()
    nobody = np.zeros(150, dtype=bool)
    with pytest.raises(TrainingError, match="has 1"):
        fit(FeatureViews(data.views[:1], data.is_positive, nobody), SMALL, run_of())
    for positive, count in ((nobody, "0 positives"), (~nobody, "150 positives")):
        with pytest.raises(TrainingError, match=count):
            fit(FeatureViews(data.views, positive, nobody), SMALL, run_of())


def test_learning_rate_warms_up_and_falls_to_zero() -> None:
    factors = [pucl._warmup_then_cosine(step, 100) for step in range(100)]
    # Tenth of 100 steps: 1/10, 2/10, .. 1; then cosine: half way (step 55) is 0.5.
    assert factors[0] == pytest.approx(0.1)
    assert factors[9] == pytest.approx(1)
    assert factors[55] == pytest.approx(0.5)
    assert factors[99] < 0.001


def test_presets_are_valid() -> None:
    for preset in PRESETS["pucl"].values():
        PuclSettings(**preset)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="loss"):
        PuclSettings(loss="dcl")


def joplin_chips(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Cut a 48 px chip (nearest pixel) around each footprint of one scene pair; and whether it is major or destroyed."""
    with rasterio.open(folder / "pre.tif") as pre, rasterio.open(folder / "post.tif") as post:
        bands, inverse, crs = np.concatenate([pre.read(), post.read()]), ~post.transform, post.crs
    table = geopandas.read_file(folder / "buildings.geojson").to_crs(crs)
    table = table[table.damage != "un-classified"]
    step = (np.arange(48) + 0.5) / 48
    chips = []
    for west, south, east, north in table.bounds.to_numpy():
        (left, top), (right, bottom) = inverse @ (west, north), inverse @ (east, south)
        margin = 0.5 * max(right - left, bottom - top)
        columns = left - margin + (right - left + 2 * margin) * step
        rows = top - margin + (bottom - top + 2 * margin) * step
        inside = [np.clip(values, 0, 1023).astype(int) for values in (rows, columns)]
        chips.append(bands[:, inside[0][:, None], inside[1]])
    return np.stack(chips), table.damage.isin(["destroyed", "major-damage"]).to_numpy()


@pytest.mark.slow
def test_finds_damaged_buildings_in_joplin(joplin: Path) -> None:
    parts = [joplin_chips(joplin / f"joplin-tornado_0000000{scene}") for scene in (0, 1)]
    chips, is_damaged = (np.concatenate(part) for part in zip(*parts, strict=True))
    bank = fit_rcf(chips, 128, torch.Generator().manual_seed(0))
    views = extract_views(chips, bank, 6, seed=0, device=CPU)
    aucs = []
    for seed in range(3):
        is_positive = np.zeros(len(chips), dtype=bool)
        is_positive[np.random.default_rng(seed).choice(np.flatnonzero(is_damaged), 30, replace=False)] = True
        data = FeatureViews(views, is_positive, np.zeros(len(chips), dtype=bool))
        scores = fit(data, PuclSettings(), run_of(seed)).score(views)
        aucs.append(roc_auc_score(is_damaged[~is_positive], scores[~is_positive]))
    assert np.mean(aucs) > 0.85, aucs  # .91 to .93 when written
