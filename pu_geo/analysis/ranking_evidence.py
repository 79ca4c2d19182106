"""Does a ranking see the damage? Clicks that it did not learn from stand high in its list, or in the middle of it.

Source: ours. The place of a held-out click is (unlabeled before it + 1) / (n + 1). Where most buildings are damaged even a
perfect ranking puts clicks in the middle on average, but hardly one near the end; a ranking that does not see the damage
spreads them over the whole list. So the third of the clicks that stand lowest decides, not the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.analysis.place import HeldOutFold, places_of

Floats = NDArray[np.floating]

MOST_LOW = 0.64  # mean place of the lowest third of the clicks from which on they do not stand high
LOW_PART = 3  # one in so many clicks is among the lowest
NOT_CHECKED = "Whether this ranking sees the damage was not checked by clicks that it did not learn from."
NEXT_STEP = "Assess before use: an accuracy assessment of 30."


@dataclass(frozen=True)
class RankingEvidence:
    """Where clicks stand in rankings that did not learn from them.

    Attributes:
        n_clicks: how many were held out.
        place: their mean place, in (0, 1], 0 is the top of the list; `low`, `high` are its 95 % interval.
        lowest: mean place of the third of them that stands lowest, in (0, 1].
        share: guessed damaged share of the unlabeled, 0..1 (Elkan and Noto 2008); coarse, and no person gets to see it.
    """

    n_clicks: int
    place: float
    low: float
    high: float
    lowest: float
    share: float

    @property
    def is_weak(self) -> bool:
        """Whether clicks do not stand high: most buildings are damaged, or the ranking does not see the damage."""
        return self.lowest > MOST_LOW


def evidence_of(splits: Sequence[tuple[Floats, Floats]]) -> RankingEvidence:
    """Judge a ranking by scores of clicks and of unlabeled chips, by fits that did not see them.

    Args:
        splits: of each split into held-out parts, scores in one unit of the same clicks, float [P], P >= 2, and of unlabeled
            chips, float [U]. Over several splits places and share are averaged.

    Example:
        >>> evidence_of([(np.array([0.9, 0.7, 0.4]), np.linspace(0, 1, 99))]).lowest
        0.6
    """
    places = np.mean([places_of(*each) for each in splits], axis=0)
    n, mean = len(places), float(places.mean())
    half = float(1.96 * places.std(ddof=1) / n**0.5)
    lowest = float(np.sort(places)[-max(1, round(n / LOW_PART)) :].mean())
    share = float(np.mean([elkan_noto_of_margins(*each) for each in splits]))
    return RankingEvidence(n, mean, max(mean - half, 0.0), min(mean + half, 1.0), lowest, share)


def evidence_of_folds(folds: Sequence[HeldOutFold]) -> RankingEvidence | None:
    """Judge a ranking by fits that did not learn from some clicks; None where fewer than two clicks were held out."""
    scores = []
    for fold in folds:
        clicks, others = (fold.scores[rows].astype(np.float64) for rows in (fold.clicks, fold.unlabeled))
        scores.append([(each - others.mean()) / max(float(others.std()), 1e-9) for each in (clicks, others)])
    if sum(len(fold.clicks) for fold in folds) < 2:
        return None
    clicked, unlabeled = (np.concatenate(each) for each in zip(*scores, strict=True))
    return evidence_of([(clicked, unlabeled)])


def facts_of(evidence: RankingEvidence | None) -> dict[str, Any] | None:
    """Return what a run keeps: {"n_clicks", "place", "low", "high", "lowest", "is_weak"}; None for None."""
    if evidence is None:
        return None
    figures = {name: round(value, 4) for name, value in asdict(evidence).items() if name != "share"}
    return {**figures, "is_weak": evidence.is_weak}


def words_of(evidence: Mapping[str, Any] | None) -> str:
    """Return what the places of held-out clicks mean to an analyst.

    Args:
        evidence: as `facts_of` gives it; None where nothing was held out.

    >>> words_of({"n_clicks": 10, "place": 0.06, "low": 0.02, "high": 0.1, "lowest": 0.12, "is_weak": False})
    '10 clicks held out stand high in the list (mean place: top 6 %, 95 % interval 2 to 10 %).'
    """
    if not evidence:
        return NOT_CHECKED
    place, low, high = (f"{100 * float(evidence[name]):.0f}" for name in ("place", "low", "high"))
    where = f"mean place: top {place} %, 95 % interval {low} to {high} %"
    if not evidence["is_weak"]:
        return f"{evidence['n_clicks']} clicks held out stand high in the list ({where})."
    return (
        f"{evidence['n_clicks']} clicks held out stand in the middle of the list ({where}): either most buildings are "
        f"damaged or this ranking does not see the damage. {NEXT_STEP}"
    )
