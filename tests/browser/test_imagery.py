"""The Imagery screen in a real browser: from the paths of scenes to chips, with bad files on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from town_parts import draw_town

from pu_geo import jobs
from pu_geo.project import contents, import_log, store
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects
from tests.browser.real_app import AppServer
from tests.browser.steps import settled

pytestmark = [pytest.mark.browser, pytest.mark.slow]
JOB_SECONDS = 120


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """`pre.tif`, `post.tif` and `footprints.geojson` of a small made-up town, and three bad files."""
    folder = tmp_path / "files"
    draw_town(folder)
    (folder / "mosaic.tif").write_text(
        f'<VRTDataset rasterXSize="64" rasterYSize="64"><VRTRasterBand band="1" dataType="Byte"><SimpleSource>'
        f"<SourceFilename>{folder / 'post.tif'}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    whole = (folder / "post.tif").read_bytes()
    (folder / "cut.tif").write_bytes(whole[: len(whole) // 2])
    ring = [[540_000, 2_990_000], [540_010, 2_990_000], [540_010, 2_989_990], [540_000, 2_990_000]]
    house = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (folder / "metres.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [house]}))
    return folder


class Screen:
    """The Imagery page of one project, driven by hand."""

    def __init__(self, page, layout: Layout, address: str) -> None:
        self.page, self.layout = page, layout
        page.goto(f"{address}/imagery?project={projects.token_of(layout)}")
        page.get_by_text("1 · Scenes").wait_for(timeout=60_000)

    def press(self, button: str, task: str) -> jobs.JobView:
        """Press a button that starts a job, and wait until the job has ended and the page shows it."""
        known = len(jobs.all_jobs(self.layout))
        self.page.get_by_role("button", name=button, exact=True).last.click()  # the first one may stand in the title bar
        while len(jobs.all_jobs(self.layout)) == known:
            self.page.wait_for_timeout(50)
        newest = jobs.all_jobs(self.layout)[0]
        assert newest.task == task
        ended = jobs.wait(self.layout, newest.job_id, seconds=JOB_SECONDS)
        if ended.state == "failed":
            self.shows(ended.problem[:60])
        self.page.get_by_role("button", name="Cancel").wait_for(state="detached", timeout=60_000)
        settled(self.page)  # what is written next stays
        return ended

    def shows(self, words: str) -> None:
        """Wait until words stand on the page."""
        give_up = time.monotonic() + 60
        while words not in (text := self.text()):
            assert time.monotonic() < give_up, f"{words!r} is not on the page:\n{text}"
            self.page.wait_for_timeout(100)

    def add_scenes(self, post: str, pre: str = "") -> jobs.JobView:
        for name, text in (
            ("Post-event images, one path a line", post),
            ("Pre-event images, one path a line (optional)", pre),
        ):
            self.page.get_by_role("textbox", name=name).fill(text)  # the click that follows must count without another key
        return self.press("Add scenes", "add_scenes")

    def add_footprints(self, path: Path) -> jobs.JobView:
        self.page.get_by_role("textbox", name="Footprint file").fill(str(path))
        return self.press("Add footprints", "add_footprints")

    def write_date(self, day: str) -> None:
        """Write a date into the first row of the table of scenes, by keyboard."""
        self.page.locator("details:not([open])", has_text="1 · Scenes").first.wait_for(timeout=60_000)  # it has folded
        self.page.get_by_text("1 · Scenes").click()
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


def test_from_paths_to_chips_with_bad_files_refused_in_words(screen: Screen, files: Path, screenshots: Path) -> None:
    def held() -> tuple[int, int, int]:
        with store.connect(screen.layout) as db:
            return len(contents.scenes(db)), contents.count_footprints(db), len(import_log.all_records(db))

    def refused(ended: jobs.JobView, *words: str) -> None:
        assert ended.state == "failed"
        for each in (*words, ended.problem[:20], ended.hint[:20]):
            screen.shows(each)
        assert not {"Traceback", "Error:", "None"} & set(screen.text().split())
        assert "Traceback" not in (jobs.folder_of(screen.layout, ended.job_id) / "log.txt").read_text()

    screen.shows("Choose scenes")
    refused(screen.add_scenes(str(files / "mosaic.tif")), "mosaic.tif")
    refused(screen.add_scenes(str(files / "cut.tif")), "cut.tif", "damaged")
    assert held() == (0, 0, 0)
    assert not screen.layout.quicklooks.exists()
    assert screen.add_scenes(str(files / "post.tif"), str(files / "pre.tif")).state == "done"
    screen.shows("The pair fits so far.")
    screen.write_date("2031-01-02")
    screen.shows("Dates, pre / post 2 Jan 2031 / 6 May 2032")
    refused(screen.add_footprints(files / "metres.geojson"), "not degrees of longitude", "true coordinate system")
    screen.page.screenshot(path=screenshots / "imagery_refused.png")
    assert held() == (2, 0, 0)
    n = screen.upload_footprints(files / "footprints.geojson").result["kept"]
    (kept,) = (screen.layout.folder / "sources").glob("*/*")
    assert kept.read_bytes() == (files / "footprints.geojson").read_bytes()
    assert held() == (2, n, 1)
    assert screen.press("Align pre and post", "align").state == "done"
    screen.shows("Not aligned")
    assert screen.press("Cut chips", "chip").result["n"] == n
    screen.shows(f"{n} chips of 64 px (pre+post)")
    screen.shows("Next: Annotate")
    screen.page.screenshot(path=screenshots / "imagery_done.png", full_page=True)
