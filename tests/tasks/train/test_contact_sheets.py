"""The picture of the chips at the top and at the bottom."""

from __future__ import annotations

import cv2
import numpy as np

from pu_geo.tasks.train.monitor import contact_sheet, png_of


def chips(values: list[int], n_bands: int = 6, size: int = 16) -> np.ndarray:
    """Chips of one gray each; the post bands are 50 brighter."""
    made = np.array(values, np.uint8)[:, None, None, None] * np.ones((1, n_bands, size, size), np.uint8)
    made[:, 3:] += 50
    return made.astype(np.uint8)


def test_top_is_above_bottom_and_pre_above_post() -> None:
    picture = contact_sheet(chips([10, 20, 30]), chips([110, 120]))
    assert picture.shape == (1 + 2 * (18 + 32), 3 * 16 + 2 * 2, 3)
    row = 1 + 18  # below the first title
    assert [int(picture[row + 8, 8 + 18 * i, 0]) for i in range(3)] == [10, 20, 30]
    assert [int(picture[row + 24, 8 + 18 * i, 0]) for i in range(3)] == [60, 70, 80]
    row += 32 + 18
    assert [int(picture[row + 8, 8 + 18 * i, 0]) for i in range(3)] == [110, 120, 255]
    assert int(picture[row + 24, 8, 0]) == 160
    assert picture[1:19].min() < 128, "no title"


def test_bands_stay_red_green_blue_on_the_way_to_the_file() -> None:
    colored = chips([0], n_bands=3)
    colored[:, 0], colored[:, 1], colored[:, 2] = 200, 100, 10
    picture = contact_sheet(colored, colored)
    assert picture[1 + 18 + 8, 8].tolist() == [200, 100, 10]
    back = cv2.imdecode(np.frombuffer(png_of(picture), np.uint8), cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(back[..., ::-1], picture)


def test_large_chips_are_made_smaller_and_none_at_all_are_no_fault() -> None:
    assert contact_sheet(chips([9], size=200), chips([9], size=200)).shape == (1 + 2 * (18 + 128), 64, 3)
    assert contact_sheet(chips([]), chips([])).shape == (1, 1, 3)
    assert contact_sheet(chips([5]), chips([])).shape[0] == 1 + 18 + 32
