"""Neighbors settle shifts: outliers follow, other peaks are chosen, and who is alone stays as he is or is given up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.geo.alignment import CELLS_M, consensus, mend

TOLERANCE_M = 1.5


def case(n: int = 40) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A street whose buildings all found (3, -2) as the best of two peaks, with quality 0.9."""
    centers, found = np.stack([1000 + 15.0 * np.arange(n), np.full(n, 500.0)], axis=1), np.zeros((n, 2, 2))
    found[:, 0], found[:, 1] = (3.0, -2.0), (-5.0, 5.0)
    return centers, found, np.full(n, 0.9)


def test_those_who_agree_keep_what_they_found_and_a_ramp_is_not_flattened() -> None:
    centers, found, quality = case()
    found[:, 0] += np.random.default_rng(0).normal(0, 0.1, (40, 2))
    shift, final, is_mended = mend(centers, found, quality, TOLERANCE_M)
    np.testing.assert_array_equal(shift, found[:, 0])
    np.testing.assert_array_equal(final, quality)
    assert not is_mended.any()
    centers, found, quality = case()
    found[:, 0, 0] = 0.005 * centers[:, 0]
    found[20, 0] = (-9.0, 9.0)
    shift, _, is_mended = mend(centers, found, quality, TOLERANCE_M)
    np.testing.assert_allclose(shift[20], [0.005 * centers[20, 0], -2], atol=0.15)
    assert np.flatnonzero(is_mended).tolist() == [20]


@pytest.mark.parametrize(
    ("peaks", "quality", "expected", "factor", "is_outlier"),
    [
        ([(-5.0, 5.5), (-5.0, 5.0)], 0.9, (3, -2), 0.7, True),
        ([(-5.0, 5.0), (3.4, -1.8)], 0.9, (3.4, -1.8), 0.8, True),
        ([(3.3, -2.2), (-5.0, 5.0)], 0.1, (3.3, -2.2), 0.8, False),
        ([(2.5, 2.5), (2.5, 2.5)], 0.0, (3, -2), 0.7, True),
    ],
    ids=["a sure outlier", "another peak agrees", "doubtful but agrees", "without any edges"],
)
def test_one_building_follows_its_neighbors_at_a_lower_quality(
    peaks: list[tuple[float, float]], quality: float, expected: tuple[float, float], factor: float, is_outlier: bool
) -> None:
    centers, found, qualities = case()
    found[7], qualities[7] = peaks, quality
    shift, final, is_mended = mend(centers, found, qualities, TOLERANCE_M)
    np.testing.assert_allclose(shift[7], expected)
    assert np.flatnonzero(is_mended).tolist() == [7] * is_outlier
    assert final[7] == pytest.approx(factor * 0.9)
    assert np.delete(final, 7).min() == 0.9


def test_the_doubtful_without_neighbors_that_agree_are_given_up() -> None:
    centers, found, quality = case(6)
    centers[4:] += 1e5
    quality[5] = 0.4
    centers[5] += 1e5
    shift, final, is_mended = mend(centers, found, quality, TOLERANCE_M)
    np.testing.assert_array_equal(shift[4], [3, -2])
    assert final[4] == 0.9
    assert np.isnan(shift[5]).all()
    assert final[5] == 0
    assert not is_mended.any()
    centers, found, quality = case()
    found[:, 0] = np.random.default_rng(1).uniform(-10, 10, (40, 2))
    found[:, 1] = 99
    quality[7] = 0.0
    _, final, _ = mend(centers, found, quality, TOLERANCE_M)
    assert final[7] < 0.3
    centers, found, _ = case()
    shift, final, is_mended = mend(centers, found, np.full(40, 0.3), TOLERANCE_M)
    assert np.isnan(shift).all()
    assert not final.any()
    assert not is_mended.any()


def test_far_neighbors_are_asked_where_near_ones_are_missing() -> None:
    centers, found, quality = case(12)
    centers[0] = centers[6] + [0, CELLS_M[1]]
    found[0, 0] = (-9, -9)
    said = consensus(centers, found[:, 0], quality, TOLERANCE_M)
    np.testing.assert_allclose(said.shift_m[0], [3, -2])


def test_consensus_is_the_median_of_good_neighbors_in_nine_cells() -> None:
    """Against a loop over all pairs; with at most six voters a cell, nobody is left out."""
    rng = np.random.default_rng(0)
    centers = np.concatenate([[[0.0, 0.0]], rng.uniform(0, 400, (60, 2))])
    shift, quality = rng.normal(0, 0.4, (61, 2)), rng.choice([0.2, 0.8], 61, p=[0.3, 0.7])
    said = consensus(centers, shift, quality, TOLERANCE_M)
    cell = np.floor(centers / CELLS_M[0])
    assert np.unique(cell[quality >= 0.5], axis=0, return_counts=True)[1].max() <= 6
    is_near = (np.abs(cell[:, None] - cell) <= 1).all(axis=2) & (quality >= 0.5) & ~np.eye(61, dtype=bool)
    checked = np.flatnonzero(is_near.sum(axis=1) >= 5)
    assert len(checked) > 10
    for i in checked:
        np.testing.assert_allclose(said.shift_m[i], np.median(shift[is_near[i]], axis=0))
