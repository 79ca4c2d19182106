"""The pictures in docs/images: the six screens with the sample event, from clicks to an audited export, drawn by the app itself.

`PU_GEO_DOCS_IMAGES=docs/images pytest tests/browser/test_docs_images.py` draws them anew; with
`tests/browser/test_layers_and_types.py` that of the damage types, too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from small_parts import REPOSITORY, answer, op_of

from pu_geo import Project
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import random_audits
from pu_geo.services.project import projects
from tests.browser import steps

pytestmark = [pytest.mark.browser, pytest.mark.long]
SCREENS = {
    "project": "Project", "imagery": "Imagery", "annotate": "Annotate", "train": "Train", "explore": "Explore",
    "damage_map": "Damage map",
}  # fmt: skip
WIDTH, HEIGHT = 1440, 900
N_CLICKS, N_CHECKS = 24, 40


@pytest.fixture
def worked_on(sample: Layout) -> Layout:
    """The sample event after clicks, a training, an audit and an export."""
    town = json.loads((REPOSITORY / "sample_data" / "footprints.geojson").read_text())["features"]
    damaged = {
        each["properties"]["uid"] for each in town if each["properties"]["damage"] not in ("no-damage", "minor-damage")
    }
    project = Project.open(sample.folder, progress=False)
    ids = project.building_ids()
    project.label([each for each in ids if each in damaged][::3][:N_CLICKS], analyst="ann")
    run = project.train(preset="quick")
    check = random_audits.begin_audit(sample, run.run_id, N_CHECKS, "ann")
    queue = random_audits.advance_check(sample, "ann", check, done=None)
    while queue.items:
        for item in queue.items:
            label = "positive" if item.building_id in damaged else "not_damaged"
            chance = random_audits.inclusion_now(sample, "ann", item.building_id)
            answer(sample, op_of(item.building_id, label, shown="audit", inclusion=chance))
        queue = random_audits.advance_check(sample, "ann", random_audits.load(sample, check.id), done=queue.id)
    random_audits.end(sample, check.id)
    project.publish(("geojson",))
    return sample


def test_pictures_of_the_screens_are_drawn_and_kept(page, app, worked_on: Layout, tmp_path: Path) -> None:
    kept = REPOSITORY / "docs" / "images"
    out = Path(os.environ.get("PU_GEO_DOCS_IMAGES") or tmp_path)
    projects.open_project(str(worked_on.folder))
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.goto(f"{app.address}/?project={projects.token_of(worked_on)}")
    for screen, title in SCREENS.items():
        steps.go(page, title)
        steps.settled(page)
        if screen in ("annotate", "explore", "damage_map"):
            page.wait_for_function(steps.READY, timeout=60_000)
            steps.ask(page, "rest")
        page.wait_for_timeout(1500)
        page.screenshot(path=out / f"{screen}.jpg", type="jpeg", quality=82)
        picture = cv2.imread(str(out / f"{screen}.jpg"))
        assert picture.shape == (HEIGHT, WIDTH, 3)
        assert np.unique(picture[::7, ::7].reshape(-1, 3), axis=0).shape[0] > 100, "an empty page"
    assert {each.stem for each in kept.glob("*.jpg")} == {*SCREENS, "damage_types"}
