"""FlatGeobuf's bytes: the fast way against the general one, the index against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.geo.export import flatgeobuf


@pytest.mark.parametrize("n_points", [4, 5, 6, 7, 30])
@pytest.mark.parametrize("n_bytes", [0, 1, 2, 3, 4, 5, 6, 7, 8, 100])
def test_one_ring_is_written_as_any_shape_is(n_points: int, n_bytes: int) -> None:
    ring = np.random.default_rng(n_points).random((n_points, 2))
    properties = bytes(range(n_bytes))
    written = flatgeobuf.feature([[ring]], properties)
    assert written == flatgeobuf.any_feature([[ring]], properties)
    assert len(written) % 8 == 0
    assert int.from_bytes(written[:4], "little") == len(written) - 4
    assert written.index(ring.tobytes()) % 8 == 0  # where JavaScript lays a Float64Array over it


@pytest.mark.parametrize("polygons", [[], [[3, 4]], [[5], [4, 4, 4]]])
def test_coordinates_lie_on_multiples_of_eight(polygons: list[list[int]]) -> None:
    rng = np.random.default_rng(0)
    rings = [[rng.random((n, 2)) for n in polygon] for polygon in polygons]
    for n_bytes in range(9):
        written = flatgeobuf.feature(rings, bytes(n_bytes))
        assert len(written) % 8 == 0
        assert all(written.index(np.concatenate(polygon).tobytes()) % 8 == 0 for polygon in rings)


@pytest.mark.parametrize("n", [1, 2, 16, 17, 255, 256, 257, 5000])
def test_each_node_holds_its_children(n: int) -> None:
    rng = np.random.default_rng(n)
    low = rng.random((n, 2))
    bounds = np.hstack([low, low + rng.random((n, 2)) * 0.01])
    offsets = np.arange(n) * 100
    nodes = np.frombuffer(flatgeobuf.packed_index(bounds, offsets), dtype=[("box", "<f8", 4), ("offset", "<u8")])
    sizes = [n]
    while len(sizes) == 1 or sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 16))
    assert len(nodes) == sum(sizes)  # the specification's count
    np.testing.assert_array_equal(nodes["box"][-n:], bounds)
    np.testing.assert_array_equal(nodes["offset"][-n:], offsets)
    ends = np.cumsum(sizes[::-1])
    for level, end in enumerate(ends[:-1]):
        for node in range(end - sizes[::-1][level], end):
            children = nodes["box"][nodes["offset"][node] :][:16]
            children = children[: ends[level + 1] - int(nodes["offset"][node])]
            np.testing.assert_array_equal(nodes["box"][node][:2], children[:, :2].min(axis=0))
            np.testing.assert_array_equal(nodes["box"][node][2:], children[:, 2:].max(axis=0))


def test_the_curve_visits_every_cell_and_steps_to_a_neighbor_each_time() -> None:
    side = 32
    x, y = (axis.ravel() / (side - 1) for axis in np.meshgrid(np.arange(side), np.arange(side)))
    order = flatgeobuf.hilbert_order(np.stack([x, y, x, y], axis=-1))
    assert sorted(order) == list(range(side * side))
    steps = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
    np.testing.assert_allclose(steps, 1 / (side - 1))
