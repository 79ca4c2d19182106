"""A project is copied while people click in it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from small_parts import click, small_project

from pu_geo import files
from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.lifecycle.copying import copy_project
from pu_geo.store import in_use, store, versions
from pu_geo.store.layout import Layout, new_array, write_json


def operations(layout: Layout) -> list[str]:
    with closing(sqlite3.connect(layout.gpkg)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in db.execute("SELECT op FROM label_event ORDER BY event")]


def test_copy_has_all_but_what_belongs_to_those_at_work(project: Layout, tmp_path: Path) -> None:
    kept, left = ("chips/set.npy", "jobs/one/spec.json"), ("jobs/one/alive.lock", "runs/r/.scores.npy.1-1.part")
    for name in (*kept, *left, "exports/map.gpkg"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text(name)
    copy_project(project, str(tmp_path / "copy.pugeo"))
    copy_project(project, str(tmp_path / "small.pugeo"), with_exports=False)
    for folder, exports in ((tmp_path / "copy.pugeo", {"exports/map.gpkg"}), (tmp_path / "small.pugeo", set())):
        there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert there - {"project.gpkg", in_use.FILE, files.MARK} == {*kept, *exports}
        assert (folder / "chips" / "set.npy").read_text() == "chips/set.npy"


def test_copies_share_an_id_and_projects_do_not_and_clicks_in_a_copy_stay_there(project: Layout, tmp_path: Path) -> None:
    click(project, "b1", "b2")
    made = copy_project(project, str(tmp_path / "copy.pugeo"))
    assert made["at_event"] == 2
    click(Layout(tmp_path / "copy.pugeo"), "b3")
    assert [len(operations(Layout(tmp_path / name))) for name in ("event.pugeo", "copy.pugeo")] == [2, 3]
    ids = []
    for layout in (project, Layout(tmp_path / "copy.pugeo"), small_project(tmp_path / "other.pugeo")):
        with store.connect(layout) as db:
            ids.append(store.project_id(db))
    assert ids[0] == ids[1] != ids[2]


def test_target_that_cannot_be_is_refused_in_words(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "there.pugeo").mkdir()
    (tmp_path / "file").touch()
    wrong = {"there.pugeo": "exists already", "copy": "ends in .pugeo", "event.pugeo/in.pugeo": "outside the project"}
    for target, words in wrong.items():
        with pytest.raises(ProjectError, match=words):
            copy_project(project, str(tmp_path / target))
    with pytest.raises(PuGeoError, match="cannot be written"):
        copy_project(project, str(tmp_path / "file" / "copy.pugeo"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["event.pugeo", "file", "there.pugeo"]


def test_files_and_folders_get_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    """A group that shares a project works in it with umask 002."""
    before = os.umask(0o002)
    try:
        layout = store.create(tmp_path / "event.pugeo", "Event")
        write_json(layout.folder / "round.json", {})
        with new_array(layout.chips("set"), np.uint8, (3, 3)):
            pass
        with versions.new_version(layout) as (_, made):
            versions.put_facts(made, {})
        copied = Path(str(copy_project(layout, str(tmp_path / "copy.pugeo"))["out"]))
    finally:
        os.umask(before)
    for path in (layout.folder, *layout.folder.rglob("*"), copied, *copied.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o775 if path.is_dir() else 0o664), path
