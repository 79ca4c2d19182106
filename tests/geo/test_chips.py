"""Windows around footprints, the chips cut from them, and pictures of the ground around."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely
from geo_parts import ORIGIN, pattern
from numpy.typing import NDArray
from rasterio.transform import Affine

from pu_geo.errors import JobCancelled, ShapeError
from pu_geo.geo import chips as chips_module
from pu_geo.geo.chips import Outlines, chip_windows, cut_chips, outline_mask
from pu_geo.geo.ground import NO_DATA_GREY, ground_of, ground_pictures, has_data
from pu_geo.geo.raster import mosaic as mosaic_module
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import project_grid
from pu_geo.records import Grid, Role, Scene

Make = Callable[..., Scene]
ROLES: tuple[Role, Role] = ("pre", "post")
GRID = Grid("EPSG:32633", "", (0.5, 0.0, 0.0, 0.0, -0.5, 100.0), 200, 200, 0.5)


def naive_chip(picture: np.ndarray, window: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    """One chip, cut from the whole picture [3, H, W] pixel by pixel: what the ordered pass must give."""
    _, height, width = picture.shape
    x0, y0 = (round(v) for v in window[:2].tolist())
    x1, y1 = (round(v) for v in (window[:2] + window[2:]).tolist())

    def mirrored(i: int, n: int) -> int:
        while not 0 <= i < n:
            i = -1 - i if i < 0 else 2 * n - 1 - i
        return i

    rows, cols = [mirrored(r, height) for r in range(y0, y1)], [mirrored(c, width) for c in range(x0, x1)]
    crop = np.ascontiguousarray(picture[:, rows][:, :, cols].transpose(1, 2, 0))
    how = cv2.INTER_AREA if max(crop.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    inside = max(0, min(x1, width) - max(x0, 0)) * max(0, min(y1, height) - max(y0, 0))
    return cv2.resize(crop, (size, size), interpolation=how).transpose(2, 0, 1), 1 - inside / ((x1 - x0) * (y1 - y0))


def random_windows(n: int, width: int, height: int, seed: int, largest: float = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = rng.uniform(3, largest, (n, 2))
    start = rng.uniform(0, 1, (n, 2)) * [width, height] - size / 2
    return np.concatenate([start, size], axis=1)


def cut(
    pre: Scene | None, post: Scene | list[Scene], windows: np.ndarray, size: int = 16, **options: object
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Cut chips into an array that is not empty before; return them, and their shares without data."""
    out = np.full((len(windows), 6 if pre else 3, size, size), 7, np.uint8)
    posts = [post] if isinstance(post, Scene) else post
    with Mosaic([pre] if pre else [], grid := project_grid(posts)) as before, Mosaic(posts, grid) as after:
        return out, cut_chips(before if pre else None, after, windows, size, out, **options)  # type: ignore[arg-type]


@pytest.fixture
def pair(make_scene: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Scene]]:
    """Make a pre and a post scene of two pictures, which are read in many strips even where they are small."""

    def make(*pictures: NDArray[np.uint8], **options: object) -> list[Scene]:
        monkeypatch.setattr("pu_geo.geo.raster.mosaic.DEFAULT_ROWS", 16)
        tiles = {"tiled": True, "blockxsize": 16, "blockysize": 16}
        return [make_scene(role, data, role=role, **tiles, **options) for role, data in zip(ROLES, pictures, strict=True)]

    return make


def test_windows_by_hand(make_scene: Make) -> None:
    # 10 m x 4 m at (20 m, 60 m): columns 40 to 60, rows (100 - 64) / 0.5 = 72 to 80. Size 20 px, buffer 10 px.
    # 0.1 m: half of 8 px, which is the least, on each side of (40.1, 79.9).
    shapes = shapely.to_wkb([shapely.box(20, 60, 30, 64), shapely.box(20, 60, 20.1, 60.1)]).tolist()
    np.testing.assert_allclose(chip_windows(shapes, GRID), [[30, 62, 40, 28], [36.1, 75.9, 8, 8]])
    diamond = shapely.Polygon([(20, 55), (25, 60), (20, 65), (15, 60)])
    np.testing.assert_allclose(chip_windows([shapely.to_wkb(diamond)], GRID, 0.0), [[30, 70, 20, 20]])
    assert (none := chip_windows([], GRID)).shape == (0, 4)
    assert len(cut(None, make_scene("a", pattern(40, 48)), none)[1]) == 0


