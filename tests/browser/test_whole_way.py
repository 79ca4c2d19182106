"""An analyst's whole way: from an empty folder to a confirmed export of a small town, without a dead end; a bad file is refused."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from town_parts import draw_town

from pu_geo import jobs
from pu_geo.store import contents, import_log, store
from pu_geo.store.layout import Layout
from tests.browser import steps

pytestmark = [pytest.mark.browser, pytest.mark.ci]
N_CLICKS, N_CHECKS = 12, 30
KEYS = ("4", "5", "2")  # of three houses one is destroyed, one has major damage: the tornado left too few of so few


class Analyst:
    """Who only does what the screens offer."""

    def __init__(self, page, layout: Layout, files: Path) -> None:
        self.page, self.layout = page, layout
        town = json.loads((files / "footprints.geojson").read_text(encoding="utf-8"))["features"]
        self.keys = {each["properties"]["uid"]: KEYS[number % len(KEYS)] for number, each in enumerate(town)}

    def press(self, name: str) -> None:
        steps.settled(self.page)  # what is being drawn anew loses a click; the first of a name may stand in the title bar
        self.page.get_by_role("button", name=name, exact=True).last.click()

    def starts(self, button: str, task: str) -> jobs.JobView:
        """Press a button that starts a job, and wait until the job has ended and the page shows it."""
        known = len(jobs.all_jobs(self.layout))
        self.press(button)
        newest = steps.until(lambda: jobs.all_jobs(self.layout)[: -known or None])[0]
        assert newest.task == task
        ended = jobs.wait(self.layout, newest.job_id, seconds=steps.JOB_SECONDS)
        if ended.state == "failed":
            self.sees(ended.problem[:60])
        self.page.get_by_role("button", name="Cancel").wait_for(state="detached")
        steps.settled(self.page)  # what is written next stays
        return ended

    def text(self) -> str:
        """What stands on the page, in one line, without the joiners that keep names from becoming links."""
        return " ".join(str(self.page.get_by_test_id("stMain").inner_text()).replace("\u2060", "").split())

    def sees(self, *words: str) -> None:
        steps.until(lambda: all(each in self.text() for each in words), 120, self.page)

    def holds(self) -> tuple[int, int, int]:
        with store.connect(self.layout) as db:
            return len(contents.scenes(db)), contents.count_footprints(db), len(import_log.all_records(db))

    def add_scenes(self, post: Path, pre: Path | None = None) -> jobs.JobView:
        for name, path in (("Post-event images", post), ("Pre-event images", pre)):
            # The click that follows must count without another key.
            self.page.get_by_role("textbox", name=name).fill(str(path or ""))
        return self.starts("Add scenes", "add_scenes")

    def write_date(self, day: str) -> None:
        """Write a date into the first row of the table of scenes, by keyboard."""
        self.page.locator("details:not([open])", has_text="1 · Scenes").first.wait_for()  # it has folded
        self.page.get_by_text("1 · Scenes").click()
        field, table = self.page.locator("#portal input"), self.page.get_by_test_id("stDataFrame").first

        def is_open() -> bool:
            box = steps.still(self.page, table)
            self.page.mouse.click(box["x"] + 20, box["y"] + 52)
            steps.press(self.page, "ArrowRight", "ArrowRight", "Enter")
            steps.settled(self.page)
            return bool(field.count())

        steps.until(is_open, 60)  # the table may still move while the page is drawn
        field.fill(day)
        self.page.keyboard.press("Enter")

    def answers_queue(self, is_over: Callable[[set[str]], bool]) -> None:
        """Answer what the queue shows, by keys, until that is over by what was answered."""
        answered: set[str] = set()
        current = lambda: steps.queue(self.page)["current"]  # noqa: E731
        while True:
            steps.until(lambda: is_over(answered) or current() not in {None, *answered}, page=self.page)
            if is_over(answered):
                return
            answered.add(building := current())
            steps.press(self.page, self.keys[building])
            steps.settle(self.page)


def test_from_an_empty_folder_to_a_confirmed_export(page, app, own_home: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    draw_town(files, (512, 320), 100)  # more than an audit answers
    analyst = Analyst(page, Layout(own_home / "town.pugeo"), files)
    page.goto(app.address)
    page.get_by_label("Name of the event").fill("Town")
    analyst.press("Create project")
    adds_imagery(analyst, files)
    page.get_by_role("link", name="Next: Annotate").click()
    steps.wait_for_view(page)
    page.get_by_role("button", name="Queue", exact=True).click()  # all chips are first until some are marked
    analyst.answers_queue(lambda answered: len(answered) == N_CLICKS)
    page.get_by_role("link", name="Next: Train").click()
    assert analyst.starts("Train propagated ranking", "train").state == "done"
    audits_and_flags(analyst)

    analyst.press("Export")
    page.get_by_text("What this map cannot say").first.wait_for()
    analyst.press("Export version 1")
    page.get_by_role("link", name="Open report").wait_for()
    assert page.get_by_test_id("stException").count() == 0
    document = json.loads((analyst.layout.exports / "v1" / "damage_map.geojson").read_text(encoding="utf-8"))
    classes = Counter(each["properties"]["damage_class"] for each in document["features"])
    assert len(document["features"]) == len(analyst.keys)
    assert classes["destroyed"] > 0, "grades reach the export"


def adds_imagery(analyst: Analyst, files: Path) -> None:
    """From the paths of scenes to chips."""
    page, cut, whole = analyst.page, files / "cut.tif", (files / "post.tif").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    analyst.sees("Choose scenes")
    refused = analyst.add_scenes(cut)
    assert refused.state == "failed"
    analyst.sees("cut.tif", "damaged", refused.problem[:20], refused.hint[:20])
    assert not {"Traceback", "Error:", "None"} & set(analyst.text().split()), "in words"
    assert "Traceback" not in (jobs.folder_of(analyst.layout, refused.job_id) / "log.txt").read_text()
    assert analyst.holds() == (0, 0, 0)
    assert not analyst.layout.quicklooks.exists()
    assert analyst.add_scenes(files / "post.tif", files / "pre.tif").state == "done"
    analyst.sees("No scene has buildings yet.")
    analyst.write_date("2031-01-02")
    analyst.sees("2 Jan 2031 / 6 May 2032")
    page.get_by_role("tab", name="Upload a small file").click()
    with page.expect_response(lambda answer: "upload_file" in answer.url and answer.request.method == "PUT"):
        page.locator("[data-testid=stFileUploader] input[type=file]").last.set_input_files(files / "footprints.geojson")
    n = analyst.starts("Add this file", "add_footprints").result["added"]
    (kept,) = (analyst.layout.folder / "sources").glob("*/*")
    assert kept.read_bytes() == (files / "footprints.geojson").read_bytes()
    assert analyst.holds() == (2, n, 1)
    assert analyst.starts("Align and cut chips", "chip").result["n"] == n
    analyst.sees("Not aligned", f"{n} chips of 64 px (pre+post)", "Next: Annotate")


def audits_and_flags(analyst: Analyst) -> None:
    """Assess the accuracy by random checks, and choose how many are flagged."""
    page = analyst.page
    steps.go(page, "Damage map")
    page.get_by_role("tab", name="Accuracy assessment").click()
    steps.fill(page, page.get_by_role("spinbutton", name="Checks"), str(N_CHECKS))
    analyst.press(f"Start accuracy assessment with {N_CHECKS} checks")
    steps.wait_for_view(page)
    result = page.get_by_role("button", name="See the result")
    analyst.answers_queue(lambda answered: result.is_visible())
    result.click()
    analyst.sees("Precision")
    page.get_by_role("tab", name="Map", exact=True).click()
    page.wait_for_function(steps.READY)
    track = page.locator(".pugeo .flagtrack")
    track.wait_for()
    steps.settled(page)
    steps.at_rest(page)
    track.press("ArrowLeft")
    page.locator(".pugeo .flaghead", has_text="chosen by a person").wait_for()
