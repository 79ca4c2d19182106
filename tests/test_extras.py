"""Dependencies: each with its reason, and every extra fits beside the app in one environment."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

import pytest
from small_parts import REPOSITORY, need_extra

MODULES = {"backbones": ["timm"], "scale": ["dask.array", "distributed"], "federated": ["flwr.client", "flwr.server"]}


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_is_there_in_the_versions_asked_for_and_fits_beside_the_app(extra: str) -> None:
    """Imported in one interpreter with the library; the command line works with the versions that came with it."""
    need_extra(extra)
    code = f"import pu_geo, pu_geo.ui.routes, torch, {', '.join(MODULES[extra])}; from pu_geo.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Map damaged buildings" in done.stdout


def test_an_extra_that_is_missing_is_a_skip_and_where_it_is_required_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1")  # too old counts as missing
    monkeypatch.setenv("PU_GEO_REQUIRE_EXTRAS", "scale")
    with pytest.raises(pytest.skip.Exception, match=re.escape('pip install "pu-geo[backbones]"')):
        need_extra("backbones")
    with pytest.raises(pytest.fail.Exception, match="requires it"):
        need_extra("scale")


def test_each_dependency_states_its_reason() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    lists = text[text.index("dependencies = [") : text.index("[tool.hatch.version]")]
    lines = [line for line in lists.splitlines() if line.startswith('  "')]
    assert len(lines) > 30
    assert [line for line in lines if not re.fullmatch(r'  "[^"]+", *# .{5,}', line)] == []
