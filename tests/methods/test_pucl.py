"""PUCL with PUPL on cached features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks import ranking_sources
from pu_geo.analysis import pseudo_labels
from pu_geo.analysis.pseudo_labels import Choice
from pu_geo.features.rcf import RcfBank, RcfSettings
from pu_geo.methods import pucl
from pu_geo.methods.cards.pucl import PuclSettings
from pu_geo.methods.pucl import fit
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

CPU = torch.device("cpu")
SMALL = PuclSettings(epochs=15, batch_size=64, lr=0.01, width=32, embedding_dim=16, projection_dim=16)
BRIEF = replace(SMALL, epochs=3)


def made_views(
    seed: int = 0, n: int = 150, d: int = 12, n_views: int = 4, n_positive: int = 12
) -> tuple[PUData, NDArray[np.bool_]]:
    """Features in which damage moves three of twelve columns, seen through noisy views; and the truth."""
    rng = np.random.default_rng(seed)
    is_damaged = rng.random(n) < 0.4
    chips = rng.normal(size=(n, d))
    chips[:, :3] += np.where(is_damaged, 3.0, -3.0)[:, None]
    views = chips + 0.3 * rng.normal(size=(n_views, n, d))
    is_positive = np.zeros(n, dtype=bool)
    is_positive[np.flatnonzero(is_damaged)[:n_positive]] = True
    return PUData(FeatureViews(views.astype(np.float16)), is_positive, np.zeros(n, dtype=bool)), is_damaged


@pytest.fixture(scope="module")
def trained() -> tuple[PUData, TrainedModel]:
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
    assert roc_auc_score(is_damaged[hidden], model.score(data.inputs.views[0])[hidden]) > 0.9
    assert model.findings["pupl"].oriented
    assert (model.findings["pupl"].labels == is_damaged).mean() > 0.8


def test_each_loss_setting_uses_its_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = made_views()
    for name in ("pucl", "sscl", "scl_pu"):
        called = set()

        def spy(z1, z2, positive, temperature, *, kept=pucl._LOSSES[name], name=name, called=called):  # type: ignore[no-untyped-def]
            called.add((name, temperature))
            return kept(z1, z2, positive, temperature=temperature)

        monkeypatch.setitem(pucl._LOSSES, name, spy)
        fit(data, PuclSettings(loss=name, epochs=1, temperature=0.3), run_of())
        assert called == {(name, 0.3)}


def test_looks_warn_of_nothing_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.training.callbacks.MOST_TIME", float("inf"))
    monkeypatch.setattr(pucl, "choose", lambda _: Choice("clusters", "in doubt", {}))
    told: list[Mapping[str, object]] = []
    run = run_of(report=told.append, evaluate=lambda model, _: {"n": len(model.findings["pseudo_labels"])})
    fit(made_views()[0], BRIEF, run)
    assert [event.get("n") for event in told] == [None] + [150] * 3, "the choice of pseudo labels evaluates nothing"
    assert run.warnings == ["in doubt"]


def test_score_is_the_classifier_on_the_embedding(trained: tuple[PUData, TrainedModel]) -> None:
    data, model = trained
    state = model.state()
    logits = model.embed(data.inputs.views[0]) @ state["classifier.weight"].numpy()[0] + state["classifier.bias"].numpy()
    np.testing.assert_allclose(model.score(data.inputs.views[0]), 1 / (1 + np.exp(-logits)), atol=1e-5)


@pytest.mark.parametrize("reading", ["two_means", "clusters"])
def test_classifier_reaches_the_minimum_of_its_loss(reading: str) -> None:
    # Gradient of mean cross-entropy + l2 / 2 |w|^2: mean((sigmoid - label) x) + l2 w, and mean(sigmoid - label).
    data, _ = made_views()
    model = fit(data, replace(SMALL, pseudo_labels=reading), run_of())
    assert model.findings["reading"] == reading
    state, embeddings = model.state(), model.embed(data.inputs.views)
    weight, bias = state["classifier.weight"].numpy()[0], state["classifier.bias"].numpy()
    rest = (1 / (1 + np.exp(-embeddings @ weight - bias)) - model.findings["pseudo_labels"])[:, None]
    gradient = (rest * embeddings).mean(axis=0) + SMALL.classifier_l2 * weight
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    assert abs(rest.mean()) < 1e-4


def test_standardises_features_of_any_scale() -> None:
    data, is_damaged = made_views()
    factors = np.logspace(-1, 2, 12)
    views = (data.inputs.views * factors + 50 * factors).astype(np.float32)
    scaled = PUData(FeatureViews(views), data.is_positive, data.is_excluded)
    hidden = ~data.is_positive
    assert roc_auc_score(is_damaged[hidden], fit(scaled, SMALL, run_of()).score(scaled.inputs.views)[hidden]) > 0.95


@pytest.mark.parametrize("n_positive", [1, 2])
def test_trains_with_hardly_any_positive(n_positive: int) -> None:
    data, is_damaged = made_views(n_positive=n_positive)
    run = run_of()
    scores = fit(data, SMALL, run).score(data.inputs.views)
    assert run.warnings == [f"{n_positive} clicks are too few to hold some out and choose pseudo labels by them."]
    assert roc_auc_score(is_damaged[~data.is_positive], scores[~data.is_positive]) > 0.9


@pytest.mark.slow
def test_finds_damaged_buildings_in_joplin(joplin: Path) -> None:
    event = ranking_sources.joplin(joplin.parent)
    chips, is_damaged = event["chips"].astype(np.uint8), event["is_damaged"].astype(bool)
    bank = RcfBank.fit(chips, torch.Generator().manual_seed(0), RcfSettings(n_filters=128))
    views = bank.transform(chips, 6, seed=0, device=CPU)
    aucs = []
    for seed in range(3):
        is_positive = np.zeros(len(chips), dtype=bool)
        is_positive[np.random.default_rng(seed).choice(np.flatnonzero(is_damaged), 30, replace=False)] = True
        data = PUData(FeatureViews(views), is_positive, np.zeros(len(chips), dtype=bool))
        scores = fit(data, PuclSettings(), run_of(seed)).score(views)
        aucs.append(roc_auc_score(is_damaged[~is_positive], scores[~is_positive]))
    assert np.mean(aucs) > 0.85, aucs  # .91 to .93 when written


def test_clicks_of_the_analyst_choose_and_no_members_of_accepted_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of a cluster follow the clustering that proposed them, and would outvote the clicks."""
    judged: list[list[int]] = []

    def log_places(
        _: object, is_positive: NDArray[np.bool_], is_judging: NDArray[np.bool_]
    ) -> dict[str, NDArray[np.float64]]:
        assert is_positive[is_judging].all()
        judged.append(np.flatnonzero(is_judging).tolist())
        return {reading: np.linspace(-1.5, -1.4, int(is_judging.sum())) for reading in pseudo_labels.READINGS}

    monkeypatch.setattr(pseudo_labels.Readings, "log_places", log_places)
    data = made_views()[0]
    at = np.flatnonzero(data.is_positive)
    nobody = np.zeros(len(data.is_positive), np.bool_)
    accepted, queued = (np.isin(np.arange(len(nobody)), some) for some in (at[:3], at[3:5]))
    for given in (
        replace(data, is_accepted=accepted, is_queued=queued),
        replace(data, is_queued=np.isin(np.arange(len(nobody)), at[2:])),
    ):
        fit(given, BRIEF, run_of())
    assert judged == [at[5:].tolist(), at.tolist()], "with 2 of their own left, all clicks judge"
