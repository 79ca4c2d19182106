"""What an open of a project does under `trash/`: it ends what was left half done, and takes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_parts import small_project

from pu_geo.project import removals, store
from pu_geo.project.layout import Layout


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
