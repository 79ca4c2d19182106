"""Pictures of the ground around a building: how much is shown, what is hatched, and that they are right side up."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely

from pu_geo.geo.ground import NO_DATA_GREY, _has_data, ground_of, ground_pictures

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
    assert _has_data(tile).all()
    tile[128:192, 240:] = NO_DATA_GREY
    assert (_has_data(tile) == 0).sum() == 64 * 16


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
