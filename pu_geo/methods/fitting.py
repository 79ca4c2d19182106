"""What a training does beside its method: check labels, choose a class prior, score all chips, and set a threshold to start
from.

The task of the app and the estimators call the same functions, so that both give the same scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from pu_geo.analysis import estimates, place
from pu_geo.analysis.estimates import first_threshold, written
from pu_geo.analysis.ranking_evidence import RankingEvidence, evidence_of_folds
from pu_geo.errors import TrainingError
from pu_geo.methods import catalog
from pu_geo.methods.cards.baselines import GUESSED_PRIORS
from pu_geo.methods.settings import MethodCard, NetworkSettings
from pu_geo.training.data import UNKNOWN, Bools, ChipImages, FeatureViews, PUData
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run

UNNAMED = "damaged"  # the one kind of damage, where nobody named kinds
MOST_LOWER = 0.06  # of the list: a set by which held-out clicks stand farther down than by the first is left out


@dataclass(frozen=True)
class Fitted:
    """A trained method and what it makes of the chips it learned from.

    Attributes:
        settings: as they were asked for; a class prior that was guessed is not among them.
        scores: float32 [N] in [0, 1].
        embeddings: of the same inputs as the scores, float32 [N, E] of unit length.
        threshold: to start from, see `estimates.first_threshold`.
        start_k: how many of the unlabeled it flags.
        evidence: where clicks stand that the method held out itself; None where it held out none.
        place: whether evidence from place is in the scores, see `place.PlaceEvidence.as_mapping`; None of a method without.
        scores_alone: the scores without it, float32 [N], as the model gives them; None where it is not in the scores.
        threshold_alone: `threshold` for these.
        types: names of the damage types that the method judges one by one; () where none was named, or it judges none.
        type_scores: of these, float32 [N, c] in [0, 1]; None without.
        is_averaged: of further feature sets, whether the scores are averaged with those by it; the model alone gives others.
    """

    model: TrainedModel
    settings: NetworkSettings
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32]
    threshold: float
    start_k: int
    evidence: RankingEvidence | None
    place: Mapping[str, Any] | None
    scores_alone: NDArray[np.float32] | None
    threshold_alone: float
    types: tuple[str, ...] = ()
    type_scores: NDArray[np.float32] | None = None
    is_averaged: Mapping[str, bool] = field(default_factory=dict)


def require_labels(
    card: MethodCard, n_positive: int, n_not_damaged: int, *,
    where: str = "this project has", hint: str = "Mark more buildings on the Annotate page.",
    noun: str = "damaged buildings",
) -> None:  # fmt: skip
    """Raise TrainingError where there are fewer positives, or fewer undamaged, than a method needs."""
    for n, wanted, words in ((n_positive, card.min_positives, noun), (n_not_damaged, card.min_not_damaged, "undamaged")):
        if n < wanted:
            raise TrainingError(f"{card.title} needs at least {wanted} {words}; {where} {n}.", hint, kind="few_labels")


def pu_data(
    inputs: FeatureViews | ChipImages, is_positive: Bools, *, is_excluded: Bools | None = None,
    is_not_damaged: Bools | None = None, types: Mapping[int, str] | None = None, is_accepted: Bools | None = None,
    is_queued: Bools | None = None,
) -> PUData:  # fmt: skip
    """Return what a method learns from.

    Args:
        is_positive: bool [N].
        is_excluded: bool [N]; none if None.
        is_not_damaged: bool [N]; called not damaged by a person.
        types: row -> kind of damage, of every positive; the most frequent kind becomes class 1. One kind for all if empty.
        is_accepted: bool [N]; those of the positives that nobody clicked.
        is_queued: bool [N]; those that the queue put before the analyst.
    """
    types, nothing = types or {}, np.zeros(len(is_positive), np.bool_)
    names = tuple(name for name, _ in sorted(Counter(types.values()).items(), key=lambda item: (-item[1], item[0])))
    number = {name: i for i, name in enumerate(names, 1)}
    undamaged = nothing if is_not_damaged is None else is_not_damaged
    known = np.where(is_positive, 1, np.where(undamaged, 0, UNKNOWN)).astype(np.int64)
    for row, name in types.items():
        known[row] = number[name]
    words = ("not damaged", *(names or (UNNAMED,)))
    return PUData(inputs, is_positive, nothing if is_excluded is None else is_excluded, known, words, is_accepted, is_queued)


def with_class_prior(settings: NetworkSettings, guess: Callable[[], float | None], run: Run) -> NetworkSettings:
    """Return settings with a guessed class prior, and a warning of the run, for a method that needs one and has none.

    The Elkan-Noto estimate is nearer to the truth than the best-bin estimate that methods make for themselves where little
    is damaged. No person gets to see it: neither stands in the warning, nor in the settings that a run keeps.

    Args:
        guess: makes the guess, 0..1, where it is needed; None for too few clicks.
    """
    if getattr(settings, "class_prior", None) != 0 or (share := guess()) is None:
        return settings
    low, high = GUESSED_PRIORS
    run.warnings.append(
        "class_prior was not set. The method was given a guess from the clicks, which are no even draw of the damage, and "
        "its ranking depends on it: set class_prior where you know the damaged share, such as from an accuracy assessment."
    )
    return replace(settings, class_prior=min(max(share, low), high))  # type: ignore[call-arg]  # not every settings class has it


def fit_and_score(
    card: MethodCard, data: PUData, settings: NetworkSettings, run: Run, *, prior: Callable[[], float | None], start_k: int,
    is_unlabeled: Bools, when_scoring: Callable[[], Any] = lambda: None, others: Mapping[str, PUData] | None = None,
) -> Fitted:  # fmt: skip
    """Train a method and score all chips; where its settings ask for it, neighbors count, see `analysis.place`.

    Of several feature sets each is learned from by itself, and the standardised log odds of the scores are averaged. A
    further set is left out where held-out clicks stand lower by it, see `MOST_LOWER`.

    Args:
        prior: guesses the share of damage among what the method takes for unlabeled; called where the settings name none.
        start_k: how many the threshold flags where the method held out no clicks, see `estimates.start_k`; else its own do.
        is_unlabeled: bool [N], the chips that the threshold is set by.
        when_scoring: called between training and scoring.
        others: the same chips and labels with other feature sets, by their names.

    Raises:
        TrainingError: if the training diverged, or cannot start.
        JobCancelled: if the user cancelled.
    """
    used = with_class_prior(settings, prior, run)
    model: TrainedModel = catalog.load_fit(card.name)(data, used, run)
    when_scoring()
    asking = replace(model, check=run.stop_if_cancelled)
    gone = data.is_missing
    scores, embeddings = asking.score(data.inputs.array, gone), asking.embed(data.inputs.array, gone)
    types = types_of(model)
    type_scores = asking.type_scores(data.inputs.array, gone) if types else None
    own = Run(run.device, run.seed, is_cancelled=run.is_cancelled)
    more = {
        name: (one, replace(catalog.load_fit(card.name)(one, used, own), check=own.stop_if_cancelled))
        for name, one in (others or {}).items()
    }
    model, scores, is_averaged = _with_others(model, scores, more, is_unlabeled)
    found, together = with_neighbors(card, data, settings, model, scores, run.stop_if_cancelled)
    evidence, k = evidence_of_folds(model.held_out_scores), start_k
    if evidence is not None:
        k = estimates.start_k(int(is_unlabeled.sum()), int(data.is_positive.sum()), evidence)
    both, alone = (first_threshold(each[is_unlabeled], k) for each in (together, scores))
    is_used = bool(found and found["used"])
    alone_scores = scores if is_used else None
    k = int((written(together[is_unlabeled]) >= both).sum())  # equal scores are flagged together
    return Fitted(
        model, settings, together, embeddings, both, k, evidence, found, alone_scores, alone, types, type_scores, is_averaged
    )  # fmt: skip


def _with_others(
    model: TrainedModel, scores: NDArray[np.float32], others: Mapping[str, tuple[PUData, TrainedModel]], is_unlabeled: Bools
) -> tuple[TrainedModel, NDArray[np.float32], dict[str, bool]]:
    """Average the standardised log odds of scores by several feature sets, in the scale of the first; and those by fits
    without some clicks.

    Returns:
        The first model with the held-out scores of all, the scores, and which sets are in them.
    """
    is_averaged = {name: _place(other) <= _place(model) + MOST_LOWER for name, (_, other) in others.items()}
    if not any(is_averaged.values()):
        return model, scores, is_averaged
    used = [others[name] for name, is_used in is_averaged.items() if is_used]
    raw = [_log_odds(each) for each in (scores, *(other.score(data.inputs.array) for data, other in used))]
    together = np.mean([place.standardized(each, is_unlabeled)[0] for each in raw], axis=0)
    own = raw[0][is_unlabeled]
    held_out = []
    for folds in zip(model.held_out_scores, *(other.held_out_scores for _, other in used), strict=True):
        standard = [place.standardized(fold.scores, np.isfinite(fold.scores))[0] for fold in folds]
        held_out.append(replace(folds[0], scores=np.mean(standard, axis=0)))  # equal seeds hold out the same
    found = expit(own.mean() + own.std() * together).astype(np.float32)
    return replace(model, held_out_scores=held_out), found, is_averaged


def _place(model: TrainedModel) -> float:
    found = evidence_of_folds(model.held_out_scores)
    return 0.0 if found is None else found.place


def _log_odds(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(logit(np.clip(scores.astype(np.float64), _LEAST_SCORE, _MOST_SCORE)), np.float64)


def types_of(model: TrainedModel) -> tuple[str, ...]:
    """Return the names of the damage types that a model judges one by one; () where nobody named any."""
    names = tuple(str(name) for name in model.findings.get("kinds", ()))
    return () if names == (UNNAMED,) else names


_LEAST_SCORE, _MOST_SCORE = 1e-30, 1 - 2.0**-24  # what 0 and 1 are taken for, of which the logit is not finite


def with_neighbors(
    card: MethodCard, data: PUData, settings: NetworkSettings, model: TrainedModel, scores: NDArray[np.float32],
    check: Callable[[], None] = lambda: None,
) -> tuple[Mapping[str, Any] | None, NDArray[np.float32]]:  # fmt: skip
    """Let the scores of neighboring buildings count, where the settings ask for it and held-out clicks bear it out.

    The raw score is the log odds of a score: as scores are standardised, its unit and origin do not matter.

    Args:
        model: that gave the scores; `held_out_scores` are what the evidence is tried on.
        scores: float32 [N] in [0, 1].

    Returns:
        Facts of the run, see `place.PlaceEvidence.as_mapping`, None for a method without; and scores, float32 [N] in [0, 1].
    """
    why = "" if data.xy_m is not None else data.why_no_place or "the places of the buildings are not known"
    facts = place_unused(card, settings, why)
    if facts is None or data.xy_m is None or getattr(settings, "neighbors", "off") != "on":
        return facts, scores
    found = place.apply(_log_odds(scores), data.xy_m, data.is_unlabeled, model.held_out_scores, check)
    return found.as_mapping(), scores if found.why_not else expit(found.scores).astype(np.float32)


def place_unused(card: MethodCard, settings: Any, why_not: str) -> Mapping[str, Any] | None:
    """Return the facts of a run that has no evidence from place in its scores; None for a method that never has."""
    if not card.uses_place:
        return None
    return place.unused(why_not if settings.neighbors == "on" else place.SWITCHED_OFF)
