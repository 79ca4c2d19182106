"""Who an answer is stored under: a made-up name that stays, the one that a person chose, never the login name."""

from __future__ import annotations

import getpass
import re
from pathlib import Path

import pytest

from pu_geo.services.annotate.labeling import choose_analyst, default_analyst


@pytest.fixture(autouse=True)
def nobody_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PU_GEO_ANALYST", raising=False)


def test_a_pseudonym_is_made_up_once_and_stays(home: Path) -> None:
    name = default_analyst()
    assert re.fullmatch(r"analyst-[a-z2-9]{4}", name)
    assert getpass.getuser() not in name
    assert default_analyst() == name
    assert (home / "analyst.txt").read_text() == f"{name}\n"


def test_a_name_that_a_person_chose_counts_until_they_choose_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_analyst(" Zoë ")
    assert default_analyst() == "Zoë"
    monkeypatch.setenv("PU_GEO_ANALYST", "ann")
    assert default_analyst() == "ann"
    monkeypatch.delenv("PU_GEO_ANALYST")
    assert not choose_analyst("bob"), "another browser of this server"
    assert default_analyst() == "Zoë"
    assert choose_analyst("Zoe", again=True)
    assert default_analyst() == "Zoe"
    choose_analyst("", again=True)
    assert default_analyst().startswith("analyst-")


@pytest.mark.parametrize("content", [b"\n", b"\xff\xfe", b"a\nb", b"x" * 201])
def test_a_file_that_holds_no_name_is_written_anew(home: Path, content: bytes) -> None:
    home.mkdir(parents=True)
    (home / "analyst.txt").write_bytes(content)
    name = default_analyst()
    assert name.startswith("analyst-")
    assert default_analyst() == name


def test_where_nothing_can_be_kept_the_name_is_still_none_of_the_machine(home: Path) -> None:
    home.write_text("a file, not a folder")
    assert default_analyst() == "analyst"
