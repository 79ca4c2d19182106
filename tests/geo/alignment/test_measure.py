"""Shifts between pre and post: known ones are found again, whatever else changed between the dates."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from geo_parts import NORTH_UP, ORIGIN
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.errors import JobCancelled
from pu_geo.geo import alignment
from pu_geo.geo.alignment import Shifts, estimate_shifts
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.records import Grid, Scene
from pu_geo.scenes import scene_pair

Make = Callable[..., Scene]
Measured = Callable[..., Shifts]
Picture = NDArray[np.float32]
SIDE, MARGIN = 640, 40


def town(seed: int, side: int = SIDE + 2 * MARGIN) -> Picture:
    """A made-up town seen from above, gray values: fields, roads, houses, and a little texture."""
    rng = np.random.default_rng(seed)
    noise = cv2.GaussianBlur(rng.normal(size=(side, side)).astype(np.float32), (0, 0), 9)
    picture = np.where(noise > 0, 120.0, 90.0).astype(np.float32)
    for at in range(20, side, 90):
        picture[at + rng.integers(0, 20) :][:8] = 170
        picture[:, at + rng.integers(0, 20) :][:, :8] = 170
    for row, col in rng.integers(0, side - 30, (250, 2)).tolist():
        picture[row : row + rng.integers(12, 28), col : col + rng.integers(12, 28)] = rng.integers(40, 220)
    texture = cv2.GaussianBlur(rng.normal(size=(side, side)).astype(np.float32), (0, 0), 1.2)
    return cv2.GaussianBlur(picture + 12 * texture, (0, 0), 0.8)


def buildings(seed: int, n: int = 120) -> NDArray[np.float64]:
    """Boxes of 20 x 20 pixels, float64 [N, 4]."""
    return np.concatenate([np.random.default_rng(seed).uniform(10, SIDE - 30, (n, 2)), np.full((n, 2), 20.0)], axis=1)


def moved(canvas: Picture, dx: Picture | float, dy: Picture | float) -> Picture:
    """The middle of a canvas with its content moved by (dx, dy) pixels, each a number or [SIDE, SIDE]."""
    rows, cols = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) + MARGIN
    return cv2.remap(canvas, cols - np.float32(dx), rows - np.float32(dy), cv2.INTER_CUBIC)


def damage(picture: Picture, boxes: NDArray[np.float64], share: float, seed: int) -> None:
    """Replace a share of the boxes and what lies 6 pixels around them by rubble."""
    rng = np.random.default_rng(seed)
    for col, row, width, height in boxes[rng.random(len(boxes)) < share].astype(int).tolist():
        part = picture[max(row - 6, 0) : row + height + 6, max(col - 6, 0) : col + width + 6]
        part[:] = cv2.GaussianBlur(rng.normal(120, 90, part.shape).astype(np.float32), (0, 0), 1.5)


def rgb(picture: Picture, seed: int = 0, noise: float = 2.0) -> NDArray[np.uint8]:
    """Three bands as a camera delivers them, uint8 [3, H, W], never 0."""
    rng = np.random.default_rng(seed)
    bands = [gain * picture + rng.normal(0, noise, picture.shape) for gain in (1.0, 0.9, 0.8)]
    return np.clip(np.stack(bands), 1, 255).astype(np.uint8)


def align(pre: Scene, post: Scene, boxes: NDArray[np.float64], grid: Grid | None = None) -> Shifts:
    grid = grid or project_grid([post])
    with Mosaic([pre], grid) as before, Mosaic([post], grid) as after:
        return estimate_shifts(before, after, boxes)


@pytest.fixture
def measured(make_scene: Make) -> Measured:
    """Measure from one picture to another, each float [SIDE, SIDE] or uint8 [3, H, W]."""

    def measure_from(before: NDArray[np.generic], after: NDArray[np.generic], boxes: NDArray[np.float64]) -> Shifts:
        pre, post = (picture if picture.ndim == 3 else rgb(picture, seed) for picture, seed in ((before, 0), (after, 7)))
        return align(make_scene("pre", pre, role="pre"), make_scene("post", post), boxes)

    return measure_from


def errors(found: Shifts, dx: object, dy: object) -> NDArray[np.float64]:
    return np.hypot(found.dx_px - dx, found.dy_px - dy)


@pytest.mark.parametrize(("dx", "dy"), [(0.3, -0.3), (14, -20)])
def test_a_shift_of_the_whole_scene_is_found_though_a_third_was_destroyed(measured: Measured, dx: float, dy: float) -> None:
    canvas, boxes = town(1), buildings(2)
    after = moved(canvas, dx, dy)
    damage(after, boxes, 0.3, 3)
    found = measured(moved(canvas, 0, 0), 0.6 * after + 60, boxes)  # hazy and darker
    sure, error = found.quality > 0.5, errors(found, dx, dy)
    assert sure.mean() >= 0.95
    assert np.median(error[sure]) < 0.5
    assert np.quantile(error[sure], 0.95) < 1.5
    np.testing.assert_allclose(found.scene_px, (dx, dy), atol=0.3)


def test_the_sign_is_that_by_which_pre_must_move_and_north_counts_up(make_scene: Make) -> None:
    # The pre content lies 3 m too far west and 2 m too far south: it must move 6 columns right and 4 rows up.
    shifted = Affine(0.5, 0, ORIGIN[0] - 3, 0, -0.5, ORIGIN[1] - 2)
    picture, boxes = rgb(moved(town(9), 0, 0)), buildings(10, 30)
    post = make_scene("post", picture)
    found = align(make_scene("pre", picture, shifted, role="pre"), post, boxes)
    np.testing.assert_allclose(np.median([found.dx_px, found.dy_px], axis=1), [6, -4], atol=0.2)
    np.testing.assert_allclose(project_grid([post]).m_per_px[0] * found.scene_px, [3, 2], atol=0.1)
    assert np.median(found.quality) > 0.9
    assert not found.is_mended.any()
    assert len(align(post, post, boxes[:0]).dx_px) == 0


def test_scenes_without_texture_or_of_different_places_are_given_up(measured: Measured) -> None:
    flat = np.full((SIDE, SIDE), 120, np.float32)
    found = measured(rgb(flat, 1, 3.0), rgb(flat, 2, 3.0), buildings(13))
    assert found.quality.max() == 0
    assert found.scene_px == (0.0, 0.0)
    found = measured(moved(town(20), 0, 0), moved(town(30), 0, 0), buildings(14))
    assert (found.quality > 0.5).mean() < 0.03


def test_without_data_there_is_no_quality_and_its_border_is_no_edge(make_scene: Make) -> None:
    canvas, boxes = town(15), buildings(16, 200)
    before = rgb(moved(canvas, 0, 0))
    before[:, :, :300] = 0
    before[:, 500:] = 0
    pre = make_scene("pre", before, role="pre", nodata=0)
    found = align(pre, make_scene("post", rgb(moved(canvas, 20, -14))), boxes)
    col, row = boxes[:, :2].T + 10 - [[20], [-14]]  # where the middles lie in pre
    is_clear = (np.abs(col - 300) > 3) & (np.abs(row - 500) > 3)
    np.testing.assert_array_equal(found.has_data[is_clear], ((col > 300) & (row < 500) & (row > 0))[is_clear])
    assert 30 < found.has_data.sum() < 100
    assert found.quality[~found.has_data].max() == 0
    assert found.quality[(col > 340) & (row < 440) & (row > 40)].min() > 0.5
    known = found.quality > 0.5
    assert errors(found, 20, -14)[known].max() < 1.0


@pytest.mark.parametrize("dx", [14, 60])
def test_a_part_that_moved_further_than_the_rest_is_followed_or_given_up(measured: Measured, dx: float) -> None:
    # Pixels of 0.5 m: the left half moved by 7, 10, 15 and 30 m; buildings are searched for up to 20 m around the scene's 0.
    canvas, boxes = town(31), buildings(32, 200)
    cols = np.broadcast_to(np.arange(SIDE, dtype=np.float32), (SIDE, SIDE))
    after = moved(canvas, np.where(cols < 320, np.float32(dx), np.float32(0)), 0.0)
    found = measured(moved(canvas, 0, 0), after, boxes)
    middle = boxes[:, 0] + 10
    left, right = (middle > 80) & (middle < 250), middle > 390
    if left.sum() and np.abs(found.scene_px[0]) > abs(dx) / 2:  # the scene went with the left half
        left, right, dx_left, dx_right = right, left, 0.0, dx
    else:
        dx_left, dx_right = dx, 0.0
    sure = found.quality >= 0.5
    assert (errors(found, dx_left, 0)[left] >= 2)[sure[left]].mean() < 0.05 or sure[left].mean() < 0.05
    assert (errors(found, dx_right, 0)[right & sure] < 2).all()
    assert (sure[left].mean() > 0.6) == (abs(dx) <= 30)


def test_strips_change_next_to_no_shift_progress_counts_to_the_end_and_cancelling_stops(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture, boxes, told = rgb(moved(town(26), 0, 0)), buildings(27, 20), []
    pre, post = make_scene("pre", picture, role="pre"), make_scene("post", picture)
    whole = align(pre, post, boxes)
    monkeypatch.setattr(alignment.EdgeView, "preferred_block_rows", 64)  # several strips
    with Mosaic([pre], grid := project_grid([post])) as before, Mosaic([post], grid) as after:
        found = estimate_shifts(before, after, boxes, report=told.append)
        with pytest.raises(JobCancelled):
            estimate_shifts(before, after, boxes, is_cancelled=lambda: len(told) > 0)
    np.testing.assert_array_equal(found.has_data, whole.has_data)
    for name in ("dx_px", "dy_px", "quality"):  # a strip's first and last row do not know the rows beside them
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=0.1)
    done = [step["done"] for step in told]
    assert told == [{"stage": "alignment", "done": n, "total": 20} for n in sorted(done)]
    assert done[0] < done[-1] == 20


def test_a_very_small_scene_and_a_building_beyond_it_do_no_harm(measured: Measured) -> None:
    picture = rgb(moved(town(29), 0, 0)[:33, :47])
    boxes = np.array([[10.0, 10, 15, 15], [-90, -90, 20, 20], [46, 32, 400, 600]])
    found = measured(picture, picture, boxes)
    assert found.quality[1] == 0
    assert np.isfinite([found.dx_px, found.dy_px]).all()


def test_units_windows_and_borders_of_the_search() -> None:
    a, b, c, d, e, f = NORTH_UP[:6]
    np.testing.assert_allclose(Grid("EPSG:32633", "", (a, b, c, d, e, f), 9, 9, 0.5).m_per_px[0], [0.5, -0.5])
    degrees = Grid("EPSG:4326", "", (1e-5, 0, 10, 0, -1e-5, 60), 9, 9, 0.79, 55_800.0, 111_400.0)
    np.testing.assert_allclose(degrees.m_per_px[0], [0.558, -1.114])
    assert scene_pair.FARTHEST_M == alignment.FAR_REACH_M  # what the imagery page says of the search
    sizes = alignment._window_sizes(np.array([0.0, 20, 60, 5000]), 6)
    assert sizes[0] == sizes[1] == 96
    assert 3 * 60 + 12 <= sizes[2] < 210
    assert 384 <= sizes[3] < 400
    # The best fit lies at the largest shift to the left: where it truly lies nobody knows.
    surface = np.zeros((2, 13, 13), np.float32)
    surface[0, 6, 0], surface[1, 6, 1] = 9, 9
    shifts, heights = alignment.peaks(surface)
    assert alignment.trust(heights).tolist() == [1, 1]
    assert alignment.at_border(shifts, 6)[:, 0].tolist() == [True, False]
