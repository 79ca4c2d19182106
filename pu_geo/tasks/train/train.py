"""Make a run: train a method on what the analyst has clicked, score every building, and store the result."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability, collapse, estimates, pupl, ranker
from pu_geo.files import remove_path
from pu_geo.methods import catalog
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.methods.fitting import fit_and_score, require_labels, with_class_prior
from pu_geo.project import feature_sets, runs, store, training_times
from pu_geo.project.contents import chip_facts
from pu_geo.project.layout import RCF, Layout, write_json
from pu_geo.project.store import now
from pu_geo.records import PUSet, RunFacts
from pu_geo.tasks.job import Job
from pu_geo.tasks.train.inputs import RunInputs, read_inputs, set_aside, unlabeled_to_judge
from pu_geo.tasks.train.model_card import Learned, write_model
from pu_geo.tasks.train.monitor import TrainingMonitor, curve_of
from pu_geo.tasks.train.torchrun import n_devices, train_on
from pu_geo.training.checkpoints import Checkpoints
from pu_geo.training.distributed import ALONE, Ranks, leave
from pu_geo.training.run import Run, best_device, name_of

RANKER_NAME = "ranker"
RUN_NOTE = "run.json"  # in the folder of a job: the id of its run
CURVE = "curve.json"  # in the folder of a run: what was reported of each epoch
_COMPARES_VIEWS = ("ncpu", "upu+noisncl", "nnpu+noisncl")  # two views at least; they train with one, but learn less


@dataclass(frozen=True)
class Outcome:
    """What a method made of it. The other fields are those of `RunFacts`.

    Attributes:
        write_files: writes what else belongs into the run's folder, and returns the paths.
        is_start: the threshold is the one that `RunInputs.start_k` gives, and no other.
        held_out: rows of clicks that were not learned from, int64; None without any.
        scores_alone: the scores without evidence from place, where they have it, float32 [N].
        versions: of libraries, where it was not made by those of this machine.
        features: name and maker of the features, where these are not those of the inputs.
        types, types_from, is_ordinal: see `RunFacts`.
        views: see `RunFacts`; those of the features where it is ().
        federation: see `RunFacts`.
        n_learned: damaged buildings and others that were learned from, where these are not those of the inputs.
        type_scores: of the types, float32 [N, c] in [0, 1]; None without types.
    """

    method: str
    preset: str
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32]
    score_type: str
    threshold: float
    is_start: bool = True
    seed: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)
    device: str = "cpu"
    write_files: Callable[[RunFacts], Sequence[Path]] = lambda _: ()
    warnings: Sequence[str] = ()
    from_model: Mapping[str, object] | None = None
    held_out: NDArray[np.int64] | None = None
    scores_alone: NDArray[np.float32] | None = None
    place: Mapping[str, object] | None = None
    versions: Mapping[str, str] | None = None
    features: tuple[str, Mapping[str, object]] | None = None
    types: tuple[str, ...] = ()
    types_from: str | None = None
    is_ordinal: bool = False
    type_scores: NDArray[np.float32] | None = None
    views: tuple[str, ...] = ()
    federation: Mapping[str, object] | None = None
    n_learned: tuple[int, int] | None = None


def rank(job: Job, *, feature_set: str = "") -> dict[str, object]:
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
    inputs = read_inputs(job.layout, feature_set=feature_set)
    job.report(0.1, "ranking all buildings")
    prepared, pu = inputs.prepared(), inputs.pu
    scores, _ = estimates.rank_with_estimate(
        prepared, pu.is_positive, is_excluded=pu.is_excluded, is_not_damaged=pu.is_not_damaged,
        is_accepted=inputs.is_accepted,
    )  # fmt: skip
    embeddings = ranker.embeddings_along(ranker.widest_axes(prepared.values), prepared.values)
    del prepared  # before another standardisation is made
    threshold = first_threshold(scores, pu, inputs.start_k())
    return finish(job, inputs, began, Outcome(RANKER_NAME, "instant", scores, embeddings, "linear", threshold))


def train(job: Job, **args: Any) -> dict[str, object]:
    """Train a method from the catalog and store the run. Started again, it goes on after its last checkpoint.

    Args:
        args: of a `TrainingRequest`.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are too few labels, a setting is wrong, or the training diverged.
    """
    return stored_before(job) or train_as(job, TrainingRequest(**args), ALONE)


def train_as(job: Job, request: TrainingRequest, ranks: Ranks) -> dict[str, object]:
    """Train alone, which starts ranks where there are devices for several; or as one of these, of which rank 0 stores the run.

    Returns:
        As `train`; nothing in ranks but the first.
    """
    began = time.monotonic()
    card, settings, seed, types_from = request.card, request.settings, request.seed, request.types_from
    kept = job.folder / "checkpoints"
    is_fresh = not kept.exists()
    inputs = read_inputs(job.layout, kept, request.feature_set if request.takes_features else RCF)
    require_labels(card, int(inputs.pu.is_positive.sum()), int(inputs.pu.is_not_damaged.sum()))
    pu, held_out = set_aside(inputs.pu, request.hold_out, seed, card)
    inputs = inputs.with_clicks(pu).with_types(job.layout, types_from, card)
    if ranks.is_first:
        job.report(0.02, f"loading chips for {card.title}")
    data = inputs.data(job.layout, settings, takes_layers=card.takes_layers)
    names = tuple(view.name for view in data.views)
    inputs = replace(inputs, layers_lacking=feature_sets.words_of_missing(names, data.is_missing))
    n, fewer = n_devices(request, data.views)
    if n > ranks.n:
        train_on(job, request, n)
        return stored_before(job) or {}
    device = ranks.device if ranks.n > 1 else best_device()
    named = name_of(device) if ranks.n == 1 else f"{ranks.n} x {name_of(device)}"
    if not ranks.is_first:
        run = Run(device=device, seed=seed, checkpoints=Checkpoints(kept), ranks=ranks)
        catalog.load_fit(card.name)(data, with_class_prior(settings, inputs.prior, run), run)
        return {}
    run = Run(
        device=device, seed=seed, report=_epoch_reporter(job, f"{card.title} on {named}"), is_cancelled=job.is_cancelled,
        is_paused=job.is_paused, checkpoints=Checkpoints(kept), ranks=ranks, warnings=[fewer] if fewer else [],
    )  # fmt: skip
    if request.takes_features and len(inputs.views) < 2 and request.method in _COMPARES_VIEWS:
        anew = "Cut chips again" if inputs.feature_set == RCF else "Make the set again"
        run.warnings.append(
            f"{inputs.feature_set} has one view of each chip, and {card.title} learns from how views differ. {anew} with more --views, "
            "or train on another set."
        )
    start_k = inputs.start_k()
    job.stop_if_cancelled()
    run.evaluate = TrainingMonitor(job, inputs, data, held_out, start_k=start_k, score_type=card.score_type)
    fitted = fit_and_score(
        card, data, settings, run, prior=inputs.prior, start_k=start_k, is_unlabeled=~pu.is_positive & ~pu.is_excluded,
        when_scoring=partial(_begin_scoring, job),
    )  # fmt: skip
    learned = Learned(fitted.model.state(), data, types_from, inputs.at_decision, fitted.threshold_alone)
    outcome = Outcome(
        request.method, request.preset, fitted.scores, fitted.embeddings, card.score_type, fitted.threshold, seed=seed,
        settings=asdict(fitted.settings), device=named, warnings=run.warnings, held_out=held_out,
        write_files=lambda facts: write_model(job.layout, facts, pu, learned), place=fitted.place,
        scores_alone=fitted.scores_alone, types=fitted.types, types_from=types_from if fitted.types else None,
        is_ordinal=bool(fitted.types) and data.is_ordinal, type_scores=fitted.type_scores, views=names,
    )  # fmt: skip
    result = finish(job, inputs, began, outcome)
    remove_path(kept)
    if is_fresh and ranks.n == 1 and not request.overrides and inputs.feature_set == RCF:
        training_times.remember(request.method, request.preset, len(fitted.scores), float(str(result["seconds"])))
    return result


def first_threshold(scores: NDArray[np.float32], pu: PUSet, k: int) -> float:
    """Return the threshold that flags k of the unlabeled, of scores [N] of all chips, see `estimates.first_threshold`."""
    return estimates.first_threshold(scores[~pu.is_positive & ~pu.is_excluded], k)


def _begin_scoring(job: Job) -> None:
    leave()
    job.report(0.95, "scoring all buildings")


def _epoch_reporter(job: Job, title: str) -> Callable[[Mapping[str, object]], None]:
    def report(values: Mapping[str, object]) -> None:
        job.epoch(estimates.without_guesses(values))
        words = f"{title}: {values['stage']}, epoch {values['epoch']} of {values['epochs']}"
        job.report(0.05 + 0.9 * float(str(values["progress"])), words)

    return report


def _signs(
    layout: Layout, inputs: RunInputs, outcome: Outcome, clusters: pupl.PuplResult | None
) -> collapse.CollapseIndicators:
    """Evaluate a finished run as `TrainingMonitor` does one under way."""
    scores, held_out = outcome.scores, np.zeros(0, np.int64) if outcome.held_out is None else outcome.held_out
    unlabeled = scores[unlabeled_to_judge(layout, inputs.chip_set, inputs.pu, held_out, inputs.is_hidden)]
    if not len(unlabeled):
        return collapse.CollapseIndicators()
    return collapse.signs(
        scores[held_out], unlabeled, outcome.embeddings, threshold=_threshold(outcome), score_type=outcome.score_type,
        is_oriented=None if clusters is None else clusters.oriented,
    )  # fmt: skip


def _without_answers(layout: Layout, inputs: RunInputs, outcome: Outcome) -> tuple[int, ...]:
    """Return the sensor groups without an answer; none for a model from elsewhere, which rests on no answer of here."""
    if outcome.from_model is not None:
        return ()
    is_flagged = runs.written(outcome.scores) >= _threshold(outcome)
    pu = inputs.pu
    return assessability.groups_without_answers(
        chip_facts(layout, inputs.chip_set), pu.is_positive, pu.is_not_damaged, is_flagged
    )


def _threshold(outcome: Outcome) -> float:
    return round(outcome.threshold, 4)


def _n_flagged(outcome: Outcome, pu: PUSet) -> int:
    """Return how many unlabeled buildings the threshold flags; where scores are equal not quite as many as were wanted."""
    is_flagged = runs.written(outcome.scores) >= _threshold(outcome)
    return int((is_flagged & ~pu.is_positive & ~pu.is_excluded).sum())


def finish(job: Job, inputs: RunInputs, began: float, outcome: Outcome) -> dict[str, object]:
    """Store a run with its clusters and files, and make it the one that the live map shows.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}
    """
    pu = inputs.pu
    is_visible = np.ones(len(outcome.scores), np.bool_) if inputs.is_hidden is None else ~inputs.is_hidden
    clusters, labels = None, np.zeros(len(outcome.scores))
    if pu.is_positive.any():
        clusters = pupl.pupl(
            outcome.embeddings[is_visible], pu.is_positive[is_visible], seed=outcome.seed, check=job.stop_if_cancelled
        )
        labels[is_visible] = clusters.labels
    indicators = _signs(job.layout, inputs, outcome, clusters)
    feature_set, feature_maker = outcome.features or (inputs.feature_set, inputs.feature_maker)
    n_positive, n_unlabeled = outcome.n_learned or (
        int(pu.is_positive.sum()),
        int((~pu.is_positive & ~pu.is_excluded).sum()),
    )
    facts = RunFacts(
        run_id=_run_id(job, outcome.method),
        method=outcome.method,
        preset=outcome.preset,
        seed=outcome.seed,
        settings=outcome.settings,
        chip_set=inputs.chip_set,
        at_event=pu.at_event,
        n_positive=n_positive,
        n_unlabeled=n_unlabeled,
        federation=outcome.federation,
        created_at=now(),
        seconds=round(time.monotonic() - began, 2),
        device=outcome.device,
        score_type=outcome.score_type,
        threshold=_threshold(outcome),
        start_k=(_n_flagged(outcome, pu) or None) if outcome.is_start else None,
        warnings=tuple(
            dict.fromkeys((*outcome.warnings, *inputs.warnings, *(alarm.words for alarm in collapse.alarms(indicators))))
        ),
        versions=outcome.versions or {name: metadata.version(name) for name in ("torch", "numpy")},
        from_model=outcome.from_model,
        place=outcome.place,
        judgement=None if indicators.judgement is None else indicators.judgement.as_mapping(),
        n_accepted=inputs.n_accepted,
        n_hidden=inputs.n_hidden,
        without_answers=_without_answers(job.layout, inputs, outcome),
        feature_set=feature_set,
        feature_maker=feature_maker,
        types=outcome.types,
        types_from=outcome.types_from,
        is_ordinal=outcome.is_ordinal,
        type_grades=_type_grades(inputs, outcome.types),
        views=outcome.views or tuple(view.name for view in feature_sets.views_of(feature_maker)),
    )
    arrays: dict[str, NDArray[np.generic]] = {"embeddings": outcome.embeddings, "clusters": labels.astype(np.int8)}
    if outcome.held_out is not None and len(outcome.held_out):
        arrays["held_out"] = outcome.held_out.astype(np.int64)
    if outcome.scores_alone is not None:
        arrays["scores_alone"] = outcome.scores_alone.astype(np.float32)
    if outcome.type_scores is not None:
        arrays[runs.TYPE_SCORES] = outcome.type_scores.astype(np.float32)
    scores, chips = outcome.scores.astype(np.float32), chip_facts(job.layout, facts.chip_set)
    why = assessability.reasons(chips, facts.without_answers, feature_sets.without_layers(facts, chips))
    with runs.whole_or_not_at_all(job.layout.run(facts.run_id)):
        files = list(outcome.write_files(facts))
        if curve := curve_of(job):
            files.append(job.layout.run(facts.run_id) / CURVE)
            write_json(files[-1], curve)
    store.call(
        job.layout, runs.finish, job.layout, facts, ids=pu.building_ids, scores=scores, arrays=arrays, files=files,
        reasons=assessability.by_building(chips["building_ids"], why),
    )  # fmt: skip
    return _result(facts)


def _type_grades(inputs: RunInputs, types: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the grades that the types of a run are; () where it learned no grades of this project."""
    known = {} if inputs.types is None else dict(zip(inputs.types.names, inputs.types.grades, strict=False))
    return tuple(known[name] for name in types) if known else ()


def _result(facts: RunFacts) -> dict[str, object]:
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
    return str(json.loads(note.read_text(encoding="utf-8"))["run_id"]) if note.exists() else None


def stored_before(job: Job) -> dict[str, object] | None:
    """Return the job's result if it was killed after its run was stored."""
    run_id = _noted_run_id(job)
    if run_id is None:
        return None
    found = [facts for facts in store.call(job.layout, runs.all_runs) if facts.run_id == run_id]
    if not found:
        return None
    remove_path(job.folder / "checkpoints")
    return _result(found[0])
