"""PUCL with PUPL on cached features."""

from dataclasses import replace

import numpy as np
import pytest
from method_parts import CPU, made_up
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from pu_geo.analysis import pseudo_labels
from pu_geo.methods import pucl
from pu_geo.methods.cards.pucl import PuclSettings
from pu_geo.methods.pucl import fit
from pu_geo.training.data import FeatureViews, PUData
from pu_geo.training.run import Run

SMALL = PuclSettings(epochs=15, batch_size=64, lr=0.01, width=32, embedding_dim=16, projection_dim=16)
BRIEF = replace(SMALL, epochs=3)


def made_views(n_positive: int = 16) -> tuple[PUData, NDArray[np.bool_]]:
    data, truth = made_up()
    is_positive = np.isin(np.arange(240), np.flatnonzero(data.is_positive)[:n_positive])
    return PUData(data.inputs, is_positive, data.is_excluded), truth


def run_of(seed: int = 0, **others: object) -> Run:
    return Run(CPU, seed, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(("loss", "width"), [("pucl", 0), ("sscl", 32), ("scl_pu", 32)])
def test_ranks_hidden_damage_above_the_rest(loss: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, is_damaged = made_views()
    kept, called = pucl._LOSSES[loss], []

    def spy(*views_and_labels: Tensor, temperature: float) -> Tensor:
        called.append(temperature)
        return kept(*views_and_labels, temperature=temperature)

    monkeypatch.setitem(pucl._LOSSES, loss, spy)
    model = fit(data, replace(SMALL, width=width, loss=loss, temperature=0.3), run_of())
    assert set(called) == {0.3}
    hidden = ~data.is_positive
    assert roc_auc_score(is_damaged[hidden], model.score(data.inputs.views[0])[hidden]) > 0.9


@pytest.mark.parametrize("reading", ["two_means", "clusters"])
def test_score_is_a_classifier_on_the_embedding_at_the_minimum_of_its_loss(reading: str) -> None:
    # Gradient of mean cross-entropy + l2 / 2 |w|^2: mean((sigmoid - label) x) + l2 w, and mean(sigmoid - label).
    data, _ = made_views()
    factors = np.logspace(-1, 2, 16)  # features of any scale are standardised
    data = replace(data, inputs=FeatureViews((data.inputs.views * factors + 50 * factors).astype(np.float32)))
    model = fit(data, replace(SMALL, pseudo_labels=reading), run_of())
    assert model.findings["reading"] == reading
    state, embeddings = model.state(), model.embed(data.inputs.views)
    weight, bias = state["classifier.weight"].numpy()[0], state["classifier.bias"].numpy()
    plain = model.embed(data.inputs.views[0]) @ weight + bias
    np.testing.assert_allclose(model.score(data.inputs.views[0]), 1 / (1 + np.exp(-plain)), atol=1e-5)
    rest = (1 / (1 + np.exp(-embeddings @ weight - bias)) - model.findings["pseudo_labels"])[:, None]
    gradient = (rest * embeddings).mean(axis=0) + SMALL.classifier_l2 * weight
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    assert abs(rest.mean()) < 1e-4


@pytest.mark.parametrize("n_positive", [1, 2])
def test_trains_with_hardly_any_positive(n_positive: int) -> None:
    data, is_damaged = made_views(n_positive=n_positive)
    run = run_of()
    scores = fit(data, SMALL, run).score(data.inputs.views)
    assert run.warnings == [f"{n_positive} clicks are too few to hold some out and choose pseudo labels by them."]
    assert roc_auc_score(is_damaged[~data.is_positive], scores[~data.is_positive]) > 0.9


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
