"""The map with 20,000 and with 100,000 footprints in view, in a real browser, against the same map without them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.browser.make_project import make_project
from tests.browser.real_app import add_hooks

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIDE_PX = 4096
CLICKS = 12
NEAR_PX = 1.0  # grid pixels per screen pixel, where outlines are drawn
START_SECONDS = 60
HARNESS = Path(__file__).parents[1] / "tests" / "browser" / "harness_app.py"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PAN = "(shown) => window.__pugeo.measurePan(60, 6, shown)"
ZOOM = "() => window.__pugeo.measureZoom(60, 6)"
READY = "window.__pugeo && window.__pugeo.ready"


def bench_frames(folder: Path) -> dict[str, float]:
    """Move the map with 20,000 footprints in view, against moving it without any; click on them; load them.

    Returns:
        Seconds. `ours_s` and `without_footprints_s`: from frame to frame while panning, means over 60 frames (a 60 Hz screen
        allows no less than 0.0167). `longest_s`: the longest of them, in which footprints are drawn anew. `zoom_s`,
        `zoom_longest_s`: the same while zooming in to a sixth and out. `near_s`, `near_longest_s`: while panning where
        outlines are drawn. `click_s`, `click_slowest_s`: from pointerup to the frame with the new color, median and
        slowest, at both zooms. `load_s`: from asking for the geometry until it can be drawn.
    """
    return _bench(folder, 20_000)


def bench_frames_100k(folder: Path) -> dict[str, float]:
    """Do as `bench_frames` does, with 100,000 footprints in view."""
    return _bench(folder, 100_000)


def _bench(folder: Path, n: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    app, address = _start(make_project(folder / "project", n=n, side=SIDE_PX))
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            add_hooks(page)
            page.goto(f"{address}/?panes=map&color=scores")
            page.wait_for_function(READY, timeout=START_SECONDS * 1000)
            found = {"load_s": page.evaluate("window.__pugeo.loadTime()")["ready"], **_moving(page)}
            page.goto(f"{address}/?panes=map&color=labels")
            page.wait_for_function(READY, timeout=START_SECONDS * 1000)
            found |= _clicking(page)
            browser.close()
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.wait()
    names = ("ours_s", "without_footprints_s", *sorted(found))
    return {name: found[name] / 1000 for name in dict.fromkeys(names)}


def _moving(page: Page) -> dict[str, float]:
    page.wait_for_timeout(1500)
    far, bare, zoom = (page.evaluate(*each) for each in ((PAN, True), (PAN, False), (ZOOM,)))
    _go_near(page)
    near = page.evaluate(PAN, True)
    page.get_by_title("Show everything").click()
    page.wait_for_timeout(1000)
    return {
        "ours_s": far["mean"], "without_footprints_s": bare["mean"], "longest_s": far["longest"],
        "zoom_s": zoom["mean"], "zoom_longest_s": zoom["longest"], "near_s": near["mean"], "near_longest_s": near["longest"],
    }  # fmt: skip


def _clicking(page: Page) -> dict[str, float]:
    page.wait_for_timeout(1500)
    times = _clicks(page)
    _go_near(page)
    times += _clicks(page)
    return {"click_s": float(np.median(times)), "click_slowest_s": max(times)}


def _clicks(page: Page) -> list[float]:
    """Click on buildings all over the view; milliseconds until each one has its color."""
    ids = page.evaluate("window.__pugeo.onScreen(60)")
    times = []
    for building_id in ids[:: max(1, len(ids) // CLICKS)][:CLICKS]:
        x, y = page.evaluate("(id) => window.__pugeo.pixelOf(id)", building_id)
        page.mouse.move(x, y)
        page.wait_for_timeout(200)
        page.evaluate("(id) => { window.clicked = window.__pugeo.measureClick(id); }", building_id)
        page.mouse.click(x, y)
        times.append(page.evaluate("window.clicked"))
    return times


def _go_near(page: Page) -> None:
    page.evaluate("([center, near]) => window.__pugeo.setView([center, center], near)", [SIDE_PX / 2, NEAR_PX])
    page.wait_for_timeout(1000)


def _start(project: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, str(HARNESS), str(project), str(port)]
    known = {**os.environ, "PYTHONPATH": str(HARNESS.parents[2])}
    silent = subprocess.DEVNULL
    app = subprocess.Popen(command, env=known, stdout=silent, stderr=silent, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    for _ in range(START_SECONDS * 5):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=2).close()
        except OSError:
            time.sleep(0.2)
        else:
            return app, address
    os.killpg(app.pid, signal.SIGKILL)
    raise RuntimeError(f"{' '.join(command)} did not answer within {START_SECONDS} s.")
