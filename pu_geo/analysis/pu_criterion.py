"""Judging a model without negatives: how many held-out clicks it finds, against how much it calls damaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_HELD_OUT = 10  # held-out clicks below which nothing is judged


@dataclass(frozen=True)
class Judgement:
    """How held-out clicks judge a model at one threshold.

    Attributes:
        n_held_out: positives that the model did not learn from.
        recall: share of these that score the threshold or more, 0..1; None without any.
        share_called: share of the unlabeled that score the threshold or more, 0..1.
        criterion: recall^2 / share_called; None below 10 held-out clicks. What calls everything damaged gets 1, what
            guesses gets less than 1, and a perfect model 1 / (share of damaged).
        low, high: bounds of the criterion, from those of the recall, and of the share called where that was estimated from a
            sample; None where the criterion is.
        threshold: where it was judged, 0..1.
        n_called: how many of the unlabeled score the threshold or more; None where they are a sample.
    """

    n_held_out: int
    recall: float | None
    share_called: float
    criterion: float | None
    low: float | None
    high: float | None
    threshold: float
    n_called: int | None = None

    @property
    def is_enough(self) -> bool:
        """Whether there are clicks enough to judge by."""
        return self.n_held_out >= FEWEST_HELD_OUT

    @property
    def words(self) -> str:
        """The same in a sentence."""
        return words_of(self.as_mapping())

    def as_mapping(self) -> dict[str, object]:
        """Return the fields by name, as `RunFacts.judgement` keeps them."""
        return asdict(self)


def words_of(judgement: Mapping[str, object]) -> str:
    """Return what a judgement, as `Judgement.as_mapping` has it, means to an analyst."""
    n = judgement["n_held_out"]
    if judgement["criterion"] is None:
        return f"Not enough to judge: {n} held-out clicks, and it takes {FEWEST_HELD_OUT}."
    recall = float(str(judgement["recall"]))
    value, low, high = (float(str(judgement[name])) for name in ("criterion", "low", "high"))
    return (
        f"PU criterion {value:.2f} (95 % interval {low:.2f} to {high:.2f}): {recall:.0%} of {n} held-out clicks "
        f"{above_words(judgement.get('n_called'))}. Calling every building damaged would give 1."
    )


def above_words(n_called: object) -> str:
    """Return that clicks score the threshold or more, and how many of those not reviewed do; no share, which would be read
    as damage.
    """
    return "reach the threshold" if n_called is None else f"reach the threshold, as {n_called:,} of those not reviewed do"


def pu_criterion(
    held_out_scores: NDArray[np.floating], unlabeled_scores: NDArray[np.floating], threshold: float, *,
    is_sampled: bool = False,
) -> Judgement:  # fmt: skip
    """Judge a model by positives that it did not learn from.

    Source: Lee and Liu, Learning with Positive and Unlabeled Examples Using Weighted Logistic Regression (ICML 2003),
    section 4: r^2 / Pr(f = 1), which behaves as F1 does: it is large where recall and precision both are. Where all
    unlabeled are used, Pr is known, and the interval is that of r (`wilson`), squared. Where they are a sample, Pr has an
    interval too, and the bounds are those of r squared over the opposite ones of Pr: at least as wide as 95 % ask.

    Args:
        held_out_scores: of the held-out positives, float [P].
        unlabeled_scores: of the unlabeled, see `is_unlabeled`, float [U].
        threshold: lowest score that is called damaged.
        is_sampled: whether these are an even draw of the unlabeled instead of all of them.

    Raises:
        ValueError: without unlabeled, or where a score is no finite number.

    Departs from the source: a model that calls nothing gets 0, without an interval around it; where clicks alone are
    called damaged, Pr is taken as half a chip's share, so that the criterion stays finite.
    """
    if not len(unlabeled_scores) or not (np.isfinite(held_out_scores).all() and np.isfinite(unlabeled_scores).all()):
        raise ValueError(f"finite scores of at least one unlabeled are needed; got {len(unlabeled_scores)} unlabeled.")
    n, n_called = len(held_out_scores), int((unlabeled_scores >= threshold).sum())
    n_found = int((held_out_scores >= threshold).sum())
    called = n_called / len(unlabeled_scores)
    recall = n_found / n if n else None
    known = None if is_sampled else n_called
    if recall is None or n < FEWEST_HELD_OUT:
        return Judgement(n, recall, called, None, None, None, threshold, known)
    if not n_called and not n_found:
        return Judgement(n, 0.0, 0.0, 0.0, 0.0, 0.0, threshold, known)
    least = 0.5 / len(unlabeled_scores)
    share = max(called, least)
    fewest, most = wilson(n_called, len(unlabeled_scores)) if is_sampled else (share, share)
    low, high = wilson(n_found, n)
    return Judgement(n, recall, called, recall**2 / share, low**2 / most, high**2 / max(fewest, least), threshold, known)


def is_unlabeled(is_clicked: NDArray[np.bool_], is_hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the buildings over which Pr(f = 1) is taken when a model is judged, bool [N].

    What an audit alone answered is among them, though nothing is learned from it: audits draw most from the top of a
    ranking, and without them a model would seem to call less than it does.

    Args:
        is_clicked: bool [N], positives, held out or not.
        is_hidden: bool [N], cannot be assessed, see `assessability.is_hidden`.
    """
    return ~(is_clicked | is_hidden)


def wilson(n_hits: int, n: int) -> tuple[float, float]:
    """Bound, with a confidence of 95 %, a share of which `n_hits` of `n` draws are hits.

    Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference (JASA 1927).

    Returns:
        (low, high), within [0, 1]; never a single point, also where all or none were hits. (0, 1) for n = 0.
    """
    if n == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    low, high = binomtest(n_hits, n).proportion_ci(0.95, method="wilson")
    return float(low), float(high)
