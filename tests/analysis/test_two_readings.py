"""The default ranking: held-out clicks by hand, the weight between both readings, and whose clicks it is judged by."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import two_readings
from pu_geo.analysis.metrics import average_precision
from pu_geo.analysis.two_readings import Chips, HeldOut, Marks, Reading, Space, chips_of, read_clicks, roots_of, whitening
from pu_geo.errors import JobCancelled
from pu_geo.training.run import Run

Floats = NDArray[np.float32]
NONE = np.zeros(0, np.int64)
ALPHA = 0.9


def town(n: int = 600, share: float = 0.3, seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    """Features [3, N, 16] of three views, all at least 0, of which some columns are higher where a chip is damaged."""
    draw = np.random.default_rng(seed)
    truth = np.arange(n) < share * n
    values = draw.normal(size=(n, 16)) * np.geomspace(3, 0.5, 16)
    values[truth, 8:] += 1.2
    return np.abs(values + 15 + 0.1 * draw.normal(size=(3, n, 16))).astype(np.float32), truth


def prepared(views: Floats, **how: Any) -> tuple[Chips, Any]:
    space = Space.of(views[0], roots_of(views).mean(0), 0.35)
    settings = {"dim": 8, "n_neighbors": 5, "n_anchors": 300} | how
    chips, _ = chips_of(space, views[0], roots_of(views).mean(0), **settings)
    return chips, lambda rows: space.white(roots_of(views[:, rows]))


def read(views: Floats, marks: Marks, seed: int = 0, **more: Any) -> tuple[Reading, Floats]:
    chips, views_of = prepared(views)
    found = read_clicks(chips, marks, views_of, propagation=ALPHA, most_held_out=500, seed=seed, even_share=0.2, **more)
    return found, found.scores(chips, ALPHA)


def marked(truth: NDArray[np.bool_], clicks: int = 12, seed: int = 1) -> Marks:
    clicked = np.sort(np.random.default_rng(seed).choice(np.flatnonzero(truth), clicks, replace=False))
    return Marks(clicked, NONE, np.setdiff1d(np.arange(len(truth)), clicked), NONE, NONE)


def held_out(fold_clicked: list[int], fold_unlabeled: list[int]) -> HeldOut:
    empty = np.zeros((2, 0), np.float32)
    rows = (np.arange(len(fold_clicked)), np.arange(len(fold_unlabeled)))
    return HeldOut(*rows, np.array(fold_clicked), np.array(fold_unlabeled), empty, empty, empty, empty, empty)


def test_places_by_hand() -> None:
    """Part 0 holds out click 0 among scores 1, 2, 3, part 1 clicks 1 and 2 among 5 and 7; what other parts say is no matter."""
    found = held_out([0, 1, 1], [0, 0, 0, 1, 1])
    clicked = np.array([[2.5, -9, -9], [-9, 8.0, 5.0]], np.float32)
    unlabeled = np.array([[1, 2, 3, 99, 99], [99, 99, 99, 5, 7]], np.float32)
    np.testing.assert_allclose(found.places(clicked, unlabeled), [2 / 4, 1 / 3, 2 / 3])
    own, others = found.unseen(clicked, unlabeled)
    np.testing.assert_array_equal(own, [2.5, 8, 5])
    np.testing.assert_array_equal(others, [1, 2, 3, 5, 7])


@pytest.mark.parametrize(
    ("share", "difference", "expected"),
    [
        (0.2, 0.0, 0.5), (0.2, 1.0, 1 / (1 + np.exp(-6))), (0.2 * np.e, 0.0, 1 / (1 + np.exp(-1))),
        (1.0, 0.0, 5 / 6),  # log 5 = 1.61 is within the bound
        (1e-9, 0.0, 1 / (1 + np.exp(2))), (0.001, 1.0, 1 / (1 + np.exp(-4))),
    ],
)  # fmt: skip
def test_weight_by_hand(share: float, difference: float, expected: float) -> None:
    assert two_readings.weight_of(share, difference, 0.2) == pytest.approx(expected)


def test_scores_have_the_guessed_share_above_one_half() -> None:
    raw = np.arange(101.0)
    assert two_readings.middle_of(raw, 0.3) == pytest.approx(70)
    least, most = (two_readings.middle_of(raw, share) for share in (None, 1.0))
    assert (least, most) == pytest.approx((100 * (1 - two_readings.LEAST_CUT), 100 * (1 - two_readings.MOST_CUT)))
    np.testing.assert_allclose(two_readings.scores_of(np.array([70.0, 72.0]), 70.0), [0.5, 1 / (1 + np.exp(-1))], rtol=1e-6)


def test_it_finds_damage_and_repeats_it() -> None:
    views, truth = town()
    marks = marked(truth)
    (first, scores), (_, again) = (read(views, marks) for _ in range(2))
    np.testing.assert_array_equal(scores, again)
    assert average_precision(scores[marks.unlabeled], truth[marks.unlabeled]) > 0.8
    assert 0 < first.weight < 1


def test_clicks_of_the_queue_are_learned_from_and_held_out_only_where_there_are_hardly_others() -> None:
    """As many clicks of the queue as the analyst's own, all of them wrong: they move the scores, but nothing is judged by them."""
    views, truth = town()
    own, wrong = marked(truth), np.flatnonzero(~truth)[:12]
    rest = np.setdiff1d(own.unlabeled, wrong)
    queued, scores = read(views, Marks(own.clicked, wrong, rest, NONE, NONE))
    np.testing.assert_array_equal(queued.held_out.clicked, own.clicked)
    assert np.abs(scores - read(views, own)[1]).max() > 0.01
    few, _ = read(views, Marks(own.clicked[:3], wrong[:6], rest, NONE, NONE))
    assert len(few.held_out.clicked) == 9


