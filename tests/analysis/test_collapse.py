"""Alarms of broken models, and the criterion of Lee and Liu with its interval."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import collapse
from pu_geo.analysis.collapse import CollapseIndicators
from pu_geo.analysis.pu_criterion import Judgement, is_unlabeled, pu_criterion, wilson, words_of

EVENTS = [0.58, 0.17, 0.01]
"""Shares damaged, of which an alarm knows nothing; the first is Joplin. Of 60 good models at .70 two raise one."""
SEEDS = range(20)
Floats = NDArray[np.float64]


def scored(kind: str, share: float, n_held_out: int, seed: int) -> tuple[Floats, Floats]:
    """Held-out and unlabeled scores of a model that is good (AUC .92), guesses, or calls all or nothing."""
    draw = np.random.default_rng(seed)
    unlabeled = draw.normal(size=2000) + 2.0 * ((draw.random(2000) < share) & (kind != "guesses"))
    held_out = draw.normal(size=n_held_out) + 2.0 * (kind != "guesses")
    at = np.quantile(unlabeled, 1 - share)
    slope, offset = {"all": (0.2, 2.0), "nothing": (0.2, -9.0)}.get(kind, (1.0, -at))
    return 1 / (1 + np.exp(-slope * held_out - offset)), 1 / (1 + np.exp(-slope * unlabeled - offset))


def names(kind: str, share: float, n_held_out: int, seed: int) -> set[str]:
    held_out, unlabeled = scored(kind, share, n_held_out, seed)
    at = float(np.quantile(unlabeled, 1 - min(share, 0.5)))
    seen = collapse.signs(held_out, unlabeled, None, threshold=at, score_type="pu_probability")
    return {alarm.name for alarm in collapse.alarms(seen)}


@pytest.mark.parametrize("share", EVENTS)
def test_a_good_model_raises_no_alarm_and_seldom_one_by_few_held_out_clicks(share: float) -> None:
    for n_held_out in (0, 30, 100):
        assert [names("good", share, n_held_out, seed) for seed in SEEDS] == [set()] * len(SEEDS)
    assert sum(bool(names("good", share, 10, seed)) for seed in range(100)) <= 5


@pytest.mark.parametrize("share", EVENTS)
def test_calling_all_or_nothing_is_always_told_and_guessing_where_there_are_clicks_to_see_it(share: float) -> None:
    for n_held_out in (0, 15):
        for seed in SEEDS:
            assert "calls_all" in names("all", share, n_held_out, seed)
            assert "calls_none" in names("nothing", share, n_held_out, seed)
    told = [names("guesses", share, 30, seed) & {"at_chance", "criterion"} for seed in SEEDS]
    assert sum(bool(each) for each in told) >= 0.7 * len(SEEDS)
    assert names("guesses", share, 9, 0) == set()


@pytest.mark.parametrize(
    ("called", "expected"), [(0.56, []), (0.73, []), (0.2, []), (0.93, ["calls_all"]), (0.0004, ["calls_none"]), (0.002, [])]
)
def test_a_model_is_judged_by_what_it_calls_and_by_no_guess_of_the_damage(called: float, expected: list[str]) -> None:
    """Joplin: 58 % are damaged, clicks say .05 to .97, and NcPU calls 56 %; nothing says that this is too many."""
    found = collapse.alarms(CollapseIndicators(share_called=called))
    assert [alarm.name for alarm in found] == expected


def test_embeddings_that_are_all_the_same_are_told_by_the_mean_over_all_pairs() -> None:
    draw = np.random.default_rng(0)
    same = np.tile(draw.normal(size=8), (60, 1)) + 1e-3 * draw.normal(size=(60, 8))
    for rows, expected in ((same, ["embeddings"]), (draw.normal(size=(60, 8)), [])):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        spread = collapse.spread_of(unit)
        assert spread == pytest.approx((1 - unit @ unit.T).mean(), rel=1e-6, abs=1e-9)
        assert [alarm.name for alarm in collapse.alarms(CollapseIndicators(spread=spread))] == expected


def test_every_alarm_says_what_is_seen_with_its_value_and_what_to_do() -> None:
    bad = Judgement(20, 0.3, 0.5, 0.18, 0.05, 0.5, 0.5)
    found = [
        *collapse.alarms(CollapseIndicators(share_called=0.97, judgement=bad, auc=0.48, spread=1e-6, is_oriented=False)),
        *collapse.alarms(CollapseIndicators(share_called=0.0001, judgement=bad, auc=0.9)),
    ]
    told = {alarm.name: alarm for alarm in found}
    assert set(told) == {"calls_all", "calls_none", "at_chance", "criterion", "embeddings", "clusters"}
    for name, value in (("calls_all", "97.0%"), ("at_chance", "48%"), ("criterion", "0.18"), ("embeddings", "1e-06")):
        assert value in told[name].seen
    assert collapse.alarms(CollapseIndicators(is_oriented=True)) == collapse.alarms(CollapseIndicators()) == ()
    for alarm in found:
        assert alarm.words == f"{alarm.seen}: {alarm.meaning}. {alarm.advice}"
        assert set(alarm.as_mapping()) == {"name", "seen", "meaning", "advice"}
    seen = collapse.signs(np.zeros(0), np.ones(50), None, threshold=0.5, score_type="linear")
    assert collapse.alarms(seen) == ()


def judged(n_found: int, n: int, n_called: int, n_unlabeled: int) -> Judgement:
    held_out = np.where(np.arange(n) < n_found, 0.9, 0.1)
    unlabeled = np.where(np.arange(n_unlabeled) < n_called, 0.8, 0.2)
    return pu_criterion(held_out, unlabeled, 0.5)


def test_a_case_worked_out_by_hand() -> None:
    # r = 8/10, Pr = 20/100: 0.64 / 0.2 = 3.2. Wilson with z = 1.959964, z2 = 3.841459: center (8 + 1.920730) / 13.841459 =
    # 0.716740, half sqrt(3.841459 * 8 * 2 / 10 + 3.689202) / 13.841459 = 0.226578; squared, over 0.2.
    found = judged(8, 10, 20, 100)
    assert found.recall == 0.8
    assert found.share_called == 0.2
    assert found.criterion == pytest.approx(3.2)
    assert found.low == pytest.approx(0.490162**2 / 0.2, abs=1e-4)
    assert found.high == pytest.approx(0.943318**2 / 0.2, abs=1e-4)
    assert "80% of 10 held-out clicks" in found.words


@pytest.mark.parametrize("n", [0, 1, 9])
def test_few_clicks_judge_nothing(n: int) -> None:
    found = judged(n, n, 5, 50)
    assert not found.is_enough
    assert (found.criterion, found.low, found.high) == (None, None, None)
    assert found.recall == (1.0 if n else None)
    assert found.words.startswith("Not enough to judge")
    assert words_of(found.as_mapping()) == found.words


def test_calling_all_gets_one_and_nothing_gets_nothing() -> None:
    assert judged(20, 20, 100, 100).criterion == 1
    assert judged(10, 20, 50, 100).criterion == pytest.approx(0.5)
    found = judged(0, 12, 0, 50)
    assert (found.criterion, found.low, found.high) == (0, 0, 0)
    odd = judged(3, 12, 0, 50)
    assert all(math.isfinite(value) for value in (odd.criterion, odd.low, odd.high) if value is not None)
    at_threshold = pu_criterion(np.full(10, 0.5), np.array([0.5, 0.4]), 0.5)
    assert (at_threshold.recall, at_threshold.share_called) == (1.0, 0.5)


def test_a_sampled_share_widens_the_interval_as_far_as_it_is_off() -> None:
    drawn, held_out = np.arange(4000) < 16, np.arange(50) < 30
    found, known = (pu_criterion(held_out * 1.0, drawn * 1.0, 0.5, is_sampled=sampled) for sampled in (True, False))
    assert (found.criterion, found.recall, found.share_called) == (known.criterion, known.recall, known.share_called)
    assert found.low < known.low < known.high < found.high
    (low, high), (least, most) = wilson(16, 4000), wilson(30, 50)
    assert (found.low, found.high) == (pytest.approx(least**2 / high), pytest.approx(most**2 / low))
    none = pu_criterion(np.arange(12) < 3, np.zeros(4000), 0.5, is_sampled=True)
    assert 0 < none.low < none.criterion < none.high < math.inf


@pytest.mark.parametrize(("n_hits", "n"), [(0, 10), (10, 10), (3, 7), (50, 100)])
def test_wilson_solves_its_equation_and_stays_inside(n_hits: int, n: int) -> None:
    low, high = wilson(n_hits, n)
    assert 0 <= low <= n_hits / n <= high <= 1
    assert low < high
    for bound in (low, high):  # |p_hat - p| = z sqrt(p (1 - p) / n)
        if 0 < bound < 1:
            assert abs(n_hits / n - bound) == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / n), abs=1e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_scores_that_are_no_numbers_are_refused_and_hidden_buildings_and_clicks_are_not_unlabeled() -> None:
    with pytest.raises(ValueError, match="finite"):
        pu_criterion(np.array([np.nan]), np.ones(3), 0.5)
    with pytest.raises(ValueError, match="got 0 unlabeled"):
        pu_criterion(np.ones(10), np.zeros(0), 0.5)
    is_clicked, is_hidden = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert is_unlabeled(is_clicked, is_hidden).tolist() == [False, False, False, True]
