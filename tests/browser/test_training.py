"""An afternoon of trainings in a real browser: two runs, one cancelled, the server and a worker killed, all taken up again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.make_project import make_project
from browser.real_app import AppServer, made_up_project

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.methods import catalog
from pu_geo.project import events, model_files, runs, store
from pu_geo.project.layout import Layout

pytestmark = [pytest.mark.browser, pytest.mark.slow]
N_CHIPS, SECONDS = 240, 240.0
LONG = {"ncpu": {"epochs": "900", "max_steps": "1000000"}, "pucl": {"epochs": "800"}}
"""Long enough to be stopped amid its epochs on a quick machine, and short enough to be finished on a slow one."""


@pytest.fixture(scope="module")
def event(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("training")
    pictures = make_project(folder / "pictures", n=N_CHIPS, side=512, chip_px=32)
    return made_up_project(folder / "event.pugeo", [f"b{i:05d}" for i in range(N_CHIPS)], pictures=pictures)


@pytest.fixture
def server(event: Layout) -> Iterator[AppServer]:
    with AppServer(event.folder.parent / "home", project=event) as started:
        yield started


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it took too long"
        time.sleep(0.05)
    return found


def newest(event: Layout, method: str) -> JobView:
    return next(job for job in jobs.all_jobs(event) if job.args.get("method") == method)


def begin(page: Any, event: Layout, method: str, title: str) -> Path:
    """Fill the form of a method and start it; return the job's folder."""
    page.locator(f".st-key-start-{method}").wait_for(timeout=60_000)
    page.get_by_text("Details and settings").nth(list(catalog.METHODS).index(method)).click()
    for name, value in LONG[method].items():
        field = page.locator(f".st-key-set-{method}-quick-{name} input")
        field.fill(value)
        field.press("Enter")
        page.wait_for_timeout(700)
    before = len(jobs.all_jobs(event))
    page.get_by_role("button", name=f"Train {title}").click()
    until(lambda: len(jobs.all_jobs(event)) > before)
    return event.jobs / newest(event, method).job_id


def press(page: Any, what: str, folder: Path) -> None:
    """Press a button on the card of a job."""
    page.locator(f".st-key-{what}-{folder.name} button").click(timeout=60_000)


def n_epochs(folder: Path) -> int:
    return sum(event["event"] == "epoch" for event in events.read(folder))


def test_two_runs_through_cancel_kill_and_return(
    chromium_page, event: Layout, server: AppServer, screenshots: Path, tmp_path: Path
) -> None:
    page = chromium_page
    page.goto(f"{server.address}/train")
    first = begin(page, event, "ncpu", "NcPU")
    until(lambda: n_epochs(first) > 3)
    second = begin(page, event, "pucl", "PUCL")
    until(lambda: jobs.view(second).state == "waiting")
    page.get_by_text("Queue of this machine").wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "train_queue.png", full_page=True)
    press(page, "cancel", first)
    until(lambda: jobs.view(first).state == "cancelled")
    until(lambda: (second / "checkpoints" / "training-newest.pt").exists())

    server.end(signal.SIGKILL)
    assert jobs.view(second).state == "running"  # it outlives the server
    pid = next(each["pid"] for each in events.read(second) if each["event"] == "started")
    os.killpg(int(str(pid)), signal.SIGKILL)  # and now the power goes
    until(lambda: jobs.view(second).state == "interrupted")
    n_before = n_epochs(second)
    server.start()

    page.goto(f"{server.address}/train")
    page.get_by_text("ended without a word").wait_for(timeout=60_000)
    press(page, "go-on", second)
    until(lambda: jobs.view(second).state in ("running", "done"))
    press(page, "go-on", first)
    for folder in (second, first):
        seen = jobs.wait(event, folder.name, seconds=SECONDS)
        assert seen.state == "done", (seen.problem, (folder / "log.txt").read_text())
    told = [each["epoch"] for each in events.read(second) if each["event"] == "epoch"]
    assert told[n_before] != 1, "it began anew"
    with store.connect(event) as db:
        assert {run.method for run in runs.all_runs(db)} == {"ncpu", "pucl"}
    _compare(page, event, screenshots)
    _hand_on(page, event, tmp_path)


def _compare(page: Any, event: Layout, screenshots: Path) -> None:
    """Compare both runs, show the other one on the live map, and average their ranks."""
    page.get_by_text("Compare runs").click(timeout=60_000)
    page.get_by_text("Rank correlation (Spearman)").wait_for(timeout=60_000)
    page.get_by_text("Where they disagree most").wait_for(timeout=60_000)
    page.locator(".st-key-compare-map .js-plotly-plot").wait_for(timeout=60_000)
    page.wait_for_timeout(1_000)
    page.screenshot(path=screenshots / "compare.png", full_page=True)
    with store.connect(event) as db:
        before = runs.pinned(db)
    page.locator(".st-key-pin-A button:enabled, .st-key-pin-B button:enabled").first.click()
    with store.connect(event) as db:
        until(lambda: runs.pinned(db) != before, 30)
    page.get_by_role("button", name="Average their ranks").click()
    averaged = until(lambda: next((job for job in jobs.all_jobs(event) if job.task == "ensemble"), None))
    assert jobs.wait(event, averaged.job_id, seconds=SECONDS).state == "done"


def _hand_on(page: Any, event: Layout, folder: Path) -> None:
    """Download the model of a run, as a person would hand it on."""
    page.get_by_text("Models: hand one on, or use one from elsewhere").click()
    with page.expect_download(timeout=60_000) as waiting:
        page.get_by_role("button", name="Export model").click()
    path = folder / "model.zip"
    waiting.value.save_as(path)
    found = model_files.read(path)
    with store.connect(event) as db:
        assert runs.find(db, found.card["run_id"]).method in ("ncpu", "pucl")
