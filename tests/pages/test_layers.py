"""Layers on the Imagery page, without a browser: added by a form, listed with who lacks them, removed, refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_parts import plain, press, show
from layer_parts import speckle, town_layer
from small_parts import job_of

from pu_geo import jobs
from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery.chip import chip
from pu_geo.tasks.imagery.layers import add_layer

pytestmark = pytest.mark.usefixtures("home", "without_features")


def wait(layout: Layout, task: str) -> jobs.JobView:
    newest = next(job for job in jobs.all_jobs(layout) if job.task == task)
    return jobs.wait(layout, newest.job_id, seconds=120)


@pytest.mark.slow
def test_a_layer_is_added_by_the_form_and_leaves_its_fields(chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "height.tif", speckle(256, 320, bands=1) * 20)
    app = show("imagery", chipped_town)
    app.text_area(key="layer_paths").input(str(path))
    app.text_input(key="layer_name").input("height")
    app.selectbox(key="layer_when").select("none")
    app.selectbox(key="layer_kind").select("elevation").run()
    press(app, "add-layer")
    assert wait(chipped_town, "add_layer").state == "done"
    app = show("imagery", chipped_town)
    assert app.text_area(key="layer_paths").value == ""
    (shown,) = (one.value for one in app.dataframe if "Layer" in one.value.columns)
    assert shown[["Layer", "Date", "Kind", "Files", "Bands", "Buildings without it"]].to_numpy().tolist() == [
        ["height", "no date", "elevation in m", 1, 1, "not in the chips yet"]
    ]
    assert "1 pre · 1 post · 1 layer" in " ".join(step.label for step in app.expander)
    assert "one of its 256 steps is" in plain(app)


@pytest.mark.slow
def test_a_layer_is_listed_with_who_lacks_it_and_removed(chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "sar.tif", speckle(256, 160), box=(0, 0, 0.5, 1))
    add_layer(job_of(chipped_town), name="sar-post", paths=[str(path)], kind="sar-db")
    chip(job_of(chipped_town), size_px=32)
    facts = contents.chip_facts(chipped_town, str(store.call(chipped_town, contents.latest_chip_set)))
    lacks = contents.is_missing(facts)[2]
    app = show("imagery", chipped_town)
    (shown,) = (one.value for one in app.dataframe if "Layer" in one.value.columns)
    assert shown["Buildings without it"].tolist() == [f"{lacks.sum()} of {len(lacks)}"]
    app.toggle(key="change-layers").set_value(True).run()
    press(app, "remove-layer")
    assert "The layer sar-post (2 bands, 1 file) goes" in plain(app)
    press(app, "removal-do")
    assert store.call(chipped_town, contents.layers) == ()
    path.unlink()


def test_what_cannot_be_a_layer_is_refused_in_words(chipped_town: Layout) -> None:
    app = show("imagery", chipped_town)
    app.text_input(key="layer_name").input("a/b")
    app.text_area(key="layer_paths").input("/nowhere.tif").run()
    press(app, "add-layer")
    assert "A layer cannot be called 'a/b'" in plain(app)
    app.text_input(key="layer_name").input("sar")
    app.text_input(key="layer_nodata").input("none").run()
    press(app, "add-layer")
    assert "is no number" in plain(app)
    assert not [job for job in jobs.all_jobs(chipped_town) if job.task == "add_layer"]


@pytest.mark.slow
def test_a_lost_file_of_a_layer_is_asked_for(chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "sar.tif", speckle(256, 320))
    add_layer(job_of(chipped_town), name="sar-post", paths=[str(path)], kind="sar-db")
    path.unlink()
    assert "sar-post-1 (sar.tif)" in plain(show("imagery", chipped_town))
