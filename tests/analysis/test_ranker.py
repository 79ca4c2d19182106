"""The instant ranker; wrong clicks that it puts last, and lonely chips."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import metrics, ranker
from pu_geo.analysis.logistic import fit_logistic
from pu_geo.errors import ShapeError, TrainingError


def _scene(seed: int, n: int = 600, d: int = 20, share: float = 0.2) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    draw = np.random.default_rng(seed)
    truth = draw.random(n) < share
    features = draw.normal(size=(n, d))
    features[truth, :3] += 1.5
    return (features * 7 + 100).astype(np.float32), truth


def _clicks(truth: NDArray[np.bool_], n: int, seed: int) -> NDArray[np.bool_]:
    clicks = np.zeros(len(truth), np.bool_)
    clicks[np.random.default_rng(seed).choice(np.flatnonzero(truth), n, replace=False)] = True
    return clicks


def rank(features, is_positive, **how) -> NDArray[np.float32]:
    prepared = features if isinstance(features, ranker.PreparedFeatures) else ranker.prepare(features)
    return ranker.fit_ranking(prepared, is_positive, **how).scores(prepared.values)


def test_solution_has_no_gradient_left() -> None:
    features, truth = _scene(0, n=200, d=5)
    values = ranker.prepare(features).values.astype(np.float64)
    slope, offset, _ = fit_logistic(values.astype(np.float32), truth, 0.3)
    chance = 1 / (1 + np.exp(-(values @ slope + offset)))
    weight = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    gradient = values.T @ (weight * (chance - truth)) + 0.3 * slope
    assert np.abs(gradient).max() < 1e-3
    assert abs(float((weight * (chance - truth)).sum())) < 1e-3


def test_scale_and_offset_of_a_feature_do_not_matter_and_a_constant_one_is_ignored() -> None:
    features, truth = _scene(1)
    clicks = _clicks(truth, 10, 1)
    features[:, 5] = 12.0
    other = features * np.linspace(0.5, 4, features.shape[1], dtype=np.float32) + 3
    np.testing.assert_allclose(rank(features, clicks), rank(other, clicks), atol=2e-3)
    assert not ranker.prepare(features).values[:, 5].any()


def test_left_out_chip_is_scored_but_teaches_nothing() -> None:
    features, truth = _scene(3)
    clicks = _clicks(truth, 10, 3)
    left_out = np.zeros(len(truth), np.bool_)
    left_out[np.flatnonzero(clicks)[:2]] = True
    left_out[np.flatnonzero(~clicks)[:2]] = True
    prepared = ranker.prepare(features)
    scores = rank(prepared, clicks, is_excluded=left_out)
    flipped = np.where(left_out, ~clicks, clicks)
    np.testing.assert_allclose(scores, rank(prepared, flipped, is_excluded=left_out), atol=1e-6)
    assert np.abs(scores - rank(prepared, clicks)).max() > 1e-3


def test_same_input_gives_same_scores_when_unlabeled_are_drawn() -> None:
    features, truth = _scene(4, n=5000, d=8, share=0.05)
    clicks = _clicks(truth, 20, 4)
    first, again = rank(features, clicks), rank(features, clicks)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - rank(features, clicks, seed=1)).max() > 1e-4


def test_penalty_grows_with_the_damaged_share() -> None:
    assert ranker.l2_for_share(0.01) == pytest.approx(0.1)
    assert ranker.l2_for_share(0.5) == pytest.approx(3.0)
    assert 0.1 < ranker.l2_for_share(0.05) < ranker.l2_for_share(0.2) < 3.0
    assert [ranker.l2_for_share(0.0), ranker.l2_for_share(1.0)] == pytest.approx([0.1, 3.0])


def test_refusals_say_what_to_do() -> None:
    features, _ = _scene(0, n=10)
    with pytest.raises(TrainingError, match="0") as none:
        rank(features, np.zeros(10, np.bool_))
    assert "Annotate" in none.value.hint
    with pytest.raises(TrainingError, match="not reviewed"):
        rank(features, np.ones(10, np.bool_))
    with pytest.raises(ShapeError, match="10"):
        rank(features, np.ones(9, np.bool_))
    features[3, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        ranker.prepare(features)


def test_not_damaged_answers_push_look_alikes_down_unless_they_are_left_out() -> None:
    features, truth = _scene(0)
    look_alike = ~truth & (np.random.default_rng([0, 1]).random(len(truth)) < 0.3)
    features[look_alike, :3] += 1.5 * 7
    features[look_alike, 3] += 2 * 7  # few clicks tell nothing of this one
    clicks, refused = _clicks(truth, 10, 0), _clicks(look_alike, 10, 0)
    both = (truth | look_alike) & ~clicks & ~refused
    without = rank(features, clicks)
    told = rank(features, clicks, is_not_damaged=refused)
    assert (told.dtype, told.min() >= 0, told.max() <= 1) == (np.float32, True, True)
    assert metrics.auc(told[both], truth[both]) > metrics.auc(without[both], truth[both]) + 0.03
    none = np.zeros(len(truth), np.bool_)
    np.testing.assert_array_equal(rank(features, clicks, is_not_damaged=none), without)
    first = rank(features, clicks, is_excluded=refused)
    again = rank(features, clicks, is_excluded=refused, is_not_damaged=refused)
    np.testing.assert_array_equal(first, again)
    assert metrics.auc(rank(features, truth, is_not_damaged=~truth), truth) > 0.9, "all are answered"


def test_accepted_chips_pull_as_positives_but_weigh_a_quarter_of_them_at_most() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(400, 10)).astype(np.float32)
    values[:20, 0] += 4
    values[20:120, 1] += 4
    is_positive, is_accepted = np.arange(400) < 10, (np.arange(400) >= 20) & (np.arange(400) < 120)
    plain = rank(values, is_positive)
    with_them = rank(values, is_positive, is_accepted=is_accepted)
    assert with_them[20:120].mean() > plain[20:120].mean() + 0.1
    assert with_them[10:20].mean() > with_them[20:120].mean()  # ten clicks are not outvoted by a hundred
    np.testing.assert_allclose(ranker.side_weights(10, 50, 0, 100)[10:110].sum(), 0.125, rtol=1e-5)
    np.testing.assert_allclose(ranker.side_weights(10, 50, 0, 1)[:11], 0.5 / 11, rtol=1e-5)  # few weigh as clicks do
    np.testing.assert_array_equal(rank(values, is_positive, is_accepted=np.zeros(400, np.bool_)), plain)


def test_rows_are_shown_along_the_widest_axes_at_unit_length() -> None:
    values = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) * [9, 1, 3]
    axes = ranker.widest_axes(values.astype(np.float32))
    np.testing.assert_allclose(np.abs(axes), np.eye(3)[[0, 2, 1]], atol=0.2)
    rows = ranker.embeddings_along(axes, values.astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(rows[0], values[0] @ axes.T / np.linalg.norm(values[0]), rtol=1e-4)
