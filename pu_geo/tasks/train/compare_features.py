"""Compare feature sets on the analyst's own clicks: fit each without some clicks, and look where these come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import bakeoff, estimates, ranker
from pu_geo.analysis.bakeoff import Bools, Score
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.fitting import fit_and_score, pu_data
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import feature_sets, store
from pu_geo.project.layout import Layout
from pu_geo.services.train import feature_comparison as comparison
from pu_geo.services.train.feature_comparison import INCUMBENT, METHODS, RANKER, Comparison, Row
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.inputs import RunInputs, read_inputs
from pu_geo.training.data import FeatureViews
from pu_geo.training.run import Run, best_device

MOST_UNLABELED = 1500  # unlabeled buildings that are learned from and that places are among; of more, a draw
_SEED = 0


def candidates(layout: Layout, chip_set: str) -> Iterator[tuple[str, NDArray[np.float16]]]:
    """Yield the feature sets of a chip set, "rcf" first: name and views, float16 [V, N, D], a memory map."""
    for one in feature_sets.all_sets(layout, chip_set):
        yield one.name, feature_sets.views(layout, chip_set, one.name)


def compare_features(job: Job, *, methods: Sequence[str] = METHODS) -> dict[str, object]:
    """Compare all feature sets by some methods, and store the result as the project's last one. It chooses nothing.

    Args:
        methods: "ranker", or names of the catalog; the verdict is by the default one if it is among them, else by the first.

    Returns:
        What `Comparison.as_json` gives.

    Raises:
        TrainingError: if there are too few clicks, or a method is unknown or cannot be compared.
        JobCancelled: if the user cancelled.
    """
    whole = read_inputs(job.layout, feature_set=INCUMBENT)
    is_own = comparison.own_clicks(whole.pu)
    rows = drawn(whole)
    inputs = of_rows(whole, rows)
    own, n_unlabeled = np.flatnonzero(is_own[rows]), len(unlabeled_of(inputs))
    comparison.require_clicks(len(own), int(inputs.pu.is_positive.sum()), n_unlabeled, methods)
    every, log_places, found = list(candidates(job.layout, inputs.chip_set)), {}, []
    require_views({name: len(views) for name, views in every}, methods)
    n_fits, done = len(every) * len(methods) * min(bakeoff.N_FOLDS, len(own)) * bakeoff.N_REPEATS, 0

    def before_a_fit(words: str) -> None:
        nonlocal done
        job.stop_if_cancelled()
        job.report(0.99 * done / n_fits, words)
        done += 1

    for name, views in every:
        there = replace(inputs, views=np.asarray(views[:, rows]))
        for method in methods:
            began, words = time.monotonic(), f"{name}, {catalog.name_within(method)}"
            log_places[name, method] = places_by(method, there, own, partial(before_a_fit, words), job.is_cancelled)
            place = bakeoff.typical(bakeoff.bootstrap(log_places[name, method]))
            found.append(Row(name, method, place, round(time.monotonic() - began, 2)))
    judged_by = catalog.DEFAULT_METHOD if catalog.DEFAULT_METHOD in methods else methods[0]
    verdict = bakeoff.judge({name: log_places[name, judged_by] for name, _ in every}, INCUMBENT)
    n_others = int(inputs.pu.is_positive.sum()) - len(own)
    result = Comparison(
        store.now(), inputs.pu.at_event, inputs.chip_set, len(own), n_others, n_unlabeled, found, judged_by, verdict
    )
    comparison.keep(job.layout, result)
    return result.as_json()


def require_views(n_views: Mapping[str, int], methods: Sequence[str]) -> None:
    """Raise TrainingError where a method compares more views of a chip than a feature set has; nothing is fitted yet."""
    for method in methods:
        least = 1 if method == RANKER else catalog.card(method).min_views
        if few := [name for name, n in n_views.items() if n < least]:
            raise TrainingError(
                f"{catalog.card(method).title} compares {least} views of each chip; {', '.join(few)} has 1.",
                "Leave the method out, or make the set again with more --views.", kind="views",
            )  # fmt: skip


def places_by(
    method: str, inputs: RunInputs, own: NDArray[np.int64], before_a_fit: Callable[[], None] = lambda: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> NDArray[np.float64]:  # fmt: skip
    """Hold clicks out and return the mean log place of each, float64 [P], see `held_out`."""
    return bakeoff.log_places(held_out(method, inputs, own, before_a_fit, is_cancelled))


def held_out(
    method: str, inputs: RunInputs, own: NDArray[np.int64], before_a_fit: Callable[[], None] = lambda: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> NDArray[np.float64]:  # fmt: skip
    """Hold clicks out and return the places of each, float64 [R, P] in (0, 1], by a method on the features of `inputs`.

    Args:
        own: rows of the clicks that judge, int64 [P].
    """
    score = scorer(method, inputs, is_cancelled)

    def asked(is_out: Bools) -> NDArray[np.floating]:
        before_a_fit()
        return score(is_out)

    n = len(inputs.pu.is_positive)
    return bakeoff.held_out_places(asked, own, unlabeled_of(inputs), n, seed=_SEED)


def scorer(method: str, inputs: RunInputs, is_cancelled: Callable[[], bool] = lambda: False) -> Score:
    """Return what fits a method without some buildings and scores all, from features that are there.

    The instant ranker's penalty follows from the share that all clicks suggest; everything else is fitted without the held-out.
    """
    pu = inputs.pu
    if method == RANKER:
        prepared = inputs.prepared()
        share = estimates.elkan_noto_share(
            prepared, pu.is_positive, is_excluded=pu.is_excluded, n_folds=estimates.N_FOLDS_LIVE
        )
        known: Mapping[str, Any] = {
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
        left = inputs.with_clicks(pu.without(is_out))
        run = Run(best_device(), _SEED, is_cancelled=is_cancelled)
        data = pu_data(
            FeatureViews(np.asarray(left.views)), left.learned_as_positive, is_excluded=left.pu.is_excluded,
            is_not_damaged=left.pu.is_not_damaged, is_accepted=left.is_accepted, is_queued=left.pu.is_queued,
        )  # fmt: skip
        return fit_and_score(
            card, data, settings, run, prior=left.prior, start_k=1,
            is_unlabeled=~left.pu.is_positive & ~left.pu.is_excluded,
        ).scores  # fmt: skip

    return train


def unlabeled_of(inputs: RunInputs) -> NDArray[np.int64]:
    """Return the rows that places are among, int64, rising: nobody answered them, and they are of no accepted cluster."""
    is_open = inputs.pu.is_open
    return np.flatnonzero(is_open if inputs.is_accepted is None else is_open & ~inputs.is_accepted)


def drawn(inputs: RunInputs) -> NDArray[np.int64]:
    """Return the rows that a comparison is made on, int64, rising: all that are learned from, and so many of the unlabeled."""
    every, unlabeled = np.flatnonzero(~inputs.pu.is_excluded), unlabeled_of(inputs)
    kept = unlabeled
    if len(unlabeled) > MOST_UNLABELED:
        kept = np.random.default_rng(_SEED).choice(unlabeled, MOST_UNLABELED, replace=False)
    return np.union1d(np.setdiff1d(every, unlabeled), kept)


def of_rows(inputs: RunInputs, rows: NDArray[np.int64]) -> RunInputs:
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
