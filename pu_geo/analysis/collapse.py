"""Is a model broken? Alarms with advice, from positives and unlabeled alone; the same live and of a finished run.

Nobody knows how much is damaged before an audit, so no bound supposes it: each holds for a good model from hardly any damage
up to about 60 %. Where much is damaged a good model calls much, and its criterion r^2 / Pr(f = 1) cannot exceed 1 / share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.metrics import auc
from pu_geo.analysis.pu_criterion import Judgement, pu_criterion

WITHOUT_BOUNDARY = ("linear",)  # types of score of which 0.5 means nothing
MOST_CALLED, FEWEST_CALLED = 0.8, 0.001
"""Shares of the unlabeled beyond which a model seems collapsed; a good one calls .73 where a tsunami damaged as many."""
LOWEST_CRITERION = 1.0  # what calling everything gives
LEAST_SPREAD = 0.001  # mean of 1 - cosine between chips below which a model takes all for the same
_FAIR_AUC, _SURE = 0.6, 1.64
"""AUC of a fair model (.75) against unlabeled of which 60 % are damaged: these rank as high as the clicks. How sure, in
deviations.
"""
_COMPARE = "compare the top of this ranking with the instant ranker's before you use it"


@dataclass(frozen=True)
class CollapseIndicators:
    """What is known of a model without negatives.

    Attributes:
        share_called: share of the unlabeled that score 0.5 or more; None where 0.5 is no boundary.
        judgement: by the held-out clicks; None without any.
        auc: chance that a held-out click scores above an unlabeled chip; None without held-out clicks.
        spread: see `spread_of`; None where it is not known.
        is_oriented: whether two clusters of embeddings follow the positives; None where they were not made.
    """

    share_called: float | None = None
    judgement: Judgement | None = None
    auc: float | None = None
    spread: float | None = None
    is_oriented: bool | None = None


@dataclass(frozen=True)
class Alarm:
    """Something that seems wrong.

    Attributes:
        name: a word for programs.
        seen: the observation, with its value.
        meaning: what that usually means.
        advice: what to do.
    """

    name: str
    seen: str
    meaning: str
    advice: str

    @property
    def words(self) -> str:
        """All three in one sentence or two."""
        return f"{self.seen}: {self.meaning}. {self.advice}"

    def as_mapping(self) -> dict[str, str]:
        """Return the fields by name, for a report."""
        return asdict(self)


def signs(
    held_out_scores: NDArray[np.floating], unlabeled_scores: NDArray[np.floating], embeddings: NDArray[np.floating] | None,
    *, threshold: float, score_type: str, is_oriented: bool | None = None, is_sampled: bool = False,
) -> CollapseIndicators:  # fmt: skip
    """Compute the indicators from scores and embeddings.

    Args:
        held_out_scores: of positives that the model did not learn from, float [P]; may be none.
        unlabeled_scores: of the unlabeled without them, see `pu_criterion.is_unlabeled`, float [U], U >= 1.
        embeddings: of some chips, float [M, E] of unit length; None where there are none.
        threshold: where the held-out clicks are judged.
        score_type: of the run, see `RunFacts`.
        is_oriented: see `CollapseIndicators`.
        is_sampled: whether the unlabeled are an even draw of all, see `pu_criterion`.
    """
    judgement, area = None, None
    if len(held_out_scores):
        judgement = pu_criterion(held_out_scores, unlabeled_scores, threshold, is_sampled=is_sampled)
        both = np.concatenate([held_out_scores, unlabeled_scores])
        area = auc(both, np.arange(len(both)) < len(held_out_scores))
    called = None if score_type in WITHOUT_BOUNDARY else float((unlabeled_scores >= 0.5).mean())
    spread = spread_of(embeddings) if embeddings is not None and len(embeddings) > 1 else None
    return CollapseIndicators(called, judgement, area, spread, is_oriented)


def spread_of(embeddings: NDArray[np.floating]) -> float:
    """Mean of 1 - cosine over all pairs of unit rows, float [M, E]: 0 where all are the same, about 1 where all differ."""
    mean = embeddings.mean(axis=0, dtype=np.float64)
    return float(max(0.0, 1 - mean @ mean))


def alarms(found: CollapseIndicators) -> tuple[Alarm, ...]:
    """Return what seems wrong; nothing for a model that seems sound."""
    return tuple(alarm for check in (_called, _held_out, _embeddings) for alarm in check(found))


def _called(found: CollapseIndicators) -> Iterator[Alarm]:
    called = found.share_called
    if called is None:
        return
    words = f"{called:.1%} of the buildings not reviewed score 0.5 or more"
    if called > MOST_CALLED:
        yield Alarm(
            "calls_all", words, "the model may be calling everything damaged",
            "Check the top and the bottom by eye; mark damage of other kinds, or train another method.",
        )  # fmt: skip
    elif called < FEWEST_CALLED:
        yield Alarm(
            "calls_none",
            words,
            "the model may be calling nothing damaged",
            "Check the top and the bottom by eye: where their order is right a lower threshold will do, else train longer "
            "or mark more damaged buildings.",
        )


def _held_out(found: CollapseIndicators) -> Iterator[Alarm]:
    judged = found.judgement
    if judged is None or found.auc is None or not judged.is_enough:
        return
    sd_chance = (1 / (12 * judged.n_held_out)) ** 0.5  # of the AUC of a guess against many unlabeled
    if found.auc < 0.5 + _SURE * sd_chance and found.auc + sd_chance < _FAIR_AUC:
        yield Alarm(
            "at_chance",
            f"A held-out click scores above a building not reviewed in {found.auc:.0%} of cases (50 % is chance)",
            "the model does not know damage that it was not shown",
            "Mark damage of more kinds and places, or train another method or seed.",
        )
    elif judged.high is not None and judged.high < LOWEST_CRITERION and 0 < judged.share_called <= MOST_CALLED:
        yield Alarm(
            "criterion", f"The PU criterion on {judged.n_held_out} held-out clicks is {judged.criterion:.2f}, at most "
            f"{judged.high:.2f}; calling every building damaged would give {LOWEST_CRITERION:g}",
            "it finds few clicks for what it calls damaged",
            f"Look at the held-out clicks that it misses, and {_COMPARE}.",
        )  # fmt: skip


def _embeddings(found: CollapseIndicators) -> Iterator[Alarm]:
    if found.spread is not None and found.spread < LEAST_SPREAD:
        yield Alarm(
            "embeddings", f"The embeddings of all buildings are nearly the same (spread {found.spread:.2g})",
            "the network has collapsed, and its scores tell little apart",
            "Train again with a smaller learning rate (lr) or another seed.",
        )  # fmt: skip
    if found.is_oriented is False:
        yield Alarm(
            "clusters",
            "The two PUPL clusters do not follow your damaged buildings",
            "damage is no group of its own to this model",
            "Do not trust the clusters on the Explore page.",
        )
