"""Which buildings of two sets are the same: those that stand at the same place, whatever their ids say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

Shapes = NDArray[np.object_]
Ints = NDArray[np.int64]

SAME_IOU = 0.3
"""Outlines that share more of their common area than this are one building. On Joplin a copy shifted by 1 m shares 0.81 in
the
middle, and more than this at all but one of 383 (a shed of 7 m2); different buildings of 24 scenes of xBD share 0.01 at
most, row houses that touch 0."""
CLEARLY = 1.5
"""How many times more than the next best a place must share to be taken without an id that agrees."""
NEAR_M = 5.0
"""How far a point may be from the outline that it means. Huts of fewer square meters than its square that overlap too little
may be one,
where they are about as large, and nearer to one another than that."""
MOST_SHIFT_M, LEAST_SHIFT_M = 60.0, 1.5
SHIFTED_SHARE = 0.5
"""Share of buildings that must agree on a shift, and be twice as many as agree on none."""
_ALIKE = 0.05  # difference of areas, as a share, within which two outlines may be one that was moved
_SAMPLE = 4_000


@dataclass(frozen=True)
class Match:
    """Buildings of two sets by place. Rows are those of the sets that were compared.

    Attributes:
        pairs: int64 [K, 2], rows of `a` and `b` that are one building; each row at most once.
        only_in_a, only_in_b: int64, rows at whose place the other set has nothing.
        ambiguous: int64 [M, 2], rows of `a` and `b` that overlap, of which none is clearly the same: one of a few that
            became one, or one that became several. None of them is in `pairs` nor in the two above.
    """

    pairs: Ints
    only_in_a: Ints
    only_in_b: Ints
    ambiguous: Ints


def match(
    a: Shapes, b: Shapes, *, unit_m: tuple[float, float] = (1.0, 1.0), ids_a: Sequence[str] = (), ids_b: Sequence[str] = (),
    shift_m: tuple[float, float] = (0.0, 0.0),
) -> Match:  # fmt: skip
    """Find the buildings of two sets that stand at the same place, one to one.

    Outlines are one building where they share at least `SAME_IOU` of their common area, and clearly more than any other; a
    point where it is within `NEAR_M` of one and of no other. Equal ids decide between places of which none is clearly
    better, and nothing else.

    Args:
        a, b: valid polygons, multipolygons or points of one CRS, [N] and [M]; None and empty ones are at no place.
        unit_m: metres on the ground of a unit of the CRS, along x and y.
        ids_a, ids_b: of their source, "" where there is none.
        shift_m: how far `b` is moved from `a`, metres along x and y; it is moved back before the two are compared.

    Source: ours.
    """
    one = _in_m(a, unit_m)
    other = shapely.transform(_in_m(b, unit_m), lambda xy: xy - shift_m)
    row, hit, shared = _candidates(one, other)
    has_same_id = np.zeros(len(row), np.bool_)
    if len(ids_a) and len(ids_b):
        names = np.asarray(ids_a, dtype=object)[row]
        has_same_id = (names == np.asarray(ids_b, dtype=object)[hit]) & (names != "")
    found = np.empty((0, 2), np.int64)
    while True:  # what is clear takes places from what is not
        best = np.stack([_best(row, shared, len(one))[:, row], _best(hit, shared, len(other))[:, hit]])
        is_clear = ((shared == best[:, 0]) & (shared > CLEARLY * best[:, 1])).all(axis=0)
        is_clear |= has_same_id & (CLEARLY * shared >= best[:, 0].max(axis=0))
        new = _one_to_one(np.stack([row, hit], axis=1)[is_clear], shared[is_clear])
        found = np.concatenate([found, new])
        is_open = ~np.isin(row, new[:, 0]) & ~np.isin(hit, new[:, 1])
        row, hit, shared, has_same_id = row[is_open], hit[is_open], shared[is_open], has_same_id[is_open]
        if not len(new):
            break
    left = [
        np.setdiff1d(np.arange(len(shapes)), [*found[:, k], *rows])
        for k, (shapes, rows) in enumerate(((one, row), (other, hit)))
    ]
    return Match(found[np.argsort(found[:, 0])], left[0], left[1], np.stack([row, hit], axis=1))


def shift_between(a: Shapes, b: Shapes, *, unit_m: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float] | None:
    """Return how far the buildings of `b` are moved from those of `a` as a whole, metres along x and y; None where they are
    not.

    Buildings vote for the way to each building of about their size within 60 m; at least half of them, and twice as many as
    find their like where they are, must agree on one way, and clearly fewer on any other.

    Args:
        a, b: as in `match`; polygons.

    Source: ours.
    """
    one, other = (shapes[shapely.area(shapes) > 0] for shapes in (_in_m(a, unit_m), _in_m(b, unit_m)))
    if not len(one) or not len(other):
        return None
    one = one[:: max(1, len(one) // _SAMPLE)]
    row, hit = shapely.STRtree(shapely.centroid(other)).query(
        shapely.centroid(one), predicate="dwithin", distance=MOST_SHIFT_M
    )
    centers = [shapely.get_coordinates(shapely.centroid(shapes)) for shapes in (one, other)]
    alike = np.abs(shapely.area(other)[hit] / shapely.area(one)[row] - 1) <= _ALIKE
    way = (centers[1][hit] - centers[0][row])[alike]
    most = int(MOST_SHIFT_M) + 2
    squares = np.zeros((2 * most + 1, 2 * most + 1), np.int64)  # of a meter
    np.add.at(squares, tuple((np.rint(way).astype(np.int64) + most).T), 1)
    votes = np.sum([np.roll(squares, (x, y), (0, 1)) for x in (-1, 0, 1) for y in (-1, 0, 1)], axis=0)
    top = np.array(np.unravel_index(int(np.argmax(votes)), votes.shape))
    there, here = int(votes[tuple(top)]), int(votes[most, most])
    x, y = np.indices(votes.shape)
    rival = int(
        votes[np.maximum(abs(x - top[0]), abs(y - top[1])) > 2].max()
    )  # on a regular grid of houses each step is as good
    if there < SHIFTED_SHARE * len(one) or there < 2 * here or rival > 0.8 * there:
        return None
    found = np.median(way[(np.abs(way - (top - most)) <= 1.5).all(axis=1)], axis=0)
    return (float(found[0]), float(found[1])) if np.hypot(*found) >= LEAST_SHIFT_M else None


def _in_m(shapes: Shapes, unit_m: tuple[float, float]) -> Shapes:
    return np.asarray(shapely.transform(np.asarray(shapes, dtype=object), lambda xy: xy * unit_m), dtype=object)


def _candidates(one: Shapes, other: Shapes) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return rows of both that may be one building, and how well they agree: what outlines share, or how near small ones
    are.
    """
    row, hit, iou, _ = overlaps(one, other)
    is_same = iou > SAME_IOU
    row, hit, iou = row[is_same], hit[is_same], iou[is_same]
    left = [np.setdiff1d(np.flatnonzero(~shapely.is_empty(shapes)), rows) for shapes, rows in ((one, row), (other, hit))]
    i, k = shapely.STRtree(other[left[1]]).query(one[left[0]], predicate="dwithin", distance=NEAR_M)
    i, k = left[0][i], left[1][k]
    areas = np.sort([shapely.area(one[i]), shapely.area(other[k])], axis=0)
    apart_m = shapely.distance(shapely.centroid(one[i]), shapely.centroid(other[k]))
    is_hut = (areas[0] > areas[1] / 2) & (areas[1] < NEAR_M**2) & (apart_m < np.sqrt(areas[0]))
    is_near = (areas[0] == 0) | is_hut
    i, k = i[is_near], k[is_near]
    away_m = shapely.distance(one[i], other[k])
    nearness = np.where(away_m == 0, 2.0, 1 - away_m / NEAR_M)
    return np.concatenate([row, i]), np.concatenate([hit, k]), np.concatenate([iou, nearness])


