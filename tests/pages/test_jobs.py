"""Jobs that pages start, on which devices and cluster; how each state is shown, and what can be asked of it."""

import os

import pytest
from app_parts import Started, field, plain, press, show, words
from model_parts import with_chips
from small_parts import logged_job, small_grid, small_scene

from pu_geo import jobs
from pu_geo.scale import computers
from pu_geo.store import contents, events, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.usefixtures("home")


def test_the_card_of_a_training_that_waits_names_the_one_that_works_and_its_project(project: Layout) -> None:
    waits = logged_job(project, "train", method="ncpu", preset="quick")
    lock = jobs.take_lock(waits)
    events.append(waits, "waiting", {"message": "waiting for train ncpu (job 1 of a*b.pugeo)", "place": 1, "for": "1"})
    app = show("train", project)
    os.close(lock)
    assert "-badge[waiting]" in words(app)
    assert "waiting for train ncpu (job 1 of a*b.pugeo)" in plain(app)
    assert {f"pause-{waits.name}", f"cancel-{waits.name}"} <= {button.key for button in app.button}


def test_train_follows_what_still_loads_and_has_its_chips_once_that_ended(project: Layout) -> None:
    loads = logged_job(project, "chip")
    lock = jobs.take_lock(loads)
    app = show("train", project)
    assert "There are no chips yet" in words(app)
    assert f"cancel-{loads.name}" in {button.key for button in app.button}, "its progress is here"
    with_chips(project)
    events.append(loads, "done", {"result": {}})
    os.close(lock)
    app.run()
    assert "There are no chips yet" not in words(app)


@pytest.fixture
def chipped(project: Layout) -> Layout:
    with store.connect(project) as db, store.transaction(db):
        contents.add_scenes(db, [small_scene("pre")], small_grid())
    return with_chips(project)


def test_jobs_of_imagery_take_the_cluster(chipped: Layout, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "has_dask", lambda: True)
    monkeypatch.setattr("pu_geo.scenes.features.layers_here", lambda _: ["pre", "post"])
    app = show("imagery", chipped)
    press(app, "chip")
    field(app, "Cluster").input("local:0").run()
    assert "names no cluster" in press(app, "chip").error[0].value
    field(app, "Cluster").input(" local:2 ").run()
    for button in ("chip", "make-shared-features", "make-features"):
        press(app, button)
    tasks = ["chip", "features", "features"]
    assert [(task, args.get("cluster")) for task, args in started] == [("chip", ""), *((task, "local:2") for task in tasks)]
    assert started[3][1]["request"]["layers"] == ("pre", "post")
    monkeypatch.setattr(computers, "has_dask", lambda: False)
    app = show("imagery", chipped)
    assert 'pip install "pu-geo[scale]"' in plain(app)
    assert "Cluster" not in {each.label for each in app.text_input}
