"""Alarms: every broken model is told of and no good one, where little is damaged and where much is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import collapse
from pu_geo.analysis.collapse import CollapseIndicators
from pu_geo.analysis.pu_criterion import Judgement

EVENTS = [(0.58, 0.68), (0.58, 0.55), (0.30, 0.33), (0.17, 0.12), (0.05, 0.05), (0.01, 0.014)]
"""Share damaged, and what Elkan-Noto says of it; the first is Joplin."""
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


def names(kind: str, share: float, estimate: float, n_held_out: int, seed: int) -> set[str]:
    held_out, unlabeled = scored(kind, share, n_held_out, seed)
    at = 0.5 if estimate >= 0.3 else float(np.quantile(unlabeled, 1 - estimate))
    seen = collapse.signs(held_out, unlabeled, None, share=estimate, threshold=at, score_type="pu_probability")
    return {alarm.name for alarm in collapse.alarms(seen)}


@pytest.mark.parametrize(("share", "estimate"), EVENTS)
@pytest.mark.parametrize("n_held_out", [0, 30, 100])
def test_a_good_model_raises_no_alarm(share: float, estimate: float, n_held_out: int) -> None:
    assert [names("good", share, estimate, n_held_out, seed) for seed in SEEDS] == [set()] * len(SEEDS)


@pytest.mark.parametrize(("share", "estimate"), EVENTS)
def test_few_held_out_clicks_seldom_cry_wolf(share: float, estimate: float) -> None:
    assert sum(bool(names("good", share, estimate, 10, seed)) for seed in range(100)) <= 5


@pytest.mark.parametrize(("share", "estimate"), EVENTS)
@pytest.mark.parametrize("n_held_out", [0, 15])
def test_calling_all_or_nothing_is_always_told(share: float, estimate: float, n_held_out: int) -> None:
    for seed in SEEDS:
        assert "calls_all" in names("all", share, estimate, n_held_out, seed)
        assert "calls_none" in names("nothing", share, estimate, n_held_out, seed)


@pytest.mark.parametrize(("share", "estimate"), EVENTS)
def test_guessing_is_told_of_where_there_are_clicks_to_see_it(share: float, estimate: float) -> None:
    told = [names("guesses", share, estimate, 30, seed) & {"at_chance", "criterion"} for seed in SEEDS]
    assert sum(bool(each) for each in told) >= 0.7 * len(SEEDS)
    assert names("guesses", share, estimate, 9, 0) == set()


def test_bounds_of_the_source_hold_where_nothing_is_estimated() -> None:
    assert (collapse.most_called(None), collapse.fewest_called(None), collapse.lowest_criterion(None)) == (0.5, 0.001, 2.0)
    for share in (0.01, 0.05, 0.15):
        assert (collapse.most_called(share), collapse.fewest_called(share)) == (0.5, 0.001)
        assert collapse.lowest_criterion(share) == 2.0


@pytest.mark.parametrize("share", np.linspace(0.01, 0.99, 50))
def test_a_perfect_model_is_inside_the_bounds_and_calling_all_outside(share: float) -> None:
    assert collapse.fewest_called(share) < share < collapse.most_called(share) < 1
    assert 1 < collapse.lowest_criterion(share) < 1 / share


# Joplin with 30 clicks: 58 % are damaged, Elkan-Noto says 68 %; NcPU calls 56 %, and 4/3 of the estimate would be too many.
JOPLIN = [(0.56, 0.68, []), (0.93, 0.68, ["calls_all"]), (0.56, None, ["calls_all"]), (0.02, 0.68, ["calls_none"])]
RARE = [(0.2, 0.05, ["calls_many"]), (0.6, 0.05, ["calls_all"]), (0.2, 0.10, []), (0.2, None, [])]


@pytest.mark.parametrize(("called", "share", "expected"), JOPLIN + RARE)
def test_share_called_is_held_against_the_estimate(called: float, share: float | None, expected: list[str]) -> None:
    found = collapse.alarms(CollapseIndicators(share_called=called, share=share))
    assert [alarm.name for alarm in found] == expected


@pytest.mark.parametrize("score_type", ["linear", "rank"])
def test_a_score_without_a_boundary_is_not_judged_at_one_half(score_type: str) -> None:
    seen = collapse.signs(np.zeros(0), np.ones(50), None, share=0.1, threshold=0.5, score_type=score_type)
    assert collapse.alarms(seen) == ()


def test_embeddings_that_are_all_the_same_are_told() -> None:
    draw = np.random.default_rng(0)
    same = np.tile(draw.normal(size=8), (60, 1)) + 1e-3 * draw.normal(size=(60, 8))
    spread = draw.normal(size=(60, 8))
    for rows, expected in ((same, ["embeddings"]), (spread, [])):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        seen = CollapseIndicators(spread=collapse.spread_of(unit))
        assert [alarm.name for alarm in collapse.alarms(seen)] == expected


def test_spread_is_the_mean_over_all_pairs() -> None:
    rows = np.random.default_rng(1).normal(size=(9, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [1 - float(one @ other) for one in unit for other in unit]
    assert collapse.spread_of(unit) == pytest.approx(sum(pairs) / 81)


def test_clusters_that_do_not_follow_the_clicks_are_told() -> None:
    assert [alarm.name for alarm in collapse.alarms(CollapseIndicators(is_oriented=False))] == ["clusters"]
    assert collapse.alarms(CollapseIndicators(is_oriented=True)) == collapse.alarms(CollapseIndicators()) == ()


def test_every_alarm_says_what_is_seen_with_its_value_and_what_to_do() -> None:
    bad = Judgement(20, 0.3, 0.5, 0.18, 0.05, 0.5, 0.5)
    found = [
        *collapse.alarms(
            CollapseIndicators(share_called=0.97, share=0.6, judgement=bad, auc=0.48, spread=1e-6, is_oriented=False)
        ),
        *collapse.alarms(CollapseIndicators(share_called=0.0001, judgement=bad, auc=0.9)),
        *collapse.alarms(CollapseIndicators(share_called=0.2, share=0.01)),
    ]
    told = {alarm.name: alarm for alarm in found}
    assert set(told) == {"calls_all", "calls_none", "calls_many", "at_chance", "criterion", "embeddings", "clusters"}
    for name, value in (("calls_all", "97.0%"), ("at_chance", "48%"), ("criterion", "0.18"), ("embeddings", "1e-06")):
        assert value in told[name].seen
    for alarm in found:
        assert alarm.advice.endswith(".")
        assert alarm.words == f"{alarm.seen}: {alarm.meaning}. {alarm.advice}"
        assert set(alarm.as_mapping()) == {"name", "seen", "meaning", "advice"}
    assert math.isfinite(collapse.lowest_criterion(0.0))
