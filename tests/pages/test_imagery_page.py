"""The Imagery page, without a browser: what is next, accounts of files, the area of interest, dates, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_parts import plain, press, show
from small_parts import small_grid, small_scene, square_table

from pu_geo import jobs
from pu_geo.project import aoi, contents, import_log, store
from pu_geo.project.layout import Layout

pytestmark = pytest.mark.usefixtures("home")

WEST = "EPSG:32615; 499900, 3999900, 500070, 4000100"


def wait(layout: Layout, task: str) -> jobs.JobView:
    newest = next(job for job in jobs.all_jobs(layout) if job.task == task)
    return jobs.wait(layout, newest.job_id, seconds=60)


def test_an_empty_project_shows_one_step_and_says_what_the_others_need(tmp_path: Path) -> None:
    app = show("imagery", store.create(tmp_path / "empty.pugeo", "Empty"))
    assert "Next: add the post-event scene" in plain(app)
    assert "Needs footprints first" in plain(app)
    labels = {field.label for field in [*app.text_area, *app.text_input, *app.number_input]}
    assert labels == {
        "Post-event images, one path a line", "Pre-event images (optional)", "Red, green, blue",
        "System, where files name none", "Pictures without any place: size of a pixel, m", "Folder with images/ and labels/",
        "Only names that begin with",
    }  # fmt: skip


def test_the_account_of_each_file_is_shown_with_its_reasons(project: Layout) -> None:
    table = replace(
        square_table(22),
        n_in=25,
        n_dropped=3,
        dropped={"empty": 3},
        is_repaired=np.arange(22) == 21,
        notes=("3 were empty.",),
    )
    with store.connect(project) as db:
        import_log.import_footprints(db, table, "houses_*.geojson")
    app = show("imagery", project)
    shown = next(frame.value for frame in app.dataframe if "In the file" in frame.value.columns)
    assert shown[["File", "In the file", "= kept", "+ repaired", "+ dropped", "Why dropped"]].to_numpy().tolist() == [
        ["houses_*.geojson", 25, 1, 1, 23, "3 empty, 20 here already"]
    ]
    assert "houses_*.geojson: 3 were empty. 20 footprint(s) are in the project already" in plain(app)


def test_an_area_is_typed_taken_away_and_put_back(project: Layout) -> None:
    app = show("imagery", project)
    app.text_input(key="aoi_text").input(WEST).run()
    press(app, "Set the area")
    assert wait(project, "add_aoi").state == "done"
    app = show("imagery", project)
    assert f"{WEST} is the area of interest, 34,000 m2." in plain(app)
    assert "15 of the 20 footprints that are here lie outside it and stay" in plain(app)
    press(app, "Take it away")
    with store.connect(project) as db:
        assert aoi.current(db) is None
    app = show("imagery", project)
    assert "is the area of interest, 0.03" not in plain(app)
    press(app, f"Put back {WEST[:40]}")
    with store.connect(project) as db:
        assert aoi.current(db) is not None


def test_an_area_named_by_file_and_text_at_once_is_refused_in_words(project: Layout) -> None:
    app = show("imagery", project)
    app.text_input(key="aoi_text").input(WEST).run()
    app.text_input(key="aoi_path").input("/nowhere.geojson").run()
    app = press(app, "Set the area")
    assert "or two were" in plain(app)
    assert jobs.all_jobs(project) == []


def test_bands_that_are_no_bands_are_refused_in_words(project: Layout) -> None:
    app = show("imagery", project)
    app.text_area(key="post_paths").input("/nowhere.tif").run()
    app.text_input(key="rgb_bands").input("3, 2").run()
    app = press(app, "Add scenes")
    assert "does not name three bands" in plain(app)
    assert jobs.all_jobs(project) == []


def test_a_pair_says_what_was_repaired_and_what_comes_next(project: Layout) -> None:
    pre = replace(small_scene("pre"), crs="EPSG:4326", gsd_m=1.5)
    with store.connect(project) as db:
        contents.add_scenes(db, [pre], small_grid(), 0.6)
    app = show("imagery", project)
    assert "Next: align pre and post" in plain(app)
    assert "Look at this before you rely on the pair" in plain(app)
    assert "Pre covers post: 60%" in plain(app)
    repaired = "pre-1 reprojected from EPSG:4326 to EPSG:32615; resampled from 1.50 to 0.50 m"
    assert f"How they are read: post-1 unchanged · {repaired}." in plain(app)
