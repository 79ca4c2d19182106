"""The whole app in a real browser: sample event, fast clicks, ranking, training, exploring, export; all on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pu_geo import jobs
from pu_geo.project import labels, pseudo_positives, runs, store
from pu_geo.project.layout import Layout
from tests.browser.real_app import AppServer
from tests.browser.steps import ask, drag, go, on_page, settle, settled, spots, until, wait_for_frames, wait_for_view

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]
PREPARE_SECONDS = 900
TRAIN_SECONDS = 600


def stored(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return dict(labels.current_labels(db))


def wait_for_job(layout: Layout, task: str, seconds: float) -> jobs.JobView:
    newest = until(lambda: next((job for job in jobs.all_jobs(layout) if job.task == task), None), 60)
    ended = jobs.wait(layout, newest.job_id, seconds=seconds)
    assert ended.state == "done", (ended.state, ended.problem)
    return ended


def test_from_sample_event_to_exported_map(page, app: AppServer, own_home: Path, screenshots: Path) -> None:
    sample = Layout(own_home / "sample-event.pugeo")
    page.goto(app.address)
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
    wait_for_view(page)
    ask(page, "setView", [1280, 1150], 1.0)
    wait_for_frames(page, 800)
    places = dict(list(spots(page, 1000).items())[:30])
    for place in places.values():
        page.mouse.click(*place)
    clicked = dict.fromkeys(places, "positive")
    assert on_page(page) == clicked
    settle(page)
    assert stored(sample) == clicked
    page.locator(".pugeo header").get_by_role("button", name="Scores").wait_for(timeout=120_000)
    page.screenshot(path=screenshots / "annotate.png")
    page.keyboard.press("Control+z")
    settle(page)
    assert on_page(page) == stored(sample)
    assert len(stored(sample)) == 29


def _train(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Train")
    page.get_by_role("button", name="Train NcPU").click()
    page.get_by_text("so far").wait_for(timeout=60_000)
    wait_for_job(sample, "train", TRAIN_SECONDS)
    page.get_by_text("Training NcPU, quick: done in").click(timeout=60_000)
    page.locator(".js-plotly-plot").first.wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "train.png")
    page.get_by_role("button", name="Shown: NcPU quick").wait_for(timeout=60_000)
    with store.connect(sample) as db:
        assert [run.method for run in runs.all_runs(db)] == ["ncpu"]


def _explore(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Explore")
    wait_for_view(page, "")
    box = page.locator(".pugeo .plane").bounding_box()
    left, right = (box["x"] + share * box["width"] for share in (0.03, 0.97))
    top, bottom = (box["y"] + share * box["height"] for share in (0.03, 0.97))
    drag(page, [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)])
    n = len(ask(page, "chosen"))
    assert n > 1000
    page.get_by_role("button", name=f"Selection: {n:,}").wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "explore.png")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("Selection(?!:)")).wait_for(timeout=60_000)
    settled(page)
    page.get_by_role("radio", name="Clusters").or_(page.get_by_role("button", name="Clusters")).first.click()
    start = page.locator(".st-key-cluster-start button")
    start.wait_for(timeout=60_000)
    settled(page)  # what comes above may still change, and the button move
    start.click()
    wait_for_job(sample, "cluster", TRAIN_SECONDS)
    accept = page.locator("[class*=st-key-cluster-accept] button:visible")
    accept.first.wait_for(timeout=120_000)
    settled(page)
    n = int(accept.inner_text().rpartition("(")[2].rstrip(") ").replace(",", ""))
    accept.click()
    page.get_by_text(f"Next run: 29 damaged + {n:,} accepted").wait_for(timeout=60_000)
    with store.connect(sample) as db:
        assert len(pseudo_positives.accepted_ids(db)) == n


def _export(page, sample: Layout, screenshots: Path) -> None:
    go(page, "Damage map")
    wait_for_view(page, "")
    page.screenshot(path=screenshots / "damage_map.png")
    page.get_by_role("button", name="Export", exact=True).click()
    page.get_by_role("button", name="Export version 1").click()
    page.get_by_role("link", name="Open report").wait_for(timeout=60_000)
    exported = wait_for_job(sample, "publish", 60)
    document = json.loads((Path(str(exported.result["out"])) / "damage_map.geojson").read_text(encoding="utf-8"))
    assert len(document["features"]) == exported.result["n"] >= 1500
    confirmed = {feature["id"] for feature in document["features"] if feature["properties"]["triage"] == "confirmed"}
    assert confirmed == set(stored(sample))
