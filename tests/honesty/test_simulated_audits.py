"""Audits, searches and corrections in every order, up to a thousand times each: the intervals hold the truth as often as they say."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from small_parts import in_tiers

from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit.progress import Audit, start_audit

N = 3000
N_ROUNDS, FEW_ROUNDS = 1000, 200
N_CHECKS = 200
PREVALENCES = (0.005, 0.03, 0.20, 0.60)
LEAST_COVERAGE = 0.93
OPEN = audit.OPEN


@dataclass
class Event:
    """A made-up event and what people answered of it so far; `eye`, the order of a search, knows more of the truth."""

    truth: NDArray[np.int8]
    scores: NDArray[np.float64]
    eye: NDArray[np.float64]
    draw: np.random.Generator
    event: int = 0
    sites: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        self.answers = np.full(len(self.truth), OPEN, np.int8)
        self.is_gone = np.zeros(len(self.truth), np.bool_)
        self._forget()

    def remove(self, is_gone: NDArray[np.bool_]) -> None:
        """Take buildings away: no count has them any more."""
        self.is_gone |= is_gone
        self.answers[is_gone] = audit.NOT_ASSESSABLE
        self.truth[is_gone] = 0

    def _forget(self) -> None:
        self.checked_at, self.known_at = (np.zeros(len(self.truth), np.int64) for _ in range(2))

    def begin(self, n: int = N_CHECKS) -> Audit:
        self._forget()
        return audit.design(self.scores, self.answers != OPEN, n=n, seed=int(self.draw.integers(2**32)), sites=self.sites)

    def search(self, n: int) -> None:
        """Come by n open buildings; click those that are damaged, and call one of twenty others not damaged."""
        rows = np.flatnonzero(self.answers == OPEN)
        rows = rows[np.argsort(-self.eye[rows], kind="stable")][:n]
        said = rows[(self.truth[rows] == 1) | (self.draw.random(len(rows)) < 0.05)]
        self.answers[said] = self.truth[said]
        self.known_at[said] = self.event + 1 + np.arange(len(said))
        self.event += len(said)
        self.eye[rows] -= 10  # who did not click, does not come by again soon

    def check(self, sample: Audit, n: int, *, wrong: float = 0.0) -> None:
        """Answer the next n open checks, a share of them wrongly."""
        drawn = sample.rows[: sample.n_drawn]
        rows = drawn[self.answers[drawn] == OPEN][:n]
        is_wrong = self.draw.random(len(rows)) < wrong
        self.answers[rows] = np.where(is_wrong, 1 - self.truth[rows], self.truth[rows])
        self.checked_at[rows] = self.known_at[rows] = self.event + 1 + np.arange(len(rows))
        self.event += len(rows)


def finished(event: Event) -> Audit:
    sample = event.begin()
    event.check(sample, N_CHECKS)
    return sample


def abandoned(event: Event) -> Audit:
    """A third of the checks, then 1,000 buildings of searching on."""
    sample = event.begin(3 * N_CHECKS // 2)
    event.check(sample, N_CHECKS // 2)
    event.search(1000)
    return sample


def resumed(event: Event) -> Audit:
    sample = abandoned(event)
    event.check(sample, len(sample.rows))
    return sample


def two_audits(event: Event) -> Audit:
    """A search, an audit, a search, and an audit of what is left; the second one counts."""
    event.search(200)
    finished(event)
    event.search(200)
    return finished(event)


def left_and_begun_anew(event: Event) -> Audit:
    abandoned(event)
    return finished(event)


def interleaved_and_left(event: Event) -> Audit:
    """Twenty checks, sixty buildings of searching, and so on, left after six times."""
    sample = event.begin()
    for _ in range(6):
        event.check(sample, 20)
        event.search(60)
    event.search(600)
    return sample


def corrected(event: Event) -> Audit:
    """One of ten checks is answered wrongly and put right on the map afterwards."""
    sample = event.begin()
    event.check(sample, N_CHECKS, wrong=0.1)
    event.search(300)
    checked = event.checked_at > 0
    event.answers[checked] = event.truth[checked]
    return sample


def checks_of_the_queue(event: Event) -> Audit:
    """The random checks of the search itself: two of each twenty, drawn as `analysis.queue` does."""
    event._forget()
    sample = start_audit(event.scores, event.answers != OPEN, seed=int(event.draw.integers(2**32)))
    for _ in range(60):
        event.search(18)
        sample = replace(sample, n_drawn=sample.n_drawn + 2)
        event.check(sample, 2)
    return sample


def sloppy(event: Event) -> Audit:
    """Who answers skips one check of a hundred that is undamaged, and goes back to none: only what is before it counts."""
    sample = event.begin(2 * N_CHECKS)
    drawn = sample.rows[: sample.n_drawn]
    skipped = drawn[(event.truth[drawn] == 0) & (event.draw.random(len(drawn)) < 0.01)]
    event.check(sample, 2 * N_CHECKS)
    event.answers[skipped], event.checked_at[skipped], event.known_at[skipped] = OPEN, 0, 0
    return sample


def cut_to_an_area(event: Event) -> Audit:
    """A finished audit; then all outside an area goes, which holds twice as much of the damage as of the rest."""
    sample = finished(event)
    event.remove(event.draw.random(len(event.truth)) < np.where(event.truth == 1, 0.3, 0.6))
    return sample.without(event.is_gone)


def cut_and_gone_on(event: Event) -> Audit:
    """Half of an audit, a list of buildings removed, whatever was checked of them, and the audit answered to its end."""
    sample = event.begin(2 * N_CHECKS)
    event.check(sample, N_CHECKS)
    event.remove(event.draw.random(len(event.truth)) < 0.3)
    left = sample.without(event.is_gone)
    event.check(left, 2 * N_CHECKS)
    return left


def cut_and_added(event: Event) -> Audit:
    """Half of the buildings are new: no check could draw them, so the audit speaks for the others alone."""
    event.remove(np.arange(len(event.truth)) % 2 == 0)
    sample = event.begin()
    event.check(sample, N_CHECKS)
    return sample


def of_sites(event: Event) -> Audit:
    """A search, and an audit of seven sites of many sizes; damage lies in the first of them."""
    event.sites = np.digitize(
        event.draw.permutation(N) * np.where(event.truth == 1, 0.6, 1), N * np.array([0.4, 0.7, 0.8, 0.9, 0.95, 0.98])
    )
    event.search(200)
    return finished(event)


def left_in_sites(event: Event) -> Audit:
    event.sites = np.arange(N) % 3
    return abandoned(event)


SCENARIOS: tuple[Callable[[Event], Audit], ...] = (
    finished, abandoned, resumed, interleaved_and_left, corrected, two_audits, left_and_begun_anew, checks_of_the_queue, sloppy,
    cut_to_an_area, cut_and_gone_on, cut_and_added, of_sites, left_in_sites,
)  # fmt: skip


def made_up(prevalence: float, seed: int) -> Event:
    """Return an event; a fifth of its damage looks whole to the scores."""
    draw = np.random.default_rng([seed, round(1e4 * prevalence)])
    truth = np.zeros(N, np.int8)
    truth[: round(N * prevalence)] = 1
    hidden = draw.random(N) < 0.2
    scores = draw.normal(size=N) + 2.2 * truth * ~hidden
    return Event(truth, scores, scores + 1.5 * truth + draw.normal(size=N), draw)


@dataclass
class Tally:
    """How often intervals of one figure were given, held the truth, and lay below or above it."""

    n: int = 0
    given: int = 0
    below: int = 0
    above: int = 0

    def add(self, figure: audit.Estimate, truth: float) -> None:
        self.n += 1
        if figure.low is None or figure.high is None:
            return
        self.given += 1
        self.below += figure.high < truth - 1e-9
        self.above += figure.low > truth + 1e-9

    @property
    def coverage(self) -> float:
        return 1 - (self.below + self.above) / max(self.given, 1)


def simulate(scenario: Callable[[Event], Audit], prevalence: float, n_rounds: int) -> dict[str, Tally]:
    """Return the tallies of total, precision and recall, at the threshold that flags the upper fifth."""
    found = {name: Tally() for name in ("total", "precision", "recall")}
    for seed in range(n_rounds):
        event = made_up(prevalence, seed)
        drawn = scenario(event)
        sample = audit.as_answered(drawn, event.answers, event.checked_at, event.known_at)
        found["total"].add(audit.estimate_total(sample, event.answers), float(event.truth.sum()))
        threshold = float(np.quantile(event.scores, 0.8))
        (at,) = audit.at_thresholds(sample, event.answers, event.scores, [threshold])
        is_above, is_open = event.scores >= threshold, (event.answers == OPEN) & ~event.is_gone
        flagged = event.truth[is_above & is_open]
        found["precision"].add(at.precision, float(flagged.mean()) if len(flagged) else 0.0)
        found["recall"].add(at.recall, 1 - float(event.truth[~is_above & is_open].sum() / event.truth.sum()))
    return found


CASES = [(one, share, N_ROUNDS) for one in SCENARIOS for share in PREVALENCES]
QUICK = (finished, 0.03, FEW_ROUNDS)


@pytest.mark.parametrize(
    ("scenario", "prevalence", "n_rounds"),
    in_tiers([QUICK, *CASES], "audits", quick=[QUICK], ci=[(resumed, 0.03, N_ROUNDS)]),
)
def test_intervals_hold_the_truth(scenario: Callable[[Event], Audit], prevalence: float, n_rounds: int) -> None:
    found = simulate(scenario, prevalence, n_rounds)
    sys.stdout.write(f"{scenario.__name__}, {100 * prevalence} % damaged: {found}\n")
    for name, tally in found.items():
        if tally.given >= 100:
            assert tally.coverage >= LEAST_COVERAGE, (name, tally)
    least = {sloppy: 0.6, cut_to_an_area: 0.99}  # what went may leave a stratum without a check
    assert found["total"].given >= least.get(scenario, 1.0) * n_rounds


NEAR_ONE = [(flagged, shift, n) for flagged in (0.98, 0.7) for shift in (1.5, 3.5) for n in (100, 400)]


@pytest.mark.parametrize(("flagged", "shift", "n"), in_tiers([(0.98, 2.5, 100), *NEAR_ONE], "audits", ci=[(0.98, 2.5, 100)]))
def test_recall_near_one_is_bounded_as_often_as_it_says(flagged: float, shift: float, n: int) -> None:
    """A threshold that flags nearly all of 936 buildings, 58 % of them damaged: Joplin's case, where 74 of 100 held."""
    tally = Tally()
    for seed in range(N_ROUNDS // 2):
        draw = np.random.default_rng([seed, n])
        truth = (np.arange(936) < 543).astype(np.int8)
        scores = draw.normal(size=936) + shift * truth
        sample = audit.design(scores, np.zeros(936, np.bool_), n=n, seed=seed)
        answers = np.full(936, OPEN, np.int8)
        answers[sample.rows[:n]] = truth[sample.rows[:n]]
        threshold = float(np.quantile(scores, 1 - flagged))
        (at,) = audit.at_thresholds(sample, answers, scores, [threshold])
        tally.add(at.recall, 1 - float(truth[(scores < threshold) & (answers == OPEN)].sum() / truth.sum()))
    assert tally.given == N_ROUNDS // 2
    assert tally.coverage >= LEAST_COVERAGE, tally


RARE = [(share, shift) for share in (0.001, 0.003, 0.01) for shift in (0.0, 1.5, 3.0)]


@pytest.mark.parametrize(("share", "shift"), in_tiers(RARE, "audits", quick=[(0.001, 0.0)], ci=[(0.001, 0.0), (0.01, 1.5)]))
def test_rare_damage_is_bounded_by_what_was_found_and_all_there_is(share: float, shift: float) -> None:
    n, n_checks, tally = 100_000, 200, Tally()
    for seed in range(FEW_ROUNDS):
        draw = np.random.default_rng([seed, round(1e5 * share)])
        truth = (np.arange(n) < n * share).astype(np.int8)
        sample = audit.design(draw.normal(size=n) + shift * truth, np.zeros(n, np.bool_), n=n_checks, seed=seed)
        answers = np.full(n, OPEN, np.int8)
        rows = sample.rows[:n_checks]
        answers[rows] = truth[rows]
        found = audit.estimate_total(sample, answers)
        assert int(truth[rows].sum()) <= found.low <= found.value <= found.high <= n
        tally.add(found, n * share)
    assert tally.given == FEW_ROUNDS
    assert tally.coverage >= LEAST_COVERAGE, tally


def test_two_hits_among_many_are_no_negative_number() -> None:
    """200 checks of 100,000 buildings, two of them damaged: another tool reports [-373, 2,334]."""
    n, n_checks = 100_000, 200
    sample = audit.design(np.zeros(n), np.zeros(n, np.bool_), n=n_checks, seed=0, cuts=())
    answers = np.full(n, OPEN, np.int8)
    answers[sample.rows[:n_checks]] = np.arange(n_checks) < 2
    found = audit.estimate_total(sample, answers)
    assert 2 <= found.low < found.value < found.high <= n
    assert found.value == pytest.approx(1000)
    assert found.low == pytest.approx(122, rel=0.3)
    assert found.high == pytest.approx(3562, rel=0.15), "122 to 3,562 by the conservative exact interval"
