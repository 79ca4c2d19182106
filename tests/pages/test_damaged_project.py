"""The screens of a project whose database is damaged, or may not be changed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from app_parts import checked, press
from model_parts import with_chips
from small_parts import REPOSITORY, add_run, click, small_project
from streamlit.testing.v1 import AppTest

from pu_geo.errors import ProjectError
from pu_geo.project import store
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.ui import texts
from pu_geo.ui.damage_map import texts as map_texts


@pytest.fixture
def damaged(tmp_path: Path) -> Layout:
    """A project with 600 answers, whose label log has lost a page."""
    layout = small_project(tmp_path / "event.pugeo", 40)
    for _ in range(15):
        click(layout, *(f"b{i}" for i in range(40)))
    with store.connect(layout) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'label_event'").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with layout.gpkg.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(bytes(4096))
    return layout


@pytest.mark.slow
def test_every_screen_shows_what_can_be_saved_and_restores_it(damaged: Layout) -> None:
    with pytest.raises(ProjectError):
        store.open_project(damaged.folder)
    app = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=60)
    app.session_state["project"] = str(damaged.folder)
    app = checked(app.run())
    text = " ".join(one.value for one in (*app.error, *app.markdown))
    assert texts.DAMAGED in text
    assert texts.readable(600, 40, 0) in text
    app = press(app, "restore-damaged")
    restored = Layout(Path(app.session_state["project"]))
    assert restored.folder.name == "event-restored.pugeo"
    assert len(labeling.current_labels(restored)) == 40
    assert texts.DAMAGED not in " ".join(one.value for one in app.error)


@pytest.mark.slow
def test_a_project_that_may_not_be_changed_can_be_viewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = small_project(tmp_path / "event.pugeo", 40)
    click(layout, "b1")
    before = {path: path.stat().st_mtime_ns for path in layout.folder.rglob("*")}
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: "event.pugeo" not in str(path) and real(path, mode, **more))
    app = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=60)
    app.session_state["project"] = str(layout.folder)
    app = checked(app.run())
    assert "viewed and exported, not changed" in " ".join(one.value for one in app.info)
    assert not app.error
    with pytest.raises(ProjectError) as caught:
        click(layout, "b2")
    assert caught.value.kind == "read_only"
    assert labeling.current_labels(layout) == {"b1": "positive"}
    assert {path: path.stat().st_mtime_ns for path in layout.folder.rglob("*") if path.name != ".in_use.lock"} == {
        path: at for path, at in before.items() if path.name != ".in_use.lock"
    }


@pytest.mark.slow
def test_every_screen_of_a_project_that_may_not_be_changed_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = with_chips(small_project(tmp_path / "event.pugeo"))
    add_run(layout, arrays={"embeddings": np.eye(20, dtype=np.float32)})
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: "event.pugeo" not in str(path) and real(path, mode, **more))
    before = {path: path.read_bytes() for path in layout.folder.rglob("*") if path.is_file()}
    for screen in ("imagery", "annotate", "train", "explore", "damage_map"):
        app = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=60)
        app.session_state["project"] = str(layout.folder)
        app.run()
        app.session_state["goes-to"] = screen
        app = checked(app.run())
        assert not app.error, (screen, app.error[0].value)
    app = press(app, "export")
    assert map_texts.READ_ONLY in " ".join(one.value for one in app.info)
    assert f"pu-geo export {layout.folder} --run ranker-1" in app.code[0].value
    assert not [button for button in app.button if button.key == "export-confirm"]
    assert {path: path.read_bytes() for path in before} == before
