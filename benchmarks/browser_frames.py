"""A frame of the map while it is moved with 20,000 footprints in view, in a real browser, against the same map without them."""

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

from tests.browser.make_project import make_project

N_BUILDINGS = 20_000
SIDE_PX = 4096
FRAMES = 60
START_SECONDS = 60
HARNESS = Path(__file__).parents[1] / "tests" / "browser" / "harness_app.py"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MEASURE = "([frames, shown]) => window.__pugeo.measurePan(frames, 6, shown)"


def bench_frames(folder: Path) -> dict[str, float]:
    """Move the map with all footprints in view, against moving it without any.

    Returns:
        Seconds from frame to frame with and without footprints, means over a second of moving (a 60 Hz screen allows no less
        than 0.0167); the longest with them, in which they are drawn anew; and how long that drawing took the script.
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    project = make_project(folder / "project", n=N_BUILDINGS, side=SIDE_PX)
    app, address = _start(project)
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{address}/?panes=map&color=scores")
            page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=START_SECONDS * 1000)
            page.wait_for_timeout(1500)
            with_them = page.evaluate(MEASURE, [FRAMES, True])
            without = page.evaluate(MEASURE, [FRAMES, False])
            drawn = page.evaluate("window.__pugeo.drawTimes()")
            browser.close()
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.wait()
    times = {"ours_s": with_them["mean"], "without_footprints_s": without["mean"], "longest_s": with_them["longest"]}
    return {name: ms / 1000 for name, ms in {**times, "redraw_s": max(drawn)}.items()}


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
