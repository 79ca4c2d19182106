"""Map tiles and footprint outlines for the browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from geo_parts import ORIGIN, joined, pattern
from rasterio.transform import Affine

from pu_geo.errors import JobCancelled
from pu_geo.geo.raster.quicklooks import NO_DATA_GREY, build_pyramid
from pu_geo.records import Scene

Make = Callable[..., Scene]


def stitch(folder: Path, zoom: int, shape: tuple[int, int], tile: int) -> np.ndarray:
    """Put the tiles of a zoom back together, uint8 [H, W, 3]; missing tiles are grey."""
    rows, cols = -(-shape[0] // tile), -(-shape[1] // tile)
    out = np.full((rows * tile, cols * tile, 3), NO_DATA_GREY, np.uint8)
    for x in range(cols):
        for y in range(rows):
            path = folder / str(zoom) / str(x) / f"{y}.jpg"
            if path.exists():
                out[y * tile : (y + 1) * tile, x * tile : (x + 1) * tile] = cv2.imread(str(path))[..., ::-1]
    return out


def test_the_finest_tiles_are_the_scene_and_coarser_ones_its_averages(make_scene: Make, tmp_path: Path) -> None:
    data = np.repeat(pattern(150, 203, bands=1), 3, axis=0)  # grey, because JPEG halves the resolution of colour
    scene = make_scene("post", data)
    folder = tmp_path / "tiles"
    with joined(scene) as mosaic:
        info = build_pyramid(mosaic, folder, tile_px=32, quality=98)
    assert info == json.loads((folder / "pyramid.json").read_text())
    size = {"tile_px": 32, "max_zoom": 3, "width": 203, "height": 150}
    assert info == {**size, "resolutions": [8, 4, 2, 1], "n_tiles": 35 + 12 + 4 + 1}
    picture = data.transpose(1, 2, 0)
    padded = np.full((256, 256, 3), NO_DATA_GREY, np.uint8)
    padded[:150, :203] = picture
    for zoom in range(4):
        shrink = 2 ** (3 - zoom)
        height, width = -(-150 // shrink), -(-203 // shrink)
        level = padded.reshape(256 // shrink, shrink, 256 // shrink, shrink, 3).mean(axis=(1, 3))[:height, :width]
        found = stitch(folder, zoom, (height, width), 32)[:height, :width]
        assert np.abs(found - level).mean() < 3, zoom
    assert not (folder / "3" / "7").exists()


def test_a_small_scene_is_one_tile_and_cancelling_leaves_no_description(make_scene: Make, tmp_path: Path) -> None:
    with joined(make_scene("post", pattern(20, 30))) as mosaic:
        info = build_pyramid(mosaic, tmp_path / "t")
        with pytest.raises(JobCancelled):
            build_pyramid(mosaic, tmp_path / "cancelled", is_cancelled=lambda: True)
    assert (info["max_zoom"], info["resolutions"], info["n_tiles"]) == (0, [1], 1)
    tile = cv2.imread(str(tmp_path / "t" / "0" / "0" / "0.jpg"))
    assert tile.shape == (256, 256, 3)
    assert abs(int(tile[200, 200, 0]) - NO_DATA_GREY) < 3
    assert not (tmp_path / "cancelled" / "pyramid.json").exists()


def test_tiles_without_data_are_not_written(make_scene: Make, tmp_path: Path) -> None:
    near = make_scene("near", pattern(32, 32))
    far = make_scene("far", pattern(32, 32), Affine(0.5, 0, ORIGIN[0] + 48, 0, -0.5, ORIGIN[1] - 48))
    with joined(near, far) as mosaic:
        info = build_pyramid(mosaic, tmp_path / "t", tile_px=32)
    assert info["max_zoom"] == 2
    finest = sorted(str(p.relative_to(tmp_path / "t" / "2")) for p in (tmp_path / "t" / "2").rglob("*.jpg"))
    assert finest == ["0/0.jpg", "3/3.jpg"]
    assert info["n_tiles"] == 2 + 2 + 1
