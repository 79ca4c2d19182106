"""Is a model broken? Alarms with advice, from positives and unlabeled alone; the same live and of a finished run.

The bounds of the source were found where little is damaged. Where much is, a good model calls much, and the criterion
r^2 / Pr(f = 1) cannot exceed 1 / share: so every bound moves with the Elkan-Noto estimate of the damaged share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.metrics import auc
from pu_geo.analysis.pu_criterion import Judgement, pu_criterion

WITHOUT_BOUNDARY = ("linear", "rank")  # types of score of which 0.5 means nothing
MOST_CALLED, FEWEST_CALLED = 0.5, 0.001
"""Shares of the unlabeled beyond which a model seems collapsed where little is damaged."""
FAR_ABOVE = 3.0  # times the estimated share, from which the share called damaged seems wrong
LOWEST_CRITERION = 2.0
LEAST_SPREAD = 0.001  # mean of 1 - cosine between chips below which a model takes all for the same
_FAIR_AUC, _SURE = 0.75, 1.64
_COMPARE = "compare the top of this ranking with the instant ranker's before you use it"


@dataclass(frozen=True)
class CollapseIndicators:
    """What is known of a model without negatives.

    Attributes:
        share_called: share of the unlabeled that score 0.5 or more; None where 0.5 is no boundary.
        share: Elkan-Noto estimate of the damaged share of the unlabeled; None where it cannot be made.
        judgement: by the held-out clicks; None without any.
        auc: chance that a held-out click scores above an unlabeled chip; None without held-out clicks.
        spread: see `spread_of`; None where it is not known.
        is_oriented: whether two clusters of embeddings follow the positives; None where they were not made.
    """

    share_called: float | None = None
    share: float | None = None
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
    *, share: float | None, threshold: float, score_type: str, is_oriented: bool | None = None, is_sampled: bool = False,
) -> CollapseIndicators:  # fmt: skip
    """Compute the indicators from scores and embeddings.

    Args:
        held_out_scores: of positives that the model did not learn from, float [P]; may be none.
        unlabeled_scores: of the unlabeled without them, see `pu_criterion.is_unlabeled`, float [U], U >= 1.
        embeddings: of some chips, float [M, E] of unit length; None where there are none.
        share: see `CollapseIndicators`.
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
    return CollapseIndicators(called, share, judgement, area, spread, is_oriented)


def spread_of(embeddings: NDArray[np.floating]) -> float:
    """Mean of 1 - cosine over all pairs of unit rows, float [M, E]: 0 where all are the same, about 1 where all differ."""
    mean = embeddings.mean(axis=0, dtype=np.float64)
    return float(max(0.0, 1 - mean @ mean))


def most_called(share: float | None) -> float:
    """Share of the unlabeled from which a model seems to call everything: a half, more where more is damaged."""
    return MOST_CALLED if share is None else max(MOST_CALLED, min(4 * share / 3, (1 + share) / 2))


def fewest_called(share: float | None) -> float:
    """Share of the unlabeled below which a model seems to call nothing; a twentieth of the damage where that is much.

    "Much" starts at a share of .15 and is reached at .30: a step would let a few more footprints raise an alarm.
    """
    return FEWEST_CALLED if share is None else max(FEWEST_CALLED, share / 20 * min(1.0, max(0.0, share / 0.15 - 1)))


def lowest_criterion(share: float | None) -> float:
    """Value of the criterion that a model should reach: 2, less where much is damaged, always above the 1 of calling all."""
    return LOWEST_CRITERION if share is None else min(LOWEST_CRITERION, 1 + 0.2 * (1 / max(share, 0.01) - 1))


def alarms(found: CollapseIndicators) -> tuple[Alarm, ...]:
    """Return what seems wrong; nothing for a model that seems sound."""
    return tuple(alarm for check in (_called, _held_out, _embeddings) for alarm in check(found))


def _called(found: CollapseIndicators) -> Iterator[Alarm]:
    called, share = found.share_called, found.share
    if called is None:
        return
    words = f"{called:.1%} of the unlabeled score 0.5 or more"
    if called > most_called(share):
        yield Alarm(
            "calls_all", words, "the model may be calling everything damaged",
            "Check the top and the bottom by eye; mark damage of other kinds, or train another method.",
        )  # fmt: skip
    elif called < fewest_called(share):
        yield Alarm(
            "calls_none", words, "the model may be calling nothing damaged",
            "Check the top and the bottom by eye: where their order is right a lower threshold will do, else train longer or "
            "mark more damaged buildings.",
        )  # fmt: skip
    elif share is not None and called > FAR_ABOVE * max(share, 0.01):
        yield Alarm(
            "calls_many", f"{words}, more than {FAR_ABOVE:g} times what clicks like yours would suggest", "it takes much for damage that is none, or your clicks are no even draw",
            f"{_COMPARE.capitalize()}.",
        )  # fmt: skip


def _held_out(found: CollapseIndicators) -> Iterator[Alarm]:
    judged, share = found.judgement, found.share
    if judged is None or found.auc is None or not judged.is_enough:
        return
    sd_chance = (1 / (12 * judged.n_held_out)) ** 0.5  # of the AUC of a guess against many unlabeled
    fair = 0.5 + (1 - (share or 0.0)) * (_FAIR_AUC - 0.5)  # the damaged among the unlabeled rank as high as the clicks
    if found.auc < 0.5 + _SURE * sd_chance and found.auc + sd_chance < fair:
        yield Alarm(
            "at_chance", f"A held-out click scores above an unlabeled building in {found.auc:.0%} of cases (50 % is chance)",
            "the model does not know damage that it was not shown",
            "Mark damage of more kinds and places, or train another method or seed.",
        )  # fmt: skip
    elif judged.high is not None and judged.high < lowest_criterion(share) and 0 < judged.share_called <= most_called(share):
        yield Alarm(
            "criterion", f"The PU criterion on {judged.n_held_out} held-out clicks is {judged.criterion:.2f}, at most "
            f"{judged.high:.2f}; {lowest_criterion(share):.2f} would be fair",
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
            "clusters", "The two PUPL clusters do not follow your positives", "damage is no group of its own to this model",
            "Do not trust the clusters on the Explore page.",
        )  # fmt: skip
