"""Make a run: train a method on what the analyst has clicked, score every building, and store the result."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.analysis import estimates, pupl, ranker
from pu_geo.engine.checkpoints import Checkpoints
from pu_geo.engine.data import FeatureViews
from pu_geo.engine.run import Run, best_device
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.settings import NetworkSettings
from pu_geo.project import runs, store
from pu_geo.project.layout import write_json
from pu_geo.project.store import now
from pu_geo.records import PUSet, RunFacts
from pu_geo.tasks.inputs import RunInputs, read_inputs
from pu_geo.tasks.job import Job
from pu_geo.tasks.model_card import Learned, write_model

RANKER_NAME = "ranker"
_RUN_NOTE = "run.json"  # in the folder of a job: the id of its run
RANKER_EMBEDDING_DIM = 64
FAR_ABOVE = 3.0  # times the estimated share, from which the share called damaged looks wrong
MOST_CALLED, FEWEST_CALLED = 0.5, 0.001  # shares of the unlabeled beyond which a run looks collapsed


@dataclass(frozen=True)
class Outcome:
    """What a method made of it. The other fields are those of `RunFacts`.

    Attributes:
        write_files: writes what else belongs into the run's folder, and returns the paths.
    """

    method: str
    preset: str
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32]
    score_type: str
    threshold: float
    share: float | None
    seed: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)
    device: str = "cpu"
    write_files: Callable[[RunFacts], Sequence[Path]] = lambda _: ()
    warnings: Sequence[str] = ()
    from_model: Mapping[str, object] | None = None


def rank(job: Job) -> dict[str, object]:
    """Run the instant ranker on the features of the unaugmented chips and store the result as a run.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are no positives.
    """
    began, stored = time.monotonic(), stored_before(job)
    if stored:
        return stored
    inputs = read_inputs(job.layout)
    job.report(0.1, "ranking all buildings")
    prepared, pu = ranker.prepare(inputs.plain), inputs.pu
    scores, share = estimates.rank_with_estimate(
        prepared, pu.is_positive, is_left_out=pu.is_left_out, is_not_damaged=pu.is_not_damaged
    )
    threshold = first_threshold(scores, pu, share, 1.0)
    embeddings = _ranker_embeddings(prepared.values)
    return finish(job, inputs, began, Outcome(RANKER_NAME, "instant", scores, embeddings, "linear", threshold, share))


def train(
    job: Job, *, method: str, preset: str, seed: int = 0, overrides: Mapping[str, str] | None = None,
    types_from: str | None = None,
) -> dict[str, object]:  # fmt: skip
    """Train a method from the catalog and store the run. Started again, it goes on after its last checkpoint.

    Args:
        method: a name in `methods.catalog.METHODS`.
        preset: one of the method's presets.
        overrides: settings that differ from the preset, as text.
        types_from: attribute of the footprints that names the kind of damage of the positives; one kind if None.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        TrainingError: if there are too few labels, a setting is wrong, or the training diverged.
    """
    began, stored = time.monotonic(), stored_before(job)
    if stored:
        return stored
    card = catalog.card(method)
    settings = catalog.settings_for(method, preset, overrides or {})
    kept = job.folder / "checkpoints"
    inputs = read_inputs(job.layout, kept)
    pu = inputs.pu
    _require_labels(card, pu)
    job.report(0.02, f"loading chips for {card.title}")
    data = inputs.data(job.layout, settings, types_from)
    if isinstance(data.inputs, FeatureViews):
        torch.set_num_threads(1)  # the matrices are small: one thread is as fast, and leaves room to click
    run = Run(
        device=best_device(), seed=seed, report=_epoch_reporter(job, card.title), is_cancelled=job.is_cancelled,
        checkpoints=Checkpoints(kept),
    )  # fmt: skip
    share = None
    if pu.is_positive.sum() >= estimates.MIN_POSITIVES:
        share = estimates.elkan_noto_share(inputs.plain, pu.is_positive, is_left_out=pu.is_left_out)
        settings = _with_class_prior(settings, share, run)
    model = catalog.load_fit(method)(data, settings, run)
    job.report(0.95, "scoring all buildings")
    scores = model.score(data.inputs.array)
    threshold = first_threshold(scores, pu, share, estimates.NCPU_FROM_SHARE)
    outcome = Outcome(
        method, preset, scores, model.embed(data.inputs.plain_array), card.score_type, threshold, share, seed=seed,
        settings=asdict(settings), device=str(run.device), warnings=run.warnings,
        write_files=lambda facts: write_model(job.layout, facts, pu, Learned(model.state(), data, types_from)),
    )  # fmt: skip
    result = finish(job, inputs, began, outcome)
    shutil.rmtree(kept)
    return result


def _with_class_prior(settings: NetworkSettings, share: float, run: Run) -> NetworkSettings:
    """Give a method that needs the class prior, and was not told it, the Elkan-Noto estimate, and say so.

    It is nearer to the truth than the best-bin estimate that methods make for themselves where little is damaged.
    """
    if getattr(settings, "class_prior", None) != 0:
        return settings
    prior = min(max(share, FEWEST_CALLED), 1 - FEWEST_CALLED)
    run.warnings.append(f"The class prior was not given; it was estimated as {prior:.1%} (Elkan-Noto).")
    return replace(settings, class_prior=prior)  # type: ignore[call-arg]  # not every settings class has it


def first_threshold(scores: NDArray[np.float32], pu: PUSet, share: float | None, below: float) -> float:
    """Return where to start looking: the score that as many unlabeled exceed as the estimate says are damaged.

    From an estimated share of `below` on, and without an estimate, 0.5: PU methods place their own boundary well where
    much is damaged, and call far too many where little is.
    """
    if share is None or share >= below:
        return 0.5
    return float(np.quantile(scores[~pu.is_positive & ~pu.is_left_out], 1 - share))


def _require_labels(card: catalog.MethodCard, pu: PUSet) -> None:
    needs = ((pu.is_positive, card.min_positives, "positives"), (pu.is_not_damaged, card.min_not_damaged, "undamaged"))
    for mask, wanted, words in needs:
        if mask.sum() < wanted:
            raise TrainingError(
                f"{card.title} needs at least {wanted} {words}; this project has {int(mask.sum())}.",
                "Mark more buildings on the Annotate page.",
                kind="few_labels",
            )


def _epoch_reporter(job: Job, title: str) -> Callable[[Mapping[str, object]], None]:
    def report(values: Mapping[str, object]) -> None:
        job.epoch(values)
        words = f"{title}: {values['stage']}, epoch {values['epoch']} of {values['epochs']}"
        job.report(0.05 + 0.9 * float(str(values["progress"])), words)

    return report


def _ranker_embeddings(standardised: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce features [N, D] to unit rows [N, 64] by PCA, so that ranker runs can be explored too."""
    _, _, axes = np.linalg.svd(standardised[:: max(1, len(standardised) // 4000)], full_matrices=False)
    reduced = standardised @ axes[:RANKER_EMBEDDING_DIM].T
    unit: NDArray[np.float32] = reduced / (np.linalg.norm(reduced, axis=1, keepdims=True) + 1e-12)
    return unit.astype(np.float32)


def _warnings(outcome: Outcome, pu: PUSet, clusters: pupl.PuplResult | None) -> tuple[str, ...]:
    """Say what looks wrong from positives and unlabeled alone."""
    called = float((outcome.scores[~pu.is_positive & ~pu.is_left_out] >= 0.5).mean())
    found = []
    if outcome.score_type != "linear" and not FEWEST_CALLED <= called <= MOST_CALLED:
        found.append(f"{called:.1%} of the unlabeled score 0.5 or more: check the top and the bottom by eye.")
    elif outcome.score_type != "linear" and outcome.share is not None and called > FAR_ABOVE * max(outcome.share, 0.01):
        found.append(
            f"{called:.0%} of the unlabeled score 0.5 or more, while your clicks speak for about {outcome.share:.1%}: "
            "compare the top of this ranking with the instant ranker's before you use it."
        )
    if clusters is not None and not clusters.oriented:
        found.append("The two PUPL clusters do not follow your positives: do not trust them.")
    return tuple(found)


def finish(job: Job, inputs: RunInputs, began: float, outcome: Outcome) -> dict[str, object]:
    """Store a run with its clusters and files, and make it the one that the live map shows.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}
    """
    pu = inputs.pu
    clusters = pupl.pupl(outcome.embeddings, pu.is_positive, seed=outcome.seed) if pu.is_positive.any() else None
    labels = np.zeros(len(outcome.scores)) if clusters is None else clusters.labels
    facts = RunFacts(
        run_id=_run_id(job, outcome.method),
        method=outcome.method,
        preset=outcome.preset,
        seed=outcome.seed,
        settings=outcome.settings,
        chip_set=inputs.chip_set,
        at_event=pu.at_event,
        n_positive=int(pu.is_positive.sum()),
        n_unlabeled=int((~pu.is_positive & ~pu.is_left_out).sum()),
        created_at=now(),
        seconds=round(time.monotonic() - began, 2),
        device=outcome.device,
        score_type=outcome.score_type,
        threshold=round(outcome.threshold, 4),
        estimated_share=outcome.share,
        warnings=(*outcome.warnings, *_warnings(outcome, pu, clusters)),
        versions={name: metadata.version(name) for name in ("torch", "numpy")},
        from_model=outcome.from_model,
    )
    arrays: dict[str, NDArray[np.generic]] = {"embeddings": outcome.embeddings, "clusters": labels.astype(np.int8)}
    scores = outcome.scores.astype(np.float32)
    with runs.whole_or_not_at_all(job.layout.run(facts.run_id)):
        files = outcome.write_files(facts)
    with store.connect(job.layout) as db:
        runs.finish(db, job.layout, facts, ids=pu.building_ids, scores=scores, arrays=arrays, files=files)
    return _result(facts)


def _result(facts: RunFacts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in ("run_id", "n_positive", "n_unlabeled", "seconds")}


def _run_id(job: Job, method: str) -> str:
    """Give the job's run an id, the same one after a restart, so that halves of it are written over."""
    if known := _noted_run_id(job):
        return known
    stamp = now()[5:16].replace("-", "").replace("T", "-").replace(":", "")
    run_id = f"{method.replace('+', '-')}-{stamp}-{secrets.token_hex(2)}"
    write_json(job.folder / _RUN_NOTE, {"run_id": run_id})
    return run_id


def _noted_run_id(job: Job) -> str | None:
    note = job.folder / _RUN_NOTE
    return str(json.loads(note.read_text(encoding="utf-8"))["run_id"]) if note.exists() else None


def stored_before(job: Job) -> dict[str, object] | None:
    """Return the job's result if it was killed after its run was stored."""
    run_id = _noted_run_id(job)
    if run_id is None:
        return None
    with store.connect(job.layout) as db:
        found = [facts for facts in runs.all_runs(db) if facts.run_id == run_id]
    if not found:
        return None
    shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)
    return _result(found[0])
