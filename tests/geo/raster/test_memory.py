"""No scene makes a process that reads it ask for gigabytes: what would is refused in words, or read in pieces."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from pu_geo.geo.raster import mosaic as mosaics
from pu_geo.geo.raster import quicklooks, samples
from pu_geo.geo.raster.guard import check_memory, unreadable
from pu_geo.geo.raster.mosaic import Mosaic
from pu_geo.geo.raster.placement import MAX_SIDE_PX, coarse_words, oblong_words, project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.geo.readers.in_child import inspect_file
from pu_geo.project import store
from pu_geo.records import Grid, Scene
from pu_geo.tasks.imagery.scenes import add_scenes

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
    with pytest.raises(ImageryError, match=r"90,000,000 x 40 pixels; a scene may have up to 500,000 on a side") as refused:
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


@pytest.mark.parametrize("is_warped", [False, True])
@pytest.mark.parametrize(("dtype", "bands"), [("uint8", 3), ("uint16", 4), ("float64", 3)])
def test_a_read_takes_no_more_memory_than_is_checked(
    make_scene: Make, monkeypatch: pytest.MonkeyPatch, dtype: str, bands: int, is_warped: bool
) -> None:
    """Of a read it counts what numpy holds; GDAL's own cache is bounded."""
    n = 1000
    monkeypatch.setattr(samples, "_STRETCHED_PX", 10 * n)  # 5 MB else, which count in a picture as small as this one
    scene = make_scene("a", pattern(n, n, bands=bands).astype(dtype), nodata=0, photometric="RGB")
    grid = project_grid([scene])
    if is_warped:
        grid = replace(grid, transform=(0.5, 0.0, ORIGIN[0] + 0.2, 0.0, -0.5, ORIGIN[1] - 0.2))
    with Mosaic([scene, scene], grid) as mosaic:
        assert mosaic._layers[0].is_warped == is_warped
        mosaic.read(0, 0, 9, 9)
        tracemalloc.start()
        try:
            _, valid = mosaic.read(-8, -8, n, n)
            peak = tracemalloc.get_traced_memory()[1] / n**2
        finally:
            tracemalloc.stop()
    assert valid[8:-8, 8:-8].all()
    assert not valid[:7].any()  # the second scene is read, too
    assert mosaic.bytes_a_pixel / 2 < peak <= mosaic.bytes_a_pixel


def test_a_strip_counts_what_is_read_beside_it(make_scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = make_scene("a", pattern(40, 40).astype("uint16"))
    asked: list[int] = []
    monkeypatch.setattr(mosaics, "check_memory", lambda what, n_bytes: asked.append(n_bytes))
    with Mosaic([scene], project_grid([scene])) as mosaic, ThreadPoolExecutor() as pool:
        list(mosaics.passes([mosaic], np.array([[0, 0, 40, 40]]), 40, pool))
    assert asked[0] == 40 * 40 * (4 + 19)


def test_to_stretch_rows_at_a_time_changes_no_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 5000, (3, 61, 47)).astype(np.uint16)
    valid, stretch = values[0] > 100, [(200.0, 4000.0), (0.0, 1.0), (3.5, 4999.25)]
    whole = samples.to_uint8(values, valid, stretch)
    monkeypatch.setattr(samples, "_STRETCHED_PX", 5 * 47)
    assert (samples.to_uint8(values, valid, stretch) == whole).all()


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


def test_pixels_that_are_not_square_on_the_ground_are_warned_about(make_scene: Make) -> None:
    """At 60° N a degree of longitude is half as long as one of latitude; pixels that are square in degrees are usual there."""
    places = [Affine(x, 0, 10, 0, -y, 60) for x, y in ((2e-5, 1e-5), (1e-5, 1e-5), (1e-5, 2e-5))]
    square, equal, tall = (make_scene(f"s{i}", pattern(40, 40), at, crs="EPSG:4326") for i, at in enumerate(places))
    assert oblong_words(square) == oblong_words(equal) == ""
    assert "0.56 x 2.2 m" in oblong_words(tall)
    flat = make_scene("flat", pattern(40, 200), pixels_of(0.5, 5.0))
    words = "flat.tif has pixels of 0.5 x 5 m on the ground, which are not square"
    assert oblong_words(flat).startswith(words)
    assert str(inspect_file(flat.path)["hint"]).startswith(words)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such limit")
def test_a_thousand_files_open_where_256_would_be_the_end_or_it_is_refused_in_words() -> None:
    """Limits cannot be raised again once lowered: they are tried in a process of their own."""
    code = textwrap.dedent("""
        import resource
        from pu_geo.errors import ImageryError
        from pu_geo.geo.raster.guard import allow_files
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        allow_files(3)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before  # it suffices
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        allow_files(1000)
        files = [open("/dev/null") for _ in range(1000)]
        files.clear()
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
        try:
            allow_files(1000)
        except ImageryError as refusal:
            print(refusal.kind, "1,000" in refusal.problem, "400" in refusal.problem, "ulimit" in refusal.hint)
    """)
    env = {**os.environ, "PYTHONWARNINGS": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "files True True True"
