"""Evidence from place: the mean over neighbors, what it is worth, and that it is worth nothing where damage is not clustered."""

import math
from dataclasses import replace

import numpy as np
import pytest
from golden_parts import require_refusals
from numpy.typing import NDArray

from pu_geo.analysis import metrics, place
from pu_geo.analysis.place import HeldOutFold, PlaceEvidence, PlaceWeights
from pu_geo.errors import InputError, ShapeError

N, N_CLICKS = 600, 20


def made_up(seed: int = 0, lift: float = 1.2) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.bool_]]:
    """Places, noisy scores, and the truth: damage is in a disc of a square of 1 km."""
    draw = np.random.default_rng(seed)
    xy_m = np.array([500_000, 4_000_000]) + draw.uniform(0, 1000, (N, 2))
    truth = ((xy_m - [500_400, 4_000_500]) ** 2).sum(1) < 220**2
    return xy_m, (lift * truth + draw.normal(size=N)).astype(np.float32), truth


def tried(xy_m: NDArray[np.float64], scores: NDArray[np.float32], truth: NDArray[np.bool_]) -> tuple[
    PlaceEvidence, NDArray[np.bool_]
]:  # fmt: skip
    """Let some damaged buildings be clicks, hold them out in 5 folds, and return the evidence and which are unlabeled."""
    draw = np.random.default_rng(100)
    clicks = draw.choice(np.flatnonzero(truth), N_CLICKS, replace=False)
    is_unlabeled = np.ones(N, np.bool_)
    is_unlabeled[clicks] = False
    parts, others = np.array_split(clicks, 5), np.array_split(draw.permutation(np.flatnonzero(is_unlabeled)), 5)
    held_out = [HeldOutFold(mine, theirs, scores) for mine, theirs in zip(parts, others, strict=True)]
    return place.apply(scores, xy_m, is_unlabeled, held_out), is_unlabeled


def test_weights_by_hand() -> None:
    """60 m weigh exp(-1/2) = .6065, 180 m exp(-9/2) = .0111, 180.1 m nothing; a place shared weighs 1, the building itself 0."""
    xy_m = np.array([[0.0, 0.0], [60.0, 0.0], [0.0, 180.0], [-180.1, 0.0], [0.0, 0.0]])
    ties = PlaceWeights.of(xy_m).ties.toarray()
    np.testing.assert_allclose(ties[0], [0, 0.60653, 0.011109, 0, 1], atol=1e-5)
    np.testing.assert_array_equal(np.diag(ties), 0)
    found, _ = PlaceWeights.of(xy_m).neighbor_mean(np.array([9, 1, 0, 9, 9.0]), np.array([True, True, True, True, False]))
    np.testing.assert_allclose(found[0], 0.60653 / (0.60653 + 0.011109), atol=1e-5)
    assert (found[3], found.dtype) == (0, np.float32), "it has no neighbor"
    for n in (0, 1):
        assert PlaceWeights.of(np.zeros((n, 2))).neighbor_mean(np.ones(n), np.ones(n, np.bool_))[0].tolist() == [0] * n


def test_clustered_damage_is_found_better_and_scattered_damage_no_worse() -> None:
    xy_m, scores, truth = made_up(lift=2.0)
    found, is_unlabeled = tried(xy_m, scores, truth)
    alone = metrics.average_precision(scores[is_unlabeled], truth[is_unlabeled])
    assert found.why_not == ""
    assert found.weight > 0.5
    assert metrics.average_precision(found.scores[is_unlabeled], truth[is_unlabeled]) > alone + 0.05
    mixed, _ = tried(np.random.default_rng(0).permutation(xy_m), scores, truth)
    assert mixed.weight < 0.15
    assert metrics.average_precision(mixed.scores[is_unlabeled], truth[is_unlabeled]) > alone - 0.01


def test_unit_and_origin_of_the_raw_scores_do_not_matter() -> None:
    xy_m, scores, truth = made_up()
    first, _ = tried(xy_m, scores, truth)
    other, _ = tried(xy_m, 7 * scores - 3, truth)
    np.testing.assert_allclose(other.scores, 7 * first.scores - 3, atol=1e-3)
    assert (other.b, other.m, other.weight) == pytest.approx((first.b, first.m, first.weight), abs=1e-5)


