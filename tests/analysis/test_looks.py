"""What Explore reads out of how buildings look."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import looks, two_readings
from pu_geo.errors import ShapeError
from pu_geo.methods.cards.propagation import PropagationSettings


def town(n_rare: int = 15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """400 buildings of four kinds and some rare ones in views, float32 [3, N, 12], and which are rare, bool [N]."""
    rng = np.random.default_rng(seed)
    kind = np.concatenate([np.arange(400) % 4, np.full(n_rare, 4)])
    noise = rng.normal(size=(3, len(kind), 12)) + rng.normal(size=(len(kind), 12))
    views = 6 * np.eye(12)[kind] + 3 + 0.3 * noise
    return views.astype(np.float32), kind == 4


def looked_at(views: np.ndarray) -> np.ndarray:
    return looks.look(two_readings.roots_of(views).mean(0))


def test_a_look_lies_in_the_space_of_the_default_ranking() -> None:
    views, _ = town()
    roots = two_readings.roots_of(views).mean(0)
    space = two_readings.Space.of(views[0], roots, PropagationSettings().whitening)
    np.testing.assert_allclose(looks.look(roots), two_readings.embedded(space.white(roots), 64), rtol=1e-5)
    default = PropagationSettings()
    assert (default.embedding_dim, default.n_neighbors) == (two_readings.DIM, two_readings.N_NEIGHBORS)


def test_clicks_of_one_kind_lie_nearer_than_chance_and_random_ones_do_not() -> None:
    views, is_rare = town()
    rows, rng = looked_at(views), np.random.default_rng(1)
    random = np.isin(np.arange(len(rows)), rng.choice(len(rows), 100, replace=False))
    # All 10 neighbors of each of 15 clicks are clicks; by chance 14 of 414 are.
    assert looks.nearer_than_chance(rows, is_rare) == pytest.approx(414 / 14, rel=0.15)
    assert looks.nearer_than_chance(rows, random) == pytest.approx(1, abs=0.25)
    assert looks.nearer_than_chance(rows, np.arange(len(rows)) < 4) is None
    xy = rng.uniform(-500, 500, (800, 2))  # places, of any length: the middle is near to itself, too
    assert looks.nearer_than_chance(xy, np.hypot(*xy.T) < 120) > 12


def test_elsewhere_adds_ranks_of_likeness_and_of_score() -> None:
    turn = np.radians([0, 10, 20, 30, 40, 50])
    rows = np.stack([np.cos(turn), np.sin(turn)], 1).astype(np.float32)
    scores = np.array([1, 0.1, 0.2, 0.9, 0.8, np.nan])
    # Likeness 1 2 3 4 5; score 5 4 of 4 places stretched to 5: .9 -> 1.25, .8 -> 2.5, .2 -> 3.75, .1 -> 5; the last 5 twice.
    assert looks.elsewhere(rows, np.array([0]), scores).tolist() == [3, 2, 1, 4, 5]
    hidden = np.array([False, False, False, True, False, False])
    assert looks.elsewhere(rows, np.array([0]), None, is_hidden=hidden).tolist() == [1, 2, 4, 5]
    with pytest.raises(ShapeError):
        looks.elsewhere(rows, np.zeros(0, np.int64), scores)


def exchanged(is_rare: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers of 12 rare and 12 others, three of them exchanged."""
    rng = np.random.default_rng(2)
    answered = np.concatenate([rng.choice(np.flatnonzero(mask), 12, replace=False) for mask in (is_rare, ~is_rare)])
    wrong = answered[[0, 13, 20]]
    truth = np.where(np.isin(np.arange(len(is_rare)), wrong), ~is_rare, is_rare)
    is_answered = np.isin(np.arange(len(is_rare)), answered)
    return is_answered & truth, is_answered & ~truth, wrong


