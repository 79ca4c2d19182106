"""A stranger labels 100 buildings of Joplin by keyboard alone, at human pace, in a real browser; undoes ten, and reloads.

`python -m benchmarks.keyboard_trial [FOLDER]` needs Chromium and ../shared (or $PU_GEO_SHARED) with the Joplin scenes; it takes
about five minutes, and leaves screenshots in FOLDER. The stranger looks at each pair of chips for 1.2 to 2.6 seconds and is
never wrong; major damage and destroyed are positive, un-classified buildings not assessable.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.browser_frames import PROGRAMS
from pu_geo import cli
from pu_geo.analysis import metrics
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout, find_project
from pu_geo.services.annotate import labeling, ranking
from tests.browser.real_app import AppServer, add_hooks

SHARED = Path(os.environ.get("PU_GEO_SHARED", Path(__file__).resolve().parents[2] / "shared"))
N_ANSWERS, N_UNDONE = 100, 10
LOOKS_S = (1.2, 2.6)
LOOKED_AT = (10, 25, 50, 75, 100)
KEYS = {"destroyed": "1", "major-damage": "1", "un-classified": "3"}


def joplin(folder: Path) -> Layout:
    """A project of both Joplin scenes with chips."""
    scenes = [SHARED / "data" / "joplin_xbd" / f"joplin-tornado_0000000{i}" for i in (0, 1)]
    path = str(folder / "joplin.pugeo")
    steps = [
        ["init", path, "--name", "Joplin"],
        ["add-scene", path, *(word for scene in scenes for role in ("pre", "post") for word in (f"--{role}", str(scene / f"{role}.tif")))],
        *(["add-footprints", path, str(scene / "buildings.geojson")] for scene in scenes),
        ["chip", path],
    ]  # fmt: skip
    for step in steps:
        if cli.main([*step, "--json"]):
            raise RuntimeError(f"{step[0]} failed")
    return find_project(path)


def truth_of(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        table = contents.footprints(db)
    return {building: str(row["damage"]) for building, row in zip(table.building_ids, table.attributes, strict=True)}


def auc_now(layout: Layout, truth: dict[str, str]) -> float | None:
    """AUC of the instant ranker on the buildings that nobody has answered and whose grade is known."""
    scores = ranking.scores_now(layout)
    if scores is None:
        return None
    answered = labeling.current_labels(layout)
    order = list(ranking.positions(layout))
    is_used = np.array([building not in answered and truth[building] != "un-classified" for building in order])
    damaged = np.array([KEYS.get(truth[building]) == "1" for building in order])
    return round(float(metrics.auc(scores[is_used], damaged[is_used])), 3)


def trial(folder: Path) -> dict[str, Any]:
    """Do all of it; return the figures."""
    from playwright.sync_api import sync_playwright

    layout = joplin(folder)
    truth = truth_of(layout)
    program = next((path for name in PROGRAMS if (path := _which(name))), None)
    pace = random.Random(0)
    with AppServer(folder / "home", project=layout, analyst="stranger") as app, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 950})
        add_hooks(page)
        page.goto(f"{app.address}/annotate")
        page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
        seconds, curve = _label(page, layout, truth, pace, folder)
        _settle(page)
        for _ in range(N_UNDONE):
            page.keyboard.press("Control+z")
            page.wait_for_timeout(150)
        _settle(page)
        stored = labeling.current_labels(layout)
        page.reload()
        page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
        page.wait_for_timeout(2000)
        page.screenshot(path=folder / "reloaded.png")
        shown = page.evaluate("window.__pugeo.labels()")
        browser.close()
    with store.connect(layout) as db:
        n_events = labels.last_event(db)
    return {
        "answers": N_ANSWERS, "seconds": round(seconds, 1), "auc": curve, "standing_after_undo": len(stored),
        "events": n_events, "page_equals_store_after_reload": shown == stored,
        "wrong": sum(_key(truth[building]) != {"positive": "1", "not_damaged": "2"}.get(label, "3") for building, label in stored.items()),
    }  # fmt: skip


def _label(
    page: Any, layout: Layout, truth: dict[str, str], pace: random.Random, folder: Path
) -> tuple[float, dict[int, Any]]:
    began, curve = time.monotonic(), {}
    before = None
    for number in range(1, N_ANSWERS + 1):
        page.wait_for_function(
            "(seen) => ![null, undefined, seen].includes(window.__pugeo.queue().current)", arg=before, timeout=30_000
        )
        before = page.evaluate("window.__pugeo.queue().current")
        page.wait_for_timeout(1000 * pace.uniform(*LOOKS_S))
        key = _key(truth[before])
        page.keyboard.press(key)
        if key == "3":
            page.wait_for_timeout(400)
            page.keyboard.press("u")  # unclear
        if number in LOOKED_AT:
            paused = time.monotonic()
            page.wait_for_timeout(1500)
            curve[number] = auc_now(layout, truth)
            page.screenshot(path=folder / f"after_{number}.png")
            began += time.monotonic() - paused
    return time.monotonic() - began, curve


def _key(grade: str) -> str:
    return KEYS.get(grade, "2")


def _settle(page: Any) -> None:
    page.wait_for_function("window.__pugeo.pending() === 0", timeout=30_000)
    page.wait_for_timeout(1000)


def _which(name: str) -> str | None:
    import shutil

    return shutil.which(name)


def main(folder: str = "") -> None:
    if not (SHARED / "data" / "joplin_xbd").is_dir():
        print(f"skipped: no Joplin scenes under {SHARED}.")
        return
    place = Path(folder or tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    print(json.dumps(trial(place)))


if __name__ == "__main__":
    main(*sys.argv[1:2])
