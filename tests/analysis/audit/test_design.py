"""Audits of a map: intervals worked by hand, censuses without width, loops that count the same, and honest coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest
from golden_parts import require_refusals
from numpy.typing import NDArray
from scipy.stats import beta

from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit.bounds import DAMAGED, NOT_ASSESSABLE, OPEN, UNDAMAGED, Estimate
from pu_geo.analysis.audit.progress import Audit
from pu_geo.errors import ShapeError

Answers = NDArray[np.int8]


def event(n: int = 4000, n_damaged: int = 80, seed: int = 0, shift: float = 2.0) -> tuple[NDArray[np.float64], Answers]:
    """Scores and truth."""
    truth = (np.arange(n) < n_damaged).astype(np.int8)
    return np.random.default_rng(seed).normal(size=n) + shift * truth, truth


def answered(sample: Audit, truth: Answers) -> Answers:
    """The truth where it was drawn, open elsewhere."""
    answers = np.full(len(truth), OPEN, np.int8)
    drawn = sample.rows[: sample.n_drawn]
    answers[drawn] = truth[drawn]
    return answers


def drawn_audit(truth: Answers, scores: NDArray[np.float64], n: int, seed: int = 0) -> tuple[Audit, Answers]:
    sample = audit.design(scores, np.zeros(len(truth), np.bool_), n=n, seed=seed)
    return sample, answered(sample, truth)


def strata_by_hand(checks: list[list[int]], sizes: list[int]) -> tuple[Audit, Answers]:
    """An audit whose strata have these sizes, with these answers; the drawing order goes through the checks first."""
    starts = np.cumsum([0, *sizes])
    rows = [start + i for start, part in zip(starts, checks, strict=False) for i in range(len(part))]
    others = sorted(set(range(sum(sizes))) - set(rows))
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    answers = np.full(sum(sizes), OPEN, np.int8)
    answers[rows] = np.concatenate(checks)
    order, edge = np.array([*rows, *others]), -np.arange(len(sizes), dtype=np.float64)
    return Audit(order, stratum[order], edge, edge, len(rows)), answers


def bounds(figure: Estimate) -> tuple[float, float, float]:
    assert None not in (figure.low, figure.value, figure.high)
    return figure.low, figure.value, figure.high  # type: ignore[return-value]


def test_strata_are_denser_at_the_top_and_longer_samples_contain_shorter_ones() -> None:
    scores, _ = event(10_000)
    known = np.arange(10_000) % 10 == 0
    short, long = (audit.design(scores, known, n=n, seed=3) for n in (150, 400))
    assert short.sizes().tolist() == [90, 180, 450, 1080, 2700, 4500]
    np.testing.assert_array_equal(short.rows, long.rows)
    assert (short.n_drawn, long.n_drawn) == (150, 400)
    assert not known[long.rows].any()
    assert (np.diff(long.inclusion()) < 0).all()
    assert audit.design(scores, known, n=10**6, seed=3).n_drawn == 9000


def test_missing_scores_wrong_shapes_sizes_and_answers_are_refused() -> None:
    scores, truth = event(200)
    scores[5] = np.nan
    known = np.arange(200) == 5
    sample = audit.design(scores, known, n=40, seed=0)
    answers = answered(sample, truth)
    require_refusals(
        (ValueError, "finite", lambda: audit.design(scores, np.zeros(200, np.bool_), n=40, seed=0)),
        (ValueError, "finite", lambda: audit.at_thresholds(sample, answers, scores, [0.0])),
        (ValueError, "-1", lambda: audit.design(scores, known, n=-1, seed=0)),
        (ShapeError, "answers", lambda: audit.estimate_total(sample, answers[:100])),
        (ValueError, "answers must be", lambda: audit.estimate_total(sample, np.full(200, 7, np.int8))),
        (ValueError, "confidence", lambda: audit.estimate_total(sample, answers, confidence=95)),
    )
    answers[5] = NOT_ASSESSABLE  # belongs to nothing, so its score does not matter
    assert audit.at_thresholds(sample, answers, scores, [-9.0])[0].flagged == 159  # 40 are answered


def test_total_is_the_sum_of_scaled_strata() -> None:
    # 100 * 6/20 + 1000 * 1/40 = 30 + 25; 7 certain.
    sample, answers = strata_by_hand([[1] * 6 + [0] * 14, [1] + [0] * 39], [100, 1000])
    low, value, high = bounds(audit.estimate_total(sample, answers))
    assert value == pytest.approx(55)
    # Upper: half an answer, 1/6 in the first stratum and 1/3 in the second. 80 + 960 were not checked.
    # Mean 80 * 6.1667/20.1667 + 960 * 1.3333/40.3333 = 24.463 + 31.736 = 56.199.
    # Variance 80 * 6.1667 * 14 * 100.1667 / (20.1667^2 * 19.1667) = 88.75, and
    # 960 * 1.3333 * 39 * 1000.3333 / (40.3333^2 * 39.3333) = 780.40; in all 869.2.
    # As a beta on [0, 1040]: share .054038, weight .051118 * 1040^2 / 869.2 - 1 = 62.61.
    assert high == math.ceil(7 + 1040 * beta.ppf(0.975, 0.054038 * 62.61, 0.945962 * 62.61))
    # Lower: to the undamaged. 80 * 6/20.1667 + 960 * 1/40.3333 = 23.802 + 23.802 = 47.603.
    # 80 * 6 * 14.1667 * 100.1667 / (20.1667^2 * 19.1667) = 87.38; 960 * 39.3333 * 1000.3333 / (40.3333^2 * 39.3333) = 590.32.
    share, weight = 47.603 / 1040, 47.603 * (1040 - 47.603) / 677.70 - 1
    assert low == math.floor(7 + 1040 * beta.ppf(0.025, share * weight, (1 - share) * weight))


def test_none_found_is_bounded_by_about_two_and_a_half_in_as_many_as_were_checked() -> None:
    # Jeffreys: the upper 2.5 % point of a gamma of shape 1/2 is 2.51.
    sample, answers = strata_by_hand([[0] * 200], [100_000])
    figure = audit.estimate_total(sample, answers)
    low, value, high = bounds(figure)
    assert (low, value) == (0, 0)
    assert high == pytest.approx(2.51 / 200 * 100_000, rel=0.02)
    assert "0 of 200" in figure.words


def test_precision_and_recall_of_a_threshold_between_strata_and_through_one() -> None:
    sample, answers = strata_by_hand([[1] * 6 + [0] * 14, [1] * 2 + [0] * 38], [100, 1000])
    scores = -np.arange(1100.0)
    between, through = audit.at_thresholds(sample, answers, scores, [-99.0, -119.0])
    assert (between.flagged, between.n_checks, between.n_damaged) == (80, 20, 6)
    assert between.damaged.value == pytest.approx(24), "30, of which six are confirmed"
    assert between.precision.value == pytest.approx(24 / 80)
    assert between.recall.value == pytest.approx((30 + 2) / (30 + 50)), "two below are confirmed, so on the map"
    # 20 buildings of the second stratum are above, 2 damaged and 18 not among them were checked; 0 of 20 below.
    assert through.damaged.value == pytest.approx(24)
    assert through.precision.value == pytest.approx(24 / 80)
    assert through.recall.value == pytest.approx(1)
    assert "not 100 %" in through.recall.words
    assert bounds(through.recall)[0] < 0.7


def test_known_buildings_count_as_they_are() -> None:
    sample, answers = strata_by_hand([[1] * 5 + [0] * 35], [400])
    known = np.array([1] * 30 + [0] * 10 + [2] * 7, np.int8)
    both = np.concatenate([answers, known])
    alone, total = (audit.estimate_total(sample, given) for given in (answers, both))
    assert bounds(total) == pytest.approx([figure + 30 for figure in bounds(alone)])
    # All known ones score above the rest: none of them is flagged, 30 are confirmed.
    scores = np.concatenate([np.zeros(400), np.ones(47)])
    all_, none = audit.at_thresholds(sample, both, scores, [0.0, 1.0])
    assert (none.flagged, none.precision.value) == (0, None)
    assert none.precision.words.startswith("not enough: no assessable building without an answer is flagged")
    assert none.recall.value == pytest.approx((30 + 5) / (30 + 50))
    (alone,) = audit.at_thresholds(sample, answers, scores[:400], [0.0])
    assert (all_.flagged, all_.precision, all_.damaged) == (360, alone.precision, alone.damaged), "clicks are no flags"


def test_what_was_found_otherwise_bounds_the_estimate() -> None:
    sample, answers = strata_by_hand([[0] * 100], [1000])
    answers[500:540] = DAMAGED  # found by searching, after the audit began
    low, value, _ = bounds(audit.estimate_total(sample, answers))
    assert (low, value) == (40, 40)
    answers[100:500] = answers[540:995] = UNDAMAGED
    low, value, high = bounds(audit.estimate_total(sample, answers))
    assert (low, value) == (40, 40)
    assert 40 < high <= 45  # five are open


def test_census_gives_the_truth_without_width() -> None:
    scores, truth = event(300, 40)
    truth[::7] = NOT_ASSESSABLE
    sample, answers = drawn_audit(truth, scores, 300)
    assert bounds(audit.estimate_total(sample, answers)) == pytest.approx([(truth == 1).sum()] * 3)
    for at in audit.at_thresholds(sample, answers, scores, [-1.0, 0.3, 1.7]):
        assert (at.flagged, at.precision.is_enough, bounds(at.recall)) == (0, False, (1, 1, 1))


def test_all_known_needs_no_check_and_all_damaged_is_bounded_by_all() -> None:
    scores, truth = event(50, 20)
    sample = audit.design(scores, np.ones(50, np.bool_), n=30, seed=0)
    assert (sample.n_drawn, len(sample.rows)) == (0, 0)
    assert bounds(audit.estimate_total(sample, truth)) == (20, 20, 20)
    (at,) = audit.at_thresholds(sample, truth, scores, [0.5])
    assert bounds(at.recall) == (1, 1, 1)
    low, value, high = bounds(audit.estimate_total(*drawn_audit(np.ones(2000, np.int8), event(2000)[0], 200)))
    assert 1950 < low < value == high == 2000
    sample, answers = drawn_audit(truth[:15], scores[:15], 10)  # fewer than twenty buildings are one stratum
    assert len(sample.sizes()) == 1
    assert audit.estimate_total(sample, answers).words.startswith("not enough: 10 answers drawn at random")


def test_too_few_answers_say_so_instead_of_a_hundred_percent() -> None:
    scores, truth = event(3000, 30, shift=4)
    sample, answers = drawn_audit(truth, scores, 100)
    high = float(np.sort(scores)[-40])
    (at,) = audit.at_thresholds(sample, answers, scores, [high])
    assert 0 < at.n_checks < 10
    for figure in (at.precision, at.damaged):
        assert (figure.value, figure.low, figure.high, figure.is_enough) == (None, None, None, False)
        assert figure.words.startswith("not enough: ")
    sample, answers = strata_by_hand([[1] * 2 + [0] * 48, [0] * 50], [100, 1000])
    (at,) = audit.at_thresholds(sample, answers, -np.arange(1100.0), [-99.0])
    assert at.recall.words.startswith("not enough: 2 damaged buildings are known")


def test_a_stratum_without_answers_is_not_guessed() -> None:
    sample, answers = strata_by_hand([[1] * 10 + [0] * 30, [-1] * 5], [100, 1000])
    assert "none in one of the strata" in audit.estimate_total(sample, answers).words
    above, all_ = audit.at_thresholds(sample, answers, -np.arange(1100.0), [-99.0, -2000.0])
    assert above.precision.value == pytest.approx(0.25)
    assert not above.recall.is_enough
    assert not all_.precision.is_enough


def row(threshold: float, value: float | None, low: float | None, high: float = 1.0) -> audit.AtThreshold:
    figure = Estimate(value, low, None if value is None else high, "")
    return audit.AtThreshold(threshold, 10, figure, figure, figure, 20, 5)


def test_threshold_for_takes_the_lowest_for_precision_and_the_highest_for_recall() -> None:
    rows = [row(0.9, None, None), row(0.8, 0.9, 0.7), row(0.6, 0.8, 0.6), row(0.4, 0.5, 0.3)]
    found = audit.threshold_for(rows, precision=0.7)
    assert (found.estimated, found.assured) == (0.6, 0.8)
    found = audit.threshold_for(list(reversed(rows)), recall=0.6)
    assert (found.estimated, found.assured) == (0.8, 0.8)
    found = audit.threshold_for(rows, precision=0.85)
    assert (found.estimated, found.assured) == (0.8, None)
    assert "is sure to reach a precision of 85%" in found.words
    for given, words in (
        (rows, "These 20 checks cannot tell the precision above a threshold of 0.8; up to there the best estimate is 90.0%"),
        (rows[1:], "No estimate reaches a precision of 95%, and these 20 checks cannot rule it out: the best is 90.0%, between 70.0%"),
        ([row(0.8, 0.9, 0.7, 0.93)], "No threshold reaches a precision of 95%; the best estimate is 90.0%, between 70.0% and 93.0%."),
        ([replace(one, n_damaged=0) for one in rows], "None of these 20 checks found damage, so they recommend no threshold."),
    ):  # fmt: skip
        found = audit.threshold_for(given, precision=0.95)
        assert (found.estimated, found.assured) == (None, None)
        assert found.words.startswith(words)
    assert audit.threshold_for(rows[:1], recall=0.5).words.startswith("not enough")
    for wishes in ({}, {"precision": 0.5, "recall": 0.5}, {"recall": 1.5}):
        with pytest.raises(ValueError, match="one wish"):
            audit.threshold_for(rows, **wishes)
