"""The scatter of the Explore page with 100,000 dots in a real browser: moving it, and selecting by a line drawn by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.real_app import AppServer, add_hooks, add_island_run, made_up_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

MANY, FEW = 100_000, 1_000
FRAMES, STEP_PX = 60, 6
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
READY = "window.__pugeo && window.__pugeo.ready"


def bench_scatter_pan(folder: Path) -> dict[str, float]:
    """Pan 100,000 dots, each drawn as a dot, against 1,000.

    Returns:
        Seconds. `ours_s` and `few_s`: from frame to frame, means over 60 (a 60 Hz screen allows no less than 0.0167).
        `longest_s`: the longest of ours. `script_s`, `few_script_s`: what drawing took of a frame, medians. `heat_s`,
        `heat_script_s`: the same with 100,000 as heat.
    """
    found = {}
    for n, name in ((MANY, "many"), (FEW, "few")):
        with _shown(folder / name, n) as page:
            found[name] = page.evaluate(f"window.__pugeo.measureScatterPan({FRAMES}, {STEP_PX}, 'dots')")
            if n == MANY:
                found["heat"] = page.evaluate(f"window.__pugeo.measureScatterPan({FRAMES}, {STEP_PX}, 'heat')")
    many, few, heat = (found[name] for name in ("many", "few", "heat"))
    told = {
        "ours_s": many["mean"], "few_s": few["mean"], "longest_s": many["longest"], "script_s": many["script"],
        "few_script_s": few["script"], "heat_s": heat["mean"], "heat_script_s": heat["script"],
    }  # fmt: skip
    return {name: value / 1000 for name, value in told.items()}


def bench_lasso(folder: Path) -> dict[str, float]:
    """Find which of 100,000 dots a line of 240 points holds, against one dot after the other, in the same page.

    Returns:
        Seconds. `ours_s`, `plain_loop_s`: medians of 5; both must find the same. `shown_s`: from the end of the line until
        scatter, map and wall show what is selected.

    Raises:
        RuntimeError: if the two do not agree.
    """
    with _shown(folder / "many", MANY) as page:
        found = page.evaluate("window.__pugeo.measureLasso(5)")
        shown = sorted(page.evaluate("window.__pugeo.measureSelection()")["took"] for _ in range(3))[1]
    if not found["agree"] or not found["n"]:
        raise RuntimeError(f"The line holds {found['n']} dots, and a plain loop finds others.")
    return {"ours_s": found["ours"] / 1000, "plain_loop_s": found["plain"] / 1000, "shown_s": shown / 1000}


@contextmanager
def _shown(folder: Path, n: int) -> Iterator[Page]:
    """Serve a made-up project of n buildings, and show its scatter."""
    from playwright.sync_api import sync_playwright

    ids = [f"b{i:06d}" for i in range(n)]
    layout = made_up_project(folder / "town.pugeo", ids)
    add_island_run(layout, ids)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    with AppServer(folder / "home", project=layout) as app, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        add_hooks(page)
        page.goto(f"{app.address}/explore")
        page.wait_for_function(READY, timeout=120_000)
        page.wait_for_timeout(3000)
        yield page
        browser.close()
