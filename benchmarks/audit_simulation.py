"""How often the intervals of an audit hold the truth, and how wide they are beside those of uniform random checks.

20,000 buildings with normal scores; audits are drawn, answered rightly and estimated by `pu_geo.analysis.audit.design` itself.
"hidden" is a score of AUC 0.93 that knows nothing of half of the damage: the case in which a model-based interval fails.
`python -m benchmarks.audit_simulation [repetitions]` prints a table in about three minutes on one core.
"""

from __future__ import annotations

import functools
import sys
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit import progress

N = 20_000
SHARES = (0.001, 0.0057, 0.01, 0.05, 0.40)
SIZES = (150, 300, 600)
SHIFTS = {"0.93": (2.087, 2.087), "0.75": (0.954, 0.954), "hidden": (2.087, 0.0)}
"""How far the normal scores of each half of the damaged buildings lie above those of the others."""
THRESHOLD = 1.5
"""Fixed, inside the third stratum: 6.7 % of the undamaged buildings score higher."""
FEWEST_TOLD = 50
"""Repetitions with an interval below which no coverage is printed."""


@dataclass
class Tally:
    """Intervals of one figure over the repetitions."""

    truths: list[float] = field(default_factory=list)
    told: list[audit.Estimate] = field(default_factory=list)

    def add(self, truth: float, estimate: audit.Estimate) -> None:
        self.truths.append(truth)
        self.told.append(estimate)

    def figures(self) -> tuple[float, float, float]:
        """Coverage and mean width of the intervals that were given, and the share of repetitions that gave one."""
        rows = [(t, e.low, e.high) for t, e in zip(self.truths, self.told, strict=True) if e.value is not None]
        truth, low, high = np.array(rows, np.float64).reshape(-1, 3).T
        if not len(rows):
            return float("nan"), float("nan"), 0.0
        holds = (low <= truth + 1e-9) & (truth <= high + 1e-9)
        return float(holds.mean()), float((high - low).mean()), len(rows) / len(self.told)


def made_up(share: float, quality: str, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Scores and the truth of one made-up event."""
    n_damaged = round(N * share)
    scores = rng.normal(size=N)
    first, second = SHIFTS[quality]
    scores[: n_damaged // 2] += first
    scores[n_damaged // 2 : n_damaged] += second
    return scores, (np.arange(N) < n_damaged).astype(np.int8)


def exact_bounds(size: int, n_checked: int, n_damaged: int, risk: float) -> tuple[int, int]:
    """Bound the damaged buildings of a population after a simple random sample without replacement.

    Returns:
        The lowest number under which at least so many would be found with a chance above `risk`, and the highest under
        which at most so many would. Never of no width before all were checked.
    """
    most = size - (n_checked - n_damaged)
    fewest, rest = range(n_damaged, most), range(n_damaged, most + 1)
    low = n_damaged + bisect_left(
        fewest, True, key=lambda damaged: 1 - progress.at_most(n_damaged - 1, size, damaged, n_checked) > risk
    )
    above = n_damaged + bisect_left(
        rest, True, key=lambda damaged: progress.at_most(n_damaged, size, damaged, n_checked) <= risk
    )
    is_point = low == above - 1
    return max(low - is_point, n_damaged), min(above - 1 + is_point, most)


@functools.cache
def uniform_width(n: int, n_found: int) -> int:
    low, high = exact_bounds(N, n, n_found, 0.025)
    return high - low


def simulate(share: float, quality: str, n: int, n_rounds: int) -> tuple[Tally, Tally, Tally, float]:
    """Intervals of total, precision and recall, and the mean width of uniform sampling."""
    rng = np.random.default_rng([round(1e4 * share), n, len(quality), ord(quality[-1])])
    total, precision, recall = Tally(), Tally(), Tally()
    for seed in range(n_rounds):
        scores, truth = made_up(share, quality, rng)
        sample = audit.design(scores, np.zeros(N, np.bool_), n=n, seed=seed)
        answers = np.full(N, audit.OPEN, np.int8)
        drawn = sample.rows[: sample.n_drawn]
        answers[drawn] = truth[drawn]
        (at,) = audit.at_thresholds(sample, answers, scores, [THRESHOLD])
        is_above, is_open = scores >= THRESHOLD, answers == audit.OPEN
        total.add(float(truth.sum()), audit.estimate_total(sample, answers))
        precision.add(float(truth[is_above & is_open].mean()), at.precision)
        recall.add(1 - float(truth[~is_above & is_open].sum() / truth.sum()), at.recall)
    found = rng.hypergeometric(round(N * share), N - round(N * share), n, size=n_rounds)
    return total, precision, recall, float(np.mean([uniform_width(n, int(x)) for x in found]))


def shown(tally: Tally, width: str) -> str:
    """Coverage in %, mean width, and in how many % of the repetitions an interval was given."""
    coverage, mean_width, told = tally.figures()
    if told * len(tally.told) < FEWEST_TOLD:
        return f"{'-':>5} {'-':>6} {told:4.0%}"
    return f"{100 * coverage:5.1f} {mean_width:{width}} {told:4.0%}"


def main(n_rounds: int) -> None:
    print(f"{n_rounds} repetitions; each figure: coverage %, mean width, given")
    print("share %  AUC     checks   total               precision           recall              uniform  times narrower")
    for share in SHARES:
        for quality in SHIFTS:
            for n in SIZES:
                total, precision, recall, uniform = simulate(share, quality, n, n_rounds)
                cells = [shown(total, "6.0f"), shown(precision, "6.3f"), shown(recall, "6.3f")]
                ratio = uniform / total.figures()[1]
                print(
                    f"{100 * share:7.2f}  {quality:<7} {n:5d}   {'   '.join(cells)}   {uniform:7.0f}  {ratio:5.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
