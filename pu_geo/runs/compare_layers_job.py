"""What each layer adds, on the analyst's own clicks: fit without some clicks, and look where these come."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff
from pu_geo.analysis.bakeoff import Bools
from pu_geo.features.layers import without
from pu_geo.methods import catalog
from pu_geo.methods.fitting import fit_and_score
from pu_geo.methods.settings import NetworkSettings
from pu_geo.records import Facts, FeatureRequest, Floats, Ints
from pu_geo.runs import layer_comparison as comparison
from pu_geo.runs.inputs_job import RunInputs, read_inputs
from pu_geo.runs.layer_comparison import Comparison, Row
from pu_geo.scenes.features_job import features
from pu_geo.store import contents, feature_sets, freshness, store
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import LAYERS
from pu_geo.training.data import FeatureViews
from pu_geo.training.run import Run, best_device

_MAKING = 0.4  # of the job, where the set of all layers has to be made first
MOST_UNLABELED = 1500  # unlabeled buildings that are learned from and that places are among; of more, a draw
_SEED = 0


def compare_layers(job: Job) -> Facts:
    """Compare all layers with all but one, by the default method; store the result as the last one. It chooses nothing.

    The set of all layers is made where it is not there. A bank of filters does not depend on the others, so the set without
    a layer is this one less its columns: none of them is made. What buildings lack is filled in anew, without that layer.

    Returns:
        A `Comparison` as `asdict` gives it.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if there are too few clicks, or there is one layer.
        JobCancelled: if the user cancelled.
    """
    comparison.require(job.layout)
    chip_set, began = freshness.require(job.layout), 0.0
    layers = feature_sets.usual_layers(contents.views_of(contents.chip_facts(job.layout, chip_set)))
    request = FeatureRequest(LAYERS, layers=layers)
    if not feature_sets.is_there(job.layout, chip_set, whole_set := feature_sets.name_of(request, "")):
        began = _MAKING
        features(Part(job, 0.0, began), request=asdict(request))
    whole = read_inputs(job.layout, feature_set=whole_set)
    rows = drawn(whole)
    inputs = of_rows(whole, rows)
    own, n_unlabeled = np.flatnonzero(comparison.own_clicks(inputs.pu)), len(unlabeled_of(inputs))
    comparison.require_clicks(len(own), n_unlabeled)
    is_missing = np.zeros((len(layers), len(rows)), np.bool_) if inputs.is_missing is None else inputs.is_missing
    is_used = np.ones(len(rows), np.bool_) if whole.is_hidden is None else ~whole.is_hidden[rows]
    names, done = ["", *layers], 0
    n_fits = len(names) * min(bakeoff.N_FOLDS, len(own)) * bakeoff.N_REPEATS

    def score(is_out: Bools) -> NDArray[np.floating]:
        nonlocal done
        job.stop_if_cancelled()
        job.report(began + (0.99 - began) * done / n_fits, name or "all layers")
        done += 1
        return scores(there, is_out, job)

    found: list[Row] = []
    base: Floats | None = None
    for name in names:
        there = replace(inputs, views=without(np.asarray(whole.views[:, rows]), whole.layers, is_missing, is_used, name))
        held_out = bakeoff.held_out_places(score, own, unlabeled_of(there), len(rows), seed=_SEED)
        places = bakeoff.log_places(held_out)
        base = places if base is None else base
        found.append(Row(name, bakeoff.typical(bakeoff.bootstrap(places)), bakeoff.bootstrap(places - base)))
    n_others = int(inputs.pu.is_positive.sum()) - len(own)
    result = Comparison(store.now(), inputs.pu.at_event, chip_set, len(own), n_others, n_unlabeled, found)
    comparison.keep(job.layout, result)
    return asdict(result)


def scores(inputs: RunInputs, is_out: Bools, job: Job) -> NDArray[np.floating]:
    """Fit the default method without some buildings, bool [N], from features that are there, and score all."""
    card = catalog.card(catalog.DEFAULT_METHOD)
    settings: NetworkSettings = catalog.settings_for(card.name, next(iter(card.presets)))
    left = replace(inputs, pu=inputs.pu.without(is_out))
    data = left.marked(FeatureViews(np.asarray(left.views)))
    run = Run(best_device(), _SEED, is_cancelled=job.is_cancelled)
    return fit_and_score(card, data, settings, run, prior=left.prior, start_k=1, is_unlabeled=left.is_unlabeled).scores


def unlabeled_of(inputs: RunInputs) -> Ints:
    """Return the rows that places are among, int64, rising: nobody answered them, and they are of no accepted cluster."""
    is_open = inputs.pu.is_open
    return np.flatnonzero(is_open if inputs.is_accepted is None else is_open & ~inputs.is_accepted)


def drawn(inputs: RunInputs) -> Ints:
    """Return the rows that a comparison is made on, int64, rising: all that are learned from, and so many of the
    unlabeled.
    """
    every, unlabeled = np.flatnonzero(~inputs.pu.is_excluded), unlabeled_of(inputs)
    kept = unlabeled
    if len(unlabeled) > MOST_UNLABELED:
        kept = np.random.default_rng(_SEED).choice(unlabeled, MOST_UNLABELED, replace=False)
    return np.union1d(np.setdiff1d(every, unlabeled), kept)


def of_rows(inputs: RunInputs, rows: Ints) -> RunInputs:
    """Return inputs of some buildings alone, with the views of all; what is hidden is not among them."""
    pu = inputs.pu
    left = replace(
        pu, building_ids=[pu.building_ids[row] for row in rows], is_positive=pu.is_positive[rows],
        is_not_damaged=pu.is_not_damaged[rows], is_excluded=pu.is_excluded[rows],
        is_queued=None if pu.is_queued is None else pu.is_queued[rows],
    )  # fmt: skip
    is_accepted = None if inputs.is_accepted is None else inputs.is_accepted[rows]
    is_missing = None if inputs.is_missing is None else inputs.is_missing[:, rows]
    return replace(inputs, pu=left, is_accepted=is_accepted, is_hidden=None, is_missing=is_missing)
