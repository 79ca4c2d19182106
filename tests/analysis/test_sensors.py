"""Scenes of different sensors are told from scenes with different content, and their features are matched."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_geo.analysis import sensors

N = 60
ALL_THE_SAME, TWO_HALVES = [0] * N, [0] * (N // 2) + [1] * (N // 2)
SCENES = {"a": {"dtype": "uint8", "gsd_m": 0.5}, "b": {"dtype": "uint8", "gsd_m": 0.5}}


def chips(seed: int = 0, *, change: float = 0.0) -> NDArray[np.uint8]:
    """Smooth gray pictures with texture, uint8 [60, 3, 16, 16]; `change` brightens the content of the second half."""
    draw = np.random.default_rng(seed)
    base = draw.uniform(60, 190, (N, 1, 1, 1)) + draw.normal(0, 25, (N, 3, 16, 16))
    base[N // 2 :] += change
    return np.clip(base, 0, 255).astype(np.uint8)


def hazed(gain: float, offset: float) -> NDArray[np.uint8]:
    """The same pictures, the second half under haze."""
    pictures = chips()
    pictures[N // 2 :] = (pictures[N // 2 :] * gain + offset).astype(np.uint8)
    return pictures


def groups(
    pictures: NDArray[np.uint8], facts: dict[str, dict[str, object]] = SCENES, *, of_b: int = N // 2, **more: object
) -> list[int]:
    """The group of each chip, of which the last ones are of scene b."""
    shown = {"post": ["a"] * (N - of_b) + ["b"] * of_b}
    found = sensors.sensor_groups(pictures, shown, facts, np.ones(N, np.bool_), **more)  # type: ignore[arg-type]
    return found.tolist()


def test_haze_makes_a_sensor_and_content_does_not_and_thin_haze_only_looks_different() -> None:
    assert groups(chips(change=18.0)) == ALL_THE_SAME
    assert groups(hazed(0.4, 120)) == TWO_HALVES
    assert groups(hazed(0.85, 30)) == ALL_THE_SAME
    assert groups(hazed(0.85, 30), bounds=sensors.APPEARANCE) == TWO_HALVES
    one_take = {name: {**facts, "stretch": [[280, 1664]] * 3} for name, facts in SCENES.items()}
    lake = hazed(0.1, 0)
    assert (groups(lake), groups(lake, one_take)) == (TWO_HALVES, ALL_THE_SAME)


def test_enlarged_pixels_are_another_sensor() -> None:
    coarse = chips()
    coarse[N // 2 :] = coarse[N // 2 :, :, ::4, ::4].repeat(4, 2).repeat(4, 3)
    ramp = np.array([0.25, 0.5, 0.25])
    for axis in (2, 3, 2, 3):  # as a bilinear resampling leaves them
        coarse[N // 2 :] = np.apply_along_axis(np.convolve, axis, coarse[N // 2 :], ramp, "same").astype(np.uint8)
    assert len(set(groups(coarse))) == 2


@pytest.mark.parametrize("other", [{"dtype": "uint16", "gsd_m": 0.5}, {"dtype": "uint8", "gsd_m": 2.0}])
def test_metadata_alone_can_tell_and_few_chips_are_judged_by_it_alone(other: dict[str, object]) -> None:
    assert groups(chips(), SCENES | {"b": other}) == TWO_HALVES
    bright = chips()
    bright[N - 5 :] = 250
    assert groups(bright, of_b=5) == ALL_THE_SAME


def shades(*blacks: int, sizes: tuple[int, ...]) -> tuple[NDArray[np.uint8], list[str | None]]:
    """Scenes "s0", "s1", ... of some sizes, each as much brighter as it says and otherwise alike."""
    draw = np.random.default_rng(0)
    parts = [draw.normal(60 + black, 8, (n, 3, 16, 16)) for black, n in zip(blacks, sizes, strict=True)]
    shown: list[str | None] = [f"s{k}" for k, n in enumerate(sizes) for _ in range(n)]
    return np.clip(np.concatenate(parts), 0, 255).astype(np.uint8), shown


def test_neither_a_small_scene_nor_a_chain_of_scenes_joins_two_sensors() -> None:
    pictures, shown = shades(0, 90, 0, sizes=(100, 100, 10))
    found = sensors.sensor_groups(pictures, {"post": shown}, {}, np.ones(210, np.bool_))
    assert (found[0], found[100]) == (0, 1)
    pictures, shown = shades(0, 30, 60, 90, sizes=(50, 40, 40, 40))
    found = sensors.sensor_groups(pictures, {"post": shown}, {}, np.ones(170, np.bool_))
    assert found[0] == found[50] == 0 != found[130]


def test_what_is_hidden_makes_no_sensor_and_those_without_a_scene_join_the_largest_group() -> None:
    dark = chips()
    dark[N // 2 : N - 22] = 0  # black fill; the 22 that are left look as the others do
    is_visible = dark.any(axis=(1, 2, 3))
    shown = {"post": ["a"] * (N // 2) + ["b"] * (N // 2)}
    assert set(sensors.sensor_groups(dark, shown, SCENES, is_visible).tolist()) == {0}
    hazy = chips()
    hazy[:20] = (hazy[:20] * 0.3 + 150).astype(np.uint8)
    shown: dict[str, list[str | None]] = {"post": ["a"] * 20 + ["b"] * 38 + [None] * 2}
    found = sensors.sensor_groups(hazy, shown, SCENES, np.ones(N, np.bool_)).tolist()
    assert (found[0], found[20]) == (1, 0)


def test_matching_gives_the_mean_and_spread_of_the_first_group_and_keeps_the_order_within() -> None:
    draw = np.random.default_rng(0)
    views = np.square(draw.normal(3, 0.5, (2, 100, 4))).astype(np.float16)
    views[:, 60:] = np.square(np.sqrt(views[:, 60:].astype(np.float32)) * 0.4 + 0.5).astype(np.float16)
    group, before = np.repeat([0, 1], [60, 40]), views.copy()
    assert sensors.match_groups(views, group, np.ones(100, np.bool_)) == (1,)
    roots = np.sqrt(views.astype(np.float32))
    np.testing.assert_allclose(roots[:, 60:].mean((0, 1)), roots[:, :60].mean((0, 1)), atol=0.01)
    np.testing.assert_allclose(roots[:, 60:].std((0, 1)), roots[:, :60].std((0, 1)), rtol=0.02)
    np.testing.assert_array_equal(views[:, :60], before[:, :60])
    np.testing.assert_array_equal(views[0, 60:, 0].argsort(), before[0, 60:, 0].argsort())
    before = views.copy()  # small groups have no part in it
    assert sensors.match_groups(views, np.repeat([0, 1], [81, 19]), np.ones(100, np.bool_)) == ()
    np.testing.assert_array_equal(views, before)


def test_features_below_zero_are_matched_as_such() -> None:
    """Two groups of the same content, of which one has a quarter of the contrast."""
    views = np.random.default_rng(0).normal(0.5, 2, (1, 200, 3)).astype(np.float16)
    views[:, 100:] *= 0.25
    assert sensors.match_groups(views, np.repeat([0, 1], 100), np.ones(200, np.bool_), is_signed=True) == (1,)
    first, second = (np.sign(part) * np.sqrt(np.abs(part)) for part in np.split(views[0].astype(np.float32), 2))
    np.testing.assert_allclose(first.mean(0), second.mean(0), atol=0.02)
    np.testing.assert_allclose(first.std(0), second.std(0), atol=0.02)
    assert (views[:, 100:] < 0).any()
