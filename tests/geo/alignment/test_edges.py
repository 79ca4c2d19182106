"""Directions of edges, how they match, and neighbors that settle shifts."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from geo_parts import joined
from numpy.typing import NDArray

from pu_geo.geo.alignment import (
    GAP_PX,
    N_NEAREST,
    N_PEAKS,
    EdgeView,
    consensus,
    correlation,
    edge_field,
    mend,
    noise_of,
    peaks,
    trust,
)
from pu_geo.records import Scene

YES = np.ones((64, 64), dtype=bool)
Make = Callable[..., Scene]


def texture(seed: int, side: int = 64) -> NDArray[np.uint8]:
    noise = cv2.GaussianBlur(np.random.default_rng(seed).normal(size=(side, side)), (0, 0), 2)
    return np.clip(120 + 60 * noise / noise.std(), 0, 255).astype(np.uint8)


def naive_correlation(pre: NDArray[np.int8], post: NDArray[np.int8], reach: int) -> NDArray[np.float64]:
    """Sum of products over the inner window for every shift, one by one, without unit."""
    size = len(post)
    inner = post[reach : size - reach, reach : size - reach].astype(float)
    out = np.zeros((2 * reach + 1, 2 * reach + 1))
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            moved = pre[reach - dy : size - reach - dy, reach - dx : size - reach - dx]
            out[reach + dy, reach + dx] = (inner * moved).sum()
    return out


def test_fields_of_edges() -> None:
    # Gray 0 | 40 at column 32: Sobel gives 4 * 40 = 160 on both sides. With noise 160 the length is a half: 127 / 2 -> 64.
    picture = np.zeros((64, 64), np.uint8)
    picture[:, 32:] = 40
    field = edge_field(picture, YES, 160.0)
    assert field[30, 31].tolist() == field[30, 32].tolist() == [64, 0]
    assert np.abs(field[:, :31]).max() == np.abs(field[:, 33:]).max() == 0
    np.testing.assert_array_equal(edge_field(picture.T.copy(), YES, 160.0)[31, 30], [0, 64])
    bright = texture(0)
    hazy = (bright // 2 + 60).astype(np.uint8)
    one, other = (edge_field(each, YES, noise_of([each], [YES])).astype(float) for each in (bright, hazy))
    clear = np.linalg.norm(one, axis=2) > 64
    cosine = (one * other).sum(2) / np.maximum(np.linalg.norm(one, axis=2) * np.linalg.norm(other, axis=2), 1)
    assert np.median(cosine[clear]) > 0.99
    picture, valid = texture(4), YES.copy()
    picture[20:30, 20:30], valid[20:30, 20:30] = 0, False
    field = edge_field(picture, valid, 8.0)
    assert np.abs(field[19:31, 19:31]).max() == 0
    assert np.abs(field[10:19, 10:19]).max() > 50


def test_correlation_is_a_sum_with_noise_for_a_unit_and_zero_where_little_is_known() -> None:
    pre, post = (edge_field(texture(seed), YES, 40.0) for seed in (0, 10))
    ours, naive = correlation(pre, post, 5), naive_correlation(pre, post, 5)
    np.testing.assert_allclose(ours / np.abs(ours).max(), naive / np.abs(naive).max(), atol=1e-5)
    assert noise_of([np.full((64, 64), 9, np.uint8)], [YES]) == 8.0
    assert noise_of([texture(1)], [~YES]) == 8.0
    assert noise_of([texture(1)], [YES]) > 8.0
    full, nothing = edge_field(texture(1), YES, 40.0), np.zeros((64, 64, 2), np.int8)
    corner = nothing.copy()
    corner[6:12, 6:12] = full[6:12, 6:12]
    for pre, post in ((full, nothing), (nothing, full), (nothing, nothing), (full, corner), (corner, full)):
        assert not correlation(pre, post, 6).any()
    shifts, heights = peaks(np.zeros((2, 13, 13), np.float32))
    assert not shifts.any()
    assert not trust(heights).any()


def test_peaks_and_trust_by_hand() -> None:
    # Along columns 8, 10, 9: top at 0.5 * (8 - 9) / (8 - 20 + 9) = 1/6. Along rows 4, 10, 4: in the middle.
    surface = np.zeros((1, 21, 21), np.float32)
    surface[0, 12, 4:7], surface[0, 11, 5], surface[0, 13, 5] = (8, 10, 9), 4, 4
    surface[0, 12, 5 + GAP_PX + 1] = 7
    shifts, heights = peaks(surface)
    np.testing.assert_allclose(shifts[0, :2], [[5 - 10 + 1 / 6, 2], [9 - 10, 2]], atol=1e-6)
    assert heights[0].tolist() == [10, 7, 0, 0]
    assert shifts[0, 2:].tolist() == [[0, 0], [0, 0]]
    surface = np.zeros((1, 9, 9), np.float32)
    surface[0, 0, 8] = 5
    np.testing.assert_allclose(peaks(surface)[0][0, 0], [4, -4], atol=0.5)
    shifts, heights = peaks(np.zeros((0, 9, 9), np.float32))
    assert shifts.shape == (0, N_PEAKS, 2)
    assert heights.shape == (0, N_PEAKS)
    # (0.95 - ratio) / 0.5 times (height - 3) / 2, each at most 1
    heights = np.array([[10.0, 4.5, 0, 0], [10, 7.5, 0, 0], [4, 1, 0, 0], [10, 9.8, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(trust(heights), [1, 0.4, 0.5, 0, 0, 0])


def test_worked_pixels_are_means_of_red_and_green_and_need_all_their_pixels(make_scene: Make) -> None:
    data = np.full((3, 40, 40), 200, np.uint8)
    data[0, :, :20], data[1, :, :20], data[2] = 40, 80, 7  # gray 60 on the left; blue does not count
    data[:, 11, 31] = 0  # one pixel without data
    with joined(make_scene("a", data, nodata=0)) as mosaic:
        gray, valid = EdgeView(mosaic, 2).read(0, 0, 20, 20)
    assert gray[:, :10].min() == gray[:, :10].max() == 60
    assert gray[0, 15] == 200
    assert np.argwhere(~valid).tolist() == [[5, 15]]


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
    centers, found, _ = case()
    shift, final, is_mended = mend(centers, found, np.full(40, 0.3), TOLERANCE_M)
    assert np.isnan(shift).all()
    assert not final.any()
    assert not is_mended.any()


def test_consensus_is_the_median_of_the_nearest_good_buildings_however_far_they_are() -> None:
    """Against a loop over all pairs."""
    rng = np.random.default_rng(0)
    centers = np.concatenate([[[0.0, 1000.0]], rng.uniform(0, 400, (60, 2)), [[9e5, 0.0]]])
    shift, quality = rng.normal(0, 0.4, (62, 2)), rng.choice([0.2, 0.8], 62, p=[0.3, 0.7])
    said = consensus(centers, shift, quality, TOLERANCE_M)
    away = np.linalg.norm(centers[:, None] - centers, axis=-1)
    np.fill_diagonal(away, np.inf)
    for i in range(61):
        nearest = np.argsort(np.where(quality >= 0.5, away[i], np.inf))
        n = N_NEAREST + (quality[i] < 0.5)
        np.testing.assert_allclose(said.shift_m[i], np.median(shift[nearest[:n]], axis=0))
        n_all = N_NEAREST + 1  # with itself
        share = (quality[np.argsort(np.where(np.eye(62)[i], -1, away[i]))[:n_all]][1:] >= 0.5).mean()
        assert said.known_share[i] == pytest.approx(share)
    assert np.isnan(said.shift_m[61]).all()
    assert said.quality[61] == 0
