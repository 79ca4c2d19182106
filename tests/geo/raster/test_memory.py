"""No scene makes a process that reads it ask for gigabytes: what would is refused in words, or read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import rasterio
from geo_parts import ORIGIN, pattern
from rasterio.errors import RasterioIOError
from rasterio.transform import Affine
from small_parts import job_of

from pu_geo.errors import ImageryError
from pu_geo.geo.raster import quicklooks
from pu_geo.geo.raster.guard import check_memory, unreadable
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import MAX_SIDE_PX, oblong_words, project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.readers.in_child import inspect_file
from pu_geo.project import store
from pu_geo.records import Grid, Scene
from pu_geo.tasks.imagery.scenes import add_scenes

Make = Callable[..., Scene]


def pixels_of(width_m: float, height_m: float | None = None) -> Affine:
    return Affine(width_m, 0, ORIGIN[0], 0, -(height_m or width_m), ORIGIN[1])


def test_a_scene_whose_row_of_map_tiles_takes_gigabytes_is_refused(tmp_path: Path) -> None:
    """It has 40 rows alone, so it is within all limits on pixels and blocks."""
    path, width = tmp_path / "wide.tif", 90_000_000
    profile = {"driver": "GTiff", "count": 3, "dtype": "uint8", "crs": "EPSG:3857", "SPARSE_OK": "TRUE", "BIGTIFF": "YES"}
    with rasterio.open(path, "w", width=width, height=40, transform=Affine(0.2, 0, -9e6, 0, -0.2, 0), **profile) as file:
        file.write(np.ones((3, 1, 1000), np.uint8), window=rasterio.windows.Window(0, 0, 1000, 1))
    assert width * 40 < 4_000_000_000
    with pytest.raises(ImageryError, match=r"90,000,000 x 40 pixels; a scene may have up to 500,000 on a side") as refused:
        describe(path, "post", "a")
    assert (refused.value.kind, "-projwin" in refused.value.hint) == ("size", True)


def test_scenes_far_from_each_other_in_one_direction_are_no_grid(make_scene: Make) -> None:
    near = make_scene("near", pattern(40, 40))
    far = replace(near, transform=(0.5, 0.0, near.transform[2] + 0.5 * MAX_SIDE_PX, 0.0, -0.5, near.transform[5]))
    with pytest.raises(ImageryError, match="on a side fit in a project"):
        project_grid([near, far])


@pytest.mark.parametrize(("pre_m", "way"), [(0.1, "300 times smaller"), (900.0, "30 times larger")])
def test_pixels_of_quite_another_size_are_refused_before_anything_is_read(
    pre_m: float, way: str, write_tif: Callable[..., Path], tmp_path: Path
) -> None:
    n = 40 if pre_m > 30 else 400
    post, pre = (
        write_tif("post", pattern(40, 40), pixels_of(30.0)),
        write_tif("pre", pattern(n, n), pixels_of(min(pre_m, 90.0))),
    )
    layout = store.create(tmp_path / "event.pugeo", "Event")
    if pre_m > 90:  # no scene may have pixels as large; a post scene of 3 m stands for the same ratio
        post = write_tif("post", pattern(40, 40), pixels_of(3.0))
    with pytest.raises(ImageryError, match=f"pre.tif has pixels of .* m, {way}") as refused:
        add_scenes(job_of(layout), pre=[str(pre)], post=[str(post)])
    assert refused.value.kind == "resolution"
    assert not layout.quicklooks.exists()


def test_a_project_that_holds_such_a_pair_already_is_refused_in_the_same_words(make_scene: Make) -> None:
    post, pre = make_scene("post", pattern(40, 40), pixels_of(30.0)), make_scene("pre", pattern(400, 400), pixels_of(0.1))
    with pytest.raises(ImageryError, match="300 times smaller"), Mosaic([pre], project_grid([post])):
        pytest.fail("it is not opened")


def test_a_ratio_of_nearly_twenty_is_read(make_scene: Make) -> None:
    post, pre = make_scene("post", pattern(40, 40), pixels_of(1.9)), make_scene("pre", pattern(800, 800), pixels_of(0.1))
    with Mosaic([pre], project_grid([post])) as mosaic:
        assert mosaic.read(0, 0, 40, 40)[1].any()


def test_a_read_that_does_not_fit_into_memory_is_refused_in_words(make_scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000_000))
    check_memory("A strip", 700_000_000)
    scene = make_scene("a", pattern(40, 40))
    with (
        Mosaic([scene], project_grid([scene])) as mosaic,
        pytest.raises(ImageryError, match=r"needs about 8\.0 GB of memory at a time; 1\.0 GB are free") as refused,
    ):
        mosaic.read(0, 0, 10_000_000, 100)
    assert refused.value.kind == "memory"
    assert "gdal_translate -co TILED=YES" in refused.value.hint


def test_too_little_memory_is_no_damage_of_the_file() -> None:
    assert unreadable("a.tif", RasterioIOError("a.tif: Out of memory allocating 3 GB")).kind == "memory"
    assert unreadable("a.tif", RasterioIOError("a.tif: IReadBlock failed")).kind == "corrupt"


@pytest.mark.parametrize(("width", "rows"), [(400, 2048), (100_000, 512), (MAX_SIDE_PX, 256)])
def test_map_tiles_of_a_wide_scene_are_read_in_fewer_rows_at_once(width: int, rows: int) -> None:
    class Read(Mosaic):
        preferred_block_rows = 2048

        def read(self, col: int, row: int, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
            asked.append(height)
            return np.zeros((3, height, 1), np.uint8), np.ones((height, 1), bool)

    asked: list[int] = []
    strips: Iterator[object] = quicklooks._strips(
        Read([], Grid("", "", (1, 0, 0, 0, -1, 0), width, 4096, 1.0)), 256, None, None
    )
    assert len(list(strips)) == 16
    assert set(asked) == {rows}


def test_pixels_that_are_not_square_are_warned_about(write_tif: Callable[..., Path], tmp_path: Path) -> None:
    path = write_tif("flat", pattern(40, 200), pixels_of(0.5, 5.0))
    words = r"flat.tif has pixels of 0.5 x 5 m on the ground, which are not square"
    layout = store.create(tmp_path / "event.pugeo", "Event")
    assert str(add_scenes(job_of(layout), pre=[], post=[str(path)])["notes"]).startswith(f"['{words}")
    found = inspect_file(path)
    assert found["ok"]
    assert str(found["hint"]).startswith(words)


def test_degrees_count_in_meters_on_the_ground(make_scene: Make) -> None:
    """At 60° N a degree of longitude is half as long as one of latitude."""
    north = {"crs": "EPSG:4326"}
    square = make_scene("square", pattern(40, 40), Affine(2e-5, 0, 10, 0, -1e-5, 60), **north)
    equal = make_scene("equal", pattern(40, 40), Affine(1e-5, 0, 10, 0, -1e-5, 60), **north)
    assert oblong_words(square) == ""
    assert "0.56 x 1.1 m" in oblong_words(equal)
