"""From scores to chances of damage, learned from an audit alone.

Scores rank buildings; only random checks show what a score means. A bent logistic curve over the rank of the score is
fitted to the answers of an audit, each weighted by the buildings it stands for, so that the chances add up to about the
estimated number damaged. A stratum without a find does not prove a chance of 0: half a damaged and half an undamaged
answer, shared by the checks, go into each fit of the bounds, much as in the bounds of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from pu_geo.analysis.audit.bounds import DAMAGED, OPEN, PRIOR, UNDAMAGED, Answers, Floats
from pu_geo.analysis.audit.progress import Audit
from pu_geo.errors import ProjectError, ShapeError

Scores = NDArray[np.floating]

FEWEST_EACH = 5  # damaged, and undamaged, answers below which no curve is fitted
N_KNOTS = 500  # scores at which curves are kept; between them they are straight
BENDS = (0.0, 0.8416, 1.6449)  # normal ranks, of the top 50, 20 and 5 %, at which the curve may change its slope
STIFFNESS = 0.25  # weight of a squared change of slope there, in checks
MOST_STEPS, TOLERANCE = 60, 1e-6


@dataclass(frozen=True)
class Calibration:
    """Chance of damage by score, for buildings that were not known when the audit began.

    Attributes:
        score: float64 [K], strictly rising.
        p, p_low, p_high: float64 [K] in [0, 1], nowhere falling; p_low <= p <= p_high.
    """

    score: Floats
    p: Floats
    p_low: Floats
    p_high: Floats

    def at(self, scores: Scores) -> tuple[Floats, Floats, Floats]:
        """Return p_damaged, p_low and p_high, float64 [N] each; nan where the score is not finite."""
        values = np.where(np.isfinite(scores), np.asarray(scores, np.float64), np.nan)
        p, low, high = (np.interp(values, self.score, curve) for curve in (self.p, self.p_low, self.p_high))
        return p, low, high

    def state(self) -> dict[str, Floats]:
        """Plain arrays to store; `Calibration(**state)` brings them back."""
        return {"score": self.score, "p": self.p, "p_low": self.p_low, "p_high": self.p_high}


def calibrate(
    scores: Scores, sample: Audit, answers: Answers, *, seed: int, n_rounds: int = 400, confidence: float = 0.95
) -> Calibration:
    """Fit the chance of damage to the answered checks of an audit.

    Bounds are quantiles, at each score, of curves fitted to redrawn answers: those of a stratum get weights of an
    exponential distribution. They express the checks' randomness under a curve of this kind, not of a wrong shape.

    Source: Platt 1999 (the curve), here over normal ranks; Rubin 1981 (Bayesian bootstrap); half answers ours.

    Args:
        scores: float [N], finite for the buildings of the sample; of the run whose map is calibrated.
        sample: as `audit.design` drew it.
        answers: int8 [N], see `audit`; not assessable ones are left out.
        seed: of the redrawn weights.
        n_rounds: curves behind the bounds.
        confidence: of the bounds at each score, in (0, 1).

    Raises:
        ProjectError: if fewer than 5 damaged or 5 undamaged buildings were found by checks.
        ValueError: if a building of the sample has no finite score.
    """
    if scores.shape != answers.shape or scores.ndim != 1:
        raise ShapeError(f"scores and answers must be [N]; got {scores.shape} and {answers.shape}.")
    of_sample = np.asarray(scores[sample.rows], np.float64)
    if not np.isfinite(of_sample).all():
        raise ValueError("scores must be finite; leave out buildings without a score.")
    drawn = sample.rows[: sample.n_drawn]
    code, stratum = answers[drawn], sample.stratum[: sample.n_drawn]
    is_check = np.isin(code, (DAMAGED, UNDAMAGED))
    n_damaged, n_undamaged = int((code == DAMAGED).sum()), int((code == UNDAMAGED).sum())
    if min(n_damaged, n_undamaged) < FEWEST_EACH:
        raise ProjectError(
            f"Chances of damage need at least {FEWEST_EACH} damaged and {FEWEST_EACH} undamaged buildings among the checks "
            f"of the accuracy assessment; it has {n_damaged} and {n_undamaged}.",
            "Answer more of them, from the Damage map page.",
            kind="audit",
        )
    knots, at_knots = _normal_ranks(of_sample)
    x = np.interp(of_sample[: sample.n_drawn][is_check], knots, at_knots)
    n_answers = np.bincount(stratum[code != OPEN], minlength=len(sample.low))
    weight = (sample.sizes() / np.maximum(n_answers, 1))[stratum[is_check]]
    y, draw = (code[is_check] == DAMAGED).astype(np.float64), np.random.default_rng(seed)
    drawn_weight = draw.standard_exponential((n_rounds, len(x)))
    more_yes, more_no = draw.standard_gamma(PRIOR / len(x), (2, n_rounds, len(x)))
    curves = _curves(x, weight * (drawn_weight * y + more_yes), weight * (drawn_weight * (1 - y) + more_no), at_knots)
    fitted = _curves(x, (weight * y)[None], (weight * (1 - y))[None], at_knots)[0]
    low, high = np.quantile(curves, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return Calibration(knots, fitted, np.minimum(low, fitted), np.maximum(high, fitted))


def moved(fitted: Calibration, scores: Scores, left: tuple[float, float, float]) -> Calibration:
    """Move chances by one factor of the odds, so that they add up to the damaged buildings that are left.

    After an audit a search goes on to find damage; buildings of the same score that are still open then are damaged less
    often than the audit's were. Which ones the search took is not known by score, so all odds get the same factor.

    Source: ours.

    Args:
        scores: float [n], of the buildings that are open; finite where they count.
        left: damaged ones among them: lower bound, estimate, upper bound.
    """
    of_open = fitted.at(scores[np.isfinite(scores)])[0]
    factors = [_factor(of_open, wanted) for wanted in left]
    low, middle, high = (_with_odds(fitted.p, factor) for factor in factors)
    return Calibration(
        fitted.score, middle,
        np.minimum(low, _with_odds(fitted.p_low, factors[1])), np.maximum(high, _with_odds(fitted.p_high, factors[1])),
    )  # fmt: skip


def _factor(p: Floats, wanted: float) -> float:
    """Find the factor of odds with which chances add up to a number, by bisection of its logarithm."""
    if wanted <= 0 or not len(p):
        return 0.0
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _with_odds(p, float(np.exp(middle))).sum() < wanted else (low, middle)
    return float(np.exp((low + high) / 2))


def _with_odds(p: Floats, factor: float) -> Floats:
    parts = 1 - p + p * factor
    return np.divide(p * factor, parts, out=np.zeros_like(p), where=parts > 0)


def _normal_ranks(scores: Floats) -> tuple[Floats, Floats]:
    """Knots of the scores and their normal ranks, rising float64 [K] each; equal scores share their middle rank."""
    values, counts = np.unique(scores, return_counts=True)
    ranks = ndtri((np.cumsum(counts) - counts / 2) / len(scores))
    if len(values) <= N_KNOTS:
        return values, ranks
    # Evenly spaced in the normal rank: dense where scores are extreme, and damage is.
    picked = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], N_KNOTS)))
    return values[picked], ranks[picked]


def _basis(x: Floats) -> Floats:
    """Columns [M, 1 + S]: one, and how far x has come within each segment between `BENDS`."""
    ends = np.array([-np.inf, *BENDS, np.inf])
    parts = [np.clip(x, low, high) - np.clip(0.0, low, high) for low, high in pairwise(ends)]
    return np.column_stack([np.ones_like(x), *parts])


def _curves(x: Floats, yes: Floats, no: Floats, at: Floats) -> Floats:
    """Chances [R, K] at `at` by bent logistic curves that nowhere fall, fitted to weights yes and no [R, M] at x [M].

    Newton's method for all curves at once; a slope that would become negative is held at 0. A step that makes a fit worse
    is not taken but tried again at a quarter of its length.
    """
    columns = _basis(x)
    scale = len(x) / (yes + no).sum(axis=1, keepdims=True)
    yes, both = yes * scale, (yes + no) * scale
    n_columns = columns.shape[1]
    bends = np.diff(np.eye(n_columns), axis=0)[1:]
    stiff = STIFFNESS * bends.T @ bends + 1e-6 * np.eye(n_columns)
    squares = (columns[:, :, None] * columns[:, None, :]).reshape(len(x), -1)

    def surprise(curve: Floats) -> Floats:
        margin = curve @ columns.T
        return (both * np.logaddexp(0, margin) - yes * margin).sum(axis=1) + ((curve @ stiff) * curve).sum(axis=1) / 2

    curve, length = np.zeros((len(yes), n_columns)), np.ones(len(yes))
    curve[:, 0], curve[:, 1:] = logit(np.clip(yes.sum(axis=1) / len(x), 1e-6, 1 - 1e-6)), 0.1
    best = surprise(curve)
    for _ in range(MOST_STEPS):
        p = expit(curve @ columns.T)
        slope = (yes - both * p) @ columns - curve @ stiff
        bow = ((both * p * (1 - p)) @ squares).reshape(-1, n_columns, n_columns) + stiff
        held = (curve <= 0) & (slope <= 0)
        held[:, 0] = False
        free = ~held[:, :, None] & ~held[:, None, :]
        step = np.linalg.solve(np.where(free, bow, np.eye(n_columns)), np.where(held, 0, slope)[..., None])[..., 0]
        tried = curve + length[:, None] * step
        tried[:, 1:] = np.maximum(tried[:, 1:], 0)
        reached = surprise(tried)
        is_better = reached <= best + 1e-12
        moved = np.abs(tried - curve).max()
        curve, best = np.where(is_better[:, None], tried, curve), np.where(is_better, reached, best)
        length = np.where(is_better, np.minimum(4 * length, 1), length / 4)
        if moved < TOLERANCE:
            break
    return expit(curve @ _basis(at).T)
