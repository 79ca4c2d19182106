"""Average several runs: the mean of their ranks, stored as a run like any other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import agreement, assessability
from pu_geo.errors import JobCancelled
from pu_geo.project import contents, feature_sets, freshness, labels, runs, store
from pu_geo.project.contents import chip_facts
from pu_geo.project.feature_sets import SEVERAL
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.inputs import RunInputs
from pu_geo.tasks.train.train import finish, stored_before

ENSEMBLE_NAME = "ensemble"


def ensemble(job: Job, *, run_ids: list[str]) -> dict[str, object]:
    """Store the mean of the ranks of two or more runs of the same chips as a run.

    Its score is a rank: the mean share of the other buildings that a run places lower. A cosine of its embeddings is the
    mean of the runs' cosines. It knows the labels that the newest of them knew; held out is what all of them held out.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        ProjectError: if the runs cannot be averaged, or one of them has no embeddings.
        JobCancelled: if the user cancelled.
    """
    began, stored = time.monotonic(), stored_before(job)
    if stored:
        return stored
    job.report(0.1, f"averaging the ranks of {len(run_ids)} runs")
    with store.connect(job.layout) as db:
        members = runs.members(db, run_ids)
        freshness.refuse_former(job.layout, members[0].chip_set)
        chip_set, at_event = members[0].chip_set, max(facts.at_event for facts in members)
        facts = chip_facts(job.layout, chip_set)
        names = _views(job.layout, members)
        is_hidden = assessability.reasons(facts, lacks_all=feature_sets.lacks_all(names, facts)) != ""
        known = labels.pu_set(db, at=at_event, ids=facts["building_ids"]).without(is_hidden)
    is_held_out = known.is_positive & np.all([runs.held_out(job.layout, facts.run_id) for facts in members], axis=0)
    pu, held_out = (
        known.without(is_held_out),
        np.flatnonzero(is_held_out),
    )  # as a training has them: no run learned from them
    views = feature_sets.views(job.layout, chip_set)
    inputs = RunInputs(chip_set, views, pu, is_hidden=is_hidden if is_hidden.any() else None, held_out=held_out)
    made, arrays = _average(job.layout, members, inputs)
    if job.is_cancelled():
        raise JobCancelled
    place, alone = _place(job.layout, members)
    return finish(job, inputs, began, dataclasses.replace(made, place=place), {**arrays, "scores_alone": alone})


def _place(layout: Layout, members: Sequence[RunFacts]) -> tuple[dict[str, object] | None, NDArray[np.float32] | None]:
    """Return what evidence from place counts in an average, as means over its runs, and the average of the scores without it.

    None of both where no run has it in its scores.
    """
    known = [one.place or {} for one in members]
    if not any(each.get("used") for each in known):
        return None, None
    alone = [np.asarray(runs.scores_alone(layout, one.run_id), np.float64) for one in members]
    figures = [[float(str(each[name])) if each.get("used") else 0.0 for each in known] for name in ("weight", "b", "m")]
    weight, b, m = (round(float(np.mean(each)), 4) for each in figures)
    facts: dict[str, object] = {"used": True, "weight": weight, "b": b, "m": m, "why_not": ""}
    return facts, agreement.rank_average(alone).astype(np.float32)


def _average(
    layout: Layout, members: Sequence[RunFacts], inputs: RunInputs
) -> tuple[RunFacts, dict[str, NDArray[np.float32]]]:
    each = [np.asarray(runs.array(layout, facts.run_id, "scores"), np.float64) for facts in members]
    scores = agreement.rank_average(each).astype(np.float32)
    warnings = [f"{facts.run_id}, one of the runs averaged: {words}" for facts in members for words in facts.warnings]
    name, maker = _features(members)
    facts = dataclasses.replace(
        inputs.facts(ENSEMBLE_NAME, "rank average", "rank", inputs.first_threshold(scores)), warnings=tuple(warnings),
        without_answers=tuple(sorted({group for facts in members for group in facts.without_answers})),
        settings={"run_ids": [facts.run_id for facts in members], "methods": [facts.method for facts in members]},
        feature_set=name, feature_maker=maker, views=_views(layout, members),
    )  # fmt: skip
    return facts, {"scores": scores, "embeddings": _side_by_side(layout, members)}


def _views(layout: Layout, members: Sequence[RunFacts]) -> tuple[str, ...]:
    """Return the names of the views that any of the runs learned from; () where none learned from named ones."""
    each = [one.views or tuple(view.name for view in feature_sets.views_of(one.feature_maker)) for one in members]
    if not any(each):
        return ()
    table = contents.views_of(chip_facts(layout, members[0].chip_set))
    dates = feature_sets.usual_layers([view for view in table if view.name in ("pre", "post")])
    return tuple(dict.fromkeys(name for names in each for name in names or dates))


def _features(members: Sequence[RunFacts]) -> tuple[str, Mapping[str, object]]:
    """Return name and maker of the features of all runs; "several" where they differ, with the maker of each by its name."""
    makers = {facts.feature_set: facts.feature_maker for facts in members}
    if len(makers) == 1:
        return next(iter(makers.items()))
    return SEVERAL, {"kind": SEVERAL, "sets": makers}


def _side_by_side(layout: Layout, members: Sequence[RunFacts]) -> NDArray[np.float32]:
    """Return unit embeddings whose cosine is the mean of the runs' cosines, float32 [N, the sum of their sizes]."""
    each = [np.asarray(runs.array(layout, facts.run_id, "embeddings"), np.float32) for facts in members]
    parts = [own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12) for own in each]
    found: NDArray[np.float32] = (np.concatenate(parts, axis=1) / np.sqrt(len(parts))).astype(np.float32)
    return found
