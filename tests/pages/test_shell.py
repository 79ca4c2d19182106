"""The frame around every screen: steps with their state, other projects, analysts, and a project that is damaged or may not be changed."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from app_parts import checked, press, shell
from model_parts import with_chips
from small_parts import REPOSITORY, add_chips, add_run, click, small_project
from streamlit.testing.v1 import AppTest

from pu_geo.answers import labeling
from pu_geo.errors import ProjectError
from pu_geo.lifecycle import projects, recovery
from pu_geo.store import backups, store
from pu_geo.store.layout import Layout
from pu_geo.ui import texts
from pu_geo.ui.damage_map import texts as map_texts

pytestmark = pytest.mark.usefixtures("home")

SCREENS = ("project", "imagery", "annotate", "train", "explore", "damage_map")


def test_steps_follow_what_the_project_has(tmp_path: Path) -> None:
    empty = store.create(tmp_path / "empty.pugeo", "Empty")
    assert list(map(projects.summary(empty).state, SCREENS)) == ["done", "next", "blocked", "blocked", "blocked", "blocked"]
    town = small_project(tmp_path / "town.pugeo")

    def states(**more: bool) -> list[str]:
        summary = dataclasses.replace(projects.summary(town), n_post=1, n_chips=20, **more)
        return [summary.state(screen) for screen in SCREENS]

    add_chips(town, [f"b{i}" for i in range(20)])
    assert states() == ["done", "done", "next", "blocked", "blocked", "blocked"]
    click(town, *[f"b{i}" for i in range(projects.ENOUGH_CLICKS)])
    assert states() == ["done", "done", "done", "next", "blocked", "blocked"]
    add_run(town)
    assert states() == ["done", "done", "done", "done", "open", "next"]
    assert states(is_exported=True)[-1] == "done"


def test_another_project_is_one_click_away_and_one_that_went_away_is_refused_in_words(tmp_path: Path) -> None:
    first, second, third = (small_project(tmp_path / f"{name}.pugeo", name=name) for name in ("Flood", "Fire", "Gone"))
    for layout in (third, second, first):
        projects.open_project(str(layout.folder))
    app = shell(first)
    switches = {each: f"switch-{projects.token_of(each)}" for each in (first, second, third)}
    assert [app.button(key=key).label for key in switches.values()] == ["Flood", "Fire", "Gone"]
    (third.folder / "project.gpkg").unlink()
    checked(app.button(key=switches[third]).click().run())
    assert app.session_state["project"] == str(first.folder)
    assert app.error
    checked(app.button(key=switches[second]).click().run())
    assert app.session_state["project"] == str(second.folder)
    assert app.button(key=switches[second]).disabled, "the open one is marked"


def test_each_browser_keeps_its_analyst_and_the_first_choice_is_the_machines(project: Layout) -> None:
    ann, bob = shell(project), shell(project)
    ann.text_input(key="analyst_name").set_value("ann").run()
    checked(bob.text_input(key="analyst_name").set_value("bob").run())
    assert labeling.default_analyst() == "ann"
    checked(ann.text_input(key="analyst_name").set_value("anna").run())  # who chose the machine's name may put it right
    assert labeling.default_analyst() == "anna"
    for app, name in ((ann, "anna"), (bob, "bob")):
        assert app.query_params["analyst"] in (name, [name])
    again = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=30)  # as a reload
    again.query_params["analyst"] = "bob"
    assert again.run().text_input(key="analyst_name").value == "bob"
    assert shell(project).text_input(key="analyst_name").value == "anna"


@pytest.mark.parametrize("has_backup", [True, False])
def test_every_screen_of_a_damaged_project_restores_it_and_saves_its_labels(project: Layout, *, has_backup: bool) -> None:
    if has_backup:
        backups.make(project, "asked")
    click(project, "b1", "b2")
    with store.connect(project) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    project.gpkg.write_bytes(project.gpkg.read_bytes()[:8192])
    app = shell(project)
    assert texts.DAMAGED in app.error[0].value
    assert app.button(key="restore-damaged").disabled is not has_backup
    assert recovery.labels_of_journal(project)[1] == 2
    if has_backup:
        app = press(app, "restore-damaged")
        restored = Layout(Path(app.session_state["project"]))
        assert restored.folder.name == "event-restored.pugeo"
        assert [*labeling.current_labels(restored)] == ["b1", "b2"]
        assert texts.DAMAGED not in " ".join(one.value for one in app.error)


def test_every_screen_of_a_read_only_project_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = with_chips(small_project(tmp_path / "event.pugeo"))
    add_run(layout, arrays={"embeddings": np.eye(20, dtype=np.float32)})
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: "event.pugeo" not in str(path) and real(path, mode, **more))
    before = {path: path.read_bytes() for path in layout.folder.rglob("*") if path.is_file()}
    app = shell(layout)
    assert "viewed and exported, not changed" in " ".join(one.value for one in app.info)
    for screen in ("imagery", "annotate", "train", "explore", "damage_map"):
        app.session_state["goes-to"] = screen
        app = checked(app.run())
        assert not app.error, (screen, app.error[0].value)
    app = press(app, "export")
    assert map_texts.READ_ONLY in " ".join(one.value for one in app.info)
    assert f"pu-geo export {layout.folder} --run ranker-1" in app.code[0].value
    assert not [button for button in app.button if button.key == "export-confirm"]
    with pytest.raises(ProjectError) as caught:
        click(layout, "b2")
    assert caught.value.kind == "read_only"
    assert {path: path.read_bytes() for path in before} == before
