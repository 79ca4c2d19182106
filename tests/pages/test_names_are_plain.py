"""Names out of files and of other people: no link, no picture from elsewhere, wherever a screen shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import plain, show, words
from small_parts import add_run, small_grid, small_scene, square_table

from pu_geo.project import contents, store
from pu_geo.project.layout import Layout
from pu_geo.services.train import run_names

PICTURE = "![x](https://elsewhere.example/x.png)"
pytestmark = pytest.mark.usefixtures("home")


def test_warnings_of_an_imported_run_are_plain_and_few(project: Layout) -> None:
    add_run(project, warnings=tuple(f"{i} {PICTURE}" for i in range(40)))
    app = show("train", project)
    assert PICTURE not in words(app)
    assert plain(app).count("![x](https:") == 5
    assert "35 more warnings" in words(app)


def test_the_name_of_the_newest_run_is_plain(project: Layout) -> None:
    add_run(project)
    run_names.rename(project, "ranker-1", PICTURE)
    value = next(each.value for each in show("project", project).metric if each.label == "Last run")
    assert PICTURE not in value
    assert value.replace("\\", "").replace("\u2060", "") == PICTURE


def test_the_name_of_a_scenes_file_is_plain(tmp_path: Path) -> None:
    layout = store.create(tmp_path / "event.pugeo", "Event")
    with store.connect(layout) as db:
        pre = replace(small_scene(), scene_id="pre-1", role="pre", path="post_![x](y).tif")
        contents.add_scenes(db, [pre, small_scene()], small_grid())
        contents.add_footprints(db, square_table(20))
    app = show("imagery", layout)
    value = next(each.value for each in app.metric if each.label == "File names")
    assert "![x](y)" not in value
    assert "**File names: post_![x]" not in words(app)
