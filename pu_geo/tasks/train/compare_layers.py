"""What does each layer add? Fit all layers, and all without each one, without some of the analyst's clicks; look where these come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff
from pu_geo.features.layers import without
from pu_geo.methods import catalog
from pu_geo.project import contents, feature_sets, freshness, store
from pu_geo.project.contents import chip_facts
from pu_geo.project.layout import LAYERS
from pu_geo.records import FeatureRequest
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.services.train import layer_comparison
from pu_geo.services.train.layer_comparison import METHODS, LayerComparison, LayerRow
from pu_geo.tasks.imagery.features import features
from pu_geo.tasks.job import Job, Part
from pu_geo.tasks.train.compare_features import drawn, held_out, of_rows, require_views, unlabeled_of
from pu_geo.tasks.train.inputs import read_inputs

_MAKING = 0.4  # of the job, where the set has to be made first


def compare_layers(job: Job, *, methods: Sequence[str] = METHODS) -> dict[str, object]:
    """Measure what each layer adds to all others, and store the result as the project's last one. It chooses nothing.

    The set of all layers is made where it is not there. A bank of filters does not depend on the others, so the set without a layer
    is this one less its columns: none of them is made. What buildings lack is filled in anew, without that layer.

    Args:
        methods: "ranker", or names of the catalog.

    Returns:
        What `LayerComparison.as_json` gives.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if the chips have fewer than two layers, there are too few clicks, or a method cannot be compared.
        JobCancelled: if the user cancelled.
    """
    layer_comparison.require(job.layout, methods)
    chip_set = freshness.require(job.layout)
    facts = chip_facts(job.layout, chip_set)
    layers = feature_sets.usual_layers(contents.views_of(facts))
    request = FeatureRequest(LAYERS, layers=layers)
    name, began = feature_sets.name_of(request, ""), 0.0
    if not feature_sets.is_there(job.layout, chip_set, name):
        features(Part(job, 0.0, _MAKING), request=asdict(request))
        began = _MAKING
    whole = read_inputs(job.layout, feature_set=name)
    rows = drawn(whole)
    is_own = comparison.own_clicks(whole.pu)
    inputs = of_rows(whole, rows)
    own, n_unlabeled = np.flatnonzero(is_own[rows]), len(unlabeled_of(inputs))
    comparison.require_clicks(len(own), int(inputs.pu.is_positive.sum()), n_unlabeled, methods)
    require_views({name: len(whole.views)}, methods)
    views = np.asarray(whole.views[:, rows])
    n = len(rows)
    is_missing = np.zeros((len(layers), n), np.bool_) if whole.is_missing is None else whole.is_missing[:, rows]
    is_used = np.ones(n, np.bool_) if whole.is_hidden is None else ~whole.is_hidden[rows]
    n_fits, done = (len(layers) + 1) * len(methods) * min(bakeoff.N_FOLDS, len(own)) * bakeoff.N_REPEATS, 0

    def places(method: str, less: str) -> NDArray[np.float64]:
        def before_a_fit() -> None:
            nonlocal done
            job.stop_if_cancelled()
            words = f"without {less}" if less else "all layers"
            job.report(began + (0.99 - began) * done / n_fits, f"{words}, {catalog.name_within(method)}")
            done += 1

        left = without(views, whole.layers, is_missing, is_used, less)
        return held_out(method, replace(inputs, views=left), own, before_a_fit, job.is_cancelled)

    found = []
    for method in methods:
        all_of_them = places(method, "")
        for layer in layers:
            less = places(method, layer)
            ap, ap_without = (_precision(each, n_unlabeled) for each in (all_of_them, less))
            found.append(LayerRow(layer, method, ap, ap_without, bakeoff.gain(all_of_them, less, n_unlabeled)))
    n_others = int(inputs.pu.is_positive.sum()) - len(own)
    result = LayerComparison(
        store.now(), inputs.pu.at_event, chip_set, name, len(own), n_others, n_unlabeled, found, _lacking(whole.is_missing, layers),
    )  # fmt: skip
    layer_comparison.keep(job.layout, result)
    return result.as_json()


def _precision(places: NDArray[np.float64], n_unlabeled: int) -> float:
    """Return the average precision of held-out clicks, averaged over repeats; `places`: float64 [R, P]."""
    return float(np.mean([bakeoff.average_precision(one, n_unlabeled) for one in places]))


def _lacking(is_missing: NDArray[np.bool_] | None, layers: Sequence[str]) -> Mapping[str, int]:
    """Return how many buildings lack each layer."""
    return {} if is_missing is None else dict(zip(layers, is_missing.sum(axis=1).tolist(), strict=True))
