"""The frame around every screen: the steps with their state, and the switch to another project."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from small_parts import REPOSITORY, add_chips, add_run, click, small_project
from streamlit.testing.v1 import AppTest

from pu_geo.project import store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.project import projects

pytestmark = pytest.mark.usefixtures("home")
SCREENS = ("project", "imagery", "annotate", "train", "explore", "damage_map")


def states(layout: Layout) -> list[str]:
    summary = projects.summary(layout)
    return [summary.state(screen) for screen in SCREENS]


def shell(layout: Layout | None = None) -> AppTest:
    app = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=30)
    if layout is not None:
        app.session_state["project"] = str(layout.folder)
    app.run()
    assert not app.exception
    return app


def test_steps_follow_what_the_project_has(tmp_path: Path) -> None:
    empty = store.create(tmp_path / "empty.pugeo", "Empty")
    assert states(empty) == ["done", "next", "blocked", "blocked", "blocked", "blocked"]
    town = small_project(tmp_path / "town.pugeo")
    add_chips(town, [f"b{i}" for i in range(20)])
    summary = dataclasses.replace(projects.summary(town), n_post=1, n_chips=20)
    assert [summary.state(screen) for screen in SCREENS] == ["done", "done", "next", "blocked", "blocked", "blocked"]
    click(town, *[f"b{i}" for i in range(projects.ENOUGH_CLICKS)])
    summary = dataclasses.replace(projects.summary(town), n_post=1, n_chips=20)
    assert [summary.state(screen) for screen in SCREENS] == ["done", "done", "done", "next", "blocked", "blocked"]
    add_run(town)
    summary = dataclasses.replace(projects.summary(town), n_post=1, n_chips=20)
    assert [summary.state(screen) for screen in SCREENS] == ["done", "done", "done", "done", "open", "next"]
    assert dataclasses.replace(summary, is_exported=True).state("damage_map") == "done"


def test_another_project_is_one_click_away(tmp_path: Path) -> None:
    first, second = (small_project(tmp_path / f"{name.lower()}.pugeo", name=name) for name in ("Flood", "Fire"))
    for layout in (second, first):
        projects.open_project(str(layout.folder))
    app = shell(first)
    assert [app.button(key=f"switch-{projects.token_of(each)}").label for each in (first, second)] == ["Flood", "Fire"]
    app.button(key=f"switch-{projects.token_of(second)}").click().run()
    assert not app.exception
    assert app.session_state["project"] == str(second.folder)
    assert app.button(key=f"switch-{projects.token_of(second)}").disabled, "the open one is marked"


def test_a_project_that_went_away_is_refused_in_words(tmp_path: Path) -> None:
    first, second = (small_project(tmp_path / f"{name}.pugeo", name=name) for name in ("here", "there"))
    for layout in (second, first):
        projects.open_project(str(layout.folder))
    app = shell(first)
    (second.folder / "project.gpkg").unlink()
    app.button(key=f"switch-{projects.token_of(second)}").click().run()
    assert not app.exception
    assert app.session_state["project"] == str(first.folder)
    assert app.error


def test_each_browser_keeps_its_analyst_and_the_first_choice_is_the_machines(project: Layout) -> None:
    ann, bob = shell(project), shell(project)
    ann.text_input(key="analyst_name").set_value("ann").run()
    bob.text_input(key="analyst_name").set_value("bob").run()
    assert labeling.default_analyst() == "ann"
    ann.text_input(key="analyst_name").set_value("anna").run()  # who chose the machine's name may put it right
    assert labeling.default_analyst() == "anna"
    for app, name in ((ann, "anna"), (bob, "bob")):
        assert not app.exception
        assert app.query_params["analyst"] in (name, [name])
        again = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=30)  # as a reload
        again.query_params["analyst"] = name
        assert again.run().text_input(key="analyst_name").value == name
    assert shell(project).text_input(key="analyst_name").value == "anna"
