"""An analyst's whole way in the browser: from an empty folder to a confirmed export of Joplin, without a dead end.

`PU_GEO_ANALYST_TIMES=1 pytest -s tests/browser/test_analyst.py` prints the seconds of each step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_parts import REPOSITORY

from pu_geo import jobs
from pu_geo.project.layout import Layout
from tests.browser import steps
from tests.browser.real_app import AppServer

pytestmark = [pytest.mark.browser, pytest.mark.long]
SCENES = REPOSITORY.parent / "shared" / "data" / "joplin_xbd"
MOST_SECONDS = 12 * 60
N_CLICKS, N_CHECKS = 16, 40
JOB_MS = 120_000


class Analyst:
    """Who knows the truth, and only does what the screens offer."""

    def __init__(self, page, address: str, home: Path) -> None:
        self.page, self.home, self.seconds = page, home, dict[str, float]()
        found = [
            each for path in sorted(SCENES.glob("*/buildings.geojson")) for each in json.loads(path.read_text())["features"]
        ]
        self.damage = {each["properties"]["uid"]: each["properties"]["damage"] for each in found}
        page.goto(address)
        page.get_by_label("Name of the event").wait_for(timeout=60_000)

    def is_damaged(self, building: str) -> bool:
        return self.damage[building] in ("major-damage", "destroyed")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began
        assert self.page.get_by_test_id("stException").count() == 0

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).last.click(timeout=60_000)

    def sees(self, words: str, ms: int = 60_000) -> None:
        self.page.get_by_text(words).first.wait_for(timeout=ms)

    def waits_for_jobs(self) -> None:
        (folder,) = self.home.rglob("*.pugeo")
        steps.until(lambda: not any(job.is_active for job in jobs.all_jobs(Layout(folder))), JOB_MS / 1000)
        self.page.wait_for_timeout(2_000)  # for the page to hear of it
        steps.settled(self.page)

    def pick(self, files: list[str]) -> None:
        """Add files of all scenes in the dialog that is open, folder by folder."""
        dialog = self.page.get_by_role("dialog")
        for scene in sorted(SCENES.iterdir()):
            dialog.get_by_role("button", name="joplin_xbd").last.click()
            dialog.get_by_role("button", name=scene.name, exact=True).last.click()
            steps.settled(self.page)  # until then the boxes of the folder before stand there, too
            for file in files:
                dialog.get_by_text(file, exact=True).last.click()
            dialog.get_by_text(f"{scene.name}/{files[-1]}").wait_for(timeout=30_000)

    def answer_queue(self, n: int) -> None:
        """Answer what the queue shows by the truth, by keys; destroyed houses with their grade."""
        keys = {"destroyed": "4", "major-damage": "5"}
        for _ in range(n):
            building = steps.queue(self.page)["current"]
            steps.press(self.page, keys.get(self.damage[building], "2"))
            steps.settle(self.page)


@pytest.fixture
def analyst(page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Analyst]:
    if not SCENES.is_dir():
        pytest.skip("the scenes of Joplin are not on this machine")
    monkeypatch.setenv("PU_GEO_ROOTS", str(SCENES))
    with AppServer(tmp_path / "home") as server:
        yield Analyst(page, server.address, tmp_path / "home")


def test_from_an_empty_folder_to_a_confirmed_export(analyst: Analyst, tmp_path: Path, screenshots: Path) -> None:
    page = analyst.page

    def shot(name: str) -> None:
        page.screenshot(path=screenshots / f"analyst-{name}.png")

    with analyst.step("create the project"):
        page.get_by_label("Name of the event").fill("Joplin 2011")
        analyst.press("Create project")
        page.get_by_role("link", name="Next: Add imagery").click()
    with analyst.step("add scenes and footprints"):
        page.get_by_role("button", name="Choose scenes").click()
        analyst.pick(["pre.tif", "post.tif"])
        page.get_by_role("dialog").get_by_role("button", name="Add 4 files").click()
        steps.until(lambda: "post.tif" in page.get_by_role("textbox", name="Post-event images").input_value(), 60)
        shot("scenes")
        analyst.press("Add scenes")
        analyst.sees("The pair fits so far.", JOB_MS)
        for n, scene in enumerate(sorted(SCENES.iterdir())):
            if n:
                folded = page.locator("details:not([open])", has_text="2 · Footprints").first
                folded.wait_for(timeout=60_000)
                page.get_by_text("2 · Footprints").click()
            page.get_by_role("textbox", name="Footprint file").fill(str(scene / "buildings.geojson"))
            analyst.press("Add footprints")
            analyst.sees("185 buildings" if n == 0 else "383 buildings", JOB_MS)
            analyst.waits_for_jobs()  # the step folds as its job ends, and takes what is half typed with it
        shot("footprints")
    with analyst.step("align and cut chips"):
        analyst.press("Align pre and post")
        analyst.sees("Pre/post misalignment", JOB_MS)
        analyst.press("Cut chips")
        analyst.sees("383 chips", JOB_MS)
        shot("chips")
    with analyst.step(f"{N_CLICKS} clicks"):
        page.get_by_role("link", name="Next: Annotate").click()
        steps.wait_for_view(page)
        shot("annotate")
        analyst.answer_queue(N_CLICKS)
        shot("clicked")
    with analyst.step("train"):
        page.get_by_role("link", name="Next: Train").click()
        analyst.press("Train propagated ranking")
        page.locator(".st-key-steps").get_by_text("check").nth(3).wait_for(timeout=JOB_MS)
    with analyst.step(f"accuracy assessment of {N_CHECKS} random checks"):
        steps.go(page, "Damage map")
        page.get_by_role("tab", name="Accuracy assessment").click()
        page.get_by_role("spinbutton", name="Random checks").fill(str(N_CHECKS))
        analyst.press("Start accuracy assessment")
        steps.wait_for_view(page)
        shot("checks")
        analyst.answer_queue(N_CHECKS)
        shot("checked")
        analyst.press("See the result")
        analyst.sees("Precision")
        page.wait_for_timeout(1500)
        shot("audited")
    with analyst.step("choose how many are flagged"):
        page.get_by_role("tab", name="Map", exact=True).click()
        page.wait_for_function(steps.READY, timeout=60_000)
        page.locator(".pugeo .flagtrack").wait_for(timeout=60_000)
        steps.settled(page)
        steps.wait_for_frames(page, 300)
        page.locator(".pugeo .flagtrack").press("ArrowLeft")
        analyst.sees("chosen by a person")
        shot("map")
    with analyst.step("confirm the export"):
        analyst.press("Export")
        analyst.sees("What this map cannot say")
        shot("confirm")
        analyst.press("Export version 1")
        page.get_by_role("link", name="Open report").wait_for(timeout=JOB_MS)
        page.wait_for_timeout(2000)
        shot("exported")
    if os.environ.get("PU_GEO_ANALYST_TIMES"):
        sys.stdout.write("\n".join(f"{seconds:6.1f} s  {name}" for name, seconds in analyst.seconds.items()) + "\n")
    assert sum(analyst.seconds.values()) < MOST_SECONDS
    version = Layout(next((tmp_path / "home").rglob("*.pugeo"))).exports / "v1"
    features = json.loads((version / "damage_map.geojson").read_text(encoding="utf-8"))["features"]
    classes = Counter(each["properties"]["damage_class"] for each in features)
    assert len(features) == len(analyst.damage)
    assert classes["destroyed"] >= 5, "grades reach the export"
