"""Draw the pictures in docs/images anew: the six screens and the damage types of the sample event, by the app itself in
Chromium.

`python -m docs.pictures [FOLDER]` takes some minutes: the sample event is prepared, clicked, trained, audited and exported
first.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from shutil import which

from playwright.sync_api import Page, sync_playwright

from pu_geo import Project
from pu_geo.answers import random_checks
from pu_geo.assessment import random_audits
from pu_geo.store import chosen
from pu_geo.store.layout import HOME_VARIABLE, Layout
from pu_geo.ui.damage_map.texts import TAB_TYPES
from tests.browser import steps
from tests.browser.conftest import FLAGS, PROGRAMS, address_of
from tests.browser.real_app import REPOSITORY, AppServer, add_hooks
from tests.small_parts import answer, op_of, with_key

IMAGES = REPOSITORY / "docs" / "images"
SCREENS = {
    "project": "Project", "imagery": "Imagery", "annotate": "Annotate", "train": "Train", "explore": "Explore",
    "damage_map": "Damage map",
}  # fmt: skip
WIDTH, HEIGHT = 1440, 900
N_CLICKS, N_CHECKS = 24, 40
TYPES = ("flooded", "roof")
N_OF_EACH = 12  # buildings a type: from 10 on its scores are shown


def town() -> dict[str, dict[str, str]]:
    """Return building id -> what is true of it."""
    features = json.loads((REPOSITORY / "sample_data" / "footprints.geojson").read_text(encoding="utf-8"))["features"]
    return {each["properties"]["uid"]: each["properties"] for each in features}


def worked_on(folder: Path) -> tuple[Project, Layout]:
    """The sample event after clicks, a training, an audit and an export."""
    project, layout = Project.sample(folder, progress=False), Layout(folder)
    damaged = {building for building, true in town().items() if true["damage"] not in ("no-damage", "minor-damage")}
    project.label([each for each in project.building_ids() if each in damaged][::3][:N_CLICKS], analyst="ann")
    project.look()
    run = project.train(preset="quick")
    check = random_audits.begin_audit(layout, run.run_id, N_CHECKS, "ann")
    queue = random_audits.advance_check(layout, "ann", check, done=None)
    while queue.items:
        for item in queue.items:
            label = "positive" if item.building_id in damaged else "not_damaged"
            chance = random_checks.inclusion_now(layout, "ann", item.building_id)
            answer(layout, op_of(item.building_id, label, shown="audit", inclusion=chance))
        queue = random_audits.advance_check(layout, "ann", random_checks.load(layout, check.id), done=queue.id)
    random_audits.end(layout, check.id)
    project.publish(("geojson",))
    return project, layout


def train_on_types(project: Project, layout: Layout) -> None:
    """Name the types of some buildings, and show a run that learned them."""
    true = {building: set(filter(None, (each["types"] or "").split("; "))) for building, each in town().items()}
    for name in TYPES:
        having = [building for building in project.building_ids() if name in true[building]][:N_OF_EACH]
        answer(layout, *(op_of(each, damage_types=tuple(sorted(true[each] & set(TYPES)))) for each in having))
    chosen.choose_run(layout, project.train("herocon", preset="quick", types_from="answers").run_id)


def draw(page: Page, out: Path, name: str) -> None:
    """Write a picture of the window once nothing changes in it any more."""
    page.wait_for_load_state("networkidle")
    steps.settled(page)
    steps.still(page, page.locator(".stApp"))
    page.screenshot(path=out / f"{name}.jpg", type="jpeg", quality=82)


def main(out: Path = IMAGES) -> None:
    """Draw all of them into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(which, PROGRAMS)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        home = with_key(Path(folder) / "home")
        os.environ[HOME_VARIABLE] = str(home)
        project, layout = worked_on(Path(folder) / "joplin.pugeo")
        with AppServer(home) as app:
            browser = driver.chromium.launch(executable_path=program, args=FLAGS)
            page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
            add_hooks(page.context)
            page.goto(address_of(app, layout))
            for screen, title in SCREENS.items():
                steps.go(page, title)
                if screen in ("annotate", "explore", "damage_map"):
                    steps.wait_for_view(page, screen)
                    steps.ask(page, "tiled")
                    page.wait_for_function("window.__pugeo.isPictured")
                draw(page, out, screen)
            train_on_types(project, layout)
            page.goto(address_of(app, layout, "damage_map"))
            steps.wait_for_view(page, "damage_map")
            page.get_by_role("tab", name=TAB_TYPES).click()
            page.locator(".js-plotly-plot").nth(1).wait_for(timeout=steps.PATIENCE_MS)
            draw(page, out, "damage_types")
            browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
