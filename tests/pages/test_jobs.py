"""Jobs that pages start, on which devices and cluster; how each state is shown, what can be asked of it, and the line of all projects."""

import os
from pathlib import Path

import pytest
from app_parts import Started, field, plain, press, show, words
from model_parts import with_chips
from small_parts import logged_job, small_grid, small_project, small_scene

from pu_geo import jobs
from pu_geo.jobs import device_queue
from pu_geo.scale import computers
from pu_geo.store import contents, events, store
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.usefixtures("home")


def test_the_line_names_who_works_and_who_waits_in_which_project(project: Layout, tmp_path: Path) -> None:
    other = small_project(tmp_path / "a*b.pugeo")
    ncpu = {"method": "ncpu", "preset": "quick"}
    first = logged_job(other, "train", ("turn", {}), ("progress", {"share": 0.25, "message": ""}), **ncpu)
    second = logged_job(project, "train", **ncpu)
    locks = [jobs.take_lock(folder) for folder in (first, second)]
    events.append(second, "waiting", {"message": f"waiting for job {first.name} of a*b.pugeo"})
    with device_queue.acquire_device(first, lambda before: None):
        assert [ticket.folder for ticket in device_queue.line()] == [first]
        waiting = device_queue._take(second)[0]
        app = show("train", project)
        os.close(waiting)
    assert "Device queue of this machine" in words(app)
    assert "1. Training NcPU, quick in project *a\\*b* · 25%\n2. Training NcPU, quick · waits" in words(app)
    assert "-badge[waiting]" in words(app)
    assert {f"pause-{second.name}", f"cancel-{second.name}"} <= {button.key for button in app.button}
    assert "Device queue of this machine" not in words(show("train", project))
    for lock in locks:
        os.close(lock)


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
