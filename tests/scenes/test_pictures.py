"""Pictures of the ground around buildings, from the map's tiles."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from small_parts import add_chips

from pu_geo.scenes import image_quality, pictures, sites
from pu_geo.store import alignment, contents, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout

EVERY = [f"b{i}" for i in range(20)]


def tiles(folder: Path) -> None:
    """Write 800 x 80 pixels at full resolution as four tiles, each of a gray that tells its columns."""
    for x in range(4):
        shade = np.full((256, 256, 3), 60 + 40 * x, np.uint8)
        (folder / "2" / str(x)).mkdir(parents=True)
        cv2.imwrite(str(folder / "2" / str(x) / "0.jpg"), shade)
    (folder / "pyramid.json").write_text(
        json.dumps({"max_zoom": 2, "tile_px": 256, "width": 800, "height": 80}), encoding="utf-8"
    )


@pytest.fixture
def pictured(project: Layout) -> Layout:
    add_chips(project, EVERY, size_px=16)
    for role in ("pre", "post"):
        tiles(project.quicklooks / role)
    return project


def align(layout: Layout, dx_m: float, quality: float) -> None:
    dx, no, none = np.full(20, dx_m), np.zeros(20), np.zeros(20, bool)
    found = Alignment(EVERY, dx, no, np.full(20, quality), ~none, none, np.array([[dx_m, 0.0]]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def test_they_show_the_ground_at_the_buildings_place_pre_above_post(pictured: Layout) -> None:
    first, far = pictures.of_chips(pictured, "any", ["b0", "b19"])
    side = pictures.GROUND_PX
    assert first.shape == (2 * side, side, 3)
    middle = side // 2 + side // 8  # between outline and border
    assert first[middle, middle].tolist() == pytest.approx([60] * 3, abs=2), "columns 20 to 36 are on the first tile"
    assert far[middle, middle].tolist() == pytest.approx([140] * 3, abs=2), "columns 628 to 644 on the third"


def test_pre_is_moved_where_it_was_aligned(pictured: Layout) -> None:
    grid = store.call(pictured, contents.grid)
    assert image_quality.pre_shifts_px(pictured, grid) is None
    align(pictured, -150.0, 0.9)  # pre must move 300 columns to the left: it is cut 300 further right
    assert image_quality.pre_shifts_px(pictured, grid)[3].tolist() == [-300, 0]
    (picture,) = pictures.of_chips(pictured, "any", ["b0"])
    side, middle = pictures.GROUND_PX, pictures.GROUND_PX // 2 + pictures.GROUND_PX // 8
    assert picture[middle, middle, 0] == pytest.approx(100, abs=2)
    assert picture[side + middle, middle, 0] == pytest.approx(60, abs=2), "post stays"
    align(pictured, -150.0, 0.0)
    assert not image_quality.pre_shifts_px(pictured, grid).any(), "what could not be aligned stays"


def test_longitudes_and_latitudes_of_the_grids_nodes(project: Layout) -> None:
    nodes = sites.for_browser(store.call(project, contents.grid))[0]["lonlat"]
    assert nodes["n"] == 5
    corner = nodes["lon"][0], nodes["lat"][0]  # 10 m west of the meridian of UTM 15N
    assert corner == pytest.approx((-93.000111, 36.144717), abs=2e-4)
    assert nodes["lon"][4] > nodes["lon"][0]
    assert nodes["lat"][20] < nodes["lat"][0]
