"""Edge directions, their correlation, and how far its peaks can be trusted."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.geo.alignment.edge_matching import APART, N_PEAKS, correlation, edge_field, noise_of, peaks, trust

YES = np.ones((64, 64), dtype=bool)


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


def test_field_of_a_step_by_hand() -> None:
    # Gray 0 | 40 at column 32: Sobel gives 4 * 40 = 160 on both sides. With noise 160 the length is a half: 127 / 2 -> 64.
    picture = np.zeros((64, 64), np.uint8)
    picture[:, 32:] = 40
    field = edge_field(picture, YES, 160.0)
    assert field[30, 31].tolist() == field[30, 32].tolist() == [64, 0]
    assert np.abs(field[:, :31]).max() == np.abs(field[:, 33:]).max() == 0
    np.testing.assert_array_equal(edge_field(picture.T.copy(), YES, 160.0)[31, 30], [0, 64])


@pytest.mark.parametrize("seed", range(3))
def test_field_keeps_its_direction_under_haze_and_darkening(seed: int) -> None:
    bright = texture(seed)
    hazy = (bright // 2 + 60).astype(np.uint8)
    one, other = edge_field(bright, YES, noise_of([bright], [YES])), edge_field(hazy, YES, noise_of([hazy], [YES]))
    one, other = one.astype(float), other.astype(float)
    clear = np.linalg.norm(one, axis=2) > 64
    cosine = (one * other).sum(2) / np.maximum(np.linalg.norm(one, axis=2) * np.linalg.norm(other, axis=2), 1)
    assert np.median(cosine[clear]) > 0.99


def test_pixels_without_data_and_their_neighbors_have_no_edges() -> None:
    picture, valid = texture(4), YES.copy()
    picture[20:30, 20:30], valid[20:30, 20:30] = 0, False
    field = edge_field(picture, valid, 8.0)
    assert np.abs(field[19:31, 19:31]).max() == 0
    assert np.abs(field[10:19, 10:19]).max() > 50


def test_noise_of_flat_pictures_is_that_of_quantization() -> None:
    assert noise_of([np.full((64, 64), 9, np.uint8)], [YES]) == 8.0
    assert noise_of([texture(1)], [~YES]) == 8.0
    assert noise_of([texture(1)], [YES]) > 8.0


@pytest.mark.parametrize("seed", range(3))
def test_correlation_equals_a_naive_sum_up_to_its_unit(seed: int) -> None:
    pre, post = (edge_field(texture(s), YES, 40.0) for s in (seed, seed + 10))
    ours, naive = correlation(pre, post, 5), naive_correlation(pre, post, 5)
    np.testing.assert_allclose(ours / np.abs(ours).max(), naive / np.abs(naive).max(), atol=1e-5)


@pytest.mark.parametrize(("dx", "dy"), [(0, 0), (4, 0), (-3, 5)])
def test_peak_lies_where_pre_must_move(dx: int, dy: int) -> None:
    big = texture(7, 96)
    pre, post = big[16:80, 16:80], big[16 - dy : 80 - dy, 16 - dx : 80 - dx]  # post shows at p what pre shows at p - d
    found, height = peaks(correlation(edge_field(pre, YES, 40.0), edge_field(post, YES, 40.0), 6)[None])
    np.testing.assert_allclose(found[0, 0], [dx, dy], atol=0.2)
    assert height[0, 0] > 6
    assert trust(height)[0] > 0.8


def test_what_was_replaced_does_not_move_the_peak() -> None:
    pre, post = texture(8), texture(8)
    post[16:48, 16:48] = texture(9)[16:48, 16:48]
    found, _ = peaks(correlation(edge_field(pre, YES, 40.0), edge_field(post, YES, 40.0), 6)[None])
    np.testing.assert_allclose(found[0, 0], [0, 0], atol=0.2)


def test_too_little_of_the_place_gives_zero_everywhere() -> None:
    full, nothing = edge_field(texture(1), YES, 40.0), np.zeros((64, 64, 2), np.int8)
    corner = nothing.copy()
    corner[6:12, 6:12] = full[6:12, 6:12]
    for pre, post in ((full, nothing), (nothing, full), (nothing, nothing), (full, corner), (corner, full)):
        assert not correlation(pre, post, 6).any()
    shifts, heights = peaks(np.zeros((2, 13, 13), np.float32))
    assert not shifts.any()
    assert not trust(heights).any()


def test_peaks_of_a_parabola_by_hand() -> None:
    # Along columns 8, 10, 9: top at 0.5 * (8 - 9) / (8 - 20 + 9) = 1/6. Along rows 4, 10, 4: in the middle.
    surface = np.zeros((1, 21, 21), np.float32)
    surface[0, 12, 4:7], surface[0, 11, 5], surface[0, 13, 5] = (8, 10, 9), 4, 4
    surface[0, 12, 5 + APART + 1] = 7
    shifts, heights = peaks(surface)
    np.testing.assert_allclose(shifts[0, :2], [[5 - 10 + 1 / 6, 2], [9 - 10, 2]], atol=1e-6)
    assert heights[0].tolist() == [10, 7, 0, 0]
    assert shifts[0, 2:].tolist() == [[0, 0], [0, 0]]


def test_peaks_at_the_border_stay_within_it_and_none_are_fine() -> None:
    surface = np.zeros((1, 9, 9), np.float32)
    surface[0, 0, 8] = 5
    np.testing.assert_allclose(peaks(surface)[0][0, 0], [4, -4], atol=0.5)
    shifts, heights = peaks(np.zeros((0, 9, 9), np.float32))
    assert shifts.shape == (0, N_PEAKS, 2)
    assert heights.shape == (0, N_PEAKS)


def test_trust_by_hand() -> None:
    # (0.95 - ratio) / 0.5 times (height - 3) / 2, each at most 1
    heights = np.array([[10.0, 4.5, 0, 0], [10, 7.5, 0, 0], [4, 1, 0, 0], [10, 9.8, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(trust(heights), [1, 0.4, 0.5, 0, 0, 0])
