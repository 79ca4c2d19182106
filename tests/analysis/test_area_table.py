"""Figures by area: counts that never overlap, None for what is not known, and intervals with both kinds of doubt."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtri

from pu_geo.analysis import area_table
from pu_geo.analysis.area_table import area_rows, count_bounds
from pu_geo.errors import ShapeError

NOTHING = {"flagged": None, "confirmed": None, "est_damaged": None, "low": None, "high": None, "pct": None}


def columns(rows: list[tuple[object, ...]]) -> dict[str, list[object]]:
    """Columns from (assessed, damage_binary, label, p_damaged, p_low, p_high) rows."""
    names = ("assessed", "damage_binary", "label", "p_damaged", "p_low", "p_high")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def test_counts_of_an_area_by_hand() -> None:
    rows = [
        (True, "damaged", "damaged", None, None, None),  # confirmed, and so not counted as flagged
        (True, "damaged", None, 0.75, 0.75, 0.75),  # flagged by score
        (True, "not_flagged", None, 0.25, 0.25, 0.25),
        (True, "not_flagged", "no_visible_damage", None, None, None),
        (False, "not_assessed", None, None, None, None),
        (False, "not_assessed", "not_assessable", None, None, None),
        (True, "damaged", None, 1.0, 1.0, 1.0),  # outside all areas
    ]
    (found,) = area_rows(np.array([0, 0, 0, 0, 0, 0, -1]), ["A"], ["PC1"], columns(rows) | {"post_date": ["2026-01-02"] * 7})
    # 1 + 0.75 + 0.25 = 2 of 4. Of the two open ones: none 3/16, one 10/16, both 3/16; 3/16 > 0.025, so 1 + 0 to 1 + 2.
    assert found == {
        "name": "A", "pcode": "PC1", "buildings_total": 6, "assessed": 4, "not_assessed": 2, "flagged": 1, "confirmed": 1,
        "est_damaged": 2.0, "low": 1, "high": 3, "pct": 50.0, "post_date": "2026-01-02",
    }  # fmt: skip


def test_nothing_assessed_is_never_a_zero() -> None:
    rows = [(False, "not_assessed", None, None, None, None), (True, "damaged", None, 0.5, 0.1, 0.9)]
    unseen, empty, seen = area_rows(np.array([0, 2]), ["a", "b", "c"], [None] * 3, columns(rows))
    assert unseen | NOTHING == unseen
    assert (unseen["buildings_total"], unseen["assessed"], unseen["not_assessed"]) == (1, 0, 1)
    assert empty | NOTHING == empty
    assert (empty["buildings_total"], empty["assessed"], empty["not_assessed"]) == (0, 0, 0)
    assert (seen["flagged"], seen["confirmed"], seen["est_damaged"]) == (1, 0, 0.5)


def test_there_is_no_estimate_without_an_audit_nor_where_an_open_building_has_no_chance() -> None:
    rows = [
        (True, "damaged", None, None, None, None),
        (True, "damaged", "damaged", None, None, None),
        (True, "not_flagged", None, 0.5, 0.5, 0.5),
    ]
    gap, answered, other = area_rows(np.array([0, 1, 2]), ["a", "b", "c"], [None] * 3, columns(rows))
    assert [answered[name] for name in ("est_damaged", "low", "high", "pct")] == [1.0, 1, 1, 100.0]
    assert [other[name] for name in ("low", "high")] == [0, 1]
    without = {name: column[:2] for name, column in columns(rows).items() if not name.startswith("p_")}
    (found,) = area_rows(np.array([0, 0]), ["a"], [None], without)
    assert (found["flagged"], found["confirmed"]) == (1, 1)
    for row in (gap, found):
        assert [row[name] for name in ("est_damaged", "low", "high", "pct")] == [None] * 4


def test_bounds_of_one_and_two_buildings_by_hand() -> None:
    half, sure = np.full(2, 0.5), np.array([0.98])
    assert count_bounds(half, half, half) == (0, 2)  # none: 0.25, both: 0.25
    assert count_bounds(sure, sure, sure) == (0, 1)  # intact: 0.02 < 0.025, but the estimate of 0.98 stays above the bound
    rare = np.full(2, 0.005)
    assert count_bounds(rare, rare, rare) == (0, 1)  # none: 0.99, but the estimate of 0.01 stays below the bound
    assert count_bounds(np.ones(3), np.ones(3), np.ones(3)) == (3, 3)
    assert count_bounds(np.zeros(3), np.zeros(3), np.zeros(3)) == (0, 0)
    assert count_bounds(np.zeros(0), np.zeros(0), np.zeros(0)) == (0, 0)


@pytest.mark.parametrize("seed", range(2))
def test_bounds_equal_those_of_every_outcome(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 3, 9)
    p_low, p_high = p * rng.uniform(0, 1, 9), p + (1 - p) * rng.uniform(0, 0.5, 9)
    chance = np.zeros(10)
    for rank in ndtri((np.arange(20) + 0.5) / 20):
        share = abs(rank) / ndtri(0.975)
        curve = p - share * (p - p_low) if rank < 0 else p + share * (p_high - p)
        for outcome in itertools.product((0, 1), repeat=9):
            chance[sum(outcome)] += np.prod(np.where(outcome, curve, 1 - curve)) / 20
    low, high = (int(np.argmax(np.cumsum(chance) >= tail)) for tail in (0.025, 0.975))
    assert count_bounds(p, p_low, p_high) == (min(low, int(np.floor(p.sum()))), max(high, int(np.ceil(p.sum()))))


@pytest.mark.parametrize("shape", [(0.5, 20, 3000), (20, 1, 2000)])
def test_large_areas_agree_with_the_exact(shape: tuple[float, float, int], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, n = shape
    p = np.random.default_rng(0).beta(a, b, n)
    assert (p * (1 - p)).sum() > area_table.NARROW
    fast = count_bounds(p, p, p)
    monkeypatch.setattr(area_table, "NARROW", np.inf)
    np.testing.assert_allclose(fast, count_bounds(p, p, p), atol=1)
    np.testing.assert_allclose(area_table._refined_normal(p), area_table._exact(p[None])[0], atol=1e-3)


def test_an_area_has_the_dates_of_its_own_buildings_and_wrong_shapes_are_refused() -> None:
    """The date of the map's first building stood in every row, whichever scene showed the area."""
    rows = [(True, "not_flagged", None, None, None, None)] * 5
    dates = {"post_date": ["2026-01-02", "2026-01-02", "2026-01-09", "2026-01-05", None]}
    found = area_rows(np.array([0, 0, 1, 1, 2]), ["a", "b", "c"], [None] * 3, columns(rows) | dates)
    assert [row["post_date"] for row in found] == ["2026-01-02", "2026-01-05/2026-01-09", None]
    for index in ([0, 1], [0, -2], [0]):
        with pytest.raises(ShapeError, match=r"index must be \[N\]"):
            area_rows(np.array(index), ["a"], [None], columns(rows[:2]))
