"""Where clicks stand that a ranking did not learn from, by hand and where it is known whether it sees the damage."""

import numpy as np
import pytest

from pu_geo.analysis.place import HeldOutFold
from pu_geo.analysis.ranking_evidence import MOST_LOW, NOT_CHECKED, evidence_of, evidence_of_folds, facts_of, words_of


def test_places_are_those_worked_out_by_hand() -> None:
    """Of 0, 1, ... 98 the click at 89.5 has 9 before it: place 10/100; those at 69.5, 39.5 and -1 have .3, .6 and 1."""
    clicks, others = np.array([89.5, 69.5, 39.5, -1.0]), np.arange(99.0)
    facts = facts_of(evidence_of([(clicks, others)]))
    assert facts is not None
    half = 1.96 * np.std([0.1, 0.3, 0.6, 1.0], ddof=1) / 2
    assert facts == {"n_clicks": 4, "place": 0.5, "low": round(0.5 - half, 4), "high": round(0.5 + half, 4), "lowest": 1.0,
                     "is_weak": True}  # fmt: skip
    assert "4 clicks held out stand in the middle of the list (mean place: top 50 %" in words_of(facts)
    assert "accuracy assessment of 30" in words_of(facts)
    assert "stand high in the list" in words_of({**facts, "is_weak": False})
    assert facts_of(None) is None
    assert words_of(None) == NOT_CHECKED


@pytest.mark.parametrize(("share", "sees"), [(0.01, True), (0.6, True), (0.01, False), (0.3, False)])
def test_it_is_weak_where_the_ranking_does_not_see_the_damage_however_much_there_is(share: float, sees: bool) -> None:
    """Every fit scores in a unit of its own; of 60 % damaged the mean place of a perfect ranking's clicks is .3."""
    n_weak = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        truth = draw.random(2000) < share
        truth[:30] = True
        quality = draw.normal(size=2000) + 3 * (truth & sees)
        fold = np.arange(2000) % 5
        folds = [
            HeldOutFold(
                rows[rows < 30], rows[rows >= 30], (quality * draw.uniform(0.1, 9) + draw.normal()).astype(np.float32)
            )
            for rows in (np.flatnonzero(fold == part) for part in range(5))
        ]
        found = evidence_of_folds(folds)
        assert found is not None
        assert found.is_weak == (found.lowest > MOST_LOW)
        n_weak += found.is_weak
    assert n_weak == (0 if sees else 20)
    assert evidence_of_folds([]) is None
