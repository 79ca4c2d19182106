"""Projects: found again by token, remembered, summed up."""

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from small_parts import click

from pu_geo.errors import ProjectError
from pu_geo.lifecycle import projects
from pu_geo.scenes import preparation
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout
from pu_geo.ui.project import texts

pytestmark = pytest.mark.usefixtures("home")


def test_token_leads_to_opened_projects_only(project: Layout) -> None:
    token = projects.token_of(project)
    assert projects.resolve(token) is None
    projects.open_project(str(project.folder))
    assert projects.resolve(token) == projects.find(project.folder) == project
    assert str(project.folder) not in token


def test_recent_projects_that_are_gone_or_garbled_do_no_harm(home: Path, project: Layout) -> None:
    rows = [{"path": path, "used_at": store.now()} for path in (str(project.folder), "/gone.pugeo")]
    (home / "recent.json").write_text(json.dumps([*rows, "/text.pugeo", 7, {"no": "path"}]))
    assert projects.recent() == [project]
    project.gpkg.unlink()
    assert projects.recent() == []
    (home / "recent.json").write_text("{broken")
    assert projects.recent() == []


def test_summary_counts_what_is_there(project: Layout) -> None:
    summary = projects.summary(project)
    assert (summary.n_post, summary.n_pre, summary.n_buildings, summary.n_chips) == (1, 0, 20, 0)
    assert (summary.n_positive, summary.last_run, projects.last_export(project)) == (0, None, None)


def test_paths_are_read_one_a_line_with_or_without_quotes() -> None:
    assert preparation.paths_in(" \"/a/b c.tif\" \n\n'/d.tif'\n") == ["/a/b c.tif", "/d.tif"]


def test_home_that_cannot_be_written_is_told(tmp_path: Path, project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "file"))
    with pytest.raises(ProjectError, match="cannot be written"):
        projects.open_project(str(project.folder))


@pytest.mark.parametrize(
    ("name", "folder"),
    [("Türkiye/Straße — ÆØ", "turkiye-strasse-aeo"), ("  ../../etc ", "etc"), ("東京", "event"), ("x" * 200, "x" * 60)],
)
def test_the_folder_of_a_project_follows_from_its_name(name: str, folder: str, home: Path) -> None:
    assert projects.suggested_folder(name) == home / f"{folder}.pugeo"


def test_a_second_project_of_a_name_gets_a_folder_of_its_own(home: Path) -> None:
    made = [projects.create_named("Joplin"), projects.create_named(" joplin "), projects.create_named("Joplin", "elsewhere")]
    assert [layout.folder for layout in made] == [home / f"{name}.pugeo" for name in ("joplin", "joplin-2", "elsewhere")]
    assert projects.create("plain", "Plain").folder == home / "plain.pugeo"
    assert [layout.folder.stem for layout in projects.recent()] == ["plain", "elsewhere", "joplin-2", "joplin"]
    assert projects.summary(made[0]).next_step == "imagery"
    assert projects.suggested_folder("   ") is None
    with pytest.raises(ProjectError, match="no name"):
        projects.create_named("   ", "folder")


def test_cards_show_how_far_each_project_is_and_change_no_file(home: Path, project: Layout, tmp_path: Path) -> None:
    click(project, "b1", "b2")
    broken, other = (projects.create(name, name) for name in ("broken", "other"))
    with store.connect(other) as db:
        db.execute("UPDATE pugeo_meta SET value = '9' WHERE key = 'schema'")
    broken.gpkg.write_bytes(b"no database")
    projects.open_project(str(project.folder))
    before = {path: path.read_bytes() for path in other.folder.iterdir()}
    cards = projects.recent_cards()
    assert [(card.name, card.state, card.n_damaged, card.units.n_buildings) for card in cards] == [
        ("Event", "read", 2, 20), ("other", "schema", 0, 0), ("broken", "unreadable", 0, 0),
    ]  # fmt: skip
    assert {path: path.read_bytes() for path in other.folder.iterdir()} == before
    with pytest.raises(ProjectError, match="another version of PU-Geo: its schema is 9, this one reads 1"):
        projects.open_project(str(other.folder))
    assert cards[0].used_at[:4] == store.now()[:4]


def test_a_card_is_read_once_and_again_after_a_click(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    projects.open_project(str(project.folder))
    with closing(sqlite3.connect(project.gpkg)) as db:
        db.execute("PRAGMA journal_mode=DELETE")  # as a saved copy is
    before = project.gpkg.read_bytes()
    assert (projects.recent_cards()[0].n_damaged, project.gpkg.read_bytes()) == (0, before)
    read = labels.current_labels
    monkeypatch.setattr(labels, "current_labels", lambda *_, **__: pytest.fail("read again though nothing was stored"))
    assert projects.recent_cards()[0].name == "Event"
    monkeypatch.setattr(labels, "current_labels", read)
    with store.connect(project):  # its newest answers are in the log beside the file
        click(project, "b1", "b2")
        assert projects.recent_cards()[0].n_damaged == 2
    click(project, "b3")
    assert projects.recent_cards()[0].n_damaged == 3


def test_a_project_that_another_program_holds_keeps_nobody_waiting(project: Layout) -> None:
    projects.open_project(str(project.folder))
    with closing(sqlite3.connect(project.gpkg, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE pugeo_meta SET value = 'x' WHERE key = 'name'")
        began = time.monotonic()
        assert [card.state for card in projects.recent_cards()] == ["busy"]
        assert time.monotonic() - began < 2
        db.execute("ROLLBACK")
    assert [card.state for card in projects.recent_cards()] == ["read"]


def test_the_sample_is_said_to_have_the_damage_that_its_labels_have() -> None:
    found = json.loads((projects.sample_folder() / "footprints.geojson").read_text(encoding="utf-8"))["features"]
    n = Counter(one["properties"]["damage"] for one in found)
    damaged = n["destroyed"] + n["major-damage"]
    words = (
        f"Of its {len(found):,} buildings {damaged} ({100 * damaged / len(found):.1f} %) are destroyed or have major damage"
    )
    assert f"{words}, {n['minor-damage']} have minor damage." in texts.SAMPLE_ABOUT
