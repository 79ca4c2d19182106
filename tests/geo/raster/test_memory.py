"""No scene makes a process that reads it ask for gigabytes: what would is refused in words, or read in pieces."""

from collections.abc import Callable
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
from pu_geo.geo.raster.guard import allow_files, check_memory, unreadable
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import coarse_words, project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.readers.in_child import inspect_file
from pu_geo.records import Scene
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import store

Make, Write = Callable[..., Scene], Callable[..., Path]


def pixels_of(width_m: float, height_m: float | None = None) -> Affine:
    return Affine(width_m, 0, ORIGIN[0], 0, -(height_m or width_m), ORIGIN[1])


def test_a_scene_whose_row_of_map_tiles_takes_gigabytes_is_refused(tmp_path: Path) -> None:
    """It has 40 rows alone, so it is within all limits on pixels and blocks."""
    path, width = tmp_path / "wide.tif", 90_000_000
    profile = {"driver": "GTiff", "count": 3, "dtype": "uint8", "crs": "EPSG:3857", "SPARSE_OK": "TRUE", "BIGTIFF": "YES"}
    with rasterio.open(path, "w", width=width, height=40, transform=Affine(0.2, 0, -9e6, 0, -0.2, 0), **profile) as file:
        file.write(np.ones((3, 1, 1000), np.uint8), window=rasterio.windows.Window(0, 0, 1000, 1))
    assert width * 40 < 4_000_000_000
    with pytest.raises(ImageryError, match=r"90,000,000 x 40 pixels; .* and 500,000 on a side") as refused:
        describe(path, "post", "a")
    assert (refused.value.kind, "-projwin" in refused.value.hint) == ("size", True)


def test_much_smaller_pixels_are_refused_before_anything_is_read(write_tif: Write, tmp_path: Path, make_scene: Make) -> None:
    post, pre = write_tif("post", pattern(40, 40), pixels_of(30.0)), write_tif("pre", pattern(400, 400), pixels_of(0.1))
    layout = store.create(tmp_path / "event.pugeo", "Event")
    with pytest.raises(ImageryError, match=r"pre.tif has pixels of .* m, 300 times smaller") as refused:
        add_scenes(job_of(layout), pre=[str(pre)], post=[str(post)])
    assert refused.value.kind == "resolution"
    assert not layout.quicklooks.exists()
    fine, coarse = make_scene("fine", pattern(800, 800), pixels_of(0.1)), describe(post, "post", "a")
    with pytest.raises(ImageryError, match="300 times smaller"), Mosaic([fine], project_grid([coarse])):
        pytest.fail("it is not opened")  # in a project that holds such a pair already
    # The other way round, a satellite scene before and a drone's after, is a usual pair, with a note.
    assert "300 times larger" in coarse_words(coarse, project_grid([fine]))
    assert coarse_words(fine, project_grid([coarse])) == coarse_words(coarse, project_grid([coarse])) == ""
    fitting = make_scene("fitting", pattern(40, 40), pixels_of(1.9))
    with Mosaic([fine], project_grid([fitting])) as mosaic:
        assert mosaic.read(0, 0, 40, 40)[1].any()


def test_a_read_that_does_not_fit_into_memory_is_refused_and_no_damage(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000_000))
    check_memory("A strip", 700_000_000)
    scene = make_scene("a", pattern(40, 40))
    with (
        Mosaic([scene], project_grid([scene])) as mosaic,
        pytest.raises(ImageryError, match=r"needs about 15\.0 GB of memory at a time; 1\.0 GB are free") as refused,
    ):
        mosaic.read(0, 0, 10_000_000, 100)
    assert refused.value.kind == "memory"
    assert "gdal_translate -co TILED=YES" in refused.value.hint
    assert unreadable("a.tif", RasterioIOError("a.tif: Out of memory allocating 3 GB")).kind == "memory"
    assert unreadable("a.tif", RasterioIOError("a.tif: IReadBlock failed")).kind == "corrupt"


def test_pixels_that_are_not_square_on_the_ground_are_warned_about(make_scene: Make) -> None:
    """At 60° N a degree of longitude is half as long as one of latitude; pixels that are square in degrees are usual there."""
    places = [Affine(x, 0, 10, 0, -y, 60) for x, y in ((2e-5, 1e-5), (1e-5, 1e-5), (1e-5, 2e-5))]
    square, equal, tall = (make_scene(f"s{i}", pattern(40, 40), at, crs="EPSG:4326") for i, at in enumerate(places))
    assert square.notes == equal.notes == ()
    ((about, words),) = tall.notes
    assert (about, "0.56 x 2.2 m" in words) == ("pixels not square", True)
    flat = make_scene("flat", pattern(40, 200), pixels_of(0.5, 5.0))
    assert str(inspect_file(flat.path)["hint"]).startswith("The pixels are 0.5 x 5 m on the ground, which is not square")


def test_as_many_files_are_allowed_as_open_or_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = [(4000, 50_000)]  # this process has some hundred files open
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    allow_files(3)
    assert limits == [(4000, 50_000)]  # it suffices
    allow_files(10_000)
    assert 10_000 < limits[-1][0] < 14_000
    limits.append((400, 400))
    with pytest.raises(ImageryError, match=r"10,000 .* 400") as refused:
        allow_files(10_000)
    assert (refused.value.kind, "ulimit" in refused.value.hint) == ("files", True)
