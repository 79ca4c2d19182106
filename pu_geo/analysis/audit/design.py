"""The audit of a damage map: random checks by score, and what follows from them about the total, precision and recall.

The sample is a `progress.Audit` with finer strata; a longer one is the same with a larger `n_drawn`, so it stays fair. All
functions take `answers`, int8 [N]: `DAMAGED`, `UNDAMAGED`, `NOT_ASSESSABLE` or `OPEN`, the labels as they are now: what was
corrected since counts as corrected. Buildings that were known when the audit began are a census: they count as they are.

The estimates take the first `n_drawn` rows for the sample, so give them what `as_answered` returns. Of buildings that the
sample does not hold, a label only bounds: what a search found after the audit is damaged for certain, and says nothing of
the rest.

Estimates are Horvitz-Thompson's, post-stratified where a threshold cuts through a stratum. A building that is not
assessable belongs to no population: its stratum shrinks by the share of such answers, and that share is taken as exact. No
stratum is trusted because of its score: damage that the scores miss is bounded by what was checked among low scores, so that
few checks give wide intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.audit.bounds import DAMAGED as DAMAGED
from pu_geo.analysis.audit.bounds import (
    NOT_ASSESSABLE,
    OPEN,
    Answers,
    Bools,
    Estimate,
    Floats,
    not_enough,
    of_flagged,
    parts,
    share_above,
    total_of,
    why_not_enough,
)
from pu_geo.analysis.audit.bounds import UNDAMAGED as UNDAMAGED
from pu_geo.analysis.audit.progress import Audit, Rows, n_counted, start_audit

Scores = NDArray[np.floating]

CUTS = (0.01, 0.03, 0.08, 0.20, 0.50)  # where the audit of a map cuts the buildings, as shares from the highest score down


@dataclass(frozen=True)
class AtThreshold:
    """What calling every building from `threshold` up damaged would mean.

    Attributes:
        threshold: lowest score that is flagged.
        flagged: buildings without an answer that are flagged.
        damaged: of the flagged, how many are damaged.
        precision: share of the flagged that is damaged, in [0, 1]. What people answered is not among them.
        recall: share of all damaged buildings that is flagged or confirmed, in [0, 1].
        n_checks, n_damaged: answered checks from the threshold up, and how many of them found damage.
    """

    threshold: float
    flagged: int
    damaged: Estimate
    precision: Estimate
    recall: Estimate
    n_checks: int
    n_damaged: int


@dataclass(frozen=True)
class Choice:
    """A threshold whose estimate reaches a wish, and one whose lower bound does; None where there is none, see `words`."""

    estimated: float | None
    assured: float | None
    words: str


def design(
    scores: Scores, is_known: Bools, *, n: int, seed: int, cuts: tuple[float, ...] = CUTS, sites: Rows | None = None
) -> Audit:
    """Draw the audit of a map: strata denser at the top, checks by the root of their sizes.

    Of an event with several sites, strata are those of each site, see `start_audit`. They are cut by score as far as n has
    three checks for each; with fewer than three for a site, strata are those of one site, and chance says how many checks
    each site gets.

    Args:
        scores: float [N], finite where not known.
        is_known: bool [N]; answered, or left out of the question.
        n: checks; all buildings that are not known where there are fewer. Add checks later with a larger `n_drawn`.
        seed: of the permutations.
        cuts: rising shares from the top.
        sites: int64 [N], number of the site of each; None where all are of one.

    Raises:
        ValueError: if n < 0, or a building that is not known has no finite score.
    """
    _check_scores(scores, ~is_known)
    if n < 0:
        raise ValueError(f"an audit has 0 or more checks; got n = {n}.")
    audit = start_audit(scores, is_known, seed=seed, cuts=cuts, sites=sites)
    while sites is not None and n < 3 * len(audit.low):
        cuts, sites = (cuts[1:], sites) if cuts else (CUTS, None)
        audit = start_audit(scores, is_known, seed=seed, cuts=cuts, sites=sites)
    return replace(audit, n_drawn=min(n, len(audit.rows)))


def as_answered(sample: Audit, answers: Answers, checked_at: Rows, known_at: Rows) -> Audit:
    """Return the audit with the rows that count as its sample: those answered as checks without a gap, see `n_counted`.

    Args:
        sample: as it was drawn.
        answers: int8 [N], see the module.
        checked_at, known_at: int64 [N], events of the first answer as a check of this audit, and of the first answer of any
            kind since it began; 0 where there is none.
    """
    drawn = sample.rows[: sample.n_drawn]
    return replace(sample, n_drawn=n_counted(answers[drawn] != OPEN, checked_at[drawn], known_at[drawn]))


def estimate_total(sample: Audit, answers: Answers, *, confidence: float = 0.95) -> Estimate:
    """Estimate the number of damaged buildings, known ones included.

    Args:
        sample: as `design` drew it.
        answers: int8 [N], see the module.
        confidence: of the interval, in (0, 1).

    Returns:
        Number with bounds, inside [0, N]; not enough below 30 answered checks or where a stratum has none.
    """
    (part,) = parts(sample, answers, np.zeros(len(answers), np.int64), 1)
    reason = why_not_enough(part)
    return not_enough(reason) if reason else total_of(part, confidence)


def at_thresholds(
    sample: Audit, answers: Answers, scores: Scores, thresholds: Sequence[float] | Floats, *, confidence: float = 0.95
) -> list[AtThreshold]:
    """Estimate precision and recall at each threshold; bounds as in `bounds`.

    Args:
        sample, answers: as for `estimate_total`.
        scores: float [N], of any run; those that the sample was drawn by make the narrowest intervals.
        thresholds: lowest scores flagged.
        confidence: of each interval, in (0, 1); not of all of them together.

    Raises:
        ValueError: if a building that counts has no finite score.
    """
    is_inside = _population(sample, answers, scores)
    return [_at(sample, answers, scores >= at, is_inside, float(at), confidence) for at in thresholds]


def threshold_for(rows: Sequence[AtThreshold], *, precision: float | None = None, recall: float | None = None) -> Choice:
    """Choose the lowest threshold with a wanted precision, or the highest with a wanted recall, among those estimated.

    The estimate of a threshold chosen by it is a little too good; the assured threshold errs less. Checks that found no
    damage choose none: whatever such a bound says, it says of what was known before.

    Raises:
        ValueError: if not exactly one wish in (0, 1] is given.
    """
    wish = precision if precision is not None else recall
    if wish is None or (precision is not None and recall is not None) or not 0 < wish <= 1:
        raise ValueError(f"one wish in (0, 1] is needed; got precision {precision} and recall {recall}.")
    name, choose = ("precision", min) if precision is not None else ("recall", max)
    n_checks = max((row.n_checks for row in rows), default=0)
    figures: list[tuple[float, Estimate]] = [(row.threshold, getattr(row, name)) for row in rows]
    known = [(at, figure) for at, figure in figures if figure.is_enough]
    if not known:
        return Choice(None, None, f"not enough: {name} could be estimated at none of {len(rows)} thresholds. Check more.")
    if not any(row.n_damaged for row in rows):
        return Choice(None, None, f"None of these {n_checks:,} checks found damage, so they recommend no threshold.")
    estimated = choose((at for at, figure in known if (figure.value or 0) >= wish), default=None)
    assured = choose((at for at, figure in known if (figure.low or 0) >= wish), default=None)
    if estimated is None:
        return Choice(None, None, _why_none(name, wish, figures, n_checks))
    if assured is None:
        return Choice(
            estimated, None, f"No threshold is sure to reach a {name} of {wish:.0%}. More checks narrow its interval."
        )
    return Choice(estimated, assured, f"Estimate and lower bound reach a {name} of {wish:.0%}.")


def _why_none(name: str, wish: float, figures: Sequence[tuple[float, Estimate]], n_checks: int) -> str:
    """Return why no estimate reaches a wish: the checks cannot tell, or rule it out."""
    known = [(at, figure) for at, figure in figures if figure.is_enough]
    best = max((figure for _, figure in known), key=lambda figure: figure.value or 0)
    share = f"{best.value or 0:.1%}, between {best.low or 0:.1%} and {best.high or 0:.1%}"
    told = max(at for at, _ in known)
    if any(at > told for at, _ in figures):
        return (
            f"These {n_checks:,} checks cannot tell the {name} above a threshold of {told:.4g}; up to there the best "
            f"estimate is {share}. "
            "More checks tell more."
        )
    if any((figure.high or 0) >= wish for _, figure in known):
        return (
            f"No estimate reaches a {name} of {wish:.0%}, and these {n_checks:,} checks cannot rule it out: the best is "
            f"{share}."
        )
    return f"No threshold reaches a {name} of {wish:.0%}; the best estimate is {share}."


def _at(
    sample: Audit, answers: Answers, is_flagged: Bools, is_inside: Bools, threshold: float, confidence: float
) -> AtThreshold:
    """Estimate what the flagged buildings hold; those that are not `is_inside` belong to no side."""
    side = np.where(is_inside, np.where(is_flagged, 0, 1), 2)
    above, below = parts(sample, answers, side, 2)
    damaged, precision = of_flagged(above, confidence)
    n_flagged = int(((side == 0) & (answers == OPEN)).sum())
    recall = share_above(above, below, confidence)
    return AtThreshold(threshold, n_flagged, damaged, precision, recall, above.n_checks, above.n_damaged)


def _population(sample: Audit, answers: Answers, scores: Scores) -> Bools:
    """The buildings that count, bool [N]: all but those that were known to be not assessable when the audit began."""
    is_inside = answers != NOT_ASSESSABLE
    is_inside[sample.rows] = True
    _check_scores(scores, is_inside)
    return is_inside


def _check_scores(scores: Scores, is_used: Bools) -> None:
    if scores.shape != is_used.shape or not np.isfinite(scores[is_used]).all():
        raise ValueError(f"scores must be finite, [N] = {is_used.shape}; got shape {scores.shape} with gaps or infinity.")
