"""A guess of how much is damaged, from positives alone, and what it decides: a penalty, and how many a map flags at first.

The guess is for methods, and no person gets to see it: clicks are seldom an even draw of the damage. Whatever it decides is
bounded, so that no map and no ranking is lost where it is wrong. How many are damaged, only an audit can tell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.class_prior import elkan_noto_of_margins
from pu_geo.analysis.logistic import cross_fitted
from pu_geo.analysis.ranker import L2, MAX_UNLABELED, PreparedFeatures, Ranking, fit_ranking, l2_for_share, prepare
from pu_geo.analysis.ranking_evidence import RankingEvidence, evidence_of
from pu_geo.errors import TrainingError

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Features = NDArray[np.floating] | PreparedFeatures

N_FOLDS, _L2 = 5, 1.0  # held-out parts, and penalty of their fits, which hardly matters: margins are calibrated afterwards
N_SPLITS = 5  # splits into held-out parts over which a share to start from is averaged
PLANNED_SHARE = 0.05
"""What plans suppose where nothing is known: one building in 20. It is a plan's number, not an estimate."""
MOST_SHARE, MOST_ROOTS = 0.5, 20.0  # flagged at first, at most: this share of the unlabeled, so many roots of their number
LEAST_A_CLICK, MOST_A_CLICK = 0.2, 8  # at least so many a click; at most, where held-out clicks do not stand high
FEWEST_CLICKS = 5  # that the latter counts
N_FOLDS_LIVE = 3  # held-out parts where an analyst waits for the answer
DECIMALS = 4  # of scores, in every file
MIN_POSITIVES = 4  # fewer positives cannot be held out one after the other


def elkan_noto_share(
    features: Features, is_positive: Bools, *, is_excluded: Bools | None = None, n_folds: int = N_FOLDS, seed: int = 0
) -> float:
    """Estimate the share of damaged buildings among the unlabeled ones.

    With g(x) the chance of being *clicked*, and clicks drawn evenly from the damaged, g(x) = c P(damaged | x). The mean
    of g over held-out positives estimates c; an unlabeled chip then is damaged with the odds (1 - c)/c g/(1 - g).

    Source: Elkan and Noto, Learning Classifiers from Only Positive and Unlabeled Data (KDD 2008), Eq. 3 and section 2.2.
    Cross-fitted and calibrated here: every chip's margin comes from a fit that did not see it, and g is a logistic
    curve over these margins. Measured with 30 clicks (truth): Joplin .68 (.58), Harvey .172 (.167), .056 (.048), .014
    (.010); without the calibration a strong penalty drives the estimate towards 1 and a weak one halves it.

    Args:
        features: float [N, D], or what `ranker.prepare` made of it.
        is_positive: bool [N].
        is_excluded: bool [N]; left out.
        n_folds: held-out parts; at most the number of positives.
        seed: of the split into parts.

    Returns:
        Share in [0, 1].

    Raises:
        TrainingError: if there are fewer than 4 positives, or no unlabeled chip.
    """
    values, positive, unlabeled = _parts(features, is_positive, is_excluded)
    if len(positive) < MIN_POSITIVES or not len(unlabeled):
        raise TrainingError(
            f"An estimate needs at least {MIN_POSITIVES} damaged buildings and 1 not reviewed; this project has "
            f"{len(positive)} and {len(unlabeled)}.",
            "Mark more damaged buildings on the Annotate page.",
            kind="positives",
        )
    draw = np.random.default_rng(seed)
    if len(unlabeled) > MAX_UNLABELED:
        unlabeled = np.sort(draw.choice(unlabeled, MAX_UNLABELED, replace=False))
    n_folds = min(n_folds, len(positive))
    fold = np.concatenate([draw.permutation(len(positive)), draw.permutation(len(unlabeled))]) % n_folds
    return elkan_noto_of_margins(*_cross_fitted(values, positive, unlabeled, fold))


def estimated_share(features: Features, is_positive: Bools, *, is_excluded: Bools | None = None) -> float | None:
    """Return `elkan_noto_share`, or None where there are too few positives."""
    if is_positive.sum() < MIN_POSITIVES:
        return None
    return elkan_noto_share(features, is_positive, is_excluded=is_excluded)


