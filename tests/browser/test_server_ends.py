"""The app's server is killed: clicks wait for the next one, a training goes on, and is cancelled and taken up again there."""

from pathlib import Path
from typing import Any

import pytest

from pu_geo import jobs
from pu_geo.methods import catalog
from pu_geo.store import events, runs, store
from pu_geo.store.layout import Layout
from pu_geo.training import model_files
from tests.browser.conftest import Village
from tests.browser.real_app import AppServer
from tests.browser.steps import JOB_SECONDS, fill, go, see_all, settled, until, wait_for_view
from tests.browser.test_no_click_is_lost import all_stored, click_some, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.ci]
LONG = {"epochs": "5000", "max_steps": "1000000"}  # minutes, never waited for; 900 took half of one


def start(page: Any, layout: Layout, method: str, title: str, settings: dict[str, str]) -> Path:
    """Fill the form of a method and start it; return the job's folder."""
    page.locator(f".st-key-start-{method}").wait_for()
    settled(page)
    page.get_by_role("button", name="Settings").nth(list(catalog.METHODS).index(method)).click()
    for name, value in settings.items():
        fill(page, page.locator(f".st-key-set-{method}-quick-{name} input"), value)
    page.keyboard.press("Escape")  # closes the settings
    before = len(jobs.all_jobs(layout))
    page.get_by_role("button", name=f"Train {title}").click()
    until(lambda: len(jobs.all_jobs(layout)) > before)
    job = next(job for job in jobs.all_jobs(layout) if job.args.get("method") == method)
    assert {name: str(job.args["overrides"][name]) for name in settings} == settings
    return layout.jobs / job.job_id


def press(page: Any, what: str, folder: Path) -> None:
    """Press a button on the card of a job."""
    page.locator(f".st-key-{what}-{folder.name} button").click()


def epochs(folder: Path) -> list[Any]:
    return [event["epoch"] for event in events.read(folder) if event["event"] == "epoch"]


def test_clicks_and_trainings_outlive_a_killed_server(page, village, tmp_path: Path) -> None:
    layout = village.layout
    with AppServer(tmp_path / "home", project=layout) as server:
        own = Village(server.address, layout, village.ids)
        page.goto(f"{server.address}/train")
        first = start(page, layout, "ncpu", "NcPU", LONG)
        page.get_by_text("so far").wait_for()
        page.locator(".js-plotly-plot").first.wait_for()
        second = start(page, layout, "pucl", "PUCL", {"epochs": "2"})
        until(lambda: jobs.view(second).state == "waiting")
        page.get_by_text("waiting for train ncpu").wait_for()

        go(page, "Annotate")
        wait_for_view(page)
        see_all(page)
        click_some(page, own)
        server.end()
        expected = click_some(page, own)
        wait_until(page, "waiting")
        n_before = len(epochs(first))
        until(lambda: len(epochs(first)) > n_before + 1)
        assert village.labels().keys() < expected.keys()
        server.start()
        all_stored(page, own, expected)

        go(page, "Train")
        press(page, "cancel", first)
        until(lambda: jobs.view(first).state == "cancelled")
        n_before = len(epochs(first))
        assert jobs.wait(layout, second.name, seconds=JOB_SECONDS).state == "done", "it waited for its turn"
        page.locator(f".st-key-cancel-{second.name}").wait_for(state="detached")  # the page is drawn anew, and cards move
        settled(page)
        press(page, "resume", first)
        until(lambda: jobs.view(first).is_active, seconds=60)
        until(lambda: len(epochs(first)) > n_before + 1)
        assert epochs(first)[n_before] > 1, "it began anew"
        press(page, "cancel", first)
        until(lambda: jobs.view(first).state == "cancelled")

        settled(page)
        page.get_by_role("link", name="Research").click()
        page.get_by_role("tab", name="Models").click()
        with page.expect_download(timeout=60_000) as waiting:  # the page may run, for a job has just ended
            page.get_by_role("link", name="Export model").click()
        waiting.value.save_as(tmp_path / "model.zip")
        with store.connect(layout) as db:
            assert runs.find(db, model_files.read(tmp_path / "model.zip").card["run_id"]).method == "pucl"
