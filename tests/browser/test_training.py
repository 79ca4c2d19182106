"""Trainings in a real browser: form, queue and live panel, a killed server, cancelled and taken up again, the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.methods import catalog
from pu_geo.project import events, model_files, runs, store
from pu_geo.project.layout import Layout
from tests.browser.real_app import AppServer
from tests.browser.steps import settled, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SECONDS = 240.0
LONG = {"epochs": "5000", "max_steps": "1000000"}  # minutes, never waited for; 900 took half of one


def newest(event: Layout, method: str) -> JobView:
    return next(job for job in jobs.all_jobs(event) if job.args.get("method") == method)


def start(page: Any, event: Layout, method: str, title: str, settings: dict[str, str]) -> Path:
    """Fill the form of a method and start it; return the job's folder."""
    page.locator(f".st-key-start-{method}").wait_for(timeout=60_000)
    page.get_by_role("button", name="Settings").nth(list(catalog.METHODS).index(method)).click()
    for name, value in settings.items():
        field = page.locator(f".st-key-set-{method}-quick-{name} input")
        field.fill(value)
        field.press("Enter")
        page.wait_for_timeout(700)
        settled(page)
    page.keyboard.press("Escape")  # closes the settings
    before = len(jobs.all_jobs(event))
    page.get_by_role("button", name=f"Train {title}").click()
    until(lambda: len(jobs.all_jobs(event)) > before)
    job = newest(event, method)
    assert {name: str(job.args["overrides"][name]) for name in settings} == settings
    return event.jobs / job.job_id


def press(page: Any, what: str, folder: Path) -> None:
    """Press a button on the card of a job."""
    page.locator(f".st-key-{what}-{folder.name} button").click(timeout=60_000)


def epochs(folder: Path) -> list[Any]:
    return [event["epoch"] for event in events.read(folder) if event["event"] == "epoch"]


def test_a_training_is_watched_outlives_the_server_and_is_cancelled_and_taken_up_again(
    page, village, screenshots: Path, tmp_path: Path
) -> None:
    layout = village.layout
    with AppServer(tmp_path / "home", project=layout) as server:
        page.goto(f"{server.address}/train")
        first = start(page, layout, "ncpu", "NcPU", LONG)
        page.get_by_text("so far").wait_for(timeout=60_000)
        page.locator(".js-plotly-plot").first.wait_for(timeout=60_000)
        page.screenshot(path=screenshots / "train_live.png", full_page=True)
        second = start(page, layout, "pucl", "PUCL", {"epochs": "2"})
        until(lambda: jobs.view(second).state == "waiting")
        page.get_by_text("Device queue of this machine").wait_for(timeout=60_000)
        server.end()
        n_before = len(epochs(first))
        until(lambda: len(epochs(first)) > n_before + 1)
        server.start()

        page.goto(f"{server.address}/train")
        press(page, "cancel", first)
        until(lambda: jobs.view(first).state == "cancelled")
        n_before = len(epochs(first))
        assert jobs.wait(layout, second.name, seconds=SECONDS).state == "done", "it waited for its turn"
        press(page, "resume", first)
        until(lambda: len(epochs(first)) > n_before + 1)
        assert epochs(first)[n_before] > 1, "it began anew"
        press(page, "cancel", first)
        until(lambda: jobs.view(first).state == "cancelled")

        page.get_by_text("Models: export one, or import one").click()
        with page.expect_download(timeout=60_000) as waiting:  # the page may run, for a job has just ended
            page.get_by_role("link", name="Export model").click()
        waiting.value.save_as(tmp_path / "model.zip")
        with store.connect(layout) as db:
            assert runs.find(db, model_files.read(tmp_path / "model.zip").card["run_id"]).method == "pucl"