def test_exchanged_answers_are_doubted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    views, is_rare = town(n_rare=40)
    damaged, not_damaged, wrong = exchanged(is_rare)
    rows = looked_at(views)
    order, doubt = looks.doubts(rows, damaged, not_damaged)
    assert set(order[:3]) == set(wrong)
    assert set(order) == set(np.flatnonzero(damaged | not_damaged))
    assert (np.diff(doubt) <= 0).all()
    assert doubt[2] > 0 > doubt[12]
    # Where nobody said "not damaged", clicks unlike the others are.
    order, _ = looks.doubts(rows, damaged, np.zeros_like(damaged))
    assert set(order[:2]) == set(wrong[1:])
    monkeypatch.setattr(looks, "MOST_ASKED", 18)  # of 24; the others are held against these
    order, _ = looks.doubts(rows, damaged, not_damaged)
    assert len(order) == 24
    assert len(set(order[:6]) & set(wrong)) >= 2


def test_an_answer_does_not_speak_for_itself() -> None:
    # What is left out in closed form is what a regression without it expects.
    views, is_rare = town(n_rare=40)
    damaged, not_damaged, _ = exchanged(is_rare)
    rows, answered = looked_at(views), np.flatnonzero(damaged | not_damaged)
    order, doubt = looks.doubts(rows, damaged, not_damaged)
    others = np.setdiff1d(np.arange(len(rows)), answered)
    kernel, at = looks._kernel(rows, np.concatenate([answered, others]), answered)
    learned, signs = kernel[np.ix_(at, at)] + looks.OFFSET, np.where(damaged[answered], 1.0, -1.0)
    for number in (0, 7, 23):
        rest = np.delete(np.arange(24), number)
        weights = np.linalg.solve(learned[np.ix_(rest, rest)] + looks.RIDGE * np.eye(23), signs[rest])
        expected = learned[number, rest] @ weights
        assert doubt[order == answered[number]].item() == pytest.approx(-signs[number] * expected, rel=1e-3)


def test_rare_buildings_are_a_small_group_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    views, is_rare = town()
    rows = looked_at(views)
    groups = looks.small_groups(rows)
    np.testing.assert_array_equal(groups, looks.small_groups(rows))
    own = groups == np.bincount(groups[is_rare]).argmax()
    assert (own & is_rare).sum() >= 14
    assert own.sum() <= 17
    assert (np.diff(np.bincount(groups)) <= 0).all()
    assert looks.small_groups(rows, is_common=True).max() == looks.N_LARGE - 1
    monkeypatch.setattr(looks, "MOST_PARTED", 210)  # of every second building; the others join
    assert (looks.small_groups(rows)[is_rare] == looks.small_groups(rows)[-1]).sum() >= 12
    assert sorted(looks.small_groups(rows[:3])) == [0, 1, 2]


def test_regions_stand_for_every_island() -> None:
    rng = np.random.default_rng(0)
    middles = np.array([[0, 0], [20, 0], [0, 20]])
    xy = (middles[[0] * 300 + [1] * 30 + [2] * 8] + rng.normal(size=(338, 2))).astype(np.float32)
    region, stands = looks.regions(xy, most=3)
    np.testing.assert_array_equal(region[stands], np.arange(3))
    assert len({tuple(np.unique(region[part])) for part in (slice(300), slice(300, 330), slice(330, 338))}) == 3
    assert (np.abs(xy[stands[region[0]]]) < 1.5).all()  # the thick of the island
    assert [len(each) for each in looks.regions(xy[:0])] == [0, 0]
    assert looks.regions(np.zeros((5, 2), np.float32))[0].tolist() == [0] * 5


def test_groups_are_named_by_what_stands_out_and_by_what_they_follow() -> None:
    rng = np.random.default_rng(0)
    before = (120 + rng.normal(0, 3, (60, 3, 16, 16))).astype(np.uint8)
    after = (120 + rng.normal(0, 3, (60, 3, 16, 16))).astype(np.uint8)
    after[:20, 0] += 40  # the first group became red, the second group's roofs were dark, the third's lie in one scene
    before[20:40] -= 60
    after[20:40] -= 60
    part, scenes = np.repeat([0, 1, 2], 20), ["south"] * 40 + ["north"] * 20
    measures = looks.traits(before, after)
    names = looks.named(measures, part)
    assert "brownish" in names[0]
    assert names[0].startswith("became ")
    follows = looks.follows(measures, part, {"scene": scenes})
    assert "roofs dark before" in follows[1]
    assert follows[2] == "scene north (100 %)"
    alone = looks.traits(None, after[:, :1])
    assert np.isnan(alone[:, : len(looks.CHANGES)]).all()
    assert looks.named(alone, part)[1].startswith("dark")