def _best(rows: Ints, values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the highest and the second highest value of each of n rows, float64 [2, n]; 0 where there is none."""
    order = np.lexsort((-values, rows))
    rows, values = rows[order], values[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    found = np.zeros((2, n))
    for k in (0, 1):
        found[k, rows[place == k]] = values[place == k]
    return found


def _one_to_one(pairs: Ints, values: NDArray[np.float64]) -> Ints:
    """Keep the pairs of highest value in which no row comes twice."""
    pairs = pairs[np.argsort(-values, kind="stable")]
    for k in (0, 1):
        pairs = pairs[np.sort(np.unique(pairs[:, k], return_index=True)[1])]
    return pairs[np.argsort(pairs[:, 0])]


def overlaps(shapes: Shapes, others: Shapes | None) -> tuple[Ints, Ints, NDArray[np.float64], NDArray[np.float64]]:
    """Return pairs of outlines that share enough area to be looked at: rows of both, the shared part of their union, and of
    the smaller one.

    Args:
        others: None for pairs within `shapes`, the smaller row first.
    """
    shapes = _valid(shapes)
    there = shapes if others is None else _valid(others)
    first, second = shapely.STRtree(there).query(shapes, predicate="intersects")
    if others is None:
        first, second = first[first < second], second[first < second]
    first, second = first.astype(np.int64), second.astype(np.int64)
    area, there_area = shapely.area(shapes)[first], shapely.area(there)[second]
    box, there_box = shapely.bounds(shapes)[first], shapely.bounds(there)[second]
    sides = np.minimum(box[:, 2:], there_box[:, 2:]) - np.maximum(box[:, :2], there_box[:, :2])
    near = sides.clip(0).prod(axis=1) > SAME_IOU * np.minimum(area, there_area)  # what their boxes share is cheap to know
    first, second, area, there_area = first[near], second[near], area[near], there_area[near]
    shared = shapely.area(shapely.intersection(shapes[first], there[second]))
    return first, second, shared / (area + there_area - shared), shared / np.minimum(area, there_area)


def _valid(shapes: Shapes) -> Shapes:
    """Return outlines that can be intersected."""
    is_broken, mended = ~shapely.is_valid(shapes), shapes.copy()
    mended[is_broken] = shapely.make_valid(shapes[is_broken])
    return mended
