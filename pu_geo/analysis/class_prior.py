"""The class prior from held-out scores: what uPU and nnPU need before they can train.

How far to trust `best_bin_share`. Scores normal with standard deviation 1, mean 0 for undamaged and s for damaged, 5,000
unlabeled chips, P held-out positives; mean +- standard deviation of 200 draws, by true class prior:

    s (AUC)   P      .005          .05           .3            .6
    2 (.92)   10     .137 +-.070   .171 +-.074   .364 +-.102   .578 +-.126
              30     .114 +-.043   .152 +-.049   .362 +-.070   .600 +-.088
              300    .071 +-.012   .113 +-.015   .344 +-.030   .616 +-.038
    4 (.998)  10     .016 +-.014   .057 +-.017   .277 +-.036   .528 +-.078
              30     .014 +-.007   .058 +-.010   .291 +-.025   .562 +-.051
              300    .010 +-.002   .055 +-.004   .299 +-.012   .588 +-.021

So rare damage is overestimated, 14 to 27 times for a truth of .005 at AUC .92, and still 2 to 3 times at .998: of use
from about .3 up, where the mean is within about a fifth of the truth, not to measure how rare damage is. Few positives with
good scores err the other way, by up to 12 % here: a bin that ends at a positive's own score holds less of the damage than
q_p says. It also comes out too low where the positives are the clearest of the damaged instead of a fair draw.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from pu_geo.analysis.logistic import fit_logistic

_STEEPEST = 30.0  # slope and offset over standardised margins


def best_bin_share(
    positive_scores: NDArray[np.floating], unlabeled_scores: NDArray[np.floating], *, delta: float = 0.1, gamma: float = 0.01
) -> float:
    """Estimate the class prior from the top of the scores, where hardly anything but damage should lie (BBE).

    With q_p(c) and q_u(c) the shares of positives and of unlabeled chips that score c or more, q_u(c) / q_p(c) is the class
    prior plus what undamaged chips add. High bins have little of that, but few positives; the bin with the smallest upper
    bound of the ratio, (q_u + (1 + gamma) (w_p + w_u)) / q_p, is taken, w = sqrt(log(4 / delta) / (2 n)).

    Source: Garg et al., Mixture Proportion Estimation and PU Learning: A Modern Approach (NeurIPS 2021), Algorithm 1.

    Args:
        positive_scores: float [P], P >= 1, finite, in any monotone unit, of positives that the scoring fit did not see.
        unlabeled_scores: float [U], U >= 1, of unlabeled chips that it did not see.
        delta: chance that the bound fails, in (0, 1).
        gamma: slack of the bound, at least 0.

    Returns:
        Share in [0, 1].

    Departs from the source: a bin with q_p(c) of w_p or less could hold no damage at all and is left out, unless it holds
    all positives.
    """
    # From one positive down to the next only q_u grows, so a bin best ends at the score of a positive.
    ends = np.unique(positive_scores)
    q_p, q_u = _share_from(positive_scores, ends), _share_from(unlabeled_scores, ends)
    w_p, w_u = (np.sqrt(np.log(4 / delta) / (2 * len(scores))) for scores in (positive_scores, unlabeled_scores))
    bound = (q_u + (1 + gamma) * (w_p + w_u)) / q_p
    # The first bin holds all positives. Its ratio is at most 1, so no winner's is above; where all are inf, it is taken.
    best = np.where(q_p > w_p, bound, np.inf).argmin()
    return float(q_u[best] / q_p[best])


def elkan_noto_of_margins(positive: NDArray[np.floating], unlabeled: NDArray[np.floating]) -> float:
    """Estimate the class prior from margins of fits that did not see the chips.

    A logistic curve over the margins gives g, the chance of being clicked; its mean over positives estimates c, and an
    unlabeled chip is damaged with the odds (1 - c)/c g/(1 - g).

    Source: Elkan and Noto, Learning Classifiers from Only Positive and Unlabeled Data (KDD 2008), Eq. 3 and section 2.2.

    Args:
        positive: float [P], P >= 1.
        unlabeled: float [U], U >= 1, of other chips.

    Returns:
        Share in [0, 1].
    """
    clicked = _calibrated(np.concatenate([positive, unlabeled]).astype(np.float64), len(positive))
    frequency = float(np.clip(clicked[: len(positive)].mean(), 1e-6, 1.0))
    rest = clicked[len(positive) :]
    odds = (1 - frequency) / frequency * rest / np.maximum(1 - rest, 1e-6)
    return float(np.clip(odds, 0, 1).mean())


def _calibrated(margin: NDArray[np.float64], n_positive: int) -> NDArray[np.float64]:
    """Chance of being clicked, float64 [P + U]: the likeliest logistic curve over margins whose first rows are the
    positives.

    The curve rises: where it would fall, all chips have the same chance.
    """
    standard = (margin - margin.mean()) / max(float(margin.std()), 1e-9)
    is_positive, every = np.arange(len(margin)) < n_positive, np.full(len(margin), 1 / len(margin))
    bounds = [(0.0, _STEEPEST), (-_STEEPEST, _STEEPEST)]
    slope, offset, _ = fit_logistic(standard[:, None], is_positive, 0.0, every, tolerance=1e-10, bounds=bounds)
    return np.asarray(scipy.special.expit(standard * slope[0] + offset), np.float64)


def _share_from(scores: NDArray[np.floating], ends: NDArray[np.floating]) -> NDArray[np.float64]:
    """Share of scores at or above each end of a bin, float64 [T]."""
    return (len(scores) - np.searchsorted(np.sort(scores), ends)) / len(scores)
