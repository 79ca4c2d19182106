"""The command line in this process."""

import json
from typing import Any

import pytest

from pu_geo import cli


class CommandLine:
    """Runs a command; gives its exit code, stdout and stderr, or one of them where it must end well or be refused."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        code = cli.main([*map(str, words)])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def text(self, *words: object) -> str:
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def json(self, *words: object) -> dict[str, Any]:
        """Return what --json prints."""
        return dict(json.loads(self.text(*words, "--json")))

    def refused(self, *words: object) -> str:
        code, _, err = self(*words)
        assert code == 2, err
        return err