def test_a_moved_pre_chip_is_cut_where_its_content_lies(pair: Callable[..., list[Scene]]) -> None:
    before = pattern(150, 130, 0)
    pre, post = pair(before, pattern(150, 130, 50))
    windows = random_windows(60, 130, 150, 0)
    shift = np.random.default_rng(0).uniform(-25, 25, (60, 2))
    out, share = cut(pre, post, windows, pre_shift_px=shift)
    plain, plain_share = cut(None, post, windows, pre_shift_px=shift)  # which moves no post scene
    np.testing.assert_array_equal(out[:, 3:], plain)
    np.testing.assert_array_equal(share[:, 1], plain_share[:, 0])
    for i, window in enumerate(windows):
        first = np.rint(window[:2]) - np.rint(shift[i])  # content that moves right and down comes from further left and up
        last = np.rint(window[:2] + window[2:]) - np.rint(shift[i])
        middle = (first + last) / 2
        if (middle > 0).all() and (middle < [130, 150]).all():
            expected, expected_share = naive_chip(before, np.concatenate([first, last - first]), 16)
            np.testing.assert_array_equal(out[i, :3], expected)
            assert share[i, 0] == pytest.approx(expected_share, abs=1e-6)
        elif (last <= 0).any() or (first >= [130, 150]).any():
            assert (out[i, :3].max(), share[i, 0]) == (0, 1)


