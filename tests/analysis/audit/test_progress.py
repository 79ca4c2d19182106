"""Audits are fair samples, bounds hold as often as they say, and the stop rule is neither too early nor too late."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom
from small_parts import in_tiers

from pu_geo.analysis.audit import progress


def test_strata_are_denser_at_the_top_and_get_checks_by_the_root_of_their_size() -> None:
    scores = np.random.default_rng(0).permutation(10_000) / 10_000
    audit, again, other = (progress.start_audit(scores, np.zeros(10_000, np.bool_), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(audit.rows, again.rows)
    assert (audit.rows != other.rows).any()
    assert sorted(audit.rows) == list(range(10_000))
    assert audit.sizes().tolist() == [100, 400, 1500, 8000]
    for part in range(4):
        inside = scores[audit.rows[audit.stratum == part]]
        assert [inside.min(), inside.max()] == [audit.low[part], audit.high[part]]
    assert (audit.low[:-1] > audit.high[1:]).all()
    # Roots 10, 20, 38.7, 89.4 of 158.2: of 100 checks 6.3, 12.6, 24.5, 56.5. A part is never more than one check off.
    for n_drawn in (1, 17, 100, 500):
        given = np.bincount(audit.stratum[:n_drawn], minlength=4)
        assert np.abs(given - n_drawn * np.sqrt(audit.sizes()) / np.sqrt(audit.sizes()).sum()).max() < 1
    half = replace(audit, n_drawn=100)
    np.testing.assert_allclose(half.inclusion(), np.array([6, 13, 24, 57]) / audit.sizes())


def test_every_building_of_a_stratum_is_drawn_equally_often() -> None:
    scores, is_answered = np.arange(120.0)[::-1], np.arange(120) % 6 == 0
    counts, n_rounds = np.zeros(120), 1000
    for seed in range(n_rounds):
        audit = progress.start_audit(scores, is_answered, seed=seed, cuts=(0.3,))
        counts[audit.rows[:40]] += 1
    assert not counts[is_answered].any()
    audit = replace(audit, n_drawn=40)
    expected = audit.inclusion()[audit.stratum]
    spread = np.sqrt(expected * (1 - expected) / n_rounds)
    assert np.abs((counts[audit.rows] / n_rounds - expected) / spread).max() < 4.5
    assert (audit.inclusion() > 0).all()


@pytest.mark.parametrize(("n", "sizes"), [(0, []), (1, [1]), (39, [39]), (110, [22, 88]), (500, [25, 75, 400])])
def test_small_strata_are_not_cut_off(n: int, sizes: list[int]) -> None:
    audit = progress.start_audit(np.zeros(n), np.zeros(n, np.bool_), seed=0)
    assert audit.sizes().tolist() == sizes
    assert len(audit.low) == len(audit.high) == len(audit.inclusion()) == len(sizes)


def test_counted_rows_equal_a_search_for_the_longest_sound_prefix() -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        known = draw.random(12) < 0.85
        at = draw.permutation(12) + 1
        checked = np.where(draw.random(12) < 0.6, at, 0)

        def is_sound(n: int, known: Any = known, at: Any = at, checked: Any = checked) -> bool:
            last = max([0, *checked[:n].tolist()])
            return bool(known[:n].all()) and all(checked[i] or at[i] < last for i in range(n))

        assert progress.n_counted(known, checked, at) == max(n for n in range(13) if is_sound(n))


def risk_of(n_damaged: int, confidence: float) -> float:
    return (1 - confidence) * 6 / np.pi**2 / (n_damaged + 1) ** 2


def test_number_of_checks_equals_a_search_over_all_numbers() -> None:
    for size, confidence in ((15, 0.9), (40, 0.95)):
        for x, left in ((0, 0), (0, 3), (1, 0), (2, 5), (4, 1)):
            for n_checked in range(x, size):
                n = n_checked
                while size - n > left and hypergeom.cdf(x, size, x + left + 1, n) > risk_of(x, confidence):
                    n += 1
                advice = progress.stop_rule(size - n_checked, n_checked, x, at_most_left=left, confidence=confidence)
                assert advice.n_more == n - n_checked


def test_number_of_checks_equals_the_one_worked_out_by_hand() -> None:
    # One damaged building among 100 is missed by n checks with chance 1 - n / 100; 0.05 * 6 / pi^2 = 0.0304: 97 checks.
    assert progress.stop_rule(100, 0, 0, at_most_left=0).n_more == 97
    # Two: (100 - n)(99 - n) / 9900 <= 0.0304 <=> n >= 83: 17 * 16 / 9900 = 0.0275, and 18 * 17 / 9900 = 0.0309.
    advice = progress.stop_rule(100, 0, 0, at_most_left=1)
    assert advice.words.startswith(
        "Check 83 more at random: if none is damaged, at most 1 of the 17 that remain are damaged"
    )
    assert progress.stop_rule(60, 40, 0, at_most_left=1).n_more == 43
    done = progress.stop_rule(17, 83, 0, at_most_left=1)
    assert done.n_more == 0
    assert done.words.startswith("Enough: at most 1 of the 17")


def stops_with(draw: np.random.Generator, size: int, damaged: int, at_most_left: int) -> int:
    """Follow the rule on one random order of the buildings until it says enough; return the damaged ones left."""
    found_at = np.sort(draw.choice(size, damaged, replace=False))
    n_checked = n_damaged = 0
    while True:
        more = progress.stop_rule(size - n_checked, n_checked, n_damaged, at_most_left=at_most_left).n_more
        if more == 0:
            return damaged - n_damaged
        n_checked += more
        n_damaged = int(np.searchsorted(found_at, n_checked))


@pytest.mark.slow
@pytest.mark.parametrize("at_most_left", in_tiers([0, 5, 20], "audits", ci=[5]))
def test_rule_followed_to_the_end_leaves_too_many_in_at_most_one_of_twenty(at_most_left: int) -> None:
    draw, n_rounds = np.random.default_rng(0), 500
    for more in (1, 4, 10):
        wrong = sum(stops_with(draw, 1000, at_most_left + more, at_most_left) > at_most_left for _ in range(n_rounds))
        assert wrong / n_rounds <= 0.07


def test_stop_rule_refuses_impossible_counts() -> None:
    for *counts, left in ((-1, 0, 0, 0), (5, 0, 1, 0), (5, 3, -1, 0), (5, 3, 1, -1)):
        with pytest.raises(ValueError, match="counts must be 0 or more"):
            progress.stop_rule(*counts, at_most_left=left)
    with pytest.raises(ValueError, match="confidence"):
        progress.stop_rule(10, 0, 0, at_most_left=0, confidence=1.0)
