"""Alarms: every broken model is told of and no good one, where little is damaged and where much is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import collapse
from pu_geo.analysis.collapse import CollapseIndicators
from pu_geo.analysis.pu_criterion import Judgement

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


def test_a_score_without_a_boundary_is_not_judged_at_one_half() -> None:
    for score_type in ("linear", "rank"):
        seen = collapse.signs(np.zeros(0), np.ones(50), None, threshold=0.5, score_type=score_type)
        assert collapse.alarms(seen) == ()


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
