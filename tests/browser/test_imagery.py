"""The Imagery screen in a real browser: a real event, a pair of mixed systems and pixels, and files that lie."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.crs import CRS
from rasterio.warp import Resampling, reproject, transform_bounds

from pu_geo import jobs
from pu_geo.project import alignment, contents, import_log, store
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects
from pu_geo.ui.components.job_card import TITLES
from tests.browser.real_app import AppServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
JOB_SECONDS = 120
SIDE, GSD_M, WEST, NORTH = 640, 0.5, 500_000.0, 4_100_000.0  # of the made-up post scene, UTM 15N
UTM = CRS.from_epsg(32615)
PLACE = rasterio.Affine(GSD_M, 0, WEST, 0, -GSD_M, NORTH)
ROOFS_PX = [(x, y) for y in range(60, 560, 100) for x in range(60, 560, 100)]  # upper left corners, 30 px wide


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """post.tif in UTM, pre.tif with the same content in degrees and coarser pixels, houses.geojson, and three bad files."""
    folder = tmp_path_factory.mktemp("pair")
    rng = np.random.default_rng(0)
    ground = np.repeat(np.repeat(rng.integers(60, 120, (3, SIDE // 8, SIDE // 8)), 8, axis=1), 8, axis=2).astype(np.uint8)
    for x, y in ROOFS_PX:
        ground[:, y : y + 30, x : x + 30] = rng.integers(150, 250, (3, 1, 1))
    facts = {"driver": "GTiff", "count": 3, "dtype": "uint8", "width": SIDE, "height": SIDE, "crs": UTM, "transform": PLACE}
    with rasterio.open(folder / "post.tif", "w", **facts) as post:
        post.write(ground)
    degrees, n = CRS.from_epsg(4326), SIDE * 5 // 8
    west, south, east, north = transform_bounds(UTM, degrees, WEST, NORTH - SIDE * GSD_M, WEST + SIDE * GSD_M, NORTH)
    place = rasterio.Affine((east - west) / n, 0, west, 0, (south - north) / n, north)
    warped = np.zeros((3, n, n), np.uint8)
    reproject(
        ground, warped, src_transform=PLACE, src_crs=UTM, dst_transform=place, dst_crs=degrees,
        resampling=Resampling.average,
    )  # fmt: skip
    facts |= {"crs": degrees, "transform": place, "width": n, "height": n, "nodata": 0}
    with rasterio.open(folder / "pre.tif", "w", **facts) as pre:
        pre.write(warped)
    (folder / "houses.geojson").write_text(_houses("urn:ogc:def:crs:EPSG::32615"))
    (folder / "metres.geojson").write_text(_houses(None))
    (folder / "mosaic.tif").write_text(
        f'<VRTDataset rasterXSize="64" rasterYSize="64"><VRTRasterBand band="1" dataType="Byte"><SimpleSource>'
        f"<SourceFilename>{folder / 'post.tif'}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    whole = (folder / "post.tif").read_bytes()
    (folder / "cut.tif").write_bytes(whole[: len(whole) // 2])
    return folder


def _houses(crs: str | None) -> str:
    boxes = [
        shapely.box(WEST + x * GSD_M, NORTH - (y + 30) * GSD_M, WEST + (x + 30) * GSD_M, NORTH - y * GSD_M)
        for x, y in ROOFS_PX
    ]
    rows = [{"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(box))} for box in boxes]
    named = {} if crs is None else {"crs": {"type": "name", "properties": {"name": crs}}}
    return json.dumps({"type": "FeatureCollection", **named, "features": rows})


class Screen:
    """The Imagery page of one project, driven by hand."""

    def __init__(self, page, layout: Layout, address: str) -> None:
        self.page, self.layout = page, layout
        page.goto(f"{address}/imagery?project={projects.token_of(layout)}")
        page.get_by_text("1 · Scenes").wait_for(timeout=60_000)

    def press(self, button: str, task: str) -> jobs.JobView:
        """Press a button that starts a job, and wait until the job has ended and the page shows it."""
        known = len(jobs.all_jobs(self.layout))
        self.page.get_by_role("button", name=button, exact=True).click()
        while len(jobs.all_jobs(self.layout)) == known:
            self.page.wait_for_timeout(50)
        newest = jobs.all_jobs(self.layout)[0]
        assert newest.task == task
        ended = jobs.wait(self.layout, newest.job_id, seconds=JOB_SECONDS)
        self.shows(ended.problem[:60] if ended.state == "failed" else f"{TITLES[task]} · {ended.state}")
        return ended

    def shows(self, words: str) -> None:
        """Wait until words stand on the page."""
        give_up = time.monotonic() + 30
        while words not in (text := self.text()):
            assert time.monotonic() < give_up, f"{words!r} is not on the page:\n{text}"
            self.page.wait_for_timeout(100)

    def add_scenes(self, post: str, pre: str = "") -> jobs.JobView:
        for name, text in (("Post-event images, one path a line", post), ("Pre-event images (optional)", pre)):
            self.page.get_by_role("textbox", name=name).fill(text)
            self.page.keyboard.press("Tab")
        return self.press("Add scenes", "add_scenes")

    def add_footprints(self, path: Path) -> jobs.JobView:
        self.page.get_by_role("textbox", name="File of outlines").fill(str(path))
        self.page.keyboard.press("Tab")
        return self.press("Add footprints", "add_footprints")

    def write_date(self, day: str) -> None:
        """Write a date into the first row of the table of scenes, by keyboard."""
        field = self.page.locator("#portal input")
        give_up = time.monotonic() + 30
        while not field.count():  # the table may still move while the page is drawn
            assert time.monotonic() < give_up, "no field for a date opened"
            box = self.page.get_by_test_id("stDataFrame").first.bounding_box()
            self.page.mouse.click(box["x"] + 20, box["y"] + 52)
            for key in ("ArrowRight", "ArrowRight", "Enter"):
                self.page.keyboard.press(key)
            self.page.wait_for_timeout(300)
        field.fill(day)
        self.page.keyboard.press("Enter")

    def upload_footprints(self, path: Path) -> jobs.JobView:
        self.page.get_by_role("tab", name="Upload a small file").click()
        self.page.locator("[data-testid=stFileUploader] input[type=file]").last.set_input_files(path)
        return self.press("Add this file", "add_footprints")

    def text(self) -> str:
        """What stands on the page, in one line, without the joiners that keep names from becoming links."""
        return " ".join(str(self.page.locator("[data-testid=stMain]").inner_text()).replace("\u2060", "").split())


@pytest.fixture
def screen(page, app: AppServer, tmp_path: Path) -> Iterator[Screen]:
    layout = projects.create(str(tmp_path / "event.pugeo"), "Event")
    yield Screen(page, layout, app.address)
    assert page.get_by_test_id("stException").count() == 0


def test_a_pair_of_mixed_systems_is_repaired_and_bad_files_are_refused_in_words(
    screen: Screen, pair: Path, screenshots: Path
) -> None:
    def held() -> tuple[int, int, int]:
        with store.connect(screen.layout) as db:
            return len(contents.scenes(db)), contents.count_footprints(db), len(import_log.all_records(db))

    def refused(ended: jobs.JobView, *words: str) -> None:
        assert ended.state == "failed"
        for each in (*words, ended.problem[:20], ended.hint[:20]):
            screen.shows(each)
        assert not {"Traceback", "Error:", "None"} & set(screen.text().split())
        assert "Traceback" not in (jobs.folder_of(screen.layout, ended.job_id) / "log.txt").read_text()

    assert "Needs a post-event scene first" in screen.text()
    refused(screen.add_scenes(str(pair / "mosaic.tif")), "mosaic.tif")
    refused(screen.add_scenes(str(pair / "cut.tif")), "cut.tif", "damaged")
    screen.page.screenshot(path=screenshots / "imagery_refused.png")
    assert held() == (0, 0, 0)
    assert not screen.layout.quicklooks.exists()
    assert screen.add_scenes(str(pair / "post.tif"), str(pair / "pre.tif")).state == "done"
    repaired = "pre-1 reprojected from EPSG:4326 to EPSG:32615; resampled from 0.80 to 0.50 m"
    screen.shows(f"How they are read: {repaired} · post-1 unchanged.")
    refused(screen.add_footprints(pair / "metres.geojson"), "not degrees of longitude", "true coordinate system")
    assert held() == (2, 0, 0)
    assert screen.upload_footprints(pair / "houses.geojson").result["kept"] == len(ROOFS_PX)
    (kept,) = (screen.layout.folder / "sources").glob("*/*")
    assert kept.read_bytes() == (pair / "houses.geojson").read_bytes()
    assert held() == (2, len(ROOFS_PX), 1)
    screen.write_date("2011-05-22")
    screen.shows("Dates, pre / post 2011-05-22 / unknown")
    assert screen.press("Align pre and post", "align").state == "done"
    screen.shows("pre fits post as it is; each building still has its own shift")
    assert screen.press("Cut chips", "chip").result["n"] == len(ROOFS_PX)
    screen.shows("Everything is here. Next: Annotate")
    screen.page.screenshot(path=screenshots / "imagery_mixed.png", full_page=True)
    with store.connect(screen.layout) as db:
        found = alignment.load(screen.layout, contents.building_ids(db), contents.scenes(db))
    assert found is not None
    assert np.hypot(found.dx_m, found.dy_m).max() < GSD_M  # the content is the same: nothing is left but resampling
