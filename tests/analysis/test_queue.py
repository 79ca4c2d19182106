"""The queue holds what it says, nothing twice, and its random checks stay a fair sample while a search goes on."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import queue as queues
from pu_geo.analysis.audit import progress
from pu_geo.analysis.queue import Item, Mix, Queue, QueueState, next_queue, spread
from pu_geo.errors import ShapeError

Floats = NDArray[np.float64]
EVEN = Mix(1, 1, 1)


def scene(seed: int, n: int = 300, d: int = 8) -> tuple[Floats, Floats, Floats]:
    """Scores, features and positions in a square of 3 km."""
    draw = np.random.default_rng(seed)
    return draw.random(n), draw.normal(size=(n, d)), draw.random((n, 2)) * 3000


def fresh(n: int = 300, answered: tuple[int, ...] = ()) -> QueueState:
    is_answered = np.zeros(n, np.bool_)
    is_answered[list(answered)] = True
    return QueueState(is_answered, np.zeros(n, np.bool_))


def rows_of(queue: Queue, kind: str) -> list[int]:
    return [item.row for item in queue.items if item.kind == kind]


def all_answered(state: QueueState) -> QueueState:
    return replace(state, is_answered=state.is_answered | state.is_shown)


def test_places_follow_the_shares() -> None:
    assert Mix(0.7, 0.2, 0.1).places(20) == (14, 4, 2)
    assert Mix(80, 10, 10).places(20) == (16, 2, 2)
    assert Mix(0.5, 0.4, 0.1).places(5) == (2, 2, 1)
    assert Mix(0.8, 0.1, 0.1).places(3) == (1, 1, 1)
    assert Mix(0.8, 0.1, 0.1).places(1) == (1, 0, 0)
    assert Mix(0, 0, 3).places(7) == (0, 0, 7)
    assert all(queues.DEFAULT_MIX.places(20))
    for shares in ((0, 0, 0), (-1, 1, 1), (np.nan, 1, 0), (np.inf, 1, 0)):
        with pytest.raises(ValueError, match="shares"):
            Mix(*shares)


def test_exploit_takes_the_highest_scores_that_nobody_answered_and_equal_ones_in_order() -> None:
    scores, features, xy_m = scene(0)
    scores /= 2.01  # none is likely damaged: nothing to choose among
    best = np.argsort(-scores)
    queue = next_queue(scores, features, xy_m, fresh(300, tuple(best[:3].tolist())), mix=Mix(1, 0, 0), n=5)
    assert [item.row for item in queue.items] == best[3:8].tolist()
    assert queue.items[0] == Item(int(best[3]), "exploit", "among the highest scores")
    assert queue.state.audit is None
    queue = next_queue(np.full(300, 0.4), features, xy_m, fresh(300, (1,)), mix=Mix(1, 0, 0), n=4)
    assert [item.row for item in queue.items] == [0, 2, 3, 4]


def least_crowded(rows: list[int], features: Floats, xy_m: Floats, known: list[int], n: int) -> list[int]:
    """Pick by loops: of the rows, in their order, the one that those before it cover least by place or by look."""
    unit, picked = features / np.linalg.norm(features, axis=1)[:, None], []
    for _ in range(n):
        crowd = {
            row: sum(
                max(np.exp(-(((xy_m[row] - xy_m[other]) / 300) ** 2).sum() / 2), max(unit[row] @ unit[other], 0) ** 3)
                for other in [*known, *picked]
            )
            for row in rows if row not in picked
        }  # fmt: skip
        picked.append(min(crowd, key=crowd.get))
    return picked


def test_exploit_spreads_over_places_and_looks_of_likely_damage_and_a_renewal_goes_on_so() -> None:
    """Of 58 likely ones 38 stand in one street and look alike, the others in four other places."""
    draw = np.random.default_rng(1)
    _, features, xy_m = scene(2)
    scores = np.linspace(0.4, 0.1, 300)
    scores[:40], scores[40:60] = np.linspace(0.85, 0.55, 40), np.linspace(0.8, 0.6, 20)
    group = np.concatenate([np.zeros(40, np.int64), 1 + np.arange(20) % 4])
    features[:60] = 5 * np.eye(8)[group] + draw.normal(size=(60, 8))
    xy_m[:60] = 2000.0 * group[:, None] + draw.normal(size=(60, 2)) * 40
    state = fresh(300, (3, 17))
    queue = next_queue(scores, features, xy_m, state, mix=Mix(1, 0, 0), n=10)
    rows = rows_of(queue, "exploit")
    free = np.flatnonzero(~state.is_answered[:60])
    likely = free[np.argsort(-scores[free], kind="stable")][: 58 * 2 // 3].tolist()
    assert rows == least_crowded(likely, features, xy_m, [3, 17], 10)
    assert np.bincount(group[rows])[1:].min() >= 2, "two of the street are answered"
    shown = replace(state, is_shown=np.isin(np.arange(300), rows))
    more = spread(scores, features, xy_m, shown, ~(shown.is_answered | shown.is_shown), 5)
    assert not set(more.tolist()) & set(rows)
    assert np.bincount(group[more]).max() <= 2
    assert scores[more].min() >= 0.5


def farthest_first(worth: Floats, features: Floats, xy_m: Floats, state: QueueState, seen: list[int], n: int) -> list[int]:
    """Pick by loops over all pairs."""
    unit = features / np.linalg.norm(features, axis=1)[:, None]
    picked: list[int] = []
    for _ in range(n):
        found, best = -1, -1.0
        for row in range(len(worth)):
            near = [*picked, *state.recent]
            if row in seen or state.is_shown[row] or any(np.linalg.norm(xy_m[row] - xy_m[other]) < 80 for other in near):
                continue
            gap = min((1 - float(unit[row] @ unit[other]) for other in [*seen, *picked]), default=2.0)
            if worth[row] * gap > best:
                found, best = row, worth[row] * gap
        if found >= 0:
            picked.append(found)
    return picked


def test_explore_equals_farthest_first_by_loops() -> None:
    scores, features, xy_m = scene(0, n=150)
    xy_m = xy_m / 6  # 500 m: the distance matters
    answered = [3, 50, 99]
    state = replace(fresh(150, tuple(answered)), recent=(10, 11))
    queue = next_queue(scores, features, xy_m, state, mix=Mix(0, 1, 0), n=12)
    assert rows_of(queue, "explore") == farthest_first(scores, features, xy_m, state, answered, 12)
    assert queue.items[0].why == "unlike anything answered so far"
    state.is_shown[60] = True  # skipped, and seen all the same
    mixed = next_queue(scores, features, xy_m, state, mix=EVEN, n=12)
    seen = [*answered, 60, *rows_of(mixed, "exploit"), *rows_of(mixed, "audit")]
    assert rows_of(mixed, "explore") == farthest_first(scores, features, xy_m, state, seen, 4)


def test_where_nothing_lies_apart_the_places_go_to_exploit() -> None:
    scores, features, _ = scene(3)
    scores /= 2.01
    queue = next_queue(scores, features, np.zeros((300, 2)), fresh(300, (0,)), mix=Mix(0.5, 0.5, 0), n=10)
    assert len(rows_of(queue, "explore")) == 1
    left = np.argsort(-np.where(np.arange(300) == 0, -1, scores))
    expected = [row for row in left.tolist() if row not in rows_of(queue, "explore")][:9]
    assert rows_of(queue, "exploit") == expected
    alone = next_queue(scores, features, np.zeros((300, 2)), fresh(300, (0,)), mix=Mix(0, 1, 0), n=10)
    assert len(alone.items) == 1


def test_without_scores_everything_is_explored_and_no_audit_begins() -> None:
    _, features, xy_m = scene(4)
    queue = next_queue(None, features, xy_m, fresh(), mix=EVEN)
    assert {(item.kind, item.why) for item in queue.items} == {("explore", "unlike anything answered so far")}
    assert len({item.row for item in queue.items}) == 20
    assert queue.state.audit is None


def test_audit_takes_the_next_of_the_drawing_order_and_says_its_probability() -> None:
    scores, features, xy_m = scene(5)
    first = next_queue(scores, features, xy_m, fresh(300, (7,)), mix=Mix(1, 0, 1), n=8, seed=9)
    audit = progress.start_audit(scores, fresh(300, (7,)).is_answered, seed=9)
    assert rows_of(first, "audit") == audit.rows[:4].tolist()
    second = next_queue(scores, features, xy_m, all_answered(first.state), mix=Mix(1, 0, 1), n=8)
    drawn = second.state.audit
    assert drawn.n_drawn == 8
    for item in second.items:
        if item.kind == "audit":
            part = int(drawn.stratum[drawn.rows.tolist().index(item.row)])
            assert item.inclusion == pytest.approx((drawn.stratum[:8] == part).sum() / drawn.sizes()[part])
            assert item.why == f"random pick of scores {drawn.low[part]:.2f} to {drawn.high[part]:.2f}"
        else:
            assert item.inclusion is None


def test_each_building_is_shown_once_until_all_were() -> None:
    scores, features, xy_m = scene(6, n=173)
    state, shown = fresh(173, (5,)), []
    while (queue := next_queue(scores, features, xy_m, state, mix=EVEN)).items:
        shown += [item.row for item in queue.items]
        state = queue.state  # skipped, all of them
    assert len(shown) == len(set(shown)) == 172
    assert 5 not in shown


def test_first_items_hold_all_kinds_the_rest_is_spread_and_the_state_is_not_changed() -> None:
    scores, features, xy_m = scene(9)
    state = fresh()
    queue = next_queue(scores, features, xy_m, state, mix=Mix(0.7, 0.2, 0.1))
    reasons = [item.kind for item in queue.items]
    assert reasons[:3] == ["exploit", "explore", "audit"]
    assert "audit" in reasons[8:14]
    assert [reasons.count(kind) for kind in ("exploit", "explore", "audit")] == [14, 4, 2]
    assert not (state.is_shown | state.is_answered).any()
    shown = {item.row for item in queue.items}
    assert set(np.flatnonzero(queue.state.is_shown)) == set(queue.state.recent) == shown


def test_queue_of_checks_alone_is_not_empty_before_all_were_drawn() -> None:
    scores, features, xy_m = scene(12)
    audit = progress.start_audit(scores, np.zeros(300, np.bool_), seed=0)
    state = replace(fresh(), audit=audit)
    state.is_answered[audit.rows[:45]] = True
    queue = next_queue(scores, features, xy_m, state, mix=Mix(0, 0, 1), n=20)
    assert rows_of(queue, "audit") == audit.rows[45:60].tolist()
    state.is_answered[:] = True
    assert next_queue(scores, features, xy_m, state, mix=Mix(0, 0, 1)).items == []


def test_refuses_arrays_that_do_not_fit_and_has_nothing_to_show_where_all_is_answered() -> None:
    scores, features, xy_m = scene(14)
    for wrong in ((scores[:9], features, xy_m), (scores, features[:9], xy_m), (scores, features, xy_m[:, :1])):
        with pytest.raises(ShapeError, match="300"):
            next_queue(*wrong, fresh())
    missing = np.where(np.arange(300) == 4, np.nan, scores)
    part = next_queue(missing, features, xy_m, fresh(), n=299)
    assert {item.row for item in part.items} == set(range(300)) - {4}, "which has no score yet"
    assert part.state.audit is None
    assert next_queue(missing, features, xy_m, fresh(300, (4,))).state.audit is not None
    for n in (0, 3):
        for given in (scores[:n], None):
            assert next_queue(given, features[:n], xy_m[:n], fresh(n, tuple(range(n)))).items == []


def test_every_site_is_asked_in_its_turn() -> None:
    scores, features, xy_m = scene(0)
    sites = np.repeat([0, 1, 2], [280, 15, 5])
    scores /= 2.01 * 100.0**sites  # nobody would come to them by rank
    state = replace(fresh(), sites=sites)
    best = next_queue(scores, features, xy_m, state, mix=Mix(1, 0, 0), n=20).items
    assert [sites[item.row] for item in best] == [0, 1, 2] * 5 + [0, 1] * 2 + [0]  # the third has none left
    assert [item.row for item in best[1::3]][:5] == (280 + np.argsort(-scores[280:295])[:5]).tolist()
    for given, mix in ((scores, Mix(0, 1, 0)), (None, EVEN)):
        unlike = next_queue(given, features, xy_m, state, mix=mix, n=9)
        assert [sites[item.row] for item in unlike.items] == [0, 1, 2] * 3
    asked = set()  # a queue that is shorter than there are sites goes on where the one before ended
    for _ in range(3):
        queue = next_queue(scores, features, xy_m, state, mix=Mix(1, 0, 0), n=1)
        state = queue.state
        asked |= {int(sites[item.row]) for item in queue.items}
    assert asked == {0, 1, 2}
