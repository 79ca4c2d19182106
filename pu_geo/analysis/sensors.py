"""Which scenes were taken by sensors, or prepared in ways, so different that scores do not carry over between them.

A score learned in one scene means little in another that is hazy, stretched otherwise or blurred: the ranking follows the
scene. Metadata decides first (sample type, pixel size), then what the chips themselves show. Content does not: a scene of
water and one of buildings from the same sensor stay together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis.two_readings import roots_of

LEAST_CHIPS = 20  # fewer chips do not describe a sensor: their scene is judged by its metadata alone
MOST_CHIPS = 300
_LARGEST = 65504  # of float16
OTHER_PIXEL = 1.5  # ratio of pixel sizes from which on two scenes are of different sensors


@dataclass(frozen=True)
class Bounds:
    """How far the chips of two scenes may differ and still count as alike.

    Attributes:
        black: difference of the darkest percentile, 0..255.
        span: ratio of the spans between the 10th and the 90th percentile.
        sharpness: ratio of second to first differences.
    """

    black: float
    span: float
    sharpness: float


SENSOR = Bounds(black=40.0, span=2.5, sharpness=1.8)
"""Beyond these, scenes are of different sensors. Pairs of one sensor (xBD: Joplin, Santa Rosa, Matthew, Harvey, Florence)
differ
by up to 30, 2.2 and 1.35; dense haze or another stretch of 16 bits by 60 and more, images of 2 m that were enlarged by
2.6."""
APPEARANCE = Bounds(black=20.0, span=1.6, sharpness=1.3)
"""Beyond these, content may explain the difference, and so may thin haze: what a run flags there decides."""


@dataclass(frozen=True)
class Appearance:
    """What the chips of one scene are like, one value per band: darkest percentile, span and sharpness, float64 [3]."""

    black: NDArray[np.float64]
    span: NDArray[np.float64]
    sharpness: NDArray[np.float64]


def sensor_groups(
    chips: NDArray[np.uint8], scenes_of: Mapping[str, Sequence[str | None]], scenes: Mapping[str, Mapping[str, Any]],
    is_visible: NDArray[np.bool_], bounds: Bounds = SENSOR,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the sensor group of each building, int64 [N]; 0 is the largest, and the only one where all scenes are alike.

    A scene belongs to the first group whose largest scene it is like. Scenes with few visible chips are judged by their
    metadata and join one group at most.

    Args:
        chips: uint8 [N, 3 R, H, W], may be a memory map; bands of the roles of `scenes_of`, in that order.
        scenes_of: role -> the scene that shows each building at that date, [N], None where none does.
        scenes: scene id -> its facts, of which "dtype", "gsd_m" and "stretch" count: files with one stretch are of one
            sensor and date.
        is_visible: bool [N]; the chips that show something.
        bounds: `SENSOR`, or `APPEARANCE` for groups of like appearance.
    """
    parts = np.zeros((len(chips), len(scenes_of)), np.int64)
    for place, shown in enumerate(scenes_of.values()):
        bands, names = slice(3 * place, 3 * place + 3), np.array([one or "" for one in shown], np.str_)
        parts[:, place] = _groups_of_role(chips, bands, names, scenes, is_visible, bounds)
    _, group = np.unique(parts, axis=0, return_inverse=True)
    sizes = np.bincount(group.ravel(), weights=is_visible.astype(np.float64))
    place_of = np.empty(len(sizes), np.int64)
    place_of[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return place_of[group.ravel()]


def _groups_of_role(
    chips: NDArray[np.uint8], bands: slice, shown: NDArray[np.str_], scenes: Mapping[str, Mapping[str, Any]],
    is_visible: NDArray[np.bool_], bounds: Bounds,
) -> NDArray[np.int64]:  # fmt: skip
    names, counts = np.unique(shown[is_visible & (shown != "")], return_counts=True)
    by_size = names[np.argsort(-counts, kind="stable")].tolist()
    rest = [name for name in np.unique(shown[shown != ""]).tolist() if name not in by_size]
    appearance_of = {name: _appearance(chips, bands, np.flatnonzero((shown == name) & is_visible)) for name in by_size}
    leaders: list[str] = []  # the largest scene of each group: alike means like it, so that chains of scenes do not join
    group: dict[str, int] = {}
    for name in sorted(
        [*by_size, *rest], key=lambda one: appearance_of.get(one) is None
    ):  # small scenes last: they join no two groups
        like = next(
            (
                k
                for k, one in enumerate(leaders)
                if _are_alike(
                    scenes.get(one, {}), scenes.get(name, {}), appearance_of.get(one), appearance_of.get(name), bounds
                )
            ),
            None,
        )
        if like is None:
            like = len(leaders)
            leaders.append(name)
        group[name] = like
    return np.array([group.get(name, 0) for name in shown.tolist()], np.int64)  # what no scene shows joins the largest


def _appearance(chips: NDArray[np.uint8], bands: slice, rows: NDArray[np.int64]) -> Appearance | None:
    if len(rows) < LEAST_CHIPS:
        return None
    some = rows[:: max(1, len(rows) // MOST_CHIPS)][:MOST_CHIPS]
    pixels = np.asarray(chips[some][:, bands], np.float32)
    low, dark, bright = np.percentile(pixels, [1, 10, 90], axis=(0, 2, 3))
    first = np.abs(np.diff(pixels, axis=3)).mean(axis=(0, 2, 3))
    second = np.abs(np.diff(pixels, n=2, axis=3)).mean(axis=(0, 2, 3))
    return Appearance(
        low.astype(np.float64), (bright - dark).astype(np.float64), (second / (first + 0.1)).astype(np.float64)
    )


def _are_alike(
    one: Mapping[str, Any], other: Mapping[str, Any], own: Appearance | None, its: Appearance | None, bounds: Bounds
) -> bool:
    if one.get("dtype") != other.get("dtype"):
        return False
    sizes = [float(facts["gsd_m"]) for facts in (one, other) if facts.get("gsd_m")]
    if len(sizes) == 2 and _ratio(np.array(sizes[:1]), np.array(sizes[1:])) >= OTHER_PIXEL:
        return False
    is_one_take = bounds is SENSOR and one.get("stretch") is not None and one["stretch"] == other.get("stretch")
    if own is None or its is None or is_one_take:
        return True
    return (
        float(np.abs(own.black - its.black).max()) < bounds.black
        and _ratio(own.span, its.span) < bounds.span
        and _ratio(own.sharpness, its.sharpness) < bounds.sharpness
    )


def _ratio(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest ratio of two sets of positive values, at least 1."""
    return float(np.exp(np.abs(np.log(np.maximum(one, 1e-6) / np.maximum(other, 1e-6))).max()))


def match_groups(
    views: NDArray[np.float16], group: NDArray[np.int64], is_visible: NDArray[np.bool_], *, is_signed: bool = False
) -> tuple[int, ...]:
    """Scale the features of every sensor group to the mean and spread of group 0, in place.

    Square roots of the features are shifted and scaled column by column. Only groups that differ by their sensor are
    matched, never scenes of one sensor: that would erase that one of them is damaged more than another.

    Source: ours; first two moments per domain, as in Sun, Feng and Saenko, Return of Frustratingly Easy Domain Adaptation
    (AAAI 2016), without the correlations. Joplin, clicks in one scene, destroyed houses found in the other of 69 with and
    without: hazy 66 / 0, 16 bits 66 / 1, pre of 2 m 67 / 5.

    Args:
        views: float16 [V, N, D], at least 0 unless `is_signed`, may be a memory map; written to.
        group: int64 [N], from `sensor_groups`.
        is_visible: bool [N]; the others have no part in the statistics.
        is_signed: the features may be below 0, such as those of a network; then the root of -4 counts as -2.

    Returns:
        The groups that were matched; groups of fewer than 20 visible chips are left as they are.
    """
    reference = _moments(views, np.flatnonzero((group == 0) & is_visible))
    matched = []
    for one in np.unique(group[group > 0]).tolist():
        own = _moments(views, np.flatnonzero((group == one) & is_visible))
        if own is None or reference is None:
            continue
        factor = reference[1] / own[1]
        rows = np.flatnonzero(group == one)
        for view in views:
            roots = (roots_of(np.asarray(view[rows], np.float32)) - own[0]) * factor + reference[0]
            powers = roots * np.abs(roots) if is_signed else np.square(np.maximum(roots, 0))
            view[rows] = np.clip(powers, -_LARGEST, _LARGEST).astype(np.float16)
        matched.append(int(one))
    return tuple(matched)


def _moments(views: NDArray[np.float16], rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return mean and standard deviation of the square roots of some rows' features, float32 [D] each; None of too few."""
    if len(rows) < LEAST_CHIPS:
        return None
    some = rows[:: max(1, len(rows) // 2000)][:2000]
    roots = np.concatenate([roots_of(np.asarray(view[some], np.float32)) for view in views])
    return roots.mean(axis=0), roots.std(axis=0) + np.float32(1e-4)
