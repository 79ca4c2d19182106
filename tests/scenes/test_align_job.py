"""The job that aligns a project, what it stores, and what chips make of it."""

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
import shapely
from geo_parts import write_rgb
from numpy.typing import NDArray
from small_parts import job_of, table_of

from pu_geo.errors import FootprintError, ImageryError, JobCancelled
from pu_geo.geo.raster.placement import project_grid
from pu_geo.geo.raster.scene_files import describe
from pu_geo.scenes.align_job import align
from pu_geo.scenes.chip_job import chip
from pu_geo.store import alignment, contents, store
from pu_geo.store.layout import Layout

SIDE, N = 400, 25
WEST, NORTH = 400_000.0, 4_100_000.0
Picture = NDArray[np.uint8]
pytestmark = pytest.mark.usefixtures("without_features")


def town(seed: int = 0) -> Picture:
    rng = np.random.default_rng(seed)
    noise = sum(cv2.GaussianBlur(rng.normal(size=(SIDE, SIDE)), (0, 0), width) * width for width in (2, 6))
    return np.clip(np.stack([120 + 45 * noise] * 3), 1, 255).astype(np.uint8)


def write(path: Path, picture: Picture, west: float = WEST, north: float = NORTH) -> Path:
    return write_rgb(path, picture, west, north)


