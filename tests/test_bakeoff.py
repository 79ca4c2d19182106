"""`benchmarks.bakeoff`: draws are the product's own comparison, and the table counts what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import bakeoff as simulation
from benchmarks.bakeoff import Candidate, Outcome
from benchmarks.ranking_sets import CHOSEN, Cell, Source
from pu_geo.analysis import bakeoff

N, N_CLICKS = 120, 10


@pytest.fixture(scope="module")
def source() -> Source:
    rng = np.random.default_rng(0)
    is_damaged = np.arange(N) < 60
    views = (4 + rng.normal(size=(1, N, 6))).astype(np.float16)
    return Source(is_damaged, views, np.zeros(N, np.int64), np.zeros((N, 2)))


def test_candidates_of_a_draw_have_the_same_chips_and_clicks(source: Source) -> None:
    better = source.views[0].copy()
    better[source.is_damaged, 0] += 4
    features = {"rcf": source.views[0], "same": source.views[0], "better": better}
    one, again = (simulation.judged(source, features, Cell("made up", CHOSEN, None, N_CLICKS), 3) for _ in range(2))
    assert one is not None
    assert again is not None
    assert (one.n_unlabeled, one.n_damaged) == (N - N_CLICKS, 60 - N_CLICKS)
    assert one.candidates["rcf"].log_places == one.candidates["same"].log_places == again.candidates["rcf"].log_places
    assert one.candidates["better"].ap > 0.9 > one.candidates["rcf"].ap
    assert np.mean(one.candidates["better"].log_places) < np.mean(one.candidates["rcf"].log_places)
    assert one.picked() == "better"
    assert one.picked(level=1) == "rcf"


def test_a_cell_with_too_little_damage_is_left_empty(source: Source) -> None:
    assert simulation.judged(source, {"rcf": source.views[0]}, Cell("made up", CHOSEN, None, 50), 0) is None


def test_the_table_counts_near_picks_and_harm() -> None:
    base = np.zeros(30)
    near = {"rcf": Candidate(0.80, 1, base.tolist()), "a": Candidate(0.81, 1, base.tolist())}  # RCF stays, .01 behind
    harm = {
        "rcf": Candidate(0.80, 1, base.tolist()),
        "a": Candidate(0.70, 1, (base - 1).tolist()),
    }  # "a" is picked, .10 behind
    first = Outcome("joplin", 30, 0, "ranker", 100, 50, near)
    draws = [first, replace(first, seed=1, candidates=harm)]
    assert simulation._figures(draws, bakeoff.LEVEL) == ["50%", "0.800", "0.750", "0.805", "50%", "1", "-0.100"]
    text = simulation.section(draws)
    assert "| 30 | joplin | 2 | 100 | 50% | 50% | 0.800 | 0.750 | 0.805 | 50% | 1 | -0.100 |" in text
    assert "| 30 | matthew_wind | 0 |  |  |  |  |  |  |  |  | fewer than 20 damaged would be left |" in text
    assert "| RCF always | 100%, 0 (+0.000), 0% |" in text


def test_the_kept_outcomes_hold_what_the_page_and_the_product_say() -> None:
    """From `LEAST_TO_PICK` clicks on at least four in five picks are near the best of the draw."""
    kept = [each for each in simulation.read_kept() if each.method == "ranker"]
    assert {each.event_set for each in kept} == set(simulation.SETS)
    for clicks in {each.clicks for each in kept if each.clicks >= bakeoff.LEAST_TO_PICK}:
        draws = [each for each in kept if each.clicks == clicks]
        assert int(simulation._figures(draws, bakeoff.LEVEL)[4].rstrip("%")) >= 80
