"""Compare feature sets, or layers, on the analyst's own clicks: fit each without some clicks, and look where these come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff, estimates, ranker
from pu_geo.analysis.bakeoff import Bools, Score
from pu_geo.errors import TrainingError
from pu_geo.features.layers import without
from pu_geo.methods import catalog
from pu_geo.methods.fitting import fit_and_score, pu_data
from pu_geo.methods.settings import NetworkSettings
from pu_geo.records import Facts, FeatureRequest, Floats, Ints
from pu_geo.runs import feature_comparison as comparison
from pu_geo.runs.feature_comparison import METHODS, RANKER, Comparison, Row
from pu_geo.runs.inputs_job import RunInputs, read_inputs
from pu_geo.scenes.features_job import features
from pu_geo.store import contents, feature_sets, freshness, store
from pu_geo.store.job import Job, Part
from pu_geo.store.layout import LAYERS, RCF
from pu_geo.training.data import FeatureViews
from pu_geo.training.run import Run, best_device

_MAKING = 0.4  # of the job, where the set of all layers has to be made first
MOST_UNLABELED = 1500  # unlabeled buildings that are learned from and that places are among; of more, a draw
_SEED = 0


def compare_features(job: Job, *, of: str, methods: Sequence[str] = METHODS) -> Facts:
    """Compare all feature sets, or all layers with all but one, by some methods; store the result as the last one. It
    chooses nothing.

    The set of all layers is made where it is not there. A bank of filters does not depend on the others, so the set without
    a layer is this one less its columns: none of them is made. What buildings lack is filled in anew, without that layer.

    Args:
        of: "features" or "layers".
        methods: "ranker", or names of the catalog; the default one judges if it is among them, else the first.

    Returns:
        A `Comparison` as `asdict` gives it.

    Raises:
        ProjectError: if there are no chips.
        TrainingError: if there are too few clicks, a method is unknown or cannot be compared, or there is one layer.
        JobCancelled: if the user cancelled.
    """
    comparison.require(job.layout, of, methods)
    chip_set, first, began = freshness.require(job.layout), RCF, 0.0
    if of == "layers":
        layers = feature_sets.usual_layers(contents.views_of(contents.chip_facts(job.layout, chip_set)))
        request = FeatureRequest(LAYERS, layers=layers)
        first = feature_sets.name_of(request, "")
        if not feature_sets.is_there(job.layout, chip_set, first):
            began = _MAKING
            features(Part(job, 0.0, began), request=asdict(request))
    whole = read_inputs(job.layout, feature_set=first)
    rows = drawn(whole)
    inputs = of_rows(whole, rows)
    own, n_unlabeled = np.flatnonzero(comparison.own_clicks(inputs.pu)), len(unlabeled_of(inputs))
    comparison.require_clicks(len(own), int(inputs.pu.is_positive.sum()), n_unlabeled, methods)
    names = ["", *layers] if of == "layers" else [one.name for one in feature_sets.all_sets(job.layout, chip_set)]

    def views_of(name: str) -> NDArray[np.float16]:
        if of == "features":
            return np.asarray(feature_sets.views(job.layout, chip_set, name)[:, rows])
        is_missing = np.zeros((len(layers), len(rows)), np.bool_) if inputs.is_missing is None else inputs.is_missing
        is_used = np.ones(len(rows), np.bool_) if whole.is_hidden is None else ~whole.is_hidden[rows]
        return without(np.asarray(whole.views[:, rows]), whole.layers, is_missing, is_used, name)

    for name in names:
        _require_views(
            name or first, len(whole.views if of == "layers" else feature_sets.views(job.layout, chip_set, name)), methods
        )
    n_fits, done = len(names) * len(methods) * min(bakeoff.N_FOLDS, len(own)) * bakeoff.N_REPEATS, 0
    found: list[Row] = []
    base: dict[str, Floats] = {}

    def before_a_fit(words: str) -> None:
        nonlocal done
        job.stop_if_cancelled()
        job.report(began + (0.99 - began) * done / n_fits, words)
        done += 1

    for name in names:
        there = replace(inputs, views=views_of(name))
        for method in methods:
            words = f"{name or 'all layers'}, {catalog.name_within(method)}"
            places = places_by(method, there, own, partial(before_a_fit, words), job.is_cancelled)
            difference = bakeoff.bootstrap(places - base.setdefault(method, places))
            found.append(Row(name, method, bakeoff.typical(bakeoff.bootstrap(places)), difference))
    judged_by = catalog.DEFAULT_METHOD if catalog.DEFAULT_METHOD in methods else methods[0]
    n_others = int(inputs.pu.is_positive.sum()) - len(own)
    result = Comparison(
        of, store.now(), inputs.pu.at_event, chip_set, len(own), n_others, n_unlabeled, judged_by, found
    )  # fmt: skip
    comparison.keep(job.layout, result)
    return asdict(result)


def _require_views(name: str, n: int, methods: Sequence[str]) -> None:
    """Raise TrainingError where a method compares more views of a chip than a feature set has; nothing is fitted yet."""
    for card in (catalog.card(method) for method in methods if method != RANKER):
        if n < card.min_views:
            raise TrainingError(
                f"{card.title} compares {card.min_views} views of each chip; {name} has {n}.",
                "Leave the method out, or make the set again with more --views.", kind="views",
            )  # fmt: skip


def places_by(
    method: str, inputs: RunInputs, own: Ints, before_a_fit: Callable[[], None] = lambda: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Floats:  # fmt: skip
    """Hold clicks out and return the mean log place of each, float64 [P], by a method on the features of `inputs`.

    Args:
        own: rows of the clicks that judge, int64 [P].
    """
    score = scorer(method, inputs, is_cancelled)

    def asked(is_out: Bools) -> NDArray[np.floating]:
        before_a_fit()
        return score(is_out)

    n = len(inputs.pu.is_positive)
    return bakeoff.log_places(bakeoff.held_out_places(asked, own, unlabeled_of(inputs), n, seed=_SEED))


def scorer(method: str, inputs: RunInputs, is_cancelled: Callable[[], bool] = lambda: False) -> Score:
    """Return what fits a method without some buildings and scores all, from features that are there.

    The instant ranker's penalty follows from the share that all clicks suggest; everything else is fitted without the
    held-out.
    """
    pu = inputs.pu
    if method == RANKER:
        prepared = inputs.prepared()
        share = estimates.elkan_noto_share(
            prepared, pu.is_positive, is_excluded=pu.is_excluded, n_folds=estimates.N_FOLDS_LIVE
        )
        known: Facts = {
            "is_not_damaged": pu.is_not_damaged, "is_accepted": inputs.is_accepted, "l2": ranker.l2_for_share(share),
        }  # fmt: skip

        def rank(is_out: Bools) -> NDArray[np.floating]:
            left = pu.without(is_out)
            fitted = ranker.fit_ranking(prepared, left.is_positive, is_excluded=left.is_excluded, **known)
            return fitted.scores(prepared.values)

        return rank
    card = catalog.card(method)
    settings: NetworkSettings = catalog.settings_for(method, next(iter(card.presets)))

    def train(is_out: Bools) -> NDArray[np.floating]:
        left = replace(inputs, pu=pu.without(is_out))
        run = Run(best_device(), _SEED, is_cancelled=is_cancelled)
        data = pu_data(
            FeatureViews(np.asarray(left.views)), left.learned_as_positive, is_excluded=left.pu.is_excluded,
            is_not_damaged=left.pu.is_not_damaged, is_accepted=left.is_accepted, is_queued=left.pu.is_queued,
        )  # fmt: skip
        return fit_and_score(
            card, data, settings, run, prior=left.prior, start_k=1,
            is_unlabeled=left.is_unlabeled,
        ).scores  # fmt: skip

    return train


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
