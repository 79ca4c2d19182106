"""How far the search is: which random checks count, and when to stop.

How the random checks stay a fair sample. An `Audit` cuts the buildings that nobody had answered when it began into strata
by score, and puts all of them into one drawing order that is fixed from then on: strata alternate by their shares, and
within a stratum the order is a random permutation. A sample is always the first rows of that order, nothing else, so what
was drawn of a stratum is a simple random sample of it without replacement, in which each building was included with
probability drawn / size, as Horvitz-Thompson needs. Scores that change later make the strata less useful, never wrong.

Which rows count is decided by `n_counted`: the order as far as it was answered as checks without a gap. People search
beside an audit, leave one unfinished and search on, and a search finds damage: its clicks are no random answers. A sample
that took them would call the rest as damaged as what the search found.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]
STRATA_FROM_TOP = (0.01, 0.05, 0.20)  # where an audit cuts the buildings, as shares from the highest score down
SMALLEST_STRATUM = 20
FEWEST_PICKED = 3  # answered buildings among those removed, below which nobody asks whether they were picked
PICKED = 0.001  # chance of so many of them, below which they were
LEAST_OF_EACH = 2  # checks of each stratum, by which its spread can be judged, where sites are strata
FEWEST_CHECKS = 30  # answered random checks below which there is no estimate of the total


@dataclass(frozen=True)
class Audit:
    """A stratified random sample that grows, see the module.

    Attributes:
        rows: int64 [M], the buildings that were unanswered at the start, in drawing order.
        stratum: int64 [M], of each of them; 0 has the highest scores, of the first site.
        low, high: float64 [S], lowest and highest score in each stratum at the start.
        n_drawn: how many of `rows` were drawn; those that count are fewer where not all are answered, see `n_counted`.
    """

    rows: Rows
    stratum: Rows
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_drawn: int = 0

    def sizes(self) -> Rows:
        """Buildings in each stratum, int64 [S]."""
        return np.bincount(self.stratum, minlength=len(self.low))

    def inclusion(self) -> NDArray[np.float64]:
        """Probability with which a building of each stratum is in the sample as it is now, float64 [S]."""
        return np.bincount(self.stratum[: self.n_drawn], minlength=len(self.low)) / np.maximum(self.sizes(), 1)

    def without(self, is_gone: Bools) -> Audit:
        """Return the sample of the buildings that are left, where some, bool [N], are of the population no more.

        Whatever took them away did not look at damage, so the order of the others is as random as it was: what is drawn of a
        stratum is a fair sample of what is left of it. See `is_picked` for where that is in doubt.
        """
        stays = ~is_gone[self.rows]
        return replace(self, rows=self.rows[stays], stratum=self.stratum[stays], n_drawn=int(stays[: self.n_drawn].sum()))

    def is_picked(self, is_known: Bools, is_gone: Bools) -> bool:
        """Return whether more of the buildings that went had an answer than chance explains, so that the answers may have
        chosen them.

        Args:
            is_known: bool [N], was answered since the audit began, by a check or a search.
            is_gone: bool [N]. Fewer than three that were answered change nothing.
        """
        from scipy.stats import hypergeom

        known, gone = is_known[self.rows], is_gone[self.rows]
        n_both = int((known & gone).sum())
        chance = np.ones(1)
        counts = (np.bincount(self.stratum[part], minlength=len(self.low)) for part in (known, gone))
        for size, n_known, n_gone in zip(self.sizes(), *counts, strict=True):
            chance = np.convolve(chance, hypergeom.pmf(np.arange(n_gone + 1), size, n_known, n_gone))
        return n_both >= FEWEST_PICKED and float(chance[n_both:].sum()) < PICKED


def start_audit(
    scores: NDArray[np.floating], is_answered: Bools, *, seed: int, cuts: tuple[float, ...] = STRATA_FROM_TOP,
    sites: Rows | None = None,
) -> Audit:  # fmt: skip
    """Fix the order in which random checks are drawn.

    Strata are cut by rank, denser at the top; a cut that leaves fewer than 20 buildings on a side is not made. Each
    stratum gets checks in proportion to the square root of its size: Neyman's allocation where each holds about as many
    damaged buildings.

    Of several sites each is cut by itself, by its own ranks, and the first two checks of every stratum come before all
    others, so that no site is left without. Within a stratum the draw is as random as in one site: the same inclusion
    probabilities and estimates hold.

    Args:
        scores: float [N], finite where not answered.
        is_answered: bool [N]; the others are what the sample stands for.
        seed: of the permutations.
        cuts: rising shares from the top; () for one stratum, as `stop_rule` needs it.
        sites: int64 [N], number of the site of each; None where all are of one.
    """
    ranked = np.flatnonzero(~is_answered)
    ranked = ranked[np.argsort(-scores[ranked], kind="stable")]
    of = np.zeros(len(ranked)) if sites is None else sites[ranked]
    strata: list[Rows] = []
    for own in (ranked[of == site] for site in np.unique(of)):
        ends = [0]
        for end in (round(share * len(own)) for share in cuts):
            if min(end - ends[-1], len(own) - end) >= SMALLEST_STRATUM:
                ends.append(end)
        strata += np.split(own, ends[1:])
    draw = np.random.default_rng(seed)
    rows = np.concatenate([ranked[:0], *(draw.permutation(part) for part in strata)])
    stratum = np.repeat(np.arange(len(strata)), [len(part) for part in strata])
    # The j-th draw from a stratum is due at (j - 1/2) / weight: Sainte-Laguë's way to alternate.
    due = [np.empty(0), *((np.arange(len(part)) + 0.5) / np.sqrt(len(part)) for part in strata)]
    for of_part in due if sites is not None else ():
        of_part[:LEAST_OF_EACH] -= len(ranked)
    order = np.argsort(np.concatenate(due), kind="stable")
    low, high = (np.array([scores[part[at]] for part in strata], np.float64) for at in (-1, 0))
    return Audit(rows[order], stratum[order], low, high)


def n_counted(is_known: Bools, checked_at: Rows, known_at: Rows) -> int:
    """Return how many of the first rows of a drawing order make up the sample, from what was answered when.

    Rows count up to the first that is open. One that was answered as a check counts, with whatever its label is by now.
    One that an ordinary click answered counts if that was before the last of the checks that count: the audit then passed
    it by because it was known, as it would have asked it otherwise. Clicks after that, on rows which the audit had not
    come to, are what a search happened to find; they end the sample. So an audit that was left unfinished counts as it
    stood when its last check was answered, and nothing that is searched afterwards can enter it.

    A skipped row ends the sample too, until it is answered: whoever skips what is hard to see, or answers only what is
    damaged, would bias a sample of the others.

    Source: ours. With m checks answered, the sample ends before the next open row, and m is an unbiased count of what was
    open among that many rows (Haldane 1945, inverse sampling).

    Args:
        is_known: bool [D], rows of the order as far as it was drawn; carries a label, or is hidden in the imagery.
        checked_at: int64 [D], event of the first answer as a check of this audit; 0 where there is none.
        known_at: int64 [D], event of the first answer of any kind since the audit began; 0 where there is none.
    """
    n = int(np.argmin(is_known)) if not is_known.all() else len(is_known)
    while True:
        last_check = checked_at[:n].max(initial=0)
        is_late = (checked_at[:n] == 0) & (known_at[:n] > last_check)
        if not is_late.any():
            return n
        n = int(is_late.argmax())


def at_most(n_found: int, size: int, damaged: int, n_checked: int) -> float:
    """Chance to find at most `n_found` of `damaged` among `n_checked` drawn from `size` without replacement."""
    from scipy.stats import hypergeom

    return float(hypergeom.cdf(n_found, size, damaged, n_checked))


@dataclass(frozen=True)
class StopAdvice:
    """How many more random checks to make before stopping, and the same in words."""

    n_more: int
    words: str


def stop_rule(
    n_remaining: int, n_checked: int, n_damaged: int, *, at_most_left: int, confidence: float = 0.95
) -> StopAdvice:
    """Compute how many more random checks, if none finds damage, prove that hardly any damaged building is left.

    The checks must be drawn evenly from all that were unanswered when they began (`start_audit` with `cuts=()`), and no
    search may go on between them. With x found so far, the number of checks is the smallest n for which more than
    `at_most_left` overlooked buildings would have shown up: P(at most x found | x + at_most_left + 1 damaged) <= risk,
    the exact hypergeometric tail. Each find calls for another n, which is another chance to be wrong; so the risk of the
    plan after x finds is (1 - confidence) * 6 / (pi (x + 1))^2, and all of them together are 1 - confidence at most.

    Source: ours; sampling inspection by the hypergeometric distribution, with the risk divided over the plans. With the
    undivided risk at each find, up to 9 % instead of 5 % of searches would stop too early with 20 left, 18 % with 500.

    Args:
        n_remaining: buildings that are unanswered now.
        n_checked, n_damaged: random checks made so far, and how many of them found damage.
        at_most_left: damaged buildings that may stay unfound.
        confidence: in (0, 1).

    Returns:
        0 more where it is proved already.

    Raises:
        ValueError: if a number is below 0, or more were found than checked.
    """
    if min(n_remaining, n_checked - n_damaged, n_damaged, at_most_left) < 0 or not 0 < confidence < 1:
        raise ValueError(
            f"counts must be 0 or more and confidence in (0, 1); got {n_remaining} remaining, {n_checked} checked, "
            f"{n_damaged} damaged, at most {at_most_left} left, confidence {confidence}."
        )
    size, damaged = n_remaining + n_checked, n_damaged + at_most_left + 1
    risk = (1 - confidence) * 6 / (np.pi * (n_damaged + 1)) ** 2
    most = range(n_checked, max(size - at_most_left, n_checked))
    more = bisect_left(most, True, key=lambda n: at_most(n_damaged, size, damaged, n) <= risk)
    left = (
        f"at most {at_most_left:,} of the {n_remaining - more:,} that remain are damaged, with {100 * confidence:g} % "
        "confidence"
    )
    return StopAdvice(more, f"Check {more:,} more at random: if none is damaged, {left}." if more else f"Enough: {left}.")
