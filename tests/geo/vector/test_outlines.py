"""Outlines for the map: in pixels of the grid, each building in one tile, the same bytes for the same buildings."""

import json

import numpy as np
import pytest
import shapely

from pu_geo.geo.vector.outlines import HEADER, MapOutlines, joined, outlines_px, pack, tile_order
from pu_geo.records import Grid

GRID = Grid("EPSG:32633", "", (0.5, 0.0, 100.0, 0.0, -0.5, 200.0), 100, 100, 0.5)


def in_px(*shapes: shapely.Geometry) -> MapOutlines:
    return outlines_px([shapely.to_wkb(shape) for shape in shapes], GRID)


def unpacked(first: bytes, tiles: list[bytes]) -> tuple[list[str], list[list[np.ndarray]], np.ndarray, np.ndarray]:
    """Return ids, rings of each building, boxes and areas, read one by one."""
    header = np.frombuffer(first[: HEADER.itemsize], HEADER)[0]
    n, per_tile, at = int(header["n"]), int(header["per_tile"]), HEADER.itemsize
    order = np.frombuffer(first, "<u4", n, at)
    boxes = np.frombuffer(first, "<f4", 4 * n, at + 4 * n).reshape(n, 4)
    areas = np.frombuffer(first, "<f4", n, at + 20 * n)
    ids = json.loads(first[at + 24 * n :])
    assert len(tiles) == header["n_tiles"]
    assert len(first) == at + 24 * n + header["ids_bytes"]
    rings: list[list[np.ndarray]] = [[] for _ in range(n)]
    for number, tile in enumerate(tiles):
        members = order[number * per_tile : (number + 1) * per_tile]
        counts = np.frombuffer(tile, "<u4", len(members))
        points = np.frombuffer(tile, "<u4", counts.sum(), 4 * len(members))
        xy = np.frombuffer(tile, "<f4", offset=4 * (len(members) + len(points))).reshape(-1, 2)
        ring, point = 0, 0
        for building, count in zip(members, counts, strict=True):
            for length in points[ring : ring + count]:
                rings[building].append(xy[point : point + length])
                point += length
            ring += count
        assert (ring, point) == (len(points), len(xy)), "nothing is left over"
    return ids, rings, boxes, areas


def test_outlines_are_in_grid_pixels_with_y_down_and_lose_points_that_nobody_sees() -> None:
    holed = shapely.box(110, 180, 120, 190).difference(shapely.box(112, 182, 114, 184))
    two = shapely.MultiPolygon([shapely.box(101, 198, 102, 199.03), shapely.box(103, 198, 104, 199)])
    circle = shapely.Point(120, 170).buffer(10, quad_segs=200)
    ids, rings, boxes, areas = unpacked(*pack(["a", "b", "c"], in_px(holed, two, circle)))
    assert (ids, [len(each) for each in rings]) == (["a", "b", "c"], [2, 2, 1])
    assert len(rings[0][0]) == 4, "the first point is not repeated"
    assert boxes[:2].tolist() == [[20, 20, 40, 40], pytest.approx([2, 1.9, 8, 4])]
    assert areas[:2] == pytest.approx([20 * 20, 2 * 2.1]), "of the largest ring"
    assert len(rings[2][0]) < 40
    assert areas[2] == pytest.approx(np.pi * 400, rel=0.02)
    assert areas[2] == pytest.approx(shapely.Polygon(rings[2][0]).area, rel=1e-5)


def houses(n: int, seed: int) -> list[shapely.Geometry]:
    """Houses of one or two parts, some with a hole, some on the same spot."""
    rng = np.random.default_rng(seed)
    xy = rng.integers(0, 12, (n, 2)) * 40.0
    found = []
    for k, (x, y) in enumerate(xy):
        house = shapely.box(x, -y, x + rng.integers(4, 30), -y + rng.integers(4, 30))
        if k % 3 == 1:
            house = house.difference(shapely.box(x + 1, -y + 1, x + 3, -y + 3))
        found.append(shapely.MultiPolygon([house, shapely.box(x, -y + 32, x + 5, -y + 36)]) if k % 4 == 2 else house)
    return found


@pytest.mark.parametrize(("n", "per_tile"), [(0, 7), (7, 7), (8, 7), (200, 64)])
def test_each_building_is_in_one_tile_with_its_own_rings(n: int, per_tile: int) -> None:
    shapes, ids = houses(n, per_tile), [f"b{k}é" for k in range(n)]
    first, tiles = pack(ids, in_px(*shapes), per_tile)
    found_ids, rings, boxes, areas = unpacked(first, tiles)
    assert found_ids == ids
    assert len(tiles) == -(-n // per_tile)
    for k, shape in enumerate(shapes):
        alone = in_px(shape)
        assert np.array_equal(np.concatenate(rings[k]), alone.xy)
        assert [len(ring) for ring in rings[k]] == alone.n_points.tolist()
        assert (boxes[k].tolist(), areas[k]) == (alone.boxes[0].tolist(), alone.areas[0])


def test_the_same_buildings_give_the_same_bytes_in_compact_tiles() -> None:
    shapes = houses(60, 3)
    name = lambda first: np.frombuffer(first[: HEADER.itemsize], HEADER)[0]["name"].decode()  # noqa: E731
    ids = [f"b{k}" for k in range(60)]
    whole = pack(ids, in_px(*shapes), 16)
    assert pack(ids, joined([in_px(*shapes[:13]), in_px(*shapes[13:])]), 16) == whole, "however many are taken at a time"
    moved = [*shapes[:-1], shapely.transform(shapes[-1], lambda xy: xy * [1, 1.01])]
    others = [pack(ids, in_px(*moved), 16), pack([*ids[:-1], "c"], in_px(*shapes), 16), pack(ids, in_px(*shapes[::-1]), 16)]
    names = {name(first) for first, _ in [whole, *others]}
    assert len(names) == 4
    assert all(len(one) == 32 and one.isalnum() for one in names)
    x, y = np.divmod(np.random.default_rng(1).permutation(400), 20)
    boxes = np.stack([x, y, x + 0.5, y + 0.5], axis=1).astype(np.float32)
    order = tile_order(boxes, 25)
    assert sorted(order) == list(range(400))
    for tile in order.reshape(16, 25):
        assert (np.ptp(x[tile]), np.ptp(y[tile])) == (4, 4)