@pytest.mark.parametrize("held", [1, 16 * 40 * 8 * 6, 10**9], ids=["too little", "some", "plenty"])
def test_chips_equal_a_naive_crop_of_each_in_panels_of_columns_or_not(
    pair: Callable[..., list[Scene]], monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(mosaic_module, "HELD_BYTES", held)
    pictures = pattern(100, 330, 3), pattern(100, 330, 4)
    windows = random_windows(80, 330, 100, 5, largest=24)
    out, share = cut(*pair(*pictures), windows)
    for i, window in enumerate(windows):
        for date, data in enumerate(pictures):
            expected, expected_share = naive_chip(data, window, 16)
            np.testing.assert_array_equal(out[i, 3 * date : 3 * date + 3], expected)
            assert share[i, date] == pytest.approx(expected_share, abs=1e-6)


def test_a_window_too_tall_to_be_held_is_cut_exactly_and_a_huge_one_averaged_in_pieces(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chips_module, "MAX_HELD_PX", 20)
    data = pattern(160, 160)
    scene, windows = make_scene("post", data), np.array([[3.0, 5, 18, 90], [-8, 100, 60, 90], [10, 10, 20, 20]])
    out, share = cut(None, scene, windows, 8)
    for i, window in enumerate(windows):
        expected, expected_share = naive_chip(data, window, 8)
        np.testing.assert_array_equal(out[i], expected)
        assert share[i, 0] == pytest.approx(expected_share, abs=1e-6)
    monkeypatch.setattr(chips_module, "PIECE_PIXELS", 1000)
    windows = np.array([[0.0, 0, 160, 160], [-40, 10, 120, 100], [500, 500, 90, 90]])
    out, share = cut(None, scene, windows, 8)
    for i in (0, 1):
        assert np.abs(out[i].astype(int) - naive_chip(data, windows[i], 8)[0]).max() <= 6
    assert share[:, 0] == pytest.approx([0, 1 / 3, 1])
    assert out[2].max() == 0


def test_share_without_data_is_given_for_each_date_and_row(pair: Callable[..., list[Scene]]) -> None:
    before, after = pattern(64, 64), pattern(64, 64)
    before[:, :8] = after[:, :, 32:] = 0
    windows = np.array([[20.0, 20, 16, 16], [40, 40, 16, 16], [2, 2, 16, 16], [-90, 0, 10, 10]])
    out, share = cut(*pair(before, after, nodata=0), windows)
    assert share.tolist() == [[0, 0.25], [0, 1], [0.375, 0], [1, 1]]
    assert out[1, :3].min() > 0
    assert out[1, 3:].max() == out[3].max() == 0
    data = pattern(320, 64)
    data[:, 8:24] = 0  # holes above are forgotten below
    windows = np.array([[4.0, row, 16, 16] for row in range(0, 304, 8)])
    _, share = cut(None, pair(data, data, nodata=0)[1], windows, 8)
    assert share[:, 0].tolist() == [0.5, 1, 0.5] + [0] * (len(windows) - 3)


def test_progress_counts_to_the_end_cancelling_stops_and_a_wrong_shape_is_refused(make_scene: Make) -> None:
    reports: list[dict[str, object]] = []
    post, windows = make_scene("post", pattern(64, 64)), random_windows(20, 64, 64, 0)
    cut(None, post, windows, report=reports.append)
    assert reports[-1] == {"stage": "chips", "done": 20, "total": 20}
    with pytest.raises(JobCancelled):
        cut(None, post, windows, is_cancelled=lambda: True)
    scene = make_scene("post", pattern(64, 64))
    with Mosaic([scene], project_grid([scene])) as post, pytest.raises(ShapeError, match="out must be"):
        cut_chips(None, post, np.zeros((2, 4)), 8, np.zeros((2, 6, 8, 8), np.uint8))


def outlines_of(boxes: list[tuple[float, float, float, float]], n_mosaics: int = 1) -> Outlines:
    """Outlines with bounds (left, top, right, bottom) in grid pixels."""
    shapes = np.array([shapely.box(*box) for box in boxes], dtype=object)
    n = len(boxes), n_mosaics
    return Outlines(shapes, np.ones(n, dtype=np.float32), np.full(n, -1, dtype=np.int64))


@pytest.mark.parametrize("most_px", [chips_module.MAX_HELD_PX, 30], ids=["held", "in pieces"])
def test_of_an_outline_just_what_lies_on_missing_pixels_is_missing(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch, most_px: int
) -> None:
    monkeypatch.setattr(chips_module, "MAX_HELD_PX", most_px)
    monkeypatch.setattr(chips_module, "PIECE_PIXELS", 500)
    data = pattern(120, 120)
    data[:, 40:80, 60:80] = 0
    boxes = [(50, 50, 70, 60), (10, 10, 30, 30), (62, 50, 72, 60), (-10, 20, 10, 30), (90, 90, 100, 100)]
    outlines = outlines_of(boxes)
    windows = np.array([[x0 - 10, y0 - 10, x1 - x0 + 20, y1 - y0 + 20] for x0, y0, x1, y1 in boxes], dtype=float)
    cut(None, make_scene("a", data, nodata=0), windows, outlines=outlines)
    # by hand: half; none; all; half lies beyond the grid; none. Pixels that an outline only touches count as well.
    np.testing.assert_allclose(outlines.missing[:, 0], [0.5, 0, 1, 0.5, 0], atol=0.06)
    np.testing.assert_array_equal(outlines.scene[:, 0], [0, 0, -1, 0, 0])


def test_of_an_outline_the_scene_that_shows_most_of_it_is_known(make_scene: Make) -> None:
    east = Affine(0.5, 0, ORIGIN[0] + 30, 0, -0.5, ORIGIN[1])  # from column 60 on
    scenes = [make_scene("west", pattern(120, 80)), make_scene("east", pattern(120, 60, 1), east)]
    outlines = outlines_of([(10, 10, 30, 30), (70, 50, 86, 60), (74, 50, 94, 60), (100, 90, 110, 100)])
    windows = np.array([[0, 0, 40, 40], [60, 40, 36, 30], [64, 40, 40, 30], [90, 80, 30, 30]], dtype=float)
    cut(None, scenes, windows, outlines=outlines)
    # the first scene covers columns up to 80 and lies above: 10 of 16 columns of the second outline, 6 of 20 of the third
    np.testing.assert_array_equal(outlines.scene[:, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(outlines.missing, 0)


def test_of_an_outline_pre_is_judged_where_its_chip_is_cut(make_scene: Make) -> None:
    before = pattern(120, 120)
    before[:, :, 60:] = 0
    pre, post = make_scene("pre", before, nodata=0, role="pre"), make_scene("post", pattern(120, 120, 1))
    outlines = outlines_of([(50, 50, 60, 60)] * 2, 2)
    windows = np.array([[40, 40, 30, 30]] * 2, dtype=float)
    cut(pre, post, windows, pre_shift_px=np.array([[0.0, 0.0], [-5.0, 0.0]]), outlines=outlines)
    # moved to the left by 5, what lies there in pre comes from columns 55 to 65: half of it holds no data
    np.testing.assert_allclose(outlines.missing, [[0, 0], [0.5, 0]], atol=0.1)


def test_an_outline_is_drawn_without_its_holes_and_never_empty() -> None:
    ring = shapely.box(4, 4, 28, 28).difference(shapely.box(10, 10, 22, 22))
    mask = outline_mask(ring, np.zeros(2), 1.0, (32, 32))
    assert mask[5, 5]
    assert not mask[13:19, 13:19].any()
    assert mask.sum() == pytest.approx(ring.area, rel=0.2)
    assert outline_mask(shapely.box(3.2, 3.2, 3.4, 3.4), np.zeros(2), 1.0, (32, 32)).sum() == 1
    np.testing.assert_array_equal(  # in pixels of half the size, from (2, 2) on
        outline_mask(shapely.box(4, 4, 8, 8), np.array([2, 2]), 0.5, (16, 16))[4:12, 4:12], True
    )


# Pictures of the ground around a building

SHED, HALL = shapely.box(100, 100, 104, 102), shapely.box(200, 200, 500, 300)


@pytest.fixture
def pyramid(tmp_path: Path) -> Path:
    """Make one full-resolution tile of 256 pixels: red in the north, green in the south, without data from column 128 on."""
    tile = np.zeros((256, 256, 3), np.uint8)
    tile[:101, :, 0], tile[101:, :, 1] = 220, 220
    tile[:, 128:] = NO_DATA_GREY
    (tmp_path / "0" / "0").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "0" / "0" / "0.jpg"), tile[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    (tmp_path / "pyramid.json").write_text(json.dumps({"max_zoom": 0}), encoding="utf-8")
    return tmp_path


def test_how_much_ground_is_shown_and_what_is_no_ground() -> None:
    assert ground_of(SHED, 0.5) == (70, 69, 64)  # 4 px and 2 * 15 m of 0.5 m; the middle is at (102, 101)
    assert ground_of(HALL, 0.5) == (50, -50, 600)
    tile = np.full((256, 256, 3), 90, np.uint8)
    tile[96:192, 96:192] = NO_DATA_GREY  # a flat roof
    tile[:16, :48] = NO_DATA_GREY  # a shadow at the border
    assert has_data(tile).all()
    tile[128:192, 240:] = NO_DATA_GREY
    assert (has_data(tile) == 0).sum() == 64 * 16


def test_north_is_up_the_outline_is_drawn_and_what_has_no_data_is_hatched(pyramid: Path) -> None:
    picture = ground_pictures([pyramid], SHED, 0.5, 128)
    assert picture.shape == (128, 128, 3)
    assert (picture[10, 10].argmax(), picture[100, 10].argmax()) == (0, 1)
    assert picture[64, 60:69].min(axis=1).max() > 200, "white is the outline"
    beyond = picture[5:60, 120:]  # from column 128 of the grid on, which is 116 here
    assert beyond.max() < 140
    assert len(np.unique(beyond.reshape(-1, 3), axis=0)) == 2, "two grays: hatched, not mirrored"
    corner = shapely.box(0, 0, 4, 2)
    assert ground_pictures([pyramid], corner, 0.5, 128)[:60].max() < 140
    moved = ground_pictures([pyramid, pyramid], SHED, 0.5, 128, [(0.0, 40.0), (0.0, 0.0)])
    assert moved.shape == (256, 128, 3)
    assert moved[100, 10].argmax() == 0, "red came down by 40 pixels"
    assert moved[228, 10].argmax() == 1
