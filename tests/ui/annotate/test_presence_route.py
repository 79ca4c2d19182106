"""What browsers say of themselves is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pu_geo.project import store
from pu_geo.services.project import projects
from pu_geo.ui.annotate.presence_route import news

GOOD = {"session": "s-1", "analyst": "ann", "building": 3, "since": 0}


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))
    return projects.token_of(projects.create(str(tmp_path / "town.pugeo"), "town"))


def test_two_browsers_hear_of_each_other(token: str) -> None:
    assert news(token, GOOD) == {"event": 0, "labels": {}, "others": []}
    told = news(token, {**GOOD, "session": "s-2", "analyst": "bob", "building": None})
    assert told is not None
    assert [(one["name"], one["building"]) for one in told["others"]] == [("ann", 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": ""}, {"session": 7}, {"session": "x" * 101}, {"analyst": None}, {"building": -1}, {"building": "3"},
        {"building": True}, {"since": -1}, {"since": 1.5}, {"since": None}, {"since": 2**60},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_no_news(token: str, wrong: dict[str, object]) -> None:
    assert news(token, {**GOOD, **wrong}) is None


def test_an_unknown_project_and_one_that_is_gone_are_no_news(token: str, tmp_path: Path) -> None:
    assert news("nobody", GOOD) is None
    store.find_project(str(tmp_path / "town.pugeo")).gpkg.unlink()
    assert news(token, GOOD) is None  # no longer among the recent ones
