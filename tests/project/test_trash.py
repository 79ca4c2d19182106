"""What an open of a project does under `trash/`: it ends what was left half done, and takes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_parts import small_project

from pu_geo.errors import ProjectError
from pu_geo.project import removals, store
from pu_geo.project.layout import Layout
from pu_geo.tasks.project import doctor


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return small_project(tmp_path / "small.pugeo")


def draft(layout: Layout, text: str) -> Path:
    """Quicklooks that take the place of those that are there, if any are."""
    made = layout.folder / "quicklooks.new"
    made.mkdir()
    (made / "made.txt").write_text(text)
    return made


def exchange(layout: Layout) -> int:
    """A removal that puts quicklooks into the place of those that are there, if any are."""
    new = {"quicklooks": draft(layout, "new")}
    done = removals.remove(
        layout, "scene", "x", analyst="ann", watched=[], change=lambda db: None, files=["quicklooks"], new=new, facts={"title": "x"}
    )  # fmt: skip
    return done.number


def shown(layout: Layout) -> str | None:
    path = layout.quicklooks / "made.txt"
    return path.read_text() if path.exists() else None


def test_files_where_there_were_none_stay_at_every_open(layout: Layout) -> None:
    exchange(layout)
    for _ in range(2):
        removals.settle(layout)
        assert shown(layout) == "new"


def test_an_undo_takes_away_what_came_where_there_was_nothing(layout: Layout) -> None:
    number = exchange(layout)
    removals.undo(layout, number, analyst="ann")
    assert shown(layout) is None


@pytest.mark.parametrize("before", [None, "old"])
def test_a_kill_before_the_files_were_moved_is_ended_by_the_next_open(
    before: str | None, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before:
        draft(layout, before).rename(layout.quicklooks)
    with monkeypatch.context() as patched:
        patched.setattr(removals, "_move_away", lambda *_: None)
        exchange(layout)
    assert shown(layout) == before
    removals.settle(layout)
    assert shown(layout) == "new"
    removals.undo(layout, store.call(layout, removals.all_removals)[0].number, analyst="ann")
    assert shown(layout) == before


def test_a_folder_of_a_person_in_the_trash_stays_and_is_named(layout: Layout) -> None:
    own = layout.trash / "keep me"
    own.mkdir(parents=True)
    (own / "a.txt").write_text("x")
    removals.settle(layout)
    assert (own / "a.txt").read_text() == "x"
    assert [one.level for one in doctor.examine(layout) if "keep me" in one.words] == ["note"]


@pytest.mark.parametrize("listed", ["", "{", '["../a"]', '{"files": []}', "3", None])
def test_the_only_copy_of_files_stays_where_it_is_not_known_whose_they_are(listed: str | None, layout: Layout) -> None:
    folder = layout.trash / ("0" * 16)
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "a.txt").write_text("x")
    if listed is not None:
        (folder / "files.json").write_text(listed)
    removals.settle(layout)
    assert (folder / "old" / "a.txt").read_text() == "x"
    assert removals.not_settled(layout) == [folder]


@pytest.mark.parametrize("listed", ['["a.txt"]', '{"files": ["a.txt"], "fresh": []}'])
def test_what_was_stopped_before_its_log_comes_back(listed: str, layout: Layout) -> None:
    folder = layout.trash / ("0" * 16)
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "a.txt").write_text("x")
    (folder / "files.json").write_text(listed)
    removals.settle(layout)
    assert (layout.folder / "a.txt").read_text() == "x"
    assert not folder.exists()


def test_what_was_stopped_before_it_moved_anything_leaves_nothing(layout: Layout) -> None:
    (layout.trash / ("0" * 16) / "old").mkdir(parents=True)
    removals.settle(layout)
    assert not list(layout.trash.glob("*/"))


def test_features_that_were_computed_again_are_not_overwritten_by_an_undo(layout: Layout) -> None:
    path = layout.folder / "chips" / "set.dino.features.npy"
    path.parent.mkdir(exist_ok=True)
    path.write_text("first")
    name, facts = str(path.relative_to(layout.folder)), {"title": "features dino"}
    number = removals.remove(
        layout, "features", "set.dino", analyst="ann", watched=[], change=lambda db: None, files=[name], facts=facts
    ).number  # fmt: skip
    path.write_text("second")
    with pytest.raises(ProjectError, match="made anew since"):
        removals.undo(layout, number, analyst="ann")
    assert path.read_text() == "second"
    path.unlink()
    removals.undo(layout, number, analyst="ann")
    assert path.read_text() == "first"
