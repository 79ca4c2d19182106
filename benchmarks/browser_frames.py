"""The scatter of Explore with 100,000 dots, and the map with 20,000 and with 100,000 footprints in view, in a real browser, against the same map without them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pu_geo.store.layout import RCF, write_array
from tests.browser.make_project import make_project
from tests.browser.real_app import AppServer, add_hooks, add_island_run, made_up_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIDE_PX = 4096
CLICKS = 12
NEAR_PX = 1.0  # grid pixels per screen pixel, where outlines are drawn
START_SECONDS = 120
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
    pictures = make_project(folder / "pictures", n=n, side=SIDE_PX)
    with opened(folder, n, pictures) as (app, page):
        page.goto(f"{app.address}/damage_map")
        page.wait_for_function(READY, timeout=START_SECONDS * 1000)
        found = {"load_s": page.evaluate("window.__pugeo.loadTime()")["ready"], **_moving(page)}
        page.goto(f"{app.address}/annotate")
        page.wait_for_function(READY, timeout=START_SECONDS * 1000)
        found |= _clicking(page)
    names = ("ours_s", "without_footprints_s", *sorted(found))
    return {name: found[name] / 1000 for name in dict.fromkeys(names)}


@contextmanager
def opened(folder: Path, n: int, pictures: Path | None = None) -> Iterator[tuple[AppServer, Page]]:
    """Serve a made-up project of n buildings with a run of scores, and start a browser."""
    from playwright.sync_api import sync_playwright

    ids = [f"b{i:06d}" for i in range(n)]
    layout = made_up_project(folder / "town.pugeo", ids, pictures=pictures)
    add_island_run(layout, ids)
    rng = np.random.default_rng(0)
    centers = rng.uniform(-10, 10, (12, 2))[np.arange(n) % 12]
    write_array(layout.look("main", RCF), np.eye(12, 64, dtype=np.float32)[np.arange(n) % 12])
    write_array(layout.look_plane("main", RCF), (centers + rng.normal(size=(n, 2))).astype(np.float32))
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    with AppServer(folder / "home", project=layout) as app, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        add_hooks(page)
        yield app, page
        browser.close()


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
    page.wait_for_timeout(1500)  # until the map rests at the queue's building
    page.get_by_title("Show everything").click()
    page.wait_for_timeout(1000)
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


# The scatter of Explore


def bench_scatter_pan(folder: Path) -> dict[str, float]:
    """Pan 100,000 and 1,000,000 made-up dots as a drag does, against clearing an empty canvas; open the screen with 100,000.

    Returns:
        Seconds. `ours_s`, `ours_100k_s` and `empty_s`: from frame to frame, means over 120 (a 60 Hz screen allows no less
        than 0.0167). `longest_s`: the longest of ours, in which the dots are drawn anew. `drawn_s`: what drawing a million
        takes. `opened_s`: from the address until the dots of 100,000 buildings are drawn, the server being warm.
    """
    with _shown(folder / "many", 100_000) as page:
        page.reload()
        page.wait_for_function("window.__pugeo?.scatter().n > 0", timeout=START_SECONDS * 1000)
        opened_ms = page.evaluate("performance.now()")
        page.wait_for_timeout(3000)
        empty, some, many = (
            page.evaluate("(n) => window.__pugeo.measureScatterPan(120, 6, n)", n) for n in (0, 100_000, 1_000_000)
        )
    told = {
        "ours_s": many["mean"], "ours_100k_s": some["mean"], "empty_s": empty["mean"], "longest_s": many["longest"],
        "drawn_s": many["drawn"], "opened_s": opened_ms,
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
    with _shown(folder / "many", 100_000) as page:
        found = page.evaluate("window.__pugeo.measureLasso(5)")
        shown = sorted(page.evaluate("window.__pugeo.measureSelection()")["took"] for _ in range(3))[1]
    if not found["agree"] or not found["n"]:
        raise RuntimeError(f"The line holds {found['n']} dots, and a plain loop finds others.")
    return {"ours_s": found["ours"] / 1000, "plain_loop_s": found["plain"] / 1000, "shown_s": shown / 1000}


@contextmanager
def _shown(folder: Path, n: int) -> Iterator[Page]:
    """Serve a made-up project of n buildings, and show its scatter."""
    with opened(folder, n) as (app, page):
        page.goto(f"{app.address}/explore")
        page.wait_for_function(READY, timeout=START_SECONDS * 1000)
        page.wait_for_timeout(3000)
        yield page