def prior_of(
    features: Features, is_positive: Bools, *, is_excluded: Bools | None = None, is_accepted: Bools | None = None
) -> float | None:
    """Guess the damaged share of what a method takes for unlabeled, 0..1: without the accepted, which count as damaged.

    By the clicks (Elkan-Noto), for methods that cannot do without; None where the clicks are too few. Arguments as in
    `fit_with_estimate`.
    """
    share = estimated_share(features, is_positive, is_excluded=is_excluded)
    n_accepted = 0 if is_accepted is None else int(is_accepted.sum())
    n = int((~is_positive if is_excluded is None else ~is_positive & ~is_excluded).sum())
    if share is None or not n_accepted or n == n_accepted:
        return share
    return max(share * n - n_accepted, 0) / (n - n_accepted)


def evidence_to_start_from(
    features: Features, is_positive: Bools, *, is_excluded: Bools | None = None
) -> RankingEvidence | None:
    """Return where clicks stand in linear rankings that did not see them, for `start_k`; None where there are too few chips.

    One split into held-out parts moves the estimate by up to .15 on Joplin (30 clicks), and a few footprints more split
    everything anew. Here it is the mean over 5 splits, and the part that an unlabeled chip is in depends on its row alone:
    chips that are added at the end leave all others where they were. Steady is not right: where clicks are no even draw of
    the damage it is as wrong as any estimate from clicks alone.
    """
    values, positive, unlabeled = _parts(features, is_positive, is_excluded)
    if len(positive) < MIN_POSITIVES or not len(unlabeled):
        return None
    n_folds, splits = min(N_FOLDS, len(positive)), []
    for split in range(N_SPLITS):
        place = np.random.default_rng([split, 0]).random(len(is_positive))  # of more chips the first are the same
        some = np.sort(unlabeled[np.argsort(place[unlabeled], kind="stable")[:MAX_UNLABELED]])
        clicked = np.random.default_rng([split, 1]).permutation(len(positive)) % n_folds
        others = (place[some] * 2**40).astype(np.int64) % n_folds
        splits.append(_cross_fitted(values, positive, some, np.concatenate([clicked, others])))
    return evidence_of(splits)


def without_guesses(report: Mapping[str, object]) -> dict[str, object]:
    """Return the report of an epoch without the share that a method guessed from the clicks: nobody is to read it as
    known.
    """
    return {name: value for name, value in report.items() if name != "share"}


