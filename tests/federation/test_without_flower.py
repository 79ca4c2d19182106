"""Without the extra, the verbs of a federation between machines name what installs it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine

from pu_geo.federation.deployed import INSTALL
from pu_geo.project.layout import Layout

Pair = tuple[Layout, Layout]


@pytest.mark.parametrize(
    "words",
    [
        ("join", "joplin.pugeo", "invitation.json", "--as", "flooded"),
        ("admit", "joplin.pugeo", "storms", "request-1.json"),
        ("serve", "joplin.pugeo", "storms", "--types", "destroyed"),
    ],
)
def test_a_verb_names_the_extra(
    agencies: Pair, run: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *more: Any) -> Any:
        return None if name == "flwr" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("federate", *words)
    assert (code, out) == (2, ""), "nothing is promised before"
    assert INSTALL in err
