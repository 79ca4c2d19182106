"""Make a run: train a method on what the analyst has clicked, score every building, and store the result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, collapse, estimates, pupl, ranker
from pu_geo.analysis.estimates import MIN_POSITIVES
from pu_geo.analysis.ranking_evidence import evidence_of, facts_of
from pu_geo.features.views import Report
from pu_geo.files import remove_path
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.methods.fitting import fit_and_score
from pu_geo.records import Facts, RunFacts
from pu_geo.runs.inputs_job import RunInputs, others_to_average, read_inputs, read_to_train, unlabeled_to_judge
from pu_geo.runs.model_card_job import write_model
from pu_geo.runs.monitor_job import TrainingMonitor, curve_of
from pu_geo.store import population, runs, store, training_times
from pu_geo.store.contents import chip_facts
from pu_geo.store.job import Job
from pu_geo.store.layout import RCF, read_json, write_json
from pu_geo.store.store import now
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.run import Run, best_device, name_of

RANKER_NAME = "ranker"
RUN_NOTE = "run.json"  # in the folder of a job: the id of its run
CURVE = "curve.json"  # in the folder of a run: what was reported of each epoch
_COMPARES_VIEWS = ("ncpu", "upu+noisncl", "nnpu+noisncl")  # two views at least; they train with one, but learn less


def rank(job: Job, *, feature_set: str = "") -> Facts:
    """Run the instant ranker on the features of the unaugmented chips and store the result as a run.

    Args:
        feature_set: name of the features; "" for the set in use.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are no positives.
        ProjectError: if there are no chips, or no such features.
    """
    began, stored = time.monotonic(), stored_before(job)
    if stored:
        return stored
    with store.one_connection():
        inputs = read_inputs(job.layout, feature_set=feature_set)
    job.report(0.1, "ranking all buildings")
    prepared, pu = inputs.prepared(), inputs.pu
    scores, _ = estimates.rank_with_estimate(
        prepared, pu.is_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged,
        is_accepted=inputs.is_accepted,
    )  # fmt: skip
    embeddings = ranker.embeddings_along(ranker.widest_axes(prepared.values), prepared.values)
    del prepared  # before another standardisation is made
    facts = replace(
        inputs.facts(RANKER_NAME, "instant", "linear", inputs.first_threshold(scores)), evidence=facts_of(inputs.evidence)
    )
    return finish(job, inputs, began, facts, {"scores": scores, "embeddings": embeddings})


def train(job: Job, **args: Any) -> Facts:
    """Train a method from the catalog and store the run. Started again, it goes on after its last checkpoint.

    Args:
        args: of a `TrainingRequest`.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are too few labels, a setting is wrong, or the training diverged.
    """
    began, stored, request = time.monotonic(), stored_before(job), TrainingRequest(**args)
    if stored:
        return stored
    card, settings, seed = request.card, request.settings, request.seed
    kept = job.folder / "checkpoints"
    is_fresh = not kept.exists()
    job.report(0.02, f"loading chips for {card.title}")
    with store.one_connection():
        inputs, data = read_to_train(job.layout, kept, request)
        others = others_to_average(job.layout, inputs, request)
    device = best_device()
    named = name_of(device)
    run = Run(
        device=device, seed=seed, report=_epoch_reporter(job, f"{card.title} on {named}"), is_cancelled=job.is_cancelled,
        is_paused=job.is_paused, checkpoints=Checkpoints(kept),
    )  # fmt: skip
    if request.takes_features and len(inputs.views) < 2 and request.method in _COMPARES_VIEWS:
        anew = "Cut chips again" if inputs.feature_set == RCF else "Make the set again"
        run.warnings.append(
            f"{inputs.feature_set} has one view of each chip, and {card.title} learns from how views differ. {anew} with "
            "more --views, or train on another set."
        )
    start_k = inputs.start_k()
    job.stop_if_cancelled()
    run.evaluate = TrainingMonitor(job, inputs, data, start_k=start_k, score_type=card.score_type)
    fitted = fit_and_score(
        card, data, settings, run, prior=inputs.prior, start_k=start_k, is_unlabeled=inputs.is_unlabeled,
        when_scoring=partial(job.report, 0.95, "scoring all buildings"),
        others={name: one.data(job.layout, settings) for name, one in others.items()},
    )  # fmt: skip
    averaged = [
        {"feature_set": name, "feature_maker": others[name].feature_maker, "is_used": is_used}
        for name, is_used in fitted.is_averaged.items()
    ]
    facts = replace(
        inputs.facts(request.method, request.preset, card.score_type, fitted.threshold),
        seed=seed,
        settings=asdict(fitted.settings),
        device=named,
        warnings=tuple(run.warnings),
        place=fitted.place,
        evidence=facts_of(fitted.evidence),
        types=fitted.types,
        types_from=inputs.types_from if fitted.types else None,
        is_ordinal=bool(fitted.types) and data.is_ordinal,
        views=tuple(view.name for view in data.views),
        feature_maker=inputs.feature_maker if not others else {**inputs.feature_maker, "averaged": averaged},
    )
    arrays = {
        "scores": fitted.scores, "embeddings": fitted.embeddings, "scores_alone": fitted.scores_alone,
        runs.TYPE_SCORES: fitted.type_scores,
    }  # fmt: skip
    state, is_averaged = fitted.model.state(), any(fitted.is_averaged.values())
    result = finish(
        job, inputs, began, facts, arrays,
        lambda facts: [] if is_averaged else write_model(job.layout, facts, inputs, data, state, fitted.threshold_alone),
    )  # fmt: skip
    remove_path(kept)
    if is_fresh and not request.overrides and inputs.feature_set == RCF and not others:
        training_times.remember(request.method, request.preset, len(fitted.scores), float(str(result["seconds"])))
    return result


def _epoch_reporter(job: Job, title: str) -> Report:
    def report(values: Facts) -> None:
        job.epoch(estimates.without_guesses(values))
        words = f"{title}: {values['stage']}, epoch {values['epoch']} of {values['epochs']}"
        job.report(0.05 + 0.9 * float(str(values["progress"])), words)

    return report


def finish(
    job: Job, inputs: RunInputs, began: float, facts: RunFacts, arrays: Mapping[str, NDArray[np.generic] | None],
    write_files: Callable[[RunFacts], Sequence[Path]] = lambda _: (),
) -> Facts:  # fmt: skip
    """Store a run with its clusters and files, and make it the one that the live map shows.

    Args:
        facts: what it is; what its scores say is added here: alarms, the judgement by held-out clicks, what `threshold`
            flags, and where answers lack.
        arrays: "scores" float32 [N] and "embeddings" float32 [N, E]; "scores_alone" and "type_scores", see `RunFacts`, or
            None.
        write_files: writes what else belongs into the run's folder, and returns the paths.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}
    """
    pu, layout = inputs.pu, job.layout
    kept = {
        name: array for name, array in {**arrays, "held_out": inputs.held_out}.items() if array is not None and len(array)
    }
    scores, embeddings = np.asarray(kept.pop("scores"), np.float32), np.asarray(kept["embeddings"], np.float32)
    is_visible = np.ones(len(scores), np.bool_) if inputs.is_hidden is None else ~inputs.is_hidden
    clusters, groups = None, np.zeros(len(scores), np.int8)
    if pu.is_positive.any():
        clusters = pupl.pupl(
            embeddings[is_visible], pu.is_positive[is_visible], seed=facts.seed, check=job.stop_if_cancelled
        )
        groups[is_visible] = clusters.labels
    threshold, chips = round(facts.threshold, 4), chip_facts(layout, facts.chip_set)
    is_flagged = runs.written(scores) >= threshold
    with store.one_connection():
        unlabeled = scores[unlabeled_to_judge(layout, inputs)]
        indicators = collapse.CollapseIndicators()
        if len(unlabeled):
            indicators = collapse.signs(
                scores[inputs.held_out], unlabeled, embeddings, threshold=threshold, score_type=facts.score_type,
                is_oriented=None if clusters is None else clusters.oriented,
            )  # fmt: skip
            if facts.evidence is None and len(inputs.held_out) >= MIN_POSITIVES:
                facts = replace(facts, evidence=facts_of(evidence_of([(scores[inputs.held_out], unlabeled)])))
        alarms = (alarm.words for alarm in collapse.alarms(indicators))
        silent = population.silent_sites(layout) if facts.from_model is None else ""
        grades = {} if inputs.types is None else dict(zip(inputs.types.names, inputs.types.grades, strict=False))
        if facts.from_model is None and not facts.without_answers:  # one from elsewhere rests on no answer of here
            found = assessability.groups_without_answers(chips, pu.is_positive, pu.is_not_damaged, is_flagged)
            facts = replace(facts, without_answers=found)
        facts = replace(
            facts,
            run_id=_run_id(job, facts.method),
            created_at=now(),
            seconds=round(time.monotonic() - began, 2),
            threshold=threshold,
            start_k=None if facts.start_k is None else int((is_flagged & inputs.is_unlabeled).sum()) or None,
            warnings=tuple(dict.fromkeys((*facts.warnings, *inputs.warnings, *alarms, *filter(None, [silent])))),
            versions={name: metadata.version(name) for name in ("torch", "numpy")},
            judgement=None if indicators.judgement is None else indicators.judgement.as_mapping(),
            type_grades=tuple(grades[name] for name in facts.types) if grades else (),
        )
        with runs.whole_or_not_at_all(layout.run(facts.run_id)):
            files = [*write_files(facts)]
            if curve := curve_of(job):
                files.append(layout.run(facts.run_id) / CURVE)
                write_json(files[-1], curve)
        store.call(
            layout, runs.finish, layout, facts, ids=pu.building_ids, scores=scores, arrays={**kept, "clusters": groups},
            files=files,
        )  # fmt: skip
    return _result(facts)


def _result(facts: RunFacts) -> Facts:
    return {name: getattr(facts, name) for name in ("run_id", "n_positive", "n_unlabeled", "seconds")}


def _run_id(job: Job, method: str) -> str:
    """Return the id of the job's run, the same one after a restart, so that halves of it are written over."""
    if known := _noted_run_id(job):
        return known
    stamp = now()[5:16].replace("-", "").replace("T", "-").replace(":", "")
    run_id = f"{method.replace('+', '-')}-{stamp}-{secrets.token_hex(2)}"
    write_json(job.folder / RUN_NOTE, {"run_id": run_id})
    return run_id


def _noted_run_id(job: Job) -> str | None:
    note = job.folder / RUN_NOTE
    return str(read_json(note)["run_id"]) if note.exists() else None


def stored_before(job: Job) -> Facts | None:
    """Return the job's result if it was killed after its run was stored."""
    run_id = _noted_run_id(job)
    if run_id is None:
        return None
    found = [facts for facts in store.call(job.layout, runs.all_runs) if facts.run_id == run_id]
    if not found:
        return None
    remove_path(job.folder / "checkpoints")
    return _result(found[0])
