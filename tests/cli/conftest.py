"""A command line of its own home for every test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pu_geo import cli
from pu_geo.project.layout import HOME_VARIABLE


@pytest.fixture(autouse=True)
def own_home_of_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command; return its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run