def test_scores_of_clicks_and_hidden_buildings_reach_nobody() -> None:
    xy_m, scores, truth = made_up()
    first, is_unlabeled = tried(xy_m, scores, truth)
    spoiled = np.where(is_unlabeled, scores, 1e6).astype(np.float32)
    held_out = [HeldOutFold(np.flatnonzero(~is_unlabeled), np.flatnonzero(is_unlabeled), scores)]
    one, other = (place.apply(values, xy_m, is_unlabeled, held_out) for values in (scores, spoiled))
    np.testing.assert_array_equal(one.scores[is_unlabeled], other.scores[is_unlabeled])
    assert first.b == one.b == other.b


def test_the_weight_falls_with_what_held_out_clicks_lose_and_rises_with_clusters_and_what_they_gain() -> None:
    assert [place.place_weight(0.95, m) for m in (0.3, 0.0, -0.025, -0.05, -0.2)] == pytest.approx([0.6, 0.6, 0.2375, 0, 0])
    # b = .93 gives .42; b = .75 and m = .3 give -2.1 + 2.4; b = .7 and m = .2 give -2.8 + 1.6, which is nothing.
    found = [place.place_weight(*each) for each in ((0.93, 0.0), (0.75, 0.3), (0.7, 0.2), (0.9, 0.0))]
    assert found == pytest.approx([0.93 * 0.42, 0.75 * 0.3, 0, 0])
    nb, everyone = np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4, np.bool_)
    slopes = [place.slope_on_neighbors(values, nb, everyone) for values in (2 * nb + 1, 0.25 * nb, -nb)]
    assert slopes == pytest.approx([1, 0.25, 0])
    assert place.slope_on_neighbors(nb, np.ones(4), everyone) == 0
    assert place.slope_on_neighbors(nb, nb, np.arange(4) < 2) == 0


def test_gain_by_hand() -> None:
    """Rows 0 and 1 of six share a place with the click, row 5; the others are alone, and one of them stands above the click.

    Alone, the click has rows 0, 1 and 2 above it of [0, 1, 2, 3, 4], so its place is (3 + 1) / (5 + 1).
    """
    xy_m = np.array([[0, 0], [0, 0], [900, 0], [1800, 0], [2700, 0], [0, 0]], np.float64)
    scores = np.array([4.0, 4.0, 3.0, 0.0, 0.0, 2.5])
    is_unlabeled = np.arange(6) < 5
    fold = HeldOutFold(np.array([5]), np.arange(5), scores)
    standard, _ = place.standardized(scores, is_unlabeled)
    weights = PlaceWeights.of(xy_m)
    nb, _ = weights.neighbor_mean(standard, is_unlabeled)
    np.testing.assert_allclose(nb, standard[0] * np.array([1, 1, 0, 0, 0, 1]), atol=1e-6)
    # Only two buildings have a neighbor, too few for a slope: nothing is gained, and nothing lost.
    assert place.held_out_gain(weights, is_unlabeled, [fold]) == 0
    # A third one at the place gives b = 0, as nb is the same for all three; one that scores less makes a slope.
    xy_m[3], scores[3] = [0, 60], 3.0
    gain = place.held_out_gain(PlaceWeights.of(xy_m), is_unlabeled, [replace(fold, scores=scores)])
    standard = (scores - scores[:5].mean()) / scores[:5].std()
    nb, _ = PlaceWeights.of(xy_m).neighbor_mean(standard, is_unlabeled)
    rows = [0, 1, 3]  # with neighbors
    both = standard + np.clip(np.polyfit(nb[rows], standard[rows], 1)[0], 0, 1) * nb
    place_with = ((both[:5] > both[5]).sum() + 1) / 6
    assert gain == pytest.approx(math.log(5 / 6 + 0.05) - math.log(place_with + 0.05))


def test_what_cannot_be_used_is_left_as_it_was_and_says_why() -> None:
    xy_m, scores, truth = made_up()
    held_out = [HeldOutFold(np.flatnonzero(truth)[:5], np.flatnonzero(~truth), scores)]
    far = np.arange(2.0 * N).reshape(N, 2) * 1000
    everyone, nobody = np.ones(N, np.bool_), np.zeros(N, np.bool_)
    cases = [
        ("within 180 m", scores, far, everyone, held_out),
        ("every building is reviewed", scores, xy_m, nobody, held_out),
        ("too few clicks", scores, xy_m, everyone, []),
        ("too few clicks", scores, xy_m, everyone, [replace(held_out[0], scores=np.full(N, np.nan))]),
        ("not clustered", np.ones(N, np.float32), xy_m, everyone, held_out),
    ]
    for words, raw, places, is_counted, folds in cases:
        found = place.apply(raw, places, is_counted, folds)
        assert words in found.why_not
        assert found.as_mapping() == place.unused(found.why_not) | {"b": round(found.b, 4), "m": round(found.m, 4)}
        np.testing.assert_array_equal(found.scores, raw)
        assert place.words_of(found.as_mapping()) == f"Neighbors do not count here: {found.why_not}"