def make_project(folder: Path, pre: Path | None, post: Path) -> Layout:
    """Its footprints are squares of 10 x 10 m, 35 m apart in rows of five."""
    x, y = WEST + 20 + 35 * (np.arange(N) % 5), NORTH - 20 - 35 * (np.arange(N) // 5)
    layout = store.create(folder / "event.pugeo", "Event")
    scenes = [describe(post, "post", "post-1")]
    if pre is not None:
        scenes.append(describe(pre, "pre", "pre-1"))
    with store.connect(layout) as db:
        contents.add_scenes(db, scenes, project_grid(scenes[:1]))
        contents.add_footprints(db, table_of(shapely.box(x, y - 10, x + 10, y)))
    return layout


@pytest.fixture
def moved(tmp_path: Path) -> Layout:
    """Pre was placed 4 m too far west and 3 m too far south: its content must move 4 m east and 3 m north."""
    picture = town()
    pre = write(tmp_path / "pre.tif", picture, WEST - 4, NORTH - 3)
    return make_project(tmp_path, pre, write(tmp_path / "post.tif", picture))


def stored(layout: Layout) -> alignment.Alignment | None:
    with store.connect(layout) as db:
        return alignment.load(layout, contents.building_ids(db), contents.scenes(db))


def pictures(layout: Layout, chip_set: object) -> Picture:
    return np.load(layout.chips(str(chip_set)))


def test_it_reports_and_stores_metres_to_the_east_and_north(moved: Layout) -> None:
    assert align(job_of(moved)) == {
        "shifts": {"Site 1": pytest.approx([4, 3], abs=0.1)}, "n": N, "n_mended": 0, "n_failed": 0,
        "n_outside": 0, "quality": pytest.approx(0.95, abs=0.06),
    }  # fmt: skip
    found = stored(moved)
    assert list(found.building_ids) == [f"b{i}" for i in range(N)]
    np.testing.assert_allclose(found.dx_m, 4, atol=0.3)
    np.testing.assert_allclose(found.dy_m, 3, atol=0.3)
    assert found.quality.min() > 0.5
    assert not found.is_misaligned.any()
    with store.connect(moved) as db:
        scenes, ids = contents.scenes(db), contents.building_ids(db)
    assert alignment.load(moved, ids, [dataclasses.replace(scenes[0], sha256="0" * 64), *scenes[1:]]) is None
    np.testing.assert_array_equal(alignment.load(moved, ids[:3][::-1], scenes).dx_m, found.dx_m[:3][::-1])
    late = shapely.box(WEST + 161, NORTH - 101, WEST + 169, NORTH - 91)
    with store.connect(moved) as db:
        contents.add_footprints(db, table_of([late], ["late"]))
    assert stored(moved) is None, "of other buildings"
    assert chip(job_of(moved))["n_moved"] == N + 1, "they are aligned again"
    assert stored(moved).dx_m[-1] == pytest.approx(4, abs=0.3)


def test_chips_of_an_aligned_project_show_the_same_place_twice(moved: Layout) -> None:
    before, post_alone = chip(job_of(moved)), chip(job_of(moved), bands="post")
    align(job_of(moved))
    after = chip(job_of(moved))
    assert chip(job_of(moved), bands="post") == post_alone
    assert (before["n_moved"], after["n_moved"]) == (0, N)
    assert before["chip_set"] != after["chip_set"]
    chips = pictures(moved, after["chip_set"])
    inside = np.abs(chips[:, :3].astype(int) - chips[:, 3:])[6:19]  # the middle rows; pre ends before the outer ones
    assert np.median(inside) == 0
    np.testing.assert_array_equal(chips[:, 3:], pictures(moved, before["chip_set"])[:, 3:])
    # another shift gives another chip set
    align(job_of(moved))
    one = chip(job_of(moved))
    found = stored(moved)
    with store.connect(moved) as db:
        scenes = contents.scenes(db)
    dx_m = found.dx_m.copy()
    dx_m[3] += 1.0
    alignment.save(moved, dataclasses.replace(found, dx_m=dx_m), scenes)
    other = chip(job_of(moved))
    assert one["chip_set"] != other["chip_set"]
    differ = (pictures(moved, one["chip_set"]) != pictures(moved, other["chip_set"])).any(axis=(1, 2, 3))
    assert np.flatnonzero(differ).tolist() == [3]


def test_without_alignment_or_with_none_to_speak_of_chips_are_the_same(tmp_path: Path) -> None:
    pre, post = write(tmp_path / "pre.tif", town()), write(tmp_path / "post.tif", town())
    layout = make_project(tmp_path, pre, post)
    before = chip(job_of(layout))
    first = pictures(layout, before["chip_set"])
    align(job_of(layout))
    after = chip(job_of(layout))
    assert after == before
    np.testing.assert_array_equal(pictures(layout, after["chip_set"]), first)


def test_buildings_of_other_places_fail_and_those_without_pre_lie_outside(tmp_path: Path) -> None:
    post, other = town(), town(5)
    write(tmp_path / "post.tif", post)
    strange = make_project(tmp_path, write(tmp_path / "pre.tif", other), tmp_path / "post.tif")
    result = align(job_of(strange))
    assert (result["n_failed"], result["n_outside"], result["quality"]) == (N, 0, 0.0)
    found = stored(strange)
    assert found.is_misaligned.all()
    assert not found.dx_m.any()
    half = post.copy()
    half[:, :, :155] = 0  # the middles of the first two columns of buildings lie at 50 and 120
    (tmp_path / "half").mkdir()
    with rasterio.open(write(tmp_path / "half.tif", half), "r+") as target:
        target.nodata = 0
    partial = make_project(tmp_path / "half", tmp_path / "half.tif", tmp_path / "post.tif")
    result = align(job_of(partial))
    assert (result["n_failed"], result["n_outside"]) == (0, 10)
    found = stored(partial)
    assert found.quality[~found.has_data].max() == 0


def test_it_refuses_what_cannot_be_aligned_and_stops_when_told(tmp_path: Path, moved: Layout) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(ImageryError, match="no pre-event scene"):
        align(job_of(make_project(tmp_path / "a", None, tmp_path / "post.tif")))
    empty = store.create(tmp_path / "b.pugeo", "Event")
    scene = describe(tmp_path / "post.tif", "post", "post-1")
    with store.connect(empty) as db:
        contents.add_scenes(db, [scene], project_grid([scene]))
    with pytest.raises(FootprintError, match="no footprints"):
        align(job_of(empty))
    stopped = job_of(moved)
    (stopped.folder / "cancel").touch()
    with pytest.raises(JobCancelled):
        align(stopped)
    assert stored(moved) is None