def written(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return scores [N] as every file of a project has them, with 4 decimals; thresholds are compared with these."""
    return np.asarray(scores, np.float32).astype(np.float64).round(DECIMALS)


def start_k(n_unlabeled: int, n_clicks: int, evidence: RankingEvidence | None) -> int:
    """Return how many of the unlabeled buildings a map flags at first: a starting point, not an estimate.

    Ours: as many as held-out clicks suggest are damaged, less the root of that number, since they suggest too many where few
    are; at least one for every 5 clicks, at most half of the buildings and 20 times the root of their number (half of 1,600,
    14 % of 20,000). Where these clicks do not stand high in the list, or are too few, at most 8 for every click (of 5 at
    least): so many can be looked at, and more answers allow more. Figures are in benchmarks/results/evidence.md.

    Args:
        n_unlabeled: 0 or more.
        n_clicks: buildings that were marked damaged, 0 or more.
        evidence: of the run itself, else as `evidence_to_start_from` gives it; None: `PLANNED_SHARE`.

    Returns:
        1 to `n_unlabeled`; 0 of none.

    Example:
        >>> high, middle = (RankingEvidence(10, 0, 0, 0, lowest, 0.9) for lowest in (0.1, 0.7))
        >>> start_k(1000, 10, high), start_k(1000, 10, middle), start_k(1000, 0, None)
        (500, 80, 40)
    """
    wanted = n_unlabeled * (PLANNED_SHARE if evidence is None else evidence.share)
    wanted -= wanted**0.5
    if evidence is None or evidence.is_weak:
        wanted = min(wanted, MOST_A_CLICK * max(n_clicks, FEWEST_CLICKS))
    most = min(n_unlabeled * MOST_SHARE, MOST_ROOTS * n_unlabeled**0.5)
    return min(max(int(min(max(wanted, LEAST_A_CLICK * n_clicks), most) + 0.5), 1), n_unlabeled)


def first_threshold(unlabeled_scores: NDArray[np.floating], k: int) -> float:
    """Return the score of the k-th highest unlabeled chip: the threshold that flags k of them.

    The same rule for every kind of score. A method's own boundary, 0.5, has no part in it: where much is damaged, scores
    that order well can all stay below it (NCL on Joplin). Scores count as they are `written`; where several are equal there,
    the next higher one is taken if it flags a number nearer to k. It is never 0, which would flag all.

    Args:
        unlabeled_scores: float [U]. Of none the threshold is 0.5.
        k: how many to flag, such as `start_k`; taken as 1 or as U where it is out of range.

    Example:
        >>> first_threshold(np.array([0.1, 0.4, 0.2, 0.3]), 2)
        0.3
    """
    n = len(unlabeled_scores)
    if not n:
        return 0.5
    scores, k = written(unlabeled_scores), min(max(k, 1), n)
    kth = float(np.partition(scores, n - k)[n - k])
    higher = scores[scores > kth]
    n_from_kth = int((scores >= kth).sum())
    if len(higher) and (kth == 0 or k - len(higher) < n_from_kth - k):
        return float(higher.min())
    return max(kth, 10.0**-DECIMALS)


def _parts(features: Features, is_positive: Bools, is_excluded: Bools | None) -> tuple[NDArray[np.float32], Ints, Ints]:
    """Return standardised features, float32 [N, D], and the rows of positives and of unlabeled chips that are used."""
    used = np.ones(len(is_positive), np.bool_) if is_excluded is None else ~is_excluded
    prepared = features if isinstance(features, PreparedFeatures) else prepare(features, used)
    return prepared.values, np.flatnonzero(is_positive & used), np.flatnonzero(~is_positive & used)


def _cross_fitted(
    values: NDArray[np.float32], positive: Ints, unlabeled: Ints, fold: Ints
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return margins of positives [P] and unlabeled [U] by fits without the chip itself; `fold`, int64 [P + U], is the part
    it is in.
    """
    rows, n = np.concatenate([positive, unlabeled]), len(positive)
    margins = cross_fitted(values[rows], np.arange(len(rows)) < n, fold, _L2)
    return margins[:n], margins[n:]


def rank_with_estimate(
    features: PreparedFeatures, is_positive: Bools, **masks: Bools | None
) -> tuple[NDArray[np.float32], float | None]:
    """Rank all chips with the penalty that suits the estimated share of damage: the instant ranker of app and commands.

    Args:
        as `fit_with_estimate`.

    Returns:
        scores, float32 [N] in [0, 1], and the estimated share; None, and the middle penalty, below 4 positives.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip.
    """
    ranking, share = fit_with_estimate(features, is_positive, **masks)
    return ranking.scores(features.values), share


def fit_with_estimate(
    features: PreparedFeatures,
    is_positive: Bools,
    *,
    is_excluded: Bools | None = None,
    is_not_damaged: Bools | None = None,
    is_accepted: Bools | None = None,
) -> tuple[Ranking, float | None]:
    """Fit the instant ranker with the penalty that suits the estimated share of damage.

    Args:
        features: what `ranker.prepare` made of features [N, D].
        is_positive: bool [N].
        is_excluded: bool [N]; scored, but not learned from.
        is_not_damaged: bool [N]; called not damaged by a person.
        is_accepted: bool [N]; of accepted clusters: ranked by as if they were positives, but nothing is estimated from them.

    Returns:
        The ranking, and the estimated share; None, and the middle penalty, below 4 positives.

    Raises:
        TrainingError: if there is no positive or no unlabeled chip.
    """
    used = is_positive if is_excluded is None else is_positive & ~is_excluded
    share, l2 = None, L2
    if used.sum() >= MIN_POSITIVES:
        share = elkan_noto_share(features, is_positive, is_excluded=is_excluded, n_folds=N_FOLDS_LIVE)
        l2 = l2_for_share(share)
    ranking = fit_ranking(
        features, is_positive, is_excluded=is_excluded, is_not_damaged=is_not_damaged, is_accepted=is_accepted, l2=l2
    )
    return ranking, share