def test_held_out_clicks_veto() -> None:
    """Clicks that have no damage around them, in a town where high scores are clustered."""
    xy_m, scores, truth = made_up(1)
    alone = np.flatnonzero(~truth)[:10]
    raised = scores.copy()
    raised[alone] = 2.5
    found = place.apply(raised, xy_m, ~np.isin(np.arange(N), alone), [HeldOutFold(alone, np.arange(20, N), raised)])
    assert found.b > 0.5
    assert found.m < -0.05
    assert (found.weight, found.as_mapping()["used"]) == (0, False)
    assert "held-out clicks stand lower" in found.why_not


def test_rows_without_a_score_in_a_fold_are_no_neighbors() -> None:
    xy_m, scores, truth = made_up(2)
    clicks, others = np.flatnonzero(truth)[:10], np.flatnonzero(~truth)
    is_unlabeled, is_scored = ~np.isin(np.arange(N), clicks), np.arange(N) % 3 > 0
    few = HeldOutFold(clicks, others, np.where(is_scored, scores, np.nan))
    again = HeldOutFold(clicks[is_scored[clicks]], others[is_scored[others]], scores)
    weights = PlaceWeights.of(xy_m)
    gain = place.held_out_gain(weights, is_unlabeled, [few])
    assert gain == pytest.approx(place.held_out_gain(weights, is_unlabeled & is_scored, [again]), abs=1e-9)


def test_places_that_are_none_are_refused() -> None:
    xy_m, scores, _ = made_up()
    gone = xy_m.copy()
    gone[[3, 7]] = np.nan
    degrees, kilometers = np.array([-93, 37]) + (xy_m - xy_m.mean(0)) / 111_000, (xy_m - xy_m.min(0)) / 1000
    require_refusals(
        (InputError, "2 of 600 positions are not finite, the first in row 3", lambda: PlaceWeights.of(gone)),
        (InputError, "must be in metres", lambda: PlaceWeights.of(degrees)),
        (InputError, "must be in metres", lambda: PlaceWeights.of(kilometers)),
        (ShapeError, r"\[N, 2\]", lambda: PlaceWeights.of(xy_m[:, 0])),
        (ShapeError, r"\[600\]", lambda: PlaceWeights.of(xy_m).neighbor_mean(scores[:5], np.ones(N, np.bool_))),
    )


def test_of_too_many_neighbors_the_nearest_count_and_blocks_of_rows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    xy_m, scores, _ = made_up()
    everyone = np.ones(N, np.bool_)
    whole = PlaceWeights.of(xy_m)
    monkeypatch.setattr(place, "_ROWS_AT_ONCE", 77)
    asked: list[int] = []
    again = PlaceWeights.of(xy_m, lambda: asked.append(1))
    assert abs(again.ties - whole.ties).max() < 1e-6
    assert len(asked) == 8
    monkeypatch.setattr(place, "MOST_TIES", whole.ties.nnz - 1)
    near = PlaceWeights.of(xy_m)
    assert near.ties.nnz < whole.ties.nnz
    k = place.MOST_TIES // N
    for row in (0, 300, 599):
        weights = np.sort(whole.ties[[row]].data)[::-1][:k]
        np.testing.assert_allclose(np.sort(near.ties[[row]].data)[::-1], weights, rtol=1e-6)
    means = [weights.neighbor_mean(scores, everyone)[0] for weights in (near, whole)]
    assert np.corrcoef(*means)[0, 1] > 0.95


def test_words() -> None:
    assert place.words_of(None) == ""
    used = PlaceEvidence(0.8125, 0.9, 0.012345, np.zeros(1, np.float32)).as_mapping()
    assert used == {"used": True, "weight": 0.8125, "b": 0.9, "m": 0.0123, "why_not": ""}
    assert place.words_of(used) == "Neighbors count: 0.81 (1 would be as much as the building itself)"
    assert place.words_of(place.unused(place.SWITCHED_OFF)) == "Neighbors do not count here: it is switched off"
