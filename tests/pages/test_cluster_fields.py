"""The fields for a cluster and for devices: folded away, empty, and checked in the words of the command line."""

from __future__ import annotations

from typing import Any

import pytest
from app_parts import field, plain, press, show
from model_parts import with_chips
from small_parts import small_grid, small_scene
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.project import contents, model_files, store
from pu_geo.project.layout import Layout
from pu_geo.services.project import computers

pytestmark = pytest.mark.usefixtures("home")
Started = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found: Started = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: found.append((task, dict(args))) or "job")
    monkeypatch.setattr(computers, "has_dask", lambda: True)
    return found


@pytest.fixture
def chipped(project: Layout) -> Layout:
    with store.connect(project) as db, store.transaction(db):
        contents.add_scenes(db, [small_scene("pre")], small_grid())
    return with_chips(project)


def on(page: str, layout: Layout, cluster: str, **state: object) -> AppTest:
    app = show(page, layout, **state)
    field(app, "Cluster").input(cluster).run()
    return app


@pytest.mark.parametrize(
    ("button", "task"),
    [("chip", "chip"), ("align", "align"), ("make-shared-features", "features"), ("make-features", "features")],
)
def test_jobs_of_imagery_take_the_cluster_of_the_field(
    button: str, task: str, chipped: Layout, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pu_geo.services.imagery.features.layers_here", lambda _: ["pre", "post"])
    press(on("imagery", chipped, " local:2 "), button)
    press(show("imagery", chipped), button)
    assert [(name, args.get("cluster")) for name, args in started] == [(task, "local:2"), (task, None)]


def test_a_model_is_applied_on_the_cluster_of_the_field(
    chipped: Layout, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "read", lambda path: None)
    press(on("train", chipped, "tcp://head-node:8786", **{"model-path": "/data/m.zip"}), "apply-model")
    assert started == [("apply_model", {"path": "/data/m.zip", "cluster": "tcp://head-node:8786"})]


@pytest.mark.parametrize(("page", "button"), [("imagery", "chip"), ("train", "apply-model")])
def test_a_cluster_that_is_none_is_refused_in_words_and_nothing_starts(
    page: str, button: str, chipped: Layout, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "read", lambda path: None)
    app = press(on(page, chipped, "local:0", **{"model-path": "/data/m.zip"}), button)
    assert "asks for '0' workers" in app.error[0].value.replace("\\", "")
    assert "local:" in app.error[0].value.replace("\\", "")
    assert started == []


@pytest.mark.parametrize("page", ["imagery", "train"])
def test_without_dask_the_screen_says_how_to_get_it(page: str, chipped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "has_dask", lambda: False)
    app = show(page, chipped)
    assert 'pip install "pu-geo[scale]"' in plain(app)
    assert "Cluster" not in {each.label for each in app.text_input}


def test_a_training_runs_on_the_devices_of_the_form(chipped: Layout, started: Started) -> None:
    app = show("train", chipped)
    assert app.number_input(key="devices-ncpu").value == 1
    app.number_input(key="devices-ncpu").set_value(3).run()
    press(app, "start-ncpu")
    assert [(args["method"], args["devices"]) for _, args in started] == [("ncpu", 3)]
    assert not [each for each in app.number_input if each.key == "devices-linear"]  # trains on one
