"""A building is where it stands: sets in any order, under any ids, moved, split, joined, tiny."""

from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from pu_geo.geo.vector.matching import match, shift_between

Shapes = NDArray[np.object_]


def houses(n: int = 60, seed: int = 0) -> Shapes:
    """Houses of 80 to 200 m2, 12 m from one another on average, turned at random."""
    rng = np.random.default_rng(seed)
    at = np.stack(np.divmod(np.arange(n), 8), axis=1) * 24.0 + rng.uniform(-3, 3, (n, 2))
    sides, turns = rng.uniform(8, 14, (n, 2)), rng.uniform(0, 90, n)
    boxes = shapely.box(*(at - sides / 2).T, *(at + sides / 2).T)
    turned = [shapely.affinity.rotate(box, turn) for box, turn in zip(boxes, turns, strict=True)]
    return np.array(turned, dtype=object)


def moved(shapes: Shapes, dx: float, dy: float = 0.0) -> Shapes:
    return np.asarray(shapely.transform(shapes, lambda xy: xy + np.array([dx, dy])), dtype=object)


A = houses()
N = len(A)
ORDER = np.random.default_rng(1).permutation(N)
HALVES = [
    shapely.intersection(A[0], shapely.box(*box))
    for box in ((-99, -99, A[0].centroid.x, 99), (A[0].centroid.x, -99, 99, 99))
]
SPLIT = np.array([*HALVES, *A[1:]], dtype=object)
THIRD = np.arange(N) % 3 == 0


@pytest.mark.parametrize(
    ("b", "pairs", "n_only", "ambiguous"),
    [
        pytest.param(A[ORDER], np.argsort(ORDER), (0, 0), 0, id="in another order"),
        pytest.param(A[1:], np.arange(N) - 1, (1, 0), 0, id="one less"),
        pytest.param(moved(A, 1.5, -1.5), np.arange(N), (0, 0), 0, id="drawn a little off"),
        pytest.param(
            np.where(THIRD, moved(A, 200), A), np.where(THIRD, -1, np.arange(N)), (20, 20), 0, id="a third elsewhere"
        ),
        pytest.param(SPLIT, np.where(np.arange(N) == 0, -1, np.arange(N) + 1), (0, 0), 2, id="one became two"),
        pytest.param(A[:0], np.full(N, -1), (N, 0), 0, id="none left"),
        pytest.param(np.append(A, [None, shapely.Polygon()]), np.arange(N), (0, 2), 0, id="without a place"),
    ],
)
def test_buildings_are_paired_by_place_alone(b: Shapes, pairs: Any, n_only: tuple[int, int], ambiguous: int) -> None:
    ids = [str(i) for i in range(max(N, len(b)) + 2)]  # of other buildings there
    for more in ({}, {"ids_a": ids[:N], "ids_b": ids[: len(b)][::-1]}):
        found = match(A, b, **more)  # type: ignore[arg-type]
        assert found.pairs.tolist() == [[i, k] for i, k in enumerate(pairs.tolist()) if k >= 0]
        assert (len(found.only_in_a), len(found.only_in_b), len(found.ambiguous)) == (*n_only, ambiguous)
        back = match(b, A)
        assert back.pairs[np.argsort(back.pairs[:, 1])][:, ::-1].tolist() == found.pairs.tolist()
        assert back.ambiguous[:, ::-1].tolist() == found.ambiguous.tolist()


def test_equal_ids_decide_between_places_that_are_equally_good_and_nothing_else() -> None:
    ids = [f"w{i}" for i in range(N)]
    found = match(A, SPLIT, ids_a=ids, ids_b=["new", "w0", *ids[1:]])
    assert found.pairs[0].tolist() == [0, 1]
    assert (found.only_in_b.tolist(), len(found.ambiguous)) == ([0], 0)
    swapped = [ids[1], ids[0], *ids[2:]]
    assert match(A, A, ids_a=ids, ids_b=swapped).pairs.tolist() == [[i, i] for i in range(N)]


def test_points_and_huts_belong_to_the_outline_they_lie_in_or_the_only_one_near() -> None:
    huts = shapely.box(7.0 * np.arange(9), 0, 7.0 * np.arange(9) + 5, 5)
    points = np.array([*shapely.points(7.0 * np.arange(8) + 4.9, 2.5), shapely.Point(56, 8)], dtype=object)
    assert match(huts, points).pairs.tolist() == [[i, i] for i in range(9)]
    between = match(huts, np.array([shapely.Point(6, 2.5)], dtype=object))
    assert (len(between.pairs), len(between.ambiguous)) == (0, 2)
    assert match(huts, np.array([shapely.Point(80, 2.5)], dtype=object)).only_in_b.tolist() == [0]


@pytest.mark.parametrize("unit_m", [(1.0, 1.0), (111_320.0, 85_000.0)])
def test_a_shift_of_all_is_found_and_one_of_some_is_not(unit_m: tuple[float, float]) -> None:
    def of_unit(shapes: Shapes) -> Shapes:
        return np.asarray(shapely.transform(shapes, lambda xy: xy / unit_m), dtype=object)

    far = moved(A, 25, -7)[ORDER]
    shift = shift_between(of_unit(A), of_unit(far), unit_m=unit_m)
    assert shift == pytest.approx((25, -7), abs=0.01)
    found = match(of_unit(A), of_unit(far), unit_m=unit_m, shift_m=shift or (0, 0))
    assert found.pairs[:, 1].tolist() == np.argsort(ORDER).tolist()
    for b in (A, moved(A, 1), np.where(THIRD, moved(A, 25), A), houses(seed=5), A[:0]):
        assert shift_between(of_unit(A), of_unit(b), unit_m=unit_m) is None


def test_on_a_regular_grid_of_equal_houses_no_shift_is_better_than_another() -> None:
    x, y = (each.ravel() * 20.0 for each in np.indices((12, 12)))
    camp = shapely.box(x, y, x + 6, y + 8)
    wider = shapely.box(*(each.ravel() for each in (x - 60, y, x - 54, y + 8)))
    assert shift_between(camp, moved(np.concatenate([camp, wider]), 5)) is None


def test_a_hut_is_no_house_beside_it() -> None:
    hut, house = shapely.box(0, 0, 4, 4), shapely.box(6, 0, 24, 18)
    found = match(np.array([hut], dtype=object), np.array([house], dtype=object))
    assert (len(found.pairs), found.only_in_a.tolist(), found.only_in_b.tolist()) == (0, [0], [0])