def test_damaged_ones_that_the_queue_found_count_once_a_neighborhood() -> None:
    """Own clicks count 1 each, three at one place a third each, one far from all 1, one 300 m from it and one without a place."""
    xy_m = np.array([[0, 0], [0, 0], *[[9000, 0]] * 3, [0, 9000], [0, 50000], [300, 50000], [np.nan, np.nan]], np.float64)
    near = 1 / (1 + np.exp(-0.5))
    expected = [1, 1, 1 / 3, 1 / 3, 1 / 3, 1, near, near, 1]
    np.testing.assert_allclose(two_readings.votes_of(xy_m, 2), expected, rtol=1e-6)
    many = np.concatenate([xy_m[:2], np.tile(xy_m[2:3], (5000, 1))])
    np.testing.assert_allclose(two_readings.votes_of(many, 2)[2:].sum(), 1, rtol=0.01)
    views, truth = town()
    own, street = marked(truth), np.flatnonzero(~truth)[:12]
    rest, alike = np.setdiff1d(own.unlabeled, street), np.ones(24, np.float32)
    alone, full, one, equal = (
        read(views, Marks(own.clicked, street, rest, NONE, NONE, votes=votes))[1]
        for votes in (
            np.where(np.arange(24) < 12, 1, 1e-6).astype(np.float32),
            None,
            np.append(alike[:12], alike[:12] / 12),
            alike,
        )
    )
    np.testing.assert_allclose(full, equal, atol=5e-3)
    assert np.abs(one - alone).max() < 0.8 * np.abs(full - alone).max()


def test_held_out_clicks_were_not_learned_from() -> None:
    """A wrong click that nothing resembles stands far behind where it was held out, and far ahead where it was learned from."""
    views, truth = town()
    marks = marked(truth)
    odd = np.flatnonzero(~truth)[0]
    views[:, odd] = views[:, odd] * 0.2
    both = Marks(np.sort(np.append(marks.clicked, odd)), NONE, np.setdiff1d(marks.unlabeled, odd), NONE, NONE)
    chips, _ = prepared(views)
    found, _ = read(views, both)
    assert found.held_out is not None
    clicked, unlabeled = (chips.take(rows) for rows in (found.held_out.clicked, found.held_out.unlabeled))
    (_, narrow), (_, others) = (found.held_out.readings(each, ALPHA) for each in (clicked, unlabeled))
    assert found.held_out.places(narrow, others)[list(both.clicked).index(odd)] > 0.5


def test_too_few_clicks_leave_the_whitened_reading_alone_and_whoever_cancels_is_heard() -> None:
    views, truth = town()
    found, scores = read(views, marked(truth, 3))
    assert (found.share, found.weight, found.held_out) == (None, 0.0, None)
    assert np.isfinite(scores).all()
    with pytest.raises(JobCancelled):
        read(views, marked(truth), check=Run(is_cancelled=lambda: True).stop_if_cancelled)


def test_not_damaged_answers_count() -> None:
    views, truth = town(share=0.1)
    own = marked(truth, 6)
    known = np.flatnonzero(~truth)[:40]
    rest = np.setdiff1d(own.unlabeled, known)
    with_known, without = (
        read(views, Marks(own.clicked, NONE, each, known_, NONE))[1]
        for each, known_ in ((rest, known), (own.unlabeled, NONE))
    )
    assert with_known[known].mean() < without[known].mean()


@pytest.mark.parametrize("power", [0.0, 0.35, 0.5])
def test_whitening_divides_variances_by_their_power(power: float) -> None:
    rows = (np.random.default_rng(0).normal(size=(4000, 5)) * [5, 3, 2, 1, 0.8]).astype(np.float32)
    rows -= rows.mean(0)
    turned = rows @ whitening(rows, power)
    before, after = (np.linalg.eigvalsh(values.T @ values / len(rows)) for values in (rows, turned))
    raised = before + 0.01 * before.mean()
    expected = before / raised ** (2 * power)
    np.testing.assert_allclose(after / after.sum(), np.sort(expected / expected.sum()), rtol=1e-3, atol=1e-4)
    assert float((turned**2).sum(1).mean()) == pytest.approx(5, rel=1e-3)


def test_directions_in_which_no_chip_differs_count_for_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    rows[:, 3] = 0
    turn = whitening(rows - rows.mean(0), 0.5)
    assert np.isfinite(turn).all()
    assert np.abs(np.array([[0, 0, 0, 1]], np.float32) @ turn).max() < 1e-3
    assert (whitening(np.ones((5, 3), np.float32) * 0, 0.3) == 0).all()
    np.testing.assert_allclose(roots_of(np.array([-4, 0, 9], np.float32)), [-2, 0, 3])
