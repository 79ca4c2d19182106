"""Whoever cancels a training is heard wherever it is: the work between two questions is counted, in batches and passes."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from method_parts import CPU, NAMES, fit, made_up, short

from pu_geo.analysis import pupl, two_readings
from pu_geo.analysis.neighbor_graph import NeighborGraph
from pu_geo.methods import linear, propagation
from pu_geo.methods.ncl import consensus_clusters, discovery
from pu_geo.training.data import FeatureViews
from pu_geo.training.network import FeatureExtractor, TrainedModel
from pu_geo.training.run import Run

N_VIEWS = 5
MOST: Mapping[tuple[Any, str], int] = {
    (FeatureViews, "draw"): 2,  # what statistics are fitted to, and a batch
    (FeatureExtractor, "forward"): N_VIEWS + 3,  # the last block of an evaluation, and a batch
    (pupl, "_sides"): 2,  # one pass over all chips; another one where a clustering begins
    (pupl, "k_means"): 1,
    (discovery, "k_means"): 1,
    (discovery, "silhouette"): 1,
    (NeighborGraph, "weights"): 2,
    (two_readings, "label_propagation"): 1,
    (propagation, "plain_and_roots"): 1,
    (consensus_clusters, "k_means"): 1,
}
"""What takes long on many chips -> how often it is done between two questions, at most."""


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is done since the counts were cleared; blocks are small, so that there are several."""
    monkeypatch.setattr("pu_geo.training.callbacks.MOST_TIME", math.inf)  # evaluated whatever it costs
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
