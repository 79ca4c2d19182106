"""The whole app in a real browser: sample event, fast clicks, ranking, training, exploring, export; all on this machine."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_parts import REPOSITORY

from pu_geo import jobs
from pu_geo.project import labels, runs, store
from pu_geo.project.layout import Layout

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PREPARE_SECONDS = 900
TRAIN_SECONDS = 600


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def address(chromium, start_app: Callable[..., str], home: Path) -> str:
    """The app with its own home folder; nothing is open yet."""
    started = start_app(REPOSITORY / "app.py", "{port}", log=home / "app.log", environment=_environment(home))
    return started


def _environment(home: Path) -> dict[str, str]:
    return {"PU_GEO_HOME": str(home), "PU_GEO_ANALYST": "ann", "PU_GEO_BROWSER": "no", "PU_GEO_OPEN": ""}


@pytest.fixture(scope="module")
def sample(home: Path) -> Layout:
    return Layout(home / "sample-event.pugeo")


def stored(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return dict(labels.current_labels(db))


def go(page, screen: str) -> None:
    """Follow the link in the sidebar: the session stays the same."""
    page.get_by_test_id("stSidebarNav").get_by_text(screen, exact=True).click()
    page.get_by_role("heading", name=screen).wait_for(timeout=30_000)


def wait_for_job(layout: Layout, task: str, seconds: float) -> jobs.JobView:
    newest = next(job for job in jobs.all_jobs(layout) if job.task == task)
    ended = jobs.wait(layout, newest.job_id, seconds=seconds)
    assert ended.state == "done", (ended.state, ended.problem)
    return ended


def open_view(page) -> None:
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
    page.wait_for_timeout(600)


def test_from_sample_event_to_exported_map(chromium_page, address: str, sample: Layout, screenshots: Path) -> None:
    page = chromium_page
    page.goto(address)
    page.get_by_role("button", name="Open the sample event").click(timeout=60_000)
    page.get_by_text("Loading scenes, footprints and chips").wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "project.png")
    wait_for_job(sample, "prepare", PREPARE_SECONDS)

    _annotate(page, sample, screenshots)
    _train(page, sample, screenshots)
    _explore(page, sample, screenshots)
    _export(page, sample, screenshots)


def _annotate(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Annotate")
    open_view(page)
    page.evaluate("window.__pugeo.setView([1280, 1150], 1.0)")
    page.wait_for_timeout(800)
    seen = page.evaluate("window.__pugeo.onScreen(60).map((id) => [id, window.__pugeo.pixelOf(id)])")
    clicked: dict[str, str] = {}
    for spacing_ms, spots in ((0, seen[0:10]), (30, seen[10:20]), (100, seen[20:30])):
        assert len(spots) == 10
        for building, (x, y) in spots:
            page.mouse.click(x, y)
            page.wait_for_timeout(spacing_ms)
            clicked[building] = "positive"
        assert page.evaluate("window.__pugeo.labels()") == clicked
        page.wait_for_function("window.__pugeo.pending() === 0", timeout=30_000)
        assert stored(sample) == clicked
    page.get_by_text("ranked in").wait_for(timeout=30_000)
    page.screenshot(path=screenshots / "annotate.png")
    page.keyboard.press("Control+z")
    page.wait_for_function(f"Object.keys(window.__pugeo.labels()).length === {len(clicked) - 1}", timeout=30_000)
    assert len(stored(sample)) == len(clicked) - 1
    page.reload()
    open_view(page)
    assert page.evaluate("window.__pugeo.labels()") == stored(sample)


def _train(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Train")
    page.get_by_role("button", name="Train NcPU").click()
    page.get_by_text("so far").wait_for(timeout=60_000)
    wait_for_job(sample, "train", TRAIN_SECONDS)
    page.locator(".js-plotly-plot").first.wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "train.png")
    page.get_by_text("Explore the embeddings").wait_for(timeout=60_000)
    with store.connect(sample) as db:
        assert [run.method for run in runs.all_runs(db)] == ["ncpu"]


def _explore(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Explore")
    open_view(page)
    box = page.locator(".pugeo .plane").bounding_box()
    assert box is not None
    left, right = box["x"] + 0.03 * box["width"], box["x"] + 0.97 * box["width"]
    top, bottom = box["y"] + 0.03 * box["height"], box["y"] + 0.97 * box["height"]
    page.keyboard.down("Shift")
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top)):
        page.mouse.move(x, y, steps=8)
    page.mouse.up()
    page.keyboard.up("Shift")
    n = page.evaluate("window.__pugeo.chosen().length")
    assert n > 1000
    page.get_by_role("button", name=f"Save {n:,} buildings").wait_for(timeout=30_000)
    page.screenshot(path=screenshots / "explore.png")


def _export(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Damage map")
    open_view(page)
    page.screenshot(path=screenshots / "damage_map.png")
    page.get_by_role("tab", name="Export").click()
    page.get_by_role("button", name="Export the next version").click()
    page.get_by_text("damaged (flagged or confirmed)").wait_for(timeout=60_000)
    exported = wait_for_job(sample, "publish", 60)
    document = json.loads((Path(str(exported.result["out"])) / "damage_map.geojson").read_text(encoding="utf-8"))
    assert len(document["features"]) == exported.result["n"] >= 1500
    confirmed = {feature["id"] for feature in document["features"] if feature["properties"]["triage"] == "confirmed"}
    assert confirmed == set(stored(sample))


def test_training_goes_on_when_the_app_is_killed(chromium_page, start_app, sample: Layout, home: Path) -> None:
    """The server is killed with -9 while a job runs; the job ends all the same."""
    if not sample.gpkg.is_file() or len(stored(sample)) < 10:
        pytest.skip("needs the labels of the test before it")
    environment = {**_environment(home), "PU_GEO_OPEN": str(sample.folder)}
    address = start_app(REPOSITORY / "app.py", "{port}", log=home / "app2.log", environment=environment)
    page = chromium_page
    page.goto(f"{address}/train")
    page.get_by_role("button", name="Train PUCL").click(timeout=60_000)
    page.get_by_text("so far").wait_for(timeout=60_000)
    newest = jobs.all_jobs(sample)[0]
    assert newest.state == "running"
    os.killpg(start_app.processes[address].pid, signal.SIGKILL)
    time.sleep(0.5)
    assert jobs.view(jobs.folder_of(sample, newest.job_id)).state == "running"
    assert jobs.wait(sample, newest.job_id, seconds=TRAIN_SECONDS).state == "done"
